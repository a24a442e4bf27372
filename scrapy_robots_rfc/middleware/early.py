"""RfcEarlyMiddleware: drops disallowed requests before they are queued, if the file of their origin is in memory.

It never waits, fetches or raises. A request that it cannot judge at once is judged by the downloader middleware.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Self

from scrapy import Request
from scrapy import signals as scrapy_signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import logged_in_one_line
from scrapy_robots_rfc._scrapy import filter_of_duplicates, has_errback
from scrapy_robots_rfc.errors import RobotsDisallowed
from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware
from scrapy_robots_rfc.middleware.enforcement import request_text
from scrapy_robots_rfc.middleware.scheduling import is_duplicate, is_offsite
from scrapy_robots_rfc.middleware.sitemaps import is_robots_txt
from scrapy_robots_rfc.settings import read_settings

logger: logging.Logger = logging.getLogger(__name__)


class OutputFilter(ABC):
    """A spider middleware that leaves out some of what callbacks yield.

    :param crawler: the crawl.
    """

    def __init__(self, crawler: Crawler) -> None:
        assert crawler.stats is not None
        self._crawler, self._count = crawler, crawler.stats.inc_value

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        with logged_in_one_line():
            return cls(crawler)

    def process_spider_output(self, response: Response, result: Iterable[Any]) -> Iterator[Any]:
        """Leave out what is dropped."""
        drops = self._judge(response)
        for item in result:
            if not drops(item):
                yield item

    async def process_spider_output_async(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Do the same for a callback that is an asynchronous generator."""
        drops = self._judge(response)
        async for item in result:
            if not drops(item):
                yield item

    @abstractmethod
    def _judge(self, response: Response) -> Callable[[object], bool]:
        """Return what says of anything that the callback of a response yields whether it is dropped."""


class RfcEarlyMiddleware(OutputFilter):
    """Spider middleware that drops requests which the rules of a file in memory forbid.

    A request that was dropped before is a duplicate: it is dropped and counted as the scheduler does it.

    :param crawler: the crawl.
    :raises NotConfigured: ROBOTSTXT_EARLY or ROBOTSTXT_OBEY is false.
    :raises SettingError: a setting is not accepted.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        settings = read_settings(crawler.settings)
        if not (settings.obey and settings.early):
            raise NotConfigured
        self._dry_run = settings.dry_run
        self._robots: RfcRobotsTxtMiddleware | None = None
        crawler.signals.connect(self._spider_opened, scrapy_signals.spider_opened)

    def _spider_opened(self) -> None:
        robots = self._crawler.get_downloader_middleware(RfcRobotsTxtMiddleware)
        if robots is None:
            logger.warning("ROBOTSTXT_EARLY does nothing: RfcRobotsTxtMiddleware is not at work")
        elif not self._dry_run and filter_of_duplicates(self._crawler, own=True) is not None:
            self._robots = robots

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Leave out what is dropped of what the spider starts with."""
        async for item in start:
            if not self._dropped(item):
                yield item

    def process_start_requests(self, start: Iterable[Any], spider: object) -> Iterator[Any]:  # noqa: ARG002 - Scrapy's
        """Do the same where a middleware of the user's has only this method, as older versions of Scrapy allow."""
        return (item for item in start if not self._dropped(item))

    def _judge(self, response: Response) -> Callable[[object], bool]:  # noqa: ARG002 - whichever page they are from
        return self._dropped

    def _dropped(self, item: object) -> bool:
        if self._robots is None or not isinstance(item, Request):
            return False
        try:
            return self._refuses(item, self._robots)
        except RobotsDisallowed:
            self._count(stats.EARLY)
            return True
        except Exception:  # the downloader middleware judges it again, and raises the exception
            logger.debug("Not judged before it is queued: %s", request_text(item), exc_info=True)
            return False

    def _refuses(self, request: Request, by: RfcRobotsTxtMiddleware) -> bool:
        """Say whether a request is dropped as a duplicate.

        :raises RobotsDisallowed: it is disallowed, and no duplicate.
        """
        if request.meta.get("dont_obey_robotstxt") or is_robots_txt(urlparse_cached(request)):
            return False
        if has_errback(self._crawler, request):  # it is called only if the downloader middleware refuses
            return False
        origin = by.origin_of(request)
        robots = None if origin is None else by.service.at_hand(origin, counted=False)
        if robots is None or robots.file is None:
            return False
        agent = by.user_agents.of(request)
        if robots.file.unread(agent):  # that takes long: the downloader middleware has a thread for it
            return False
        decision = robots.judge(request.url, agent)
        if decision.allowed or is_offsite(self._crawler, request):
            return False
        if not is_duplicate(self._crawler, request):
            by.enforcement.conclude(request, robots, decision, robots.why(decision))
        return True
