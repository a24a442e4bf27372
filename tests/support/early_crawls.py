"""Spiders whose requests have no errback, and the same crawl twice: with ROBOTSTXT_EARLY and without.

The tests say what is crawled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy import signals as scrapy_signals

from scrapy_robots_rfc.signals import request_disallowed
from tests.support.crawling import crawl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tests.support.site import Site

SPIDER_MIDDLEWARES: dict[Any, Any] = {"scrapy_robots_rfc.RfcEarlyMiddleware": 10}
EARLY: dict[str, Any] = {"ROBOTSTXT_EARLY": True, "SPIDER_MIDDLEWARES": SPIDER_MIDDLEWARES}
FORBID = "User-agent: *\nDisallow: /private\n\nUser-agent: other\nDisallow: /open\n"


class Linked(Spider):
    """Asks for the first of some requests; when it is there, for the others, without errbacks."""

    name = "linked"

    def __init__(self, requests: Iterable[str | Request] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requests = [Request(item) if isinstance(item, str) else item for item in requests]
        self.came: list[str] = []
        self.failures: list[Any] = []

    async def start(self) -> AsyncIterator[Any]:
        """Ask for the first one."""
        yield self.requests[0].replace(callback=self.first)

    def first(self, response: Response) -> Iterable[Any]:
        """Ask for the others."""
        self.came.append(response.url)
        yield from self.requests[1:]
        yield {"items": "pass"}

    def parse(self, response: Response, **_: Any) -> None:
        """Keep it."""
        self.came.append(response.url)

    def failed(self, failure: Any) -> None:
        """Keep what an errback is told."""
        self.failures.append(failure.value)


class AsyncLinked(Linked):
    """The same with an asynchronous callback."""

    name = "async"

    async def first(self, response: Response) -> Any:
        """Ask for the others."""
        self.came.append(response.url)
        for request in self.requests[1:]:
            yield request
        yield {"items": "pass"}


class Starts(Linked):
    """Starts with all of them."""

    async def start(self) -> AsyncIterator[Any]:
        """Ask for them."""
        for request in self.requests:
            yield request
        yield {"items": "pass"}


@dataclass
class Told:
    """What a crawl says of requests that are not fetched."""

    disallowed: list[tuple[Any, ...]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def connect(self, crawler: Crawler) -> None:
        """Listen."""
        crawler.signals.connect(self._disallowed, request_disallowed)
        crawler.signals.connect(self._dropped, scrapy_signals.request_dropped)

    def _disallowed(self, request: Request, decision: Any) -> None:
        self.disallowed.append((request.url, request.headers.get("Referer"), request.meta.get("depth"), decision))

    def _dropped(self, request: Request) -> None:
        self.dropped.append(request.url)


async def run(requests: Any, settings: dict[str, Any] | None = None, spider: Any = Linked) -> tuple[Any, Told]:
    """Crawl; return what came of it, and what was told."""
    told = Told()
    return await crawl(requests, settings, spider=spider, prepare=told.connect), told


def verdicts(result: Any) -> dict[str, Any]:
    """The stats that must not depend on when a request is dropped."""
    keys = ("robotstxt/forbidden", "robotstxt/allowed", "robotstxt/overridden", "robotstxt/cache/stale_decisions")
    others = ("dupefilter/filtered", "offsite/filtered", "item_scraped_count", "request_depth_max", "spider_exceptions")
    return {key: value for key, value in result.stats.items() if key.startswith(keys + others)}


async def compared(
    site: Site,
    requests: Callable[[], Any],
    settings: dict[str, Any] | None = None,
    spider: Any = Linked,
    *,
    early: int,
) -> Any:
    """Crawl twice, the second time with ROBOTSTXT_EARLY: all but the queue must come out the same; return the second.

    :param requests: makes them anew for each crawl.
    :param early: how many are dropped before they are queued.
    """
    plain, told = await run(requests(), settings, spider)
    fetched = sorted(site.targets)
    site.asked.clear()
    ahead, told_ahead = await run(requests(), {**(settings or {}), **EARLY}, spider)
    assert sorted(site.targets) == fetched
    assert sorted(ahead.spider.came) == sorted(plain.spider.came)
    assert verdicts(ahead) == verdicts(plain)
    assert sorted(told_ahead.disallowed, key=repr) == sorted(told.disallowed, key=repr)
    assert sorted(told_ahead.dropped) == sorted(told.dropped)
    assert ahead.stat("early") == early
    assert plain.stat("early") == 0
    assert plain.stats["scheduler/enqueued"] - ahead.stats["scheduler/enqueued"] == early
    return ahead
