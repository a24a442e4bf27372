"""Leases: while this crawl fetches a file, the others that share its store wait for it.

In here: which leases are held, and how they are kept. What a lease is, is `stores/base.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_robots_rfc._runtime import Cancellable, Runtime
    from scrapy_robots_rfc.cache.client import CacheClient
    from scrapy_robots_rfc.policy.origins import Origin

#: Seconds after which a lease that nobody renews has ended: its holder is dead. And how often it is renewed.
LEASE, RENEWED = 15.0, 5.0


class FetchLocks:
    """The leases of a crawl. Each is renewed until it is dropped, however long a fetch and its backoff take."""

    def __init__(self, keeper: CacheClient, runtime: Runtime) -> None:
        self._keeper, self._runtime = keeper, runtime
        self._held: set[Origin] = set()
        self._timer: Cancellable | None = None
        self._closed = False

    async def take(self, origin: Origin) -> bool:
        """Whether this crawl is to fetch a file now."""
        if not self._keeper.shared:
            return True
        self._held.add(origin)  # before it is known: a crawl that ends meanwhile gives it back
        if not await self._keeper.lease(origin, LEASE):
            self._held.discard(origin)
            return False
        self._arm()
        return True

    async def drop(self, origin: Origin) -> None:
        """Let others fetch a file."""
        if origin in self._held:
            self._held.discard(origin)
            await self._keeper.release(origin)

    async def close(self) -> None:
        """Drop them all."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for origin in list(self._held):
            await self.drop(origin)

    def _arm(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = self._runtime.call_later(RENEWED, self._tick)

    def _tick(self) -> None:
        self._timer = None
        for origin in list(self._held):
            self._runtime.spawn(self._renew(origin))
        if self._held:
            self._arm()

    async def _renew(self, origin: Origin) -> None:
        if not await self._keeper.lease(origin, LEASE):
            self._held.discard(origin)  # it ended while this process stood still
        elif origin not in self._held:
            await self._keeper.release(origin)  # dropped meanwhile
