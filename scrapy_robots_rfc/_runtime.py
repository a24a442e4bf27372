"""Tasks, timers, waiters, threads and clocks that work with asyncio, any reactor or none.

Also log lines that appear once.
"""

import asyncio
import contextlib
import datetime
import errno
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from scrapy.exceptions import DownloadTimeoutError
from scrapy.utils.asyncio import call_later, is_asyncio_available
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.python.failure import Failure

_T = TypeVar("_T")

#: Raised when a response takes too long. The last two come from third-party download handlers.
TIMEOUT_ERRORS: tuple[type[Exception], ...] = (
    DownloadTimeoutError,
    TwistedTimeoutError,
    TimeoutError,
)

#: Raised inside a cancelled coroutine. Twisted's error is a subclass of `Exception`.
CANCELLED: tuple[type[BaseException], ...] = (asyncio.CancelledError, CancelledError)

#: Values of `OSError.errno` that mean that no disk space is left, or none of the user's quota.
DISK_FULL: tuple[int, ...] = (errno.ENOSPC, errno.EDQUOT)

# Maximum seconds ahead, about thirty years, because `time.localtime` fails for very late dates.
_LONGEST = 1e9

# The descriptor limit to assume if the process has no limit.
_NO_LIMIT = 1 << 20

# Object -> the texts that it has logged with `log_once`.
_LOGGED: WeakKeyDictionary[object, set[str]] = WeakKeyDictionary()


def log_once(
    owner: object,
    logger: logging.Logger,
    level: int,
    text: str,
    *args: object,
    extra: Mapping[str, object] | None = None,
) -> bool:
    """Log a line, unless the same text was logged for the same object before.

    :param owner: usually the crawl.
    :param text: the text before its arguments are inserted.
    :returns: whether it was logged.
    """
    logged = _LOGGED.setdefault(owner, set())
    if text in logged:
        return False
    logged.add(text)
    logger.log(level, text, *args, extra=extra)
    return True


class Cancellable(Protocol):
    """A task or a timer."""

    def cancel(self) -> object:
        """Cancel it, unless it has finished."""


class Waiter(Generic[_T]):
    """A value that a single coroutine can wait for."""

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
        """Set the value, unless the waiter was cancelled or already has a value."""
        if isinstance(self._value, Deferred):
            if not self._value.called:
                self._value.callback(value)
        elif not self._value.done():
            self._value.set_result(value)


class Runtime:
    """Tasks, timers and clocks."""

    # Running tasks. Without these references they could be garbage-collected, because an event
    # loop only holds weak references to tasks, and nothing refers to a Deferred.
    _tasks: ClassVar[set[Cancellable]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> Cancellable:
        """Run a coroutine as a task. The coroutine has to handle its own errors.

        It starts in the next reactor iteration.
        """
        if is_asyncio_available():  # this takes half as long as Scrapy's `deferred_from_coro`
            task = asyncio.get_event_loop().create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return task
        deferred = Deferred.fromCoroutine(self._in_next_iteration(coroutine))
        self._tasks.add(deferred)

        def ended(result: _T) -> _T:
            self._tasks.discard(deferred)
            return result

        deferred.addBoth(ended).addErrback(_ignore_cancellation)
        return deferred

    async def _in_next_iteration(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine, but not before the next reactor iteration, like a task of asyncio."""
        try:
            await self.sleep(0)
            await coroutine
        finally:
            coroutine.close()  # needed if the task was cancelled before it started

    def forget_cancellation(self) -> None:
        """Let the current task continue after it has caught its own cancellation.

        asyncio counts cancellations. One that was caught but is still counted would break a
        `TaskGroup` that the task uses later.
        """
        task = asyncio.current_task() if is_asyncio_available() else None
        if task is not None:
            task.uncancel()

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        """Call a function after a delay in seconds."""
        return call_later(delay, function)

    async def sleep(self, seconds: float) -> None:
        """Wait for the given number of seconds."""
        waiter: Waiter[None] = Waiter()
        timer = self.call_later(seconds, partial(waiter.resolve, None))
        try:
            await waiter
        finally:
            timer.cancel()

    #: Seconds from a clock that never goes backwards.
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def utc(self) -> datetime.time:
        """Return the current UTC time of day."""
        return datetime.datetime.now(datetime.UTC).time()

    #: Seconds since the epoch.
    date: Callable[[], float] = staticmethod(time.time)

    def local_time_in(self, seconds: float) -> str:
        """Format the local time after a number of seconds, with the date if it isn't today."""
        now = self.date()
        today = time.localtime(now)
        then = time.localtime(now + min(seconds, _LONGEST))
        is_today = today[:3] == then[:3]  # the year, month and day
        return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S", then)


def descriptor_limit() -> int:
    """Return the maximum number of files and sockets that the process may open."""
    try:
        import resource  # noqa: PLC0415 - not available on all platforms
    except ImportError:
        return _NO_LIMIT
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _NO_LIMIT if allowed == resource.RLIM_INFINITY else allowed


def _ignore_cancellation(failure: Failure) -> None:
    """Ignore the cancellation of a task. Twisted logs any other error."""
    failure.trap(*CANCELLED)  # type: ignore[no-untyped-call]  # Twisted's


class Threads:
    """Daemon threads for blocking calls, started on demand.

    On exit, `concurrent.futures` and Twisted would wait for their threads, even if one hangs.

    :param count: maximum number of threads. Further calls wait in a queue.
    :param name: the thread name, as shown in a debugger.
    """

    def __init__(self, count: int, runtime: Runtime, name: str) -> None:
        self._max_threads = count
        self._runtime = runtime
        self._name = name
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = 0

    async def call(self, function: Callable[[], _T], *, limit: float, cancels: bool = True) -> _T:
        """Call a function on a thread, and return its result or raise its exception.

        :param limit: maximum seconds to wait, including time in the queue.
        :param cancels: whether to cancel a call that hasn't started by then.
        :raises TimeoutError: the call took too long. If it has started, it continues, but its
            result is ignored.
        :raises RuntimeError: no thread is running, and none can be started.
        """
        result: Future[_T] = Future()
        # Resolved by the job when there is a result, and otherwise by the timer.
        ended: Waiter[None] = Waiter()
        timer = self._runtime.call_later(limit, partial(ended.resolve, None))
        on_callers_thread = _to_this_thread()

        def job() -> None:
            if result.set_running_or_notify_cancel():  # otherwise the caller has given up
                try:
                    result.set_result(function())
                except CANCELLED as error:  # re-raised as is, it would look like a cancelled caller
                    result.set_exception(RuntimeError(f"cancelled ({type(error).__name__})"))
                except Exception as error:  # noqa: BLE001 - re-raised in the caller
                    result.set_exception(error)
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    on_callers_thread(partial(ended.resolve, None))

        self._jobs.put(job)
        try:
            self._start_thread()
            await ended
            if result.done():  # otherwise the timer has ended the wait
                return result.result()
            raise TimeoutError(f"no answer in {limit:g} s")
        finally:
            if cancels:
                result.cancel()
            timer.cancel()

    async def close(self, last: Callable[[], object], *, limit: float) -> None:
        """Stop, and call one last function when all earlier calls have finished.

        :param limit: maximum seconds to wait until the function has returned.
        :raises TimeoutError: it took too long. The function is still called afterwards.
        """
        # A thread only takes the next job when it has finished the one before. So let all threads
        # but one exit first, and then let the remaining thread make the last call.
        for _ in range(self._started - 1):
            self._jobs.put(None)
        self._max_threads = 1  # so `call` only starts a thread if there is none yet
        try:
            await self.call(last, limit=limit, cancels=False)
        finally:
            self._jobs.put(None)

    def _start_thread(self) -> None:
        """Start another thread, unless the maximum is reached."""
        if self._started < self._max_threads:
            try:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            except RuntimeError:  # the process has reached its limit, so share the other threads
                if not self._started:
                    raise
            else:
                self._started += 1

    def _work(self) -> None:
        """Run jobs, which never raise, on a thread until a `None` in the queue tells it to exit."""
        while (job := self._jobs.get()) is not None:
            job()


def _to_this_thread() -> Callable[[Callable[[], None]], object]:
    """Return a function that can be called on any thread to run another one on this thread."""
    if is_asyncio_available():
        return asyncio.get_event_loop().call_soon_threadsafe
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs a reactor

    return reactor.callFromThread  # type: ignore[no-any-return]  # mypy sees a module


def doubling(seconds: float, longest: float) -> Iterator[float]:
    """Yield delays, doubling each time up to a maximum."""
    while True:
        yield seconds
        seconds = min(2 * seconds, longest)
