"""`python -m bench.hosts [--origins N] [--corpus DIR]`: what a crawl remembers of many hosts, in
memory, all included.

Crawls of one page of each of N origins, each in a process of its own: without robots.txt, with
Scrapy's own middleware, with ours. All of Scrapy is at work but its network: the answers are made
where a download handler would ask for them, robots.txt files with the distribution of `generate.py`
among them. What a process has in memory at the end, less that of the crawl without robots.txt, is
what robots.txt costs. Ends with 1 where that is more than the design permits: for a crawl that
remembers 10,000 origins, all that it costs; for one that remembers all of them, what the second
half costs. The first half has filled the table of parsed files.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Response, TextResponse

from bench import generate, samples
from bench.crawl import MODES, OFF, OURS, STOCK
from bench.memory import resident
from bench.report import table
from bench.targets import HOST, IDLE, row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Self

    from scrapy.crawler import Crawler

_KIB = 1024
#: What the design's number of Scrapy's own was measured with.
FEW = 10_000
#: Different files, if there are as many origins; an origin's is one of them, in memory of its own.
_FILES = 1000
_PAGE = (
    b"<!DOCTYPE html><html><head><title>A page</title></head><body><p>Some text.</p></body></html>"
)
_SETTINGS: dict[str, Any] = {
    "LOG_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "CONCURRENT_REQUESTS": 32,
    "CONCURRENT_ITEMS": 1,  # there are none, and Scrapy makes as many tasks for each page
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
    "RETRY_ENABLED": False,
    # A tenth of the files ask for a pace: that is remembered, too, but no request waits here.
    "ROBOTS_CRAWL_DELAY_MAX": 0.01,
}


class Generated:
    """A download handler that answers by itself, for every host."""

    lazy = False
    fetched = 0

    def __init__(self, folder: str | None, files: int) -> None:
        found = samples.folder(Path(folder), random.Random(1)) if folder else generate.files(files)
        self._bodies = [file.body for file in found]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the handler of a crawl."""
        return cls(crawler.settings["BENCH_CORPUS"], crawler.settings["BENCH_FILES"])

    async def download_request(self, request: Request) -> Response:
        """Answer, as servers do with what lets a copy be confirmed."""
        if not request.url.endswith("/robots.txt"):
            return HtmlResponse(request.url, body=_PAGE, request=request)
        number = int(request.url.removeprefix("https://site").partition(".")[0])
        type(self).fetched += 1
        headers = {
            "Content-Type": "text/plain",
            "Date": "Sat, 21 Nov 2026 19:00:00 GMT",
            "ETag": f'"{number:x}-5f2a1c3e7b900"',
            "Last-Modified": "Sat, 21 Nov 2020 19:00:00 GMT",
        }
        # A copy, so that it has no other owner.
        body = bytes(bytearray(self._bodies[number % len(self._bodies)]))
        return TextResponse(request.url, headers=headers, body=body, request=request)

    async def close(self) -> None:
        """There is nothing to close."""


class Hosts(Spider):
    """Asks each origin for a page, and notes the memory when some, and when all are through."""

    name = "hosts"

    def __init__(self, origins: int, found: dict[str, Any]) -> None:
        super().__init__()
        self._origins, self._found, self._through = origins, found, 0

    async def start(self) -> AsyncIterator[Request]:
        """A page of each."""
        self.crawler.signals.connect(self._idle, signals.spider_idle)
        self._note("0")
        self._began = time.monotonic()
        for number in range(self._origins):
            yield Request(
                f"https://site{number}.example/page/about-us.html", self.parse, errback=self.failed
            )

    def parse(self, _response: Response, **_kwargs: object) -> None:
        """Count the page."""
        self._count()

    def failed(self, _failure: object) -> None:
        """Count the page, which is disallowed."""
        self._count()

    def _count(self) -> None:
        self._through += 1
        if self._through in (FEW, self._origins // 2) and self._through < self._origins:
            self._note(str(self._through))

    def _idle(self) -> None:
        self._note(str(self._origins))
        self._found.update(
            through=self._through, seconds=time.monotonic() - self._began, fetched=Generated.fetched
        )

    def _note(self, at: str) -> None:
        gc.collect()
        self._found[at] = resident()


def child(mode: str, origins: int, size: int, corpus: str) -> dict[str, Any]:
    """Measure one crawl.

    :param size: ROBOTS_CACHE_SIZE.
    :param corpus: the folder of robots.txt files; empty: generated ones.
    """
    found: dict[str, Any] = {}
    ours = {"BENCH_CORPUS": corpus or None, "BENCH_FILES": min(origins, _FILES)}
    settings = {"ROBOTS_CACHE_SIZE": size, "DOWNLOAD_HANDLERS": {"https": Generated}, **ours}
    process = CrawlerProcess({**_SETTINGS, **MODES[mode], **settings})
    process.crawl(Hosts, origins=origins, found=found)
    process.start()
    return found


def measure(mode: str, origins: int, size: int = FEW, corpus: str = "") -> dict[str, Any]:
    """Run `child` in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "bench.hosts",
        "--child",
        mode,
        str(origins),
        str(size),
        corpus,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["through"] == origins, found
    assert mode == OFF or found["fetched"] == origins, found
    return found


def kib(found: dict[str, Any], off: dict[str, Any], origins: int) -> float:
    """KiB that robots.txt takes for each origin, when so many are through."""
    grown = found[str(origins)] - found["0"]
    return float(grown - (off[str(origins)] - off["0"])) / origins / _KIB


def one_more(found: dict[str, Any], off: dict[str, Any], origins: int) -> float:
    """KiB that robots.txt takes for each origin of the second half."""
    half = str(origins // 2)
    grown = found[str(origins)] - found[half]
    return float(grown - (off[str(origins)] - off[half])) / (origins - origins // 2) / _KIB


def compare(
    origins: int, corpus: str = ""
) -> Iterator[tuple[str, dict[int, float], float | None, float]]:
    """Yield for each way to crawl.

    Its name, KiB an origin by how many are through, those of one more, and seconds.
    """
    few = min(FEW, origins)
    points = sorted({few, origins})
    off = measure(OFF, origins, corpus=corpus)
    stock = measure(STOCK, few, corpus=corpus)
    yield "Scrapy's own", {few: kib(stock, off, few)}, None, stock["seconds"]
    for size in dict.fromkeys((FEW, origins)):
        found = measure(OURS, origins, size, corpus)
        ours = {at: kib(found, off, at) for at in points}
        yield (
            f"ours, ROBOTS_CACHE_SIZE = {size:,}",
            ours,
            one_more(found, off, origins),
            found["seconds"],
        )


def main() -> int:
    """Print the table; 1 where ours takes more than it may."""
    parser = argparse.ArgumentParser(prog="python -m bench.hosts", description=__doc__)
    parser.add_argument("--origins", type=int, default=100_000)
    parser.add_argument(
        "--corpus",
        default="",
        metavar="DIR",
        help="robots.txt files of a folder, in place of generated",
    )
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        mode, origins, size, corpus = options.child
        print(json.dumps(child(mode, int(origins), int(size), corpus)))
        return 0
    points = sorted({min(FEW, options.origins), options.origins})
    rows, whole, more = [], [], 0.0
    for name, found, one, seconds in compare(options.origins, options.corpus):
        cells = [f"{found[at]:.2f}" if at in found else "" for at in points]
        megabytes = [f"{found[at] * at / _KIB:,.0f}" if at in found else "" for at in points]
        rows.append(
            [name, *cells, *megabytes, "" if one is None else f"{one:.2f}", f"{seconds:.0f}"]
        )
        if one is not None:
            whole.append(found[options.origins])
            more = one
    head = [f"{unit} at {at:,}" for unit in ("KiB a host", "MiB") for at in points]
    print(
        table(
            "Memory that robots.txt takes, beside the same crawl without",
            ["", *head, "one more", "seconds"],
            rows,
        )
    )
    found_targets = [(HOST, whole[0]), (IDLE, more)]
    print(
        table(
            "The numbers of the design",
            ("", "ours", "asked for", ""),
            [row(*each) for each in found_targets],
        )
    )
    return 0 if all(target.reached(value) for target, value in found_targets) else 1


if __name__ == "__main__":
    sys.exit(main())
