"""`python -m bench.paced [--delay S] [--moments N] [--kills N]`: sites with a Crawl-delay beside
sites without one.

1. One crawl: how many pages a second the free sites give beside 20 paced ones with 1,000 queued
   pages each, as a ratio to the same sites alone; the intervals by the clock of the sites.
2. Crawls that are stopped once by SIGINT or SIGTERM, and resumed: what `bench.interrupted` finds.
   Crawls that get SIGKILL: whether more pages are lost than with Scrapy's own middleware.
3. A fleet of four workers with one queue in Redis, by scrapy-redis, one of which gets SIGTERM: 50
   paced sites with 10 pages each, and 20 free ones with 225. The pages of paced sites take places
   of CONCURRENT_REQUESTS, too, while they are under way: with a delay that is much shorter, the
   free sites get fewer for that reason alone.
4. Such a fleet of which one gets SIGTERM and another one SIGKILL, beside 10 paced sites and 10 that
   never answer: whether a forbidden page is fetched, and whether more is lost than what the killed
   worker had taken from the queue.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.defer import deferred_from_coro

from bench import interrupted
from bench.interrupted import Stop
from bench.paced_sites import serving
from bench.report import table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response

SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_robots_rfc.Addon": 500},
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_ITEMS": 1,  # there are none, and Scrapy makes as many tasks for each page
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
}


class Beside(Spider):
    """Asks for pages of paced sites, then of free ones, and ends when it has the free ones."""

    name = "beside"

    def __init__(self, paced: list[str], free: list[str]) -> None:
        super().__init__()
        self.paced, self.free, self.left, self.most = paced, free, len(free), 0

    async def start(self) -> AsyncIterator[Request]:
        """All of them."""
        for url in self.paced:
            yield Request(url)
        for url in self.free:
            yield Request(url, meta={"free": True})

    def parse(self, response: Response, **_: object) -> None:
        """Count."""
        assert self.crawler.engine is not None
        if self.left < len(self.free) // 2:  # all robots.txt files are known by then
            active = self.crawler.engine.downloader.active
            self.most = max(self.most, sum("127.1." in request.url for request in active))
        self.left -= response.meta.get("free", False)
        if not self.left:
            self.left = -1
            self.began = time.monotonic()
            deferred_from_coro(self.crawler.engine.close_spider_async(reason="enough"))

    def closed(self, _reason: str) -> None:
        """Note how long closing took."""
        self.took = time.monotonic() - self.began


class Shared(Spider):
    """Takes its requests from the queue of a fleet."""

    name = "shared"

    def parse(self, _response: Response, **_: object) -> None:
        """Nothing more."""


@dataclass(frozen=True)
class Seen:
    """What the sites saw.

    :param rate: pages a second of the free sites.
    :param least: the shortest interval of a paced site, in seconds.
    :param usual: the median of those intervals.
    :param pages: how many pages were asked for, and how many different ones.
    """

    rate: float
    least: float
    usual: float
    pages: tuple[int, int]


def seen(log: dict[str, list[tuple[float, str]]]) -> Seen:
    """Sum up."""
    free = sorted(
        when
        for host, asked in log.items()
        if "127.2." in host
        for when, path in asked
        if path != "/robots.txt"
    )
    paced = [sorted(when for when, _ in asked) for host, asked in log.items() if "127.1." in host]
    gaps = [after - before for times in paced for before, after in pairwise(times)] or [0.0]
    pages = [
        (host, path) for host, asked in log.items() for _, path in asked if path != "/robots.txt"
    ]
    # The tenth page to the last but nine: starts and ends are no throughput.
    rate = (len(free) - 20) / (free[-10] - free[10]) if len(free) > 20 else 0.0
    return Seen(rate, min(gaps), median(gaps), (len(pages), len(set(pages))))


def beside(
    delay: float, paced: int, queued: int, free: int, pages: int
) -> tuple[Seen, dict[str, float]]:
    """Crawl paced sites and free ones with one crawl."""
    with serving(delay) as sites:
        arguments = json.dumps([sites.urls(1, paced, queued), sites.urls(2, free, pages)])
        command = [sys.executable, "-m", "bench.paced", "--crawl"]
        done = subprocess.run(
            command, input=arguments, stdout=subprocess.PIPE, text=True, check=True
        )
        run: dict[str, float] = json.loads(done.stdout)
        return seen(sites.log()), run


def fleet(
    redis: str, delay: float, paced: tuple[int, int], free: tuple[int, int], workers: int = 4
) -> Seen:
    """Crawl with workers that have one queue; the first of them gets SIGTERM.

    :param paced: how many sites, with how many pages each.
    """
    from redis import Redis  # noqa: PLC0415 - only for this part
    from scrapy_redis.queue import PriorityQueue  # noqa: PLC0415 - as above

    server = Redis.from_url(redis)
    server.flushall()
    spider = Shared()
    queue = PriorityQueue(server, spider, "shared:requests")
    with serving(delay) as sites:
        for url in [*sites.urls(1, *paced), *sites.urls(2, *free)]:
            queue.push(Request(url))
        command = [sys.executable, "-m", "bench.paced", "--worker", redis]
        processes = [subprocess.Popen(command) for _ in range(workers)]
        try:
            while len(sites.log()) < 2 and processes[0].poll() is None:
                time.sleep(0.05)
            if workers > 1:
                time.sleep(3)
                processes[0].send_signal(signal.SIGTERM)
            for process in processes:
                process.wait(300)
            if len(
                queue
                # The others had found the queue empty, and ended, before the first one gave its
                # requests back.
            ):
                subprocess.run(command, timeout=300, check=True)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return seen(sites.log())


@dataclass(frozen=True)
class Signalled:
    """What came of a fleet of which one worker got SIGTERM, and one SIGKILL.

    :param lost: pages that were neither fetched nor with the killed worker.
    :param with_killed: how many pages the killed worker had taken from the queue and not fetched.
    """

    forbidden: int
    lost: int
    doubled: int
    with_killed: int
    least: float


def signalled(redis: str, delay: float) -> Signalled:
    """Crawl with four workers: after three seconds one gets SIGTERM, and one SIGKILL."""
    from redis import Redis  # noqa: PLC0415 - only for this part
    from scrapy_redis.queue import PriorityQueue  # noqa: PLC0415 - as above

    server = Redis.from_url(redis)
    server.flushall()
    queue = PriorityQueue(server, Shared(), "shared:requests")
    with serving(delay) as sites, tempfile.TemporaryDirectory() as folder:
        allowed = [*sites.urls(1, 10, 8), *sites.urls(2, 10, 200)]
        others = [*sites.urls(1, 10, 4, "/x"), *sites.urls(2, 10, 20, "/x"), *sites.urls(3, 10, 8)]
        for url in [*others, *allowed]:
            queue.push(Request(url))
        files = [Path(folder, str(number)) for number in range(5)]
        command = [sys.executable, "-m", "bench.paced", "--worker", redis, "--taken"]
        processes = [subprocess.Popen([*command, str(file)]) for file in files[:4]]
        try:
            while not all(map(Path.exists, files[:4])):
                time.sleep(0.05)
            time.sleep(3)
            processes[0].send_signal(signal.SIGTERM)
            processes[1].kill()
            for process in processes:
                process.wait(600)
            subprocess.run([*command, str(files[4])], timeout=600, check=True)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        fetched = Counter(
            f"http://{host}:{sites.port}{path}"
            for host, asked in sites.log().items()
            for _, path in asked
            if path != "/robots.txt"
        )
        taken = set(files[1].read_text(encoding="utf-8").split())
        missing = set(allowed) - set(fetched)
        return Signalled(
            forbidden=sum(url in fetched for url in others),
            lost=len(missing - taken),
            doubled=sum(times > 1 for times in fetched.values()),
            with_killed=len(missing & taken),
            least=seen(sites.log()).least,
        )


def note_taken(file: str) -> type[Any]:
    """Return the scheduler of scrapy-redis that writes down what it takes from the queue."""
    from scrapy_redis.scheduler import Scheduler  # noqa: PLC0415 - only for this part

    class Noting(Scheduler):  # type: ignore[misc]  # it has no types
        def next_request(self) -> Request | None:
            request: Request | None = super().next_request()
            if request is not None:
                with Path(file).open("a", encoding="utf-8") as taken:
                    taken.write(f"{request.url}\n")
            return request

    return Noting


def worker(redis: str, taken: str | None = None) -> None:
    """Crawl what the queue has.

    :param taken: a file for what was taken from the queue.
    """
    shared: dict[str, Any] = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_PERSIST": True,
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_QUEUE_KEY": "shared:requests",
        "REDIS_URL": redis,
        "ROBOTS_CACHE": redis,
        "CONCURRENT_REQUESTS": 4,
    }
    if taken is not None:
        shared |= {"SCHEDULER": note_taken(taken), "ROBOTS_TIMEOUT": 5}
        shared["ROBOTS_UNREACHABLE_BACKOFF"] = []
    process = AsyncCrawlerProcess({**SETTINGS, **shared})
    process.crawl(Shared)
    process.start()


def stopped(count: int) -> list[list[str]]:
    """Stop crawls at random moments, resume them, and return rows that say what was wrong, and how
    long closing took.

    The last column but one is what closing took Scrapy alone, with its own middleware, stopped at
    the same moment.
    """
    plain, rows = interrupted.crawl(), []
    for number, after in enumerate(interrupted.moments(count, 9309)):
        sign = (signal.SIGINT, signal.SIGTERM)[number % 2]
        found = interrupted.crawl(Stop(after, sign))
        finding = interrupted.wrong(plain, found, sign)
        alone = interrupted.crawl(Stop(after, sign), runtime="alone")
        times = (f"{after:.2f}", f"{found.closing:.2f}", f"{alone.closing:.2f}")
        rows.append([sign.name, *times, finding or "as it must be"])
    return rows


def killed(
    count: int, *before: Stop
) -> tuple[list[interrupted.Crawled], list[interrupted.Crawled]]:
    """Kill crawls at random moments, and resume them on what they left in their JOBDIR.

    :param before: what interrupts them before: they are killed once they are resumed.
    :returns: what came of them, and of those of Scrapy alone, with its own middleware.
    """
    stops = [(*before, Stop(after, signal.SIGKILL)) for after in interrupted.moments(count, 9309)]
    pairs = [
        (interrupted.crawl(*each), interrupted.crawl(*each, runtime="alone")) for each in stops
    ]
    ours, alone = zip(*pairs, strict=True)
    return list(ours), list(alone)


def main() -> int:
    """Print the tables; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.paced", description=__doc__)
    parser.add_argument("--delay", type=float, default=5.0, help="the Crawl-delay, in seconds")
    parser.add_argument("--queued", type=int, default=1000, help="pages of each paced site")
    parser.add_argument("--pages", type=int, default=300, help="pages of each free site")
    parser.add_argument("--moments", type=int, default=100, help="crawls that are stopped")
    parser.add_argument("--kills", type=int, default=10, help="crawls that are killed")
    parser.add_argument("--redis", help="URL of an empty Redis server, for the fleet")
    parser.add_argument("--crawl", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--taken", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.crawl:
        paced, free = json.load(sys.stdin)
        process = AsyncCrawlerProcess(SETTINGS)
        crawler = process.create_crawler(Beside)
        process.crawl(crawler, paced=paced, free=free)
        process.start()
        assert crawler.stats is not None
        spider: Any = crawler.spider
        left = crawler.stats.get_value("robotstxt/undecided", 0)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        run = {"most": spider.most, "closing": spider.took, "left_over": left, "memory": memory}
        print(json.dumps(run))
    elif options.worker is not None:
        worker(options.worker, options.taken)
    else:
        return _report(options)
    return 0


def _signalled_rows(found: Signalled, delay: float) -> list[list[str]]:
    fleet = "fleet with SIGTERM and SIGKILL:"
    return [
        [f"{fleet} forbidden pages, or of sites that hang", f"{found.forbidden}", "0"],
        [f"{fleet} shortest interval, of the Crawl-delay", f"{found.least / delay:.3f}", "1"],
        [f"{fleet} pages that came twice", f"{found.doubled}", "0"],
        [f"{fleet} lost with the killed worker", f"{found.with_killed}", "what it had"],
        [f"{fleet} lost besides", f"{found.lost}", "0"],
    ]


def _stopped_rows(moments: int) -> tuple[list[list[str]], bool]:
    """Print what did not end as it must; return rows for the table, and whether that is any."""
    found = stopped(moments)
    bad = [row for row in found if row[-1] != "as it must be"]
    slowest, by_scrapy = (max((row[column] for row in found), key=float) for column in (2, 3))
    head = ["", "after, s", "closing, s", "Scrapy alone", "found"]
    print(table("Stopped and resumed, but not as it must be", head, bad))
    asked = f"1, or as Scrapy alone: {by_scrapy}"
    rows = [
        ["stopped and resumed, wrong", f"{len(bad)} of {len(found)}", "0"],
        ["closing, s after the last answer, the slowest", slowest, asked],
    ]
    return rows, bool(bad)


def _killed_rows(kills: int, which: str, *before: Stop) -> tuple[list[list[str]], bool]:
    """Return rows for the table, and whether anything is wrong."""
    ours, theirs = killed(kills, *before)
    lost, lost_alone = (sum(found.missing for found in each) for each in (ours, theirs))
    disallowed = sum(bool(interrupted.wrong(found, found, signal.SIGKILL)) for found in ours)
    hang, hang_alone = (sum(found.hangs for found in each) for each in (ours, theirs))
    rows = [
        [f"pages lost in {kills} {which} crawls, killed", f"{lost}", f"Scrapy: {lost_alone}"],
        ["of them do not end, once they are resumed", f"{hang}", f"Scrapy: {hang_alone}"],
        ["of them fetched what is disallowed", f"{disallowed}", "0"],
    ]
    return rows, lost > lost_alone or disallowed > 0


def _fleet_rows(redis: str, delay: float) -> tuple[list[list[str]], bool]:
    """Return rows for the table, and whether anything is wrong."""
    few = fleet(redis, delay, (0, 0), (20, 225))
    many = fleet(redis, delay, (50, 10), (20, 225))
    pages = "{:,}, {:,}".format(*many.pages)
    rows = [
        ["fleet: free sites, of their pages/s alone", f"{many.rate / few.rate:.3f}", "0.95"],
        ["fleet: shortest interval, of the Crawl-delay", f"{many.least / delay:.3f}", "1"],
        ["fleet: usual interval, of the Crawl-delay", f"{many.usual / delay:.3f}", "at most 1.1"],
        ["fleet: pages, different ones, of 5,000", pages, "5,000, 5,000"],
    ]
    ended = signalled(redis, delay)
    wrong = many.pages != (5000, 5000) or min(many.least, ended.least) < delay
    wrong |= bool(ended.forbidden or ended.lost or ended.doubled)
    return rows + _signalled_rows(ended, delay), wrong


def _report(options: argparse.Namespace) -> int:
    alone, before = beside(options.delay, 0, 0, 20, options.pages)
    both, run = beside(options.delay, 20, options.queued, 20, options.pages)
    rows = [
        ["free sites, of their pages/s alone", f"{both.rate / alone.rate:.3f}", "0.95"],
        ["shortest interval, of the Crawl-delay", f"{both.least / options.delay:.3f}", "1"],
        ["usual interval, of the Crawl-delay", f"{both.usual / options.delay:.3f}", "at most 1.1"],
        ["paced requests in the downloader, at most", f"{run['most']:.0f}", "20"],
        ["memory of those that wait, MiB", f"{run['memory'] - before['memory']:.1f}", ""],
        ["closing, s, while so many wait", f"{run['closing']:.2f}, {run['left_over']:,.0f}", "1"],
    ]
    wrong = both.least < options.delay
    parts = []
    if options.moments:
        parts.append(_stopped_rows(options.moments))
    if options.kills:
        parts.append(_killed_rows(options.kills, "new"))
        parts.append(_killed_rows(options.kills, "resumed", Stop(0.5)))
    if options.redis:
        parts.append(_fleet_rows(options.redis, options.delay))
    for more, bad in parts:
        rows += more
        wrong |= bad
    head = ["", "measured", "asked for"]
    print(table(f"Paced sites, Crawl-delay {options.delay:g} s", head, rows))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
