"""The order of requests, compared with a crawl that does not obey robots.txt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, signals
from twisted.internet import task

from tests.support.crawling import Pages, crawl
from tests.support.site import Asked, Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

RULES = robots("User-agent: *\nDisallow: /closed/\n")
FIFO = {
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
}


def late(seconds: float) -> Any:
    """Return a function that answers with rules after some seconds."""

    def answer(_: Asked) -> Reply:
        time.sleep(seconds)
        return RULES

    return answer


class Linking(Pages):
    """Requests pages, and from the first page 20 pages of another site."""

    links: tuple[str, ...] = ()

    async def start(self) -> AsyncIterator[Any]:
        """Request the pages, with two priorities if `mixed`."""
        for number, item in enumerate(self.requests):
            yield Request(
                str(item), callback=self.parse, priority=-(number % 2) if self.mixed else 0
            )

    mixed = False

    def parse(self, response: Any, **_: Any) -> Any:
        """Follow all links of the first page."""
        links, self.links = self.links, ()
        for link in links:
            yield Request(link, callback=self.parse)


async def order(
    seconds: float, settings: dict[str, Any], *, links: int = 0, mixed: bool = False
) -> list[str]:
    """Crawl a site with a slow robots.txt, and return its pages in their order."""
    with Site() as site, Site() as first:
        site.replies["/robots.txt"] = late(seconds)
        pages = [site.url(f"/{number}") for number in range(20)]
        spider = type(
            "Spider", (Linking,), {"mixed": mixed, "links": tuple(pages) if links else ()}
        )
        start = [first.url("/")] if links else pages
        left: list[str] = []

        def reached(request: Request) -> None:
            if request.url in pages:
                left.append(urlsplit(request.url).path)

        await crawl(
            start,
            {"CONCURRENT_REQUESTS_PER_DOMAIN": 100, "CONCURRENT_ITEMS": 100, **settings},
            spider=spider,
            prepare=lambda crawler: crawler.signals.connect(
                reached, signals.request_reached_downloader, weak=False
            ),
        )
        return left


# test_order_law.py has each kind of queue with every order of events.
@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("default", 0),
        ("disk", 0.02),
        ("priorities", 0.3),
        ("default", 0.3),
        ("fifo", 1.6),
        ("default", 5),
    ],
)
@ensureDeferred
async def test_one_at_a_time(kind: str, seconds: float, tmp_path: Path) -> None:
    """With one request at a time, the order is the same as without robots.txt."""
    settings: dict[str, Any] = {"fifo": FIFO}.get(kind, {}) | {"CONCURRENT_REQUESTS": 1}
    found = []
    for obey in (False, True):
        more = {"JOBDIR": str(tmp_path / str(obey))} if kind == "disk" else {}
        found.append(
            await order(
                seconds, {**settings, **more, "ROBOTSTXT_OBEY": obey}, mixed=kind == "priorities"
            )
        )
    assert found[0] == found[1]
    assert len(found[0]) == 20


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("links", 0),
        ("fifo", 0.02),
        pytest.param("default", 0.3, marks=pytest.mark.reactor),
        ("links", 0.3),
        ("default", 1.6),
    ],
)
@ensureDeferred
async def test_many_at_a_time(kind: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 16 requests at a time, no page moves by more than two places."""
    # Otherwise Twisted interrupts a callback after 10 ms, so Scrapy's own order would depend on
    # the machine.
    monkeypatch.setattr(task._Timer, "MAX_SLICE", 60.0)
    settings: dict[str, Any] = {"fifo": FIFO}.get(kind, {}) | {"CONCURRENT_REQUESTS": 16}
    found = [
        await order(seconds, {**settings, "ROBOTSTXT_OBEY": obey}, links=20 * (kind == "links"))
        for obey in (False, False, True)
    ]
    plain, again, ours = found

    def moved(other: list[str]) -> int:
        return max(abs(plain.index(page) - other.index(page)) for page in other)

    assert moved(ours) <= max(2, moved(again)) + 2
