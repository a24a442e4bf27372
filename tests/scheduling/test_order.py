"""The order of requests, compared with a crawl that does not obey robots.txt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, signals, squeues
from twisted.internet import task

from tests.support.crawling import Pages, crawl, listening
from tests.support.site import Asked, Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from pathlib import Path

RULES = robots("User-agent: *\nDisallow: /closed/\n")
FIFO = {
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
}


@pytest.fixture(autouse=True)
def _without_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise Twisted interrupts a callback after 10 ms, so Scrapy's own order would depend on
    # the machine.
    monkeypatch.setattr(task._Timer, "MAX_SLICE", 60.0)


def late(seconds: float) -> Any:
    """Return a function that answers with rules after some seconds."""

    def answer(_: Asked) -> Reply:
        time.sleep(seconds)
        return RULES

    return answer


class Linking(Pages):
    """Requests pages, and from the first page 20 pages of another site.

    :param mixed: whether the pages have two priorities.
    """

    links: tuple[str, ...] = ()
    mixed = False

    async def start(self) -> AsyncIterator[Any]:
        for page in self.made(request.url for request in self.requests):
            yield page

    def parse(self, response: Any, **_: Any) -> Any:
        links, self.links = self.links, ()
        yield from self.made(links)

    def made(self, urls: Iterable[str]) -> Iterator[Request]:
        for number, url in enumerate(urls):
            yield Request(url, callback=self.parse, priority=-(number % 2) if self.mixed else 0)


async def order(
    seconds: float,
    settings: dict[str, Any],
    *,
    links: bool = False,
    mixed: bool = False,
    runs: tuple[dict[str, Any], ...] = ({},),
) -> list[str]:
    """Crawl a site with a slow robots.txt, and return its pages in their order.

    :param runs: other settings of each run.
    """
    with Site() as site, Site() as first:
        site.replies["/robots.txt"] = late(seconds)
        pages = [site.url(f"/{number}") for number in range(20)]
        start = [first.url("/")] if links else pages
        left: list[str] = []

        def reached(request: Request) -> None:
            if request.url in pages:
                left.append(urlsplit(request.url).path)

        settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 100, "CONCURRENT_ITEMS": 100, **settings}
        for more in runs:
            await crawl(
                start,
                {**settings, **more},
                spider=Linking,
                mixed=mixed,
                links=tuple(pages) if links else (),
                prepare=listening(reached, signals.request_reached_downloader),
            )
        return left


# test_order_law.py has each kind of queue with every order of events, also of many requests.
@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("default", 0),
        ("disk", 0.02),
        ("priorities", 0.3),
        ("fifo", 0.6),
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
    ("queue", "pages"),
    [
        pytest.param(squeues.PickleLifoDiskQueue, 1, marks=pytest.mark.reactor),
        (squeues.PickleLifoDiskQueue, 6),
        (squeues.PickleFifoDiskQueue, 1),
        (squeues.PickleFifoDiskQueue, 6),
    ],
)
@ensureDeferred
async def test_order_after_a_stop(queue: type[Any], pages: int, tmp_path: Path) -> None:
    """A crawl that stops while robots.txt is fetched, or later, resumes in the order of Scrapy."""
    found = []
    for obey in (False, True):
        settings = {
            "CONCURRENT_REQUESTS": 1,
            "JOBDIR": str(tmp_path / str(obey)),
            "ROBOTSTXT_OBEY": obey,
            "SCHEDULER_DISK_QUEUE": queue,
        }
        runs: Any = ({"CLOSESPIDER_PAGECOUNT": pages}, {})
        found.append(await order(0.3, settings, links=True, mixed=True, runs=runs))
    assert found[0] == found[1]
    assert len(found[0]) == 20
