"""The waiting room: requests whose verdict is not known yet, set aside so that they hold nothing of the crawl.

In here: who waits, where, and who goes when. Requests are opaque; what a verdict says is the middleware's business, and
how Scrapy lets a request go and takes it back is `_compat.py`'s.

How a request is set aside: `process_request` returns the request itself, so that the engine schedules it anew; on that
way `request_scheduled` takes it out, and the engine has forgotten it. One that other code downloads past the scheduler
(`engine.download_async`) comes to `process_request` again instead: that is how it is known, and it waits in place.

A request that goes back to the scheduler may stand in its queue until the verdict it waited for is stale. It is judged
by that verdict all the same, once and for a minute at most, so that it need not wait again and again. `WAITED` in its
meta says which verdict that was: a queue on disk keeps meta, and not the object. `process_request` takes it out before
anything is made of the request, so that no response, redirect or retry has it.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from scrapy_robots_rfc._runtime import Waiter
from scrapy_robots_rfc.fetching.flights import tell_all

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from scrapy_robots_rfc._runtime import Runtime

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: A request; opaque in here.
Request: TypeAlias = Any

#: Requests that are given back in one go, so that many do not stop everything else.
PORTION = 200

#: Key of a request's meta, from when it goes back to the scheduler until it comes here again: what it waited for.
WAITED = "robotstxt_waited"

#: Seconds for which a stale verdict still holds for those who waited for it: they stand in the scheduler's queue then.
RESERVED = 60.0

# So many promises before the first look for those that nobody came for in time.
_FIRST_SWEEP = 1000


class Outside(Protocol):
    """The scheduler and the engine, as the waiting room needs them."""

    def usable(self) -> bool:
        """Whether requests can be set aside: whether the other methods work."""

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
class Batch(Generic[_T]):
    """Everybody who waits for one verdict.

    :param open: whether it is still to come.
    :param value: the verdict; ``None`` when the crawl ended first.
    :param later: gives the verdict later on, to those that go back to the scheduler; ``None``: there is none.
    :param since: when the first one came.
    :param requests: those that are set aside.
    :param listeners: those that wait in place.
    """

    key: Any
    since: float
    open: bool = True
    value: _T | None = None
    later: ReservedDecision[_T] | None = None
    requests: list[Request] = field(default_factory=list)
    listeners: list[Callable[[_T | None], object]] = field(default_factory=list)

    async def wait(self) -> _T | None:
        """Wait in place."""
        if self.open:
            waiter: Waiter[_T | None] = Waiter()
            self.listeners.append(waiter.resolve)
            return await waiter
        return self.value


@dataclass(frozen=True, slots=True)
class Waits:
    """What waits.

    :param requests: how many.
    :param keys: for how many verdicts.
    :param longest: the key that has been waited for longest.
    :param seconds: for how long.
    """

    requests: int
    keys: int
    longest: Any
    seconds: float


@dataclass(eq=False, slots=True)
class ReservedDecision(Generic[_T]):
    """A verdict for requests that stand in the scheduler's queue.

    :param mark: what they have in their meta.
    :param until: from then on it is no verdict for anybody.
    :param count: how many they are.
    """

    key: Hashable
    mark: str
    value: Callable[[], _T]
    until: float
    count: int = 0


class DeferredRequests(Generic[_T]):
    """The requests of a crawl that wait.

    :param limit: how many are set aside at most.
    :param ask: tells a listener the verdict on a key; called with (key, request, listener).
    :param joined: called for each who waits for what another one asked for.
    :param hold: returns what gives a verdict later on, and when the verdict is stale; called with (key, verdict).
        Requests stay in the scheduler's queues for long, and the verdicts of all of them are more than the memory is
        to keep.
    :param outside: the scheduler and the engine.
    """

    def __init__(
        self,
        limit: int,
        *,
        ask: Callable[[Any, Request, Callable[[_T | None], object]], None],
        joined: Callable[[], object],
        hold: Callable[[Any, _T], tuple[Callable[[], _T], float]],
        outside: Outside,
        runtime: Runtime,
    ) -> None:
        self._limit = limit
        self._ask = ask
        self._joined = joined
        self._keep = hold
        self._outside = outside
        self._runtime = runtime
        self._batches: dict[Hashable, Batch[_T]] = {}
        self._promises: dict[str, ReservedDecision[_T]] = {}
        # The marks of this crawl, which those that a resumed crawl finds on disk are not.
        self._marks = (f"{uuid.uuid4().hex}-{number}" for number in itertools.count())
        self._sweep_at = _FIRST_SWEEP
        self._held = 0
        # By identity; the request itself is kept beside it, so that no other can get its number.
        self._leaving: dict[int, tuple[Request, Batch[_T]]] = {}
        #: Requests that were given back because the crawl ended first.
        self.handed_back = 0

    def __len__(self) -> int:
        return self._held + len(self._leaving)

    @property
    def full(self) -> bool:
        """Whether no more requests may be set aside; those that come wait in place."""
        return len(self) >= self._limit or not self._outside.usable()

    def waits(self) -> Waits | None:
        """Return what waits for a verdict; ``None``: nothing does."""
        batches = [batch for batch in self._batches.values() if batch.requests or batch.listeners]
        if not batches:
            return None
        first = min(batches, key=lambda batch: batch.since)
        requests = sum(len(batch.requests) + len(batch.listeners) for batch in batches)
        return Waits(requests, len(batches), first.key, self._runtime.clock() - first.since)

    # Coming.

    def join(self, key: Hashable, request: Request) -> Batch[_T]:
        """Return the batch of a key, which may be complete already; ask for the verdict if nobody did."""
        batch = self._batches.get(key)
        if batch is not None:
            self._joined()
            return batch
        batch = self._batches[key] = Batch(key, self._runtime.clock())
        self._ask(key, request, partial(self._settle, batch))
        return batch

    def promised(self, key: Hashable, mark: object) -> _T | None:
        """Return the verdict that a request waited for, or a later one; ``None``: it did not, or too long ago.

        :param mark: `WAITED` of its meta.
        """
        promise = self._promises.get(mark) if isinstance(mark, str) else None
        if promise is None or promise.key != key:
            return None
        promise.count -= 1
        in_time = self._runtime.clock() < promise.until
        if promise.count <= 0 or not in_time:
            del self._promises[promise.mark]
        return promise.value() if in_time else None

    def leave(self, request: Request, batch: Batch[_T]) -> None:
        """Expect a request that `process_request` is about to return."""
        self._leaving[id(request)] = request, batch

    def returned(self, request: Request) -> Batch[_T] | None:
        """Return the batch of a request that came back past the scheduler; ``None``: it did not."""
        return self._leaving.pop(id(request), (None, None))[1]

    def take(self, request: Request) -> bool:
        """Take a request out of the way to the scheduler; false: it is none that left."""
        if not self._leaving:
            return False
        _, batch = self._leaving.pop(id(request), (None, None))
        if batch is None:
            return False
        if batch.open:
            batch.requests.append(request)
            self._hold(1)
        else:
            self._put_back(batch, [request])
        return True

    # Going.

    def _settle(self, batch: Batch[_T], value: _T | None) -> None:
        batch.open, batch.value = False, value
        if value is not None:
            later, stale = self._keep(batch.key, value)
            batch.later = ReservedDecision(batch.key, next(self._marks), later, stale + RESERVED)
        if self._batches.get(batch.key) is batch:
            del self._batches[batch.key]
        listeners, batch.listeners = batch.listeners, []
        tell_all(listeners, value)
        if batch.requests:
            # Such that they come out of the scheduler's queues in the order in which they came in here.
            backwards = [request for request in batch.requests if self._outside.backwards(request)]
            forwards = [request for request in batch.requests if not self._outside.backwards(request)]
            batch.requests = [*forwards, *reversed(backwards)]
            self._release(batch)

    def _release(self, batch: Batch[_T]) -> None:
        portion, batch.requests = batch.requests[:PORTION], batch.requests[PORTION:]
        try:
            self._put_back(batch, portion)
        finally:
            self._hold(-len(portion))
            if batch.requests:
                self._runtime.call_later(0, partial(self._release, batch))

    def _put_back(self, batch: Batch[_T], requests: list[Request]) -> None:
        if batch.later is None:
            self.handed_back += len(requests)
            self._outside.put_back(requests, {})
        else:
            self._promise(batch.later, len(requests))
            self._outside.put_back(requests, {WAITED: batch.later.mark})

    def _promise(self, promise: ReservedDecision[_T], count: int) -> None:
        if len(self._promises) >= self._sweep_at:
            self._sweep()
        self._promises[promise.mark] = promise
        promise.count += count

    def _sweep(self) -> None:
        """Forget promises that have run out: their requests were dropped on the way."""
        now = self._runtime.clock()
        self._promises = {mark: promise for mark, promise in self._promises.items() if now < promise.until}
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._promises))

    def _hold(self, change: int) -> None:
        before, self._held = self._held, self._held + change
        if before == 0 < self._held:
            self._outside.keep_open()
        elif before > 0 == self._held:
            self._outside.let_close()
