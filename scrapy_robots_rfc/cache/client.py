"""CacheClient: calls a store on threads. It warns of one that fails once, and the crawl goes on.

Callers see times on the clock of the crawl; in the store they are seconds since 1970.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import CANCELLED, Runtime, Threads
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
#: Seconds without a failure after which the next one is logged again.
QUIET = 60.0
#: Seconds that the clock of another machine may be ahead.
AHEAD = 60.0
#: Seconds that the end of the crawl waits for a store: to finish what is under way, and to close. A
#: healthy one needs a thousandth of that.
FAREWELL = 0.5
#: Seconds between the looks whether what is under way has finished; together as many.
_PAUSES = (0.01, 0.04, 0.15, 0.3)


class CacheClient:
    """The store of a crawl. Its coroutines never raise, and never take long.

    :param store: opened.
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
        # For each kind of call that failed, when it may be made again. On a full disk, reading
        # works and writing fails.
        self._not_before: dict[str, float] = {}
        self._silent_until = -math.inf
        self._under_way = 0
        self._closed = False
        self._warned = False

    async def load(self, origin: Origin) -> CacheEntry | None:
        """Return what the store has of an origin, if that can be read; ``None``: nothing."""
        key = str(origin)
        value = await self._ask("get", self._store.get, key, otherwise=None)
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
        moved = entry.moved(now - max(date, entry.fetched), now)
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
        await self._ask("delete", self._store.delete, str(origin), otherwise=False)

    async def lease(self, origin: Origin, seconds: float) -> bool:
        """Whether this crawl is to fetch a file. It is, too, if the store fails."""
        return await self._ask(
            "lease", self._store.lease, str(origin), self._owner, seconds, otherwise=True
        )

    async def release(self, origin: Origin) -> None:
        """Let others fetch a file."""
        await self._ask("release", self._store.release, str(origin), self._owner, otherwise=None)

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
        await self._ask(
            "end_turn", self._store.end_turn, str(origin), self._owner, interval, otherwise=None
        )

    async def _ask(
        self, call: str, function: Callable[..., _T], *arguments: object, otherwise: _T
    ) -> _T:
        now = self._runtime.clock()
        if self._closed or now < self._not_before.get(call, now):
            return otherwise
        if call in self._not_before:  # this one is a trial, and the others wait for its end
            self._not_before[call] = now + PATIENCE + PAUSE
        self._under_way += 1
        try:
            value = await self._threads.call(partial(function, *arguments), limit=PATIENCE)
        except CANCELLED:  # this is not the store's fault
            raise
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the crawl goes on
            self._failed(call, error)
            return otherwise
        finally:
            self._under_way -= 1
        if self._silent_until <= now + QUIET:  # no call has failed since this one began
            self._not_before.pop(call, None)
        return value

    def _failed(self, call: str, error: Exception) -> None:
        """Count a failure, and log the first one of an outage."""
        self._count(stats.STORE_ERRORS)
        now = self._runtime.clock()
        if now >= self._silent_until:
            logger.warning(
                "The store of robots.txt files %s fails (%s: %s); the crawl goes on with its "
                "memory, and tries the store again every %g s",
                self._name, call, error_text(error), PAUSE,
            )  # fmt: skip
        self._silent_until = now + QUIET
        self._not_before[call] = now + PAUSE

    async def drain(self) -> bool:
        """Wait a little until no call is under way; whether that came."""
        for seconds in _PAUSES:
            await self._runtime.sleep(seconds)  # what was spawned before begins meanwhile
            if not self._under_way:
                return True
        return False

    async def close(self) -> None:
        """Close the store when no call is under way any more: nothing is called beside `close`."""
        self._closed = True
        try:
            if self._store.threads > 1 and (self._under_way or self._threads.running):
                raise TimeoutError("a call does not end")
            # A single thread closes it, if late, when the call before has ended.
            await self._threads.call(self._store.close, limit=FAREWELL, dropped=False)
        except Exception as error:  # noqa: BLE001 - a store's own
            self._failed("close", error)
        self._threads.stop()
