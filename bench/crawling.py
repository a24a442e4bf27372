"""Settings and a download handler that several benchmarks share."""

from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response

OURS, STOCK, OFF = "ours", "Scrapy's own", "ROBOTSTXT_OBEY=False"
#: The settings that choose what obeys robots.txt.
MODES: dict[str, dict[str, Any]] = {
    OURS: {"ADDONS": {"scrapy_robots_rfc.Addon": 500}},
    STOCK: {"ROBOTSTXT_OBEY": True},
    OFF: {"ROBOTSTXT_OBEY": False},
}
SETTINGS: dict[str, Any] = {
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
}
PAGE = b"<!DOCTYPE html><html><body><p>Some text.</p></body></html>"


class MadeUpAnswers:
    """A download handler that sends nothing. Subclasses make up the robots.txt of each site."""

    lazy = False

    def __init__(self, crawler: Crawler) -> None:
        self.settings = crawler.settings

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def robots_txt(self, request: Request) -> Response:
        """Return the answer to a request for robots.txt."""
        raise NotImplementedError

    async def download_request(self, request: Request) -> Response:
        """Return the answer to a request."""
        if request.url.endswith("/robots.txt"):
            return await self.robots_txt(request)
        return HtmlResponse(request.url, body=PAGE, request=request)

    async def close(self) -> None:
        pass
