"""Measure how sites affect each other in a crawl: `python -m bench.crawls [ROW ...]`.

Each row is a crawl of sites on this machine (`bench.sites`). Most rows compare it with the same
crawl without the other sites. The exit code is 1 if a row misses its limit.
"""

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from twisted.python.failure import Failure

from bench.crawling import MODES, OFF, OURS, crawled
from bench.processes import call
from bench.report import table
from bench.sites import Sites, serving


@dataclass
class Pages:
    """The pages of a crawl.

    :param times: seconds from the start of the spider to each measured page.
    :param failed: exception -> number of requests.
    :param closing: seconds from the last measured page to the end of the crawl.
    """

    times: list[float]
    failed: dict[str, int]
    closing: float
    log: str

    @property
    def rate(self) -> float:
        """Pages per second, without start and end."""
        cut = len(self.times) // 20
        return (len(self.times) - 2 * cut - 1) / (self.times[-1 - cut] - self.times[cut])


@dataclass
class Crawl:
    """A crawl that ends when it has fetched all measured pages.

    :param others: URLs of pages of the other sites, which are queued first.
    :param measured: URLs of the measured pages.
    :param slot: the downloader slot of all pages, or an empty string for one per host.
    :param files: maximum number of open files, or 0 for the limit of this process.
    :param mode: what obeys robots.txt, a key of `MODES`.
    """

    others: list[str]
    measured: list[str]
    settings: dict[str, Any] = field(default_factory=dict)
    slot: str = ""
    files: int = 0
    mode: str = OURS

    def run(self, limit: float = 600) -> Pages:
        """Crawl in another process.

        :param limit: seconds after which the spider is closed.
        """
        (times, failed, closing), log = call("bench.crawls.crawl", asdict(self), limit)
        return Pages(times, failed, closing, log)


class TwoGroups(Spider):
    """Requests the pages of a `Crawl`."""

    name = "groups"

    def __init__(self, plan: Crawl) -> None:
        super().__init__()
        self._plan = plan
        self._meta = {"download_slot": plan.slot} if plan.slot else {}
        self.started = 0.0
        self.times: list[float] = []
        self.failures: Counter[str] = Counter()

    async def start(self) -> AsyncIterator[Request]:
        self.started = time.monotonic()
        for url in self._plan.others:
            yield Request(url, self.ignore, errback=self.failed, meta=self._meta)
        for url in self._plan.measured:
            yield Request(url, errback=self.failed, meta=self._meta)

    def parse(self, _response: Response, **_: object) -> None:
        """Record when a measured page arrived, and end the crawl after the last one."""
        self.times.append(time.monotonic() - self.started)
        if len(self.times) == len(self._plan.measured):
            raise CloseSpider

    def ignore(self, _response: Response, **_: object) -> None:
        pass

    def failed(self, failure: Failure) -> None:
        self.failures[type(failure.value).__name__] += 1


def crawl(fields: dict[str, Any], limit: float) -> tuple[list[float], dict[str, int], float]:
    """Run a crawl in this process.

    :param fields: of a `Crawl`.
    :param limit: seconds after which the spider is closed.
    """
    plan = Crawl(**fields)
    if plan.files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (plan.files, plan.files))
    fixed = {"CONCURRENT_ITEMS": 1, "DOWNLOAD_DELAY": 0, "CLOSESPIDER_TIMEOUT": limit}
    spider = crawled(TwoGroups, MODES[plan.mode] | fixed | plan.settings, plan=plan)
    closing = time.monotonic() - spider.started - max(spider.times, default=0)
    return spider.times, spider.failures, closing


@dataclass(frozen=True)
class Size:
    """The size of a benchmark.

    :param share: the share of the sites and pages that is crawled.
    :param runs: number of alternating runs, of which the median counts.
    """

    share: float = 1.0
    runs: int = 5

    def of(self, number: int) -> int:
        """Return the number of sites or pages to crawl, out of the full number."""
        return max(2, round(number * self.share))


#: Name, measured value, limit, and whether the limit is kept.
Row = tuple[str, str, str, bool]


def _ratio(alone: Crawl, both: Crawl, runs: int) -> float:
    """Return how many times as long the measured pages take with the other sites."""
    ratios = []
    for _ in range(runs):
        before, after = alone.run(), both.run()
        assert len(before.times) == len(after.times) == len(alone.measured), after.failed
        ratios.append(after.times[-1] / before.times[-1])
    return median(ratios)


def hanging(sites: Sites, size: Size) -> list[Row]:
    """Crawl a fast site beside sites whose robots.txt hangs."""
    rows: list[Row] = []
    fast, others = sites.urls(2, 1, size.of(500)), sites.urls(3, size.of(50), 1)
    for concurrency, limit in ((16, 1.2), (4, 1.3)):
        settings = {"CONCURRENT_REQUESTS": concurrency}
        ratio = _ratio(Crawl([], fast, settings), Crawl(others, fast, settings), size.runs)
        name = f"{len(fast)} pages beside {len(others)} hanging sites, CONCURRENT_REQUESTS = "
        rows.append((f"{name}{concurrency}", f"{ratio:.3f} times", f"{limit}", ratio <= limit))
    return rows


def many_hanging(sites: Sites, size: Size) -> list[Row]:
    """Crawl sites that answer, after many sites that hang."""
    others, answering = sites.urls(3, size.of(1000), 1), sites.urls(2, size.of(100), 1)
    pages = Crawl(others, answering).run(200)
    last = max(pages.times, default=0)
    name = f"first pages of {len(answering)} sites, after {len(others)} that hang"
    is_kept = len(pages.times) == len(answering) and last <= 90
    return [(name, f"{len(pages.times)} pages, {last:.1f} s", "90 s", is_kept)]


def paced(sites: Sites, size: Size) -> list[Row]:
    """Crawl sites without a Crawl-delay beside sites with one."""
    free, others = sites.urls(2, 20, size.of(300)), sites.urls(1, 20, size.of(1000))
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 8}
    ratios = []
    for _ in range(size.runs):
        alone = Crawl([], free, settings).run().rate
        ratios.append(Crawl(others, free, settings).run().rate / alone)
    name, ratio = "rate of 20 sites beside 20 with a Crawl-delay", median(ratios)
    return [(name, f"{ratio:.3f}", "0.97", ratio >= 0.97)]


def shared_slot(sites: Sites, size: Size) -> list[Row]:
    """Crawl a fast site that shares its downloader slot with sites that hang."""
    fast, others = sites.urls(2, 1, size.of(200)), sites.urls(3, size.of(20), 1)
    alone, both = Crawl([], fast, slot="shared"), Crawl(others, fast, slot="shared")
    ratio = _ratio(alone, both, size.runs)
    name = f"{len(fast)} pages in one download_slot with {len(others)} hanging sites"
    return [(name, f"{ratio:.3f} times", "1.2", ratio <= 1.2)]


def few_files(sites: Sites, size: Size) -> list[Row]:
    """Crawl more sites that keep their connections open than there are file descriptors."""
    pages, files = sites.urls(0, size.of(600), 2), max(60, size.of(400))
    crawl = Crawl([], pages, files=files).run(300)
    dropped = sum(crawl.failed.get(name, 0) for name in ("RobotsDisallowed", "RobotsUndecided"))
    name = f"{len(pages)} pages of {len(pages) // 2} sites with {files} open files"
    measured = f"{len(crawl.times)} fetched, {dropped} dropped, failed: {crawl.failed or 'none'}"
    return [(name, measured, "none dropped", not dropped)]


def closing(sites: Sites, size: Size) -> list[Row]:
    """Close crawls while many sites hang, are paced, or fail."""
    fast, count = sites.urls(2, 1, size.of(100)), size.of(100)
    others = [url for kind in (1, 3, 4) for url in sites.urls(kind, count, 5)]
    added = []
    for _ in range(size.runs):
        alone = Crawl([], fast, mode=OFF).run()
        both = Crawl(others, fast).run()
        assert len(both.times) == len(fast), both.failed
        added.append(both.closing - alone.closing)
    name = f"seconds that closing beside {3 * count} sites adds to Scrapy's"
    return [(name, f"{median(added):.3f} s", "0.25 s", median(added) <= 0.25)]


def log_lines(sites: Sites, size: Size) -> list[Row]:
    """Count the log lines of a crawl of many sites."""
    pages = [url for path in ("/", "/x") for url in sites.urls(4, size.of(300), 2, path)]
    settings = {
        "LOG_LEVEL": "INFO",
        "ROBOTS_UNREACHABLE_BACKOFF": [0.5],
        "ROBOTSTXT_OBEY": True,
        "RETRY_ENABLED": False,
    }
    log = Crawl([], pages, settings).run(120).log.splitlines()
    ours = sum("[scrapy_robots_rfc" in line for line in log)
    scrapy = sum("[scrapy." in line for line in log)
    name = f"our log lines at INFO and above, {size.of(300)} sites"
    return [(name, f"{ours} (Scrapy: {scrapy})", "60", ours <= 60)]


_CRAWLS = (hanging, many_hanging, paced, shared_slot, few_files, closing, log_lines)
ROWS = {crawl.__name__.replace("_", "-"): crawl for crawl in _CRAWLS}


def main() -> int:
    """Print the table, and return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.crawls", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {', '.join(ROWS)}")
    parser.add_argument("--share", type=float, default=1.0, help="share of the sites and pages")
    parser.add_argument("--runs", type=int, default=5, help="runs, of which the median counts")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"unknown rows: {', '.join(sorted(unknown))}")
    size = Size(options.share, options.runs)
    rows: list[Row] = []
    for name in options.rows or ROWS:
        with serving() as sites:
            rows += ROWS[name](sites, size)
    cells = [[*texts, "kept" if is_kept else "MISSED"] for *texts, is_kept in rows]
    print(table("Crawls of several sites", ["", "measured", "limit", ""], cells))
    return int(not all(is_kept for *_, is_kept in rows))


if __name__ == "__main__":
    sys.exit(main())
