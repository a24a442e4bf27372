"""SQLite files for the tests of their store: opened, and damaged."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

KEY, OTHER = "https://a.example", "https://b.example"
LONG = 10_000.0


def opened(path: Path) -> SqliteStore:
    """Open a file; the first call makes it what it is to be."""
    store = SqliteStore(path)
    store.open()
    store.get("")
    return store


def locked(path: Path) -> sqlite3.Connection:
    """Lock a file, as a process does that opens it, until what is returned is closed."""
    lock = sqlite3.connect(f"{path}.lock", isolation_level=None, check_same_thread=False)
    lock.execute("BEGIN EXCLUSIVE")
    return lock


def damage(path: Path, start: int = 100, octets: int = 200) -> None:
    """Write over a part of a file.

    The first 100 octets, which say whose it is, stay as they are if none is named.
    """
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * octets)


def damaged(path: Path) -> bytes:
    """Make a file of ours that is damaged, and return its octets."""
    opened(path).close()
    damage(path)
    return path.read_bytes()
