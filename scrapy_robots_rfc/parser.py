"""An adapter that lets Scrapy's built-in middleware use the RFC 9309 parser."""

import logging
from collections.abc import Iterator
from typing import Self
from weakref import WeakSet

from scrapy.crawler import Crawler
from scrapy.robotstxt import RobotParser

from scrapy_robots_rfc.core.agents import product_tokens
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.policy.origins import sitemap_urls
from scrapy_robots_rfc.settings import BY_FIELD, TABLE, read_row

logger: logging.Logger = logging.getLogger(__name__)

#: Crawlers that use our middleware, or that have already warned about ignored settings.
checked_crawlers: WeakSet[Crawler] = WeakSet()

_MAX_SIZE = BY_FIELD["max_size"]


class RfcRobotParser(RobotParser):
    """A parser for Scrapy's ROBOTSTXT_PARSER setting.

    :param robotstxt_body: the file, which may contain any bytes.
    :param max_size: the maximum size in bytes, which must be at least 512,000 (RFC 9309, 2.5).
    """

    def __init__(self, robotstxt_body: bytes, *, max_size: int = RobotsTxt.MAX_SIZE) -> None:
        #: The parsed file.
        self.robots: RobotsTxt = RobotsTxt.parse(robotstxt_body, max_size=max_size)

    @classmethod
    def from_crawler(cls, crawler: Crawler | None, robotstxt_body: bytes) -> Self:
        """Parse a file up to ROBOTS_MAX_SIZE.

        :param crawler: the crawler, or `None` to use the default settings.
        :raises SettingError: if the value of ROBOTS_MAX_SIZE is not accepted. This is raised at
            startup, when Scrapy's middleware creates a parser.
        """
        if crawler is None:
            return cls(robotstxt_body)
        if crawler not in checked_crawlers:
            checked_crawlers.add(crawler)
            _warn_of_ignored_settings(crawler)
        return cls(robotstxt_body, max_size=read_row(_MAX_SIZE, crawler.settings))

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Return whether a URL may be fetched (RFC 9309, 2.2).

        :param url: an absolute URL. Percent-encoding is optional.
        :param user_agent: a product token or a User-Agent header.
        """
        return self.robots.decide(url, product_tokens(user_agent)).allowed

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the Crawl-delay for a user agent in seconds, or `None` if there is none.

        :param user_agent: a product token or a User-Agent header.
        """
        return self.robots.crawl_delay(product_tokens(user_agent))

    def sitemaps(self) -> Iterator[str]:
        """Return an iterator over the http and https URLs in the first 1,000 Sitemap records.

        Relative URLs and duplicates are left out.
        """
        return iter(sitemap_urls(self.robots.sitemaps, base=""))


def _warn_of_ignored_settings(crawler: Crawler) -> None:
    """Warn about settings that have no effect without our middleware.

    The parser alone only reads ROBOTS_MAX_SIZE.
    """
    ours = {row.key for row in TABLE if row.key.startswith("ROBOTS_")} - {_MAX_SIZE.key}
    # The priority is `None` or 0 unless the user, a spider or an add-on has set the setting.
    ignored = sorted(key for key in ours if crawler.settings.getpriority(key))
    if ignored:
        logger.warning(
            "RfcRobotParser is used without RfcRobotsTxtMiddleware, so nothing reads %s; enable"
            " scrapy_robots_rfc.Addon",
            ", ".join(ignored),
            extra={"spider": crawler.spider},
        )
