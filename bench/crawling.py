"""Settings, a download handler and functions that several benchmarks share."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, TypeVar

from scrapy import Request, Spider
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response, TextResponse

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


class MadeUpAnswers(HTTP11DownloadHandler):
    """Replaces Scrapy's download handler, and sends nothing.

    The setting BENCH_FILE is the robots.txt of all sites, or `None` if it never arrives.
    """

    # With a handler of another module, our middleware would also judge final URLs.
    __module__ = HTTP11DownloadHandler.__module__

    async def robots_txt(self, request: Request) -> Response:
        """Return the answer to a request for robots.txt, or never return."""
        body = self.crawler.settings["BENCH_FILE"]
        if body is None:
            await asyncio.Event().wait()
        return TextResponse(request.url, body=body, request=request)

    async def download_request(self, request: Request) -> Response:
        """Return the answer to a request."""
        if request.url.endswith("/robots.txt"):
            return await self.robots_txt(request)
        return HtmlResponse(request.url, body=PAGE, request=request)


class Pages(Spider):
    """Requests a page, and then the others at once."""

    name = "pages"

    def __init__(self, urls: list[str]) -> None:
        super().__init__()
        self._first, *self._others = urls

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self._first, self.parse_first)

    def parse_first(self, _response: Response, **_: object) -> Iterator[Request]:
        yield from map(Request, self._others)

    def parse(self, _response: Response, **_: object) -> None:
        pass


def crawled(spider: type[AnySpider], settings: dict[str, Any], **arguments: object) -> AnySpider:
    """Run a crawl in this process, and return its spider."""
    process = AsyncCrawlerProcess(SETTINGS | settings)
    crawler = process.create_crawler(spider)
    process.crawl(crawler, **arguments)
    process.start()
    assert isinstance(crawler.spider, spider)
    return crawler.spider


def resident() -> int:
    """Return the bytes of memory that this process uses (on Linux)."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
