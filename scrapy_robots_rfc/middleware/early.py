"""RfcEarlyMiddleware: drops disallowed requests before they are queued, where the file of their origin is in memory.

It never waits, fetches or raises. A request that it cannot judge at once goes on to the downloader middleware.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy import signals as scrapy_signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._unhandled import logged_in_one_line
from scrapy_robots_rfc.components import stands_for
from scrapy_robots_rfc.errors import RobotsDisallowed, SettingError
from scrapy_robots_rfc.middleware import scheduling
from scrapy_robots_rfc.middleware.enforcement import shown
from scrapy_robots_rfc.middleware.sitemaps import is_robots_txt
from scrapy_robots_rfc.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.middleware.enforcement import Enforcement
    from scrapy_robots_rfc.middleware.user_agent import UserAgents
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)

#: The setting that turns the middleware on.
EARLY_KEY = "ROBOTSTXT_EARLY"
EARLY_PATH = "scrapy_robots_rfc.RfcEarlyMiddleware"
#: Close to the engine: a request has its Referer and depth by then, and Scrapy's own middlewares have seen it.
EARLY_POSITION = 10


class RfcEarlyMiddleware:
    """Spider middleware that drops requests which the rules of a file in memory forbid.

    :param crawler: the crawl.
    :raises NotConfigured: ROBOTSTXT_EARLY or ROBOTSTXT_OBEY is false.
    :raises SettingError: a setting is not accepted.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = read_settings(crawler.settings)
        if not (settings.obey and settings.early):
            raise NotConfigured
        self._refuses: Callable[[Request], bool] | None = None
        crawler.signals.connect(self._spider_opened, scrapy_signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        with logged_in_one_line():
            return cls(crawler)

    def begin(self, refuses: Callable[[Request], bool]) -> None:
        """Drop refused requests from now on. `RfcRobotsTxtMiddleware` calls this when the spider opens.

        :param refuses: whether a request is to be dropped; never raises.
        """
        self._refuses = refuses

    def _spider_opened(self) -> None:
        if self._refuses is None:
            logger.warning("%s does nothing: RfcRobotsTxtMiddleware is not at work", EARLY_KEY)

    def process_spider_output(self, response: Response, result: Iterable[Any]) -> Iterator[Any]:  # noqa: ARG002 - Scrapy's
        """Leave out the requests that are refused."""
        for item in result:
            if not self._dropped(item):
                yield item

    async def process_spider_output_async(
        self,
        response: Response,  # noqa: ARG002 - Scrapy's name
        result: AsyncIterator[Any],
    ) -> AsyncIterator[Any]:
        """Do the same for a callback that is an asynchronous generator."""
        async for item in result:
            if not self._dropped(item):
                yield item

    def process_start_requests(self, start: Iterable[Any], spider: object) -> Iterator[Any]:  # noqa: ARG002 - as above
        """Do the same for older versions of Scrapy, where a middleware of the user's has no `process_start`."""
        for item in start:
            if not self._dropped(item):
                yield item

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Do the same for what the spider starts with."""
        async for item in start:
            if not self._dropped(item):
                yield item

    def _dropped(self, item: object) -> bool:
        return self._refuses is not None and isinstance(item, Request) and self._refuses(item)


class PreQueueFilter:
    """Refuses requests before they are queued.

    :param origin: gives the origin of a request, ``None`` for one that has none.
    :param known: gives the fresh policy of an origin that is in memory, and counts nothing.
    """

    def __init__(
        self,
        crawler: Crawler,
        origin: Callable[[Request], Origin | None],
        known: Callable[[Origin], OriginPolicy | None],
        naming: UserAgents,
        verdicts: Enforcement,
    ) -> None:
        assert crawler.stats is not None
        self._crawler = crawler
        self._count = crawler.stats.inc_value
        self._origin, self._known = origin, known
        self._naming, self._verdicts = naming, verdicts
        self._duplicates = scheduling.Duplicates(crawler)

    def refuses(self, request: Request) -> bool:
        """Refuse a request that is known to be disallowed, and return whether it was.

        A duplicate of one is dropped and counted as the scheduler would do, and not counted here.
        """
        try:
            return self._refuses(request)
        except RobotsDisallowed:
            self._count(stats.EARLY)
            return True
        except Exception:  # the downloader middleware meets with it again, and raises it
            logger.debug("Not judged before it is queued: %s", shown(request), exc_info=True)
            return False

    def _refuses(self, request: Request) -> bool:
        if request.meta.get("dont_obey_robotstxt") or is_robots_txt(urlparse_cached(request)):
            return False
        if scheduling.has_errback(request):  # the downloader middleware calls it
            return False
        origin = self._origin(request)
        robots = None if origin is None else self._known(origin)
        if robots is None or robots.file is None:
            return False
        decision = robots.judge(request.url, self._naming.of(request))
        if decision.allowed or scheduling.is_offsite(self._crawler, request):
            return False
        if not self._duplicates.seen(request):
            self._verdicts.conclude(request, robots, decision, robots.why(decision))
        return True


def check_early(settings: Settings, scrapy_settings: BaseSettings) -> None:
    """Check that a crawl with ROBOTSTXT_EARLY has the middleware, or a subclass, among its spider middlewares.

    :raises SettingError: it has none.
    """
    middlewares = scheduling.spider_middlewares(scrapy_settings)
    if settings.early and not any(stands_for(key, RfcEarlyMiddleware) for key in middlewares):
        raise SettingError(EARLY_KEY, True, f"False, or SPIDER_MIDDLEWARES must have {EARLY_PATH!r}: {EARLY_POSITION}")
