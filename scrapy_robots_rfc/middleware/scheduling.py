"""What Scrapy would do with a request between the spider and the queue, asked without giving it the request.

In here: looks into Scrapy's private parts, as in `_compat.py`. Nothing about robots.txt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.spiders import CrawlSpider

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings


def spider_middlewares(settings: BaseSettings) -> list[Any]:
    """The spider middlewares that are enabled, by path or class, as the settings name them."""
    found: list[Any] = SpiderMiddlewareManager._get_mwlist_from_settings(settings)
    return found


def has_errback(request: Request) -> bool:
    """Whether somebody is told when a request fails.

    CrawlSpider gives every request an errback of its own, which does nothing where its rule has none.
    """
    errback: Any = request.errback
    if errback is None or getattr(errback, "__func__", None) is not CrawlSpider._errback:
        return errback is not None
    return errback.__self__._rules[request.meta["rule"]].errback is not None


def is_offsite(crawler: Crawler, request: Request) -> bool:
    """Whether Scrapy drops a request on its way to the scheduler because of `allowed_domains`."""
    middleware = crawler.get_downloader_middleware(OffsiteMiddleware)
    if middleware is None or request.dont_filter or request.meta.get("allow_offsite"):
        return False
    assert crawler.spider is not None
    return not middleware.should_follow(request, crawler.spider)


class Duplicates:
    """The scheduler's filter of duplicates, for requests that never come to the scheduler.

    :param most: where the scheduler has none of Scrapy's kind, so many requests are remembered.
    """

    def __init__(self, crawler: Crawler, most: int = 100_000) -> None:
        self._crawler = crawler
        self._most = most
        self._own: dict[bytes, None] = {}

    def seen(self, request: Request) -> bool:
        """Whether a request is a duplicate; remembered, logged, counted and signalled as the scheduler would."""
        if request.dont_filter:
            return False
        slot: Any = self._crawler.engine._slot
        real = getattr(slot.scheduler, "df", None)
        if not (self._seen(request) if real is None else real.request_seen(request)):
            return False
        if real is not None:
            real.log(request, self._crawler.spider)
        self._crawler.signals.send_catch_log(signals.request_dropped, request=request, spider=self._crawler.spider)
        return True

    def _seen(self, request: Request) -> bool:
        fingerprint = self._crawler.request_fingerprinter.fingerprint(request)
        if fingerprint in self._own:
            return True
        if len(self._own) >= self._most:
            del self._own[next(iter(self._own))]
        self._own[fingerprint] = None
        return False
