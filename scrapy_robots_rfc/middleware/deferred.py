"""Requests that are set aside while their robots.txt is fetched, so that they hold nothing of the crawl.

Who is set aside, where, and who goes when. See `fetching/queue.py` for the fetch that they wait for, and
`SchedulerBridge` of `_scrapy.py` for how Scrapy takes a request back.

How a request is set aside: `process_request` returns the request itself, so that the engine schedules it anew; on that
way `request_scheduled` takes it out, and the engine has forgotten it. One that other code downloads past the scheduler
(`engine.download_async`) comes to `process_request` again instead: that is how it is known, and it waits in place.

A request that goes back to the scheduler may stand in its queue until what it waited for is stale. It is judged by that
all the same, once and for a minute at most, so that it need not wait again and again: a decision is reserved for it.
`WAITED` in its meta says which one: a queue on disk keeps meta, and not the object. `process_request` takes it out
before anything is made of the request, so that no response, redirect or retry has it.
"""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.fetching.queue import RouteWait

_T = TypeVar("_T")

#: A request; nothing is made of it here.
Request: TypeAlias = Any

#: Requests that are given back in one go, so that many do not stop everything else.
PORTION = 200

#: Key of a request's meta, from when it goes back to the scheduler until it comes here again: what it waited for.
WAITED = "robotstxt_waited"

#: Seconds for which what is stale still holds for those who waited for it: they stand in the scheduler's queue then.
RESERVED = 60.0

# So many reserved decisions before the first look for those that nobody came for in time.
_FIRST_SWEEP = 1000


class Scheduler(Protocol):
    """What this needs of the scheduler and the engine."""

    def put_back(self, requests: list[Request], mark: Mapping[str, str]) -> None:
        """Give requests to the scheduler, in this order, past its filter of duplicates.

        :param mark: goes into the meta of those that it takes.
        """

    def backwards(self, request: Request) -> bool:
        """Whether the scheduler hands out last what it was given first."""

    def keep_open(self) -> None:
        """Keep the engine from closing its scheduler."""

    def let_close(self) -> None:
        """Undo `keep_open`."""


@dataclass(eq=False, slots=True)
class Group(Generic[_T]):
    """The requests that wait for one fetch by one route.

    :param since: when the first one came.
    :param requests: those that are set aside.
    :param in_place: how many wait in place.
    :param reserved: what is reserved for those that go back to the scheduler; ``None``: nothing.
    """

    wait: RouteWait[_T]
    since: float
    requests: list[Request] = field(default_factory=list)
    in_place: int = 0
    reserved: ReservedDecision[_T] | None = None

    def __len__(self) -> int:
        return len(self.requests) + self.in_place


@dataclass(frozen=True, slots=True)
class Waits:
    """What waits.

    :param requests: how many.
    :param keys: for how many files.
    :param longest: whose file has been waited for longest.
    :param seconds: for how long.
    """

    requests: int
    keys: int
    longest: Any
    seconds: float


@dataclass(eq=False, slots=True)
class ReservedDecision(Generic[_T]):
    """What requests are judged by that stand in the scheduler's queue.

    :param place: their origin and route.
    :param mark: what they have in their meta.
    :param until: from then on it is for nobody.
    :param count: how many they are.
    """

    place: tuple[Hashable, Hashable]
    mark: str
    value: Callable[[], _T]
    until: float
    count: int = 0


class DeferredRequests(Generic[_T]):
    """The requests of a crawl that wait.

    :param limit: how many are set aside at most.
    :param hold: returns what gives a value later on, and when the value is stale; called with (key, value). Requests
        stay in the scheduler's queues for long, and the values of all of them are more than the memory is to keep.
    :param scheduler: takes requests back.
    """

    def __init__(
        self,
        limit: int,
        *,
        hold: Callable[[Any, _T], tuple[Callable[[], _T], float]],
        scheduler: Scheduler,
        runtime: Runtime,
    ) -> None:
        self._limit, self._keep, self._scheduler, self._runtime = limit, hold, scheduler, runtime
        self._groups: dict[RouteWait[_T], Group[_T]] = {}
        self._reserved: dict[str, ReservedDecision[_T]] = {}
        # The marks of this crawl, which those that a resumed crawl finds on disk are not.
        self._marks = (f"{uuid.uuid4().hex}-{number}" for number in itertools.count())
        self._sweep_at = _FIRST_SWEEP
        self._held = 0
        #: Who is about to leave, by identity; the request is kept beside it, so that no other can get its number.
        self.leaving: dict[int, tuple[Request, Group[_T]]] = {}
        #: Requests that were given back because the crawl ended first.
        self.handed_back = 0

    def __len__(self) -> int:
        return self._held + len(self.leaving)

    @property
    def full(self) -> bool:
        """Whether no more requests may be set aside."""
        return len(self) >= self._limit

    def waits(self) -> Waits | None:
        """Return what waits; ``None``: nothing does."""
        groups = [group for group in self._groups.values() if len(group)]
        if not groups:
            return None
        first = min(groups, key=lambda group: group.since)
        requests = sum(len(group) for group in groups)
        return Waits(requests, len(groups), first.wait.key, self._runtime.clock() - first.since)

    # Coming.

    def leave(self, request: Request, wait: RouteWait[_T]) -> None:
        """Expect a request that `process_request` is about to return."""
        self.leaving[id(request)] = request, self._group(wait)

    def returned(self, request: Request) -> RouteWait[_T] | None:
        """Return what a request waits for that came back past the scheduler; ``None``: it did not."""
        _, group = self.leaving.pop(id(request), (None, None))
        return None if group is None else group.wait

    def take(self, request: Request) -> bool:
        """Take a request out of the way to the scheduler; false: it is none that left."""
        if not self.leaving:
            return False
        _, group = self.leaving.pop(id(request), (None, None))
        if group is None:
            return False
        if group.wait.settled:
            self._put_back(group, [request])
        else:
            group.requests.append(request)
            self._hold(1)
        return True

    async def wait_in_place(self, wait: RouteWait[_T]) -> _T | None:
        """Wait without being set aside."""
        group = self._group(wait)
        group.in_place += 1
        try:
            return await wait.result()
        finally:
            group.in_place -= 1

    def _group(self, wait: RouteWait[_T]) -> Group[_T]:
        group = self._groups.get(wait)
        if group is None:
            group = self._groups[wait] = Group(wait, self._runtime.clock())
            wait.listen(partial(self._settled, group))
        return group

    # Going.

    def _settled(self, group: Group[_T], value: _T | None) -> None:
        del self._groups[group.wait]
        if value is not None:
            later, stale = self._keep(group.wait.key, value)
            place = group.wait.key, group.wait.name
            group.reserved = ReservedDecision(place, next(self._marks), later, stale + RESERVED)
        if group.requests:
            # Such that they come out of the scheduler's queues in the order in which they came in here.
            backwards = [request for request in group.requests if self._scheduler.backwards(request)]
            forwards = [request for request in group.requests if not self._scheduler.backwards(request)]
            group.requests = [*forwards, *reversed(backwards)]
            self._release(group)

    def _release(self, group: Group[_T]) -> None:
        portion, group.requests = group.requests[:PORTION], group.requests[PORTION:]
        try:
            self._put_back(group, portion)
        finally:
            self._hold(-len(portion))
            if group.requests:
                self._runtime.call_later(0, partial(self._release, group))

    def _put_back(self, group: Group[_T], requests: list[Request]) -> None:
        if group.reserved is None:
            self.handed_back += len(requests)
            self._scheduler.put_back(requests, {})
        else:
            self._reserve(group.reserved, len(requests))
            self._scheduler.put_back(requests, {WAITED: group.reserved.mark})

    def _hold(self, change: int) -> None:
        before, self._held = self._held, self._held + change
        if before == 0 < self._held:
            self._scheduler.keep_open()
        elif before > 0 == self._held:
            self._scheduler.let_close()

    # Coming back.

    def _reserve(self, reserved: ReservedDecision[_T], count: int) -> None:
        if len(self._reserved) >= self._sweep_at:
            self._sweep()
        self._reserved[reserved.mark] = reserved
        reserved.count += count

    def _sweep(self) -> None:
        """Forget what has run out: the requests were dropped on the way."""
        now = self._runtime.clock()
        self._reserved = {mark: reserved for mark, reserved in self._reserved.items() if now < reserved.until}
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._reserved))

    def reserved(self, key: Hashable, route: Hashable, mark: object) -> _T | None:
        """Return what a request waited for, or what followed it; ``None``: it did not wait, or too long ago.

        :param mark: `WAITED` of its meta.
        """
        reserved = self._reserved.get(mark) if isinstance(mark, str) else None
        if reserved is None or reserved.place != (key, route):
            return None
        reserved.count -= 1
        in_time = self._runtime.clock() < reserved.until
        if reserved.count <= 0 or not in_time:
            del self._reserved[reserved.mark]
        return reserved.value() if in_time else None
