"""The RFC 9309 parser as a parser class for Scrapy, which also works without the add-on."""

import logging
from typing import Self
from weakref import WeakSet

from scrapy.crawler import Crawler
from scrapy.robotstxt import RobotParser

from scrapy_robots_rfc.core.agents import product_tokens
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.settings import BY_FIELD, TABLE, read_row

logger: logging.Logger = logging.getLogger(__name__)

#: Crawlers that obey all of our settings, or whose ignored settings were logged.
checked_crawlers: WeakSet[Crawler] = WeakSet()

_MAX_SIZE = BY_FIELD["max_size"]


class RfcRobotParser(RobotParser):
    """RFC 9309 for Scrapy: ``ROBOTSTXT_PARSER = "scrapy_robots_rfc.RfcRobotParser"``.

    :param robotstxt_body: the file. No bytes raise an error.
    :param max_size: how many bytes of the file are read, at least 512,000 (RFC 9309, 2.5).
    """

    def __init__(self, robotstxt_body: bytes, *, max_size: int = RobotsTxt.MAX_SIZE) -> None:
        #: The parsed file, with rules, sitemaps, and decisions that have reasons.
        self.robots: RobotsTxt = RobotsTxt.parse(robotstxt_body, max_size=max_size)

    @classmethod
    def from_crawler(cls, crawler: Crawler | None, robotstxt_body: bytes) -> Self:
        """Parse the first ``ROBOTS_MAX_SIZE`` bytes of a file.

        :param crawler: has the setting; with `None`, its default applies.
        :raises SettingError: the value of the setting is not accepted. A crawl with Scrapy's own
            middleware gets this error at start, because that middleware makes a parser then.
        """
        if crawler is None:
            return cls(robotstxt_body)
        if crawler not in checked_crawlers:
            checked_crawlers.add(crawler)
            _warn_of_ignored_settings(crawler)
        return cls(robotstxt_body, max_size=read_row(_MAX_SIZE, crawler.settings))

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Return whether a URL may be fetched (RFC 9309, 2.2).

        :param url: an absolute URL, percent-encoded or not.
        :param user_agent: a product token, or a User-Agent header.
        """
        if isinstance(user_agent, bytes):
            user_agent = user_agent.decode("utf-8", "replace")
        return self.robots.decide(url, user_agent).allowed

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the Crawl-delay for a user agent in seconds, or `None` if the file has none.

        :param user_agent: a product token, or a User-Agent header.
        """
        return self.robots.crawl_delay(product_tokens(user_agent))


def _warn_of_ignored_settings(crawler: Crawler) -> None:
    """Warn of settings that need our middleware, in a crawl with Scrapy's own."""
    needing = {row.key for row in TABLE if row.key.startswith("ROBOTS_")} - {_MAX_SIZE.key}
    ignored = sorted(key for key in needing if crawler.settings.getpriority(key))
    if ignored:
        logger.warning(
            "RfcRobotParser is used without RfcRobotsTxtMiddleware, so these settings have no"
            " effect: %s; enable scrapy_robots_rfc.Addon or remove them",
            ", ".join(ignored),
            extra={"spider": crawler.spider},
        )
