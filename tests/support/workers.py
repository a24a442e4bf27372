"""Run crawls in processes that start together and can be killed.

Run as a program, crawl in this process, in one runtime, on command, and print the results as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scrapy.utils.reactor import install_reactor
from twisted.internet.defer import Deferred

from scrapy_robots_rfc.cache import client as fetches
from scrapy_robots_rfc.scheduling import shared
from tests.support.crawling import ASYNCIO_REACTOR, crawl
from tests.support.documents import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Maximum seconds of a crawl.
TIMEOUT = 100


class Worker:
    """A process. It crawls after `start`.

    :param mode: the runtime, one of `REACTORS`.
    :param hold: see `main`.
    """

    def __init__(
        self, mode: str, urls: list[str], settings: dict[str, Any], hold: float | None = None
    ) -> None:
        arguments = {"mode": mode, "urls": urls, "settings": settings, "hold": hold}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.workers", json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def ready(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "ready\n", self.process.communicate()

    def start(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def result(self) -> dict[str, Any]:
        """Wait for the end, and return the results and the log."""
        stdout, stderr = self.process.communicate(timeout=TIMEOUT)
        assert self.process.returncode == 0, stderr
        result: dict[str, Any] = json.loads(stdout)
        return {**result, "log": stderr}


@contextmanager
def fleet(*workers: Worker) -> Iterator[None]:
    """Wait until workers are ready, and kill them at the end of the block."""
    try:
        for worker in workers:
            worker.ready()
        yield
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.communicate()


#: The runtimes: two reactors, and none.
REACTORS = {
    "asyncio": ASYNCIO_REACTOR,
    "select": "twisted.internet.selectreactor.SelectReactor",
    "none": None,
}


async def work(urls: list[str], settings: dict[str, Any]) -> None:
    """Crawl, and print outcomes and stats."""
    result = await crawl(urls, settings)
    outcomes = {
        url: outcome if isinstance(outcome, int) else type(outcome).__name__
        for url, outcome in result.outcomes.items()
    }
    stats = {key: value for key, value in result.stats.items() if isinstance(value, (int, float))}
    sys.stdout.write(json.dumps({"outcomes": outcomes, "stats": stats}) + "\n")


def main(mode: str, urls: list[str], settings: dict[str, Any], hold: float | None) -> None:
    """Wait for a line on stdin, then crawl.

    :param hold: seconds after which leases and turns of a dead worker end, or ``None`` for the
        default.
    """
    if hold is not None:
        fetches.LEASE = shared.TURN_TIMEOUT = hold
        fetches.RENEW_INTERVAL = shared.EXTEND_EVERY = hold / 3
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    logging.getLogger("scrapy_robots_rfc").addHandler(handler)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    path = REACTORS[mode]
    if path is None:
        asyncio.run(work(urls, settings))
        return
    install_reactor(path)
    from twisted.internet import reactor as installed  # noqa: PLC0415 - after its installation

    reactor: Any = installed  # the module stands for the reactor
    crawled = Deferred.fromCoroutine(work(urls, settings))
    crawled.addBoth(lambda _: reactor.callLater(0, reactor.stop))
    reactor.run()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
