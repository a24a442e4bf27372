"""The keeper: a crawl's store, off the event loop; what fails is counted, told once, and never in the way.

In here: threads, errors, clocks. Times are those of the crawl's own clock outside, and seconds since 1970 in the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_robots_rfc.stores.base import SharedStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_robots_rfc._compat import Runtime
    from scrapy_robots_rfc.policy.origin import Origin
    from scrapy_robots_rfc.stores.base import Store
    from scrapy_robots_rfc.stores.codec import Copy


class Keeper:
    """The store of a crawl. No coroutine of it raises, or takes long.

    :param store: not opened yet.
    :param name: the store, for people: its address without credentials.
    :param count: adds one to a stat.
    """

    def __init__(self, store: Store, name: str, *, runtime: Runtime, count: Callable[[str], None]) -> None:
        self._store, self._name, self._runtime, self._count = store, name, runtime, count

    @property
    def shared(self) -> bool:
        """Whether several crawls take turns by this store."""
        return isinstance(self._store, SharedStore)

    def start(self) -> None:
        """Open the store.

        :raises StoreError: it cannot work.
        """
        self._store.open()

    async def load(self, origin: Origin) -> Copy | None:
        """Return what the store has of an origin; ``None`` where that is nothing, or nothing that can be read."""
        raise NotImplementedError

    async def save(self, origin: Origin, copy: Copy, keep: float) -> None:
        """Put a copy into the store.

        :param keep: seconds after which nobody wants it.
        """
        raise NotImplementedError

    async def lease(self, origin: Origin, seconds: float) -> bool:
        """Whether this crawl is to fetch a file: yes, where the store is not shared, or fails."""
        raise NotImplementedError

    async def release(self, origin: Origin) -> None:
        """Let others fetch a file."""
        raise NotImplementedError

    async def close(self) -> None:
        """Wait a little for what is still to be written, and close the store."""
        raise NotImplementedError
