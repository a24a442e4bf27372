"""One crawl of the local site, in a process of its own: `python -m bench.crawl MODE PORT PAGES`
prints what it took.

The clock runs from a page in the middle of the run to the last one, so that starting up, connecting
and fetching robots.txt do not count: the crawl is warm. All other pages are asked for in the
callback of the first one, so that the same requests are queued in every mode: those that wait for a
robots.txt at the start would be queued at once, others one by one, and what a garbage collector
finds in a long queue takes more time than robots.txt does.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

STOCK = "stock"
OFF = "ROBOTSTXT_OBEY=False"
OURS = "ours"

_STOCK_PATH = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
#: Mode -> the settings that make it.
MODES: dict[str, dict[str, Any]] = {
    OURS: {
        "ROBOTSTXT_OBEY": True,
        "DOWNLOADER_MIDDLEWARES": {
            _STOCK_PATH: None,
            "scrapy_robots_rfc.RfcRobotsTxtMiddleware": 100,
        },
    },
    STOCK: {"ROBOTSTXT_OBEY": True},
    OFF: {"ROBOTSTXT_OBEY": False},
}
_COMMON = {
    "LOG_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
}
# Pages before the clock starts.
_WARM_UP = 100


class PagesSpider(Spider):
    """Asks for so many pages and notes when the first counted one and the last one came."""

    name = "pages"

    def __init__(self, port: int, pages: int, marks: list[tuple[float, float]]) -> None:
        super().__init__()
        self._port, self._pages, self._marks = port, pages, marks
        self._seen = 0

    def _page(self, number: int) -> Request:
        """A page: each has a URL of its own, and none is disallowed."""
        return Request(f"http://127.0.0.1:{self._port}/page/{number}.html?from=start", self.parse)

    async def start(self) -> AsyncIterator[Request]:
        """The first page."""
        yield self._page(0)

    def parse(self, _response: Response, **_kwargs: object) -> Iterator[Request]:
        """Count the page; ask for all others when the first one is there."""
        self._seen += 1
        if self._seen in (_WARM_UP, self._pages + _WARM_UP):
            self._marks.append((perf_counter(), process_time()))
        if self._seen == 1:
            yield from map(self._page, range(1, self._pages + _WARM_UP))


def main(mode: str, port: int, pages: int) -> None:
    """Crawl, and print seconds by the wall clock and by the processor."""
    marks: list[tuple[float, float]] = []
    process = CrawlerProcess(_COMMON | MODES[mode])
    process.crawl(PagesSpider, port=port, pages=pages, marks=marks)
    process.start()
    (wall, cpu), (wall_end, cpu_end) = marks
    print(json.dumps({"wall": wall_end - wall, "cpu": cpu_end - cpu}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
