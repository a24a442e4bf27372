"""One crawl that can be interrupted and resumed: `python -m bench.resumed_crawl RUNTIME JOBDIR FILE
URL...`.

Follows every link once, and writes a line to FILE for every page that a callback or an errback
gets. When the crawl is closed, it writes the time to FILE.closed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response
    from twisted.python.failure import Failure

SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_robots_rfc.Addon": 500},
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "RETRY_ENABLED": False,
    "CONCURRENT_REQUESTS": 8,
    # Of the links of a page at a time; Scrapy makes as many tasks for each page.
    "CONCURRENT_ITEMS": 8,
    "ROBOTS_UNREACHABLE_BACKOFF": [0.5, 0.5],
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
}

#: Settings and process of each runtime; "alone" is Scrapy with its own middleware.
RUNTIMES: dict[str, tuple[dict[str, Any], type[AsyncCrawlerProcess | CrawlerProcess]]] = {
    "asyncio": ({}, AsyncCrawlerProcess),
    "select": ({"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"}, CrawlerProcess),
    "none": ({"TWISTED_REACTOR_ENABLED": False}, AsyncCrawlerProcess),
    "alone": ({"ADDONS": {}, "ROBOTSTXT_OBEY": True}, AsyncCrawlerProcess),
}


class Links(Spider):
    """Follows every link."""

    name = "links"

    def __init__(self, file: str, urls: list[str]) -> None:
        super().__init__()
        self._file, self._urls = file, urls

    async def start(self) -> AsyncIterator[Request]:
        """All sites. Scrapy starts anew when it resumes, and knows by its filter what it has
        asked for.
        """
        for url in self._urls:
            yield Request(url, self.parse, errback=self.failed, meta={"own": url})

    def parse(self, response: Response) -> Iterator[Request]:
        """Note the page, follow its links."""
        self._note(response.url, str(response.status), response.meta["own"])
        for link in response.css("a::attr(href)").getall():
            url = response.urljoin(link)
            yield Request(url, self.parse, errback=self.failed, meta={"own": url})

    def failed(self, failure: Failure) -> None:
        """Note what was dropped."""
        request: Request = failure.request  # type: ignore[attr-defined]  # Scrapy puts it there
        self._note(request.url, type(failure.value).__name__, request.meta["own"])

    def _note(self, url: str, outcome: str, own: str) -> None:
        with open(self._file, "a", encoding="utf-8") as file:  # noqa: PTH123 - a line at once, whatever comes next
            file.write(f"{url} {outcome} {own == url}\n")


def main(runtime: str, jobdir: str, file: str, urls: list[str]) -> None:
    """Crawl."""
    settings, kind = RUNTIMES[runtime]
    process = kind({**SETTINGS, **settings, "JOBDIR": jobdir})
    process.crawl(Links, file=file, urls=urls)
    process.start()
    Path(f"{file}.closed").write_text(str(time.monotonic()), encoding="ascii")


if __name__ == "__main__":
    _, first, second, third, *rest = sys.argv
    main(first, second, third, rest)
