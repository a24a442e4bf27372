"""The parser of `core/` as Scrapy asks for one, for Scrapy's own middleware without the add-on."""

from typing import Self

from scrapy.crawler import Crawler
from scrapy.robotstxt import RobotParser

from scrapy_robots_rfc.core.agents import product_tokens
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.settings import BY_FIELD, read_row


class RfcRobotParser(RobotParser):
    """RFC 9309 for Scrapy: ``ROBOTSTXT_PARSER = "scrapy_robots_rfc.RfcRobotParser"``.

    :param robotstxt_body: the file's octets. No octets raise an error.
    :param max_size: how many of them are read, at least 512,000 (RFC 9309, 2.5).
    """

    def __init__(self, robotstxt_body: bytes, *, max_size: int = RobotsTxt.MAX_SIZE) -> None:
        #: The parsed file, with rules, sitemaps, and decisions that have reasons.
        self.robots: RobotsTxt = RobotsTxt.parse(robotstxt_body, max_size=max_size)

    @classmethod
    def from_crawler(cls, crawler: Crawler | None, robotstxt_body: bytes) -> Self:
        """Parse a file; only its first ``ROBOTS_MAX_SIZE`` octets are read.

        :param crawler: has the setting; ``None``: its default counts.
        :raises SettingError: the value of the setting is not accepted. A crawl with Scrapy's own
            middleware gets the error at its start, because that middleware makes a parser then.
        """
        if crawler is None:
            return cls(robotstxt_body)
        return cls(robotstxt_body, max_size=read_row(BY_FIELD["max_size"], crawler.settings))

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Whether a URL may be fetched (RFC 9309, 2.2).

        :param url: an absolute URL, percent-encoded or not.
        :param user_agent: a product token, or a User-Agent header.
        """
        if isinstance(user_agent, bytes):
            user_agent = user_agent.decode("utf-8", "replace")
        return self.robots.decide(url, user_agent).allowed

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """The Crawl-delay for a user agent, in seconds; ``None`` where the file has none.

        :param user_agent: a product token, or a User-Agent header.
        """
        return self.robots.crawl_delay(product_tokens(user_agent))
