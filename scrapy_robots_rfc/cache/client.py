"""CacheClient: the store of a crawl. It is looked into before a fetch, and written to afterwards.

Its calls are made on threads. A store that fails is warned of once, and the crawl goes on. Crawls
that share a store do not fetch a file twice: the file is locked meanwhile. Callers see times on the
clock of the crawl; in the store they are seconds since 1970.
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

#: Seconds that a call may take before the crawl goes on without its answer. A store should give up
#: sooner by itself, because its own error can say why.
PATIENCE = 5.0
#: Seconds for which a call that failed is not tried again.
PAUSE = 5.0
#: Seconds without a failure after which the next one is logged again.
QUIET = 60.0
#: Seconds that the clock of another machine may be ahead.
AHEAD = 60.0
#: Seconds by which the wait that a store names may be longer than any interval: while another
#: worker has the turn, it says to ask again after five, and times are rounded.
LONGER = 6.0
#: Seconds after which a lock ends that is not renewed, because its crawl is dead; seconds between
#: two renewals.
LEASE, RENEWED = 15.0, 5.0
#: Seconds that the end of the crawl waits for the store to close. A healthy one needs a thousandth
#: of that.
FAREWELL = 0.5
#: Seconds between the looks at the end of the crawl whether all calls have ended: half a second.
_PAUSES = (0.01, 0.04, 0.15, 0.3)


class CacheClient:
    """The store of a crawl. Its coroutines never raise; each call has `PATIENCE` seconds.

    :param store: opened.
    :param name: the store, for people: its address without credentials.
    :param settings: of the crawl: for how long it uses an entry of the store.
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
        #: Whether crawls take turns by the store; only then is anything asked of leases and turns.
        self.shared: bool = isinstance(store, SharedStore)
        self._owner = uuid.uuid4().hex
        self._threads = Threads(store.threads, runtime, "robots.txt store")
        # The origins whose files this crawl has locked, and what renews these locks.
        self._locked: set[Origin] = set()
        self._timer: Cancellable | None = None
        # For each kind of call that failed, when it may be made again. On a full disk, reading
        # works and writing fails.
        self._not_before: dict[str, float] = {}
        self._silent_until = -math.inf
        self._under_way = 0
        self._closed = False
        self._warned = False

    # Before a fetch, and after it.

    async def look(
        self, origin: Origin, known: CacheEntry | None
    ) -> tuple[CacheEntry | None, bool, bool]:
        """Look for an entry before a fetch.

        :param known: the entry in memory, which is not fresh.
        :returns: the newest entry; whether it is fresh; and, where it is not, whether this crawl is
            to fetch the file.
        """
        newest, fresh = await self._newest(origin, known)
        ours = not fresh and await self.lock(origin)
        if ours and self.shared:  # the crawl that had the lock may have put it there meanwhile
            newest, fresh = await self._newest(origin, newest)
        if fresh:
            self._runtime.spawn(self.unlock(origin))
        return newest, fresh, ours

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
        """Put an entry into the store, and unlock the file then.

        :param stored: whether its site allows to store it.
        """
        if stored:
            await self.save(origin, entry)
        elif entry.validity.unreachable_since is None:
            # The earlier entry must not be used any more, not even as a stale one.
            await self._drop(origin)
        await self.unlock(origin)

    # Entries.

    async def load(self, origin: Origin) -> CacheEntry | None:
        """Return what the store has of an origin, if that can be read; ``None``: nothing."""
        key = str(origin)
        value = await self._ask("get", self._store.get, key, otherwise=None)
        if value is None:
            return None
        try:
            entry = decode(value)
        except ValueError as error:
            self._count(stats.STORE_ERRORS)
            if not self._warned:
                self._warned = True
                logger.warning(
                    "The store of robots.txt files %s has what cannot be read (%s: %s): it is "
                    "fetched anew; further ones are only counted",
                    self._name, key, error,
                )  # fmt: skip
            await self._drop(origin)  # so that it is counted once
            return None
        now = self._runtime.clock()
        date = self._runtime.date()
        # The clock of the machine that wrote it may be ahead: no time of the past is later than
        # now. If it is far ahead, the file is asked for again; else the entry would stay fresh
        # until the clock of this machine has come that far.
        moved = entry.moved(now - max(date, entry.fetched), now)
        return moved.expiring(now) if entry.fetched > date + AHEAD else moved

    async def save(self, origin: Origin, entry: CacheEntry) -> None:
        """Put an entry into the store, for as long as a crawl may need it."""
        now = self._runtime.clock()
        seconds = entry.stored_for(now, self._settings)
        dated = entry.moved(self._runtime.date() - now)

        def put() -> None:
            self._store.put(str(origin), encode(dated), seconds)

        await self._ask("put", put, otherwise=None)

    async def _drop(self, origin: Origin) -> None:
        await self._ask("delete", self._store.delete, str(origin), otherwise=False)

    # Locks.

    async def lock(self, origin: Origin) -> bool:
        """Whether this crawl is to fetch a file now; others wait until it gives the lock back.

        It is, too, if the store fails. The lock is renewed until then.
        """
        if not self.shared:
            return True
        # Before the answer comes, so that a crawl that ends meanwhile gives it back.
        self._locked.add(origin)
        if self._timer is None:
            self._timer = self._runtime.call_later(RENEWED, self._renew_all)
        await self._renew(origin)
        return origin in self._locked

    def _renew_all(self) -> None:
        self._timer = self._runtime.call_later(RENEWED, self._renew_all)
        for origin in list(self._locked):
            self._runtime.spawn(self._renew(origin))

    async def _renew(self, origin: Origin) -> None:
        ours = await self._ask(
            "lease", self._store.lease, str(origin), self._owner, LEASE, otherwise=True
        )
        if not ours:
            self._locked.discard(origin)  # another crawl has it
        elif origin not in self._locked:
            # It was given back meanwhile, and has just been taken again.
            await self._release(origin)

    async def unlock(self, origin: Origin) -> None:
        """Let others fetch a file."""
        if origin in self._locked:
            self._locked.discard(origin)
            await self._release(origin)

    async def _release(self, origin: Origin) -> None:
        await self._ask("release", self._store.release, str(origin), self._owner, otherwise=None)

    # Turns.

    async def take_turn(self, origin: Origin, seconds: float) -> float | None:
        """Ask for a turn as `SharedStore.take_turn` does; ``None`` if the store fails."""

        def take() -> float:
            wait: float = self._store.take_turn(str(origin), self._owner, seconds)
            # If it is longer, the clock of the store is wrong, or another crawl has longer
            # intervals.
            if 0 <= wait <= self._settings.crawl_delay_max + LONGER:
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

    # Calls.

    async def _ask(
        self, call: str, function: Callable[..., _T], *arguments: object, otherwise: _T
    ) -> _T:
        """Call the store, unless such a call has failed a moment ago.

        :param call: the kind of call, by the name of its method.
        :param otherwise: what is returned where there is no answer.
        """
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

    async def close(self) -> None:
        """Wait a little for what is under way, then give all locks back, and close the store.

        A store whose calls do not end is closed when they have ended, if they do.
        """
        for seconds in _PAUSES:
            await self._runtime.sleep(seconds)  # what was spawned before begins meanwhile
            if not self._under_way:
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
            await self._threads.close(close, limit=FAREWELL)
        except Exception as error:  # noqa: BLE001 - a store's own
            self._failed("close", error)
