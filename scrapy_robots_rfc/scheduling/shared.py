"""The turns that the workers of a fleet take at a site, by means of a store that they share."""

import math
from collections.abc import Awaitable, Callable

from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.throttle import OwnTurns

#: Seconds after which the turn of a worker ends if the worker has died. The interval is added, so
#: that it passes even if the worker sent a request right before it died.
HOLD = 15.0

#: Seconds after which a turn is prolonged while its request is unanswered, and ended if no request
#: has used it.
BEAT = 5.0


class SharedThrottle(OwnTurns):
    """The turns that a worker takes at one site, so that the whole fleet respects the interval.

    While the store fails, this crawl has every turn, and only its own requests are an interval
    apart.

    :param go_on: called when `wait` has returned ``None`` and is to be called again.
    """

    def __init__(
        self,
        store: CacheClient,
        runtime: Runtime,
        origin: Origin,
        go_on: Callable[[], object],
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._origin = origin
        self._go_on = go_on
        # Sent to the store one after the other: an end that is late could end a later turn. While
        # the store is asked for a turn, `_take` is one of them.
        self._steps: list[Callable[[], Awaitable[object]]] = []
        # Whether `go_on` is to be called when the store has answered.
        self._waiting = False
        # When the store is asked again: until then the turn is ours, or another worker's.
        self._until = -math.inf
        # When the interval ends after the last request of ours.
        self._next = -math.inf
        self._hold = HOLD
        # The request that uses the turn, and the timer that prolongs it: while there is one, the
        # turn is ours.
        self._request: object = None
        self._beat: Cancellable | None = None

    def wait(self, interval: float, now: float) -> float | None:
        """Return the seconds until a request may start; ``None`` while the store is asked."""
        if not interval:
            return 0.0
        if self._until <= now and self._take not in self._steps:
            self._let_go()
            self._hold = HOLD + interval
            self._then(self._take)
        if self._take in self._steps:
            self._waiting = True
            return None
        return self._until - now if self._beat is None else 0.0

    def start(self, request: object) -> None:
        """Use the turn that `wait` has given for a request."""
        if self._beat is not None:
            self._request = request

    def unused(self, request: object) -> None:
        """Give the turn of a request to the next one: it was not sent."""
        if request is self._request:
            self._request = None

    def answered(self, request: object, interval: float, now: float) -> None:
        """End the turn of a request: its answer begins to arrive, or it has ended without one."""
        if request is self._request:
            self._next = max(self._next, now + interval)
            self._give_back()
        else:
            self.sent(now + interval)

    def sent(self, until: float) -> None:
        """Let all workers wait after a request that had no turn, as one for a robots.txt."""
        if until <= max(self._next, self._runtime.clock()):
            return
        self._next = until
        if self._beat is None:
            self._then(self._end)  # otherwise the end of the turn says it

    def close(self) -> None:
        """Let others go on: nothing is sent any more."""
        if self._beat is not None or self._take in self._steps:
            self._give_back()

    def _give_back(self) -> None:
        self._let_go()
        self._then(self._end)

    def _let_go(self) -> None:
        self._request = None
        self._until = -math.inf
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def _prolong(self) -> None:
        # If another worker has the turn by now, it does not matter: the request is sent already.
        if self._request is None:
            self._give_back()
        else:
            self._then(self._take)

    # What the store is asked.

    def _then(self, step: Callable[[], Awaitable[object]]) -> None:
        self._steps.append(step)
        if len(self._steps) == 1:
            self._runtime.spawn(self._run())

    async def _run(self) -> None:
        while self._steps:
            await self._steps[0]()
            self._steps.pop(0)

    async def _take(self) -> None:
        # The clock is read before the store reads its own, so that the turn never lasts longer here
        # than there.
        now = self._runtime.clock()
        seconds = await self._store.take_turn(self._origin, self._hold)
        if seconds:
            self._until = self._runtime.clock() + seconds
            self._beat = None  # a turn that was to be prolonged is another worker's by now
        else:
            self._until = now + self._hold
            self._beat = self._runtime.call_later(BEAT, self._prolong)
        if self._waiting:
            self._waiting = False
            self._runtime.call_later(0, self._go_on)

    async def _end(self) -> None:
        self._let_go()  # of a turn that was asked for before this step, and has come
        await self._store.end_turn(self._origin, max(0.0, self._next - self._runtime.clock()))
