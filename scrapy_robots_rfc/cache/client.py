"""CacheClient: calls a store on threads. It warns of one that fails once, and the crawl goes on.

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
from scrapy_robots_rfc.policy.origins import Origin

logger: logging.Logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Seconds that a call may take before the crawl goes on without its answer. A store should give up
#: sooner by itself, because its own error can say why.
PATIENCE = 5.0
#: Seconds for which a call that failed is not tried again.
PAUSE = 5.0
#: An outage ends when each kind of call that failed works again, or was not made for so many
#: seconds after its pause.
QUIET = 60.0
#: Seconds that the clock of another machine may be ahead.
AHEAD = 60.0
#: Seconds that the end of the crawl waits for a store: to finish what is under way, and to close. A
#: healthy one needs a thousandth of that.
FAREWELL = 0.5


class CircuitBreaker:
    """Says which calls of a store are to be made: one that failed is not made again for a while.

    Each kind of call counts for itself, because on a full disk reading works and writing fails.

    :param name: the store, for people.
    """

    def __init__(
        self, name: str, *, clock: Callable[[], float], count: Callable[[str], None]
    ) -> None:
        self._name = name
        self._clock = clock
        self._count = count
        self._not_before: dict[str, float] = {}  # empty: there is no outage
        self._began = 0.0
        self._failed_last = 0.0

    def may_try(self, call: str) -> bool:
        """Whether a call is to be made.

        After a pause one call is made as a trial, and the others wait for its end.
        """
        now = self._clock()
        if now < self._not_before.get(call, now):
            return False
        if call in self._not_before:  # if the trial does not end, another one follows
            self._not_before[call] = now + PATIENCE + PAUSE
        return True

    def failed(self, call: str, error: Exception) -> None:
        """Count a failure, and log it if it begins an outage."""
        self._count(stats.STORE_ERRORS)
        now = self._failed_last = self._clock()
        if not self._not_before:
            self._began = now
            logger.warning(
                "The store of robots.txt files %s fails (%s: %s); the crawl goes on with its "
                "memory, and tries the store again every %g s",
                self._name, call, error_text(error), PAUSE,
            )  # fmt: skip
        self._not_before[call] = now + PAUSE

    def worked(self, call: str, since: float) -> None:
        """Note a success, and log it if it ends the outage.

        :param since: when the call was made. If that was before the last failure, its success says
            nothing.
        """
        if since < self._failed_last or not self._not_before:
            return
        self._not_before.pop(call, None)
        now = self._clock()
        if all(now >= again + QUIET for again in self._not_before.values()):
            self._not_before.clear()
            text = "The store of robots.txt files %s works again, after %.0f s"
            logger.info(text, self._name, now - self._began)


class CacheClient:
    """The store of a crawl. Its coroutines never raise, and never take long.

    :param store: not opened yet.
    :param name: the store, for people: its address without credentials.
    :param count: adds one to a stat.
    """

    def __init__(
        self, store: Store, name: str, *, runtime: Runtime, count: Callable[[str], None]
    ) -> None:
        self._store: Any = store
        self._name = name
        self._runtime = runtime
        self._count = count
        #: Whether workers take turns by this store; only then is anything asked of leases and
        #: turns.
        self.shared: bool = isinstance(store, SharedStore)
        self._owner = uuid.uuid4().hex
        self._threads = Threads(store.threads, runtime, "robots.txt store")
        self._breaker = CircuitBreaker(name, clock=runtime.clock, count=count)
        self._under_way = 0
        self._idle: Waiter[None] = Waiter()
        self._closed = False
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
            text = "The store of robots.txt files {} cannot be opened: {}"
            raise StoreError(text.format(self._name, error_text(error))) from error

    async def load(self, origin: Origin) -> CacheEntry | None:
        """Return what the store has of an origin, if that can be read; ``None``: nothing."""
        key = str(origin)
        value = await self._ask("get", lambda: self._store.get(key), otherwise=None)
        try:
            return None if value is None else self._on_our_clock(decode(value))
        except ValueError as error:
            self._count(stats.STORE_ERRORS)
            if not self._warned:
                self._warned = True
                logger.warning(
                    "The store of robots.txt files %s has what cannot be read (%s: %s): it is "
                    "fetched anew; further ones are only counted",
                    self._name, key, error,
                )  # fmt: skip
            await self.drop(origin)  # so that it is counted once
            return None

    def _on_our_clock(self, entry: CacheEntry) -> CacheEntry:
        """Return an entry on the clock of this crawl, with no time of the past later than now.

        The clock of the machine that wrote it may be ahead. If it is far ahead, the file is asked
        for again; else the entry would stay fresh until the clock of this machine has come that
        far.
        """
        now = self._runtime.clock()
        date = self._runtime.date()
        moved = entry.moved(now - date, latest=now)
        return moved.expiring(now) if entry.fetched > date + AHEAD else moved

    async def save(self, origin: Origin, entry: CacheEntry, seconds: float) -> None:
        """Put an entry into the store.

        :param seconds: after which no crawl needs it.
        """
        key = str(origin)
        dated = entry.moved(self._runtime.date() - self._runtime.clock())
        await self._ask("put", lambda: self._store.put(key, encode(dated), seconds), otherwise=None)

    async def drop(self, origin: Origin) -> None:
        """Delete the entry of an origin."""
        await self._ask("delete", partial(self._store.delete, str(origin)), otherwise=False)

    async def lease(self, origin: Origin, seconds: float) -> bool:
        """Whether this crawl is to fetch a file. It is, too, if the store fails."""
        lease = partial(self._store.lease, str(origin), self._owner, seconds)
        return await self._ask("lease", lease, otherwise=True)

    async def release(self, origin: Origin) -> None:
        """Let others fetch a file."""
        release = partial(self._store.release, str(origin), self._owner)
        await self._ask("release", release, otherwise=None)

    async def take_turn(self, origin: Origin, seconds: float, longest: float) -> float | None:
        """Ask for a turn as `SharedStore.take_turn` does; ``None`` if the store fails.

        :param longest: seconds. If the store says more, the call has failed: its clock is wrong, or
            another crawl has longer intervals.
        """

        def take() -> float:
            wait: float = self._store.take_turn(str(origin), self._owner, seconds)
            if 0 <= wait <= longest:
                return wait
            raise StoreError(
                f"the store says that the next turn begins in {wait:g} s, although no interval of "
                "this crawl is longer than ROBOTS_CRAWL_DELAY_MAX: look at the clock of the store"
            )

        return await self._ask("take_turn", take, otherwise=None)

    async def end_turn(self, origin: Origin, interval: float) -> None:
        """End a turn as `SharedStore.end_turn` does."""
        end = partial(self._store.end_turn, str(origin), self._owner, interval)
        await self._ask("end_turn", end, otherwise=None)

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
        self._breaker.worked(call, since)
        return value

    def later(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Do something in the background; the end of the crawl waits for it."""
        self._runtime.spawn(self._counted(coroutine))

    async def _counted(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        self._under_way += 1
        try:
            return await coroutine
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.resolve(None)

    async def drain(self) -> bool:
        """Wait a little until nothing is under way; whether that came."""
        ended: list[bool] = []

        def end() -> None:
            ended.append(True)
            self._idle.resolve(None)

        timer = self._runtime.call_later(FAREWELL, end)
        await self._runtime.sleep(0)  # what was spawned before begins first
        while self._under_way and not ended:
            self._idle = Waiter()
            await self._idle
            await self._runtime.sleep(0)  # what follows from it begins: a turn that came is ended
        timer.cancel()
        return not self._under_way

    async def close(self) -> None:
        """Close the store, unless a call of it does not end: nothing is called beside `close`."""
        self._closed = True
        try:
            if self._under_way or self._threads.busy:
                if self._store.threads == 1:  # that thread closes it when the call ends
                    self._threads.later(self._store.close)
                raise TimeoutError("a call does not end")
            await self._threads.call(self._store.close, limit=FAREWELL)
        except Exception as error:  # noqa: BLE001 - a store's own
            self._breaker.failed("close", error)
        self._threads.stop()
