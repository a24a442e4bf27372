"""FetchLocks: prevents that crawls that share a store fetch the same file twice.

`client.py` handles the failures of a store; `fetching/fetch.py` calls this in the course of a
fetch.
"""

from __future__ import annotations

from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

#: Seconds after which a lock ends that is not renewed, because its crawl is dead; seconds between
#: two renewals.
LEASE, RENEWED = 15.0, 5.0

#: Seconds between two looks at a file that another crawl fetches: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


class FetchLocks:
    """Looks into the store before a fetch, writes to it afterwards, and locks the file meanwhile.

    A lock is renewed until it is given back.

    :param client: the store, started.
    :param settings: of the crawl: for how long it uses an entry of the store.
    """

    def __init__(self, client: CacheClient, settings: Settings, runtime: Runtime) -> None:
        self._client = client
        self._settings = settings
        self._runtime = runtime
        #: Whether other crawls use the store at the same time.
        self.shared: bool = client.shared
        self._locked: set[Origin] = set()
        self._timer: Cancellable | None = None

    async def look(
        self, origin: Origin, known: CacheEntry | None
    ) -> tuple[CacheEntry | None, bool, bool]:
        """Look for an entry before a fetch.

        :param known: the entry in memory, which is not fresh.
        :returns: the newest entry; whether it is fresh; and, where it is not, whether this crawl is
            to fetch the file.
        """
        newest, fresh = await self._load(origin, known)
        ours = not fresh and await self.lock(origin)
        if ours and self.shared:  # the crawl that had the lock may have put it there meanwhile
            newest, fresh = await self._load(origin, newest)
        if fresh:
            self.leave(origin)
        return newest, fresh, ours

    async def _load(
        self, origin: Origin, known: CacheEntry | None
    ) -> tuple[CacheEntry | None, bool]:
        loaded = await self._client.load(origin)
        if loaded is None or (known is not None and loaded.fetched < known.fetched):
            return known, False
        now = self._runtime.clock()
        loaded = loaded.reviewed(now, self._settings)
        return loaded, now < loaded.validity.fresh_until

    def leave(self, origin: Origin) -> None:
        """Let others go on, without an entry for them."""
        self._runtime.spawn(self.unlock(origin))

    def publish(self, origin: Origin, entry: CacheEntry, *, stored: bool) -> None:
        """Put an entry into the store in the background, and unlock the file then.

        :param stored: whether its site allows to store it.
        """
        self._runtime.spawn(self._publish(origin, entry, stored=stored))

    async def _publish(self, origin: Origin, entry: CacheEntry, *, stored: bool) -> None:
        if stored:
            seconds = entry.stored_for(self._runtime.clock(), self._settings)
            await self._client.save(origin, entry, seconds)
        elif entry.validity.unreachable_since is None:
            # The earlier entry must not be used any more, not even as a stale one.
            await self._client.drop(origin)
        await self.unlock(origin)

    async def lock(self, origin: Origin) -> bool:
        """Whether this crawl is to fetch a file now; others wait until it gives the lock back."""
        if not self.shared:
            return True
        # Before the answer comes, so that a crawl that ends meanwhile gives it back.
        self._locked.add(origin)
        await self._renew(origin)
        if self._timer is None and self._locked:
            self._timer = self._runtime.call_later(RENEWED, self._renew_all)
        return origin in self._locked

    async def unlock(self, origin: Origin) -> None:
        """Let others fetch a file."""
        if origin in self._locked:
            self._locked.discard(origin)
            await self._client.release(origin)

    def _renew_all(self) -> None:
        self._timer = None
        for origin in list(self._locked):
            self._runtime.spawn(self._renew(origin))
        if self._locked:
            self._timer = self._runtime.call_later(RENEWED, self._renew_all)

    async def _renew(self, origin: Origin) -> None:
        if not await self._client.lease(origin, LEASE):
            self._locked.discard(origin)  # another crawl has it
        elif origin not in self._locked:
            # It was given back meanwhile, and has just been taken again.
            await self._client.release(origin)

    async def close(self) -> None:
        """Wait a little for what is written, then give all locks back, and close the store."""
        if self._timer is not None:
            self._timer.cancel()
        if await self._client.drain():
            for origin in list(self._locked):
                self.leave(origin)
            await self._client.drain()
        await self._client.close()


def pause(looks: int) -> float:
    """Return the seconds to wait for another crawl's fetch before the next look.

    :param looks: how many looks have found that the fetch is not over.
    """
    return min(_FIRST_PAUSE * 2.0 ** min(looks, 10), _LONGEST_PAUSE)
