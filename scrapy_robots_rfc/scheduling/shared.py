"""The turns that the workers of a fleet take at a site, through a store that they share."""

import math
from collections.abc import Awaitable, Callable

from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.throttle import OwnTurns

#: Seconds after which the turn of a worker that has died ends. The interval is added, so that it
#: passes even if the worker sent a request just before it died.
HOLD = 15.0

#: Seconds between two extensions of a turn whose request is unanswered; a turn that no request uses
#: ends then.
BEAT = 5.0


class SharedThrottle(OwnTurns):
    """The turns of a worker at one site, so that the whole fleet keeps the interval.

    While the store fails, this crawl has every turn, and only its own requests are spaced.

    :param go_on: called after `wait` returned `None`, when it should be called again.
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
        # Serialized calls of the store: a late `end` could otherwise release a later turn. `_take`
        # is one
        # of them while a turn is requested.
        self._steps: list[Callable[[], Awaitable[object]]] = []
        # Whether to call `go_on` when the store has answered.
        self._waiting = False
        # Until then, the turn is known to belong to this worker or to another one.
        self._until = -math.inf
        # When the interval after the last request of this worker ends.
        self._next = -math.inf
        self._hold = HOLD
        # The request that uses the turn, and the timer that extends it. With a timer, the turn
        # belongs to this worker.
        self._request: object = None
        self._beat: Cancellable | None = None

    def wait(self, interval: float, now: float) -> float | None:
        """Return the seconds until a request may start, or `None` while the store is asked."""
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
        """Use the turn that `wait` granted for a request."""
        if self._beat is not None:
            self._request = request

    def unused(self, request: object) -> None:
        """Leave the turn of a request that was not sent to the next request."""
        if request is self._request:
            self._request = None

    def answered(self, request: object, interval: float, now: float) -> None:
        """End the turn of a request: its answer begins to arrive, or it ended without an answer."""
        if request is self._request:
            self._next = max(self._next, now + interval)
            self._give_back()
        else:
            self.sent(now + interval)

    def sent(self, until: float) -> None:
        """Make all workers wait after a request without a turn, such as a robots.txt request."""
        if until <= max(self._next, self._runtime.clock()):
            return
        self._next = until
        if self._beat is None:
            self._then(self._end)  # otherwise the end of the turn tells the store

    def close(self) -> None:
        """Release the turn: this crawl sends nothing more."""
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
        # It does not matter if another worker has the turn by now: the request has been sent.
        if self._request is None:
            self._give_back()
        else:
            self._then(self._take)

    # Calls of the store.

    def _then(self, step: Callable[[], Awaitable[object]]) -> None:
        self._steps.append(step)
        if len(self._steps) == 1:
            self._runtime.spawn(self._run())

    async def _run(self) -> None:
        while self._steps:
            await self._steps[0]()
            self._steps.pop(0)

    async def _take(self) -> None:
        # Read the clock before the store reads its own, so that the turn never lasts longer here
        # than there.
        now = self._runtime.clock()
        seconds = await self._store.take_turn(self._origin, self._hold)
        if seconds:
            self._until = self._runtime.clock() + seconds
            self._beat = None  # the turn that was being extended belongs to another worker
        else:
            self._until = now + self._hold
            self._beat = self._runtime.call_later(BEAT, self._prolong)
        if self._waiting:
            self._waiting = False
            self._runtime.call_later(0, self._go_on)

    async def _end(self) -> None:
        self._let_go()  # a turn that was requested earlier may have come
        await self._store.end_turn(self._origin, max(0.0, self._next - self._runtime.clock()))
