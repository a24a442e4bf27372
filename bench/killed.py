"""`python -m bench.killed [--kills N] [--seed S]`: what SIGKILL takes from the queue on disk.

Crawls of 50 origins with JOBDIR, two priorities, retries and redirects, whose robots.txt files are
quick, slow, unreachable at first, or ask for a Crawl-delay. Each crawl is killed at random moments
and resumed, with Scrapy's LIFO, FIFO and SQLite queues. A request may be lost if it was in flight,
or if it was queued after the queue was saved last. It ends with 1 if another request was lost, or
if a disallowed page was fetched.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bench.killed_crawl import QUEUES
from bench.report import table

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds that one process may take to finish what is left.
TIMEOUT = 300
#: Maximum seconds that a save takes: a thread writes the state, on a machine that may be busy.
_SAVING = 3.0


@dataclass
class Sites:
    """All origins, behind one proxy."""

    begun: threading.Event = field(default_factory=threading.Event)
    robots: dict[str, int] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, url: str) -> tuple[int, str, bytes]:
        """Return status, Location and body."""
        host, path = urlsplit(url).netloc, urlsplit(url).path
        kind = int(host.partition(".")[0][1:]) % 4
        self.begun.set()
        if path != "/robots.txt":
            with self.lock:
                is_first = url not in self.fetched
                self.fetched.append(url)
            return self._page(path, is_first)
        with self.lock:
            self.robots[host] = self.robots.get(host, 0) + 1
        if kind == 1:
            time.sleep(1.5)
        if kind == 2 and self.robots[host] % 3:
            return 503, "", b""
        delay = b"Crawl-delay: 0.1\n" if kind == 3 else b""
        return 200, "", b"User-agent: *\nDisallow: /*4$\n" + delay

    def _page(self, path: str, is_first: bool) -> tuple[int, str, bytes]:
        time.sleep(0.02)
        if path.endswith("5") and is_first:
            return 503, "", b""
        if path.endswith("7"):
            return 302, f"/target{path[1:-1]}", b""
        return 200, "", b"page"


@contextmanager
def serving(sites: Sites) -> Iterator[str]:
    """Serve all sites, and yield the URL of their proxy."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def do_GET(self) -> None:
            status, location, body = sites.answer(self.path)
            self.send_response_only(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            if location:
                self.send_header("Location", location)
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
class Result:
    """What came of crawls that were killed.

    :param kills: number of kills.
    :param pages: number of pages that the sites saw.
    :param excused: requests that were lost in flight, or before they were saved.
    :param lost: other requests that were lost.
    :param disallowed: disallowed pages that were fetched.
    :param errors: what the processes wrote to stderr.
    """

    kills: int
    pages: int
    excused: set[str]
    lost: set[str]
    disallowed: set[str]
    errors: str


def run(queue: str, kills: int, source: random.Random, *, origins: int, pages: int) -> Result:
    """Crawl, kill and resume, and start another crawl when one is finished.

    :param queue: a key of `QUEUES`.
    """
    killed, seen, errors = 0, 0, ""
    excused: set[str] = set()
    lost: set[str] = set()
    disallowed: set[str] = set()
    while killed < kills:
        sites = Sites()
        with tempfile.TemporaryDirectory() as folder, serving(sites) as proxy:
            log = Path(folder) / "log"
            job = Path(folder) / "job"
            command = [sys.executable, "-m", "bench.killed_crawl", queue, str(job), str(log)]
            command += [str(origins), str(pages)]
            queued: set[str] = set()
            saved: set[str] = set()
            sent: set[str] = set()
            is_killed = True
            while is_killed:
                sites.begun.clear()
                begin = log.stat().st_size if log.exists() else 0
                after = source.uniform(0.1, 8) if killed < kills else None
                is_killed, text = _process(command, proxy, sites.begun, after)
                errors += text
                killed += is_killed
                state = job / "requests.queue" / "active.json"
                saved_at = state.stat().st_mtime - _SAVING if state.exists() else 0.0
                for line in log.read_text(encoding="ascii")[begin:].splitlines():
                    event, url, when = line.split()
                    (queued if event == "queued" else sent).add(url)
                    if event == "queued" and float(when) < saved_at:
                        saved.add(url)
        missing = {url for url in queued - sent if not _is_disallowed(url)}
        lost |= missing & saved
        excused |= missing - saved | {url for url in sent if url not in sites.fetched}
        disallowed |= {url for url in sites.fetched if _is_disallowed(url)}
        seen += len(sites.fetched)
    return Result(killed, seen, excused, lost, disallowed, errors)


def _is_disallowed(url: str) -> bool:
    return url.endswith("4")


def _process(
    command: list[str], proxy: str, begun: threading.Event, after: float | None
) -> tuple[bool, str]:
    """Run a crawl; return whether it was killed, and what it wrote to stderr.

    :param after: seconds after its first request, or `None` to let it finish.
    """
    env = {**os.environ, "http_proxy": proxy}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    if after is not None:
        while not begun.wait(0.05) and process.poll() is None:
            pass
        try:
            return False, process.communicate(timeout=after)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            return True, process.communicate()[1]
    try:
        return False, process.communicate(timeout=TIMEOUT)[1]
    finally:
        process.kill()


def main() -> int:
    """Run, print a table, and return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.killed", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="kills with each kind of queue")
    parser.add_argument("--seed", type=int, default=9309)
    options = parser.parse_args()
    rows, is_wrong = [], False
    for queue in QUEUES:
        source = random.Random(options.seed)
        result = run(queue, options.kills, source, origins=50, pages=60)
        is_wrong |= bool(result.lost or result.disallowed)
        counts = (result.kills, result.pages, len(result.excused), len(result.lost))
        rows.append([queue, *map(str, counts), str(len(result.disallowed))])
        print(result.errors, end="", file=sys.stderr)
    head = ["queue", "kills", "pages", "lost: in flight or unsaved", "lost: others", "disallowed"]
    print(table("Killed and resumed", head, rows))
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
