"""Measure the longest calls of our queue and of Scrapy's own: `python -m bench.queue`.

Each row is a crawl of many sites. A download handler makes up the answers. The robots.txt of the
sites is known, never arrives, or has a Crawl-delay. Times are processor time of the thread, without
garbage collection. Each crawl runs twice, in processes of its own, and the shorter time of each
call counts. Otherwise the longest of 100,000 calls would be one that was interrupted, because a
virtual machine counts that as processor time.

Other crawls with JOBDIR run from start to end, with our queue and with Scrapy's own.
"""

import argparse
import asyncio
import gc
import resource
import statistics
import sys
import tempfile
import time
from array import array
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from scrapy import Request, Spider
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.utils.httpobj import urlparse_cached

from bench.crawling import MODES, OURS, STOCK, MadeUpAnswers, Pages, crawled, resident
from bench.processes import call
from bench.report import table
from scrapy_robots_rfc import OriginPriorityQueue, robots_service

#: The robots.txt of each site, or `None` if it never arrives.
FILES = {
    "known": b"User-agent: *\nDisallow: /x\n",
    "unknown": None,
    "paced": b"User-agent: *\nCrawl-delay: 60\n",
}
#: Maximum milliseconds of a call, in memory and with JOBDIR.
GOALS = {"push": (10, 10), "pop": (2, 10), "len": (1, 1)}
#: Requests for each site in the JOBDIR.
EACH = 10
#: Name of a row -> what the sites or the queue do, requests to push for each site, requests to pop,
#: and whether they are in the JOBDIR, which later rows resume. Scrapy's own queue looks at all
#: sites in each pop, and would keep a file open for each site on disk.
CRAWLS = {
    "known, memory": ("known", 1, 2_000, False),
    "unknown, memory": ("unknown", 1, 2_000, False),
    "paced, memory": ("paced", 1, 2_000, False),
    "Scrapy's own, memory": (STOCK, 1, 50, False),
    "filled, JOBDIR": ("unknown", EACH, 0, True),
    "known, JOBDIR": ("known", 0, 2_000, True),
    "unknown, JOBDIR": ("unknown", 0, 2_000, True),
    "paced, JOBDIR": ("paced", 0, 2_000, True),
}
#: Name of a whole crawl -> its number of sites, and of pages per site.
WHOLE = {"400 sites of 5 pages": (400, 5), "one site of 3,000 pages": (1, 3_000)}
#: Our middleware. The add-on would wrap the scheduler with Scrapy's own queue.
BY_HAND = {
    "ROBOTSTXT_OBEY": True,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "scrapy_robots_rfc.RfcRobotsTxtMiddleware": 100,
    },
}
_QUEUES = {OURS: OriginPriorityQueue, STOCK: DownloaderAwarePriorityQueue}
_RUNS = 2
_PAIRS = 3
# Calls between two turns of the event loop.
_TURN = 50


class Queued(Spider):
    """Fills the queue, pops requests from it, and measures the calls.

    :param rounds: number of requests to push for each site.
    :param pops: number of requests to pop.
    """

    name = "queued"

    def __init__(self, sites: int, rounds: int, pops: int, *, learns: bool) -> None:
        super().__init__()
        self._urls = [f"http://site{n}.example/" for n in range(sites)]
        self._rounds = rounds
        self._pops = pops
        self._learns = learns
        self._created = time.thread_time()
        #: Name -> milliseconds of each call. An array takes little of the memory that is measured.
        self.times = {name: array("f") for name in GOALS}
        #: Seconds of the start, and memory for each request in bytes.
        self.costs: dict[str, float] = {}

    async def start(self) -> AsyncIterator[Any]:
        """Measure, and end the crawl. `yield` makes this function a generator."""
        self.costs["start"] = time.thread_time() - self._created
        engine: Any = self.crawler.engine
        scheduler = engine._slot.scheduler
        if self._learns:
            service = robots_service(self.crawler)
            for n in range(0, len(self._urls), _TURN):
                await asyncio.gather(*map(service.robots, self._urls[n : n + _TURN]))
        gc.collect()
        gc.disable()
        await self._measure(scheduler.mqs if scheduler.dqs is None else scheduler.dqs)
        await engine.close_spider_async()
        yield None

    async def _measure(self, queue: Any) -> None:  # noqa: ANN401 - one of `_QUEUES`
        before = 0
        for number in range(self._rounds):
            for url in self._urls:
                request = Request(f"{url}{number}")
                urlparse_cached(request)  # as Scrapy's `OffsiteMiddleware` does before the push
                await self._time("push", partial(queue.push, request))
            before = before or resident()
        others = len(self._urls) * (self._rounds - 1)
        self.costs["bytes"] = (resident() - before) / others if others > 0 else 0
        for _ in range(self._pops):
            await self._time("pop", queue.pop)
            await self._time("len", queue.__len__)

    async def _time(self, name: str, function: Callable[..., object]) -> None:
        start = time.thread_time()
        function()
        self.times[name].append((time.thread_time() - start) * 1000)
        if len(self.times[name]) % _TURN == 0:
            await asyncio.sleep(0)


def crawl(
    kind: str, sites: int, rounds: int, pops: int, folder: str | None
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Run a crawl in this process."""
    file = FILES.get(kind)
    settings = {
        **({} if kind == STOCK else MODES[OURS]),
        "LOG_ENABLED": False,
        "BENCH_FILE": file,
        "JOBDIR": folder,
        "ROBOTS_CACHE_SIZE": sites,
        "DOWNLOAD_HANDLERS": {"http": MadeUpAnswers},
        "SCHEDULER_PRIORITY_QUEUE": _QUEUES.get(kind, OriginPriorityQueue),
    }
    learns = file is not None and pops > 0
    spider = crawled(Queued, settings, sites=sites, rounds=rounds, pops=pops, learns=learns)
    return {name: times.tolist() for name, times in spider.times.items()}, spider.costs


def show_calls(sites: int) -> bool:
    """Print the longest calls and the costs of JOBDIR, and return whether a goal is missed."""
    runs: defaultdict[str, list[Any]] = defaultdict(list)
    for _ in range(_RUNS):
        with tempfile.TemporaryDirectory() as folder:
            for name, (kind, rounds, pops, is_on_disk) in CRAWLS.items():
                arguments = kind, sites, rounds, pops, folder if is_on_disk else None
                runs[name].append(call("bench.queue.crawl", *arguments)[0])
    rows, is_missed = [], False
    for name, each in runs.items():
        row = [name]
        is_on_disk = CRAWLS[name][-1]
        for function, goals in GOALS.items():
            calls = zip(*(times[function] for times, _ in each), strict=True)
            longest = max(map(min, calls), default=None)
            row.append("-" if longest is None else f"{longest:.3f}")
            is_missed |= longest is not None and longest > goals[is_on_disk] and STOCK not in name
        rows.append(row)
    listed = ", ".join(f"{name} {memory} or {disk}" for name, (memory, disk) in GOALS.items())
    title = f"Longest calls with {sites:,} sites, ms (goals in memory or JOBDIR: {listed})"
    print(table(title, ["robots.txt", *GOALS], rows))
    costs = {name: each[-1][1] for name, each in runs.items()}
    rows = [
        ["bytes of memory for each request", f"{costs['filled, JOBDIR']['bytes']:.0f}", "100"],
        ["start of a resumed crawl, s", f"{costs['unknown, JOBDIR']['start']:.2f}", "2"],
    ]
    title = f"JOBDIR with {sites:,} sites and {sites * EACH:,} requests"
    print(table(title, ["", "measured", "goal"], rows), flush=True)
    return is_missed


def whole_crawl(kind: str, sites: int, pages: int) -> float:
    """Crawl with a JOBDIR in this process, and return the seconds of user and system time."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            **BY_HAND,
            "JOBDIR": folder,
            "LOG_ENABLED": False,
            "BENCH_FILE": FILES["known"],
            "DOWNLOAD_HANDLERS": {"http": MadeUpAnswers},
            "SCHEDULER_PRIORITY_QUEUE": _QUEUES[kind],
        }
        urls = [f"http://site{n}.example/{page}" for page in range(pages) for n in range(sites)]
        crawled(Pages, settings, urls=urls)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def show_whole(share: float) -> None:
    """Run pairs of crawls in turn, and print a table."""
    rows = []
    for name, (sites, pages) in WHOLE.items():
        size = (max(1, int(sites * share)), pages) if sites > 1 else (1, max(2, int(pages * share)))
        pairs = [
            [call("bench.queue.whole_crawl", kind, *size)[0] for kind in _QUEUES]
            for _ in range(_PAIRS)
        ]
        ours, scrapys = map(statistics.median, zip(*pairs, strict=True))
        rows.append([name, f"{ours:.2f}", f"{scrapys:.2f}", f"{ours / scrapys:.2f}"])
    title = f"Crawls with JOBDIR, seconds of user and system time (median of {_PAIRS})"
    print(table(title, ["", "our queue", "Scrapy's own", "ratio (goal: 1)"], rows))


def main() -> int:
    """Print the tables, and return 1 if a goal for the calls is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.queue", description=__doc__)
    parser.add_argument("--sites", type=int, default=100_000)
    sites = parser.parse_args().sites
    is_missed = show_calls(sites)
    show_whole(min(1, sites / 100_000))
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
