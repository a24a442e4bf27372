"""Sharing: how a crawl uses its store, and takes turns with the others that use it.

In here: what is looked up before a fetch, what is written after it. What fails is `keeper.py`'s business.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc._runtime import Waiter
from scrapy_robots_rfc.cache.locks import FetchLocks

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.cache.client import CacheClient
    from scrapy_robots_rfc.cache.entry import CacheEntry, Rules
    from scrapy_robots_rfc.policy.origins import Origin

#: Seconds between two looks at a file that another crawl fetches: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0

#: Seconds that the end of a crawl waits for what is still to be written, and for leases to be given back. With what the
#: keeper takes to close, a store that hangs makes it two.
_PATIENCE, _FOR_LEASES = 1.0, 0.3


class FetchSharing:
    """A crawl's use of its store.

    :param keeper: the store, started.
    :param rules: what a copy is worth here.
    """

    def __init__(self, keeper: CacheClient, rules: Rules, runtime: Runtime) -> None:
        self._keeper, self._rules, self._runtime = keeper, rules, runtime
        self._leases = FetchLocks(keeper, runtime)
        self._pending = 0
        self._idle: Waiter[None] | None = None

    @property
    def shared(self) -> bool:
        """Whether other crawls use the store at the same time."""
        return self._keeper.shared

    async def look(self, origin: Origin, held: CacheEntry | None) -> tuple[CacheEntry | None, bool, bool]:
        """Look for a copy before a fetch.

        :param held: the copy in memory, which is not fresh.
        :returns: the newest copy; whether it is fresh; and, where it is not, whether this crawl is to fetch the file.
        """
        newest, fresh = await self._load(origin, held)
        ours = not fresh and await self._leases.take(origin)
        if ours and self._keeper.shared:  # the one who had the lease before may have put it there meanwhile
            newest, fresh = await self._load(origin, newest)
        if fresh:
            self.leave(origin)
        return newest, fresh, ours

    async def _load(self, origin: Origin, held: CacheEntry | None) -> tuple[CacheEntry | None, bool]:
        loaded = await self._keeper.load(origin)
        if loaded is None or (held is not None and loaded.fetched < held.fetched):
            return held, False
        now = self._runtime.clock()
        loaded = self._rules.reviewed(loaded, now)
        return loaded, now < loaded.validity.fresh_until

    async def newer(self, origin: Origin, since: float) -> CacheEntry | None:
        """Return a fresh copy that another crawl has put into the store meanwhile.

        :param since: when this crawl began to ask for the file itself.
        """
        loaded, fresh = await self._load(origin, None)
        return loaded if loaded is not None and fresh and loaded.fetched > since else None

    def leave(self, origin: Origin) -> None:
        """Let others go on, without a copy for them."""
        self._later(self._leases.drop(origin))

    def publish(self, origin: Origin, copy: CacheEntry, *, stored: bool, since: float) -> None:
        """Put a copy into the store, in the background, and let others go on. What is newer there stays.

        :param stored: whether its site lets it be kept.
        :param since: as of `newer`.
        """
        self._later(self._publish(origin, copy, stored=stored, since=since))

    async def _publish(self, origin: Origin, copy: CacheEntry, *, stored: bool, since: float) -> None:
        # Whoever stood still for longer than its lease, or shares without leases, may be late.
        if await self.newer(origin, since) is None:
            if stored:
                await self._keeper.save(origin, copy, self._rules.keep(copy, self._runtime.clock()))
            elif copy.validity.unreachable_since is None:
                await self._keeper.drop(origin)  # the file from before does not hold any more, not even as a stale one
        await self._leases.drop(origin)

    def _later(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._pending += 1
        self._runtime.spawn(self._counted(coroutine))

    async def _counted(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        finally:
            self._pending -= 1
            if not self._pending and self._idle is not None:
                self._idle.resolve(None)

    async def close(self) -> None:
        """Wait for what is under way, give all leases back, close the store."""
        await self._drain(_PATIENCE)
        self._later(self._leases.close())
        await self._drain(_FOR_LEASES)
        await self._keeper.close()

    async def _drain(self, patience: float) -> None:
        if not self._pending:
            return
        idle = self._idle = Waiter()
        timer = self._runtime.call_later(patience, partial(idle.resolve, None))
        await idle
        self._idle = None
        timer.cancel()


def pause(looks: int) -> float:
    """Return the seconds until another look, after so many that found another crawl at it."""
    return min(_FIRST_PAUSE * 2.0 ** min(looks, 10), _LONGEST_PAUSE)
