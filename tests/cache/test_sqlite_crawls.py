"""What crawls with an SQLite file store, and a file that they cannot use."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred

from tests.support.crawling import Crawl, crawl, records
from tests.support.site import Reply, Site, redirect, robots
from tests.support.sqlite_files import locked, opened

if TYPE_CHECKING:
    pass

RULES = "User-agent: *\nDisallow: /x\n"
FORBID = robots(RULES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the file."""
    return tmp_path / "robots.sqlite"


async def obeying(site: Site, path: Path) -> Crawl:
    """Crawl an allowed and a disallowed page, and check the verdicts."""
    pages = [site.url("/x"), site.url("/y")]
    result = await crawl(pages, {"ROBOTS_CACHE": f"sqlite:///{path}"})
    assert result.verdicts(*pages) == ["rule", 200]
    return result


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """Return the one warning about the store."""
    (line,) = [line for line in records(caplog) if "robots.txt store" in line]
    return line


@ensureDeferred
async def test_credentials_stay_out(
    site: Site, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Credentials in URLs are neither sent with robots.txt, stored nor logged, and make no new
    origin (section 3).
    """
    site.replies["/robots.txt"] = Reply(body=RULES.encode(), headers=(("ETag", '"1"'),))
    pages = [
        site.url(path).replace("http://", f"http://{user}:secret@")
        for user, path in (("user-1", "/y"), ("user-2", "/x"))
    ]
    result = await crawl(pages, {"ROBOTS_CACHE": f"sqlite:///{path}"})
    assert result.verdicts(pages[1]) == ["rule"]
    assert site.fetches == 1
    assert "Authorization" not in site.asked[0].headers
    with contextlib.closing(opened(path)) as store:
        assert list(store.keys()) == [site.url("")]
    assert all(b"secret" not in file.read_bytes() for file in path.parent.iterdir())
    assert not any("secret" in line or "user-" in line for line in records(caplog, 0))


@pytest.mark.parametrize("reply", [FORBID, Reply(404)], ids=["file", "missing"])
@ensureDeferred
async def test_crawls_that_follow_other_redirects(
    site: Site, other: Site, path: Path, reply: Reply
) -> None:
    """A crawl that refuses redirects to other hosts shares neither its refusals nor what other
    crawls found there.
    """
    site.replies["/robots.txt"] = redirect(other.url("/r", host="localhost"))
    other.replies["/r"] = reply
    allowed = []
    for redirects in ("same-host", "any") * 2:
        settings = {"ROBOTS_CACHE": f"sqlite:///{path}", "ROBOTS_REDIRECTS": redirects}
        result = await crawl([site.url("/y")], settings)
        allowed.append(result.outcomes[site.url("/y")] == 200)
    assert allowed == [False, True] * 2
    assert other.targets == ["/r"]


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
    error = f"failed (get: OperationalError: {path}.lock is locked by another process)"
    assert error in logged(caplog)
