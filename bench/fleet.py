"""Crawl with workers that share a queue in Redis: `python -m bench.fleet REDIS_URL`.

The queue is scrapy-redis's. After three seconds one worker gets SIGTERM, and one SIGKILL. The sites
are paced, free, or hang. The exit code is 1 if a disallowed page is fetched, an interval is too
short, a page is fetched twice, or more is lost than what the killed worker had taken.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis import Redis
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy_redis.queue import PriorityQueue
from scrapy_redis.scheduler import Scheduler

from bench.report import table
from bench.sites import serving

if TYPE_CHECKING:
    from scrapy.http import Response

#: Seconds after which workers get their signals.
AFTER = 3.0
_LIMIT = 600


class Shared(Spider):
    """Takes its requests from the queue of the fleet."""

    name = "shared"

    def parse(self, _response: Response, **_: object) -> None:
        """Yield nothing more."""


class Noting(Scheduler):  # type: ignore[misc]  # scrapy-redis has no types
    """Writes down what it takes from the queue."""

    file = ""

    def next_request(self) -> Request | None:
        """Take a request."""
        request: Request | None = super().next_request()
        if request is not None:
            with Path(self.file).open("a", encoding="utf-8") as taken:
                taken.write(f"{request.url}\n")
        return request


def work(redis: str, taken: str) -> None:
    """Crawl what is in the queue, in this process.

    :param taken: file for the URLs that are taken from the queue.
    """
    Noting.file = taken
    settings: dict[str, Any] = {
        "ADDONS": {"scrapy_robots_rfc.Addon": 500},
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
        "SCHEDULER": Noting,
        "SCHEDULER_PERSIST": True,
        "SCHEDULER_QUEUE_KEY": "shared:requests",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "REDIS_URL": redis,
        "ROBOTS_CACHE": redis,
        "CONCURRENT_REQUESTS": 4,
        "ROBOTS_TIMEOUT": 5,
        "ROBOTS_UNREACHABLE_BACKOFF": [],
    }
    process = AsyncCrawlerProcess(settings)
    process.crawl(Shared)
    process.start()


@dataclass(frozen=True)
class Crawled:
    """The result of a crawl.

    :param fetched: how often each page was fetched.
    :param lost: allowed pages that were neither fetched nor taken by a killed worker.
    :param with_killed: allowed pages that a killed worker had taken and not fetched.
    :param shortest: seconds of the shortest interval between two requests of a paced site.
    """

    fetched: Counter[str]
    disallowed: int
    lost: int
    with_killed: int
    shortest: float

    @property
    def doubled(self) -> int:
        """How many pages were fetched more than once."""
        return sum(times > 1 for times in self.fetched.values())


def crawl(
    redis: str,
    delay: float,
    paced: tuple[int, int] = (10, 8),
    free: tuple[int, int] = (10, 200),
    signals: tuple[signal.Signals | None, ...] = (signal.SIGTERM, signal.SIGKILL, None, None),
) -> Crawled:
    """Crawl with a worker for each of the signals.

    :param delay: Crawl-delay of the paced sites.
    :param paced: number of paced sites, and of the pages of each.
    """
    server = Redis.from_url(redis)
    server.flushall()
    queue = PriorityQueue(server, Shared(), "shared:requests")
    with serving(delay) as sites, tempfile.TemporaryDirectory() as folder:
        allowed = [*sites.urls(1, *paced), *sites.urls(2, *free)]
        # Disallowed pages, and pages of sites that hang.
        others = [*sites.urls(1, paced[0], 2, "/x"), *sites.urls(2, free[0], 2, "/x")]
        others += sites.urls(3, 2 * paced[0], 2) if None in signals else []
        for url in [*others, *allowed]:
            queue.push(Request(url))
        files = [Path(folder, str(number)) for number in range(len(signals) + 1)]
        _run_workers(redis, files, signals)
        log = sites.log()
        fetched = Counter(
            f"http://{host}:{sites.port}{path}"
            for host, requests in log.items()
            for _, path in requests
            if path != "/robots.txt"
        )
        killed = [
            file for file, sign in zip(files, signals, strict=False) if sign is signal.SIGKILL
        ]
        taken = {url for file in killed for url in file.read_text("utf-8").split()}
        missing = set(allowed) - set(fetched)
        times = [
            sorted(when for when, _ in requests)
            for host, requests in log.items()
            if host.startswith("127.1.")
        ]
        return Crawled(
            fetched=fetched,
            disallowed=sum(url in fetched for url in others),
            lost=len(missing - taken),
            with_killed=len(missing & taken),
            shortest=min(b - a for each in times for a, b in pairwise(each)),
        )


def _run_workers(redis: str, files: list[Path], signals: tuple[signal.Signals | None, ...]) -> None:
    """Run all workers, and one more for what is left at the end."""
    command = [sys.executable, "-m", "bench.fleet", redis, "--taken"]
    workers = [subprocess.Popen([*command, str(file)]) for file in files[:-1]]
    try:
        deadline = time.monotonic() + 120
        while not all(map(Path.exists, files[:-1])) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(AFTER)
        for worker, sign in zip(workers, signals, strict=True):
            if sign is not None:
                worker.send_signal(sign)
        for worker in workers:
            worker.wait(_LIMIT)
        # The others may have ended before the first one gave its requests back.
        subprocess.run([*command, str(files[-1])], timeout=_LIMIT, check=True)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def main() -> int:
    """Print the table, and return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("redis", help="URL of an empty Redis server")
    parser.add_argument("--delay", type=float, default=1.0, help="the Crawl-delay, in seconds")
    parser.add_argument("--taken", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.taken:
        work(options.redis, options.taken)
        return 0
    result = crawl(options.redis, options.delay)
    rows = [
        ["disallowed pages, or of sites that hang", f"{result.disallowed}", "0"],
        [
            "shortest interval, share of the Crawl-delay",
            f"{result.shortest / options.delay:.3f}",
            "1",
        ],
        ["pages fetched twice", f"{result.doubled}", "0"],
        ["pages lost by the killed worker", f"{result.with_killed}", "in flight"],
        ["other pages lost", f"{result.lost}", "0"],
    ]
    print(table("Four workers, SIGTERM and SIGKILL", ["", "measured", "wanted"], rows))
    is_wrong = result.disallowed or result.doubled or result.lost
    return int(bool(is_wrong) or result.shortest < options.delay)


if __name__ == "__main__":
    sys.exit(main())
