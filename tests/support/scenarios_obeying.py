"""Crawls that must give the same results in every runtime, for `test_runtimes.py`."""

from __future__ import annotations

import gzip
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request, signals
from scrapy.signals import request_reached_downloader
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_robots_rfc import RobotsDisallowed, RobotsService, robots_service
from scrapy_robots_rfc.core.findings import groups_of
from scrapy_robots_rfc.signals import robots_fetched
from tests.support.crawling import Pages, short
from tests.support.site import HANG, PAGE, Reply, Site, redirect, robots
from tests.support.timed_site import DELAY, PACED, Clocked, gaps, urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self

    from scrapy.crawler import Crawler

    from tests.support.crawling import Run

FORBID_ALL = "User-agent: *\nDisallow: /\n"

STOCK = {
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": 100,
        "tests.support.scenarios_obeying.Gate": 50,
    }
}
OURS = {
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "scrapy_robots_rfc.RfcRobotsTxtMiddleware": 100,
        "tests.support.scenarios_obeying.Gate": 50,
    }
}


class Gate:
    """A middleware that opens the gate of robots.txt when the expected number of pages wait.

    They wait in the scheduler, or in the middleware after this one.
    """

    opened: ClassVar[threading.Event]
    expected: ClassVar[int]

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.seen: set[int] = set()
        self.requests: list[Request] = []
        if "scrapy_robots_rfc" in str(crawler.settings["SCHEDULER_PRIORITY_QUEUE"]):
            crawler.signals.connect(self.note, signals.request_scheduled)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        if not request.url.endswith("/robots.txt"):
            self.note(request)

    def note(self, request: Request) -> None:
        self.requests.append(request)  # so that no other request gets its id
        before = len(self.seen)
        self.seen.add(id(request))
        if before < len(self.seen) == self.expected:
            self.opened.set()
            if isinstance(self.crawler.spider, ClosesItself):
                self.crawler.spider.close_now()


async def waiting_pages(run: Run, count: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Crawl disallowed pages, which all wait for one robots.txt."""
    Gate.opened, Gate.expected = threading.Event(), count
    concurrent = {"CONCURRENT_REQUESTS": count + 1, "CONCURRENT_REQUESTS_PER_DOMAIN": count + 1}
    with Site({"/robots.txt": robots(FORBID_ALL, gate=Gate.opened)}) as site:
        result = await run(
            Pages, {**settings, **concurrent}, [site.url(f"/{n}") for n in range(count)]
        )
        return {
            "leaked": len(site.pages),
            "fetches": site.fetches,
            "disallowed": sum(
                isinstance(outcome, RobotsDisallowed) for outcome in result.outcomes.values()
            ),
        }


async def stock_leak(run: Run) -> dict[str, Any]:
    """Let 20 pages wait with Scrapy's own middleware."""
    return await waiting_pages(run, 20, STOCK)


async def waiting(run: Run) -> dict[str, Any]:
    """Let 1 to 50 pages wait."""
    return {str(count): await waiting_pages(run, count, OURS) for count in (1, 2, 3, 20, 50)}


async def access(run: Run) -> dict[str, Any]:
    """Crawl sites with a redirected, a failing and a missing robots.txt."""
    with Site() as redirecting, Site() as failing, Site() as missing:
        missing.replies["/moved"] = robots("User-agent: *\nDisallow: /x\nAllow: /x/y\n")
        redirecting.replies["/robots.txt"] = redirect(missing.url("/moved"))
        failing.replies["/robots.txt"] = Reply(503, b"User-agent: *\nAllow: /\n")
        urls = [
            redirecting.url("/x"),
            redirecting.url("/x/y"),
            failing.url("/x"),
            missing.url("/x"),
        ]
        result = await run(Pages, {}, urls)
        return {"outcomes": [short(result.outcomes[url]) for url in urls]}


async def sizes(run: Run) -> dict[str, Any]:
    """Crawl sites with endless, chunked and compressed files."""
    line = b"# " + b"x" * 997 + b"\n"
    start = b"User-agent: *\nDisallow: /first\n"
    big = start + line * 600 + b"Disallow: /last\n"
    bomb = gzip.compress(start + line * 5000)
    compressed = (("Content-Encoding", "gzip"),)
    replies = [
        Reply(body=start, endless=True),
        Reply(chunks=(big,)),
        Reply(body=bomb, headers=compressed),
    ]
    outcomes = []
    for reply in replies:
        with Site({"/robots.txt": reply}) as site:
            result = await run(
                Pages, {"DOWNLOAD_MAXSIZE": 1000}, [site.url("/first"), site.url("/last")]
            )
            outcomes.append([short(outcome) for _, outcome in sorted(result.outcomes.items())])
            outcomes[-1].append(result.stat("truncated"))
    return {"outcomes": outcomes}


async def timeout(run: Run) -> dict[str, Any]:
    """Crawl a site whose robots.txt hangs, with Scrapy's retries."""
    with Site({"/robots.txt": HANG}) as site:
        settings = {"ROBOTS_TIMEOUT": 0.4, "RETRY_ENABLED": True}
        result = await run(Pages, settings, [site.url("/x"), site.url("/y")])
        return {
            "outcomes": [short(outcome) for outcome in result.outcomes.values()],
            "pages": site.pages,
            "seconds": result.stats["elapsed_time_seconds"],
        }


class ClosesItself(Pages):
    """Closes itself when the Gate says so, and measures how long that takes."""

    def close_now(self) -> None:
        self.began = time.monotonic()
        deferred_from_coro(self.crawler.engine.close_spider_async(reason="test"))

    def closed(self, reason: str) -> None:
        self.took = time.monotonic() - self.began
        self.reason = reason


async def closing(run: Run) -> dict[str, Any]:
    """Close the spider while pages wait for robots.txt, and compare with Scrapy alone."""
    with Site() as site:
        Gate.opened, Gate.expected = threading.Event(), 10
        alone = await run(
            ClosesItself, {**OURS, "ROBOTSTXT_OBEY": False}, [site.url(f"/{n}") for n in range(10)]
        )
    with Site({"/robots.txt": HANG}) as site:
        Gate.opened, Gate.expected = threading.Event(), 10
        result = await run(ClosesItself, OURS, [site.url(f"/{n}") for n in range(10)])
        return {
            "pages": site.pages,
            "outcomes": len(result.outcomes),
            "stats": {
                key: value for key, value in result.stats.items() if key.startswith("robotstxt/")
            },
            "longer": result.spider.took - alone.spider.took,
            "reason": result.spider.reason,
        }


class HangingHandler(Pages):
    """Connects a signal handler that never ends."""

    async def start(self) -> AsyncIterator[Any]:
        self.crawler.signals.connect(self.hang, robots_fetched)
        async for request in super().start():
            yield request

    async def hang(self) -> None:
        await maybe_deferred_to_future(Deferred())


async def hanging_handler(run: Run) -> dict[str, Any]:
    """Crawl with a signal handler that never ends."""
    with Site({"/robots.txt": robots("User-agent: *\nDisallow: /x\n")}) as site:
        result = await run(
            HangingHandler, {"ROBOTS_TIMEOUT": 0.5}, [site.url("/x"), site.url("/y")]
        )
        return {
            "outcomes": [short(outcome) for _, outcome in sorted(result.outcomes.items())],
            "seconds": result.stats["elapsed_time_seconds"],
        }


class ClosingHandler(HangingHandler):
    """Connects a signal handler that closes the spider and waits for that."""

    async def hang(self) -> None:
        assert self.crawler.engine is not None
        await self.crawler.engine.close_spider_async(reason="enough")


async def closing_handler(run: Run) -> dict[str, Any]:
    """Crawl with a signal handler that closes the spider, which cancels the waiting fetch."""
    with Site({"/robots.txt": robots("")}) as site:
        result = await run(ClosingHandler, {}, [site.url("/x")])
        return {"reason": result.stats["finish_reason"], "pages": site.pages}


class FetchStep(Pages):
    """Uses the service in start() and in a callback."""

    async def start(self) -> AsyncIterator[Any]:
        service: RobotsService = robots_service(self.crawler)
        self.first = await service.robots(self.requests[0])  # type: ignore[arg-type]  # strings here
        async for request in super().start():
            yield request

    async def parse(self, response: Any, **_: Any) -> Any:
        """Use the service for the site of the page."""
        self.second = await robots_service(self.crawler).robots(response.url)
        self.outcomes[response.url] = response.status


async def asking(run: Run) -> dict[str, Any]:
    """Crawl with a spider that uses the service."""
    text = "User-agent: *\nDisallow: /x\nCrawl-delay: 0.3\nSitemap: http://a.example/map.xml\n"
    with Site({"/robots.txt": robots(text)}) as site:
        result = await run(FetchStep, {}, [site.url("/y")])
        known = result.spider.second
        return {
            "same": result.spider.first is known,
            "fetches": site.fetches,
            "sitemaps": list(known.sitemaps),
            "delay": known.crawl_delay(),
            "decision": [
                known.decide(site.url("/x")).allowed,
                known.decide(site.url("/z")).allowed,
            ],
            "rules": [str(rule) for group in groups_of(known.robots) for rule in group.rules],
        }


async def broken_parser(run: Run) -> dict[str, Any]:
    """Crawl with parsers that fail for every file or every URL."""
    outcomes = {}
    for name in ("FailsToParse", "FailsToDecide"):
        with Site({"/robots.txt": robots("User-agent: *\nAllow: /\n")}) as site:
            settings = {"ROBOTSTXT_PARSER": f"tests.support.parsers.{name}"}
            result = await run(Pages, settings, [site.url("/x"), site.url("/y")])
            outcomes[name] = [
                *(short(outcome) for outcome in result.outcomes.values()),
                len(site.pages),
            ]
    return outcomes


async def pacing(run: Run) -> dict[str, Any]:
    """Crawl a site with a Crawl-delay, and with settings that would speed the crawl up."""
    settings = {
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0.01,
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_START_DELAY": 0.01,
        "AUTOTHROTTLE_MAX_DELAY": 0.02,
        "RETRY_ENABLED": True,
    }
    with Clocked({"/robots.txt": PACED, "/1": redirect("/x")}) as site:
        answers = iter([Reply(500), Reply(503)])
        site.replies["/0"] = lambda _: next(answers, PAGE)
        result = await run(
            Pages, settings, [*urls(site, 3), Request(site.url("/3"), meta={"download_slot": "3"})]
        )
        return {
            "pages": sum(outcome == 200 for outcome in result.outcomes.values()),
            "requests": len(site.arrivals),
            "obeyed": min(gaps(site)) >= DELAY,
            "sites": result.stat("crawl_delay/sites"),
        }


class ClosingBeside(ClosesItself):
    """Closes itself when a page waits in the downloader while the robots.txt of another site hangs
    in the same slot.
    """

    page, hanging = "", ""

    async def start(self) -> AsyncIterator[Any]:
        self.crawler.signals.connect(self.reached, request_reached_downloader)
        async for request in super().start():
            yield request

    def parse(self, response: Any, **_: Any) -> Any:
        """Ask for the next page, and at first for one of the site that hangs."""
        super().parse(response)
        if len(self.outcomes) == 1:
            yield Request(f"{self.hanging}/x", self.parse, errback=self.failed)
        yield Request(f"{self.page}{len(self.outcomes)}", self.parse, errback=self.failed)

    def reached(self, request: Request) -> None:
        """Close, once the request has joined the queue."""
        slots = self.crawler.engine.downloader.slots.values()
        if any(other.url.startswith(self.hanging) for slot in slots for other in slot.transferring):
            self.crawler.signals.disconnect(self.reached, request_reached_downloader)
            call_later(0, self.close_now)


async def closing_beside(run: Run) -> dict[str, Any]:
    """Close the spider while a robots.txt hangs in the slot of a page that waits for its turn, or
    for the only place in the slot.
    """
    found = {}
    for name, pace, concurrency in (("paced", 0.05, 8), ("one by one", 0, 1)):
        paced = robots(f"User-agent: *\nCrawl-delay: {pace}\n")
        with Site({"/robots.txt": paced}) as site, Site({"/robots.txt": HANG}) as hanging:
            ClosingBeside.page, ClosingBeside.hanging = site.url("/"), hanging.url("").rstrip("/")
            settings = {
                "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
                "CLOSESPIDER_TIMEOUT": 20,
                # As with Scrapy alone, the page has the place when this time is over.
                "ROBOTS_TIMEOUT": 2,
            }
            result = await run(ClosingBeside, settings, [site.url("/0")])
            found[name] = [result.spider.took, result.spider.reason, hanging.pages]
    return found


class _Busy(Site):
    """Notes whether it got a request while it was answering another one."""

    busy = together = False

    def reply(self, asked: Any) -> Reply:
        self.together = self.together or self.busy
        self.busy = True
        self.closed.wait(0.05)
        self.busy = False
        return super().reply(asked)


async def one_at_a_time(run: Run) -> dict[str, Any]:
    """Crawl a site, whose file becomes stale after a second, with one request at a time."""
    one = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "DOWNLOAD_DELAY": 0.01}
    slots = {"DOWNLOAD_SLOTS": {"127.0.0.1": {"concurrency": 1, "delay": 0.01}}}
    # Few pages leave the queue before the file is stale.
    stale = {"ROBOTS_CACHE_MAX_AGE": 0.2, "CONCURRENT_REQUESTS": 2}
    found = {}
    # With no delay, Scrapy under asyncio starts all that is queued as soon as a place is free, with
    # or without us.
    for name, settings in (("delayed", one), ("slots", slots)):
        with _Busy({"/robots.txt": robots("")}) as site:
            urls = [site.url(f"/{number}") for number in range(30)]
            result = await run(Pages, {**settings, **stale}, urls)
            outcomes = {short(outcome) for outcome in result.outcomes.values()}
            found[name] = [outcomes == {200}, site.fetches > 1, site.together]
    return found
