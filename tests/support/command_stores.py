"""Stores of a user's own, for tests of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from scrapy.crawler import Crawler


class OneStore(MemoryStore):
    """Has the same values in all of its instances, as long as the setting OWN_NAME is the
    same.
    """

    places: dict[str, dict[str, tuple[bytes, float]]] = {}  # noqa: RUF012 - shared on purpose

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make it as Scrapy makes its components."""
        store = cls()
        store._values = cls.places.setdefault(crawler.settings.get("OWN_NAME", ""), {})
        return store


class Broken(MemoryStore):
    """Has a key, and fails whenever it is asked for a value."""

    def keys(self) -> Iterator[str]:
        """Return the one key."""
        return iter(["http://a.example"])

    def get(self, key: str) -> NoReturn:
        """Fail, with a text that must not be shown whole."""
        raise OSError("no route to redis://me:secret@host\nat all")
