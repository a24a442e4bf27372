"""Single flight: one piece of work a key, however many listen for its value.

In here: who is told what, and when at the latest. A flight always ends, in a value: by its work, by its time limit, or
by the crawl's end. What the work is, and what is kept of it, is `service.py`.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Hashable

    from scrapy_robots_rfc._runtime import Cancellable, Runtime

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Seconds between two looks at the flights. Scrapy tells nobody when it starts to close: that has to be polled.
TICK = 0.25


@dataclass(eq=False, slots=True)
class Flight(Generic[_T]):
    """One piece of work under way.

    :param result: what the listeners get should the work not end in time; the work may set it before it is done.
    :param done: whether the listeners have their value; what the work does from then on is for nobody.
    :param limit: seconds that it may take.
    :param spent: seconds that count against the limit, up to `looked_at`.
    """

    limit: float
    result: _T | None = None
    done: bool = False
    looked_at: float = 0.0
    spent: float = 0.0
    task: Cancellable | None = None
    listeners: list[Callable[[_T | None], object]] = field(default_factory=list)

    def settle(self, value: _T | None) -> None:
        """Tell every listener the value; the first one counts."""
        if self.done:
            return
        self.result, self.done = value, True
        tell_all(self.listeners, value)


def tell_all(listeners: list[Callable[[_T], object]], value: _T) -> None:
    """Call every listener; one that fails keeps nobody from being told."""
    for listener in listeners:
        try:
            listener(value)
        except Exception:
            logger.exception("A listener failed")


class Flights(Generic[_T]):
    """The flights under way.

    :param runtime: tasks, timers, the clock.
    :param limit: seconds that a flight may take at most, less those that it only stands in a queue.
    :param closing: whether the crawl is ending.
    :param queued: the flights that stand in a queue just now.
    """

    def __init__(
        self,
        runtime: Runtime,
        limit: float,
        *,
        closing: Callable[[], bool],
        queued: Callable[[], Collection[Flight[_T]]],
    ) -> None:
        self._runtime = runtime
        self._limit = limit
        self._closing = closing
        self._queued = queued
        self._interval = min(TICK, limit / 4)
        self._ticking = False
        self._flights: dict[Hashable, tuple[Flight[_T], Callable[[], _T]]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._flights

    def watch(
        self,
        key: Hashable,
        work: Callable[[Flight[_T]], Coroutine[Any, Any, _T]],
        expire: Callable[[], _T],
        listener: Callable[[_T | None], object],
        limit: float = math.inf,
    ) -> None:
        """Tell a listener the value of a key; start the work for it if nobody did.

        :param work: makes the value.
        :param expire: makes the value when the work takes too long, or ends without one.
        :param listener: called once, perhaps before this returns; with ``None`` when the crawl ended first.
        :param limit: seconds that this one may take, where that is less than any may.
        """
        limit = min(limit, self._limit)
        flight = self._flights[key][0] if key in self._flights else self._start(key, work, expire, limit)
        if flight.done:  # without asyncio, work that need not wait ends while it is started
            listener(flight.result)
        else:
            flight.listeners.append(listener)

    def _start(
        self,
        key: Hashable,
        work: Callable[[Flight[_T]], Coroutine[Any, Any, _T]],
        expire: Callable[[], _T],
        limit: float,
    ) -> Flight[_T]:
        flight: Flight[_T] = Flight(limit, looked_at=self._runtime.clock())
        self._flights[key] = flight, expire
        self._arm()
        flight.task = self._runtime.spawn(self._run(key, flight, work, expire))
        return flight

    async def _run(
        self,
        key: Hashable,
        flight: Flight[_T],
        work: Callable[[Flight[_T]], Coroutine[Any, Any, _T]],
        expire: Callable[[], _T],
    ) -> None:
        try:
            value = await work(flight)
            self._land(key, flight, value)
        except Exception:
            if not flight.done:
                logger.exception("The work for %s failed", key)
        finally:
            if not flight.done:  # failed, or cancelled from outside
                self._land(key, flight, self._without_work(flight, expire))

    def _without_work(self, flight: Flight[_T], expire: Callable[[], _T]) -> _T | None:
        try:
            return flight.result if flight.result is not None else expire()
        except Exception:
            logger.exception("A flight ends without a value")
            return None

    def _land(self, key: Hashable, flight: Flight[_T], value: _T | None) -> None:
        if self._flights.get(key, (None,))[0] is flight:
            del self._flights[key]
        flight.settle(value)

    def _arm(self) -> None:
        if not self._ticking:  # one timer, however often the last flight ends and the next one starts
            self._ticking = True
            self._runtime.call_later(self._interval, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        now = self._runtime.clock()
        try:
            closing, queued = self._closing(), self._queued()
            for key, (flight, expire) in list(self._flights.items()):
                if flight.done:  # without asyncio, who waits goes on as soon as it is told, and may end others
                    continue
                if closing:
                    self._end(key, flight, None)
                    continue
                elapsed, flight.looked_at = now - flight.looked_at, now
                if flight not in queued:
                    flight.spent += elapsed
                    if flight.spent >= flight.limit:
                        self._end(key, flight, self._without_work(flight, expire))
        finally:
            if self._flights:
                self._arm()

    def _end(self, key: Hashable, flight: Flight[_T], value: _T | None) -> None:
        self._land(key, flight, value)
        if flight.task is not None:
            flight.task.cancel()
