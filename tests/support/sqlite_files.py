"""Open, lock and damage SQLite files of the store."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

KEY, OTHER = "https://a.example", "https://b.example"
LONG = 10_000.0


def opened(path: Path) -> SqliteStore:
    """Open a store, and create its file."""
    store = SqliteStore(path)
    store.open()
    store.get("")
    return store


def locked(path: Path) -> sqlite3.Connection:
    """Lock a file as a process does that opens it, until the connection is closed."""
    lock = sqlite3.connect(f"{path}.lock", isolation_level=None, check_same_thread=False)
    lock.execute("BEGIN EXCLUSIVE")
    return lock


def damage(path: Path, start: int = 100, size: int = 200) -> None:
    """Overwrite a part of a file, by default after the SQLite header (100 bytes)."""
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * size)


def damaged(path: Path) -> bytes:
    """Create a damaged file, and return its bytes."""
    opened(path).close()
    damage(path)
    return path.read_bytes()
