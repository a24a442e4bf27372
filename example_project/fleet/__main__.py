"""`python -m fleet`: the demo of several workers that share a queue, the robots.txt files and the
paces.

It starts a Redis server and a web of a few hundred sites, then the workers, and kills one of them
on the way. What it says at the end is read from the web's own log.
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
from fleet.web import SLOW_SITE, Home, homes, seeds, serve
from scrapy_robots_rfc.cache.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from demo.server import Asked, Site

_INTENT = (
    "One of the workers will be killed while it fetches a robots.txt. This takes half a minute.\n"
)
_LOOK = 0.02  # seconds between two looks at the web's log


class NotDoneError(Exception):
    """The crawl did not come to its end."""


@dataclass(slots=True)
class Demo:
    """The demo while it runs.

    :param until: when it is given up, on the clock of the web's log.
    """

    sites: list[Home]
    site: Site
    address: str
    workers: list[Worker]
    until: float
    killed: Killed | None = None
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        self.client = redis.Redis.from_url(self.address)

    def run(self, *, kill: bool) -> None:
        """Give the workers their work, kill one of them, and wait for the others.

        :raises NotDoneError: it takes too long, or a worker failed.
        """
        self._push(seeds(self.sites))
        if kill:
            robots_txt = SLOW_SITE.url("/robots.txt")
            self._wait(
                lambda: self._asked(robots_txt) is not None, f"anybody to ask for {robots_txt}"
            )
            self._kill(self._asked(robots_txt))
        self._push([SLOW_SITE.url(target) for target in SLOW_SITE.targets])
        self._wait(lambda: not any(worker.running for worker in self.workers), "the workers to end")
        for worker in self.workers:
            if worker.process.returncode and (
                self.killed is None or worker.name != self.killed.worker
            ):
                raise NotDoneError(f"worker {worker.name} failed: {worker.last_words}")

    def counted(self) -> dict[str, int]:
        """Return the sums of what the workers have counted; one that was killed has no stats."""
        return {
            key.decode(): int(value)
            for key, value in self.client.hgetall(FleetSpider.stats_key).items()
        }

    def _push(self, urls: list[str]) -> None:
        self.client.rpush(FleetSpider.redis_key, *urls)

    def _asked(self, url: str) -> Asked | None:
        return next((asked for asked in list(self.site.asked) if asked.target == url), None)

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        while not ready():
            if time.monotonic() > self.until:
                raise NotDoneError(f"there is no more time to wait for {what}")
            time.sleep(_LOOK)

    def _kill(self, asked: Asked | None) -> None:
        """Kill the worker that has asked for something, and see what the others can know of its
        work.
        """
        assert asked is not None
        [worker] = [worker for worker in self.workers if worker.name == asked.headers["X-Worker"]]
        worker.kill()
        store = RedisStore(self.address)
        store.open()
        unsaved = frozenset(home.name for home in self.sites if store.get(home.origin) is None)
        store.close()
        self.killed = Killed(worker.name, time.monotonic() - self.site.asked[0].time, unsaved)


def main() -> int:
    """Run the demo, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fleet", description=__doc__)
    parser.add_argument("--sites", type=int, default=300, help="how many (default: 300)")
    parser.add_argument("--workers", type=int, default=4, help="how many (default: 4)")
    parser.add_argument("--spare", action="store_true", help="kill no worker")
    parser.add_argument(
        "--seconds", type=float, default=55, help="how long it may take at most (default: 55)"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # such that everything is ended then, too
    try:
        return show(options)
    except (NotInstalledError, NotDoneError) as error:
        print(f"python -m fleet: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as shells have it


def show(options: argparse.Namespace) -> int:
    """Start everything, let it run, end everything, and print what was found."""
    until = time.monotonic() + options.seconds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-")))
        address = stack.enter_context(redis_server(folder))
        sites = homes(options.sites)
        site = serve(sites)
        stack.callback(site.stop)
        names = [str(number) for number in range(1, options.workers + 1)]
        print(
            f"{len(sites)} made-up sites, {len(names)} worker processes, one Redis server:"
            f" {address}",
            flush=True,
        )
        print("" if options.spare else _INTENT, flush=True)
        demo = Demo(sites, site, address, [], until)
        for name in names:
            worker = Worker.start(name, folder, address=address, web=site.url())
            stack.callback(worker.kill)
            demo.workers.append(worker)
        demo.run(kill=not options.spare)
        counted = demo.counted()
    found = Findings(sites, site.asked, names, demo.killed, counted)
    print(*found.lines(), sep="\n")
    return 0 if found.fine else 1


if __name__ == "__main__":
    sys.exit(main())
