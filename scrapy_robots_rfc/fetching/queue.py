"""The fetch queue: however many ask for an origin, it has one pending fetch, until the last attempt is over.

The queue decides how many attempts are under way at once, which one comes next, how long each may take, and when one is
made again. An attempt always ends: by its work, by its time limit, or with the crawl. `service.py` does the work, and
says whether there is to be another attempt.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
from collections.abc import Callable, Collection, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from scrapy import Request

from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc.fetching.fetch import Attempt
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Seconds between two checks of time limits, of delays, and of whether Scrapy closes: it sends no signal for that.
TICK = 0.25
#: Seconds that a tick counts at most against time limits. One that comes later was late because this process stood
#: still: a suspended machine, a long collection of garbage. The answer may be there, and is not read yet.
LATE_TICK = 1.0

#: Seconds after which an attempt gives way to others for the first time; each time after it is longer by `_GROWTH`.
PATIENCE = 5.0
_GROWTH = 4

#: Routes that are tried without a pause between them, at most: the requests of a crawl may have a thousand proxies.
MOST_ROUTES = 8


@dataclass(eq=False, slots=True)
class RouteWait(Generic[_T]):
    """The wait for the value of a key, shared by all who would ask for it by the same route.

    :param name: of the route; it may hold credentials.
    :param asker: the request for which attempts by this route are made.
    :param attempts: how many attempts by this route were made.
    :param last: what the last of them gave, if that is for this route alone.
    :param due: when the next one may be made, if the last one failed for this route alone.
    :param settled: whether the value is known.
    :param value: ``None`` when the crawl ended first.
    """

    key: Any
    name: Hashable = field(default=None, repr=False)
    asker: Request | None = field(default=None, repr=False)
    attempts: int = 0
    last: _T | None = None
    due: float = math.inf
    settled: bool = False
    value: _T | None = None
    _listeners: list[Callable[[_T | None], object]] = field(default_factory=list, repr=False)

    def listen(self, listener: Callable[[_T | None], object]) -> None:
        """Call a listener with the value, now or as soon as it is known. Its exceptions are logged."""
        self._listeners.append(listener)
        if self.settled:
            self.tell()

    async def result(self) -> _T | None:
        """Wait for the value."""
        waiter: Waiter[_T | None] = Waiter()
        self.listen(waiter.resolve)
        return await waiter

    def settle(self, value: _T | None) -> None:
        """Set the value, without telling anybody: first, all routes of a key are to have theirs."""
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
class PendingFetch:
    """The fetch for one origin, from the first question until it is known what governs it.

    :param route: of the attempt that is under way, or comes next.
    :param routes: of all who wait, by name.
    :param attempts: how many were made.
    :param last: what the last attempt gave whose value is for all routes.
    :param looks: how often another crawl was found to fetch the file.
    :param gave_way: how often an attempt gave way to others.
    :param alone: whether it ends with a value for each route, and none for all.
    :param open: whether a new route ends the pause that it is in; ``None``: it is in none.
    :param due: when its attempt began, or when that pause ends; ``None``: it stands in line.
    """

    origin: Origin
    route: RouteWait[OriginPolicy]
    routes: dict[Hashable, RouteWait[OriginPolicy]] = field(default_factory=dict)
    attempts: int = 0
    last: OriginPolicy | None = None
    looks: int = 0
    gave_way: int = 0
    alone: bool = False
    open: bool | None = None
    due: float | None = None

    def untried(self) -> RouteWait[OriginPolicy] | None:
        """Return another route to try at once; ``None`` if there is none, or enough of them were tried."""
        untried = [route for route in self.routes.values() if not route.attempts and route is not self.route]
        return untried[0] if untried and len(self.routes) - len(untried) < MOST_ROUTES else None


class Attempted(NamedTuple):
    """What came of an attempt.

    :param again: in how many seconds another one is made by this route; ``None``: the value is final for it.
    :param alone: whether the value is for those of its route alone: another route may bring one for all.
    """

    value: OriginPolicy
    again: float | None = None
    alone: bool = False


#: What comes of an attempt. A number: none was made, because another crawl fetches the file; this crawl looks again in
#: so many seconds. ``None``: the crawl ended first.
Result: TypeAlias = Attempted | float | None


class FetchQueue:
    """The pending fetches of a crawl.

    :param runtime: tasks, timers, the clock.
    :param settings: of the crawl. At most `CONCURRENT` attempts are under way at once; the others stand
        in line, first attempts in front. While more than a quarter of that number is under way, those that take long
        give way, so that servers that hang do not keep others from being asked. An attempt may take ROBOTS_TIMEOUT,
        without the time that its request stands in a queue of the downloader.
    :param closing: whether the crawl is ending.
    :param work: makes an attempt; may raise when the attempt is over already.
    :param late: makes the result of an attempt whose work takes too long, or ends without one.
    :param queued: returns the attempts whose request stands in a queue of the downloader.
    :param settled: called with a pending fetch that is over, before those who wait are told.
    """

    #: Attempts that are under way at once at most. A crawl of many new hosts is served by a hundred,
    #: and so many take few connections and file descriptors.
    CONCURRENT: ClassVar[int] = 100

    def __init__(  # noqa: PLR0913 - the crawl, and what the service does at each step
        self,
        runtime: Runtime,
        settings: Settings,
        *,
        closing: Callable[[], bool],
        work: Callable[[Attempt], Coroutine[Any, Any, Result]],
        late: Callable[[Attempt], Result],
        queued: Callable[[], Collection[object]],
        settled: Callable[[PendingFetch], object],
    ) -> None:
        self._runtime, self._timeout, self._free = runtime, settings.timeout, self.CONCURRENT
        self._roomy = self._free * 3 // 4
        self._closing, self._work, self._late = closing, work, late
        self._queued, self._settled = queued, settled
        self._pending: dict[Origin, PendingFetch] = {}
        self._under_way: dict[Attempt, None] = {}
        self._number = itertools.count()  # in heaps: first come, first served, and pending fetches are never compared
        self._line: list[tuple[int, int, int, PendingFetch]] = []
        self._later: list[tuple[float, int, PendingFetch]] = []
        self._ticking = self._starting = False

    def __contains__(self, origin: Origin) -> bool:
        return origin in self._pending

    def ask(self, origin: Origin, asker: Request | None = None, route: Hashable = None) -> RouteWait[OriginPolicy]:
        """Return the wait for what governs an origin; begin to find it out unless that is under way.

        Without asyncio it may be settled already, since work that need not wait ends while it is started.

        :param asker: the request that needs the value.
        :param route: the name of its route.
        """
        pending = self._pending.get(origin)
        if pending is not None and route in pending.routes:
            return pending.routes[route]
        wait: RouteWait[OriginPolicy] = RouteWait(origin, route, asker)
        if pending is None:
            pending = self._pending[origin] = PendingFetch(origin, wait, {route: wait})
            self._stand_in_line(pending)
            return wait
        pending.routes[route] = wait
        if pending.open and (untried := pending.untried()) is not None:
            pending.route = untried
            self._stand_in_line(pending)
        return wait

    # Attempts begin.

    def _stand_in_line(self, pending: PendingFetch) -> None:
        pending.due = pending.open = None
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

    def _start(self, pending: PendingFetch) -> None:
        self._free -= 1
        patience = math.inf if self._free >= self._roomy else PATIENCE * _GROWTH**pending.gave_way
        limit = min(patience, self._timeout)
        pending.due = self._runtime.clock()
        attempt = Attempt(pending, limit, pending.due)
        self._under_way[attempt] = None
        attempt.task = self._runtime.spawn(self._run(attempt))

    async def _run(self, attempt: Attempt) -> None:
        try:
            self._end(attempt, await self._work(attempt))
        except Exception:
            if not attempt.over:
                logger.exception("The work for %s failed", attempt.origin)
        finally:
            if not attempt.over:  # failed, or cancelled from outside
                self._end(attempt, self._expired(attempt))

    def _expired(self, attempt: Attempt) -> Result:
        try:
            return attempt.result if attempt.result is not None else self._late(attempt)
        except Exception:
            logger.exception("The attempt for %s ends without a result", attempt.origin)
            return None

    # Attempts end.

    def _end(self, attempt: Attempt, result: Result) -> None:
        """Go on after an attempt, unless it has ended before."""
        if attempt.over:
            return
        self._leave(attempt)
        pending = attempt.pending
        if isinstance(result, float):
            pending.looks += 1
            self._delay(pending, result, open=False)
            self._start_next()
            return
        pending.attempts += 1
        pending.route.attempts += 1
        if result is None:
            self._settle(pending, None)
        elif result.alone:
            self._without_route(pending, result)
        elif result.again is None:
            self._settle(pending, result.value)
        else:
            pending.last = result.value
            self._delay(pending, result.again, open=False)
        self._start_next()

    def _leave(self, attempt: Attempt) -> None:
        attempt.over = True
        self._under_way.pop(attempt, None)
        self._free += 1

    def _without_route(self, pending: PendingFetch, attempted: Attempted) -> None:
        """Go on after a route failed: at once by one not tried yet, otherwise by the one whose pause ends first."""
        failed, now = pending.route, self._runtime.clock()
        failed.last = attempted.value
        failed.due = math.inf if attempted.again is None else now + attempted.again
        untried = pending.untried()
        if untried is not None:
            pending.route = untried
            self._stand_in_line(pending)
            return
        pending.route = min(pending.routes.values(), key=lambda route: route.due)
        if pending.route.due == math.inf:  # each route has had all its attempts
            pending.alone = True
            self._settle(pending, attempted.value)
            return
        self._delay(pending, max(0.0, pending.route.due - now), open=True)

    def _delay(self, pending: PendingFetch, seconds: float, *, open: bool) -> None:  # noqa: A002 - as its attribute
        pending.open, pending.due = open, self._runtime.clock() + seconds
        heapq.heappush(self._later, (pending.due, next(self._number), pending))

    def _settle(self, pending: PendingFetch, value: OriginPolicy | None) -> None:
        self._settled(pending)
        del self._pending[pending.origin]
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
            if attempt.over:  # without asyncio, whoever is told goes on at once, and may end other attempts
                continue
            elapsed, attempt.looked_at = min(now - attempt.looked_at, LATE_TICK), now
            if attempt.aside or attempt in queued:
                continue
            attempt.spent += elapsed
            if attempt.spent < attempt.limit:
                continue
            if attempt.result is None and attempt.limit < self._timeout:
                self._leave(attempt)
                attempt.pending.gave_way += 1
                self._stand_in_line(attempt.pending)  # behind the others, and anew
            else:
                self._end(attempt, self._expired(attempt))
            if attempt.task is not None:
                attempt.task.cancel()

    def _end_delays(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            due, _, pending = heapq.heappop(self._later)
            if pending.open is not None and pending.due == due:  # no new route has ended it
                self._stand_in_line(pending)

    def _close(self) -> None:
        """Give those who wait ``None``: the crawl ends before their value is known."""
        attempts, self._line, self._later = list(self._under_way), [], []
        for attempt in attempts:
            self._leave(attempt)
        for pending in list(self._pending.values()):
            self._settle(pending, None)
        for attempt in attempts:
            if attempt.task is not None:
                attempt.task.cancel()
