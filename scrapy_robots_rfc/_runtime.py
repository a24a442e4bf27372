"""Tasks, timers, waiters and clocks for every runtime of Scrapy: asyncio, another Twisted reactor, or no reactor."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from scrapy.utils.asyncio import call_later, is_asyncio_available
from twisted.internet.defer import CancelledError, Deferred

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from twisted.python.failure import Failure

_T = TypeVar("_T")

#: What is raised inside a coroutine that was cancelled: without asyncio, a plain exception.
CANCELLED: tuple[type[BaseException], ...] = (asyncio.CancelledError, CancelledError)

# Seconds ahead that a date is shown at most, some thirty years: beyond some point there are none.
_LONGEST = 1e9


class Cancellable(Protocol):
    """A task or a timer."""

    def cancel(self) -> object:
        """End it; nothing happens when it has ended."""


class Waiter(Generic[_T]):
    """A value that one coroutine waits for: a future of its own, so that no other waiter's end can touch it."""

    __slots__ = ("_deferred", "_future")

    def __init__(self) -> None:
        self._future: asyncio.Future[_T] | None = None
        self._deferred: Deferred[_T] | None = None
        if is_asyncio_available():
            self._future = asyncio.get_event_loop().create_future()
        else:
            self._deferred = Deferred()

    def __await__(self) -> Generator[Any, Any, _T]:
        awaitable: Awaitable[_T] | None = self._future if self._future is not None else self._deferred
        assert awaitable is not None
        return awaitable.__await__()

    def resolve(self, value: _T) -> None:
        """Hand over the value, unless the waiter was cancelled or has it already."""
        if self._future is not None and not self._future.done():
            with contextlib.suppress(RuntimeError):  # the loop was closed with the waiter still in it
                self._future.set_result(value)
        elif self._deferred is not None and not self._deferred.called:
            self._deferred.callback(value)


class Runtime:
    """Tasks, timers and the clock, whichever runtime Scrapy runs in."""

    # Nobody else need hold them, an event loop neither: what is not held may end in the middle.
    _tasks: ClassVar[set[Cancellable]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Cancellable:
        """Run a coroutine that handles its own errors as a task of its own. Without asyncio it starts at once."""
        if is_asyncio_available():
            task = asyncio.get_event_loop().create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return task
        deferred = Deferred.fromCoroutine(coroutine)
        self._tasks.add(deferred)
        deferred.addBoth(self._ended, deferred).addErrback(_unless_cancelled)
        return deferred

    def _ended(self, result: _T, task: Cancellable) -> _T:
        self._tasks.discard(task)
        return result

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        """Call a function after so many seconds."""
        return call_later(delay, function)

    def caller(self) -> Callable[[Callable[[], object]], None]:
        """Return what has a function called on this thread, soon, and may itself be called on any thread.

        Nothing is called once the event loop has ended.
        """
        if not is_asyncio_available():
            from twisted.internet import reactor  # noqa: PLC0415 - imported sooner it would be installed

            return reactor.callFromThread  # type: ignore[no-any-return]  # the module stands for it
        loop = asyncio.get_event_loop()

        def call(function: Callable[[], object]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(function)

        return call

    def loop(self) -> object:
        """The event loop: what runs on it need not be called on a thread."""
        if is_asyncio_available():
            return asyncio.get_event_loop()
        from twisted.internet import reactor  # noqa: PLC0415 - as above

        return reactor

    def clock(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def utc(self) -> datetime.time:
        """The time of day in UTC."""
        return datetime.datetime.now(datetime.UTC).time()

    def date(self) -> float:
        """Seconds since 1970, on the clock that dates are made with."""
        return time.time()

    def at(self, seconds: float) -> str:
        """The local time so many seconds from now, as log lines have it; with the date, where that is another day."""
        now = self.date()
        today, then = time.localtime(now), time.localtime(now + min(seconds, _LONGEST))
        return time.strftime("%H:%M:%S" if today[:3] == then[:3] else "%Y-%m-%d %H:%M:%S", then)


def _unless_cancelled(failure: Failure) -> None:
    """Pass over the end of a task whose work is done elsewhere; Twisted logs any other error, as asyncio does."""
    failure.trap(*CANCELLED)  # type: ignore[no-untyped-call]  # Twisted's
