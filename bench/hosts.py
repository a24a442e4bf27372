"""Measure what robots.txt costs in a crawl of many hosts, as part of `python -m bench`.

Each crawl runs in its own process and requests one page of each host. The memory of robots.txt is
the memory of the process, minus the memory of the same crawl without robots.txt. The time of a host
should be the same in both halves of a crawl.
"""

import gc
import time
from collections.abc import AsyncIterator

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response, TextResponse

from bench.crawling import MODES, OFF, OURS, STOCK, MadeUpAnswers, crawled, resident
from bench.files import generated
from bench.processes import call
from bench.report import table

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
    """Requests a page of each host, and measures at the start, in the middle and at the end."""

    name = "hosts"

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count
        self._done = 0
        self.memory: list[int] = []
        self.seconds: list[float] = []
        self.collection = self._since = 0.0

    async def start(self) -> AsyncIterator[Request]:
        self.crawler.signals.connect(self.on_idle, signals.spider_idle)
        self._measure()
        for number in range(self._count):
            url = f"https://site{number}.example/page/about-us.html"
            yield Request(url, self.done, errback=self.done)

    def done(self, _result: object) -> None:
        """Count a page that was fetched or dropped."""
        self._done += 1
        if self._done == self._count // 2:
            self._measure()

    def on_idle(self) -> None:
        assert self._done == self._count
        self._measure()

    def _measure(self) -> None:
        now = time.process_time()
        self.seconds.append(now - self._since)
        gc.collect()
        self._since = time.process_time()
        self.collection = self._since - now
        self.memory.append(resident())


def crawl(mode: str, count: int, cache_size: int) -> tuple[list[int], list[float], float]:
    """Crawl in this process.

    :returns: bytes of memory at the start, in the middle and at the end, processor time before
        them, and the seconds of the last garbage collection.
    """
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
    spider = crawled(Hosts, settings, count=count)
    return spider.memory, spider.seconds, spider.collection


def show_hosts(count: int) -> None:
    """Print the costs of robots.txt in crawls of many hosts."""
    crawls = {
        OFF: (OFF, count),
        STOCK: (STOCK, count),
        "ours": (OURS, 10_000),
        f"ours, ROBOTS_CACHE_SIZE = {count:,}": (OURS, count),
    }
    rows, memory_without = [], (0, 0)
    for name, (mode, cache_size) in crawls.items():
        (sizes, seconds, collection), _ = call("bench.hosts.crawl", mode, count, cache_size)
        memory = sizes[2] - sizes[0], sizes[2] - sizes[1]
        if mode == OFF:
            memory_without = memory
        # After the first half, the caches are full.
        kib, further_kib = (
            (ours - without) / hosts / 1024
            for ours, without, hosts in zip(memory, memory_without, (count, count / 2), strict=True)
        )
        times = [f"{half / (count / 2) * 1e6:,.0f}" for half in seconds[1:]]
        rows.append([name, f"{kib:.2f}", f"{further_kib:.2f}", *times, f"{collection * 1000:.0f}"])
    title = f"A crawl of {count:,} hosts (goals: 2.5 KiB for each further host, collector 150 ms)"
    head = ["", "KiB per host", "further host", "us, first half", "second half", "collector, ms"]
    print(table(title, head, rows), flush=True)
