"""The SQLite store with several processes, killed processes, and files that are damaged, deleted,
full, locked, read-only or not ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from scrapy_robots_rfc.errors import StoreError
from tests.support.crawling import records
from tests.support.processes import python
from tests.support.sqlite_files import (
    KEY,
    LONG,
    OTHER,
    as_user,
    damage,
    damaged,
    full,
    locked,
    locked_by_another,
    opened,
    read_only,
)
from tests.support.sqlite_processes import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


@pytest.mark.parametrize("is_damaged", [False, True])
def test_processes_that_share_a_file(path: Path, is_damaged: bool) -> None:
    """Eight processes create, write and read one file at once without errors; if they find a
    damaged file, it is renamed, and they share a new one. After each was killed at a random moment,
    every value is there and complete.
    """
    content = damaged(path) if is_damaged else None
    done = python("-m", "tests.support.sqlite_processes", str(path))
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    put: dict[str, int] = json.loads(done.stdout)
    assert len(put) > 10
    store = opened(path)
    for key, number in put.items():
        # There may be a later value, which the process could not report.
        assert number_of(key, store.get(key) or b"") >= number
    store.close()
    assert is_sound(path)
    if content is not None:
        assert path.with_name("robots.sqlite.damaged").read_bytes() == content


def is_sound(path: Path) -> bool:
    """Return whether SQLite finds no error in a file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchone() == ("ok",))


def test_another_process_was_faster(path: Path) -> None:
    """If another process has replaced a damaged file, this one does not rename the new file."""
    store = opened_and_damaged(path)
    lock = locked(path)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(store.get, "https://7.example")
        new = path.with_name("new.sqlite")
        opened(new).close()
        new.replace(path)
        lock.close()
        assert call.result() is None
    store.put(KEY, b"new", LONG)
    assert store.get(KEY) == b"new"
    store.close()
    assert not path.with_name("robots.sqlite.damaged").exists()


def opened_and_damaged(path: Path) -> SqliteStore:
    """Open a file with values, and damage its pages."""
    store = opened(path)
    for number in range(200):
        store.put(f"https://{number}.example", b"x" * 500, LONG)
    store.close()
    store = opened(path)
    damage(path, 4096, path.stat().st_size - 4096)
    return store


def test_a_damaged_file_of_ours(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A damaged file gets a free name, and a new one is created, with one warning each time."""
    contents = []
    for _ in range(2):
        contents.append(damaged(path))
        store = opened(path)
        store.put(KEY, b"one", LONG)
        assert store.get(KEY) == b"one"
        store.close()
        path.unlink()
    names = ["robots.sqlite.damaged", "robots.sqlite.damaged1"]
    assert [path.with_name(name).read_bytes() for name in names] == contents
    begin = f"The robots.txt store {path} is damaged (database disk image is malformed)"
    for name, warning in zip(names, records(caplog), strict=True):
        assert warning.startswith(begin)
        assert warning.endswith(f"so it was renamed to {name} and a new one is created")


@pytest.mark.parametrize(
    "content",
    [
        b'{"name": "an item"}\n' * 400,
        b"\x89PNG\r\n\x1a\n" + bytes(5000),
        b"x",
        b"SQLite format 3\x00",
        b"SQLite format 3\x00" + bytes(52) + b"\x00\x00\x00\x07" + bytes(5000),
    ],
    ids=["items", "picture", "octet", "cut", "database"],
)
def test_a_file_of_the_users(path: Path, content: bytes) -> None:
    """A file that is not ours stops the crawl at start, and is not changed."""
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"so it was not changed\. Remove it, or choose"):
        opened(path)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_a_database_with_a_log(path: Path, tmp_path: Path) -> None:
    """The write-ahead log of another program's database is not applied."""
    theirs = tmp_path / "theirs.sqlite"
    with contextlib.closing(sqlite3.connect(theirs, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE theirs (x)")
        connection.execute("PRAGMA wal_checkpoint")
        connection.execute("INSERT INTO theirs VALUES (1)")
        for end in ("", "-wal"):
            shutil.copy(f"{theirs}{end}", f"{path}{end}")
    before = {file: file.read_bytes() for file in path.parent.glob(f"{path.name}*")}
    with pytest.raises(StoreError, match="is another program's database"):
        opened(path)
    assert {file: file.read_bytes() for file in path.parent.glob(f"{path.name}*")} == before


def test_a_file_that_becomes_the_users(store: SqliteStore, path: Path) -> None:
    """A file that replaces ours during a crawl is not changed; the calls of the store fail."""
    path.unlink()
    path.write_bytes(b"mine" * 2000)
    with pytest.raises(StoreError, match="is not an SQLite database"):
        store.put(KEY, b"one", LONG)
    assert path.read_bytes() == b"mine" * 2000


def test_damage_inside_renames_the_file_when_it_shows(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If damage shows only when a page is read, the file is renamed then, and the call uses a new
    one.
    """
    store = opened_and_damaged(path)
    assert store.get("https://7.example") is None
    store.put(KEY, b"one", LONG)
    assert list(store.keys()) == [KEY]
    store.close()
    assert path.with_name("robots.sqlite.damaged").exists()
    assert "malformed" in records(caplog)[0]
    assert len(records(caplog)) == 1


@pytest.mark.parametrize("start", range(100, 20_000, 4000))
def test_damage_gives_no_value_of_another_key(path: Path, start: int) -> None:
    """Wherever a file is damaged, no key returns the value of another one, and the store works."""
    store = opened(path)
    keys = [f"https://{number}.example" for number in range(40)]
    for key in keys:
        store.put(key, f"{key} ".encode() * 20, LONG)
    store.close()
    damage(path, start)
    store = opened(path)
    for key in keys:
        # The value itself may be damaged; its checksum shows that (test_entry.py).
        value = store.get(key)
        assert value is None or b"\xa5" in value or value == f"{key} ".encode() * 20
    for key in keys:
        store.put(key, b"new", LONG)
        assert store.get(key) == b"new"
    store.close()


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE copies",
        "ALTER TABLE copies RENAME COLUMN value TO octets",
        "DROP TABLE copies; CREATE TABLE copies (key, keep_until, value)",
        "ALTER TABLE copies RENAME TO others; CREATE VIEW copies AS SELECT * FROM others",
    ],
    ids=["none", "column", "no-key", "view"],
)
@pytest.mark.parametrize("opened_before", [False, True])
def test_a_table_that_is_not_ours(
    path: Path, caplog: pytest.LogCaptureFixture, sql: str, opened_before: bool
) -> None:
    """A file without our table is renamed by the first call, which then uses a new one."""
    store = opened(path)
    if not opened_before:
        store.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)
    if not opened_before:
        store = opened(path)
    store.put(KEY, b"one", LONG)
    assert (store.get(KEY), list(store.keys())) == (b"one", [KEY])
    store.close()
    assert path.with_name("robots.sqlite.damaged").exists()
    [warning] = records(caplog)
    assert f"The robots.txt store {path} is damaged (" in warning


def test_damaged_file_that_cannot_be_renamed(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a damaged file cannot be renamed, all calls fail."""
    store.close()
    damage(path)

    def replace(*_: object) -> Path:
        raise PermissionError("not here")

    monkeypatch.setattr(Path, "replace", replace)
    again = SqliteStore(path)
    again.open()
    for _ in range(2):
        with pytest.raises(PermissionError):
            again.get(KEY)


def test_values_that_have_ended_make_room(path: Path) -> None:
    """Later writes delete expired values, so the file does not grow forever."""
    now = [1000.0]
    store = SqliteStore(path, lambda: now[0])
    store.open()
    for number in range(100):
        store.put(f"https://{number}.example", b"x", 10)
    now[0] += 20
    for _ in range(5):
        store.put(KEY, b"one", 10)
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT key FROM copies").fetchall() == [(KEY,)]


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
    assert is_sound(path)


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


@pytest.fixture
def public() -> Iterator[Path]:
    """A path in a folder that any user may own, because `tmp_path` is in a private one."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "robots.sqlite"


@pytest.mark.parametrize(
    ("begin", "error"), [(read_only, "readonly"), (locked_by_another, "locked"), (full, "disk")]
)
def test_a_file_that_cannot_be_written(
    public: Path, begin: Callable[[Path], AbstractContextManager[None]], error: str
) -> None:
    """If a file becomes read-only, locked or full, writing fails and reading works; later, writing
    works again.
    """
    store = opened(public)
    store.put(KEY, b"one", LONG)
    with begin(public):
        with pytest.raises(sqlite3.OperationalError, match=error):
            store.put(OTHER, bytes(5_000_000), LONG)
        assert store.get(KEY) == b"one"
    public.chmod(0o600)
    store.put(KEY, b"two", LONG)
    assert store.get(KEY) == b"two"
    store.close()


def test_a_file_that_may_only_be_read(public: Path) -> None:
    """A file that is read-only from the start can be read, but not written."""
    with as_user(public.parent):
        store = opened(public)
        store.put(KEY, b"one", LONG)
        store.close()
        public.chmod(0o400)
        store = opened(public)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            store.put(KEY, b"two", LONG)
        assert store.get(KEY) == b"one"
        store.close()


def test_a_file_without_rights(public: Path) -> None:
    """If a file may not be read, the crawl does not start, and the error says why."""
    public.touch(0o000)
    with (
        as_user(public.parent),
        pytest.raises(PermissionError, match=r"Permission denied: .*robots\.sqlite"),
    ):
        opened(public)


def test_what_is_no_file(path: Path) -> None:
    """If the path is a folder or a pipe, or its parent is a file, the crawl does not start, and
    nothing is changed.
    """
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        opened(path.parent)
    os.mkfifo(path)
    with pytest.raises(StoreError, match="is not a regular file, so it was not changed"):
        opened(path)
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        opened(path / "robots.sqlite")
    assert [path.is_fifo(), *path.parent.iterdir()] == [True, path]
