"""Interrupt crawls at random moments, and resume them: `python -m bench.interrupted`.

Three sites: one answers at once, one has a slow robots.txt and a Crawl-delay, one fails at first. A
crawl with JOBDIR gets SIGINT or SIGTERM once and is resumed: each page has to be fetched once, as
without interruption. Or it gets SIGKILL: then no disallowed page may be fetched, and no more may be
lost than with Scrapy alone. The exit code is 1 if something is wrong.
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

#: Pages of each site; the first page of the first site links to all of them.
LINKS = 30
ROBOTS_TXT = b"User-agent: *\nDisallow: /closed/\n"
# Seconds that a crawl may take, and one that was killed before.
_LIMIT, _LIMIT_AFTER_KILL = 60, 30
_TARGETS = [f"/closed/{n}" if n % 3 == 0 else f"/open/{n}" for n in range(LINKS)]
_ALLOWED = {target for target in _TARGETS if target.startswith("/open/")}


class Stop(NamedTuple):
    """A signal that interrupts a crawl.

    :param after: seconds after its first request, or `None`: when the first site has answered all
        its pages, and all others have been asked for a robots.txt that they do not answer.
    """

    after: float | None
    sign: signal.Signals = signal.SIGINT


@dataclass
class Server:
    """A site.

    :param delay: seconds until its robots.txt arrives.
    :param failures: how often robots.txt answers 503 first.
    :param pace: its Crawl-delay, in seconds.
    :param begun: set at the first request to any site.
    :param free: cleared while robots.txt is not answered.
    """

    begun: threading.Event
    delay: float = 0
    failures: int = 0
    pace: float = 0
    index: bytes = b""
    requested: list[str] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    free: threading.Event = field(default_factory=threading.Event)

    def answer(self, target: str) -> tuple[int, bytes]:
        """Return status and body."""
        self.requested.append(target)
        self.begun.set()
        try:
            if target != "/robots.txt":
                time.sleep(0.01)
                return 200, self.index if target == "/" else b"page"
            time.sleep(self.delay)
            self.free.wait()
            self.failures -= 1
            if self.failures >= 0:
                return 503, b""
            return 200, ROBOTS_TXT + b"Crawl-delay: %g\n" % self.pace
        finally:
            self.answered.append(time.monotonic())

    @property
    def pages(self) -> Counter[str]:
        """The requests for pages."""
        return Counter(target for target in self.requested if target != "/robots.txt")


@contextmanager
def _serving(site: Server) -> Iterator[str]:
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
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


@dataclass(frozen=True)
class Crawled:
    """The result of a crawl and its resumptions.

    :param pages: what each site was asked for, and how often.
    :param reported: what callbacks and errbacks got: (site, target, outcome, whether the request
        kept its meta) -> how often.
    :param processes: how many processes it took.
    :param closing: seconds from the last signal, or the last answer after it, to the end of the
        crawl.
    :param hangs: whether it did not end after SIGKILL: Scrapy's queue on disk may be damaged.
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
        return sum(target not in pages for pages in self.pages for target in _ALLOWED)


def crawl(*stops: Stop, runtime: str = "asyncio") -> Crawled:
    """Crawl the sites from the beginning to the end.

    :param stops: what interrupts the first process, the second one, and so on.
    :param runtime: a key of `RUNTIMES`.
    """
    begun = threading.Event()
    sites = [Server(begun), Server(begun, delay=1, pace=0.03), Server(begun, failures=2)]
    processes, closing, errors, hangs = 0, 0.0, "", False
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = [stack.enter_context(_serving(site)) for site in sites]
        links = [urljoin(url, target) for target in _TARGETS for url in urls]
        sites[0].index = "".join(f'<a href="{link}">x</a>' for link in links).encode()
        sites[0].free.set()
        file = folder / "outcomes"
        file.touch()
        command = [sys.executable, "-m", "bench.resumed_crawl", runtime, str(folder / "job")]
        for before, stop in pairwise((None, *stops, None)):
            begun.clear()
            closed = file.with_name("outcomes.closed")
            closed.unlink(missing_ok=True)
            for site in sites[1:]:
                (site.free.clear if stop is not None and stop.after is None else site.free.set)()
            seen = [len(site.requested) for site in sites]
            process = subprocess.Popen(
                [*command, str(file), urls[0]], stderr=subprocess.PIPE, text=True
            )
            processes += 1
            was_interrupted = stop is not None and _interrupt(
                process, stop, begun, partial(_all_wait, sites, seen)
            )
            began = time.monotonic()
            was_killed = before is not None and before.sign is signal.SIGKILL
            try:
                limit = _LIMIT_AFTER_KILL if was_killed else _LIMIT
                errors += process.communicate(timeout=limit)[1]
            except subprocess.TimeoutExpired:
                process.kill()
                errors += process.communicate()[1]
                if not was_killed:
                    raise
                hangs = True
            if not was_interrupted:
                break
            # A crawl that was killed has written no time.
            ended = float(closed.read_text("ascii")) if closed.exists() else time.monotonic()
            answered = [when for site in sites for when in site.answered if when <= ended]
            closing = ended - max([began, *answered])
        reported = _reported(file, urls)
    return Crawled([site.pages for site in sites], reported, processes, closing, errors, hangs)


def _reported(file: Path, urls: list[str]) -> Counter[tuple[int, str, str, str]]:
    reported: Counter[tuple[int, str, str, str]] = Counter()
    for line in file.read_text("utf-8").splitlines():
        url, outcome, own = line.split()
        number = next(n for n, site in enumerate(urls) if url.startswith(site))
        reported[number, url.removeprefix(urls[number]), outcome, own] += 1
    return reported


def _interrupt(
    process: subprocess.Popen[str],
    stop: Stop,
    begun: threading.Event,
    all_wait: Callable[[], bool],
) -> bool:
    """Send a signal at its moment; return false if the process ended before."""
    is_time = all_wait if stop.after is None else begun.is_set
    while not is_time():
        if process.poll() is not None:
            return False
        time.sleep(0.02)
    try:
        process.wait(stop.after or 0)
    except subprocess.TimeoutExpired:
        process.send_signal(stop.sign)
        return True
    return False


def _all_wait(sites: list[Server], seen: list[int]) -> bool:
    """Return whether the moment of a `Stop` without seconds has come.

    :param seen: the requests of each site before this process.
    """
    first, *others = sites
    is_answered = len(first.answered) == len(first.requested)
    return (
        is_answered
        and {*first.requested} >= _ALLOWED
        and all("/robots.txt" in s.requested[n:] for s, n in zip(others, seen[1:], strict=True))
    )


def wrong(plain: Crawled, result: Crawled, sign: signal.Signals) -> str:
    """Describe what is wrong with an interrupted crawl; an empty string if nothing is.

    :param plain: the crawl without interruption.
    """
    if any(target.startswith("/closed/") for pages in result.pages for target in pages):
        return "a disallowed page was fetched"
    if sign is signal.SIGKILL:
        return ""
    if result.pages != plain.pages:
        pairs = zip(plain.pages, result.pages, strict=True)
        return f"pages (missing, too many): {[(a - b, b - a) for a, b in pairs]}"
    if result.reported != plain.reported:
        missing, more = plain.reported - result.reported, result.reported - plain.reported
        return f"callbacks and errbacks (missing, too many): {missing}, {more}"
    return ""


def moments(runs: int, seed: int) -> list[float]:
    """Return moments between the first request of a crawl and about its end."""
    source = random.Random(seed)
    return [source.uniform(0, 1.4) for _ in range(runs)]


def main() -> int:
    """Run, print a table, and return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.interrupted", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="crawls for each kind of stop")
    parser.add_argument("--seed", type=int, default=9309)
    parser.add_argument("--runtime", choices=RUNTIMES, default="asyncio")
    options = parser.parse_args()
    plain = crawl(runtime=options.runtime)
    rows, is_wrong = [], False
    kinds: dict[str, tuple[Stop, ...]] = {"": (), ", resumed before": (Stop(0.5),)}
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for name, before in kinds.items():
            if before and sign is not signal.SIGKILL:
                continue
            findings, results = [], {options.runtime: list[Crawled](), "alone": list[Crawled]()}
            for after in moments(options.runs, options.seed):
                for runtime, each in results.items():
                    each.append(crawl(*before, Stop(after, sign), runtime=runtime))
                finding = wrong(plain, results[options.runtime][-1], sign)
                findings += [f"{sign.name} after {after:.2f} s: {finding}"] if finding else []
            print(*findings, sep="\n", end="\n" if findings else "")
            ours, alone = results.values()
            lost = [sum(one.missing for one in each) for each in (ours, alone)]
            hangs = [sum(one.hangs for one in each) for each in (ours, alone)]
            closing = [max(one.closing for one in each) for each in (ours, alone)]
            pairs = [f"{a} ({b})" for a, b in (lost, hangs)]
            slowest = f"{closing[0]:.2f} ({closing[1]:.2f})"
            rows.append([f"{sign.name}{name}", f"{len(findings)}", *pairs, slowest])
            is_wrong |= bool(findings) or lost[0] > lost[1]
    title = f"{options.runs} crawls each, stopped and resumed (Scrapy alone)"
    print(table(title, ["", "wrong", "pages lost", "hang", "slowest close, s"], rows))
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
