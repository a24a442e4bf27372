"""CacheClient: reads the store of a crawl before each fetch, and writes to it afterwards.

It calls the store on threads. If the store fails, one warning says so and the crawl goes on.
Workers that share a store lock a file while they fetch it, so that only one does. Callers see times
on the clock of the crawl; the store has seconds since 1970.
"""

import logging
import math
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import CANCELLED, Cancellable, Runtime, Threads
from scrapy_robots_rfc.cache.entry import CacheEntry, decode, encode
from scrapy_robots_rfc.cache.stores.base import SharedStore, Store
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.errors import StoreError
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Seconds after which the crawl goes on without the answer of a call. A store should give up sooner
#: by itself, because its own error can say why.
CALL_TIMEOUT = 5.0
#: Seconds between a call that failed and the next one of its kind.
RETRY_DELAY = 5.0
#: Seconds without a failure after which the next one is logged again.
QUIET = 60.0
#: Seconds that the clock of another machine may be ahead.
MAX_CLOCK_SKEW = 60.0
#: Seconds that the wait for a turn may exceed the longest interval: while another worker has the
#: turn, the store says to ask again after five seconds, and times are rounded.
TURN_SLACK = 6.0
#: Seconds after which a lock ends if its crawl died and does not renew it.
LEASE = 15.0
#: Seconds between two renewals.
RENEW_INTERVAL = 5.0
#: Seconds after which the crawl fetches a file although another worker has its lease, which may
#: never end.
LEASE_PATIENCE = 60.0
#: Seconds that the end of the crawl waits for the store to close; a healthy one needs a thousandth
#: of that.
CLOSE_TIMEOUT = 0.5
#: Seconds between the checks, at the end of the crawl, whether all calls have ended: half a second
#: together.
_CLOSE_DELAYS = (0.01, 0.04, 0.15, 0.3)


class CacheClient:
    """The store of a crawl. Its coroutines never raise; each call has `CALL_TIMEOUT` seconds.

    :param store: an open store.
    :param name: its human-readable name: the address without credentials.
    :param settings: the settings of the crawl, which say for how long it uses an entry.
    :param count: adds one to a stat.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        settings: Settings,
        *,
        runtime: Runtime,
        count: Callable[[str], None],
    ) -> None:
        self._store: Any = store
        self._name = name
        self._settings = settings
        self._runtime = runtime
        self._count = count
        #: Whether the store has leases and turns, so that several workers can share it.
        self.shared: bool = isinstance(store, SharedStore)
        self._owner = uuid.uuid4().hex
        self._threads = Threads(store.threads, runtime, "robots.txt store")
        # The origins whose files this crawl has locked, and since when others have been.
        self._locked: set[Origin] = set()
        self._refused_since: dict[Origin, float] = {}
        self._warned_of_lease = False
        self._timer: Cancellable | None = None
        # When a kind of call that failed may be made again. On a full disk, reads work and writes
        # fail.
        self._not_before: dict[str, float] = {}
        self._silent_until = -math.inf
        self._running = 0
        self._closed = False
        self._warned_of_entry = False

    # Before a fetch, and after it.

    async def find_entry(
        self, origin: Origin, known: CacheEntry | None
    ) -> tuple[CacheEntry | None, bool, bool]:
        """Look for an entry before a fetch.

        :param known: the entry in memory, which is not fresh.
        :returns: the newest entry, whether it is fresh, and, if it is not, whether this crawl
            should fetch the file.
        """
        newest, fresh = await self._newest(origin, known)
        may_fetch = not fresh and await self.lock(origin)
        if may_fetch and self.shared:  # the previous owner of the lock may have stored it
            newest, fresh = await self._newest(origin, newest)
        if fresh:
            self._runtime.spawn(self.unlock(origin))
        return newest, fresh, may_fetch

    async def _newest(
        self, origin: Origin, known: CacheEntry | None
    ) -> tuple[CacheEntry | None, bool]:
        loaded = await self.load(origin)
        if loaded is None or (known is not None and loaded.fetched < known.fetched):
            return known, False
        now = self._runtime.clock()
        loaded = loaded.reviewed(now, self._settings)
        return loaded, now < loaded.validity.fresh_until

    async def publish(self, origin: Origin, entry: CacheEntry, *, stored: bool) -> None:
        """Store an entry, then unlock the file.

        :param stored: whether the site allows storing it.
        """
        if stored:
            await self.save(origin, entry)
        elif entry.validity.unreachable_since is None:
            # The earlier entry must no longer be used, not even as a stale one.
            await self._drop(origin)
        await self.unlock(origin)

    # Entries.

    async def load(self, origin: Origin) -> CacheEntry | None:
        """Return the entry of an origin in the store, or `None` if it has none that can be read."""
        key = str(origin)
        value = await self._call("get", self._store.get, key, default=None)
        if value is None:
            return None
        try:
            entry = decode(value)
        except ValueError as error:
            self._count(stats.STORE_ERRORS)
            if not self._warned_of_entry:
                self._warned_of_entry = True
                logger.warning(
                    "The store of robots.txt files %s has a copy that cannot be read (%s: %s); the "
                    "file is fetched again; further copies of this kind are only counted",
                    self._name, key, error,
                )  # fmt: skip
            await self._drop(origin)  # so that it is counted once
            return None
        now = self._runtime.clock()
        date = self._runtime.date()
        # The clock of the machine that wrote it may be ahead, so no time in the past may be later
        # than now. If it is far ahead, the file is fetched again; otherwise the entry would stay
        # fresh until the clock of this machine has caught up.
        moved = entry.shifted(now - max(date, entry.fetched), now)
        return moved.expiring_by(now) if entry.fetched > date + MAX_CLOCK_SKEW else moved

    async def save(self, origin: Origin, entry: CacheEntry) -> None:
        """Store an entry for as long as a crawl may need it."""
        now = self._runtime.clock()
        seconds = entry.stored_for(now, self._settings)
        dated = entry.shifted(self._runtime.date() - now)

        def put() -> None:
            self._store.put(str(origin), encode(dated), seconds)

        await self._call("put", put, default=None)

    async def _drop(self, origin: Origin) -> None:
        await self._call("delete", self._store.delete, str(origin), default=False)

    # Locks.

    async def lock(self, origin: Origin) -> bool:
        """Return whether this crawl should fetch a file now; others then wait until it unlocks it.

        It should, too, if the store fails, or if another worker has had the lease for so long that
        the lease may never end.
        """
        if not self.shared:
            return True
        # Before the answer arrives, so that a crawl that ends before releases the lock.
        self._locked.add(origin)
        if self._timer is None:
            self._timer = self._runtime.call_later(RENEW_INTERVAL, self._renew_all)
        await self._renew(origin)
        if origin not in self._locked:
            return self._has_waited_enough(origin)
        self._refused_since.pop(origin, None)
        return True

    def _has_waited_enough(self, origin: Origin) -> bool:
        """Return whether another worker has had a lease for longer than a fetch should take."""
        now = self._runtime.clock()
        if now - self._refused_since.setdefault(origin, now) < LEASE_PATIENCE:
            return False
        if not self._warned_of_lease:
            self._warned_of_lease = True
            logger.warning(
                "The store of robots.txt files %s says that another worker has been fetching %s "
                "for %g s; this crawl fetches it itself. If no worker does, delete its lease",
                self._name, origin.robots_url, LEASE_PATIENCE,
            )  # fmt: skip
        return True

    def _renew_all(self) -> None:
        self._timer = self._runtime.call_later(RENEW_INTERVAL, self._renew_all)
        for origin in list(self._locked):
            self._runtime.spawn(self._renew(origin))

    async def _renew(self, origin: Origin) -> None:
        has_lease = await self._call(
            "lease", self._store.lease, str(origin), self._owner, LEASE, default=True
        )
        if not has_lease:
            self._locked.discard(origin)  # another worker has it
        elif origin not in self._locked:  # it was unlocked while the store renewed the lease
            await self._release(origin)

    async def unlock(self, origin: Origin) -> None:
        """Let other workers fetch a file."""
        self._refused_since.pop(origin, None)
        if origin in self._locked:
            self._locked.discard(origin)
            await self._release(origin)

    async def _release(self, origin: Origin) -> None:
        await self._call("release", self._store.release, str(origin), self._owner, default=None)

    # Turns.

    async def take_turn(self, origin: Origin, seconds: float) -> float | None:
        """Take a turn like `SharedStore.take_turn`; return `None` if the store fails."""

        def take() -> float:
            wait: float = self._store.take_turn(str(origin), self._owner, seconds)
            # A longer wait means that the clock of the store is wrong, or that another crawl has
            # longer intervals.
            if 0 <= wait <= self._settings.crawl_delay_max + TURN_SLACK:
                return wait
            raise StoreError(
                f"the next turn starts in {wait:g} s, but no interval of this crawl is longer than "
                "ROBOTS_CRAWL_DELAY_MAX: check the clock of the store"
            )

        return await self._call("take_turn", take, default=None)

    async def end_turn(self, origin: Origin, interval: float) -> None:
        """End a turn like `SharedStore.end_turn`."""
        await self._call(
            "end_turn", self._store.end_turn, str(origin), self._owner, interval, default=None
        )

    # Calls.

    async def _call(
        self, kind: str, function: Callable[..., _T], *arguments: object, default: _T
    ) -> _T:
        """Call the store, unless a call of this kind has just failed.

        :param kind: the name of the method.
        :param default: the result if there is no answer.
        """
        now = self._runtime.clock()
        if self._closed or now < self._not_before.get(kind, now):
            return default
        if kind in self._not_before:  # one call tries the store; others wait for its end
            self._not_before[kind] = now + CALL_TIMEOUT + RETRY_DELAY
        self._running += 1
        try:
            value = await self._threads.call(partial(function, *arguments), limit=CALL_TIMEOUT)
        except CANCELLED:  # this is not the store's fault
            raise
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the crawl goes on
            self._failed(kind, error)
            return default
        finally:
            self._running -= 1
        self._not_before.pop(kind, None)
        return value

    def _failed(self, kind: str, error: Exception) -> None:
        """Count a failure, and log the first one of an outage."""
        self._count(stats.STORE_ERRORS)
        now = self._runtime.clock()
        if now >= self._silent_until:
            logger.warning(
                "The store of robots.txt files %s fails (%s: %s); the crawl goes on with the files "
                "in memory, and tries the store again every %g s",
                self._name, kind, error_text(error), RETRY_DELAY,
            )  # fmt: skip
        self._silent_until = now + QUIET
        self._not_before[kind] = now + RETRY_DELAY

    async def close(self) -> None:
        """Wait briefly for running calls, then release all locks and close the store.

        If a call overruns, the store is closed once that call finishes.
        """
        for seconds in _CLOSE_DELAYS:
            await self._runtime.sleep(seconds)  # calls that were spawned before can start
            if not self._running:
                break
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        locked = list(self._locked)

        def close() -> None:
            try:
                for origin in locked:
                    self._store.release(str(origin), self._owner)
            finally:
                self._store.close()

        try:
            await self._threads.close(close, limit=CLOSE_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - a store's own
            self._failed("close", error)
