"""Third-party schedulers: a slow or paced site delays only itself, and nothing is lost."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, signals
from scrapy.core.scheduler import Scheduler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.request import request_from_dict
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc.scheduling.scheduler import scheduler_around
from tests.support.crawling import Pages, close_when, crawl, listening, records
from tests.support.schedulers import Own
from tests.support.site import Reply, Site, redirect, robots
from tests.support.timed_site import DELAY, PACED, fetched, gaps, urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Spider
    from scrapy.crawler import Crawler


class Serializing(Own):
    """A scheduler that stores requests as dicts, as with Redis, which survive the crawl."""

    stored: ClassVar[list[dict[str, Any]]] = []
    known: ClassVar[set[str]] = set()

    def __init__(self) -> None:
        super().__init__()
        self.seen = self.known

    def open(self, spider: Spider) -> None:
        self.spider = spider
        self.queue = [request_from_dict(stored, spider=spider) for stored in self.stored]
        self.stored.clear()

    def close(self, _reason: str) -> None:
        self.stored.extend(request.to_dict(spider=self.spider) for request in self.queue)

    def enqueue_request(self, request: Request) -> bool:
        is_new = super().enqueue_request(request)
        if is_new:
            stored = request.to_dict(spider=self.spider)
            self.queue[self.queue.index(request)] = request_from_dict(stored, spider=self.spider)
        return is_new


class Filtered(Pages):
    """Requests pages that the duplicate filter checks."""

    async def start(self) -> AsyncIterator[Any]:
        for request in self.requests:
            yield request.replace(callback=self.parse, errback=self.failed)


@pytest.fixture(params=[Own, "scrapy.core.scheduler.Scheduler"], ids=["own", "scrapy"])
def around(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of a scheduler without our queue, as the add-on sets them."""
    return {
        "SCHEDULER": scheduler_around(request.param),
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
    }


@ensureDeferred
async def test_turn_of_the_only_request(site: Site, around: dict[str, Any]) -> None:
    """A redirected request is sent when its turn comes, even if nothing else happens then."""
    site.replies |= {"/robots.txt": PACED, "/0": redirect("/1"), "/1": redirect("/2")}
    result = await crawl([site.url("/0")], around)
    assert result.outcomes == {site.url("/2"): 200}
    # Scrapy's engine looks for requests every five seconds.
    assert max(gaps(site)) < 10 * DELAY


def opening(gate: threading.Event, others: list[str]) -> type[Pages]:
    """Return a spider that sets an event when all pages of another site were fetched."""

    class Opens(Pages):
        def parse(self, response: Any, **_: Any) -> Any:
            super().parse(response)
            if self.outcomes.keys() >= set(others):
                gate.set()

    return Opens


@pytest.mark.parametrize("is_paced", [False, True])
@pytest.mark.reactor
@ensureDeferred
async def test_slow_site(site: Site, other: Site, around: dict[str, Any], is_paced: bool) -> None:
    """A hanging robots.txt, or a paced site, delays no other site, and its pages follow."""
    gate = threading.Event()
    others, own = urls(other, 20), urls(site, 4 if is_paced else 40)
    if is_paced:
        site.replies |= {"/robots.txt": PACED, "/0": Reply(gate=gate)}
    else:
        site.replies["/robots.txt"] = robots("", gate=gate)
    settings = {**around, "CONCURRENT_REQUESTS": 2}
    pages = [*own[:20], *others, *own[20:]]
    result = await crawl(pages, settings, spider=opening(gate, others))
    assert fetched(result) == result.stat("allowed") == len(pages)
    assert set(list(result.outcomes)[:20]) == set(others)
    assert not is_paced or min(gaps(site)) >= DELAY


@pytest.mark.parametrize(
    ("why", "seconds"),
    [("robots.txt", 1.5), pytest.param("turn", 0.1, marks=pytest.mark.reactor)],
)
@ensureDeferred
async def test_stopped(
    site: Site, why: str, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """When the crawl stops, waiting requests go back to the third-party scheduler, as they were: a
    resumed crawl has them with their `dont_filter`.
    """
    gate = threading.Event()
    site.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 50\n", gate=gate)
    Serializing.stored.clear()
    Serializing.known.clear()
    if why == "turn":
        gate.set()
    looks = iter(range(10_000))

    def waited(crawler: Crawler) -> bool:
        return bool(site.targets) and next(looks) * 0.02 >= seconds

    settings = {"SCHEDULER": scheduler_around(Serializing)}
    result = await crawl(urls(site, 30), settings, spider=Filtered, prepare=close_when(waited))
    gate.set()
    assert result.outcomes == {}
    assert sorted(stored["url"] for stored in Serializing.stored) == sorted(urls(site, 30))
    assert [text for text in records(caplog) if "waited" not in text] == []
    site.replies["/robots.txt"] = robots("")
    pages: list[Request] = []

    def note(request: Request) -> None:
        if not request.url.endswith("/robots.txt"):
            pages.append(request)

    reached = listening(note, signals.request_reached_downloader)
    resumed = await crawl([], settings, spider=Filtered, prepare=reached)
    assert sorted(site.pages) == sorted(f"/{number}" for number in range(30))
    assert resumed.stat("allowed") == 30
    assert not any(request.dont_filter for request in pages)
    assert not any("robots" in key for request in pages for key in request.meta)


@pytest.mark.parametrize("bound", [0, 2])
@ensureDeferred
async def test_more_than_may_wait(
    site: Site, around: dict[str, Any], caplog: pytest.LogCaptureFixture, bound: int
) -> None:
    """Beyond the maximum in memory, requests go back to the user's scheduler."""
    gate = threading.Event()
    site.replies["/robots.txt"] = robots("", gate=gate)

    def is_about_memory(record: logging.LogRecord) -> bool:
        if "memory" in record.getMessage():
            gate.set()
        return True

    caplog.handler.addFilter(is_about_memory)
    small = type("Small", (around["SCHEDULER"],), {"max_aside": bound})
    result = await crawl(urls(site, 20), {**around, "SCHEDULER": small}, spider=Filtered)
    caplog.handler.removeFilter(is_about_memory)
    assert fetched(result) == 20
    [text] = [text for text in records(caplog) if "memory" in text]
    assert text == (
        f"{bound} requests are waiting in memory, which is the maximum, so"
        " more are returned to Small"
    )


@ensureDeferred
async def test_crawl_that_obeys_no_robots_txt(site: Site, around: dict[str, Any]) -> None:
    """Without the middleware, the scheduler works as before."""
    result = await crawl(urls(site, 5), {**around, "ROBOTSTXT_OBEY": False})
    assert fetched(result) == 5
    assert "/robots.txt" not in site.targets


def test_attributes() -> None:
    """The wrapper is a subclass of the scheduler and has its attributes."""
    own = scheduler_around("tests.support.schedulers.Own")()
    assert isinstance(own, Own)
    assert (own.queue, own.seen, type(own).__name__) == ([], set(), "Own")
    scrapys = scheduler_around(Scheduler).from_crawler(get_crawler())
    assert isinstance(scrapys, Scheduler)
    assert isinstance(scrapys.df, RFPDupeFilter)


class Bare:
    """A scheduler with the methods that Scrapy needs."""

    __init__ = Own.__init__
    from_crawler = classmethod(lambda cls, _: cls())
    has_pending_requests = Own.has_pending_requests
    enqueue_request = Own.enqueue_request
    next_request = Own.next_request


ADDON: dict[str, Any] = {"ADDONS": {"scrapy_robots_rfc.Addon": 500}, "DOWNLOADER_MIDDLEWARES": {}}


@ensureDeferred
async def test_without_open_and_close(site: Site) -> None:
    """A scheduler that has neither `open` nor `close` crawls to the end."""
    site.replies["/robots.txt"] = PACED
    result = await crawl(urls(site, 3), {**ADDON, "SCHEDULER": Bare})
    assert fetched(result) == 3
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_class_that_is_not_a_scheduler(site: Site) -> None:
    """A class that is not a scheduler ends the crawl with Scrapy's own error."""
    with pytest.raises(TypeError, match="does not fully implement the scheduler interface"):
        await crawl(urls(site, 1), {**ADDON, "SCHEDULER": RFPDupeFilter})
