"""What the queue by origin costs beside Scrapy's own: ``python -m bench.queue``.

Sites with one request each are queued; then the worst call of push, pop and len is printed, in
processor time. The sites of our queue are ready, awaited, or paced. Scrapy's own queue looks at
every site for each pop.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.squeues import FifoMemoryQueue

from bench.report import table
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.gate import GATES, Gate
from scrapy_robots_rfc.scheduling.queue import OriginPriorityQueue

#: Calls of pop that are timed.
POPS = 2_000


class _Turns:
    """Stands for the throttle: every site is due at once, in a minute, or when it is woken."""

    def __init__(self, seconds: float | None) -> None:
        self.clock = time.monotonic
        self.sites: dict[Origin, Any] = {Origin("https", "paced.example", 443): None}
        self.on_turn: Callable[[Origin], object] = lambda _: None
        self._seconds = seconds

    def due(self, _: Origin) -> float | None:
        """Return when the next request of a site may go."""
        return self._seconds

    def interval(self, _: Origin) -> float:
        """Return the interval of a site."""
        return self._seconds or 0.0

    def take(self, _: Request, __: Origin) -> bool:
        """Take a turn."""
        return True

    def wake_in(self, _: float) -> None:
        """Wake the engine."""


class _Downloader:
    slots: dict[str, Any] = {}  # noqa: RUF012 - empty
    active: set[Request] = set()  # noqa: RUF012 - empty

    def get_slot_key(self, request: Request) -> str:
        """Return the slot, as Scrapy's own queue asks for it."""
        return request.url.split("/")[2]


class _Engine:
    downloader = _Downloader()


def measure(kind: str, sites: int) -> list[float]:
    """Return the worst milliseconds of push, pop and len, the mean of pop, and what closing
    takes.
    """
    crawler = Crawler(Spider)
    crawler.engine = _Engine()  # type: ignore[assignment]  # only the downloader is asked
    if kind == "Scrapy's own":
        queue: Any = DownloaderAwarePriorityQueue(crawler, FifoMemoryQueue, "")
    else:
        seconds = {"ready": 0.0, "paced": 60.0, "awaited": None}[kind]
        turns: Any = _Turns(seconds)
        GATES[crawler] = Gate(
            crawler, lambda request: Origin.of(request.url), lambda _: True, turns
        )
        queue = OriginPriorityQueue(crawler, FifoMemoryQueue, "")
    requests = [Request(f"http://site{number}.example/") for number in range(sites)]
    gc.collect()
    gc.disable()
    try:
        push = [_time(partial(queue.push, request)) for request in requests]
        pop = [_time(queue.pop) for _ in range(POPS if kind != "Scrapy's own" else 50)]
        length = [_time(lambda: len(queue)) for _ in range(20)]
        close = _time(queue.close)
    finally:
        gc.enable()
    return [max(push), max(pop), sum(pop) / len(pop), max(length), close]


def _time(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    return (time.thread_time() - start) * 1000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=100_000)
    arguments = parser.parse_args()
    kinds = ("ready", "awaited", "paced", "Scrapy's own")
    rows = [[kind, *(f"{value:.3f}" for value in measure(kind, arguments.sites))] for kind in kinds]
    title = f"{arguments.sites:,} sites with a request each, milliseconds"
    print(table(title, ["", "push, worst", "pop, worst", "pop, mean", "len, worst", "close"], rows))


if __name__ == "__main__":
    main()
