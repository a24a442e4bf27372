"""Measure the memory that robots.txt takes in a crawl of many hosts, as part of `python -m bench`.

Each crawl runs in its own process and requests one page of each host. The cost of robots.txt is the
memory of the process, minus the memory of the same crawl without robots.txt.
"""

import gc
from collections.abc import AsyncIterator

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response, TextResponse

from bench.crawling import MODES, OFF, OURS, STOCK, MadeUpAnswers, crawled, resident
from bench.files import generated
from bench.processes import call

# Number of different files. Each host has its own copy of one.
_FILES = 1000


class GeneratedFiles(MadeUpAnswers):
    """A download handler that makes up the answers of all hosts."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._bodies = [file.body for file in generated(_FILES, urls=1)]

    async def robots_txt(self, request: Request) -> Response:
        """Return a file with the validators that servers usually send."""
        number = int(request.url.removeprefix("https://site").partition(".")[0])
        headers = {
            "Content-Type": "text/plain",
            "Date": "Sat, 21 Nov 2026 19:00:00 GMT",
            "ETag": f'"{number:x}-5f2a1c3e7b900"',
            "Last-Modified": "Sat, 21 Nov 2020 19:00:00 GMT",
        }
        body = bytes(bytearray(self._bodies[number % len(self._bodies)]))
        return TextResponse(request.url, headers=headers, body=body, request=request)


class Hosts(Spider):
    """Requests a page of each host, and measures the memory in the middle and at the end."""

    name = "hosts"

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count
        self._done = 0
        self.memory: dict[str, int] = {}

    async def start(self) -> AsyncIterator[Request]:
        self.crawler.signals.connect(self.on_idle, signals.spider_idle)
        self._measure("start")
        for number in range(self._count):
            url = f"https://site{number}.example/page/about-us.html"
            yield Request(url, self.done, errback=self.done)

    def done(self, _result: object) -> None:
        """Count a page that was fetched or dropped."""
        self._done += 1
        if self._done == self._count // 2:
            self._measure("half")

    def on_idle(self) -> None:
        assert self._done == self._count
        self._measure("end")

    def _measure(self, moment: str) -> None:
        gc.collect()
        self.memory[moment] = resident()


def crawl(mode: str, count: int, cache_size: int) -> dict[str, int]:
    """Crawl in this process, and return its bytes of memory at three moments."""
    settings = {
        **MODES[mode],
        "CONCURRENT_REQUESTS": 32,
        "CONCURRENT_ITEMS": 1,
        "RETRY_ENABLED": False,
        "DOWNLOAD_HANDLERS": {"https": GeneratedFiles},
        "ROBOTS_CACHE_SIZE": cache_size,
        # A tenth of the files have a Crawl-delay. It takes memory, but no request waits for it.
        "ROBOTS_CRAWL_DELAY_MAX": 0.01,
    }
    return crawled(Hosts, settings, count=count).memory


def kib_per_host(count: int) -> dict[str, float]:
    """Return the KiB that robots.txt takes for each host, by what was measured."""
    off, _ = call("bench.hosts.crawl", OFF, count, count)

    def cost(memory: dict[str, int], since: str) -> int:
        off_cost: int = off["end"] - off[since]
        return memory["end"] - memory[since] - off_cost

    modes = {
        STOCK: (STOCK, count),
        "ours": (OURS, 10_000),
        f"ours, ROBOTS_CACHE_SIZE = {count:,}": (OURS, count),
    }
    costs = {}
    for name, (mode, cache_size) in modes.items():
        memory, _ = call("bench.hosts.crawl", mode, count, cache_size)
        costs[name] = cost(memory, "start") / count / 1024
    # After the first half, the table of parsed files is full.
    costs["ours, each further host"] = cost(memory, "half") / (count / 2) / 1024
    return costs
