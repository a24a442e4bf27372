"""Crawls whose SQLite file is damaged, deleted, full or read-only obey robots.txt."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.support.crawling import Crawl, crawl, records
from tests.support.site import Reply, Site, robots
from tests.support.sqlite_files import damaged, locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RULES = "User-agent: *\nDisallow: /x\n"
FORBID = robots(RULES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the file."""
    return tmp_path / "robots.sqlite"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[SqliteStore]:
    """Open the file."""
    store = SqliteStore(path)
    store.open()
    yield store
    store.close()


async def obeying(site: Site, path: Path) -> Crawl:
    """Crawl an allowed and a disallowed page, and check the verdicts."""
    result = await crawl([site.url("/x"), site.url("/y")], {"ROBOTS_CACHE": f"sqlite:///{path}"})
    assert isinstance(result.outcomes[site.url("/x")], RobotsDisallowed)
    assert result.outcomes[site.url("/y")] == 200
    return result


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """Return the one warning about the store."""
    (line,) = [line for line in records(caplog) if "robots.txt store" in line]
    return line


@pytest.mark.reactor
@ensureDeferred
async def test_damaged_file_is_renamed_by_a_crawl(
    site: Site, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged file is renamed with a warning, and robots.txt is fetched and stored again."""
    site.replies["/robots.txt"] = FORBID
    damaged(path)
    for _ in range(2):
        result = await obeying(site, path)
        assert result.stat("cache/store_errors") == 0
    assert site.fetches == 1
    assert "it was renamed to robots.sqlite.damaged" in logged(caplog)


@ensureDeferred
async def test_credentials_are_neither_stored_nor_logged(
    site: Site, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Credentials in URLs are neither stored nor logged."""
    site.replies["/robots.txt"] = Reply(body=RULES.encode(), headers=(("ETag", '"1"'),))
    with_password = site.url("/y").replace("http://", "http://somebody:secret@")
    await crawl(
        [with_password, with_password.replace("/y", "/x")], {"ROBOTS_CACHE": f"sqlite:///{path}"}
    )
    assert site.fetches == 1
    with opened(path) as store:
        assert [key for key in store.keys()] == [site.url("")]  # noqa: C416, SIM118 - no mapping
    assert all(b"secret" not in file.read_bytes() for file in path.parent.iterdir())
    assert all("secret" not in line for line in records(caplog, 0))


@ensureDeferred
async def test_folder_of_the_job_is_locked_by_the_user(site: Site, tmp_path: Path) -> None:
    """The store ignores a lock on the job's folder, such as of `flock` in a crontab."""
    site.replies["/robots.txt"] = FORBID
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    result = await obeying(site, tmp_path / "robots.sqlite")
    os.close(descriptor)
    assert result.stat("cache/store_errors") == 0


@ensureDeferred
async def test_file_that_another_process_keeps_locked(
    site: Site, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If another process keeps our lock, the crawl continues without the store, and logs that."""
    site.replies["/robots.txt"] = FORBID
    lock = locked(path)
    await obeying(site, path)
    lock.close()
    [line] = (line for line in records(caplog) if "robots.txt store" in line)
    assert f"failed (get: OperationalError: {path}.lock is locked by another process)" in line
