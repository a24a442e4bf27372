"""The keeper: a crawl's store, off the event loop; what fails is counted, told once, and never in the way.

In here: threads, errors, clocks. Times are those of the crawl's own clock outside, and seconds since 1970 in the store.
"""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import CANCELLED, Threads, Waiter
from scrapy_robots_rfc.cache.breaker import CircuitBreaker, said
from scrapy_robots_rfc.cache.entry import CacheEntry, decode, encode
from scrapy_robots_rfc.cache.stores.base import SharedStore
from scrapy_robots_rfc.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.cache.stores.base import Store
    from scrapy_robots_rfc.policy.origins import Origin

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Seconds that a call may take before the crawl goes on without its answer. A store that can give up earlier by itself
#: should: its error says more.
PATIENCE = 5.0
#: Seconds that the clock of another machine may be ahead.
AHEAD = 60.0
#: Values that cannot be read and are known to have been counted.
_UNREADABLE = 1000
#: Seconds that a store has to finish when the crawl ends, and to close.
FAREWELL = 0.35


class CacheClient:
    """The store of a crawl. No coroutine of it raises, or takes long.

    :param store: not opened yet.
    :param name: the store, for people: its address without credentials.
    :param count: adds one to a stat.
    """

    def __init__(self, store: Store, name: str, *, runtime: Runtime, count: Callable[[str], None]) -> None:
        self._store, self._name, self._runtime, self._count = store, name, runtime, count
        self._shared = store if isinstance(store, SharedStore) else None
        self._owner = uuid.uuid4().hex
        self._threads = Threads(store.threads, runtime, "robots.txt store")
        self._outages = CircuitBreaker(name, PATIENCE, clock=runtime.clock, count=count)
        self._under_way = 0
        self._idle: Waiter[None] | None = None
        self._closed = False
        self._warned = False
        self._seen: dict[str, None] = {}  # keys whose value could not be read, oldest first

    @property
    def name(self) -> str:
        """The store, for people."""
        return self._name

    @property
    def shared(self) -> bool:
        """Whether workers take turns by this store."""
        return self._shared is not None

    def start(self) -> None:
        """Open the store.

        :raises StoreError: it cannot work.
        """
        try:
            self._store.open()
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"The store of robots.txt files {self._name} cannot be opened: {said(error)}") from error

    async def load(self, origin: Origin) -> CacheEntry | None:
        """Return what the store has of an origin; ``None`` where that is nothing, or nothing that can be read."""
        key = str(origin)
        value = await self._ask("get", lambda: _read(self._store.get(key)), otherwise=None)
        if isinstance(value, ValueError):
            self._unreadable(key, value)
            return None
        self._seen.pop(key, None)
        return None if value is None else self._here(value)

    async def save(self, origin: Origin, copy: CacheEntry, keep: float) -> None:
        """Put a copy into the store.

        :param keep: seconds after which nobody wants it.
        """
        key, dated = str(origin), copy.moved(self._since_1970())
        self._seen.pop(key, None)
        if keep > 0:
            await self._ask("put", lambda: self._store.put(key, encode(dated), keep), otherwise=None)

    async def drop(self, origin: Origin) -> None:
        """Have the store forget an origin."""
        key = str(origin)
        await self._ask("delete", lambda: self._store.delete(key), otherwise=False)

    async def lease(self, origin: Origin, seconds: float) -> bool:
        """Whether this crawl is to fetch a file: yes, where the store is not shared, or fails."""
        key, shared = str(origin), self._shared
        if shared is None:
            return True
        return await self._ask("lease", lambda: shared.lease(key, self._owner, seconds), otherwise=True)

    async def release(self, origin: Origin) -> None:
        """Let others fetch a file."""
        key, shared = str(origin), self._shared
        if shared is not None:
            await self._ask("release", lambda: shared.release(key, self._owner), otherwise=None)

    async def take_turn(self, origin: Origin, hold: float, longest: float) -> float | None:
        """As `SharedStore.take_turn`, for this crawl; ``None`` where the store is not shared, or fails.

        :param longest: seconds. A store that says more fails: its clock is wrong, or others keep longer intervals.
        """
        key, shared = str(origin), self._shared
        if shared is None:
            return None
        ask = partial(shared.take_turn, key, self._owner, hold)
        return await self._ask("take_turn", lambda: _believable(ask(), longest), otherwise=None)

    async def end_turn(self, origin: Origin, interval: float) -> None:
        """As `SharedStore.end_turn`, for this crawl."""
        key, shared = str(origin), self._shared
        if shared is not None:
            await self._ask("end_turn", lambda: shared.end_turn(key, self._owner, interval), otherwise=None)

    async def close(self) -> None:
        """Wait a little for what is still to be written, and close the store."""
        await self._next_turn()  # calls that were spawned before this one begin
        if self._closed:
            return
        self._closed = True
        if self._under_way:
            self._idle = Waiter()
            timer = self._runtime.call_later(FAREWELL, partial(self._idle.resolve, None))
            await self._idle
            timer.cancel()
        try:
            await self._threads.call(self._last, limit=FAREWELL)
        except Exception as error:  # noqa: BLE001 - a store's own
            self._outages.failed("close", error)
        self._threads.stop()

    def _last(self) -> None:
        """Close the store, unless a call hangs in it: nothing is called beside its `close`."""
        if self._threads.busy > 1:
            raise TimeoutError("a call does not end")
        self._store.close()

    async def _ask(self, call: str, function: Callable[[], _T], *, otherwise: _T) -> _T:
        if self._closed or not self._outages.may_try(call):
            return otherwise
        since = self._runtime.clock()
        self._under_way += 1
        try:
            value = await self._threads.call(function, limit=PATIENCE)
        except CANCELLED:  # no fault of the store's
            raise
        except Exception as error:  # noqa: BLE001 - a store's own: none of them is the crawl's end
            self._outages.failed(call, error)
            return otherwise
        finally:
            self._under_way -= 1
            if self._under_way == 0 and self._idle is not None:
                self._idle.resolve(None)
        self._outages.worked(call, since)
        return value

    async def _next_turn(self) -> None:
        turn: Waiter[None] = Waiter()
        self._runtime.call_later(0, lambda: turn.resolve(None))
        await turn

    def _since_1970(self) -> float:
        """What the clock of the crawl lacks to the one that dates are made with."""
        return self._runtime.date() - self._runtime.clock()

    def _here(self, copy: CacheEntry) -> CacheEntry:
        """Return a copy on the clock of this crawl. Another machine's clock may be ahead: nothing was in the future.

        One from far ahead is asked for again: else it would be fresh until the date of this machine has come that far.
        """
        now = self._runtime.clock()
        ahead = copy.fetched > self._runtime.date() + AHEAD
        copy = copy.moved(-self._since_1970(), latest=now)
        return copy.expiring(now) if ahead else copy

    def _unreadable(self, key: str, error: ValueError) -> None:
        if key in self._seen:  # looked at once more, before and after a lease was taken
            return
        self._seen[key] = None
        if len(self._seen) > _UNREADABLE:
            del self._seen[next(iter(self._seen))]
        self._count(stats.STORE_UNREADABLE)
        if not self._warned:
            self._warned = True
            logger.warning(
                "The store of robots.txt files %s holds what cannot be read (%s: %s): it is fetched anew; further ones "
                "are only counted",
                self._name, key, error,
            )  # fmt: skip


def _believable(seconds: float, longest: float) -> float:
    """Return what a store says of the next turn.

    :raises StoreError: it cannot be so.
    """
    if 0 <= seconds <= longest:
        return seconds
    raise StoreError(
        f"the next turn is said to begin in {seconds:g} s, although no interval of this crawl is longer than "
        "ROBOTSTXT_CRAWL_DELAY_MAX: look at the clock of the store"
    )


def _read(value: bytes | None) -> CacheEntry | ValueError | None:
    """Return what a value means: no fault of a value is the store's failure."""
    if value is None:
        return None
    try:
        return decode(value)
    except ValueError as error:
        return error
