"""Turns that the workers of a fleet take at a site, so that the interval that it asks for holds over all of them.

In here: when the store is asked for a turn, told that it goes on, and told of its end. When this crawl's own requests
may go is `pacing.py`; which of several workers has a turn, the store decides.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy_robots_rfc._compat import Cancellable, Runtime
    from scrapy_robots_rfc.policy.origin import Origin

#: Seconds after which the turn of a worker that is not heard of any more ends. The interval comes on top, so that even
#: a request that it sent with its last breath is followed by it.
HOLD = 15.0

#: Seconds after which a turn is taken again while its request is unanswered, and ended where no request has used it.
BEAT = 5.0

# Seconds between two questions at least.
_SHORTEST = 0.001

# Seconds that a store may have its workers wait although no interval is as long: until it is asked again whether a turn
# that somebody has is over, and what is lost by rounding.
_ASKED_AGAIN, _ROUNDING = 5.0, 1.0


class Taking(Protocol):
    """What takes turns: a `Keeper`. Nothing of it raises, or takes long."""

    async def take_turn(self, origin: Origin, hold: float, longest: float) -> float | None:
        """As `SharedStore.take_turn`; ``None`` where the store fails.

        :param longest: seconds. A store that says more is wrong, and counts as one that fails.
        """

    async def end_turn(self, origin: Origin, interval: float) -> None:
        """As `SharedStore.end_turn`."""


class SharedTurns:
    """The turns at one site. Where the store fails, every turn is this crawl's, and only its own interval is kept.

    :param longest: seconds: no worker keeps a longer interval.
    :param told: called when a `wait` that returned ``None`` is worth repeating.
    """

    __slots__ = (
        "_asking", "_beat", "_hold", "_longest", "_mine_until", "_next", "_not_before", "_origin", "_request",
        "_running", "_runtime", "_steps", "_store", "_told", "_waiting",
    )  # fmt: skip

    def __init__(
        self, origin: Origin, store: Taking, runtime: Runtime, longest: float, told: Callable[[], object]
    ) -> None:
        self._origin, self._store, self._runtime, self._told = origin, store, runtime, told
        self._longest = max(longest, _ASKED_AGAIN) + _ROUNDING
        # The store is asked one thing after the other: an end that is late would end the turn that comes after its own.
        self._steps: list[Callable[[], Awaitable[object]]] = []
        self._running = self._asking = self._waiting = False
        self._mine_until = self._not_before = self._next = -math.inf
        self._hold = HOLD
        self._request: object = None
        self._beat: Cancellable | None = None

    def wait(self, interval: float, now: float) -> float | None:
        """Seconds until a request may start; ``None`` while nobody can tell: `told` is called when that changes.

        :param interval: seconds that it keeps; 0 for none, then nobody is asked.
        """
        if not interval:
            return 0.0
        if not self._asking and max(self._mine_until, self._not_before) <= now:
            self._let_go()
            self._hold = HOLD + interval
            self._asking = True
            self._then(self._take)
        if self._asking:
            self._waiting = True
            return None
        return 0.0 if now < self._mine_until else max(_SHORTEST, self._not_before - now)

    def start(self, request: object) -> None:
        """A request starts now, in a turn that `wait` has given."""
        if self._beat is not None:
            self._request = request

    def answered(self, request: object, interval: float, now: float) -> None:
        """Its answer begins to arrive, or it has ended without one.

        :param interval: seconds that the next request keeps.
        """
        if request is self._request:
            self._let_go()
            self._then(partial(self._store.end_turn, self._origin, interval))
        else:
            self.sent(now + interval)

    def sent(self, until: float) -> None:
        """Take note of a request that was sent without a turn, as the first one for robots.txt is.

        :param until: when its interval ends: nobody's next request goes before.
        """
        if until <= max(self._next, self._runtime.clock()):
            return
        self._next = until
        if self._beat is None and not self._asking:  # else it is said at the end of the turn
            self._then(self._end)

    def close(self) -> None:
        """Let others go on: nothing is sent any more."""
        if self._beat is not None:
            self._end_unused()

    # What the store is asked.

    def _then(self, step: Callable[[], Awaitable[object]]) -> None:
        self._steps.append(step)
        if not self._running:
            self._running = True
            self._runtime.spawn(self._run())

    async def _run(self) -> None:
        while self._steps:
            await self._steps.pop(0)()
        self._running = False

    async def _take(self) -> None:
        # By a clock that is read before the store reads its own: the turn does not end there before it ends here.
        now = self._runtime.clock()
        seconds = await self._store.take_turn(self._origin, self._hold, self._longest)
        self._asking = False
        if seconds:
            self._not_before = self._runtime.clock() + seconds
        else:
            self._mine_until = now + self._hold
            self._beat = self._runtime.call_later(BEAT, self._go_on)
        if self._waiting:
            self._waiting = False
            self._runtime.call_later(0, self._told)

    async def _end(self) -> None:
        await self._store.end_turn(self._origin, max(0.0, self._next - self._runtime.clock()))

    def _go_on(self) -> None:
        if self._request is None:
            self._end_unused()
        else:
            self._beat = self._runtime.call_later(BEAT, self._go_on)
            # Should another one have it meanwhile, that changes nothing: the request is sent.
            self._then(partial(self._store.take_turn, self._origin, self._hold, self._longest))

    def _end_unused(self) -> None:
        self._let_go()
        self._then(self._end)

    def _let_go(self) -> None:
        self._request = None
        self._mine_until = -math.inf
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
