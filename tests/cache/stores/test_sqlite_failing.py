"""The SQLite store with files that are deleted, full, locked, read-only or not ours."""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from scrapy_robots_rfc.errors import StoreError
from tests.support.sqlite_files import KEY, LONG, OTHER, opened

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_file_that_is_deleted(store: SqliteStore, path: Path) -> None:
    """After a file is deleted, no call fails, and the next `put` creates an empty one."""
    path.unlink()
    assert store.get(KEY) == b"one"  # until the next write
    store.put(OTHER, b"new", LONG)
    assert (store.get(KEY), store.get(OTHER)) == (None, b"new")
    another = opened(path)
    assert list(another.keys()) == [OTHER]
    another.close()


def test_a_file_that_is_replaced(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    """A file that replaces ours is used from the next write on, with its values."""
    other = opened(tmp_path / "other.sqlite")
    other.put(OTHER, b"theirs", LONG)
    other.close()
    (tmp_path / "other.sqlite").replace(path)
    store.put(KEY, b"two", LONG)
    assert (store.get(KEY), store.get(OTHER)) == (b"two", b"theirs")


#: Another program that writes to the open file on demand, and prints whether that worked.
PROGRAM = """
import itertools, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in itertools.chain(["first"], sys.stdin):
    try:
        connection.execute("INSERT INTO copies VALUES (?, 9e9, zeroblob(500000))", (line,))
        print("written", flush=True)
    except sqlite3.OperationalError as error:
        print(error, flush=True)
"""


def test_a_file_that_is_deleted_below_another_process(store: SqliteStore, path: Path) -> None:
    """A process that still writes to a deleted file does not damage the new one."""
    command = [sys.executable, "-c", PROGRAM, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "written\n"
        store.close()
        path.unlink()
        store.open()
        store.put(KEY, b"one", LONG)
        other.stdin.write("second\n")
        other.stdin.flush()
        assert "readonly" in other.stdout.readline()
        assert list(store.keys()) == [KEY]
        other.stdin.close()
        assert other.wait() == 0
    store.put(OTHER, b"two", LONG)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_folder_that_is_deleted(store: SqliteStore, path: Path) -> None:
    """Without its folder, every call fails until it is back."""
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            store.put(KEY, b"two", LONG)
    path.parent.mkdir()
    store.put(KEY, b"two", LONG)
    assert store.get(KEY) == b"two"


@contextlib.contextmanager
def limited(octets: int) -> Iterator[None]:
    """Limit the size of the files that this process writes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (octets, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(store: SqliteStore) -> None:
    """Put large values until that fails."""

    def put_many() -> None:
        for number in range(10_000):
            store.put(f"https://{number}.example", b"x" * 100_000, LONG)

    with pytest.raises(sqlite3.OperationalError):
        put_many()


def test_files_that_cannot_grow(store: SqliteStore) -> None:
    """If a file cannot grow, writing fails and reading works; later, writing works again."""
    with limited(1_000_000):
        fill(store)
        assert store.get(KEY) == b"one"
    store.put(KEY, b"two", LONG)
    assert store.get(KEY) == b"two"


def test_a_file_that_is_locked(store: SqliteStore, path: Path) -> None:
    """While another program has the write lock, writing fails and reading works."""
    second = opened(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert second.get(KEY) == b"one"
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            second.put(KEY, b"two", LONG)
        connection.execute("ROLLBACK")
    second.put(KEY, b"two", LONG)
    second.close()


@pytest.fixture
def without_rights() -> Iterator[Path]:
    """A folder of an ordinary user; this process is that user, because root may do everything."""
    with tempfile.TemporaryDirectory() as folder:
        root = os.geteuid() == 0
        if root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        yield Path(folder)
        if root:
            os.seteuid(0)
        Path(folder).chmod(0o700)


def test_a_file_that_may_only_be_read(without_rights: Path) -> None:
    """A read-only file can be read, but not written."""
    path = without_rights / "robots.sqlite"
    store = opened(path)
    store.put(KEY, b"one", LONG)
    store.close()
    path.chmod(0o400)
    store = opened(path)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store.put(KEY, b"two", LONG)
    assert store.get(KEY) == b"one"
    store.close()


def test_a_file_without_rights(without_rights: Path) -> None:
    """If a file may not be read, the crawl does not start, and the error says why."""
    path = without_rights / "robots.sqlite"
    path.touch(0o000)
    with pytest.raises(PermissionError, match=r"Permission denied: .*robots\.sqlite"):
        opened(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    """If the path is a folder, or its parent is a file, the crawl does not start."""
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        opened(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        opened(tmp_path / "file" / "robots.sqlite")


def test_a_pipe(path: Path) -> None:
    """A pipe is not opened and not renamed: the crawl does not start."""
    os.mkfifo(path)
    with pytest.raises(StoreError, match="is not a regular file, so it was not changed"):
        opened(path)
    assert [path.is_fifo(), *path.parent.iterdir()] == [True, path]
