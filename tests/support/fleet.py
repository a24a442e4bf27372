"""Simulated workers that take turns at one site, on a simulated clock.

Nothing here waits or uses threads. Requests to the site and to the store take time, and workers may
die. The package decides the turns.
"""

from __future__ import annotations

import heapq
import types
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, cast

from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.shared import SharedTurns
from tests.support.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from scrapy_robots_rfc.cache.client import CacheClient

SITE = Origin("https", "example.com", 443)


class Timer:
    """A scheduled call."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function: Callable[[], object] | None = function

    def cancel(self) -> None:
        self.function = None


class World:
    """The clock and the store that all workers share, and the site.

    Its `arrivals` are the time of each request that reached the site, and the worker.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.arrivals: list[tuple[float, str]] = []
        self.store = MemoryStore(now=lambda: self.now)
        self._timers: list[tuple[float, int, Timer]] = []
        self._number = count()

    def later(self, delay: float, function: Callable[[], object]) -> Timer:
        """Call a function after a delay in seconds."""
        timer = Timer(function)
        heapq.heappush(self._timers, (self.now + delay, next(self._number), timer))
        return timer

    def run(self, until: float) -> None:
        """Advance the clock, and make the calls that are due."""
        while self._timers and self._timers[0][0] <= until:
            self.now, _, timer = heapq.heappop(self._timers)
            if timer.function is not None:
                timer.function()
        self.now = until

    def gaps(self) -> list[float]:
        """Return the seconds between successive requests that reached the site."""
        times = sorted(when for when, _ in self.arrivals)
        return [after - before for before, after in pairwise(times)]


class Worker(Runtime):
    """A crawl with endless requests to the site. It replaces the runtime and the cache client.

    :param way: seconds that a request takes to the site; the answer takes the same time.
    :param latency: seconds that a call takes to the store; the answer takes the same time.
    """

    def __init__(
        self, world: World, name: str, interval: float = 1.0, way: float = 0.1, latency: float = 0.0
    ) -> None:
        self.world, self.name = world, name
        self.interval, self.way, self.latency = interval, way, latency
        self.alive, self.works, self.left = True, True, 10**9
        self.calls: list[str] = []
        self.turns = SharedTurns(cast("CacheClient", self), self, SITE, self.go)

    # The interface of a runtime.

    def clock(self) -> float:
        return self.world.now

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        """Call a function later, unless the worker dies."""
        return self.world.later(delay, lambda: function() if self.alive else None)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Cancellable:
        self._go_on(coroutine)
        return Timer(lambda: None)

    def _go_on(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            pause = coroutine.send(None)
        except StopIteration:
            return
        self.call_later(pause, lambda: self._go_on(coroutine))

    # The interface of a cache client.

    async def take_turn(self, origin: Origin, seconds: float) -> float | None:
        wait: float | None = await self._ask(
            "take", lambda: self.world.store.take_turn(str(origin), self.name, seconds)
        )
        assert (
            wait is None or wait <= 66.0
        )  # the longest interval, and the grace period of the store
        return wait

    async def end_turn(self, origin: Origin, interval: float) -> None:
        """Tell the store that the turn has ended."""
        await self._ask("end", lambda: self.world.store.end_turn(str(origin), self.name, interval))

    async def _ask(self, call: str, function: Callable[[], Any]) -> Any:
        self.calls.append(call)
        if not self.works:
            return None
        if self.latency:
            await pause(self.latency)
        value = function()
        if self.latency:
            await pause(self.latency)
        return value

    # The requests of the crawl.

    def die(self) -> None:
        self.alive = False

    def go(self) -> None:
        """Send the next request at its turn."""
        if not self.alive or not self.left:
            return
        now = self.world.now
        turn = self.turns.wait(self.interval, now)
        if turn is None:
            return
        if turn:
            self.call_later(turn, self.go)
            return
        self.send()

    def send(self) -> None:
        request = object()
        self.left -= 1
        self.turns.start(request)
        self.world.later(self.way, lambda: self.world.arrivals.append((self.world.now, self.name)))
        self.call_later(2 * self.way, lambda: self._answered(request))

    def _answered(self, request: object) -> None:
        self.turns.answered(request, self.interval, self.world.now)
        self.go()


@types.coroutine
def pause(seconds: float) -> Generator[float, None, None]:
    """Suspend a coroutine of a worker."""
    yield seconds
