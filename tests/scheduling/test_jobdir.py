"""Crawls with JOBDIR, whose requests wait on disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, signals, squeues
from twisted.internet import task

from tests.support.crawling import Pages, crawl
from tests.support.site import Asked, Reply, Site, robots

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.crawler import Crawler

PAGES = 150
#: A file that has to be fetched again every second.
SHORT_LIVED = Reply(
    body=b"User-agent: *\nDisallow: /x\n", headers=(("Cache-Control", "max-age=1"),)
)


class Tree(Pages):
    """Requests two further pages for each page, with two priorities."""

    def parse(self, response: Any, **_: Any) -> Any:
        super().parse(response)
        number = int(response.url.rpartition("/")[2])
        for child in (2 * number + 1, 2 * number + 2):
            if child < PAGES:
                yield Request(
                    response.urljoin(f"/{child}"),
                    callback=self.parse,
                    errback=self.failed,
                    priority=child % 2,
                )


@ensureDeferred
async def test_file_that_expires_while_requests_wait(site: Site, tmp_path: Path) -> None:
    """All pages come from disk, each once, while the robots.txt is fetched again and again."""
    site.replies["/robots.txt"] = SHORT_LIVED
    settings = {
        "JOBDIR": str(tmp_path),
        "ROBOTS_CACHE_MIN_AGE": 0,
        "DOWNLOAD_DELAY": 0.02,
    }
    result = await crawl([site.url("/0")], settings, spider=Tree)
    assert result.outcomes == {site.url(f"/{number}"): 200 for number in range(PAGES)}
    assert sorted(site.pages) == sorted(f"/{number}" for number in range(PAGES))
    assert site.fetches > 2
    assert result.stats["scheduler/dequeued/disk"] == PAGES


class Links(Pages):
    """Requests 20 pages of another site from its first page, with two priorities."""

    linked: str

    def parse(self, response: Any, **_: Any) -> Any:
        if response.url.endswith("/first"):
            for number in range(20):
                yield Request(
                    f"{self.linked}/{number}", callback=self.parse, priority=-(number % 2)
                )


@pytest.mark.parametrize(
    ("queue", "pages"),
    [
        pytest.param(squeues.PickleLifoDiskQueue, 1, marks=pytest.mark.reactor),
        (squeues.PickleLifoDiskQueue, 6),
        (squeues.PickleFifoDiskQueue, 1),
        (squeues.PickleFifoDiskQueue, 6),
    ],
)
@ensureDeferred
async def test_order_after_a_stop(
    queue: type[Any], pages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crawl that stops while robots.txt is fetched, or later, resumes in the order of Scrapy."""
    # Otherwise, Twisted interrupts a callback after 10 ms, so Scrapy's own order would depend on
    # the machine.
    monkeypatch.setattr(task._Timer, "MAX_SLICE", 60.0)

    def slow(_: Asked) -> Reply:
        time.sleep(0.3)
        return robots("User-agent: *\nDisallow: /x\n")

    async def pages_in_order(*, obey: bool) -> list[str]:
        sent: list[str] = []

        def listen(crawler: Crawler) -> None:
            crawler.signals.connect(
                lambda request: sent.append(request.url),
                signals.request_reached_downloader,
                weak=False,
            )

        with Site() as first, Site({"/robots.txt": slow}) as site:
            settings = {
                "CONCURRENT_REQUESTS": 1,
                "CONCURRENT_ITEMS": 100,  # as in Scrapy: all links are queued at once
                "JOBDIR": str(tmp_path / str(obey)),
                "ROBOTSTXT_OBEY": obey,
                "SCHEDULER_DISK_QUEUE": queue,
            }
            spider = type("Spider", (Links,), {"linked": site.url("")})
            for closing in ({"CLOSESPIDER_PAGECOUNT": pages}, {}):
                await crawl(
                    [first.url("/first")],
                    {**settings, **closing},
                    spider=spider,
                    prepare=listen,
                )
            paths = [urlsplit(url).path for url in sent if url.startswith(site.url(""))]
        return [path for path in paths if path != "/robots.txt"]

    without = await pages_in_order(obey=False)
    assert len(without) == 20
    assert await pages_in_order(obey=True) == without
