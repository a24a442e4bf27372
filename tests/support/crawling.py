"""Real crawls in the test's own process, under whichever reactor pytest runs.

The spider, the settings by hand, and what a test looks at afterwards. See `site.py` for sites.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.reactor import is_asyncio_reactor_installed
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import LoopingCall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

    from scrapy.http import Response
    from twisted.python.failure import Failure

_T = TypeVar("_T")

ASYNCIO_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

#: Our middleware in the place of Scrapy's own, and nothing that takes time for no reason.
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
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DNS_TIMEOUT": 5,
}


#: What ROBOTS_USE needs beside it.
USE = "scrapy_robots_rfc.RfcUseMiddleware"


def with_use(
    use: Any, middlewares: dict[str, Any] = SETTINGS["DOWNLOADER_MIDDLEWARES"]
) -> dict[str, Any]:
    """ROBOTS_USE, and among the middlewares the one that it needs."""
    return {"ROBOTS_USE": use, "DOWNLOADER_MIDDLEWARES": {USE: 101, **middlewares}}


class Pages(Spider):
    """Asks for pages, and notes what becomes of each: the status, or the exception."""

    name = "pages"

    def __init__(self, requests: Iterable[str | Request] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requests = list(requests)
        self.outcomes: dict[str, int | BaseException] = {}

    async def start(self) -> AsyncIterator[Any]:
        """Ask for all of them."""
        for item in self.requests:
            request = Request(item) if isinstance(item, str) else item
            yield request.replace(callback=self.parse, errback=self.failed, dont_filter=True)

    def parse(self, response: Response, **_: Any) -> Any:
        """Note the status."""
        assert response.request is not None
        self.outcomes[response.request.url] = response.status

    def failed(self, failure: Failure) -> None:
        """Note the exception; of an error page its status."""
        error: Any = failure.value
        request: Request = failure.request  # type: ignore[attr-defined]  # Scrapy puts it there
        self.outcomes[request.url] = error.response.status if hasattr(error, "response") else error


@dataclass
class Crawl:
    """A crawl that is over."""

    crawler: Crawler
    spider: Any
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def outcomes(self) -> dict[str, int | BaseException]:
        """URL -> status or exception."""
        outcomes: dict[str, int | BaseException] = self.spider.outcomes
        return outcomes

    def stat(self, key: str) -> Any:
        """A stat, 0 where nothing was counted."""
        return self.stats.get(f"robotstxt/{key}", 0)


def make_crawler(spider: type[Spider] = Pages, settings: dict[str, Any] | None = None) -> Crawler:
    """A crawler with our middleware, for the reactor that is installed."""
    merged = {**SETTINGS, **(settings or {})}
    if merged.get("ROBOTS_USE") is not None:
        merged |= with_use(merged["ROBOTS_USE"], merged["DOWNLOADER_MIDDLEWARES"])
    merged.setdefault(
        "TWISTED_REACTOR", ASYNCIO_REACTOR if is_asyncio_reactor_installed() else None
    )
    return Crawler(spider, merged)


async def crawl(
    requests: Iterable[str | Request] = (),
    settings: dict[str, Any] | None = None,
    *,
    spider: type[Pages] = Pages,
    prepare: Callable[[Crawler], None] = lambda _: None,
    **arguments: Any,
) -> Crawl:
    """Crawl, and wait for the end.

    :param prepare: called with the crawler before it starts, to connect signals.
    :param arguments: for the spider.
    """
    crawler = make_crawler(spider, settings)
    prepare(crawler)
    await crawler.crawl(requests, **arguments)
    return Crawl(crawler, crawler.spider, dict(crawler.stats.get_stats()))


async def at_once(*coroutines: Coroutine[Any, Any, _T]) -> list[_T]:
    """Wait for several that run side by side, such as crawls.

    When all have ended, raise what the first one raised.
    """
    results: Any = await DeferredList(
        [Deferred.fromCoroutine(one) for one in coroutines], consumeErrors=True
    )
    for succeeded, result in results:
        if not succeeded:
            result.raiseException()
    return [result for _, result in results]


def close_when(condition: Callable[[Crawler], object]) -> Callable[[Crawler], None]:
    """Return what prepares a crawl whose spider is to be closed as soon as something is true, once
    it is open.
    """

    def prepare(crawler: Crawler) -> None:
        def begin() -> None:
            look.start(0.02)

        def close() -> None:
            if condition(crawler):
                look.stop()
                assert crawler.engine is not None
                deferred_from_coro(crawler.engine.close_spider_async(reason="test"))

        look = LoopingCall(close)
        crawler.signals.connect(begin, signals.spider_opened, weak=False)

    return prepare


def records(caplog: Any, level: int = logging.WARNING) -> list[str]:
    """What our own loggers logged, at a level and above."""
    return [
        r.getMessage()
        for r in caplog.records
        if r.name.startswith("scrapy_robots_rfc") and r.levelno >= level
    ]


def lines(caplog: Any, level: int = logging.DEBUG) -> list[str]:
    """The same, line by line: some of it has several."""
    return [line for record in records(caplog, level) for line in record.splitlines()]
