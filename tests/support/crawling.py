"""Real crawls in the process of the test, with the reactor that pytest runs, or without one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed
from twisted.internet.defer import Deferred, DeferredList

from scrapy_robots_rfc import RobotsDisallowed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
    from typing import Self

    from scrapy.http import Response
    from twisted.python.failure import Failure


_T = TypeVar("_T")

ASYNCIO_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

#: The middleware, and no delays.
SETTINGS: dict[str, Any] = {
    "ROBOTSTXT_OBEY": True,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "scrapy_robots_rfc.RfcRobotsTxtMiddleware": 100,
    },
    "SCHEDULER_PRIORITY_QUEUE": "scrapy_robots_rfc.OriginPriorityQueue",
    "RETRY_ENABLED": False,
    "ROBOTS_UNREACHABLE_BACKOFF": [],
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_ITEMS": 1,  # by default, Scrapy starts 100 tasks for each response
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DNS_TIMEOUT": 5,
}


def plugged(middleware: type, position: int, **settings: Any) -> dict[str, Any]:
    """Return settings with one more downloader middleware."""
    middlewares = {**SETTINGS["DOWNLOADER_MIDDLEWARES"], middleware: position}
    return {"DOWNLOADER_MIDDLEWARES": middlewares, **settings}


#: The middleware that ROBOTS_USE needs.
USE = "scrapy_robots_rfc.RfcUseMiddleware"


class Own(Settings):
    """Settings of one crawl. Scrapy's copy of them would take a tenth of a crawl."""

    def copy(self) -> Self:
        return self


class Pages(Spider):
    """Requests pages, and records the outcome of each: the status or the exception."""

    name = "pages"

    def __init__(self, requests: Iterable[str | Request] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requests = [Request(item) if isinstance(item, str) else item for item in requests]
        self.outcomes: dict[str, int | BaseException] = {}

    async def start(self) -> AsyncIterator[Any]:
        for request in self.requests:
            yield self.watched(request)

    def watched(self, request: Request) -> Request:
        """Return a request whose outcome is recorded."""
        return request.replace(callback=self.parse, errback=self.failed, dont_filter=True)

    def parse(self, response: Response, **_: Any) -> Any:
        assert response.request is not None
        self.outcomes[response.request.url] = response.status

    def failed(self, failure: Failure) -> Any:
        """Record the exception, or the status of an error page."""
        error: Any = failure.value
        request: Request = failure.request  # type: ignore[attr-defined]  # Scrapy puts it there
        self.outcomes[request.url] = error.response.status if hasattr(error, "response") else error


class Serial(Pages):
    """Requests one page after another."""

    async def start(self) -> AsyncIterator[Any]:
        for request in self.next_request():
            yield request

    def parse(self, response: Response, **_: Any) -> Any:
        super().parse(response)
        yield from self.next_request()

    def failed(self, failure: Failure) -> Any:
        super().failed(failure)
        yield from self.next_request()

    def next_request(self) -> Iterator[Request]:
        if self.requests:
            yield self.watched(self.requests.pop(0))


@dataclass
class Crawl:
    """A crawl that has ended."""

    crawler: Crawler
    spider: Any
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def outcomes(self) -> dict[str, int | BaseException]:
        """The status or exception of each URL."""
        outcomes: dict[str, int | BaseException] = self.spider.outcomes
        return outcomes

    def verdicts(self, *pages: str | Request) -> list[Any]:
        """Return the outcomes of some URLs or requests, or of all, as `short` does."""
        urls = [page if isinstance(page, str) else page.url for page in pages]
        return [short(self.outcomes[url]) for url in urls or self.outcomes]

    def dropped(self, url: str) -> RobotsDisallowed:
        """Return the exception of a page that robots.txt disallows."""
        error = self.outcomes[url]
        assert isinstance(error, RobotsDisallowed)
        return error

    def stat(self, key: str) -> Any:
        """Return a stat, or 0 if nothing was counted."""
        return self.stats.get(f"robotstxt/{key}", 0)


def short(outcome: int | BaseException) -> Any:
    """Return an outcome as JSON: the status, the reason, or the class of another exception."""
    if isinstance(outcome, RobotsDisallowed):
        return outcome.decision.reason.value
    return type(outcome).__name__ if isinstance(outcome, BaseException) else outcome


def make_crawler(spider: type[Spider] = Pages, settings: dict[str, Any] | None = None) -> Crawler:
    """Return a crawler with the middleware, for the installed reactor or for none."""
    merged = {**SETTINGS, **(settings or {})}
    if merged.get("ROBOTS_USE") is not None:
        merged["DOWNLOADER_MIDDLEWARES"] = {USE: 101, **merged["DOWNLOADER_MIDDLEWARES"]}
    if is_reactor_installed():
        reactor = ASYNCIO_REACTOR if is_asyncio_reactor_installed() else None
        merged.setdefault("TWISTED_REACTOR", reactor)
    else:
        merged["TWISTED_REACTOR_ENABLED"] = False
    return Crawler(spider, Own(merged))


async def crawl(
    requests: Iterable[str | Request] = (),
    settings: dict[str, Any] | None = None,
    *,
    spider: type[Pages] = Pages,
    prepare: Callable[[Crawler], None] = lambda _: None,
    **arguments: Any,
) -> Crawl:
    """Crawl to the end.

    :param prepare: called with the crawler before it starts, for example to connect signals.
    :param arguments: for the spider.
    """
    crawler = make_crawler(spider, settings)
    prepare(crawler)
    if is_reactor_installed():
        await crawler.crawl(requests, **arguments)
    else:
        await crawler.crawl_async(requests, **arguments)
    return Crawl(crawler, crawler.spider, dict(crawler.stats.get_stats()))


async def at_once(*coroutines: Coroutine[Any, Any, _T]) -> list[_T]:
    """Run coroutines side by side until all have ended; then raise the first error, if any."""
    results: Any = await DeferredList(
        [Deferred.fromCoroutine(one) for one in coroutines], consumeErrors=True
    )
    for succeeded, result in results:
        if not succeeded:
            result.raiseException()
    return [result for _, result in results]


def close_when(condition: Callable[[Crawler], object]) -> Callable[[Crawler], None]:
    """Return a `prepare` function for `crawl` that closes the spider once a condition is true."""

    def prepare(crawler: Crawler) -> None:
        def look() -> None:
            if condition(crawler):
                deferred_from_coro(crawler.engine.close_spider_async(reason="test"))
            elif crawler.crawling:
                call_later(0.02, look)

        crawler.signals.connect(look, signals.spider_opened, weak=False)

    return prepare


def listening(function: Callable[..., object], signal: object) -> Callable[[Crawler], None]:
    """Return a `prepare` function for `crawl` that connects a function to a signal."""
    return lambda crawler: crawler.signals.connect(function, signal, weak=False)


def records(caplog: Any, level: int = logging.WARNING) -> list[str]:
    """Return what the package logged, at a level and above."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("scrapy_robots_rfc") and record.levelno >= level
    ]


def lines(caplog: Any, level: int = logging.DEBUG) -> list[str]:
    """Return the same as single lines."""
    return [line for record in records(caplog, level) for line in record.splitlines()]


class Linked(Pages):
    """Requests the first page, then the others and yields an item, without errbacks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.came: list[str] = []

    async def start(self) -> AsyncIterator[Any]:
        yield self.requests[0].replace(callback=self.first)

    def first(self, response: Response) -> Iterable[Any]:
        self.came.append(response.url)
        yield from self.requests[1:]
        yield {"items": "pass"}

    def parse(self, response: Response, **_: Any) -> None:
        self.came.append(response.url)


class AsyncLinked(Linked):
    """Does the same with an asynchronous callback."""

    async def first(self, response: Response) -> Any:
        self.came.append(response.url)
        for request in self.requests[1:]:
            yield request
        yield {"items": "pass"}


class Starts(Linked):
    """Requests all pages at the start."""

    async def start(self) -> AsyncIterator[Any]:
        for request in self.requests:
            yield request
        yield {"items": "pass"}
