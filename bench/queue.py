"""Measure the longest calls of our queue and of Scrapy's own: `python -m bench.queue`.

Each row is a separate crawl with one request for each of many sites in the queue. The download
handler makes the answers: a site's robots.txt is known, or never arrives, or asks for a
Crawl-delay. Times are processor time of the thread, without garbage collection.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.pqueues import DownloaderAwarePriorityQueue

from bench.report import table
from scrapy_robots_rfc import OriginPriorityQueue, robots_service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Self

    from scrapy.crawler import Crawler

#: What is queued -> the robots.txt of each site, or `None` if it never arrives.
FILES = {
    "known": b"User-agent: *\nDisallow: /x\n",
    "unknown": None,
    "paced": b"User-agent: *\nCrawl-delay: 60\n",
}
SCRAPY = "Scrapy's own"
#: Milliseconds of the longest push, pop and len; of a pop with JOBDIR.
GOAL, GOAL_ON_DISK = 5.0, 10.0
_POPS = 2_000
# Scrapy's own queue looks at all sites for each pop.
_POPS_OF_SCRAPY = 50
# Calls between two turns of the event loop.
_TURN = 50


# Milliseconds of each call in this process, by its name, and its queues.
CALLS: dict[str, list[float]] = {"push": [], "pop": [], "len": []}
QUEUES: list[Any] = []


def timed(base: type[Any]) -> type[Any]:
    """Return a queue class that measures its calls."""

    def call(name: str, function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
        start = time.thread_time()
        try:
            return function(*arguments)
        finally:
            CALLS[name].append((time.thread_time() - start) * 1000)

    class Timed(base):  # type: ignore[misc]  # a class that is not known before
        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - Scrapy's
            super().__init__(*arguments, **options)
            QUEUES.append(self)

        def push(self, request: Request) -> None:
            call("push", super().push, request)

        def pop(self) -> Request | None:
            request: Request | None = call("pop", super().pop)
            return request

        def __len__(self) -> int:
            length: int = call("len", super().__len__)
            return length

    return Timed


class Handler:
    """A download handler that makes all answers."""

    lazy = False

    def __init__(self, crawler: Crawler) -> None:
        self._robots_txt = FILES.get(crawler.settings["BENCH_KIND"])

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the handler of a crawl."""
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        """Answer, or never."""
        if not request.url.endswith("/robots.txt"):
            return HtmlResponse(request.url, request=request)
        if self._robots_txt is None:
            await asyncio.Event().wait()
        return TextResponse(request.url, body=self._robots_txt or b"", request=request)

    async def close(self) -> None:
        """There is nothing to close."""


class Queued(Spider):
    """Fills the queue, and pops requests from it."""

    name = "queued"

    async def start(self) -> AsyncIterator[Request]:
        """Measure; `start` has to be a generator, so it also yields a request."""
        await self._measure()
        yield Request("data:,")

    async def _measure(self) -> None:
        """Print the times, and end the process at once."""
        kind = self.settings["BENCH_KIND"]
        urls = [f"http://site{n}.example/" for n in range(self.settings["BENCH_SITES"])]
        if FILES.get(kind) is not None:
            service = robots_service(self.crawler)
            for n in range(0, len(urls), _TURN):
                await asyncio.gather(*map(service.robots, urls[n : n + _TURN]))
        queue = QUEUES[-1]  # the one on disk, if there is one, is made last
        gc.collect()
        gc.disable()
        for number, url in enumerate(urls):
            queue.push(Request(url))
            if number % _TURN == 0:
                await asyncio.sleep(0)
        for number in range(_POPS_OF_SCRAPY if kind == SCRAPY else _POPS):
            queue.pop()
            len(queue)
            if number % _TURN == 0:
                await asyncio.sleep(0)
        print(json.dumps({name: max(times) for name, times in CALLS.items()}), flush=True)
        os._exit(0)


def crawl(kind: str, sites: int, jobdir: str | None) -> None:
    """Run a crawl in this process."""
    settings: dict[str, Any] = {
        "LOG_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "BENCH_KIND": kind,
        "BENCH_SITES": sites,
        "JOBDIR": jobdir,
        "ROBOTS_CACHE_SIZE": sites,
        "USER_AGENT": "examplebot",
        "DOWNLOAD_HANDLERS": {"http": Handler},
        "SCHEDULER_PRIORITY_QUEUE": timed(
            DownloaderAwarePriorityQueue if kind == SCRAPY else OriginPriorityQueue
        ),
    }
    if kind != SCRAPY:
        settings["ADDONS"] = {"scrapy_robots_rfc.Addon": 500}
    process = AsyncCrawlerProcess(settings)
    process.crawl(Queued)
    process.start()


def measure(kind: str, sites: int, *, on_disk: bool) -> dict[str, float]:
    """Return the milliseconds of the longest calls, by name."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.queue", "--sites", str(sites), "--crawl", kind]
        command += ["--jobdir", folder] if on_disk else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        times: dict[str, float] = json.loads(done.stdout)
        return times


def main() -> int:
    """Print the table, and return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.queue", description=__doc__)
    parser.add_argument("--sites", type=int, default=100_000)
    parser.add_argument("--crawl", help=argparse.SUPPRESS)
    parser.add_argument("--jobdir", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.crawl:
        crawl(options.crawl, options.sites, options.jobdir)
    rows, missed = [], False
    for on_disk in (False, True):
        for kind in (*FILES, SCRAPY):
            times = measure(kind, options.sites, on_disk=on_disk)
            goals = {"push": GOAL, "pop": GOAL_ON_DISK if on_disk else GOAL, "len": GOAL}
            missed |= kind != SCRAPY and any(times[name] > goals[name] for name in goals)
            where = "JOBDIR" if on_disk else "memory"
            rows.append([f"{kind}, {where}", *(f"{times[name]:.3f}" for name in goals)])
    title = (
        f"Longest calls with {options.sites:,} sites, milliseconds (goals: {GOAL:g};"
        f" pop with JOBDIR: {GOAL_ON_DISK:g})"
    )
    print(table(title, ["robots.txt", "push", "pop", "len"], rows))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
