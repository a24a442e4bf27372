"""`python -m bench.calls [--way]`: what a cold and a warm request call in this package.

A crawl of two local origins, one request at a time. The first origin pays for what a crawl does
once. Then the first request of the second origin is followed, its robots.txt included (cold), and
the second request of that origin (warm): from the moment when the spider yields it until its
response reaches the spider. A hop is a step from one file of the package to another.
`--way` prints each call of both. The same is counted for Scrapy's own middleware.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

import scrapy_robots_rfc
from bench.old_crawls import serving
from bench.report import table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import FrameType

    from scrapy.http import Response

#: The folder of this package, and the files of Scrapy's own middleware.
OURS = (str(Path(scrapy_robots_rfc.__file__).parent),)
STOCK = ("downloadermiddlewares/robotstxt.py", "scrapy/robotstxt.py")
_SETTINGS: dict[str, Any] = {
    "LOG_ENABLED": False,
    "LOGSTATS_INTERVAL": 0,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CONCURRENT_REQUESTS": 1,
    "ROBOTSTXT_OBEY": True,
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
}
_ADDON = {"ADDONS": {"scrapy_robots_rfc.Addon": 500}}
_COLD, _WARM = 1, 2


class Followed:
    """The calls of some files while one request is under way.

    :param files: parts of the names of these files.
    """

    def __init__(self, files: tuple[str, ...]) -> None:
        self._files = files
        # A coroutine that goes on is no further call; the frame stays, so that its id is its own.
        self._seen: dict[int, FrameType] = {}
        self.calls: list[tuple[str, str]] = []

    def note(self, frame: FrameType, event: str, _value: object) -> None:
        """Stand for the profiler of the language."""
        if event != "call" or id(frame) in self._seen or _is_timed(frame):
            return
        name = frame.f_code.co_filename
        if any(part in name for part in self._files) and frame.f_code.co_name[0] != "<":
            if frame.f_code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
                self._seen[id(frame)] = frame
            self.calls.append((name, frame.f_code.co_qualname))

    def figures(self) -> list[str]:
        """Return hops, files and calls."""
        names = [name for name, _ in self.calls]
        hops = sum(one != other for one, other in itertools.pairwise(names))
        return [f"{hops}", f"{len(set(names))}", f"{len(names)}"]


class Pages(Spider):
    """Asks for a page of the first origin, then for two of the second, one after the other."""

    name = "pages"

    def __init__(self, port: int, follow: Callable[[int], None]) -> None:
        super().__init__()
        self._urls = [
            f"http://127.0.0.1:{port}/page/0.html",
            f"http://127.0.0.2:{port}/page/1.html",
            f"http://127.0.0.2:{port}/page/2.html",
        ]
        self._follow = follow

    async def start(self) -> AsyncIterator[Request]:
        """Ask for the first one."""
        yield Request(self._urls[0], cb_kwargs={"number": 0})

    def parse(self, _response: Response, number: int, **_kwargs: object) -> Iterator[Request]:
        """Ask for the next one, and follow it."""
        sys.setprofile(None)
        if number + 1 < len(self._urls):
            self._follow(number + 1)
            yield Request(self._urls[number + 1], cb_kwargs={"number": number + 1})


def _is_timed(frame: FrameType | None) -> bool:
    """Whether a call belongs to what happens from time to time, and to no request."""
    while frame is not None:
        if frame.f_code.co_name == "_tick":
            return True
        frame = frame.f_back
    return False


def crawl(port: int, settings: dict[str, Any], files: tuple[str, ...]) -> dict[int, Followed]:
    """Crawl once, and return what was called for each page but the first."""
    found: dict[int, Followed] = {}

    def follow(number: int) -> None:
        found[number] = Followed(files)
        sys.setprofile(found[number].note)

    process = CrawlerProcess({**_SETTINGS, **settings})
    process.crawl(Pages, port, follow)
    process.start()
    return found


def main() -> None:
    """Print the table, or the way of one kind of request."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--way", action="store_true", help="print each call of ours")
    parser.add_argument("--stock", action="store_true", help="follow Scrapy's own middleware")
    given = parser.parse_args()
    with serving("0.0.0.0") as port:
        found = crawl(port, {} if given.stock else _ADDON, STOCK if given.stock else OURS)
    if given.way:
        for number, kind in ((_COLD, "cold"), (_WARM, "warm")):
            print(f"{kind}:")
            for name, function in found[number].calls:
                print(f"    {Path(name).parent.name}/{Path(name).name}  {function}")
    rows = [[kind, *found[number].figures()] for number, kind in ((_COLD, "cold"), (_WARM, "warm"))]
    print(table("Calls of a request", ["request", "hops", "files", "calls"], rows))


if __name__ == "__main__":
    main()
