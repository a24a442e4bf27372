"""Tasks, timers, waiters, threads and clocks: for asyncio, another reactor, or none."""

import asyncio
import contextlib
import datetime
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from scrapy.exceptions import DownloadTimeoutError
from scrapy.utils.asyncio import call_later, is_asyncio_available
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.python.failure import Failure

_T = TypeVar("_T")

#: Raised when an answer is late; third-party download handlers raise the last two.
LATE: tuple[type[Exception], ...] = (DownloadTimeoutError, TwistedTimeoutError, TimeoutError)

#: Raised inside a coroutine that was cancelled; Twisted's is a subclass of `Exception`.
CANCELLED: tuple[type[BaseException], ...] = (asyncio.CancelledError, CancelledError)

# Longest time ahead in seconds, some thirty years: `time.localtime` fails for later dates.
_LONGEST = 1e9


# The descriptor limit of a process that has none.
_NO_LIMIT = 1 << 20


class Cancellable(Protocol):
    """A task or a timer."""

    def cancel(self) -> object:
        """End it, unless it has ended."""


class Waiter(Generic[_T]):
    """A value that one coroutine waits for."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: asyncio.Future[_T] | Deferred[_T]
        if is_asyncio_available():
            self._value = asyncio.get_event_loop().create_future()
        else:
            self._value = Deferred()

    def __await__(self) -> Generator[Any, Any, _T]:
        return self._value.__await__()

    def resolve(self, value: _T) -> None:
        """Set the value, unless the waiter was cancelled or has a value."""
        if isinstance(self._value, Deferred):
            if not self._value.called:
                self._value.callback(value)
        elif not self._value.done():
            self._value.set_result(value)


class Runtime:
    """Tasks, timers and clocks."""

    # Running tasks. Without this the garbage collector could remove them: an event loop has only
    # weak references to them, and nothing refers to a Deferred.
    _tasks: ClassVar[set[Cancellable]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Cancellable:
        """Run a coroutine that handles its own errors as a task.

        It starts in the next turn of the reactor.
        """
        if is_asyncio_available():  # Scrapy's `deferred_from_coro` takes twice as long
            task = asyncio.get_event_loop().create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return task
        deferred = Deferred.fromCoroutine(self._in_next_turn(coroutine))
        self._tasks.add(deferred)

        def ended(result: _T) -> _T:
            self._tasks.discard(deferred)
            return result

        deferred.addBoth(ended).addErrback(_unless_cancelled)
        return deferred

    async def _in_next_turn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await self.sleep(0)
            await coroutine
        finally:
            coroutine.close()  # it has not begun if the task was cancelled at once

    def forget_cancellation(self) -> None:
        """Let the current task continue, although it was cancelled."""
        task = asyncio.current_task() if is_asyncio_available() else None
        if task is not None:
            task.uncancel()

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        """Call a function after some seconds."""
        return call_later(delay, function)

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        waiter: Waiter[None] = Waiter()
        timer = self.call_later(seconds, partial(waiter.resolve, None))
        try:
            await waiter
        finally:
            timer.cancel()

    #: Seconds on a clock that never goes back.
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def utc(self) -> datetime.time:
        """Return the time of day in UTC."""
        return datetime.datetime.now(datetime.UTC).time()

    #: Seconds since 1970, on the clock that dates are made with.
    date: Callable[[], float] = staticmethod(time.time)

    def local_time_in(self, seconds: float) -> str:
        """Return the local time in some seconds, with the date if that is another day."""
        now = self.date()
        today = time.localtime(now)
        then = time.localtime(now + min(seconds, _LONGEST))
        return time.strftime("%H:%M:%S" if today[:3] == then[:3] else "%Y-%m-%d %H:%M:%S", then)


def descriptor_limit() -> int:
    """Return how many files and sockets the process may have open."""
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return _NO_LIMIT
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _NO_LIMIT if allowed == resource.RLIM_INFINITY else allowed


def _unless_cancelled(failure: Failure) -> None:
    """Ignore that a task was cancelled; Twisted logs any other error."""
    failure.trap(*CANCELLED)  # type: ignore[no-untyped-call]  # Twisted's


class Threads:
    """Daemon threads for blocking calls; each is started when it is needed.

    `concurrent.futures` and Twisted wait at exit for their threads, even for one that hangs.

    :param count: maximum number of threads; further calls wait in a queue.
    :param name: the name of the threads in a debugger.
    """

    def __init__(self, count: int, runtime: Runtime, name: str) -> None:
        self._count = count
        self._runtime = runtime
        self._name = name
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = 0
        self._waiting: set[Waiter[None]] = set()
        self._is_stopped = False

    async def call(self, function: Callable[[], _T], *, limit: float, cancels: bool = True) -> _T:
        """Call a function on a thread and return what it returns, or raise what it raises.

        :param limit: seconds to wait, including the time in the queue.
        :param cancels: whether a call that has not begun by then is cancelled.
        :raises TimeoutError: it took longer. A call that has begun continues, and its result is
            ignored.
        """
        if self._is_stopped:
            raise TimeoutError("stopped")
        result: Future[_T] = Future()
        ended: Waiter[None] = Waiter()
        self._waiting.add(ended)
        timer = self._runtime.call_later(limit, partial(ended.resolve, None))
        on_this_thread = _to_this_thread()

        def job() -> None:
            if result.set_running_or_notify_cancel():  # otherwise its caller has given up
                try:
                    result.set_result(function())
                except CANCELLED as error:  # otherwise the caller would seem to be cancelled
                    result.set_exception(RuntimeError(f"cancelled ({type(error).__name__})"))
                except Exception as error:  # noqa: BLE001 - raised again for the caller
                    result.set_exception(error)
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    on_this_thread(partial(ended.resolve, None))

        self._jobs.put(job)
        if self._started < self._count:
            self._started += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        try:
            await ended
            if result.done():
                return result.result()
            raise TimeoutError(f"no answer in {limit:g} s")
        finally:
            self._waiting.discard(ended)
            if cancels:
                result.cancel()
            timer.cancel()

    def stop(self) -> None:
        """Let the threads end when the queue is empty; who waits for a call gets TimeoutError."""
        self._is_stopped = True
        for waiter in list(self._waiting):
            waiter.resolve(None)
        for _ in range(self._started):
            self._jobs.put(None)

    async def close(self, last: Callable[[], object], *, limit: float) -> None:
        """Stop, and call a last function when all earlier calls have ended.

        :param limit: seconds to wait for that.
        :raises TimeoutError: it took longer. The function is still called when they end.
        """
        for _ in range(self._started - 1):  # a thread that gets this has ended its calls
            self._jobs.put(None)
        self._count = 1
        try:
            await self.call(last, limit=limit, cancels=False)
        finally:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _to_this_thread() -> Callable[[Callable[[], None]], object]:
    """Return a function that calls another one on the thread of the event loop, from any thread."""
    if is_asyncio_available():
        return asyncio.get_event_loop().call_soon_threadsafe
    from twisted.internet import reactor  # noqa: PLC0415 - imported sooner it would be installed

    return reactor.callFromThread  # type: ignore[no-any-return]  # a module to mypy
