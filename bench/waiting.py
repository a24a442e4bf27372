"""`python -m bench.waiting [--requests N] [--origins N]`: what requests cost that wait for a
robots.txt.

A crawl, in a process of its own, of origins that take connections and never answer. Its memory is
read when all of its requests wait, and compared with that of the same requests in a list, and in
Scrapy's own queue.
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import deferred_from_coro

from bench.report import table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

_KIB = 1024
#: Seconds without another request, after which there comes none.
_STILL = 1.5
_SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_robots_rfc.Addon": 500},
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
    "ROBOTS_TIMEOUT": 600,
}
#: How requests wait -> settings; "list": in no crawl at all.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"ROBOTSTXT_OBEY": False, "DOWNLOAD_TIMEOUT": 3, "RETRY_ENABLED": False},
    "add-on": {},
    "around": {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue"},
}


def resident() -> int:
    """Bytes of this process at its largest."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else _KIB
    )


class Waiting(Spider):
    """Asks for many pages, and notes the memory when they wait."""

    name = "waiting"

    def __init__(self, urls: Iterator[str], found: dict[str, float]) -> None:
        super().__init__()
        self._urls, self._found = urls, found

    async def start(self) -> AsyncIterator[Request]:
        """All pages."""
        self._began, self._moved, self._last, self._made = time.monotonic(), time.monotonic(), 0, 0
        self._watch = create_looping_call(self._look)
        self._found["before"] = resident()
        self._watch.start(0.25)
        for url in self._urls:
            self._made += 1
            yield Request(url, self.parse, errback=self.failed)

    def parse(self, _response: Response, **_kwargs: object) -> None:
        """Never called: nothing answers."""

    def failed(self, _failure: object) -> None:
        """Never called either."""

    def _look(self) -> None:
        if self._made != self._last:
            self._last, self._moved = self._made, time.monotonic()
        if time.monotonic() - self._moved > _STILL:
            self._watch.stop()
            assert self.crawler.engine is not None
            under_way = [
                request
                for request in self.crawler.engine.downloader.active
                if "/page-" in request.url
            ]
            waiting = self._made - len(under_way)
            self._found.update(waiting=waiting, after=resident(), seconds=self._moved - self._began)
            self._closing = time.monotonic()
            deferred_from_coro(self.crawler.engine.close_spider_async(reason="enough"))

    def closed(self, _reason: str) -> None:
        """Note how long closing took."""
        self._found["closing"] = time.monotonic() - self._closing


def urls(requests: int, origins: int, port: int) -> Iterator[str]:
    """So many pages of so many origins, in turn."""
    for number in range(requests):
        host = number % origins
        address = f"127.{1 + host // 62500}.{host // 250 % 250}.{1 + host % 250}"
        yield f"http://{address}:{port}/section/page-{number}.html"


def child(requests: int, origins: int, how: str, jobdir: str = "") -> dict[str, float]:
    """Measure one crawl: `how` it waits is a key of `WAYS`."""
    found: dict[str, float] = {}
    if how == "list":
        spider = Waiting(iter(()), found)
        found["before"] = resident()
        listed = [
            Request(url, spider.parse, errback=spider.failed) for url in urls(requests, origins, 80)
        ]
        return {**found, "after": resident(), "waiting": len(listed), "seconds": 0, "closing": 0}
    with socket.create_server(
        ("0.0.0.0", 0), backlog=4096
    ) as server:  # takes connections, and never answers
        process = CrawlerProcess({**_SETTINGS, **WAYS[how], "JOBDIR": jobdir or None})
        process.crawl(Waiting, urls=urls(requests, origins, server.getsockname()[1]), found=found)
        process.start()
    return found


def measure(requests: int, origins: int, how: str, *, disk: bool = False) -> dict[str, float]:
    """Run `child` in a process of its own, with JOBDIR or without."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (requests, origins, how, folder if disk else "")
        command = [sys.executable, "-m", "bench.waiting", "--child", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return {**found, "requests": requests}


def row(name: str, found: dict[str, float]) -> list[str]:
    """A row of the table."""
    grown = found["after"] - found["before"]
    numbers = (
        f"{found['waiting']:,.0f}",
        f"{grown / _KIB**2:,.0f}",
        f"{grown / _KIB / found['requests']:.2f}",
    )
    return [name, *numbers, f"{found['seconds']:.1f}", f"{found['closing']:.1f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.waiting", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--origins", type=int, default=10_000)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        requests, origins = map(int, options.child[:2])
        print(json.dumps(child(requests, origins, *options.child[2:])))
        return
    requests, origins = options.requests, options.origins
    rows = [
        row("requests in a list", measure(requests, origins, "list")),
        row("in Scrapy's queue, no robots.txt", measure(requests, 1, "plain")),
        row("all of one origin", measure(requests, 1, "add-on")),
        row(f"{origins:,} origins", measure(requests, origins, "add-on")),
        row("the same, with JOBDIR", measure(requests, origins, "add-on", disk=True)),
        row("the same, with another queue", measure(requests, origins, "around")),
    ]
    title = f"{requests:,} requests that wait for a robots.txt"
    print(table(title, ["", "waiting", "MiB", "KiB a request", "seconds", "closing, s"], rows))


if __name__ == "__main__":
    main()
