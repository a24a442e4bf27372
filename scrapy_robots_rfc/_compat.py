"""What differs between Scrapy's versions and between its runtimes: asyncio, another reactor, no reactor.

In here: primitives to run, wait and time with, and every look into Scrapy's private parts. Nothing about robots.txt.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from scrapy import signals
from scrapy.utils.asyncio import call_later, is_asyncio_available
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator

    from scrapy import Request
    from scrapy.crawler import Crawler

_T = TypeVar("_T")

#: A slot of the downloader, Scrapy's or the user's own.
_Slot: TypeAlias = Any

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

    def utc(self) -> datetime.time:
        """The time of day in UTC."""
        return datetime.datetime.now(datetime.UTC).time()


class GatedSlots:
    """A gate in slots of the downloader: each request of such a slot asks before it starts.

    Scrapy asks a slot `free_transfer_slots()` right before it takes the first request from the slot's queue and starts
    it, after delay and jitter have passed: nothing that anybody sets can get by there, and nothing of it is changed.

    :param wait: seconds until a request may start; 0, and it starts now; ``None``: `go_on` will be called for its slot.
    """

    def __init__(self, crawler: Crawler, wait: Callable[[Request], float | None]) -> None:
        self._crawler = crawler
        self._wait = wait
        self._classes: dict[type, type] = {}

    def gate(self, key: str | None) -> tuple[bool, Collection[Request]] | None:
        """Put the gate into a slot, if it is not there yet.

        :param key: the name of the slot.
        :returns: whether the slot was used before, and the requests that are not in its queue: they are under way, or
            about to join it; ``None`` if the gate was there.
        :raises TypeError: the user's own downloader has no slots, or they cannot be gated.
        """
        slot = self._slot(key)
        if not hasattr(slot, "free_transfer_slots"):
            raise TypeError("no slot of Scrapy's kind")
        if type(slot) in self._classes.values():
            return None
        slot.__class__ = self._gated(type(slot))  # a slot has no room for anything of ours
        return slot.lastseen > 0, slot.active - {request for request, _ in slot.queue}

    def go_on(self, key: str) -> None:
        """Let a slot ask again for the first request of its queue."""
        slot = self._slot(key)
        if slot is not None and slot.queue:
            self._crawler.engine.downloader._process_queue(slot)

    def _slot(self, key: str | None) -> _Slot:
        return getattr(self._crawler.engine.downloader, "slots", {}).get(key)

    def _gated(self, base: type) -> type:
        def free_transfer_slots(slot: _Slot) -> int:
            free: int = base.free_transfer_slots(slot)  # type: ignore[attr-defined]  # Scrapy's Slot
            return free if free <= 0 or not slot.queue or self._may_start(slot) else 0

        if base not in self._classes:
            members = {"__slots__": (), "free_transfer_slots": free_transfer_slots}
            self._classes[base] = type(f"Gated{base.__name__}", (base,), members)
        return self._classes[base]

    def _may_start(self, slot: _Slot) -> bool:
        seconds = self._wait(slot.queue[0][0])
        if seconds and not slot.latercall:  # as the downloader itself does when it waits for a delay
            slot.latercall = call_later(seconds, self._crawler.engine.downloader._latercall, slot)
        return seconds == 0


def send_once(crawler: Crawler) -> None:
    """Let no download handler that is in use send a request again by itself when a kept connection breaks.

    Twisted and aiohttp do so at once, where neither the downloader nor RetryMiddleware sees it. Handlers of the user's
    own are left alone.
    """
    handlers = getattr(getattr(crawler.engine.downloader, "handlers", None), "_handlers", {})
    for handler in handlers.values():
        if hasattr(handler, "_pool"):
            handler._pool.retryAutomatically = False
        if hasattr(handler, "_session"):
            handler._session._retry_connection = False


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
