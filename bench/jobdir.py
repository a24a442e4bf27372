"""Measure crawls with a very large JOBDIR, and the cost of JOBDIR for whole crawls.

`python -m bench.queue` prints the tables.
"""

import gc
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response, TextResponse
from scrapy.pqueues import DownloaderAwarePriorityQueue

from bench.crawling import MODES, OURS, STOCK, MadeUpAnswers, crawled
from bench.processes import call
from bench.report import table
from scrapy_robots_rfc import OriginPriorityQueue

#: Our middleware. The add-on would wrap the scheduler with Scrapy's own queue.
BY_HAND = {
    "ROBOTSTXT_OBEY": True,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "scrapy_robots_rfc.RfcRobotsTxtMiddleware": 100,
    },
}
#: Requests for each site of the large JOBDIR.
_EACH = 10
_POPS = 2_000
_PAIRS = 3
#: Name of a crawl -> its number of sites, and of pages per site.
_CRAWLS = {"400 sites of 5 pages": (400, 5), "one site of 3,000 pages": (1, 3_000)}


class EveryPage(MadeUpAnswers):
    """A download handler whose sites allow every page."""

    async def robots_txt(self, request: Request) -> Response:
        """Return the file."""
        return TextResponse(request.url, body=b"User-agent: *\nDisallow: /x\n", request=request)


class Large(Spider):
    """Fills the queue of a JOBDIR, or pops some requests from it."""

    name = "large"
    sites = 0
    begun = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **options: Any) -> Self:  # noqa: ANN401 - Scrapy's
        """Remember when the crawl began."""
        spider = super().from_crawler(crawler, *args, **options)
        spider.begun = time.thread_time()
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Measure, and stop. `yield` makes this function a generator."""
        self.seconds = time.thread_time() - self.begun
        gc.disable()  # its pauses depend on all objects of the process
        assert self.crawler.engine is not None
        assert self.crawler.engine._slot is not None
        scheduler: Any = self.crawler.engine._slot.scheduler
        queue = scheduler.dqs
        self.longest = self.bytes_each = 0.0
        if self.sites:
            for number in range(_EACH):
                for site in range(self.sites):
                    request = Request(f"http://site{site}.example/{number}")
                    self.measure(queue.push, request)
                if number == 0:
                    before = memory()
            self.bytes_each = (memory() - before) / (self.sites * (_EACH - 1))
        else:
            for _ in range(_POPS):
                self.measure(queue.pop)
        self.files = open_files(Path(scheduler.dqdir))
        await self.crawler.engine.close_spider_async()
        yield None

    def measure(self, function: Any, *arguments: object) -> None:  # noqa: ANN401 - push or pop
        """Measure a call in processor time of the thread."""
        begun = time.thread_time()
        function(*arguments)
        self.longest = max(self.longest, time.thread_time() - begun)


def memory() -> int:
    """Return the memory of the process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def open_files(folder: Path) -> int:
    """Return the number of files of a folder that the process has open."""
    links = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.exists()]
    return sum(link.startswith(str(folder)) for link in links)


def large_crawl(folder: str, sites: int, obey: bool) -> list[float]:
    """Run a crawl with a large JOBDIR in this process.

    :param sites: number of sites to fill the queue with, or 0 to pop requests.
    """
    settings = {
        **MODES[OURS],
        "JOBDIR": folder,
        "ROBOTSTXT_OBEY": obey,
        "DOWNLOAD_HANDLERS": {"http": EveryPage},
    }
    spider = crawled(Large, settings, sites=sites)
    return [spider.seconds, spider.longest * 1000, spider.bytes_each, spider.files]


def large_table(sites: int) -> str:
    """Fill a JOBDIR, resume it, and return a table."""
    with tempfile.TemporaryDirectory() as folder:
        filled, _ = call("bench.jobdir.large_crawl", folder, sites, True)
        # The second crawl doesn't obey robots.txt, because otherwise its pops would only fetch.
        resumed, _ = call("bench.jobdir.large_crawl", folder, 0, True)
        popped, _ = call("bench.jobdir.large_crawl", folder, 0, False)
    rows = [
        ["open files", f"{max(filled[3], resumed[3], popped[3])}", "3"],
        ["bytes of memory for each request", f"{filled[2]:.0f}", "100"],
        ["longest push, ms", f"{filled[1]:.2f}", "10"],
        ["longest pop after a resume, ms", f"{popped[1]:.2f}", "10"],
        ["start of a resumed crawl, s", f"{resumed[0]:.2f}", "2"],
    ]
    title = f"JOBDIR with {sites:,} sites and {sites * _EACH:,} requests"
    return table(title, ["", "measured", "goal"], rows)


class Whole(Spider):
    """Crawls all pages of some sites."""

    name = "whole"
    sites = pages = 0

    async def start(self) -> AsyncIterator[Any]:
        """Request the first page of each site."""
        for site in range(self.sites):
            yield Request(f"http://site{site}.example/0")

    def parse(self, response: Response) -> Iterator[Request]:
        """Request the other pages."""
        if response.url.endswith("/0"):
            for number in range(1, self.pages):
                yield Request(response.urljoin(f"/{number}"))


def whole_crawl(kind: str, sites: int, pages: int) -> float:
    """Crawl with a JOBDIR in this process, and return the seconds of user and system time."""
    queue = DownloaderAwarePriorityQueue if kind == STOCK else OriginPriorityQueue
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            **BY_HAND,
            "JOBDIR": folder,
            "LOG_ENABLED": False,
            "DOWNLOAD_HANDLERS": {"http": EveryPage},
            "SCHEDULER_PRIORITY_QUEUE": queue,
        }
        crawled(Whole, settings, sites=sites, pages=pages)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def whole_table(share: float) -> str:
    """Run pairs of crawls in turn, and return a table."""
    rows = []
    for name, (sites, pages) in _CRAWLS.items():
        size = (max(1, int(sites * share)), pages) if sites > 1 else (1, max(2, int(pages * share)))
        times: dict[str, list[float]] = {OURS: [], STOCK: []}
        for pair in range(_PAIRS):
            for kind in (OURS, STOCK) if pair % 2 == 0 else (STOCK, OURS):
                seconds, _ = call("bench.jobdir.whole_crawl", kind, *size)
                times[kind].append(seconds)
        ours, scrapys = (statistics.median(times[kind]) for kind in (OURS, STOCK))
        rows.append([name, f"{ours:.2f}", f"{scrapys:.2f}", f"{ours / scrapys:.2f}"])
    title = f"Crawls with JOBDIR, seconds of user and system time (median of {_PAIRS})"
    return table(title, ["", "our queue", "Scrapy's own", "ratio (goal: 1)"], rows)
