"""Connect a crawl to its store, which is read before each fetch and updated afterwards.

The store is called in threads. If it fails, the crawl logs a warning and continues without it.
Workers that share a store lock a file before fetching it, so that only one of them fetches it.
Times are on the crawl's own clock, except in the store, which contains Unix timestamps.
"""

import logging
import math
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import CANCELLED, Cancellable, Runtime, Threads, log_once
from scrapy_robots_rfc.cache.entry import CacheEntry, decode, encode
from scrapy_robots_rfc.cache.stores.base import SharedStore, Store
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.errors import StoreError
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Timeout in seconds for a call to the store. The store itself should have a shorter timeout, so
#: that its error message can explain the failure.
CALL_TIMEOUT = 5.0
#: Seconds to wait after a failed call before calling the same method again.
RETRY_DELAY = 5.0
#: After this many seconds without a failure, the next failure is logged again.
QUIET = 60.0
#: Maximum number of seconds that another machine's clock may be ahead.
MAX_CLOCK_SKEW = 60.0
#: Number of seconds by which the wait for a turn may exceed the longest interval. The store may ask
#: us to wait up to five seconds while another worker holds the turn, and times are rounded.
TURN_SLACK = 6.0
#: Seconds after which a lease expires unless it is renewed.
LEASE = 15.0
#: Seconds between renewals of a lease.
RENEW_INTERVAL = 5.0
#: Seconds to wait for another worker's lease before fetching the file anyway.
LEASE_PATIENCE = 60.0
#: Maximum number of seconds to wait for the store to close, which usually takes less than a
#: millisecond.
CLOSE_TIMEOUT = 0.5
#: Delays in seconds between checks for running calls when the crawl ends. They add up to half a
#: second.
_CLOSE_DELAYS = (0.01, 0.04, 0.15, 0.3)


class Lookup(NamedTuple):
    """The result of looking up an entry before a fetch.

    :param entry: the newest entry, or `None` if there is none.
    :param is_fresh: True if the entry has not expired.
    :param may_fetch: if the entry is not fresh, True if this crawl may fetch the file now (see
        `CacheClient.lock`). If it is False, another worker is fetching the file, so look again
        later.
    """

    entry: CacheEntry | None
    is_fresh: bool
    may_fetch: bool


class CacheClient:
    """A client for a crawl's store. Its coroutines never raise errors from the store.

    :param store: an open store.
    :param name: the store's name in log messages, without credentials.
    :param settings: the crawl's settings.
    :param count: a function that increments a stat.
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
        self._store: Any = store  # a `SharedStore` has more methods than a `Store`
        self._name = name
        self._settings = settings
        self._runtime = runtime
        self._count = count
        #: True if the store supports leases and turns, so that several workers can share it.
        self.shared: bool = isinstance(store, SharedStore)
        # Identifies this crawl in leases and turns.
        self._owner = uuid.uuid4().hex
        self._threads = Threads(store.threads, runtime, "robots.txt store")
        # The origins whose files this crawl has locked.
        self._locked: set[Origin] = set()
        # Origin -> the time when we first found its file locked by another worker.
        self._refused_since: dict[Origin, float] = {}
        self._renewal: Cancellable | None = None
        # Method -> the earliest time when it may be called again after a failure. Methods are
        # tracked separately, because reads still work when the disk is full.
        self._not_before: dict[str, float] = {}
        # Failures before this time are not logged.
        self._silent_until = -math.inf
        # The number of calls in progress, which `close` waits for.
        self._running = 0
        self._closed = False

    # Look up and publish entries.

    async def find_entry(self, origin: Origin, known: CacheEntry | None) -> Lookup:
        """Look for a fresh entry, and lock the file if there is none, so that it can be fetched.

        :param known: the entry in memory, which the fetch can't use, or `None` if there is none.
        """
        newest, is_fresh = await self._newest(origin, known)
        may_fetch = not is_fresh and await self.lock(origin)
        if may_fetch and self.shared:
            # Look again, because the lock's previous owner may have stored an entry in between.
            newest, is_fresh = await self._newest(origin, newest)
        if is_fresh:
            # There is nothing to fetch, so unlock the file, which also clears `_refused_since`. Use
            # a task, so that the caller does not have to wait.
            self._runtime.spawn(self.unlock(origin))
        return Lookup(newest, is_fresh, may_fetch)

    async def _newest(
        self, origin: Origin, known: CacheEntry | None
    ) -> tuple[CacheEntry | None, bool]:
        """Return the newer of the known and the stored entry, and whether it is fresh.

        :param known: an entry that the fetch can't use, or `None`.
        """
        loaded = await self.load(origin)
        if loaded is None or (known is not None and loaded.fetched < known.fetched):
            return known, False
        if loaded.other_host and self._settings.same_host_only:
            return known, False  # another crawl followed a redirect that this one refuses
        now = self._runtime.clock()
        loaded = loaded.with_settings(now, self._settings)
        return loaded, now < loaded.validity.fresh_until

    async def publish(self, origin: Origin, entry: CacheEntry, *, may_store: bool) -> None:
        """Store the entry after a fetch, and unlock the file so that other workers can use it.

        :param may_store: False if the entry must not be stored. After ``no-store``, the stored copy
            is deleted. But it is kept after a failure that other crawls may not have, because of
            their ROBOTSTXT_PARSER or ROBOTS_REDIRECTS.
        """
        if may_store:
            await self.save(origin, entry)
        elif entry.validity.unreachable_since is None:  # not a failure, so it was `no-store`
            # The answer makes the previous copy in the store out of date. Delete it. Otherwise, it
            # would be used again if the file becomes unreachable later.
            await self._delete(origin)
        await self.unlock(origin)

    # Entries.

    async def load(self, origin: Origin) -> CacheEntry | None:
        """Return an origin's stored entry, or `None` if it is missing or unreadable."""
        key = str(origin)
        value = await self._call("get", self._store.get, key, default=None)
        if value is None:
            return None
        try:
            entry = decode(value)
        except ValueError as error:
            self._count(stats.STORE_ERRORS)
            text = (
                "The robots.txt store %s has an unreadable copy of %s (%s), so the file is "
                "fetched again. Further unreadable copies are counted but not logged"
            )
            log_once(self, logger, logging.WARNING, text, self._name, key, error)
            await self._delete(origin)  # so that it is not counted again
            return None
        return self._on_our_clock(entry)

    def _on_our_clock(self, stored: CacheEntry) -> CacheEntry:
        """Convert a stored entry's Unix timestamps to the crawl's own clock.

        An entry from the future was stored by a machine whose clock is ahead. Assume that it was
        fetched just now. Otherwise, it would stay fresh until our clock has caught up.
        """
        now = self._runtime.clock()
        date = self._runtime.date()
        date_there = max(date, stored.fetched)  # the other machine's current date, as assumed
        entry = stored.shifted(now - date_there, latest=now)  # other times may be even later
        is_far_ahead = stored.fetched > date + MAX_CLOCK_SKEW  # too far, so fetch the file again
        return entry.expiring_by(now) if is_far_ahead else entry

    async def save(self, origin: Origin, entry: CacheEntry) -> None:
        """Store an entry for as long as a crawl may use it."""
        now = self._runtime.clock()
        seconds = entry.stored_for(now, self._settings)
        dated = entry.shifted(self._runtime.date() - now)  # with Unix timestamps

        def put() -> None:  # compresses on the thread, too
            self._store.put(str(origin), encode(dated), seconds)

        await self._call("put", put, default=None)

    async def _delete(self, origin: Origin) -> None:
        await self._call("delete", self._store.delete, str(origin), default=False)

    # Locks. A crawl that has the lease on a file in the store has locked the file.

    async def lock(self, origin: Origin) -> bool:
        """Lock a file, and return whether this crawl should fetch it now.

        This also returns True if the store fails, or if another worker does not release its lease.
        In the latter case, the file isn't locked, so `unlock` has no effect.
        """
        if not self.shared:  # there are no other workers
            return True
        # Add it before the store is called, so that `close` also releases the lease if the crawl
        # ends during the call.
        self._locked.add(origin)
        if self._renewal is None:
            self._renewal = self._runtime.call_later(RENEW_INTERVAL, self._renew_all)
        if await self._take_lease(origin):
            self._refused_since.pop(origin, None)
            return True
        # Another worker has the lease. Wait for it, but not for longer than a fetch should take.
        now = self._runtime.clock()
        refused_since = self._refused_since.setdefault(origin, now)
        if now - refused_since < LEASE_PATIENCE:
            return False
        text = (
            "According to the robots.txt store %s, another worker has been fetching %s for "
            "%g s, so this crawl fetches it too. If no other worker is running, delete the "
            "lease from the store"
        )
        url = origin.robots_url
        log_once(self, logger, logging.WARNING, text, self._name, url, LEASE_PATIENCE)
        return True

    def _renew_all(self) -> None:
        """Renew this crawl's leases, now and every `RENEW_INTERVAL` seconds."""
        self._renewal = self._runtime.call_later(RENEW_INTERVAL, self._renew_all)
        for origin in list(self._locked):
            self._runtime.spawn(self._take_lease(origin))

    async def _take_lease(self, origin: Origin) -> bool:
        """Take or renew the lease on a file, and return whether this crawl has locked the file.

        `lock` has added the origin to `_locked` before. If another worker has the lease, the file
        is no longer locked. If the store fails, act as if we had the lease, so that the crawl can
        continue.
        """
        has_lease = await self._call(
            "lease", self._store.lease, str(origin), self._owner, LEASE, default=True
        )
        if not has_lease:
            self._locked.discard(origin)
        elif origin not in self._locked:  # we unlocked it during the call, so give the lease back
            await self._release(origin)
        return origin in self._locked

    async def unlock(self, origin: Origin) -> None:
        """Unlock a file if this crawl has locked it, so that other workers can fetch it.

        Also forget how long this crawl has waited for another one's lock.
        """
        self._refused_since.pop(origin, None)
        if origin in self._locked:
            self._locked.discard(origin)
            await self._release(origin)

    async def _release(self, origin: Origin) -> None:
        await self._call("release", self._store.release, str(origin), self._owner, default=None)

    # Turns.

    async def take_turn(self, origin: Origin, seconds: float) -> float | None:
        """Take or renew this crawl's turn at a site; see `SharedStore.take_turn`.

        :param seconds: the time until the turn expires.
        :returns: 0 if this crawl now has the turn, or else the seconds to wait before the next
            call. `None` if the store fails.
        """

        def take() -> float:
            wait: float = self._store.take_turn(str(origin), self._owner, seconds)
            if 0 <= wait <= self._settings.crawl_delay_max + TURN_SLACK:
                return wait
            # The store's clock is wrong, or another crawl is using longer intervals. A third-party
            # store may even return a negative number or NaN.
            raise StoreError(
                f"the next turn starts in {wait:g} s, which is not between 0 and "
                "ROBOTS_CRAWL_DELAY_MAX; check the store's clock"
            )

        return await self._call("take_turn", take, default=None)

    async def end_turn(self, origin: Origin, interval: float) -> None:
        """End this crawl's turn at a site; see `SharedStore.end_turn`.

        :param interval: the seconds until the next turn may start.
        """
        await self._call(
            "end_turn", self._store.end_turn, str(origin), self._owner, interval, default=None
        )

    # Calls.

    async def _call(
        self, method: str, function: Callable[..., _T], *arguments: object, default: _T
    ) -> _T:
        """Call the store, unless the last call to this method has just failed.

        :param method: the name of the store's method, because failures are tracked by method.
        :param default: the value to return if the store is not called, or if it fails.
        """
        now = self._runtime.clock()
        if self._closed or now < self._not_before.get(method, -math.inf):
            return default
        if method in self._not_before:
            # It failed before, so retry it with this call only. If the store is still down, the
            # other callers should not have to wait for a timeout.
            self._not_before[method] = now + CALL_TIMEOUT + RETRY_DELAY
        self._running += 1
        try:
            value = await self._threads.call(partial(function, *arguments), limit=CALL_TIMEOUT)
        except CANCELLED:  # the store did not fail
            raise
        except Exception as error:  # noqa: BLE001 - third-party stores may raise anything
            self._failed(method, error)
            return default
        finally:
            self._running -= 1
        self._not_before.pop(method, None)
        return value

    def _failed(self, method: str, error: Exception) -> None:
        """Count a failed call, and do not call the method again for `RETRY_DELAY` seconds.

        Log the failure if there have been none for a while.
        """
        self._count(stats.STORE_ERRORS)
        now = self._runtime.clock()
        if now >= self._silent_until:
            logger.warning(
                "The robots.txt store %s failed (%s: %s). The crawl continues with the files in "
                "memory, and tries the store again every %g s",
                self._name, method, error_text(error), RETRY_DELAY,
            )  # fmt: skip
        self._silent_until = now + QUIET
        self._not_before[method] = now + RETRY_DELAY

    async def close(self) -> None:
        """Wait briefly for running calls, release all locks and close the store.

        If a call is still running after that, the store is closed once the call ends.
        """
        for seconds in _CLOSE_DELAYS:
            await self._runtime.sleep(seconds)  # this also lets spawned calls start
            if not self._running:
                break
        self._closed = True
        if self._renewal is not None:
            self._renewal.cancel()
        locked = list(self._locked)

        def close() -> None:
            try:
                for origin in locked:
                    self._store.release(str(origin), self._owner)
            finally:
                self._store.close()

        try:
            await self._threads.close(close, limit=CLOSE_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - third-party stores may raise anything
            self._count(stats.STORE_ERRORS)
            if self._runtime.clock() >= self._silent_until:
                text = "Closing the robots.txt store %s failed (%s)"
                logger.warning(text, self._name, error_text(error))
