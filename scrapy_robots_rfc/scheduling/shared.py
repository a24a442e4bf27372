"""The turns that the workers of a fleet take at a site, through a store that they share."""

import math
from collections.abc import Awaitable, Callable

from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.paced_sites import OwnTurns

#: Seconds after which the turn of a worker that has died ends. The interval is added, so that it
#: passes even if the worker sent a request just before it died.
TURN_TIMEOUT = 15.0

#: Seconds after which a worker extends its turn if the request is unanswered, or else ends it.
EXTEND_EVERY = 5.0


class SharedThrottle(OwnTurns):
    """The turns of a worker at one site, so that the whole fleet keeps the interval.

    While the store fails, this crawl has every turn, and only its own requests are spaced.

    :param on_turn: called when `wait` should be called again, after it returned `None`.
    """

    def __init__(
        self,
        store: CacheClient,
        runtime: Runtime,
        origin: Origin,
        on_turn: Callable[[], object],
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._origin = origin
        self._on_turn = on_turn
        # Calls of the store that have not ended. They are made one after the other: otherwise the
        # end of a turn could arrive late, and end the next turn.
        self._calls: list[Callable[[], Awaitable[object]]] = []
        self._is_waiting = False  # for `on_turn`
        # The turn belongs to this worker, or to another one, until then.
        self._turn_ends = -math.inf
        # When the interval after the last request of this worker ends.
        self._interval_ends = -math.inf
        self._turn_timeout = TURN_TIMEOUT
        # While this worker has the turn, a timer extends it.
        self._timer: Cancellable | None = None
        # The request that uses the turn.
        self._request: object = None

    def wait(self, interval: float, now: float) -> float | None:
        """Return the seconds until a request may start, or `None` during a call of the store."""
        if not interval:
            return 0.0
        if self._turn_ends <= now and self._take not in self._calls:
            self._forget_turn()
            self._turn_timeout = TURN_TIMEOUT + interval
            self._call(self._take)
        if self._take in self._calls:
            self._is_waiting = True
            return None
        has_turn = self._timer is not None
        return 0.0 if has_turn else self._turn_ends - now

    def start(self, request: object) -> None:
        """Use the turn that `wait` granted for a request."""
        if self._timer is not None:
            self._request = request

    def unused(self, request: object) -> None:
        """Leave the turn of a request that was not sent to the next request."""
        if request is self._request:
            self._request = None

    def answered(self, request: object, interval: float, now: float) -> None:
        """End the turn of a request: its answer begins to arrive, or it ended without an answer."""
        if request is self._request:
            self._interval_ends = max(self._interval_ends, now + interval)
            self._end_turn()
        else:
            self.sent(now + interval)

    def sent(self, until: float) -> None:
        """Make all workers wait after a request without a turn, such as a robots.txt request."""
        if until <= max(self._interval_ends, self._runtime.clock()):
            return
        self._interval_ends = until
        if self._timer is None:
            self._call(self._end)  # otherwise the end of the turn tells the store

    def close(self) -> None:
        """Release the turn: this crawl sends nothing more."""
        if self._timer is not None or self._take in self._calls:
            self._end_turn()

    def _end_turn(self) -> None:
        """End the turn, here and in the store."""
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
        # It does not matter if another worker has the turn by now: the request has been sent.
        if self._request is None:
            self._end_turn()
        else:
            self._call(self._take)

    # Calls of the store.

    def _call(self, call: Callable[[], Awaitable[object]]) -> None:
        """Call the store after all earlier calls."""
        self._calls.append(call)
        if len(self._calls) == 1:
            self._runtime.spawn(self._run())

    async def _run(self) -> None:
        while self._calls:
            await self._calls[0]()
            self._calls.pop(0)

    async def _take(self) -> None:
        """Take or extend the turn; note when it ends, here or at the worker that has it."""
        # Read the clock before the store reads its own, so that the turn never lasts longer here
        # than there.
        now = self._runtime.clock()
        seconds = await self._store.take_turn(self._origin, self._turn_timeout)
        if seconds:
            self._turn_ends = self._runtime.clock() + seconds
            self._timer = None  # the turn that was being extended belongs to another worker
        else:
            self._turn_ends = now + self._turn_timeout
            self._timer = self._runtime.call_later(EXTEND_EVERY, self._extend_turn)
        if self._is_waiting:
            self._is_waiting = False
            self._runtime.call_later(0, self._on_turn)

    async def _end(self) -> None:
        """Release the turn in the store, which lets the interval pass first."""
        self._forget_turn()  # a turn that was requested earlier may have come
        seconds = max(0.0, self._interval_ends - self._runtime.clock())
        await self._store.end_turn(self._origin, seconds)
