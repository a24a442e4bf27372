"""`python -m fleet`: several workers share a queue, robots.txt files and intervals.

It starts a Redis server, a web of a few hundred sites, and the workers, and kills one of them. The
results are counted from the log of the web.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from fleet.findings import Findings, Killed
from fleet.processes import NotInstalledError, Worker, redis_server
from fleet.spider import FleetSpider
from fleet.web import SLOW_HOST, Host, hosts, seeds, serve
from scrapy_robots_rfc.cache.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from demo.server import Asked, Site

_INTENTION = "One worker will be killed while it fetches a robots.txt. This takes half a minute.\n"
_POLL_INTERVAL = 0.02  # seconds


class NotDoneError(Exception):
    """The crawl did not end."""


@dataclass(slots=True)
class Demo:
    """A running demo.

    :param deadline: when to give up, on the monotonic clock.
    """

    sites: list[Host]
    web: Site
    address: str
    deadline: float
    workers: list[Worker] = field(default_factory=list)
    killed: Killed | None = None
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        self.client = redis.Redis.from_url(self.address)

    def run(self, *, kill: bool) -> None:
        """Let the workers crawl all sites, and kill one of them.

        :raises NotDoneError: the time is over, or a worker failed.
        """
        self._wait(self._are_ready, "the workers to start")
        self._push(seeds(self.sites))
        if kill:
            url = SLOW_HOST.url("/robots.txt")
            self._wait(lambda: self._request_for(url) is not None, f"a request for {url}")
            self._kill(self._request_for(url))
        self._push(SLOW_HOST.urls)
        self._wait(self._have_ended, "the workers to end")
        for worker in self.workers:
            is_killed = self.killed is not None and worker.name == self.killed.worker
            if worker.process.returncode and not is_killed:
                raise NotDoneError(f"worker {worker.name} failed: {worker.end_of_log}")

    def findings(self) -> Findings:
        """Count the results so far. A worker that is still running has no stats."""
        stats = {
            key.decode(): int(value)
            for key, value in self.client.hgetall(FleetSpider.stats_key).items()
        }
        names = [worker.name for worker in self.workers]
        return Findings(self.sites, list(self.web.asked), names, self.killed, stats)

    def _are_ready(self) -> bool:
        return int(self.client.get(FleetSpider.ready_key) or 0) == len(self.workers)

    def _have_ended(self) -> bool:
        return not any(worker.is_running for worker in self.workers)

    def _push(self, urls: list[str]) -> None:
        self.client.rpush(FleetSpider.redis_key, *urls)

    def _request_for(self, url: str) -> Asked | None:
        return next((asked for asked in list(self.web.asked) if asked.target == url), None)

    def _wait(self, is_done: Callable[[], bool], event: str) -> None:
        while not is_done():
            if time.monotonic() > self.deadline:
                raise NotDoneError(f"time is over (--seconds) while waiting for {event}")
            time.sleep(_POLL_INTERVAL)

    def _kill(self, asked: Asked | None) -> None:
        """Kill the worker that sent a request, and note which files it had not stored."""
        assert asked is not None
        [worker] = [worker for worker in self.workers if worker.name == asked.headers["X-Worker"]]
        worker.kill()
        after = time.monotonic() - self.web.asked[0].time
        store = RedisStore(self.address)
        store.open()
        unsaved = frozenset(host.name for host in self.sites if store.get(host.origin) is None)
        store.close()
        self.killed = Killed(worker.name, after, unsaved)


def main() -> int:
    """Run the demo, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fleet", description=__doc__)
    parser.add_argument("--sites", type=int, default=300, help="number of sites (300)")
    parser.add_argument("--workers", type=int, default=4, help="number of workers (4)")
    parser.add_argument("--spare", action="store_true", help="kill no worker")
    parser.add_argument("--seconds", type=float, default=300, help="time limit (300)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all processes are ended
    try:
        return show(options)
    except NotInstalledError as error:
        print(f"python -m fleet: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def show(options: argparse.Namespace) -> int:
    """Start everything, wait for the end, and print the results, also if the time is over."""
    deadline = time.monotonic() + options.seconds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-")))
        address = stack.enter_context(redis_server(folder))
        sites = hosts(options.sites)
        web = serve(sites)
        stack.callback(web.stop)
        print(f"{len(sites)} sites, {options.workers} workers, one Redis server: {address}")
        print("" if options.spare else _INTENTION, flush=True)
        demo = Demo(sites, web, address, deadline)
        for number in range(1, options.workers + 1):
            worker = Worker.start(str(number), folder, address=address, web=web.url())
            stack.callback(worker.kill)
            demo.workers.append(worker)
        error = None
        try:
            demo.run(kill=not options.spare)
        except NotDoneError as raised:
            error = raised
        findings = demo.findings()
    print(*findings.lines(), sep="\n")
    if error is not None:
        print(f"python -m fleet: {error}", file=sys.stderr)
    return 0 if error is None and findings.is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
