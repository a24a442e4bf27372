"""The memory that robots.txt takes in a crawl of many hosts: a part of `python -m bench`.

Each crawl has its own process and requests one page of each host. The download handler makes the
answers itself; everything else of Scrapy is at work. What a process has at the end, minus what the
same crawl without robots.txt has, is the cost of robots.txt.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Response, TextResponse

from bench.files import generated
from bench.timing import resident

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self

    from scrapy.crawler import Crawler

OURS, STOCK, OFF = "ours", "Scrapy's own", "ROBOTSTXT_OBEY=False"
#: What obeys robots.txt in a crawl.
MODES: dict[str, dict[str, Any]] = {
    OURS: {"ADDONS": {"scrapy_robots_rfc.Addon": 500}},
    STOCK: {"ROBOTSTXT_OBEY": True},
    OFF: {"ROBOTSTXT_OBEY": False},
}
# Different files; each host has its own copy of one.
_FILES = 1000
_PAGE = b"<!DOCTYPE html><html><body><p>Some text.</p></body></html>"
_SETTINGS: dict[str, Any] = {
    "LOG_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "CONCURRENT_REQUESTS": 32,
    "CONCURRENT_ITEMS": 1,
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
    "RETRY_ENABLED": False,
    # A tenth of the files have a Crawl-delay: it is remembered, too, but no request waits.
    "ROBOTS_CRAWL_DELAY_MAX": 0.01,
}


class Generated:
    """A download handler that makes the answers of all hosts."""

    lazy = False

    def __init__(self) -> None:
        self._bodies = [file.body for file in generated(_FILES, urls=1)]

    @classmethod
    def from_crawler(cls, _: Crawler) -> Self:
        """Create the handler of a crawl."""
        return cls()

    async def download_request(self, request: Request) -> Response:
        """Answer, with validators for robots.txt as servers send them."""
        if not request.url.endswith("/robots.txt"):
            return HtmlResponse(request.url, body=_PAGE, request=request)
        number = int(request.url.removeprefix("https://site").partition(".")[0])
        headers = {
            "Content-Type": "text/plain",
            "Date": "Sat, 21 Nov 2026 19:00:00 GMT",
            "ETag": f'"{number:x}-5f2a1c3e7b900"',
            "Last-Modified": "Sat, 21 Nov 2020 19:00:00 GMT",
        }
        body = bytes(bytearray(self._bodies[number % len(self._bodies)]))
        return TextResponse(request.url, headers=headers, body=body, request=request)

    async def close(self) -> None:
        """There is nothing to close."""


class Hosts(Spider):
    """Requests a page of each host, and notes the memory in the middle and at the end."""

    name = "hosts"

    def __init__(self, count: int, memory: dict[str, int]) -> None:
        super().__init__()
        self._count = count
        self._done = 0
        self._memory = memory

    async def start(self) -> AsyncIterator[Request]:
        """Yield all requests."""
        self.crawler.signals.connect(self.on_idle, signals.spider_idle)
        self._note("start")
        for number in range(self._count):
            url = f"https://site{number}.example/page/about-us.html"
            yield Request(url, self.parse, errback=self.failed)

    def parse(self, _response: Response, **_: object) -> None:
        """Count the page."""
        self.failed(None)

    def failed(self, _failure: object) -> None:
        """Count the page, which is disallowed."""
        self._done += 1
        if self._done == self._count // 2:
            self._note("half")

    def on_idle(self) -> None:
        """Note the memory of the whole crawl."""
        assert self._done == self._count
        self._note("end")

    def _note(self, moment: str) -> None:
        gc.collect()
        self._memory[moment] = resident()


def crawl(mode: str, count: int, size: int) -> dict[str, int]:
    """Crawl in another process, and return its bytes of memory at three moments.

    :param size: ROBOTS_CACHE_SIZE.
    """
    command = [sys.executable, "-m", "bench.hosts", mode, str(count), str(size)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    memory: dict[str, int] = json.loads(done.stdout)
    return memory


def kib_per_host(count: int) -> dict[str, float]:
    """Return the KiB that robots.txt takes for each host, by what is measured."""
    off = crawl(OFF, count, count)
    modes = {
        STOCK: (STOCK, count),
        "ours": (OURS, 10_000),
        f"ours, ROBOTS_CACHE_SIZE = {count:,}": (OURS, count),
    }
    found = {}
    for name, (mode, size) in modes.items():
        memory = crawl(mode, count, size)
        found[name] = _difference(memory, off, "start") / count / 1024
    # The first half has filled the table of parsed files.
    found["ours, each further host"] = _difference(memory, off, "half") / (count / 2) / 1024
    return found


def _difference(memory: dict[str, int], off: dict[str, int], since: str) -> float:
    return (memory["end"] - memory[since]) - (off["end"] - off[since])


if __name__ == "__main__":
    _, mode, count, size = sys.argv
    memory: dict[str, int] = {}
    handlers = {"ROBOTS_CACHE_SIZE": int(size), "DOWNLOAD_HANDLERS": {"https": Generated}}
    process = CrawlerProcess({**_SETTINGS, **MODES[mode], **handlers})
    process.crawl(Hosts, count=int(count), memory=memory)
    process.start()
    print(json.dumps(memory))
