"""The fetch queue: one pending fetch an origin, whoever asks for it, from the first question to the last attempt.

It decides how many attempts are under way at once, which one comes next, how long each may take, and when one is made
again. An attempt always ends: by its work, by its time limit, or with the crawl. What the work is, and whether there is
to be another attempt, is `service.py`.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from scrapy_robots_rfc._runtime import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Hashable

    from scrapy_robots_rfc._runtime import Cancellable, Runtime
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Seconds between two looks at the queue. Scrapy sends no signal when it starts to close: that has to be polled.
TICK = 0.25

#: Seconds after which an attempt gives way to others, for the first time; each further time is longer by that factor.
PATIENCE = 5.0
_GROWTH = 4

#: Routes that are tried one right after the other, at most: the requests of a crawl may bring a thousand proxies.
MOST_ROUTES = 8


@dataclass(eq=False, slots=True)
class RouteWait(Generic[_T]):
    """Those who wait for the value of a key, and would ask for it by the same route.

    :param name: of the route; hashable. It may hold credentials.
    :param asker: the request on whose behalf an attempt by this route is made.
    :param attempts: how many were made by it.
    :param last: what the last one gave, where that is for this route alone.
    :param due: when the next one may be made, where the last one failed for this route alone.
    :param settled: whether the value is known.
    :param value: ``None`` when the crawl ended first.
    """

    key: Any
    name: Hashable = field(default=None, repr=False)
    asker: Any = field(default=None, repr=False)
    attempts: int = 0
    last: _T | None = None
    due: float = math.inf
    settled: bool = False
    value: _T | None = None
    _listeners: list[Callable[[_T | None], object]] = field(default_factory=list, repr=False)

    def listen(self, listener: Callable[[_T | None], object]) -> None:
        """Tell a listener the value: now, or as soon as it is known. One that fails keeps nobody from being told."""
        self._listeners.append(listener)
        if self.settled:
            self.tell()

    async def result(self) -> _T | None:
        """Wait for the value."""
        if not self.settled:
            waiter: Waiter[_T | None] = Waiter()
            self._listeners.append(waiter.resolve)
            return await waiter
        return self.value

    def settle(self, value: _T | None) -> None:
        """Set the value; `tell` is for later, so that all routes have theirs before anybody goes on."""
        self.settled, self.value = True, value

    def tell(self) -> None:
        """Call the listeners, each once."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            try:
                listener(self.value)
            except Exception:
                logger.exception("A listener failed")


@dataclass(eq=False, slots=True)
class PendingFetch(Generic[_T]):
    """One key whose value is asked for.

    :param key: hashable; the queue makes nothing of it.
    :param route: the one that the next attempt takes, or the one under way.
    :param routes: of all who wait, by name.
    :param attempts: how many are behind it.
    :param last: what the last one of them gave that is for all routes.
    :param looks: how often another crawl was found fetching it.
    :param gave_way: how often it gave way to others.
    :param alone: whether each route has a value of its own in the end.
    :param delay: the number of the delay that it is in; ``None``: it is in none.
    :param open: whether a new route ends that delay.
    """

    key: Any
    route: RouteWait[_T]
    routes: dict[Hashable, RouteWait[_T]] = field(default_factory=dict)
    attempts: int = 0
    last: _T | None = None
    looks: int = 0
    gave_way: int = 0
    alone: bool = False
    delay: int | None = None
    open: bool = False

    def __post_init__(self) -> None:
        self.routes[self.route.name] = self.route

    def untried(self) -> RouteWait[_T] | None:
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
    """No attempt was made, because another crawl fetches the file.

    :param again: in how many seconds this crawl looks again.
    """

    again: float


#: What comes of an attempt; ``None``: the crawl ended first.
Result: TypeAlias = Attempted[_T] | LockedByPeer | None

#: Makes an attempt. It ends in a value whatever the world does, unless the attempt is over before.
Work: TypeAlias = "Callable[[], Coroutine[Any, Any, Result[_T]]]"


@dataclass(eq=False, slots=True)
class Attempt(Generic[_T]):
    """One attempt, under way.

    :param limit: seconds that it may take.
    :param result: what counts should the work not end in time; the work may set it before it is done.
    :param over: whether its result is known; what the work does from then on is for nobody.
    :param aside: whether it waits for the store or for another crawl: that time does not count.
    :param spent: seconds that count against the limit, up to `looked_at`.
    :param expire: makes the result where the work takes too long, or ends without one.
    """

    pending: PendingFetch[_T]
    limit: float
    looked_at: float
    result: Result[_T] = None
    over: bool = False
    aside: bool = False
    spent: float = 0.0
    expire: Callable[[], Result[_T]] = lambda: None
    task: Cancellable | None = None


class FetchQueue(Generic[_T]):
    """The pending fetches of a crawl.

    :param runtime: tasks, timers, the clock.
    :param settings: of the crawl. ROBOTSTXT_CONCURRENT_FETCHES attempts are under way at once, at most; the others
        stand in line, those never made before in front. From a quarter of it on, attempts are to give way, so that many
        that hang do not keep the line from moving. ROBOTSTXT_TIMEOUT is for an attempt, less the time that it only
        stands in a queue.
    :param closing: whether the crawl is ending.
    :param begin: gives the work of an attempt, and what makes its result where the work takes too long.
    :param queued: the attempts that only stand in a queue of the downloader just now.
    :param settled: called with a pending fetch that is over, before those who wait are told.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        *,
        closing: Callable[[], bool],
        begin: Callable[[Attempt[_T]], tuple[Work[_T], Callable[[], Result[_T]]]],
        queued: Callable[[], Collection[object]] = tuple,
        settled: Callable[[PendingFetch[_T]], object] = lambda _: None,
    ) -> None:
        self._runtime, self._timeout, self._free = runtime, settings.timeout, settings.concurrent_fetches
        self._roomy = self._free * 3 // 4
        self._closing, self._begin, self._queued, self._settled = closing, begin, queued, settled
        self._pending: dict[Hashable, PendingFetch[_T]] = {}
        self._under_way: dict[Attempt[_T], None] = {}
        self._number = itertools.count()  # in heaps: first come, first served, and pending fetches are never compared
        self._line: list[tuple[int, int, int, PendingFetch[_T]]] = []
        self._later: list[tuple[float, int, PendingFetch[_T]]] = []
        self._ticking = self._starting = False

    def __contains__(self, key: Hashable) -> bool:
        return key in self._pending

    def ask(self, key: Hashable, asker: object = None, route: Hashable = None) -> RouteWait[_T]:
        """Return what tells the value of a key; begin to find out if nobody did.

        Without asyncio it may be settled already, as work that need not wait ends while it is started.

        :param asker: on whose behalf.
        :param route: by which the asker would ask.
        """
        pending = self._pending.get(key)
        if pending is None:
            wait: RouteWait[_T] = RouteWait(key, route, asker)
            pending = self._pending[key] = PendingFetch(key, wait)
            self._stand_in_line(pending)
            return wait
        if route in pending.routes:
            return pending.routes[route]
        wait = pending.routes[route] = RouteWait(key, route, asker)
        if pending.delay is not None and pending.open and (untried := pending.untried()) is not None:
            pending.delay, pending.route = None, untried
            self._stand_in_line(pending)
        return wait

    # Attempts begin.

    def _stand_in_line(self, pending: PendingFetch[_T]) -> None:
        heapq.heappush(self._line, (pending.attempts, pending.gave_way, next(self._number), pending))
        self._start_next()

    def _start_next(self) -> None:
        if self._starting:  # an attempt that ended while it was started: the loop below goes on with the next one
            return
        self._starting = True
        while self._free and self._line:
            self._start(heapq.heappop(self._line)[-1])
        self._starting = False
        self._arm()

    def _start(self, pending: PendingFetch[_T]) -> None:
        self._free -= 1
        patience = math.inf if self._free >= self._roomy else PATIENCE * _GROWTH**pending.gave_way
        attempt = Attempt(pending, min(patience, self._timeout), self._runtime.clock())
        self._under_way[attempt] = None
        try:
            work, attempt.expire = self._begin(attempt)
            attempt.task = self._runtime.spawn(self._run(attempt, work))
        except Exception:
            logger.exception("No attempt for %s", pending.key)
            self._end(attempt, None)

    async def _run(self, attempt: Attempt[_T], work: Work[_T]) -> None:
        try:
            self._end(attempt, await work())
        except Exception:
            if not attempt.over:
                logger.exception("The work for %s failed", attempt.pending.key)
        finally:
            if not attempt.over:  # failed, or cancelled from outside
                self._end(attempt, self._expired(attempt))

    def _expired(self, attempt: Attempt[_T]) -> Result[_T]:
        try:
            return attempt.result if attempt.result is not None else attempt.expire()
        except Exception:
            logger.exception("The attempt for %s ends without a result", attempt.pending.key)
            return None

    # Attempts end.

    def _end(self, attempt: Attempt[_T], result: Result[_T]) -> None:
        """Go on after an attempt; only its first end counts."""
        if attempt.over:
            return
        self._leave(attempt)
        pending = attempt.pending
        if isinstance(result, LockedByPeer):
            pending.looks += 1
            self._delay(pending, result.again, open=False)
            self._start_next()
            return
        pending.attempts += 1
        pending.route.attempts += 1
        if result is not None and result.alone:
            self._without_route(pending, result)
        else:
            pending.last = None if result is None else result.value
            if result is None or result.again is None:
                self._settle(pending, pending.last)
            else:
                self._delay(pending, result.again, open=False)
        self._start_next()

    def _leave(self, attempt: Attempt[_T]) -> None:
        attempt.over = True
        self._under_way.pop(attempt, None)
        self._free += 1

    def _give_way(self, attempt: Attempt[_T]) -> None:
        """Let others have their turn: the attempt is made anew after them."""
        self._leave(attempt)
        attempt.pending.gave_way += 1
        self._stand_in_line(attempt.pending)

    def _without_route(self, pending: PendingFetch[_T], attempted: Attempted[_T]) -> None:
        """Go on after an attempt whose route failed: by a new one at once, later by the one whose time comes first."""
        failed, now = pending.route, self._runtime.clock()
        failed.last = attempted.value
        failed.due = math.inf if attempted.again is None else now + attempted.again
        untried = pending.untried()
        if untried is not None:
            pending.route = untried
            self._stand_in_line(pending)
            return
        pending.route = min(pending.routes.values(), key=lambda route: route.due)
        if pending.route.due == math.inf:  # each of them has had its attempts
            pending.alone = True
            self._settle(pending, attempted.value)
            return
        self._delay(pending, max(0.0, pending.route.due - now), open=True)

    def _delay(self, pending: PendingFetch[_T], seconds: float, *, open: bool) -> None:  # noqa: A002 - as its attribute
        pending.delay, pending.open = next(self._number), open
        heapq.heappush(self._later, (self._runtime.clock() + seconds, pending.delay, pending))

    def _settle(self, pending: PendingFetch[_T], value: _T | None) -> None:
        if self._pending.get(pending.key) is not pending:
            return
        self._settled(pending)
        del self._pending[pending.key]
        for wait in pending.routes.values():
            wait.settle(wait.last if pending.alone and wait.last is not None else value)
        for wait in pending.routes.values():
            wait.tell()

    # The timer: one for all, while anything is pending.

    def _arm(self) -> None:
        if not self._ticking and self._pending:
            self._ticking = True
            self._runtime.call_later(min(TICK, self._timeout / 4), self._tick)

    def _tick(self) -> None:
        self._ticking = False
        try:
            if self._closing():
                self._close()
            else:
                now = self._runtime.clock()
                self._end_late(now)
                self._end_delays(now)
        finally:
            self._arm()

    def _end_late(self, now: float) -> None:
        queued = self._queued() if self._under_way else ()
        for attempt in list(self._under_way):
            if attempt.over:  # without asyncio, who waits goes on as soon as it is told, and may end others
                continue
            elapsed, attempt.looked_at = now - attempt.looked_at, now
            if attempt.aside or attempt in queued:
                continue
            attempt.spent += elapsed
            if attempt.spent < attempt.limit:
                continue
            if attempt.result is None and attempt.limit < self._timeout:
                self._give_way(attempt)
            else:
                self._end(attempt, self._expired(attempt))
            if attempt.task is not None:
                attempt.task.cancel()

    def _end_delays(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            _, number, pending = heapq.heappop(self._later)
            if pending.delay == number:  # no new route has ended it
                pending.delay = None
                self._stand_in_line(pending)

    def _close(self) -> None:
        """Tell all who wait that the crawl ends first."""
        attempts, self._line, self._later = list(self._under_way), [], []
        for attempt in attempts:
            self._leave(attempt)
        for pending in list(self._pending.values()):
            self._settle(pending, None)
        for attempt in attempts:
            if attempt.task is not None:
                attempt.task.cancel()
