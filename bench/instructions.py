"""Count the processor instructions that robots.txt costs: `python -m bench.instructions`.

Crawls without robots.txt, with Scrapy's own middleware and with ours run under Valgrind, so the
load of the machine does not matter. Answers are made up in the process, and the garbage collector
is off, so the numbers repeat to a thousandth. The first crawl requests one page, the second one
more pages of the same origin, and the third one a page of each of several origins. The differences
are the costs of a start, a page and an origin. The exit code is 1 if a goal is missed.
"""

import argparse
import gc
import os
import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from bench.crawling import MODES, OFF, OURS, STOCK, MadeUpAnswers, Pages, crawled
from bench.processes import call
from bench.report import table
from bench.sites import RULES

_VALGRIND = "valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null"
# How much slower Python is under Valgrind, roughly.
_SLOWDOWN = 30
#: Goals: instructions of a start beyond Scrapy's own, of a page as a share of a page without
#: robots.txt, and of an origin as a share of Scrapy's own.
START, PAGE, ORIGIN = 140e6, 1.006, 1.0


def crawl(mode: str, urls: list[str]) -> None:
    """Crawl in this process."""
    # Under Valgrind, every answer would count as slow, which costs more instructions.
    clock = time.monotonic
    time.monotonic = lambda: clock() / _SLOWDOWN
    concurrency = {"CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": 16}
    quiet = {"LOG_ENABLED": False, "LOGSTATS_INTERVAL": 0}
    answers = {"DOWNLOAD_HANDLERS": {"http": MadeUpAnswers}, "BENCH_FILE": RULES}
    gc.disable()
    crawled(Pages, {**MODES[mode], **concurrency, **quiet, **answers}, urls=urls)


def count(mode: str, urls: list[str]) -> int:
    """Return the instructions of a crawl in another process."""
    _, log = call("bench.instructions.crawl", mode, urls, prefix=_VALGRIND.split())
    refs = re.search(r"I +refs: +([\d,]+)", log)
    assert refs is not None, log
    return int(refs[1].replace(",", ""))


def measure(pages: int, origins: int) -> dict[str, tuple[float, float, float]]:
    """Return the instructions of a start, a page, and an origin with its page, by mode."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        crawls = [
            [f"http://site{n}.example/page/{page}.html?from=start" for n, page in each]
            for each in (
                [(0, 0)],
                [(0, page) for page in range(1 + pages)],
                [(n, 0) for n in range(1 + origins)],
            )
        ]
        for mode in MODES:
            call("bench.instructions.crawl", mode, crawls[0])  # writes the bytecode
        runs = {mode: [pool.submit(count, mode, urls) for urls in crawls] for mode in MODES}
        counts = {mode: [run.result() for run in each] for mode, each in runs.items()}
    return {
        mode: (one, (more - one) / pages, (many - one) / origins)
        for mode, (one, more, many) in counts.items()
    }


def report(costs: dict[str, tuple[float, float, float]]) -> int:
    """Print the tables, and return 1 if a goal is missed."""
    rows = [[mode, *(f"{value / 1e6:,.2f}" for value in values)] for mode, values in costs.items()]
    print(table("Millions of instructions", ["", "start", "page", "origin and its page"], rows))
    (start, page, origin), (stock_start, _, stock_origin) = costs[OURS], costs[STOCK]
    off_page = costs[OFF][1]
    goals = [
        ("start beyond Scrapy's own, millions", (start - stock_start) / 1e6, START / 1e6),
        ("page, share of ROBOTSTXT_OBEY=False", page / off_page, PAGE),
        ("origin, share of Scrapy's own", origin / stock_origin, ORIGIN),
    ]
    cells = [[name, f"{measured:,.3f}", f"{goal:g}"] for name, measured, goal in goals]
    print(table("Ours", ["", "measured", "goal"], cells))
    return int(any(measured > goal for _, measured, goal in goals))


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--pages", type=int, default=600, help="pages of the second crawl")
    parser.add_argument("--origins", type=int, default=60, help="origins of the third crawl")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("Valgrind is not installed, so nothing was measured.")
        return 0
    return report(measure(options.pages, options.origins))


if __name__ == "__main__":
    sys.exit(main())
