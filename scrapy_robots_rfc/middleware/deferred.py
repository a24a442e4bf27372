"""Requests that are set aside, so that they take no place in the downloader: until their robots.txt or turn comes.

See `fetching/queue.py` for the fetch that they wait for, and `SchedulerBridge` of `scheduling.py` for how they go back.

How a request is set aside: `process_request` returns the request itself, so that the engine schedules it anew. Then
the handler of `request_scheduled` takes it, and the engine forgets it. A request that other code downloads without the
scheduler (`engine.download_async`) comes to `process_request` a second time instead, and waits in place.

When the file is there, requests go back to the scheduler. They may stand in its queue until the file is stale. So that
they need not wait again and again, they are judged by that file all the same, each once, and for a minute after that,
at a paced site for longer: it is reserved for them. `WAITED` in their meta says which one it is, because a queue on
disk keeps meta, and not objects. `_judge` in `downloader.py` removes that key when the turn has come, so that no
response, redirect or retry has it.

In a crawl with JOBDIR a request goes back to a scheduler with a `PacedPriorityQueue` at once, with that key. The queue
hands out none of its origin until the file is there: so all stay on disk, and none is lost if the process is killed.
From the first request on that has a route of its own (a proxy, or an account for FTP), requests are set aside even so,
as another route may get the file.

A request whose site's turn has not come goes back at once to a scheduler that has a `PacedPriorityQueue`. With another
scheduler it stands in a `WaitingLine` until its turn, and goes back when the spider is being closed.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from scrapy import Request

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.fetching.queue import RouteWait
from scrapy_robots_rfc.middleware.scheduling import SchedulerBridge
from scrapy_robots_rfc.scheduling.queue import PacedPriorityQueue, WaitingLine
from scrapy_robots_rfc.scheduling.throttle import Throttle

_T = TypeVar("_T")

#: Requests that are given back at once; others go on in between, however many wait.
PORTION = 200

#: Meta key of a request that goes back to the scheduler. Its value is the mark of a `ReservedFile`.
WAITED = "robots_waited"

#: Seconds for which a stale file still counts for the requests that have waited for it.
RESERVED = 60.0

# The number of reserved files at which those that have run out are removed for the first time.
_FIRST_SWEEP = 1000


@dataclass(eq=False, slots=True)
class Batch(Generic[_T]):
    """The requests that wait for one fetch by one route.

    :param since: when the first one came.
    :param requests: those that are set aside.
    :param in_place: how many wait in place.
    :param queued: how many went back to the scheduler before the file was there.
    :param mark: the mark of `reserved`.
    :param reserved: what those are judged by that went back to the scheduler; ``None``: it is not there
        yet, or the spider was closed first.
    """

    wait: RouteWait[_T]
    since: float
    requests: list[Request] = field(default_factory=list)
    in_place: int = 0
    queued: int = 0
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    reserved: ReservedFile[_T] | None = None

    def __len__(self) -> int:
        return len(self.requests) + self.in_place


@dataclass(eq=False, slots=True)
class ReservedFile(Generic[_T]):
    """What requests are judged by that went back to the scheduler.

    :param place: their origin and route.
    :param mark: the value of `WAITED` in their meta; unique, as a crawl that is resumed finds those of an earlier run.
    :param value: returns what is known of their origin.
    :param until: when it runs out.
    :param count: how many requests have not come for it yet.
    """

    place: tuple[Hashable, Hashable]
    mark: str
    value: Callable[[], _T]
    until: float
    count: int = 0


class DeferredRequests(Generic[_T]):
    """The requests of a crawl that wait.

    :param hold: called with (key, value); returns a function that gives the value later on, and when the value is
        stale. Requests may stay in the scheduler's queues for long, and all their values may take too much memory.
    :param usual: gives the route that a request takes if it names none.
    :param scheduler: takes requests back.
    :param throttle: says when it is the turn of a request.
    """

    #: Requests that are set aside at most, about 0.5 KiB each; more wait in the downloader.
    MOST: ClassVar[int] = 100_000

    def __init__(
        self,
        *,
        hold: Callable[[Any, _T], tuple[Callable[[], _T], float]],
        usual: Callable[[Request], Hashable],
        scheduler: SchedulerBridge,
        runtime: Runtime,
        throttle: Throttle,
    ) -> None:
        self._throttle = throttle
        self._line: WaitingLine | None = None  # made for the first request that needs it
        throttle.when_closing = self._give_back_line
        self._hold, self._scheduler, self._runtime = hold, scheduler, runtime
        self._batches: dict[RouteWait[_T], Batch[_T]] = {}
        # Origins whose requests stay in the scheduler until their robots.txt is there -> the fetch that is waited for.
        self._awaited: dict[str, Batch[_T]] = {}
        self._reserved: dict[str, ReservedFile[_T]] = {}
        self._sweep_at = _FIRST_SWEEP
        # Whether requests wait in the queue on disk: where there is one, until a request has a route of its own.
        self._on_disk, self._usual = scheduler.on_disk, usual
        self._waiting = 0
        #: Requests that `process_request` returns, by `id()`; each is kept here, so that no other gets the same one.
        #: Without a batch they wait for their turn.
        self.leaving: dict[int, tuple[Request, Batch[_T] | None]] = {}

    def __len__(self) -> int:
        return self._waiting + len(self.leaving)

    @property
    def full(self) -> bool:
        """Whether no more requests may be set aside."""
        return len(self) >= self.MOST

    @property
    def nothing_to_take(self) -> bool:
        """Whether no file is being fetched that requests wait for, and no request is about to be returned."""
        return not self.leaving and not self._batches

    def waiting(self) -> dict[Any, tuple[int, float]]:
        """Return how many requests wait for the file of each origin, and since when."""
        found: dict[Any, tuple[int, float]] = {}
        queued = self.queued()
        for batch in self._batches.values():
            if requests := len(batch) + queued.pop(str(batch.wait.key), 0):
                others, since = found.get(batch.wait.key, (0, batch.since))  # other routes may lead there
                found[batch.wait.key] = others + requests, min(since, batch.since)
        return found

    def queued(self) -> Counter[str]:
        """Return how many requests of each site wait for its robots.txt in queues of the scheduler that are open."""
        return sum((queue.undecided() for queue in self._queues() if self._awaited), Counter[str]())

    # Coming.

    def leave(self, request: Request, wait: RouteWait[_T] | None) -> None:
        """Expect a request that `process_request` is about to return.

        :param wait: what it waits for; ``None``: for its turn.
        """
        batch = None if wait is None else self._batch(wait)
        self.leaving[id(request)] = request, batch
        if self._on_disk and batch is not None and not batch.wait.settled:
            self._on_disk = batch.wait.name == self._usual(request)
            if self._on_disk:
                self._await(batch)

    def returned(self, request: Request) -> RouteWait[_T] | None:
        """Return what a request waits for if it came back without passing the scheduler; else ``None``."""
        _, batch = self.leaving.pop(id(request), (None, None))
        return None if batch is None else batch.wait

    def take(self, request: Request) -> bool:
        """Take a request that is about to be queued; false if `leave` was not called for it."""
        if id(request) not in self.leaving:
            return False
        _, batch = self.leaving.pop(id(request))
        if batch is None:
            self._wait_for_turn(request)
        elif batch.wait.settled:
            self._put_back(batch, [request])
        elif self._throttle.name(request) in self._awaited:
            batch.queued += 1
            self._scheduler.put_back([request], {WAITED: batch.mark})
            for queue in self._queues():
                queue.save(request)
        else:
            batch.requests.append(request)
            self._set_aside(1)
        return True

    def _wait_for_turn(self, request: Request) -> None:
        if self._line is None and self._throttle.queues:
            self._scheduler.put_back([request], {})
            return
        if self._line is None:
            self._line = WaitingLine(self._throttle)
            self._scheduler.hand_out(partial(self._next_in, self._line))
        self._line.push(request)
        self._set_aside(1)
        self._scheduler.wake()

    def _next_in(self, line: WaitingLine) -> Request | None:
        request = line.pop()
        if request is not None:
            self._set_aside(-1)
        return request

    async def wait_in_place(self, wait: RouteWait[_T]) -> _T | None:
        """Wait without being set aside."""
        batch = self._batch(wait)
        batch.in_place += 1
        try:
            return await wait.result()
        finally:
            batch.in_place -= 1

    def _queues(self) -> Iterable[PacedPriorityQueue]:
        return (queue for queue in self._throttle.queues if isinstance(queue, PacedPriorityQueue))

    def _await(self, batch: Batch[_T]) -> None:
        """Leave the requests of an origin in the scheduler, where a process that is killed does not lose them."""
        name = str(batch.wait.key)
        for queue in self._queues():
            queue.hold(name)
            self._awaited[name] = batch

    def _batch(self, wait: RouteWait[_T]) -> Batch[_T]:
        batch = self._batches.get(wait)
        if batch is None:
            batch = self._batches[wait] = Batch(wait, self._runtime.clock())
            wait.listen(partial(self._settled, batch))
        return batch

    # Going.

    def _settled(self, batch: Batch[_T], value: _T | None) -> None:
        del self._batches[batch.wait]
        if value is not None and not self._scheduler.closing:
            later, stale = self._hold(batch.wait.key, value)
            place = batch.wait.key, batch.wait.name
            batch.reserved = ReservedFile(place, batch.mark, later, stale + RESERVED, batch.queued)
            self._reserve(batch.reserved)
            self._go_on(batch)
        if batch.requests:
            # In an order in which they leave the scheduler's queues as they came here.
            backwards = [request for request in batch.requests if self._scheduler.backwards(request)]
            forwards = [request for request in batch.requests if not self._scheduler.backwards(request)]
            self._release([*forwards, *reversed(backwards)], partial(self._put_back, batch))

    def _go_on(self, batch: Batch[_T]) -> None:
        """Let requests of an origin leave the scheduler again."""
        name = str(batch.wait.key)
        if self._awaited.get(name) is batch:
            del self._awaited[name]
            for queue in self._queues():
                queue.go_on(name)
            self._scheduler.wake()

    def _give_back_line(self) -> None:
        """Give what waits for its turn back to the scheduler, as the spider is being closed."""
        if self._line is not None and (requests := self._line.clear()):
            self._throttle.left_over.update(map(self._throttle.name, requests))
            self._release(requests, partial(self._scheduler.put_back, mark={}))

    def _release(self, requests: list[Request], put_back: Callable[[list[Request]], object]) -> None:
        portion, rest = requests[:PORTION], requests[PORTION:]
        try:
            put_back(portion)
        finally:
            self._set_aside(-len(portion))
            if rest:
                self._runtime.call_later(0, partial(self._release, rest, put_back))

    def _put_back(self, batch: Batch[_T], requests: list[Request]) -> None:
        if batch.reserved is None:
            if str(batch.wait.key) not in self._awaited:  # else the queue counts them when it is closed
                self._throttle.undecided[str(batch.wait.key)] += len(requests)
            self._scheduler.put_back(requests, {})
        else:
            batch.reserved.count += len(requests)
            self._reserve(batch.reserved)
            self._scheduler.put_back(requests, {WAITED: batch.mark})

    def _reserve(self, reserved: ReservedFile[_T]) -> None:
        if reserved.count:
            if len(self._reserved) >= self._sweep_at:
                self._sweep()
            self._reserved[reserved.mark] = reserved

    def _set_aside(self, change: int) -> None:
        """Count what is set aside; while it is anything, the engine must not close its scheduler."""
        before, self._waiting = self._waiting, self._waiting + change
        if bool(before) != bool(self._waiting):
            self._scheduler.keep_open(on=bool(self._waiting))

    # Coming back.

    def _sweep(self) -> None:
        """Forget what has run out: its requests were dropped, or came too late."""
        now = self._runtime.clock()
        self._reserved = {mark: reserved for mark, reserved in self._reserved.items() if now < reserved.until}
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._reserved))

    def reserved(self, key: Hashable, route: Hashable, mark: object) -> _T | None:
        """Return what is reserved for a request that has waited; ``None``: nothing is, or it has run out.

        :param mark: the value of `WAITED` in its meta.
        """
        reserved = self._reserved.get(mark) if isinstance(mark, str) else None
        if reserved is None or reserved.place != (key, route):
            return None
        reserved.count -= 1
        in_time = self._runtime.clock() < reserved.until
        if reserved.count <= 0 or not in_time:
            del self._reserved[reserved.mark]
        return reserved.value() if in_time else None
