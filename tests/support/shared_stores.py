"""Stores for crawls in the test's own process.

They outlive a crawl, are shared by several, or fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

#: The setting that has every crawl use `OneStore.store`.
ONE_STORE = {"ROBOTS_CACHE": "tests.support.shared_stores.OneStore"}


class OneStore(MemoryStore):
    """One store for all crawls, until a test replaces it."""

    store: ClassVar[OneStore]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        assert isinstance(cls.store, cls)
        return cls.store


class Failing(MemoryStore):
    """A store that opens, and then fails in every call."""

    def get(self, key: str) -> bytes | None:
        raise OSError("the store is gone")

    def put(self, key: str, value: bytes, seconds: float) -> None:
        raise OSError("the store is gone")

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        raise OSError("the store is gone")

    def release(self, key: str, owner: str) -> None:
        raise OSError("the store is gone")
