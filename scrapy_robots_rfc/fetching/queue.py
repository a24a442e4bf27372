"""Inquiries: all that is done to get one value a key, from the first who asks to the last attempt.

In here: how many attempts are under way at once, which one comes next, and when one is made again. A single attempt,
with its time limit, is a flight (`flights.py`); whether there is another one is for the attempt to say.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from scrapy_robots_rfc.fetching.flights import TICK, tell_all

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy_robots_rfc._runtime import Runtime

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Seconds after which an attempt gives way, for the first time; the next ones are longer by that factor.
PATIENCE = 5.0
_GROWTH = 4


#: Routes that are tried one right after the other, at most: the requests of a crawl may bring a thousand proxies.
MOST_ROUTES = 8


@dataclass(eq=False, slots=True)
class Route(Generic[_T]):
    """One way to ask, and those who wait for what it brings.

    :param name: hashable; opaque in here, as is `asker`: on whose behalf.
    :param attempts: how many were made by it.
    :param last: what the last one gave, where that is for this route alone.
    :param due: when the next one may be made, where the last one failed for this route alone.
    """

    name: Hashable
    asker: Any
    attempts: int = 0
    last: _T | None = None
    due: float = math.inf
    listeners: list[Callable[[_T | None], object]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class PendingFetch(Generic[_T]):
    """One key that is asked about.

    :param key: hashable; opaque in here.
    :param route: the one that the next attempt takes, or the one under way.
    :param routes: of all who wait, by name.
    :param attempts: how many are behind it.
    :param last: what the last one of them gave that is for all.
    :param looks: how often somebody else was found at it.
    :param gave_way: how often it gave way to others.
    :param patience: seconds after which the attempt under way is to give way to others.
    :param delay: the number of the delay that it is in; ``None``: it is in none.
    :param open: whether a new route ends that delay.
    """

    key: Any
    route: Route[_T]
    routes: dict[Hashable, Route[_T]] = field(default_factory=dict)
    attempts: int = 0
    last: _T | None = None
    looks: int = 0
    gave_way: int = 0
    patience: float = math.inf
    delay: int | None = None
    open: bool = False

    def __post_init__(self) -> None:
        self.routes[self.route.name] = self.route

    def untried(self) -> Route[_T] | None:
        """Return another route to try at once; ``None`` where there is none, or enough of them were tried."""
        untried = [route for route in self.routes.values() if not route.attempts and route is not self.route]
        return untried[0] if untried and len(self.routes) - len(untried) < MOST_ROUTES else None


@dataclass(frozen=True, slots=True)
class Attempted(Generic[_T]):
    """What came of an attempt.

    :param again: in how many seconds another one is made by this route; ``None``: the value is final for it.
    :param alone: whether the value is for those of its route alone: another route may bring one for all.
    """

    value: _T
    again: float | None = None
    alone: bool = False


@dataclass(frozen=True, slots=True)
class LockedByPeer:
    """No attempt was made: somebody else is at it.

    :param again: in how many seconds it is looked at again.
    """

    again: float


class Preempted:
    """The attempt took so long that others come first: it is made again when they have had their turn."""


#: What came of an attempt; ``None``: the crawl ended first.
Result: TypeAlias = Attempted[_T] | LockedByPeer | Preempted | None


class FetchQueue(Generic[_T]):
    """The inquiries under way.

    :param runtime: timers, the clock.
    :param limit: attempts under way at once, at most; the others stand in line, those never made before in front. From
        a quarter of it on, attempts are to give way, so that many that hang do not keep the line from moving.
    :param closing: whether the crawl is ending.
    :param attempt: makes one attempt, and tells what came of it; ``None`` when the crawl ended first.
    :param settled: called with an inquiry whose value is final for each of its routes alone, before they are told.
    """

    def __init__(
        self,
        runtime: Runtime,
        limit: int,
        *,
        closing: Callable[[], bool],
        attempt: Callable[[PendingFetch[_T], Callable[[Result[_T]], object]], None],
        settled: Callable[[PendingFetch[_T]], object] = lambda _: None,
    ) -> None:
        self._runtime = runtime
        self._closing = closing
        self._attempt = attempt
        self._settled = settled
        self._free = limit
        self._roomy = limit * 3 // 4
        self._inquiries: dict[Hashable, PendingFetch[_T]] = {}
        self._number = itertools.count()  # in heaps: first come, first served, and inquiries are never compared
        self._line: list[tuple[int, int, int, PendingFetch[_T]]] = []
        self._later: list[tuple[float, int, PendingFetch[_T]]] = []
        self._ticking = self._going = False

    def __contains__(self, key: Hashable) -> bool:
        return key in self._inquiries

    def ask(
        self, key: Hashable, asker: object, listener: Callable[[_T | None], object], route: Hashable = None
    ) -> None:
        """Tell a listener the value of a key; begin the inquiry if nobody did.

        :param listener: called once, perhaps before this returns; with ``None`` when the crawl ended first.
        :param route: by which way it would be asked about.
        """
        inquiry = self._inquiries.get(key)
        if inquiry is None:
            inquiry = self._inquiries[key] = PendingFetch(key, Route(route, asker, listeners=[listener]))
            self._queue(inquiry)
            return
        known = inquiry.routes.get(route)
        if known is not None:
            known.listeners.append(listener)
            return
        inquiry.routes[route] = Route(route, asker, listeners=[listener])
        if inquiry.delay is not None and inquiry.open and (untried := inquiry.untried()) is not None:
            inquiry.delay, inquiry.route = None, untried
            self._queue(inquiry)

    def _queue(self, inquiry: PendingFetch[_T]) -> None:
        heapq.heappush(self._line, (inquiry.attempts, inquiry.gave_way, next(self._number), inquiry))
        self._go_on()

    def _go_on(self) -> None:
        if self._going:  # an attempt that ended while it was started: the loop below goes on with the next one
            return
        self._going = True
        while self._free and self._line:
            self._free -= 1
            inquiry = heapq.heappop(self._line)[-1]
            inquiry.patience = math.inf if self._free >= self._roomy else PATIENCE * _GROWTH**inquiry.gave_way
            try:
                self._attempt(inquiry, partial(self._attempted, inquiry))
            except Exception:
                logger.exception("No attempt for %s", inquiry.key)
                self._attempted(inquiry, None)
        self._going = False
        self._arm()

    def _attempted(self, inquiry: PendingFetch[_T], attempted: Result[_T]) -> None:
        self._free += 1
        if isinstance(attempted, Preempted):
            inquiry.gave_way += 1
            self._queue(inquiry)
            return
        if isinstance(attempted, LockedByPeer):
            inquiry.looks += 1
        else:
            inquiry.attempts += 1
            inquiry.route.attempts += 1
            if attempted is None or not attempted.alone:
                inquiry.last = None if attempted is None else attempted.value
        if isinstance(attempted, Attempted) and attempted.alone:
            self._without_route(inquiry, attempted)
        elif attempted is None or attempted.again is None:
            self._settle(inquiry, inquiry.last)
        else:
            self._delay(inquiry, attempted.again, open=False)
        self._go_on()

    def _without_route(self, inquiry: PendingFetch[_T], attempted: Attempted[_T]) -> None:
        """Go on after an attempt whose route failed: by a new one at once, later by the one whose time comes first."""
        failed, now = inquiry.route, self._runtime.clock()
        failed.last = attempted.value
        failed.due = math.inf if attempted.again is None else now + attempted.again
        untried = inquiry.untried()
        if untried is not None:
            inquiry.route = untried
            self._queue(inquiry)
            return
        inquiry.route = min(inquiry.routes.values(), key=lambda route: route.due)
        if inquiry.route.due == math.inf:  # each of them has had its attempts
            self._settled(inquiry)
            self._settle(inquiry, attempted.value, alone=True)
            return
        self._delay(inquiry, max(0.0, inquiry.route.due - now), open=True)

    def _delay(self, inquiry: PendingFetch[_T], seconds: float, *, open: bool) -> None:  # noqa: A002 - as its attribute
        inquiry.delay, inquiry.open = next(self._number), open
        heapq.heappush(self._later, (self._runtime.clock() + seconds, inquiry.delay, inquiry))

    def _settle(self, inquiry: PendingFetch[_T], value: _T | None, *, alone: bool = False) -> None:
        if self._inquiries.get(inquiry.key) is not inquiry:
            return
        del self._inquiries[inquiry.key]
        for route in inquiry.routes.values():
            tell_all(route.listeners, route.last if alone and route.last is not None else value)

    def _arm(self) -> None:
        # One timer for all. Attempts under way have the timer of the flights.
        if not self._ticking and (self._line or self._later):
            self._ticking = True
            self._runtime.call_later(TICK, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if self._closing():
            self._end()
            return
        now = self._runtime.clock()
        while self._later and self._later[0][0] <= now:
            _, number, inquiry = heapq.heappop(self._later)
            if inquiry.delay == number:  # no new route has ended it
                inquiry.delay = None
                self._queue(inquiry)
        self._arm()

    def _end(self) -> None:
        waiting = [*(entry[-1] for entry in self._line), *(entry[-1] for entry in self._later)]
        self._line, self._later = [], []
        for inquiry in waiting:
            self._settle(inquiry, None)
