"""Measure the longest calls of our queue and of Scrapy's own: `python -m bench.queue`.

Each row is a crawl with one request for each of many sites in the queue. A download handler makes
up the answers. The robots.txt of the sites is known, never arrives, or has a Crawl-delay. Times are
processor time of the thread, without garbage collection. Each crawl runs twice, in processes of its
own, and the shorter time of each call counts. Otherwise the longest of 100,000 calls would be one
that was interrupted, because a virtual machine counts that as processor time.
"""

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response, TextResponse
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.utils.httpobj import urlparse_cached

from bench.crawling import MODES, OURS, STOCK, MadeUpAnswers, crawled
from bench.jobdir import large_table, whole_table
from bench.processes import call
from bench.report import table
from scrapy_robots_rfc import OriginPriorityQueue, robots_service

#: Name of a row -> the robots.txt of each site, or `None` if it never arrives.
FILES = {
    "known": b"User-agent: *\nDisallow: /x\n",
    "unknown": None,
    "paced": b"User-agent: *\nCrawl-delay: 60\n",
}
#: Maximum milliseconds of a call.
GOALS = {"push": 10, "pop": 2, "len": 1}
RUNS = 2
_POPS = 2_000
# Scrapy's own queue looks at all sites in each pop, so fewer pops are measured.
_POPS_OF_SCRAPY = 50
# Calls between two turns of the event loop.
_TURN = 50


class SameFile(MadeUpAnswers):
    """A download handler that gives all sites the same robots.txt."""

    async def robots_txt(self, request: Request) -> Response:
        """Return the file, or never return."""
        body = FILES[self.crawler.settings["BENCH_KIND"]]
        if body is None:
            await asyncio.Event().wait()
        return TextResponse(request.url, body=body or b"", request=request)


class Queued(Spider):
    """Fills the queue, and pops requests from it."""

    name = "queued"

    async def start(self) -> AsyncIterator[Request]:
        """Measure. The request is never sent; it makes this function a generator."""
        await self._measure()
        yield Request("data:,")

    async def _measure(self) -> None:
        """Print the time of each call in milliseconds, and end the process at once."""
        kind = self.settings["BENCH_KIND"]
        urls = [f"http://site{n}.example/" for n in range(self.settings["BENCH_SITES"])]
        if FILES.get(kind) is not None:
            service = robots_service(self.crawler)
            for n in range(0, len(urls), _TURN):
                await asyncio.gather(*map(service.robots, urls[n : n + _TURN]))
        assert self.crawler.engine is not None
        assert self.crawler.engine._slot is not None
        scheduler: Any = self.crawler.engine._slot.scheduler
        queue = scheduler.mqs if scheduler.dqs is None else scheduler.dqs
        times: dict[str, list[float]] = {name: [] for name in GOALS}

        async def measure(number: int, name: str, function: Callable[..., object]) -> None:
            start = time.thread_time()
            function()
            times[name].append(round((time.thread_time() - start) * 1000, 4))
            if number % _TURN == 0:
                await asyncio.sleep(0)

        gc.collect()
        gc.disable()
        for number, url in enumerate(urls):
            request = Request(url)
            urlparse_cached(request)  # as Scrapy's `OffsiteMiddleware` does before the push
            await measure(number, "push", partial(queue.push, request))
        for number in range(_POPS_OF_SCRAPY if kind == STOCK else _POPS):
            await measure(number, "pop", queue.pop)
            await measure(number, "len", queue.__len__)
        print(json.dumps(times), flush=True)
        os._exit(0)


def crawl(kind: str, sites: int, jobdir: str | None) -> None:
    """Run a crawl in this process."""
    queue = DownloaderAwarePriorityQueue if kind == STOCK else OriginPriorityQueue
    settings = {
        **({} if kind == STOCK else MODES[OURS]),
        "LOG_ENABLED": False,
        "BENCH_KIND": kind,
        "BENCH_SITES": sites,
        "JOBDIR": jobdir,
        "ROBOTS_CACHE_SIZE": sites,
        "DOWNLOAD_HANDLERS": {"http": SameFile},
        "SCHEDULER_PRIORITY_QUEUE": queue,
    }
    crawled(Queued, settings)


def longest_calls(kind: str, sites: int, *, on_disk: bool) -> dict[str, float]:
    """Return the milliseconds of the longest push, pop and len."""
    runs = []
    for _ in range(1 if kind == STOCK else RUNS):
        with tempfile.TemporaryDirectory() as folder:
            times, _ = call("bench.queue.crawl", kind, sites, folder if on_disk else None)
        runs.append(times)
    return {name: max(map(min, zip(*(run[name] for run in runs), strict=True))) for name in GOALS}


def main() -> int:
    """Print the table, and return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.queue", description=__doc__)
    parser.add_argument("--sites", type=int, default=100_000)
    sites = parser.parse_args().sites
    rows, is_missed = [], False
    for place in ("memory", "JOBDIR"):
        on_disk = place == "JOBDIR"
        # On disk, Scrapy's own queue would keep a file open for each site.
        for kind in FILES if on_disk else (*FILES, STOCK):
            longest = longest_calls(kind, sites, on_disk=on_disk)
            is_missed |= kind != STOCK and any(longest[name] > goal for name, goal in GOALS.items())
            rows.append([f"{kind}, {place}", *(f"{longest[name]:.3f}" for name in GOALS)])
            print(*rows[-1], file=sys.stderr, flush=True)
    goals = ", ".join(f"{name} {goal}" for name, goal in GOALS.items())
    title = f"Longest calls with {sites:,} sites, milliseconds (goals: {goals})"
    print(table(title, ["robots.txt", *GOALS], rows))
    print(large_table(sites))
    print(whole_table(min(1, sites / 100_000)))
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
