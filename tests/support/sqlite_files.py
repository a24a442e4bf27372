"""SQLite files for the tests of their store: opened, and damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

KEY, OTHER = "https://a.example", "https://b.example"
LONG = 10_000.0


def opened(path: Path) -> SqliteStore:
    """Open a file."""
    store = SqliteStore(path)
    store.open()
    return store


def damage(path: Path, start: int = 0, octets: int = 200) -> None:
    """Write over a part of a file."""
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * octets)
