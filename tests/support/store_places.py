"""The places of the stores that `test_contract.py` tests. Stores at one place share values."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

from redis import Redis

from scrapy_robots_rfc.cache.stores.redis import RedisStore
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.support import own_store
from tests.support.own_store import FolderStore
from tests.support.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from scrapy_robots_rfc.cache.stores.base import Store


class Place:
    """A place for values.

    :param make: creates a store there, which is not open yet.
    """

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._opened: list[Store] = []

    def store(self) -> Store:
        store = self._make()
        self._opened.append(store)
        store.open()
        return store

    def later(self, seconds: float) -> None:
        """Let time pass, which ends the validity of values."""
        raise NotImplementedError

    def leave(self) -> None:
        for store in self._opened:
            store.close()


class Timed(Place):
    """A place with a clock that the test sets."""

    def __init__(self, make: Callable[[Callable[[], float]], Store]) -> None:
        super().__init__(lambda: make(lambda: self._now))
        self._now = 1_700_000_000.0

    def later(self, seconds: float) -> None:
        self._now += seconds


def memory() -> Place:
    """Return a place in memory, with one store."""
    stores: list[MemoryStore] = []

    def make(now: Callable[[], float]) -> Store:
        stores.extend([] if stores else [MemoryStore(now)])
        return stores[0]

    return Timed(make)


def sqlite(folder: Path) -> Place:
    """Return a place in an SQLite file."""
    return Timed(lambda now: SqliteStore(folder / "robots.sqlite", now))


class Patched(Place):
    """A folder of the third-party store, whose `time` the test replaces."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(lambda: FolderStore(str(folder)))
        self._now = time.time()
        monkeypatch.setattr(own_store, "time", SimpleNamespace(time=lambda: self._now))

    def later(self, seconds: float) -> None:
        self._now += seconds


class Served(Place):
    """A place on a Redis server, which has its own clock."""

    def __init__(self, address: str) -> None:
        super().__init__(lambda: RedisStore(address))
        self._server = address.partition("?")[0]

    def later(self, seconds: float) -> None:
        with Redis.from_url(self._server, socket_timeout=None) as client:
            pass_by(client, seconds)


def pass_by(client: Redis, seconds: float) -> None:
    """Wait for some time by the clock of a Redis server, for an item of an empty list."""
    assert client.blpop(["nothing"], timeout=max(seconds, 0.001)) is None
