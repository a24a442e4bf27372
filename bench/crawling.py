"""Settings, a download handler and a function that several benchmarks share."""

from typing import Any, TypeVar

from scrapy import Request, Spider
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response

AnySpider = TypeVar("AnySpider", bound=Spider)

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


class MadeUpAnswers(BaseDownloadHandler):
    """A download handler that sends nothing. Subclasses make up the robots.txt of each site."""

    async def robots_txt(self, request: Request) -> Response:
        """Return the answer to a request for robots.txt."""
        raise NotImplementedError

    async def download_request(self, request: Request) -> Response:
        """Return the answer to a request."""
        if request.url.endswith("/robots.txt"):
            return await self.robots_txt(request)
        return HtmlResponse(request.url, body=PAGE, request=request)


def crawled(spider: type[AnySpider], settings: dict[str, Any], **arguments: object) -> AnySpider:
    """Run a crawl in this process, and return its spider."""
    process = AsyncCrawlerProcess(SETTINGS | settings)
    crawler = process.create_crawler(spider)
    process.crawl(crawler, **arguments)
    process.start()
    assert isinstance(crawler.spider, spider)
    return crawler.spider
