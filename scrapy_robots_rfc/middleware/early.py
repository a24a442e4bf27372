"""RfcEarlyMiddleware: drops disallowed requests before they are queued, if the file of their origin is in memory.

It never waits, fetches or raises. A request that it cannot judge at once is judged by the downloader middleware.
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
from scrapy_robots_rfc.errors import RobotsDisallowed
from scrapy_robots_rfc.middleware import scheduling
from scrapy_robots_rfc.middleware.enforcement import request_text
from scrapy_robots_rfc.middleware.sitemaps import is_robots_txt
from scrapy_robots_rfc.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.middleware.enforcement import Enforcement
    from scrapy_robots_rfc.middleware.user_agent import UserAgents
    from scrapy_robots_rfc.policy.origins import Origin

logger: logging.Logger = logging.getLogger(__name__)

#: The setting that turns the middleware on.
EARLY_KEY = "ROBOTSTXT_EARLY"


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
        """Leave out refused requests."""
        return (item for item in result if not self._dropped(item))

    def process_start_requests(self, start: Iterable[Any], spider: object) -> Iterator[Any]:  # noqa: ARG002 - as above
        """Do the same where a middleware of the user's has only this method, as older versions of Scrapy allow."""
        return (item for item in start if not self._dropped(item))

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Do the same for what the spider starts with."""
        async for item in start:
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

    def _dropped(self, item: object) -> bool:
        return self._refuses is not None and isinstance(item, Request) and self._refuses(item)


class PreQueueFilter:
    """Refuses requests before they are queued.

    :param origin: returns the origin of a request; ``None``: it has none.
    :param known: returns what is known of an origin and fresh, and counts nothing.
    :param user_agents: gives the agent of a request.
    :param enforcement: counts and logs what is refused.
    """

    def __init__(
        self,
        crawler: Crawler,
        origin: Callable[[Request], Origin | None],
        known: Callable[[Origin], OriginPolicy | None],
        user_agents: UserAgents,
        enforcement: Enforcement,
    ) -> None:
        assert crawler.stats is not None
        self._crawler = crawler
        self._count = crawler.stats.inc_value
        self._origin, self._known = origin, known
        self._user_agents, self._enforcement = user_agents, enforcement
        self._duplicates = scheduling.Duplicates(crawler)

    def refuses(self, request: Request) -> bool:
        """Refuse a request if it is known to be disallowed, and return whether it was.

        A request that was refused before is a duplicate: it is dropped and counted as the scheduler does it.
        """
        try:
            return self._refuses(request)
        except RobotsDisallowed:
            self._count(stats.EARLY)
            return True
        except Exception:  # the downloader middleware judges it again, and raises the exception
            logger.debug("Not judged before it is queued: %s", request_text(request), exc_info=True)
            return False

    def _refuses(self, request: Request) -> bool:
        if request.meta.get("dont_obey_robotstxt") or is_robots_txt(urlparse_cached(request)):
            return False
        if has_errback(self._crawler, request):  # it is called only if the downloader middleware refuses
            return False
        origin = self._origin(request)
        robots = None if origin is None else self._known(origin)
        if robots is None or robots.file is None:
            return False
        decision = robots.judge(request.url, self._user_agents.of(request))
        if decision.allowed or scheduling.is_offsite(self._crawler, request):
            return False
        if not self._duplicates.seen(request):
            self._enforcement.conclude(request, robots, decision, robots.why(decision))
        return True
