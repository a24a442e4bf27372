"""`python -m bench.instructions [--pages N] [--origins N]`: the instructions that robots.txt costs
a crawl.

Crawls of a local site without robots.txt, with Scrapy's own middleware, and with ours, each in a
process of its own under Valgrind, which counts instructions: how busy the machine is makes no
difference. One crawl fetches one page, one fetches more pages of the same origin, and one fetches a
page of each of several origins. The differences between them are the start of a crawl, a page and
an origin. Ends with 1 where the design asks for less, and with 0 without Valgrind.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

from bench.crawl import MODES, OFF, OURS, STOCK
from bench.old_crawls import serving
from bench.report import table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

#: What is measured as "ours" is what users have, with the priority queue that the add-on sets.
_MODES: dict[str, dict[str, Any]] = {**MODES, OURS: {"ADDONS": {"scrapy_robots_rfc.Addon": 500}}}
_SETTINGS: dict[str, Any] = {
    "LOG_ENABLED": False,
    "LOGSTATS_INTERVAL": 0,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
}
_VALGRIND = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
#: About how many times slower Python is under Valgrind.
SLOWER = 30
#: Instructions at most: of a start beyond stock, of a page as a share of one without robots.txt,
#: and of an origin as a share of stock's.
START, PAGE, ORIGIN = 200e6, 1.010, 1.03


class Pages(Spider):
    """Asks for one page of each origin, then for more pages of the first one."""

    name = "pages"

    def __init__(self, port: int, origins: int, pages: int) -> None:
        super().__init__()
        self._urls = [f"http://127.0.{n // 200}.{n % 200 + 1}:{port}" for n in range(origins)]
        self._pages = pages

    async def start(self) -> AsyncIterator[Request]:
        """The first page of the first origin."""
        yield Request(f"{self._urls[0]}/page/0.html?from=start", self.parse_first)

    def parse_first(self, _response: Response, **_kwargs: object) -> Iterator[Request]:
        """All others."""
        for url in self._urls[1:]:
            yield Request(f"{url}/page/0.html?from=start")
        for number in range(1, self._pages):
            yield Request(f"{self._urls[0]}/page/{number}.html?from=start")

    def parse(self, _response: Response, **_kwargs: object) -> None:
        """Nothing more."""


def environment() -> dict[str, str]:
    """Return the environment of a crawl.

    It takes bytecode from disk, as it would otherwise compile all it imports.
    """
    return {
        **{key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONHASHSEED": "0",
    }


def warm_up(port: int) -> None:
    """Crawl once in each mode, so that the bytecode is on disk."""
    for mode in _MODES:
        crawl = [sys.executable, "-m", "bench.instructions", "--crawl", mode, str(port), "1", "1"]
        subprocess.run(crawl, capture_output=True, env=environment(), check=True, timeout=600)


def count(mode: str, port: int, origins: int, pages: int) -> int:
    """Return how many instructions a crawl takes.

    :param origins: how many there are.
    :param pages: how many pages of the first of them are fetched; of the others it is one.
    """
    crawl = [
        sys.executable,
        "-m",
        "bench.instructions",
        "--crawl",
        mode,
        *map(str, (port, origins, pages)),
    ]
    done = subprocess.run(
        ["valgrind", *_VALGRIND, *crawl],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
        timeout=600,
    )
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1].replace(",", ""))


def measure(pages: int, origins: int) -> dict[str, tuple[float, float, float]]:
    """Return the instructions of a start, a page and an origin with its first page, by the
    mode's name.
    """
    kinds = ((1, 1), (1, 1 + pages), (1 + origins, 1))
    with serving("0.0.0.0") as port, ThreadPoolExecutor(os.cpu_count()) as pool:
        warm_up(port)
        runs = {mode: [pool.submit(count, mode, port, *kind) for kind in kinds] for mode in _MODES}
        found = {mode: [run.result() for run in each] for mode, each in runs.items()}
    return {
        mode: (one, (more - one) / pages, (many - one) / origins)
        for mode, (one, more, many) in found.items()
    }


def report(found: dict[str, tuple[float, float, float]]) -> int:
    """Print a table; return 1 where ours takes more than the design asks for."""
    rows = [[mode, *(f"{value / 1e6:,.2f}" for value in values)] for mode, values in found.items()]
    print(table("Millions of instructions", ["", "start", "page", "origin and its page"], rows))
    (start, page, origin), (of_start, of_page, of_origin), (_, off, _) = (
        found[mode] for mode in (OURS, STOCK, OFF)
    )
    compared = [
        ("start beyond stock, millions", (start - of_start) / 1e6, START / 1e6),
        ("page, share of ROBOTSTXT_OBEY=False", page / off, PAGE),
        ("origin, share of stock", origin / of_origin, ORIGIN),
    ]
    print(
        table(
            "Ours",
            ["", "measured", "at most"],
            [[name, f"{a:,.3f}", f"{b:g}"] for name, a, b in compared],
        )
    )
    print(f"A page with stock is {of_page / off:.3f} of one without robots.txt.")
    return int(any(measured > most for _, measured, most in compared))


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument(
        "--pages", type=int, default=600, help="pages over which the cost of a page is divided"
    )
    parser.add_argument(
        "--origins", type=int, default=60, help="origins over which the cost of one is divided"
    )
    parser.add_argument("--crawl", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.crawl is not None:
        mode, *numbers = options.crawl
        # Valgrind makes everything so much slower that all answers would count as slow ones, which
        # takes more work.
        clock = time.monotonic
        time.monotonic = lambda: clock() / SLOWER
        port, origins, pages = map(int, numbers)
        process = CrawlerProcess({**_SETTINGS, **_MODES[mode]})
        process.crawl(Pages, port=port, origins=origins, pages=pages)
        process.start()
        return 0
    if shutil.which("valgrind") is None:
        print("Nothing was measured: Valgrind is not installed.")
        return 0
    return report(measure(options.pages, options.origins))


if __name__ == "__main__":
    sys.exit(main())
