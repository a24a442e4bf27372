"""The SQLite store: several processes, killed ones, and files that are damaged, gone, full, locked or not ours."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_robots_rfc.errors import StoreError
from scrapy_robots_rfc.stores import sqlite as module
from scrapy_robots_rfc.stores.guard import alone_in
from scrapy_robots_rfc.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
KEY, OTHER = "https://a.example", "https://b.example"
LONG = 10_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is to be."""
    return tmp_path / "robots.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """A store with one value."""
    made = opened(path)
    made.put(KEY, b"one", LONG)
    yield made
    made.close()


def opened(path: Path) -> SqliteStore:
    """Open a file."""
    store = SqliteStore(path)
    store.open()
    return store


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log warns of."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# Processes.


def run(*arguments: Any) -> dict[str, Any]:
    """Run the program beside this file."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    program = [sys.executable, str(HERE / "sqlite_processes.py"), *map(str, arguments)]
    found = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert found.returncode == 0, found.stderr
    assert "Traceback" not in found.stderr
    result: dict[str, Any] = json.loads(found.stdout)
    return result


def test_eight_processes(path: Path) -> None:
    """Eight processes make one file at once, write and read it: none fails, and every value is whole."""
    found = run("share", path, 8, 150)
    assert (found["failed"], found["keys"], found["integrity"]) == (0, 40, "ok")


def test_eight_processes_find_a_damaged_file(path: Path) -> None:
    """Eight processes find one damaged file: it is set aside, and they share the new one."""
    path.write_bytes(b"no database" * 1000)
    found = run("share", path, 8, 50)
    assert (found["failed"], found["keys"], found["integrity"]) == (0, 40, "ok")
    assert path.with_name("robots.sqlite.damaged").read_bytes() == b"no database" * 1000


def test_a_hundred_kills(path: Path) -> None:
    """A writer is killed a hundred times, at any moment: each value that was put is there and whole afterwards."""
    found = run("kill", path, 100)
    assert found["with_values"] > 50
    assert (found["wrong"], found["integrity"]) == ([], "ok")


def test_two_stores_make_a_new_file_after_another(path: Path, store: SqliteStore) -> None:
    """Where one process sets a file aside, the others find the new one at their next call but one."""
    second = opened(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else SQLite reads on in its log, and sees no damage
    damage(path)
    with opened_twice(path) as third:
        third.put(OTHER, b"new", LONG)
        for each in (store, second):
            with pytest.raises(FileNotFoundError, match="was removed or replaced"):
                each.get(KEY)
            assert (each.get(KEY), each.get(OTHER)) == (None, b"new")
    second.close()


@contextlib.contextmanager
def opened_twice(path: Path) -> Iterator[SqliteStore]:
    """Open a file, and close it."""
    store = opened(path)
    yield store
    store.close()


# Damage.


def damage(path: Path, start: int = 0, octets: int = 200) -> None:
    """Write over a part of a file."""
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * octets)


def test_a_file_that_is_no_database(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file of another kind is renamed, and a new one made, with one warning."""
    path.write_bytes(b"<html>" * 1000)
    store = opened(path)
    store.put(KEY, b"one", LONG)
    assert store.get(KEY) == b"one"
    store.close()
    assert path.with_name("robots.sqlite.damaged").read_bytes() == b"<html>" * 1000
    begin = f"The store of robots.txt files {path} is damaged (file is not a database): it is kept as "
    assert warnings(caplog) == [begin + "robots.sqlite.damaged, and a new one is made"]


def test_damage_inside(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Damage that shows only when a page is read sets the file aside at that moment; the call has a new one."""
    store = opened(path)
    for number in range(200):
        store.put(f"https://{number}.example", b"x" * 500, LONG)
    store.close()
    store = opened(path)
    damage(path, 4096, path.stat().st_size - 4096)
    assert store.get("https://7.example") is None
    store.put(KEY, b"one", LONG)
    assert list(store.keys()) == [KEY]
    store.close()
    assert path.with_name("robots.sqlite.damaged").exists()
    assert "malformed" in warnings(caplog)[0]
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize("start", range(0, 20_000, 1024))
def test_damage_anywhere(path: Path, start: int) -> None:
    """Wherever a file is damaged, no value is got that was not put under its key, and the store can be used."""
    store = opened(path)
    keys = [f"https://{number}.example" for number in range(40)]
    for key in keys:
        store.put(key, f"{key} ".encode() * 20, LONG)
    store.close()
    damage(path, start)
    store = opened(path)
    for key in keys:
        # A value itself may be damaged: that shows by its own checksum, see test_codec.py.
        value = store.get(key)
        assert value is None or b"\xa5" in value or value == f"{key} ".encode() * 20
    for key in keys:
        store.put(key, b"new", LONG)
        assert store.get(key) == b"new"
    store.close()


def test_a_later_version(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file with a table of another version is set aside, whole."""
    opened(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    store = opened(path)
    assert store.get(KEY) is None
    store.close()
    assert "version 2, where 1 is known" in warnings(caplog)[0]
    with contextlib.closing(sqlite3.connect(path.with_name("robots.sqlite.damaged"))) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


def test_damage_that_cannot_be_set_aside(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the damaged file cannot be renamed, calls fail, and go on failing: nothing is made up."""
    store.close()
    damage(path)

    def replace(*_: object) -> Path:
        raise PermissionError("not here")

    monkeypatch.setattr(Path, "replace", replace)
    again = opened(path)
    for _ in range(2):
        with pytest.raises(PermissionError):
            again.get(KEY)


# Gone, full, locked, read-only.


def test_a_file_that_is_deleted(store: SqliteStore, path: Path) -> None:
    """A file that somebody deletes fails one call; the next ones have a new file, and nothing of the old one's."""
    path.unlink()
    assert path.with_name("robots.sqlite-wal").exists()
    with pytest.raises(FileNotFoundError, match="was removed or replaced; it is opened anew at the next call"):
        store.get(KEY)
    assert store.get(KEY) is None
    store.put(OTHER, b"new", LONG)
    another = opened(path)
    assert list(another.keys()) == [OTHER]
    another.close()


def test_a_folder_that_is_deleted(store: SqliteStore, path: Path) -> None:
    """Where the whole folder is gone every call fails until it is back."""
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            store.put(KEY, b"two", LONG)
    path.parent.mkdir()
    store.put(KEY, b"two", LONG)
    assert store.get(KEY) == b"two"


@contextlib.contextmanager
def limited(octets: int) -> Iterator[None]:
    """Let this process write no file beyond a size."""
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
    """A file that cannot grow fails the calls that write; what is in it can be read, and later it is written again."""
    with limited(1_000_000):
        fill(store)
        assert store.get(KEY) == b"one"
    store.put(KEY, b"two", LONG)
    assert store.get(KEY) == b"two"


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of one megabyte; only root can have one."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder]
        if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("a disk can be mounted by root only")
        yield Path(folder)
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    """On a full disk writing fails and reading works; a store that is opened there fails later, not at the start."""
    store = opened(small_disk / "robots.sqlite")
    store.put(KEY, b"one", LONG)
    fill(store)
    assert store.get(KEY) == b"one"
    with contextlib.suppress(OSError):
        (small_disk / "rest").write_bytes(b"x" * 1_000_000)
    late = opened(small_disk / "late" / "robots.sqlite")
    with pytest.raises((sqlite3.OperationalError, OSError)):
        late.put(KEY, b"one", LONG)
    store.close()
    for file in small_disk.glob("r*"):
        file.unlink()
    (small_disk / "late").mkdir(exist_ok=True)
    late.put(KEY, b"one", LONG)
    assert late.get(KEY) == b"one"
    late.close()


def test_a_file_that_is_locked(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another program writes for long, writing fails in the end and reading goes on."""
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    second = opened(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert second.get(KEY) == b"one"
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            second.put(KEY, b"two", LONG)
        connection.execute("ROLLBACK")
    second.put(KEY, b"two", LONG)
    second.close()


def test_a_process_that_stops_while_it_opens(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another process does not end opening the file, nobody waits for it for ever."""
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    with alone_in(path.parent, 1):
        store = opened(path)
        with pytest.raises(TimeoutError, match="another process does not end opening the file"):
            store.get(KEY)
    store.put(KEY, b"one", LONG)
    store.close()


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder of an ordinary user, who this process is meanwhile: root may do everything."""
    with tempfile.TemporaryDirectory() as folder:
        root = os.geteuid() == 0
        if root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        yield Path(folder)
        if root:
            os.seteuid(0)
        Path(folder).chmod(0o700)


def test_a_file_that_may_only_be_read(nobody: Path) -> None:
    """A file that may only be read is read; writing fails."""
    path = nobody / "robots.sqlite"
    store = opened(path)
    store.put(KEY, b"one", LONG)
    store.close()
    path.chmod(0o400)
    store = opened(path)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store.put(KEY, b"two", LONG)
    assert store.get(KEY) == b"one"
    store.close()


@pytest.mark.parametrize("mode", [0o000, 0o500], ids=["closed", "read-only"])
def test_a_folder_without_rights(nobody: Path, mode: int) -> None:
    """Where no file can be made, the crawl does not start, and the error says why."""
    nobody.chmod(mode)
    with pytest.raises(StoreError, match="cannot be opened or made: Permission denied"):
        opened(nobody / "robots.sqlite")
    with pytest.raises(StoreError, match="cannot be opened or made: Permission denied"):
        opened(nobody / "deeper" / "robots.sqlite")


def test_a_file_without_rights(nobody: Path) -> None:
    """Where a file may not be read, the crawl does not start, and the error says why."""
    path = nobody / "robots.sqlite"
    path.touch(0o000)
    with pytest.raises(StoreError, match=r"robots\.sqlite cannot be opened or made: Permission denied"):
        opened(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    """A folder is no file, and a file no folder: the crawl does not start."""
    with pytest.raises(StoreError, match="cannot be opened or made: Is a directory"):
        opened(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be opened or made: (Not a directory|File exists)"):
        opened(tmp_path / "file" / "robots.sqlite")


def test_a_database_of_another_program(path: Path) -> None:
    """Nobody else's database is touched: the crawl does not start."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is a database of another program"):
        opened(path)
    assert path.read_bytes() == before


def test_values_that_have_ended_make_room(path: Path) -> None:
    """Values that nobody wants any more go with later writes: the file does not grow for ever."""
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
