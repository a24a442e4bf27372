"""`python -m bench.interrupted [--runs N] [--seed S] [--runtime NAME]`: crawls that are
interrupted, and resumed.

Sites whose robots.txt is quick, is slow and asks for a pace, or fails at first; a crawl in a
process of its own, with JOBDIR. At a random moment it gets SIGINT, once, and is resumed: the pages
that the sites see must be those of an uninterrupted crawl, each once. Or it gets SIGKILL: then
pages may be lost or come twice, as Scrapy has it, but none that is disallowed may be fetched.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from bench.report import table
from bench.resumed_crawl import RUNTIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Pages of each site, all of them linked from the first page of the first one; every third is
#: disallowed.
LINKS = 30
ROBOTS_TXT = b"User-agent: *\nDisallow: /closed/\n"
#: A crawl may take this long; one that hangs ends the run.
PATIENCE = 60
#: And this long one that was killed before.
AFTER_KILL = 30

_TARGETS = [f"/closed/{n}" if n % 3 == 0 else f"/open/{n}" for n in range(LINKS)]


class Stop(NamedTuple):
    """What interrupts a crawl: a signal.

    :param after: seconds after its first request; ``None``: when the first site has answered all,
        and every other one has been asked for its robots.txt, which it does not answer until then.
    """

    after: float | None
    sign: signal.Signals = signal.SIGINT


@dataclass
class Server:
    """One site.

    :param delay: seconds until its robots.txt comes.
    :param pace: its Crawl-delay, in seconds.
    :param failures: how often robots.txt answers 503 first, in each crawl.
    :param begun: set when a site is asked for anything.
    :param free: cleared while no robots.txt is answered.
    """

    delay: float = 0
    failures: int = 0
    pace: float = 0
    index: bytes = b""
    asked: list[str] = field(default_factory=list)
    failed: int = 0
    begun: threading.Event = field(default_factory=threading.Event)
    free: threading.Event = field(default_factory=threading.Event)
    answered: list[float] = field(default_factory=list)

    def answer(self, target: str) -> tuple[int, bytes]:
        """Return status and body."""
        self.asked.append(target)
        self.begun.set()
        try:
            return self._answer(target)
        finally:
            self.answered.append(time.monotonic())

    def _answer(self, target: str) -> tuple[int, bytes]:
        if target != "/robots.txt":
            time.sleep(0.01)
            return 200, self.index if target == "/" else b"page"
        time.sleep(self.delay)
        self.free.wait()
        self.failed += 1
        return (
            (503, b"")
            if self.failed <= self.failures
            else (200, ROBOTS_TXT + b"Crawl-delay: %g\n" % self.pace)
        )

    @property
    def pages(self) -> Counter[str]:
        """What was asked for, less robots.txt."""
        return Counter(target for target in self.asked if target != "/robots.txt")


@contextmanager
def serving(site: Server) -> Iterator[str]:
    """Serve a site, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def do_GET(self) -> None:
            status, body = site.answer(self.path)
            self.send_response_only(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            pass

    server = Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Crawled:
    """What came of a crawl and its resumption.

    :param pages: what each site was asked for, and how often.
    :param reported: what callbacks and errbacks got: (site, target, outcome, whether meta was
        there) -> how often.
    :param processes: how many it took.
    :param closing: seconds between the last signal, or the last answer to a request that was under
        way then, and the end of the crawl. The end of the interpreter comes later; on a busy
        machine it takes seconds.
    :param hangs: whether it did not go on after SIGKILL: Scrapy's queue on disk may be damaged
        then.
    """

    pages: list[Counter[str]]
    reported: Counter[tuple[int, str, str, str]]
    processes: int
    closing: float
    errors: str
    hangs: bool

    @property
    def missing(self) -> int:
        """How many allowed pages were not fetched."""
        allowed = [target for target in _TARGETS if target.startswith("/open/")]
        return sum(target not in pages for pages in self.pages for target in allowed)


def crawl(*stops: Stop, runtime: str = "asyncio") -> Crawled:
    """Crawl the sites from the beginning to the end.

    :param stops: what interrupts the crawl, what interrupts the resumed one, and so on.
    :param runtime: a key of `resumed_crawl.RUNTIMES`.
    """
    begun, free = threading.Event(), threading.Event()
    sites = [
        Server(begun=begun),
        Server(1, pace=0.03, begun=begun, free=free),
        Server(0, 2, begun=begun, free=free),
    ]
    sites[0].free.set()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = [stack.enter_context(serving(site)) for site in sites]
        links = [urljoin(url, target) for target in _TARGETS for url in urls]
        sites[0].index = "".join(f'<a href="{link}">x</a>' for link in links).encode()
        file = folder / "outcomes"
        file.touch()
        command = [
            sys.executable,
            "-m",
            "bench.resumed_crawl",
            runtime,
            str(folder / "job"),
            str(file),
            urls[0],
        ]
        processes, closing, errors, hangs = 0, 0.0, "", False
        for before, stop in pairwise((None, *stops, None)):
            begun.clear()
            (free.clear if stop is not None and stop.after is None else free.set)()
            seen = [len(site.asked) for site in sites]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            processes += 1
            interrupted = stop is not None and _interrupt(
                process, stop, begun, partial(_waiting, sites, seen)
            )
            began = time.monotonic()
            after_kill = before is not None and before.sign is signal.SIGKILL
            try:
                errors += process.communicate(timeout=AFTER_KILL if after_kill else PATIENCE)[1]
            except subprocess.TimeoutExpired:
                process.kill()
                errors += process.communicate()[1]
                if not after_kill:
                    raise
                hangs = True
            if not interrupted:
                break
            closed = file.with_name("outcomes.closed")  # a crawl that was killed has none
            ended = (
                float(closed.read_text(encoding="ascii")) if closed.exists() else time.monotonic()
            )
            closing = ended - max(
                [began, *(when for site in sites for when in site.answered if when <= ended)]
            )
        reported = _reported(file, urls)
        return Crawled([site.pages for site in sites], reported, processes, closing, errors, hangs)


def _reported(file: Path, urls: list[str]) -> Counter[tuple[int, str, str, str]]:
    """Return what callbacks and errbacks got, by what they wrote; see `Crawled`."""
    reported: Counter[tuple[int, str, str, str]] = Counter()
    for line in file.read_text(encoding="utf-8").splitlines():
        url, outcome, own = line.split()
        number = next(n for n, site in enumerate(urls) if url.startswith(site))
        reported[number, url.removeprefix(urls[number]), outcome, own] += 1
    return reported


def _interrupt(
    process: subprocess.Popen[str], stop: Stop, begun: threading.Event, waiting: Callable[[], bool]
) -> bool:
    """Send a signal when its moment has come; false: the crawl was over sooner."""
    reached = waiting if stop.after is None else begun.is_set
    while not reached():
        if process.poll() is not None:
            return False
        time.sleep(0.02)
    try:
        process.wait(stop.after or 0)
    except subprocess.TimeoutExpired:
        process.send_signal(stop.sign)
        return True
    return False


def _waiting(sites: list[Server], seen: list[int]) -> bool:
    """Say whether the first site has answered all, and the other ones were asked for their
    robots.txt.

    :param seen: how many requests each of them had seen before this process.
    """
    first, *others = sites
    allowed = {target for target in _TARGETS if target.startswith("/open/")}
    return (
        allowed <= {*first.asked}
        and len(first.answered) == len(first.asked)
        and all(
            "/robots.txt" in site.asked[before:]
            for site, before in zip(others, seen[1:], strict=True)
        )
    )


def wrong(plain: Crawled, found: Crawled, sign: signal.Signals) -> str:
    """Say what is wrong with an interrupted crawl; nothing: an empty string."""
    if any(target.startswith("/closed/") for pages in found.pages for target in pages):
        return "a disallowed page was fetched"
    if sign is signal.SIGKILL:
        return ""
    if found.pages != plain.pages:
        differences = [(a - b, b - a) for a, b in zip(plain.pages, found.pages, strict=True)]
        return f"other pages were fetched (missing, too many): {differences}"
    if found.reported != plain.reported:
        return (
            f"callbacks and errbacks got something else: {plain.reported - found.reported},"
            f" {found.reported - plain.reported}"
        )
    return ""


def moments(runs: int, seed: int) -> list[float]:
    """The moments at which a crawl is interrupted: between its first request and about its end."""
    source = random.Random(seed)
    return [source.uniform(0, 1.4) for _ in range(runs)]


def main() -> int:
    """Run, print a table, and return 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.interrupted", description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=20, help="crawls that are interrupted by each signal"
    )
    parser.add_argument("--seed", type=int, default=9309)
    parser.add_argument("--runtime", choices=RUNTIMES, default="asyncio")
    options = parser.parse_args()
    plain = crawl(runtime=options.runtime)
    rows, failed, slowest = [], 0, [0.0, 0.0]
    for sign in (signal.SIGINT, signal.SIGKILL):
        for after in moments(options.runs, options.seed):
            found = crawl(Stop(after, sign), runtime=options.runtime)
            finding = wrong(plain, found, sign)
            failed += bool(finding)
            fetched = sum(map(Counter.total, found.pages))
            numbers = (f"{after:.2f}", str(found.processes), str(fetched), f"{found.closing:.2f}")
            if sign is signal.SIGINT:
                both = (found, crawl(Stop(after, sign), runtime="alone"))
                slowest = [
                    max(before, one.closing) for before, one in zip(slowest, both, strict=True)
                ]
            rows.append([sign.name, *numbers, finding or "as it must be"])
    title = (
        f"Interrupted and resumed; without interruption: {sum(map(Counter.total, plain.pages))}"
        " pages"
    )
    print(table(title, ["signal", "after, s", "processes", "pages", "closing, s", "found"], rows))
    ours, alone = slowest
    print(f"The slowest closed {ours:.2f} s after SIGINT or the last answer,", end=" ")
    print(f"and Scrapy alone {alone:.2f} s.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
