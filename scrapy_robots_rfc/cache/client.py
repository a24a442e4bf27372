"""CacheClient: calls a store on threads. One that fails is warned of once an outage, and the crawl goes on.

Callers see times on the clock of the crawl; in the store they are seconds since 1970.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import CANCELLED, Runtime, Threads, Waiter
from scrapy_robots_rfc.cache.entry import CacheEntry, decode, encode
from scrapy_robots_rfc.cache.stores.base import SharedStore, Store
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.errors import StoreError
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin

logger: logging.Logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Seconds that a call may take before the crawl goes on without its answer. A store should give up
#: sooner by itself, because its own error can say why.
PATIENCE = 5.0
#: Seconds for which a call that failed is not tried again.
PAUSE = 5.0
#: An outage ends when the kind of call that failed first works again. If no such call is made any
#: more, it ends with a call of another kind that works, when nothing has failed for so many
#: seconds.
QUIET = 60.0
#: Seconds that the clock of another machine may be ahead.
AHEAD = 60.0
#: Seconds that a store has to finish when the crawl ends, and as many to close. One that answers
#: nothing for so long while the end of the crawl waits for it is not waited for any more: a healthy
#: one needs a thousandth of that.
FAREWELL = 0.5


class CircuitBreaker:
    """Says which calls of a store are to be made: after a failure, a call of the same kind is not made for a while.

    Each kind of call counts for itself, because on a full disk reading works and writing fails.

    :param name: the store, for people.
    """

    def __init__(
        self, name: str, *, clock: Callable[[], float], count: Callable[[str], None]
    ) -> None:
        self._name, self._clock, self._count = name, clock, count
        self._not_before: dict[str, float] = {}
        self._began: tuple[str, float] | None = None
        self._failed_last = 0.0

    def may_try(self, call: str) -> bool:
        """Whether a call is to be made.

        After a pause one call is made as a trial, and the others wait for its end.
        """
        now = self._clock()
        if now < self._not_before.get(call, now):
            return False
        if call in self._not_before:
            self._not_before[call] = (
                now + PATIENCE + PAUSE
            )  # if the trial does not end, another one follows
        return True

    def failed(self, call: str, error: Exception) -> None:
        """Count a failure, and log it if it begins an outage."""
        self._count(stats.STORE_ERRORS)
        now = self._failed_last = self._clock()
        self._not_before[call] = now + PAUSE
        if self._began is None:
            self._began = call, now
            logger.warning(
                "The store of robots.txt files %s fails (%s: %s); the crawl goes on with its memory, and tries the "
                "store again every %g s",
                self._name, call, error_text(error), PAUSE,
            )  # fmt: skip

    def worked(self, call: str, since: float) -> None:
        """Note a success, and log it if it ends the outage.

        :param since: when the call was made. If that was before the last failure, its success says
            nothing.
        """
        if since < self._failed_last or not self._not_before:
            return
        self._not_before.pop(call, None)
        if self._began is not None:
            first, began = self._began
            now = self._clock()
            if call == first or now >= self._failed_last + QUIET:
                self._began = None
                logger.info(
                    "The store of robots.txt files %s works again, after %.0f s",
                    self._name,
                    now - began,
                )


class CacheClient:
    """The store of a crawl. None of its coroutines raises, or takes long.

    :param store: not opened yet.
    :param name: the store, for people: its address without credentials.
    :param count: adds one to a stat.
    """

    def __init__(
        self, store: Store, name: str, *, runtime: Runtime, count: Callable[[str], None]
    ) -> None:
        self._store: Any = store
        self._name, self._runtime, self._count = name, runtime, count
        #: Whether workers take turns by this store; only then is anything asked of leases and
        #: turns.
        self.shared: bool = isinstance(store, SharedStore)
        self._owner = uuid.uuid4().hex
        self._threads = Threads(store.threads, runtime, "robots.txt store")
        self._breaker = CircuitBreaker(name, clock=runtime.clock, count=count)
        self._under_way = 0
        self._idle: Waiter[None] | None = None
        self._answers = 0
        self._silent = self._closed = False
        self._warned = False

    def start(self) -> None:
        """Open the store.

        :raises StoreError: it cannot work.
        """
        try:
            self._store.open()
        except StoreError:
            raise
        except Exception as error:
            text = (
                f"The store of robots.txt files {self._name} cannot be opened: {error_text(error)}"
            )
            raise StoreError(text) from error

    async def load(self, origin: Origin) -> CacheEntry | None:
        """Return what the store has of an origin.

        ``None`` if it has nothing, or nothing that can be read.
        """
        key = str(origin)
        value = await self._ask("get", lambda: self._store.get(key), otherwise=None)
        try:
            return None if value is None else self._on_our_clock(_believed(decode(value)))
        except ValueError as error:
            self._count(stats.STORE_ERRORS)
            if not self._warned:
                self._warned = True
                logger.warning(
                    "The store of robots.txt files %s holds what cannot be read (%s: %s): it is fetched anew; further "
                    "ones are only counted",
                    self._name, key, error,
                )  # fmt: skip
            await self.drop(origin)  # so that it is counted once
            return None

    async def save(self, origin: Origin, entry: CacheEntry, keep: float) -> None:
        """Put an entry into the store.

        :param keep: seconds after which nobody needs it.
        """
        key, dated = str(origin), entry.moved(self._runtime.date() - self._runtime.clock())
        await self._ask("put", lambda: self._store.put(key, encode(dated), keep), otherwise=None)

    async def drop(self, origin: Origin) -> None:
        """Delete the entry of an origin."""
        await self._ask("delete", lambda: self._store.delete(str(origin)), otherwise=False)

    async def lease(self, origin: Origin, seconds: float) -> bool:
        """Whether this crawl is to fetch a file. It is, too, if the store fails."""
        return await self._ask(
            "lease", lambda: self._store.lease(str(origin), self._owner, seconds), otherwise=True
        )

    async def release(self, origin: Origin) -> None:
        """Let others fetch a file."""
        await self._ask(
            "release", lambda: self._store.release(str(origin), self._owner), otherwise=None
        )

    async def take_turn(self, origin: Origin, hold: float, longest: float) -> float | None:
        """Ask for a turn as `SharedStore.take_turn` does; ``None`` if the store fails.

        :param longest: seconds. If the store says more, the call has failed: its clock is wrong, or
            another crawl keeps longer intervals.
        """

        def take() -> float:
            seconds: float = self._store.take_turn(str(origin), self._owner, hold)
            if 0 <= seconds <= longest:
                return seconds
            raise StoreError(
                f"the next turn is said to begin in {seconds:g} s, although no interval of this crawl is longer than "
                "ROBOTS_CRAWL_DELAY_MAX: look at the clock of the store"
            )

        return await self._ask("take_turn", take, otherwise=None)

    async def end_turn(self, origin: Origin, interval: float) -> None:
        """End a turn as `SharedStore.end_turn` does."""
        await self._ask(
            "end_turn",
            lambda: self._store.end_turn(str(origin), self._owner, interval),
            otherwise=None,
        )

    def later(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Do something in the background; the end of the crawl waits for it."""
        self._runtime.spawn(self._counted(coroutine))

    async def drain(self, patience: float) -> None:
        """Wait until nothing is under way, for so many seconds at most. What was spawned before begins first.

        A store that has answered nothing for FAREWELL seconds is not waited for, now and in later
        calls.
        """
        begun: Waiter[None] = Waiter()
        self._runtime.call_later(0, partial(begun.resolve, None))
        await begun
        while self._under_way and patience > 0 and not self._silent:
            self._idle, answers = Waiter(), self._answers
            timer = self._runtime.call_later(
                min(patience, FAREWELL), partial(self._idle.resolve, None)
            )
            await self._idle
            timer.cancel()
            patience -= FAREWELL
            self._silent = bool(self._under_way) and answers == self._answers

    async def close(self) -> None:
        """Wait a little for what is under way, and close the store."""
        await self.drain(FAREWELL)
        self._closed = True
        try:
            await self._threads.call(self._close_store, limit=0 if self._silent else FAREWELL)
        except Exception as error:  # noqa: BLE001 - a store's own
            self._breaker.failed("close", error)
        self._threads.stop()

    def _close_store(self) -> None:
        if self._threads.busy > 1:  # nothing is called beside `close`
            raise TimeoutError("a call does not end")
        self._store.close()

    async def _ask(self, call: str, function: Callable[[], _T], *, otherwise: _T) -> _T:
        if self._closed or not self._breaker.may_try(call):
            return otherwise
        since = self._runtime.clock()
        try:
            value = await self._counted(self._threads.call(function, limit=PATIENCE))
        except CANCELLED:  # this is not the store's fault
            raise
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the crawl goes on
            self._breaker.failed(call, error)
            return otherwise
        self._answers += 1
        self._breaker.worked(call, since)
        return value

    async def _counted(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        self._under_way += 1
        try:
            return await coroutine
        finally:
            self._under_way -= 1
            if not self._under_way and self._idle is not None:
                self._idle.resolve(None)

    def _on_our_clock(self, entry: CacheEntry) -> CacheEntry:
        """Return an entry on the clock of this crawl. No time of the past is later than now, whatever was written.

        The clock of the machine that wrote it may be ahead. If it is far ahead, the file is asked
        for again; else the entry would stay fresh until the clock of this machine has come that
        far.
        """
        now, date = self._runtime.clock(), self._runtime.date()
        far_ahead, entry = entry.fetched > date + AHEAD, entry.moved(now - date, latest=now)
        return entry.expiring(now) if far_ahead else entry


def _believed(entry: CacheEntry) -> CacheEntry:
    """Return an entry of a store.

    :raises ValueError: it says that another crawl failed. That is nothing of the site's: no crawl
        of ours writes it.
    """
    if entry.validity.outcome is Outcome.LOCAL:
        raise ValueError("its outcome is local")
    return entry
