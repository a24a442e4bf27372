"""Crawls with a JOBDIR whose disk is full, or whose file is damaged in the meantime."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, Spider, signals
from scrapy.squeues import FifoMemoryQueue, LifoMemoryQueue
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc import OriginPriorityQueue
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.disk import PartKey, request_file
from scrapy_robots_rfc.scheduling.throttle import slot_of
from tests.support import disk_queues
from tests.support.crawling import Crawl, close_when, crawl, listening, records
from tests.support.disk_queues import drained, pages, queue
from tests.support.processes import python
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrapy.crawler import Crawler

CANNOT_WRITE = "Cannot write queued requests to JOBDIR"
DAMAGE = r"""
import os, sys
with open(sys.argv[1], "r+b") as file:
    file.seek(4096)
    file.write(b"\xff" * (os.path.getsize(sys.argv[1]) - 4096))
"""
LOST = "requests that could not be written to JOBDIR"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a small disk, or changes its size."""
    if os.getuid() != 0 or sys.platform != "linux":
        pytest.skip("only root can mount a disk")
    folder = tmp_path / "disk"

    def resize(size: str) -> Path:
        options = f"size={size},remount" if folder.is_mount() else f"size={size}"
        folder.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if subprocess.run(command, check=False, capture_output=True).returncode != 0:
            pytest.skip("mounting is not allowed here")
        return folder

    yield resize
    if folder.is_mount():
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Use all space that is left."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


@pytest.mark.parametrize("size", ["256k", "512k", "1m", "4m"])
def test_requests_leave_a_full_disk(size: str, disk: Callable[[str], Path]) -> None:
    """Requests that were stored can be removed, even if nothing is free. Their space is used for
    new ones.
    """
    folder = disk(size)
    found = queue(folder / "requests.queue")
    sizes = [100, 1000, 4000, 60_000]
    stored: list[str] = []
    refused = 0
    for number, page in enumerate(pages(7, 200)):
        request = page.replace(body=b"x" * sizes[number % 4])
        try:
            found.push(request)
            stored.append(request.url)
        except ValueError:
            refused += 1
        if refused > 20:
            break
    fill(folder)
    popped = drained(found, len(stored) // 2)
    again = 0
    for url in popped:
        fill(folder)
        found.push(Request(f"{url}?again"))
        again += 1
    popped += drained(found, 2000)
    assert sorted(popped) == sorted([*stored, *(f"{url}?again" for url in popped[:again])])
    assert found.close() == {}


def requests(site: Site, count: int) -> list[Request]:
    """Return requests that fill a small disk."""
    return [
        Request(site.url(f"/{number}"), cb_kwargs={"form": "x" * 20_000}) for number in range(count)
    ]


@ensureDeferred
async def test_crawl_on_a_full_disk(
    site: Site, disk: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    """All pages are fetched, although only some of the requests fit on the disk. One line says what
    to do.
    """
    result = await full(site, disk("512k"))
    assert list(result.outcomes.values()) == [200] * 40
    assert result.stats["finish_reason"] == "finished"
    assert result.stats["scheduler/dequeued/memory"] > 0
    assert result.stats["scheduler/dequeued/disk"] > 0
    [line] = [line for line in records(caplog, logging.ERROR) if "queued" in line]
    assert line.startswith(CANNOT_WRITE)
    assert line.endswith("Free disk space, or check the disk")


async def full(site: Site, folder: Path, prepare: Any = lambda _: None, **other: Any) -> Crawl:
    """Crawl 40 pages, whose robots.txt is answered when all of them are queued."""
    queued = when_queued(site, 40, lambda: None)
    # The store of robots.txt files would report the full disk, too.
    settings = {"JOBDIR": str(folder), "ROBOTS_CACHE": "memory:", **other}

    def prepare_both(crawler: Crawler) -> None:
        prepare(crawler)
        queued(crawler)

    return await crawl(requests(site, 40), settings, prepare=prepare_both)


def when_queued(site: Site, pages: int, then: Callable[[], object]) -> Callable[[Crawler], None]:
    """Call a function when all pages are queued, and answer for robots.txt after that."""
    queued, left = threading.Event(), iter(range(1, pages))

    def count() -> None:
        if next(left, None) is None:
            then()
            queued.set()

    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /x\n", gate=queued)
    return listening(count, signals.request_scheduled)


@pytest.mark.parametrize("has_room", [False, True])
@ensureDeferred
async def test_close_on_a_full_disk(
    site: Site, disk: Callable[[str], Path], caplog: pytest.LogCaptureFixture, *, has_room: bool
) -> None:
    """Requests in memory are stored when the spider closes, if there is room again. Otherwise, the
    log says how many were lost.
    """
    folder = disk("512k")

    def is_full(crawler: Crawler) -> bool:
        if crawler.stats.get_value("response_received_count", 0) <= 3:
            return False
        if has_room:
            disk("4m")
        return True

    one_by_one = {"CONCURRENT_REQUESTS": 1, "DOWNLOAD_DELAY": 0.05}
    first = await full(site, folder, close_when(is_full), **one_by_one)
    lost = [line for line in records(caplog, logging.ERROR) if LOST in line]
    count = int(lost[0].split()[-1]) if lost else 0
    assert (count == 0) is has_room
    disk("4m")
    second = await crawl([], {"JOBDIR": str(folder)})
    assert len(site.pages) == len(set(site.pages)) == 40 - count
    assert first.stats["finish_reason"] == "test"
    assert second.stats["finish_reason"] == "finished"


def test_order_of_requests_in_memory(tmp_path: Path) -> None:
    """Requests in memory are stored in the order in which they would have been handed out."""
    crawler = disk_queues.crawler()
    stored = queue(tmp_path, crawler=crawler)
    in_memory = OriginPriorityQueue(crawler, LifoMemoryQueue, "", start_queue_cls=FifoMemoryQueue)
    starts = [page.replace(meta={"is_start_request": True}) for page in pages(1, 6)[3:]]
    for request in [*pages(1, 3), *starts]:
        in_memory.push(request)
    resumed = queue(tmp_path, stored.close())
    assert [url[-1] for url in drained(resumed)] == ["2", "1", "0", "3", "4", "5"]


@ensureDeferred
async def test_file_that_is_damaged_in_the_meantime(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged file ends the crawl with one sentence, and is left as it is."""
    path = tmp_path / "requests.queue" / "requests.sqlite"

    def damage() -> None:
        # Another process does it, because this one would lose its locks on the file.
        python("-c", DAMAGE, str(path))

    queued = when_queued(site, 300, damage)
    result = await crawl(requests(site, 300), {"JOBDIR": str(tmp_path)}, prepare=queued)
    assert result.stats["finish_reason"] == "jobdir_error"
    [line] = [line for line in records(caplog, logging.ERROR) if "Closing" in line]
    assert line == (
        f"Closing the spider, because the queued requests in JOBDIR {tmp_path} cannot be used"
        " (database disk image is malformed). Their file is left as it is"
    )
    assert b"\xff" * 100_000 in path.read_bytes()


@ensureDeferred
async def test_requests_that_are_missing(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If a queued request is not in the file any more, the crawl ends and says so."""

    def take(spider: Spider) -> None:
        folder = tmp_path / "requests.queue"
        for page in queued:
            key = PartKey(slot_of(page, urlparse_cached(page)), str(Origin.of(page.url)))
            assert request_file(spider.crawler, folder).pop(key) is not None

    queued = requests(site, 2)
    taken = listening(take, signals.spider_opened)
    await crawl(queued, {"JOBDIR": str(tmp_path)}, prepare=close_when(lambda _: True))
    result = await crawl([], {"JOBDIR": str(tmp_path)}, prepare=taken)
    assert result.stats["finish_reason"] == "jobdir_error"
    assert any("(requests are missing)" in line for line in records(caplog, logging.ERROR))
