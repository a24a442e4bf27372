"""Where the stores of the contract keep their values: one place a kind, several stores at each, and its time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrapy_robots_rfc.cache.stores.redis import RedisStore
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.stores.own import FolderStore
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy_robots_rfc.cache.stores.base import Store


class Place:
    """A place that is empty at first; its time is real.

    :param make: makes a store there, not opened yet.
    """

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._opened: list[Store] = []

    def store(self) -> Store:
        """Open a store; another one sees the same values."""
        store = self._make()
        self._opened.append(store)
        store.open()
        return store

    def later(self, seconds: float) -> None:
        """Let time pass; it is what ends a value, so there is nothing else to wait for."""
        time.sleep(seconds)

    def leave(self) -> None:
        """Close all stores."""
        for store in self._opened:
            store.close()


class Timed(Place):
    """A place whose time the test sets."""

    def __init__(self, make: Callable[[Callable[[], float]], Store]) -> None:
        super().__init__(lambda: make(lambda: self._now))
        self._now = 1_700_000_000.0

    def later(self, seconds: float) -> None:
        """Set the clock."""
        self._now += seconds


def memory() -> Place:
    """The memory of this process: there is one store."""
    kept: list[MemoryStore] = []

    def make(now: Callable[[], float]) -> Store:
        kept.extend([] if kept else [MemoryStore(now)])
        return kept[0]

    return Timed(make)


def sqlite(folder: Path) -> Place:
    """An SQLite file."""
    return Timed(lambda now: SqliteStore(folder / "robots.sqlite", now))


def own(folder: Path) -> Place:
    """A store of a user's own."""
    return Place(lambda: FolderStore(str(folder)))


def redis(address: str) -> Place:
    """A part of a Redis server."""
    return Place(lambda: RedisStore(address))
