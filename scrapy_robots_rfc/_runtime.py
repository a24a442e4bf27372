"""Tasks, timers, waiters, threads and clocks for every runtime of Scrapy: asyncio, another reactor, or no reactor.

Also the classes of their errors, and one log line for an error of ours that stops a crawl: see `logged_in_one_line`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from scrapy.exceptions import DownloadTimeoutError
from scrapy.utils.asyncio import call_later, is_asyncio_available
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.python.failure import Failure

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc.errors import RobotsError

logger: logging.Logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: What is raised if there was no answer in time; download handlers of others raise the last two.
LATE: tuple[type[Exception], ...] = (DownloadTimeoutError, TwistedTimeoutError, TimeoutError)

#: What is raised inside a coroutine that was cancelled; Twisted's is a subclass of `Exception`.
CANCELLED: tuple[type[BaseException], ...] = (asyncio.CancelledError, CancelledError)

# Name of the attribute that marks an error of ours that stops a crawl at its start. Weak references do not serve: they
# are cleared before the error is logged, because it is part of a cycle that is collected.
_MARK = "_stopped_a_crawl"

# A date is shown that is at most this many seconds ahead, some thirty years: far dates cannot be shown.
_LONGEST = 1e9


class Cancellable(Protocol):
    """A task or a timer."""

    def cancel(self) -> object:
        """End it; nothing happens when it has ended."""


class Waiter(Generic[_T]):
    """A value that one coroutine waits for. Each waiter has its own future, so that cancelling one stops no other."""

    __slots__ = ("_deferred",)

    def __init__(self) -> None:
        self._deferred: Deferred[_T] = Deferred()

    def __await__(self) -> Generator[Any, Any, _T]:
        return maybe_deferred_to_future(self._deferred).__await__()

    def resolve(self, value: _T) -> None:
        """Hand over the value, unless the waiter was cancelled or has it already."""
        if not self._deferred.called:
            self._deferred.callback(value)


class Runtime:
    """Tasks, timers and the clock, whichever runtime Scrapy runs in."""

    # Tasks under way. An event loop has weak references to them only, and a Deferred is held by what it waits for at
    # most, so without this they could be collected.
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

        def ended(result: _T) -> _T:
            self._tasks.discard(deferred)
            return result

        deferred.addBoth(ended).addErrback(_unless_cancelled)
        return deferred

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        """Call a function after so many seconds."""
        return call_later(delay, function)

    def loop(self) -> Any:  # noqa: ANN401 - an event loop of asyncio, or Twisted's reactor
        """The event loop of this crawl. Crawls that run on the same one run on the same thread."""
        if is_asyncio_available():
            return asyncio.get_event_loop()
        from twisted.internet import reactor  # noqa: PLC0415 - imported sooner it would be installed

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


class Threads:
    """Daemon threads for calls that block; each is started when there is work for it.

    `concurrent.futures` does not serve here: at exit the interpreter waits for its threads, even for one that hangs.

    :param count: how many calls are under way at once; the others wait in a queue.
    :param name: the name of the threads, as a debugger shows it.
    """

    def __init__(self, count: int, runtime: Runtime, name: str) -> None:
        self._count, self._runtime, self._name = count, runtime, name
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._running: set[object] = set()
        self._started = 0

    @property
    def busy(self) -> int:
        """How many calls are under way, including those whose caller has given up."""
        return len(self._running)

    async def call(self, function: Callable[[], _T], *, limit: float) -> _T:
        """Call a function on a thread and return what it returns, or raise what it raises.

        :param limit: seconds to wait, including the time in the queue.
        :raises TimeoutError: it took longer. A call that has begun goes on, and its result is dropped.
        """
        waiter: Waiter[Future[_T]] = Waiter()
        loop, waiting, token = self._runtime.loop(), True, object()
        on_this_thread = loop.call_soon_threadsafe if is_asyncio_available() else loop.callFromThread

        def job() -> None:
            if not waiting:
                return
            self._running.add(token)
            done: Future[_T] = Future()
            try:
                done.set_result(function())
            except Exception as failure:  # noqa: BLE001 - raised again where it is waited for
                done.set_exception(failure)
            self._running.discard(token)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                on_this_thread(lambda: waiter.resolve(done))

        late: Future[_T] = Future()
        late.set_exception(TimeoutError(f"no answer in {limit:g} s"))
        timer = self._runtime.call_later(limit, lambda: waiter.resolve(late))
        self._jobs.put(job)
        if self._started < self._count:
            self._started += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        try:
            return (await waiter).result()
        finally:
            waiting = False
            timer.cancel()

    def stop(self) -> None:
        """Let the threads end when the queue is empty; `call` must not be used after this."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


@contextlib.contextmanager
def logged_in_one_line() -> Iterator[None]:
    """Have an error of ours that is raised within logged in one line, if nobody asks for it; its text says all.

    Scrapy gives such an error to whoever began the crawl. Scrapy's commands do not ask for it: then asyncio logs it
    with a traceback when the task is collected, and Twisted when the Deferred is. Only this log changes. A caller who
    asks gets the error, and all other errors are logged as usual.
    """
    try:
        yield
    except RobotsError as error:
        error.__dict__[_MARK] = True
        logging.getLogger("asyncio").addFilter(_is_other_record)
        twisted_logger = _scrapy.log_of_deferreds()
        if twisted_logger is not None and not isinstance(twisted_logger.observer, _Observer):
            twisted_logger.observer = _Observer(twisted_logger.observer)
        raise


def _is_other_record(record: logging.LogRecord) -> bool:
    """Whether a record of asyncio's is about anything else; ours is logged here."""
    return not (record.exc_info and _logged(record.exc_info[1]))


def _logged(error: BaseException | None) -> bool:
    if _MARK not in getattr(error, "__dict__", ()):
        return False
    logger.error("The crawl does not start: %s", error)
    return True


class _Observer:
    """Stands between Twisted's Deferreds and its log, and logs errors of ours in one line.

    For an error that nobody asked for, Twisted logs two events, one right after the other: a headline and the failure.

    :param observer: gets all other events.
    """

    def __init__(self, observer: Callable[[dict[str, Any]], None]) -> None:
        self._observer = observer
        self._headline: dict[str, Any] | None = None

    def __call__(self, event: dict[str, Any]) -> None:
        """Hold a headline back until its failure is known."""
        failure, headline, self._headline = event.get("log_failure"), self._headline, None
        if failure is not None and _logged(failure.value):
            return
        if headline is not None:
            self._observer(headline)
        if failure is None and event.get("isError"):
            self._headline = event
        else:
            self._observer(event)
