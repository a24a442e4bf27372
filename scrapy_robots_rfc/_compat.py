"""What differs between Scrapy's versions and between its runtimes: asyncio, another reactor, no reactor.

In here: primitives to run, wait and time with, and every look into Scrapy's private parts. Nothing about robots.txt.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from scrapy import signals
from scrapy.utils.asyncio import call_later, is_asyncio_available
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator

    from scrapy.crawler import Crawler

_T = TypeVar("_T")

#: Sent after a robots.txt was parsed, from Scrapy 2.18 on; `None` before.
ROBOTS_PARSED: object | None = getattr(signals, "robots_parsed", None)


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

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Cancellable:
        """Run a coroutine that handles its own errors as a task of its own. Without asyncio it starts at once."""
        if is_asyncio_available():
            return asyncio.get_event_loop().create_task(coroutine)
        deferred = Deferred.fromCoroutine(coroutine)
        deferred.addErrback(lambda _: None)  # cancelled: what it was to do is done elsewhere
        return deferred

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        """Call a function after so many seconds."""
        return call_later(delay, function)

    def clock(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is being closed, or is closed.

    Scrapy has no signal for the start of closing: it waits for the requests in progress, and `spider_closed` comes when
    that is over.
    """
    engine = crawler.engine
    slot = engine._slot
    return engine.spider is None or slot is None or slot.closing is not None


def queued_metas(crawler: Crawler) -> Collection[dict[str, Any]]:
    """The meta of every request that waits in a queue of the downloader, for its slot's delay or concurrency."""
    # A downloader that the user put in Scrapy's place need not have slots.
    slots = getattr(crawler.engine.downloader, "slots", {})
    return [request.meta for slot in slots.values() for request, _ in slot.queue]
