"""Turns that several workers take at a site, coordinated through a shared store."""

import math
from collections.abc import Awaitable, Callable

from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.paced_site import Turns

#: Seconds until the turn of a dead worker expires. The interval is added, so that it is kept even
#: if the worker sent a request just before it died.
TURN_TIMEOUT = 15.0

#: Seconds after which a worker extends its turn if a request is unanswered, or otherwise ends it.
EXTEND_EVERY = 5.0


class SharedTurns(Turns):
    """One worker's turns at a site. All workers together keep the interval.

    While the store is failing, this crawl takes every turn and only spaces its own requests.

    :param on_turn: called when `wait` returned `None` and should be called again.
    """

    def __init__(
        self,
        store: CacheClient,
        runtime: Runtime,
        origin: Origin,
        on_turn: Callable[[], object],
    ) -> None:
        super().__init__()
        self._store = store
        self._runtime = runtime
        self._origin = origin
        self._on_turn = on_turn
        # Store calls that have not finished. They are made one after another, because otherwise
        # the call that ends a turn could arrive late and end the next turn.
        self._calls: list[Callable[[], Awaitable[object]]] = []
        self._is_waiting = False  # waiting for `on_turn`
        # When the current turn ends. It is this worker's turn if `_has_turn` is true, and another
        # worker's turn otherwise.
        self._turn_ends = -math.inf
        # When the interval after this worker's last request ends.
        self._interval_ends = -math.inf
        self._turn_timeout = TURN_TIMEOUT
        # While this worker has the turn, a timer extends it.
        self._timer: Cancellable | None = None
        # The request that is using the turn.
        self._request: object = None

    @property
    def _has_turn(self) -> bool:
        """True if this worker has the turn, whether or not a request is using it yet."""
        return self._timer is not None

    def wait(self, interval: float, now: float) -> float | None:
        """Return the seconds until a request may start, or `None` if the crawl will be woken."""
        seconds = super().wait(interval, now)
        if not interval or seconds is None or seconds > 0:
            return seconds
        # Try to take a turn if the last known one, of any worker, has ended.
        if self._turn_ends <= now and self._take not in self._calls:
            self._forget_turn()
            # If this worker dies, its turn expires, but not before the interval has passed.
            self._turn_timeout = TURN_TIMEOUT + interval
            self._call(self._take)
        if self._take in self._calls:  # `_take` calls `on_turn` when it has finished
            self._is_waiting = True
            return None
        return 0.0 if self._has_turn else self._turn_ends - now

    def start(self, request: object) -> None:
        """Use the turn granted by `wait` for a request."""
        super().start(request)
        if self._has_turn and self._request is None:  # an exempt request may be sent meanwhile
            self._request = request

    def unused(self, request: object) -> None:
        """Pass the turn on to the next request, because this request was not sent."""
        super().unused(request)
        if request is self._request:
            self._request = None

    def answered(self, request: object, interval: float, now: float) -> None:
        """End a request's turn, because its response is arriving or it ended without one."""
        super().answered(request, interval, now)
        if request is self._request:
            self._interval_ends = max(self._interval_ends, now + interval)
            self._end_turn()
        else:  # it had no turn, for instance because the interval wasn't known when it was sent
            self.ended_without_turn(now, interval)

    def ended_without_turn(self, at: float, interval: float) -> None:
        """Make all workers leave an interval after a request that had no turn."""
        super().ended_without_turn(at, interval)
        until = at + interval
        if until <= max(self._interval_ends, self._runtime.clock()):  # they wait long enough
            return
        self._interval_ends = until
        if not self._has_turn:  # otherwise, the end of the turn stores `_interval_ends`
            self._call(self._end)  # without a turn, this only stores it

    def close(self) -> None:
        """Release the turn, because this crawl won't send any more requests."""
        if self._has_turn or self._take in self._calls:
            self._end_turn()

    def _end_turn(self) -> None:
        """End the turn, both here and in the store."""
        self._forget_turn()
        self._call(self._end)

    def _forget_turn(self) -> None:
        """Forget the turn, and stop extending it."""
        self._request = None
        self._turn_ends = -math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _extend_turn(self) -> None:
        """Extend the turn while its request is unanswered, or end it if no request uses it."""
        if self._request is None:
            self._end_turn()
        else:  # if another worker has the turn by now, `_take` finds out
            self._call(self._take)

    # Store calls.

    def _call(self, call: Callable[[], Awaitable[object]]) -> None:
        """Call the store once all earlier calls have finished."""
        self._calls.append(call)
        if len(self._calls) == 1:
            self._runtime.spawn(self._run())

    async def _run(self) -> None:
        """Make the calls one after another. Each one is in the list until it has finished."""
        while self._calls:
            await self._calls[0]()
            self._calls.pop(0)

    async def _take(self) -> None:
        """Take or extend the turn, and record when it ends, even if another worker has it."""
        # Read our clock before the store reads its own, so that the turn never lasts longer here
        # than in the store.
        asked_at = self._runtime.clock()
        seconds_to_wait = await self._store.take_turn(self._origin, self._turn_timeout)
        if seconds_to_wait:  # another worker has the turn, even if we tried to extend ours
            self._turn_ends = self._runtime.clock() + seconds_to_wait
            self._timer = None  # so `_has_turn` is false. The timer fired before this call
        else:  # this worker has the turn, or the store is failing
            self._turn_ends = asked_at + self._turn_timeout
            self._timer = self._runtime.call_later(EXTEND_EVERY, self._extend_turn)
        if self._is_waiting:
            self._is_waiting = False
            # Later, because `wait` returns `None` as long as this call is in `_calls`.
            self._runtime.call_later(0, self._on_turn)

    async def _end(self) -> None:
        """Release the turn in the store. The next turn starts after the interval."""
        self._forget_turn()  # an earlier call may have taken a turn
        seconds = max(0.0, self._interval_ends - self._runtime.clock())
        await self._store.end_turn(self._origin, seconds)
