"""A store in an SQLite file: for a crawl that goes on tomorrow, and for several processes on one machine.

In here: a table, and what is done when the file is damaged, gone, full or locked. How it is made sure that no two
processes lay hands on a file at once is `guard.py`.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from scrapy_robots_rfc.errors import StoreError
from scrapy_robots_rfc.stores.base import Store
from scrapy_robots_rfc.stores.guard import alone_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Says in the file's header whose it is: "RFC9" in ASCII.
APPLICATION_ID = 0x52464339
#: The version of the table.
VERSION = 1
#: Seconds to wait while another process writes, or opens the file.
_PATIENCE = 2.0
#: How many values that nobody wants any more go with a write at most.
_SWEPT = 20
#: Keys that are read at once: a reader that takes its time would keep writers from clearing up.
_PAGE = 1000

# Key and value in one record: no damage elsewhere in the file can give a key the value of another one.
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE copies (key TEXT PRIMARY KEY, keep_until REAL NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX copies_by_end ON copies (keep_until);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
COMMIT;
"""
_GET = "SELECT value FROM copies WHERE key = ? AND keep_until > ?"
_PUT = """
INSERT INTO copies (key, keep_until, value) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET keep_until = excluded.keep_until, value = excluded.value
"""
_SWEEP = "DELETE FROM copies WHERE key IN (SELECT key FROM copies WHERE keep_until <= ? LIMIT ?)"
# A value that has ended is as if it were not there; it goes with a write. No RETURNING: SQLite has it from 3.35 on.
_DELETE = "DELETE FROM copies WHERE key = ? AND keep_until > ?"
_KEYS = "SELECT key FROM copies WHERE key > ? AND keep_until > ? ORDER BY key LIMIT ?"


class _DamagedError(sqlite3.DatabaseError):
    """The file is no database that we can read."""


class SqliteStore(Store):
    """Several processes may use one file, on one machine: SQLite's shared memory does not reach over a network.

    :param path: of the file; folders that are missing on the way there are made when it is opened.
    :param now: seconds since 1970.
    """

    threads: ClassVar[int] = 1

    def __init__(self, path: str | Path, now: Callable[[], float] = time.time) -> None:
        self._path = Path(path).absolute()
        self._now = now
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def open(self) -> None:
        """Open the file, or make it.

        A disk that is full and a file that is locked may be otherwise later: what is asked of the store then fails.

        :raises StoreError: it is no file, belongs to another program, or may not be read or made.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._may_be_opened()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise StoreError(f"{self._path} cannot be opened or made: {error.strerror}") from error
        with contextlib.suppress(sqlite3.Error, OSError):
            self._connected()

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        row = self._do(lambda connection: connection.execute(_GET, (key, self._now())).fetchone())
        return None if row is None else row[0]

    def put(self, key: str, value: bytes, keep: float) -> None:
        """See `Store`."""
        now = self._now()

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_PUT, (key, now + keep, value))
            connection.execute(_SWEEP, (now, _SWEPT))

        self._do(write)

    def delete(self, key: str) -> bool:
        """See `Store`."""
        return self._do(lambda connection: connection.execute(_DELETE, (key, self._now())).rowcount > 0)

    def keys(self) -> Iterator[str]:
        """See `Store`."""
        last = ""
        while rows := self._do(lambda connection, after=last: self._page(connection, after)):  # type: ignore[misc]
            yield from rows
            last = rows[-1]

    def close(self) -> None:
        """See `Store`."""
        self._let_go()

    def _page(self, connection: sqlite3.Connection, after: str) -> list[str]:
        return [key for (key,) in connection.execute(_KEYS, (after, self._now(), _PAGE))]

    # The file.

    def _do(self, function: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do something with the file; if that shows damage, set the file aside and do it with a new one."""
        try:
            return function(self._connected())
        except sqlite3.Error as error:
            if _code(error) in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_ERROR):
                # What the connection knows of the file may be wrong, or the table gone: the next call looks anew.
                self._let_go()
            if not _is_damage(error):
                raise
            with alone_in(self._path.parent, _PATIENCE):
                self._set_aside(str(error))
            return function(self._connected())

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and _identity(self._path) != self._file:
            self._let_go()
            raise FileNotFoundError(f"{self._path} was removed or replaced; it is opened anew at the next call")
        if self._connection is None:
            with alone_in(self._path.parent, _PATIENCE):
                try:
                    self._connect()
                except _DamagedError as error:
                    self._set_aside(str(error))
                    self._connect()
        assert self._connection is not None
        return self._connection

    def _connect(self) -> None:
        if _identity(self._path) is None:
            # Left behind by a file that was removed; SQLite would take them for the new one's.
            for suffix in ("-wal", "-shm"):
                self._beside(suffix).unlink(missing_ok=True)
        # Opened on the thread of `open`, used on another one: never on two at once.
        connection = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        self._connection, self._file = connection, _identity(self._path)
        try:
            if self._file is None:
                raise FileNotFoundError(f"{self._path} was removed right after it was made")
            self._prepare(connection)
        except BaseException as error:
            self._let_go()
            if isinstance(error, sqlite3.Error) and _is_damage(error):
                raise _DamagedError(str(error)) from error
            raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        def pragma(text: str) -> int:
            value: int = connection.execute(f"PRAGMA {text}").fetchone()[0]
            return value

        # Losing the last writes when the machine itself dies is no harm; waiting for the disk at each write is.
        connection.execute("PRAGMA synchronous = NORMAL")
        owner, version = pragma("application_id"), pragma("user_version")
        if owner == 0 and version == 0 and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            pragma("journal_mode = WAL")  # readers and a writer at once; a file system that cannot keeps its own mode
            connection.executescript(_SCHEMA)
        elif owner != APPLICATION_ID:
            raise StoreError(f"{self._path} is a database of another program")
        elif version != VERSION:
            raise _DamagedError(f"version {version}, where {VERSION} is known")
        else:
            _look_for_table(connection)

    def _set_aside(self, why: str) -> None:
        """Rename the file, if it is still the one that is damaged: another process may have been faster."""
        damaged = self._file
        self._let_go()
        if damaged is None or _identity(self._path) != damaged:
            return
        aside = self._beside(".damaged")
        self._path.replace(aside)
        with contextlib.suppress(FileNotFoundError):
            self._beside("-wal").replace(self._beside(".damaged-wal"))
        self._beside("-shm").unlink(missing_ok=True)
        logger.warning(
            "The store of robots.txt files %s is damaged (%s): it is kept as %s, and a new one is made",
            self._path, why, aside.name,
        )  # fmt: skip

    def _beside(self, suffix: str) -> Path:
        return self._path.with_name(self._path.name + suffix)

    def _may_be_opened(self) -> None:
        """See whether the rights of this process suffice: SQLite's own error would not say what is missing."""
        while True:
            found = _identity(self._path)
            place, right = (self._path.parent, os.W_OK | os.X_OK) if found is None else (self._path, os.R_OK)
            if os.access(place, right, effective_ids=os.access in os.supports_effective_ids):
                return
            if _identity(self._path) == found:  # else another process has set it aside meanwhile
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _look_for_table(connection: sqlite3.Connection) -> None:
    """See whether there is a table that values can be put into, without putting any: only the database knows."""
    try:
        connection.execute(f"EXPLAIN {_PUT}", ("", 0.0, b""))
    except sqlite3.OperationalError as error:
        if _code(error) != sqlite3.SQLITE_ERROR:
            raise
        raise _DamagedError(f"its table is not what it should be: {error}") from error


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _is_damage(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
