"""Third-party stores for the tests of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from scrapy.crawler import Crawler


class OneStore(MemoryStore):
    """A store whose instances share their values if their setting OWN_NAME is the same."""

    places: dict[str, dict[str, tuple[bytes, float]]] = {}  # noqa: RUF012 - shared on purpose

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        store = cls()
        store._values = cls.places.setdefault(crawler.settings.get("OWN_NAME", ""), {})
        return store


class Broken(MemoryStore):
    """A store that has a key, and fails to return its value."""

    def keys(self) -> Iterator[str]:
        return iter(["http://a.example"])

    def get(self, key: str) -> NoReturn:
        raise OSError("no route to redis://me:secret@host\nat all")
