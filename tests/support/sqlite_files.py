"""Open, lock and damage SQLite files of the store."""

from __future__ import annotations

import os
import resource
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator
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


@contextmanager
def as_user(*paths: Path) -> Iterator[None]:
    """Be an ordinary user who owns some paths, because root may do everything."""
    is_root = os.geteuid() == 0
    if is_root:
        for path in paths:
            os.chown(path, 65534, 65534)
        os.seteuid(65534)
    yield
    if is_root:
        os.seteuid(0)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Make a file read-only."""
    path.chmod(0o400)
    with as_user(path.parent, path):
        yield


@contextmanager
def locked_by_another(path: Path, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Lock a file as another program may do, by default for writing only."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"BEGIN {kind}")
        yield


@contextmanager
def full(path: Path) -> Iterator[None]:
    """Let no file of this process grow beyond the size of a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
