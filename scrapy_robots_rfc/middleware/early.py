"""RfcEarlyMiddleware: drops what is known to be disallowed before it is queued, where its origin's file is in memory.

In here: which requests are judged ahead of time, and that all others go on as they are. It never waits, fetches or
raises: what it cannot tell at once, the downloader middleware decides when the request's turn comes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy import signals as scrapy_signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import logged_in_one_line
from scrapy_robots_rfc._scrapy import has_errback
from scrapy_robots_rfc.errors import RobotsDisallowed, SettingError
from scrapy_robots_rfc.middleware import scheduling
from scrapy_robots_rfc.middleware.enforcement import shown
from scrapy_robots_rfc.middleware.reuse import is_robots_txt
from scrapy_robots_rfc.middleware.startup import placed, stands_for
from scrapy_robots_rfc.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from scrapy_robots_rfc.fetching.policy_of_origin import OriginPolicy
    from scrapy_robots_rfc.middleware.enforcement import Enforcement
    from scrapy_robots_rfc.middleware.user_agent import UserAgents
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)

#: The key in Scrapy's settings that turns it on.
KEY = "ROBOTSTXT_EARLY"
PATH = "scrapy_robots_rfc.RfcEarlyMiddleware"
#: At the engine's end: what it drops has its Referer and depth by then, and Scrapy's own have had their say.
POSITION = 10


class RfcEarlyMiddleware:
    """Spider middleware that drops requests which the rules of a file at hand forbid.

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
        """Drop from now on what is refused; `RfcRobotsTxtMiddleware` says so.

        :param refuses: tells whether a request is to be dropped; never raises.
        """
        self._refuses = refuses

    def _spider_opened(self) -> None:
        if self._refuses is None:
            logger.warning("%s does nothing: RfcRobotsTxtMiddleware is not at work", KEY)

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
        """Do the same where a middleware of the user's knows no other way, which older versions of Scrapy let it."""
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
    :param known: gives what is known and fresh of an origin, and counts nothing.
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
        """Refuse a request, if it is known to be disallowed, and say whether it was.

        A duplicate of one is dropped as the scheduler would drop it: counted there, and not once more here.
        """
        try:
            return self._refuses(request)
        except RobotsDisallowed:
            self._count(stats.EARLY)
            return True
        except Exception:  # what is wrong with it shows where it always did
            logger.debug("Not judged before it is queued: %s", shown(request), exc_info=True)
            return False

    def _refuses(self, request: Request) -> bool:
        if request.meta.get("dont_obey_robotstxt") or is_robots_txt(urlparse_cached(request)):
            return False
        if has_errback(self._crawler, request):  # it is told by the downloader middleware
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
    """See to it that a crawl which asks for the middleware, or a subclass of it, has one among its spider middlewares.

    :raises SettingError: it has none.
    """
    middlewares = [key for _, key in placed(scrapy_settings, "SPIDER_MIDDLEWARES")]
    if settings.early and not any(stands_for(key, RfcEarlyMiddleware) for key in middlewares):
        raise SettingError(KEY, True, f"False, or SPIDER_MIDDLEWARES must have {PATH!r}: {POSITION}")
