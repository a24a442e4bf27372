"""Crawl-delay and Request-rate in real crawls of sites that record when requests arrive."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, signals
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_robots_rfc import robots_service
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.scheduling import throttle
from tests.support.crawling import Pages, at_once, crawl, listening, plugged
from tests.support.running import in_every_runtime
from tests.support.site import Reply, Site, robots
from tests.support.timed_site import DELAY, PACED, Following, fetched, gaps, urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


# Older and newer names of one setting are both tried.
pytestmark = pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")

PAGES = 4


#: Settings that change the delay of a slot, and the shortest interval with them.
MOVING: list[tuple[dict[str, Any], float]] = [
    ({}, DELAY),
    ({"CONCURRENT_REQUESTS_PER_DOMAIN": 1}, DELAY),
    ({"CONCURRENT_REQUESTS_PER_DOMAIN": 8, "CONCURRENT_REQUESTS": 64}, DELAY),
    ({"DOWNLOAD_DELAY": 0.05}, DELAY),
    ({"DOWNLOAD_DELAY": 0.15, "DOWNLOAD_DELAY_JITTER": 1.0}, DELAY),
    ({"DOWNLOAD_DELAY": 0.25, "RANDOMIZE_DOWNLOAD_DELAY": True}, DELAY),
    ({"DOWNLOAD_DELAY": 0.4, "DOWNLOAD_DELAY_JITTER": 0, "RANDOMIZE_DOWNLOAD_DELAY": False}, 0.3),
    ({"DOWNLOAD_SLOTS": {"127.0.0.1": {"delay": 0, "concurrency": 8}}}, DELAY),
    ({"DOWNLOAD_SLOTS": {"127.0.0.1": {"delay": 0.1, "concurrency": 8, "jitter": 1.0}}}, DELAY),
    (
        {
            "AUTOTHROTTLE_ENABLED": True,
            "AUTOTHROTTLE_START_DELAY": 0.01,
            "AUTOTHROTTLE_MAX_DELAY": 0.02,
        },
        DELAY,
    ),
    (
        {
            "AUTOTHROTTLE_ENABLED": True,
            "AUTOTHROTTLE_START_DELAY": 0.01,
            "DOWNLOAD_DELAY": 0.4,
            "RANDOMIZE_DOWNLOAD_DELAY": False,
        },
        0.3,
    ),
    (
        {
            "CONCURRENT_REQUESTS_PER_IP": 8,
            "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
        },
        DELAY,
    ),
]


@ensureDeferred
async def test_what_moves_a_slots_delay() -> None:
    """No setting shortens the interval, and a longer delay of the user counts. Scrapy measures that
    delay by the clock of the crawl, so its mean is checked.
    """

    async def crawl_paced(settings: dict[str, Any], least: float) -> None:
        with Site({"/robots.txt": PACED}) as site:
            result = await crawl(urls(site, PAGES), settings)
        assert fetched(result) == PAGES, settings
        assert site.targets[0] == "/robots.txt", settings
        assert min(gaps(site)) >= DELAY, settings
        assert mean(gaps(site)) >= least, settings

    await at_once(
        *(crawl_paced(settings, least) for settings, least in MOVING)
    )  # each at a site of its own


@ensureDeferred
async def test_exempted_requests(paced: Site) -> None:
    """An exempt request waits for no turn, but the next request waits for an interval after it."""
    requests = [
        Request(url, meta={"dont_obey_robotstxt": n % 2})
        for n, url in enumerate(urls(paced, PAGES))
    ]
    result = await crawl([requests[0]], spider=Following, following=requests[1:])
    assert fetched(result) == PAGES
    arrived = sorted(paced.arrivals)
    since = [
        after - before
        for (before, _), (after, target) in pairwise(arrived)
        if target in {"/0", "/2"}
    ]
    assert min(since) >= DELAY
    assert max(paced.targets.index("/1"), paced.targets.index("/3")) < paced.targets.index("/2")


@ensureDeferred
async def test_request_that_arrives_late(paced: Site) -> None:
    """The interval begins with the answer, so a slow connection does not shorten it."""
    paced.late = {"/0": DELAY * 1.5, "/2": DELAY}
    assert fetched(await crawl(urls(paced, PAGES))) == PAGES
    assert min(gaps(paced)) >= DELAY


@ensureDeferred
async def test_request_without_an_answer(paced: Site) -> None:
    """After a failed request, the interval begins when the request ends."""
    paced.replies["/0"] = paced.replies["/1"] = Reply(reset=True)
    # On an open connection, Twisted would send it again at once.
    paced.replies["/robots.txt"] = replace(PACED, headers=(("Connection", "close"),))
    await crawl(urls(paced, PAGES))
    assert len(paced.targets) == PAGES + 1
    assert min(gaps(paced)) >= DELAY


@ensureDeferred
async def test_long_bodies_overlap(paced: Site) -> None:
    """The next request waits for the beginning of an answer, not for its end."""
    paced.replies["/0"] = Reply(endless=True, body=b"x")
    result = await crawl(
        urls(paced, 3), {"DOWNLOAD_TIMEOUT": 2, "DOWNLOAD_MAXSIZE": 0, "DOWNLOAD_WARNSIZE": 0}
    )
    assert min(gaps(paced)) >= DELAY
    assert fetched(result) == 2
    assert max(gaps(paced)) < 1.5


@pytest.mark.reactor
@ensureDeferred
async def test_origins_in_one_slot(paced: Site, other: Site) -> None:
    """Each origin of a slot has its own interval, and waits for no turn of another origin."""

    def before(site: Site) -> int:
        return sum(when < paced.arrivals[-1][0] for when, _ in site.arrivals)

    other.replies["/robots.txt"] = robots(f"User-agent: *\nCrawl-delay: {DELAY / 4}\n")
    with Site() as free:
        result = await crawl([*urls(paced, 3), *urls(other, 4), *urls(free, 8)])
        assert fetched(result) == 15
        assert min(gaps(paced)) >= DELAY
        assert min(gaps(other)) >= DELAY / 4
        assert before(other) >= 3
        assert before(free) >= 5


@ensureDeferred
async def test_waiting_requests_are_nowhere_in_the_downloader(paced: Site, other: Site) -> None:
    """With CONCURRENT_REQUESTS = 1, pages of a free site are fetched while a paced site waits."""
    settings = {"CONCURRENT_REQUESTS": 1}
    first, *following = map(Request, [*urls(paced, 4), *urls(other, 20)])
    result = await crawl([first], settings, spider=Following, following=following)
    assert fetched(result) == 24
    assert min(gaps(paced)) >= DELAY
    # If waiting requests had the only place, one page would come between two of them.
    moments = [when for when, _ in paced.arrivals]
    between = [sum(a < when < b for when, _ in other.arrivals) for a, b in pairwise(moments)]
    assert max(between) > 2


@ensureDeferred
async def test_slot_of_robots_txt(paced: Site) -> None:
    """A robots.txt request takes the slot of its host, not the slot of the page."""
    slots = []

    def note(request: Request) -> None:
        slots.append(request.meta["download_slot"])

    left = listening(note, signals.request_left_downloader)
    page = Request(paced.url("/0"), meta={"download_slot": "mine"})
    await crawl([page], prepare=left)
    assert slots == ["127.0.0.1", "mine"]


class Asking(Pages):
    """Requests the rules of the site for each page, outside the scheduler."""

    async def parse(self, response: Any, **_: Any) -> None:
        super().parse(response)
        await robots_service(self.crawler).robots(response.url)


@ensureDeferred
async def test_waiting_for_its_turn_is_no_timeout(paced: Site) -> None:
    """The wait of a robots.txt for its turn does not count against ROBOTS_TIMEOUT."""
    interval = 1.2  # longer than any file is fresh here
    paced.replies["/robots.txt"] = robots(f"User-agent: *\nCrawl-delay: {interval}\n")
    settings = {"ROBOTS_TIMEOUT": 2 * DELAY, "ROBOTS_CACHE_MAX_AGE": 2 * DELAY}
    result = await crawl(urls(paced, 1), settings, spider=Asking)
    assert paced.targets == ["/robots.txt", "/0", "/robots.txt"]
    assert result.stat("result/unreachable") == 0
    assert min(gaps(paced)) >= interval


class Images(Pages):
    """Downloads six files outside the scheduler after the robots.txt has become stale."""

    async def parse(self, response: Any, **_: Any) -> None:
        await Runtime().sleep(6 * DELAY)  # the file becomes stale
        download = self.crawler.engine.download_async
        images = [
            deferred_from_coro(download(Request(response.urljoin(f"/{n}")))) for n in range(6)
        ]
        for number, image in enumerate(images):
            self.outcomes[str(number)] = (await maybe_deferred_to_future(image)).status


@pytest.mark.reactor
@ensureDeferred
async def test_file_that_runs_out_while_images_wait(paced: Site) -> None:
    """Requests that bypass the scheduler leave the turn to the robots.txt that they wait for."""
    settings = {
        "ROBOTS_CACHE_MAX_AGE": 2 * DELAY,
        "ROBOTS_CACHE_MIN_AGE": 0,
        "CLOSESPIDER_TIMEOUT": 20,
    }
    result = await crawl(urls(paced, 1), settings, spider=Images)
    assert result.outcomes == {str(number): 200 for number in range(6)}
    assert paced.fetches > 1
    assert min(gaps(paced)) >= DELAY


class AnswersPages:
    """A middleware that answers each page, as Scrapy's HTTP cache does."""

    def process_request(self, request: Request) -> Response | None:
        if request.url.endswith("/robots.txt"):
            return None
        return Response(request.url, request=request)


@in_every_runtime
async def test_pages_that_a_middleware_answers(paced: Site) -> None:
    """Pages of a paced site that a middleware answers don't wait for an interval or each other."""
    result = await crawl(urls(paced, 40), plugged(AnswersPages, 900))
    assert fetched(result) == 40
    assert result.stats["elapsed_time_seconds"] < 5
    assert paced.pages == []


class LogsInFirst:
    """A middleware that requests a login page before it lets the first page through."""

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler
        self.has_begun = False

    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        if not self.has_begun and not request.url.endswith("/robots.txt"):
            self.has_begun = True
            await self.fetch(Request(request.url.replace("/0", "/login")))

    async def fetch(self, login: Request) -> None:
        await self.crawler.engine.download_async(login)


class LogsInByTheQueue(LogsInFirst):
    """The same, but the login page comes from the scheduler."""

    async def fetch(self, login: Request) -> None:
        done: Deferred[None] = Deferred()
        self.crawler.engine.crawl(login.replace(callback=lambda _: done.callback(None)))
        await maybe_deferred_to_future(done)


@pytest.mark.parametrize("middleware", [LogsInFirst, LogsInByTheQueue])
@ensureDeferred
async def test_middleware_that_logs_in_first(
    paced: Site,
    middleware: type,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A middleware that holds a page's turn while it requests another page doesn't wait forever."""
    monkeypatch.setattr(throttle, "MAX_HELD", DELAY)
    result = await crawl(urls(paced, 3), plugged(middleware, 700, CLOSESPIDER_TIMEOUT=10))
    assert fetched(result) == 3
    assert sorted(paced.pages) == ["/0", "/1", "/2", "/login"]
    assert caplog.text.count("A middleware has held a request to") == 1


class Impatient(Pages):
    """Stops waiting for a file that it downloads outside the scheduler, then requests a page."""

    async def parse(self, response: Any, **_: Any) -> AsyncIterator[Request]:
        super().parse(response)
        if response.url.endswith("/0"):
            slow = Request(response.urljoin("/slow"))
            download = deferred_from_coro(self.crawler.engine.download_async(slow))
            await Runtime().sleep(1.0)  # it is sent after 0.8 s
            download.addErrback(lambda _: None).cancel()
            yield Request(response.urljoin("/1"), self.parse)


@ensureDeferred
async def test_request_that_is_cancelled_during_its_transfer(paced: Site) -> None:
    """The interval is kept, because Scrapy doesn't stop the transfer."""
    gate = threading.Event()
    rules = robots("User-agent: *\nCrawl-delay: 0.8\n")
    paced.replies = {"/robots.txt": rules, "/slow": Reply(gate=gate)}
    result = await crawl(urls(paced, 1), {"DOWNLOAD_TIMEOUT": 3}, spider=Impatient)
    gate.set()
    assert [target for _, target in paced.arrivals] == ["/robots.txt", "/0", "/slow", "/1"]
    assert fetched(result) == 2
    assert min(gaps(paced)) >= 0.8
