"""Crawls whose SQLite file is damaged, deleted, full or read-only obey robots.txt."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import resource
import zlib
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc.cache.entry import decode, encode
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.support.cache_entries import FILE
from tests.support.crawling import Crawl, crawl, records
from tests.support.site import Asked, Reply, Site, robots
from tests.support.sqlite_files import damaged, locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.reactor

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
    (line,) = [line for line in records(caplog) if "store of robots.txt files" in line]
    return line


@ensureDeferred
async def test_file_deleted_meanwhile(
    site: Site, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If a file is deleted during a crawl, a new one is created, also for the next crawl."""

    def delete(_: Asked) -> Reply:
        path.unlink()
        return FORBID

    site.replies["/robots.txt"] = delete
    result = await obeying(site, path)
    assert (result.stat("cache/store_errors"), site.fetches) == (0, 1)
    assert not any("store of robots.txt files" in line for line in records(caplog))
    site.replies["/robots.txt"] = FORBID
    await obeying(site, path)
    assert site.fetches == 1


@ensureDeferred
async def test_file_that_cannot_grow(
    site: Site, other: Site, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the disk is full, that is counted and logged once, and the crawl uses its memory."""
    noise = random.Random(1).randbytes(300_000).hex().encode()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(_: Asked) -> Reply:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
        return Reply(
            body=RULES.encode()
            + b"# "
            + b"\n# ".join(noise[i : i + 100] for i in range(0, 450_000, 100))
        )

    site.replies["/robots.txt"] = fill
    try:
        result = await obeying(site, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (result.stat("cache/store_errors"), site.fetches) == (1, 1)
    assert "put: OperationalError: " in logged(caplog)
    other.replies["/robots.txt"] = FORBID
    await obeying(other, path)
    with opened(path) as store:
        assert list(store.keys()) == [other.url("")]


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
    assert "it is renamed to robots.sqlite.damaged" in logged(caplog)


@pytest.mark.parametrize("value", [zlib.compress(b'{"version":2}\n'), encode(FILE)[:-1]])
@ensureDeferred
async def test_unreadable_value_is_fetched_anew(
    site: Site, path: Path, caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    """A value of another version, or a damaged one, is logged, and robots.txt is fetched again."""
    with opened(path) as store:
        store.put(site.url(""), value, 1000)
    site.replies["/robots.txt"] = FORBID
    result = await obeying(site, path)
    assert (result.stat("cache/store_errors"), site.fetches) == (1, 1)
    assert (
        f"has a copy that cannot be read ({site.url('')}: damaged, or not of version 1)"
        in logged(caplog)
    )
    with opened(path) as store:
        assert decode(store.get(site.url("")) or b"").body == RULES.encode()


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
async def test_file_that_another_process_is_opening_for_ever(
    site: Site, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If another process keeps our lock, the crawl continues without the store, and logs that."""
    site.replies["/robots.txt"] = FORBID
    lock = locked(path)
    await obeying(site, path)
    lock.close()
    [line] = (line for line in records(caplog) if "store of robots.txt files" in line)
    assert f"fails (get: OperationalError: {path}.lock is locked by another process)" in line
