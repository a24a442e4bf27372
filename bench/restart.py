"""`python -m bench.restart [--origins N]`: a crawl of many origins, and another one of the same
after a restart.

Each is a process of its own, with the same SQLite file of robots.txt copies. The server, which
millions of addresses of this machine lead to, counts: each robots.txt is to be asked for once by
both together, and no page that is disallowed. Ends with 1 where that is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

from bench.report import table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

    from scrapy.http import Response

#: Seconds that a process may take for each origin, and to start and to end.
_PATIENCE, _START = 0.1, 60
_ROBOTS_TXT = b"User-agent: *\nDisallow: /closed/\n"
_PAGE = (
    b"<!DOCTYPE html><html><head><title>A page</title></head><body><p>Some text.</p></body></html>"
)
_SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_robots_rfc.Addon": 500},
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CONCURRENT_REQUESTS": 32,
    # The default one looks at every host in it for each request.
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
}


def address(number: int) -> str:
    """One of millions of addresses that all are this machine."""
    return f"127.{1 + number // 62500}.{number // 250 % 250}.{1 + number % 250}"


@dataclass
class Seen:
    """What a server was asked for: hosts and how often, for robots.txt and for pages."""

    robots: Counter[str] = field(default_factory=Counter)
    pages: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)

    def ask(self, target: str, host: str) -> bytes:
        """Count a request, and answer it."""
        if target == "/robots.txt":
            self.robots[host] += 1
            return _ROBOTS_TXT
        (self.closed if target.startswith("/closed/") else self.pages)[host] += 1
        return _PAGE


class Server:
    """A server in a thread, on a free port of every address."""

    def __init__(self) -> None:
        self.seen = Seen()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.start_server(self._answer, "0.0.0.0", 0, backlog=4096)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result()
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()
        answering = asyncio.all_tasks() - {asyncio.current_task()}
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except (
            OSError,
            asyncio.IncompleteReadError,
        ):  # a client that tried another connection meanwhile
            writer.close()
            return
        host = next(line[6:] for line in head if line.lower().startswith("host: "))
        body = self.seen.ask(head[0].split()[1], host)
        kind = "text/plain" if body is _ROBOTS_TXT else "text/html"
        # One request a connection: tens of thousands that stay open are more than a process may
        # have.
        answer = (
            f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection:"
            " close\r\n\r\n"
        )
        writer.write(answer.encode() + body)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


class Pages(Spider):
    """Asks each origin for an open page, and every third one for a page that is disallowed."""

    name = "pages"

    def __init__(self, origins: int, port: int, run: int) -> None:
        super().__init__()
        self._origins, self._port, self._run = origins, port, run

    async def start(self) -> AsyncIterator[Request]:
        """All of them."""
        for number in range(self._origins):
            for folder in ("open", "closed") if number % 3 == 0 else ("open",):
                yield Request(
                    f"http://{address(number)}:{self._port}/{folder}/{self._run}.html", self.parse
                )

    def parse(self, _response: Response, **_kwargs: object) -> None:
        """The server counts."""


@dataclass(frozen=True)
class Run:
    """What came of one crawl.

    :param fetched: robots.txt files that the server was asked for.
    :param pages: open pages that it was asked for.
    :param closed: disallowed ones.
    :param stored: files that came out of the store.
    """

    fetched: int
    pages: int
    closed: int
    stored: int
    seconds: float


def child(origins: int, port: int, run: int, cache: str) -> dict[str, Any]:
    """Crawl, and return the stats."""
    process = CrawlerProcess({**_SETTINGS, "ROBOTS_CACHE": cache})
    crawler = process.create_crawler(Pages)
    process.crawl(crawler, origins=origins, port=port, run=run)
    process.start()
    assert crawler.stats is not None
    return {
        key: value
        for key, value in crawler.stats.get_stats().items()
        if key.startswith("robotstxt/")
    }


def _crawl(server: Server, origins: int, run: int, cache: str) -> Run:
    seen = server.seen
    before = [counter.total() for counter in (seen.robots, seen.pages, seen.closed)]
    command = [
        sys.executable,
        "-m",
        "bench.restart",
        "--child",
        str(origins),
        str(server.port),
        str(run),
        cache,
    ]
    start = time.monotonic()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=_START + _PATIENCE * origins
    )
    seconds = time.monotonic() - start
    stats = json.loads(done.stdout)
    after = [counter.total() for counter in (seen.robots, seen.pages, seen.closed)]
    fetched, pages, closed = (late - early for late, early in zip(after, before, strict=True))
    return Run(fetched, pages, closed, stats.get("robotstxt/cache/store_hits", 0), seconds)


def measure(origins: int) -> tuple[list[Run], Seen]:
    """Crawl twice, one process after the other, and return what the server saw."""
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        cache = f"sqlite:///{folder}/robots.sqlite"
        return [_crawl(server, origins, run, cache) for run in (1, 2)], server.seen


def wrong(runs: list[Run], seen: Seen, origins: int) -> Iterator[str]:
    """Yield what is not as it should be."""
    often = [host for host, times in seen.robots.items() if times > 1]
    if len(seen.robots) != origins:
        yield f"robots.txt of {len(seen.robots):,} origins was asked for, of {origins:,}"
    if often:
        yield (
            f"robots.txt of {len(often):,} origins was asked for more than once, of {often[0]}"
            " among them"
        )
    if seen.closed:
        yield f"{seen.closed.total():,} disallowed pages were asked for"
    if [run.pages for run in runs] != [origins, origins]:
        yield f"not every open page was asked for: {[run.pages for run in runs]}"


def main() -> int:
    """Print the table; 1 where a file was asked for twice, or a page that is disallowed."""
    parser = argparse.ArgumentParser(prog="python -m bench.restart", description=__doc__)
    parser.add_argument("--origins", type=int, default=10_000)
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        origins, port, run = map(int, options.child[:3])
        print(json.dumps(child(origins, port, run, options.child[3])))
        return 0
    runs, seen = measure(options.origins)
    rows = [
        [
            f"run {at}",
            f"{run.fetched:,}",
            f"{run.stored:,}",
            f"{run.pages:,}",
            f"{run.closed:,}",
            f"{run.seconds:.0f}",
        ]
        for at, run in enumerate(runs, 1)
    ]
    head = [
        "",
        "robots.txt fetched",
        "out of the store",
        "open pages",
        "disallowed pages",
        "seconds",
    ]
    print(table(f"{options.origins:,} origins, two runs, a restart between them", head, rows))
    found = list(wrong(runs, seen, options.origins))
    print("\n".join(found) or f"each robots.txt was asked for once: {len(seen.robots):,} origins")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
