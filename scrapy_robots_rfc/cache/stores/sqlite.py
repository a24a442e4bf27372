"""SqliteStore: a store in an SQLite file, for a crawl that is resumed, or for several processes.

A damaged file is renamed, and a new one is made. A file created by another program is never
modified.
"""

import contextlib
import errno
import itertools
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from scrapy_robots_rfc.cache.stores.base import Store
from scrapy_robots_rfc.errors import StoreError

logger: logging.Logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Identifies our files, in the SQLite header: "RFC9" in ASCII.
APPLICATION_ID = 0x52464339
#: Seconds to wait while another process writes, or opens the file.
LOCK_TIMEOUT = 2.0
# The start of an SQLite database, and the position of its application id
# (https://sqlite.org/fileformat.html).
_MAGIC = b"SQLite format 3\x00"
_APPLICATION_ID_AT = 68
#: Maximum number of expired values that a write deletes.
_MAX_SWEPT = 20

# A rollback journal instead of a write-ahead log: if the user removes the file but not the log,
# SQLite would apply the log to the next file. With a journal, SQLite notices that the file was
# removed. SQLite does not wait for the disk: a killed process loses nothing by that, but if the
# machine crashes, the file may be damaged, and a new one is made.
_JOURNAL = "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF;"
# Key and value are in one record, so that damage elsewhere in the file cannot give a key the value
# of another key. A table with other columns needs another name: a file without the table counts as
# damaged.
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS copies (
    key TEXT PRIMARY KEY, keep_until REAL NOT NULL, value BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS copies_by_end ON copies (keep_until);
PRAGMA application_id = {APPLICATION_ID};
COMMIT;
"""
_GET = "SELECT value FROM copies WHERE key = ? AND keep_until > ?"
_PUT = """
INSERT INTO copies (key, keep_until, value) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET keep_until = excluded.keep_until, value = excluded.value
"""
_SWEEP = "DELETE FROM copies WHERE key IN (SELECT key FROM copies WHERE keep_until <= ? LIMIT ?)"
# An expired value counts as absent. RETURNING would need SQLite 3.35.
_DELETE = "DELETE FROM copies WHERE key = ? AND keep_until > ?"
# No process can write while keys are read. The index has all of them, so that is quick.
_KEYS = "SELECT key FROM copies INDEXED BY copies_by_end WHERE keep_until > ?"

#: Errors that mean a damaged file if a new connection has them, too. One is SQLITE_ERROR: our
#: statements are right, so the table is wrong.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
#: Errors that a new connection may fix: the file was removed, replaced or damaged while the old
#: connection had it open.
_REOPEN = {*_DAMAGED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}


class SqliteStore(Store):
    """A store in one SQLite file, which several processes may use.

    :param path: the file; `open` makes missing folders.
    :param now: returns seconds since 1970.
    """

    def __init__(self, path: str | Path, now: Callable[[], float] = time.time) -> None:
        self._path = Path(path).absolute()
        self._now = now
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Check the file, or make an empty one; the first call will open it.

        A full disk raises nothing here, because it may have room later.

        :raises StoreError: it is not a file, or belongs to another program.
        :raises OSError: it cannot be read or made.
        """
        self._check_owner()  # before a pipe is opened, or a lock is made next to another file
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # If SQLite would fail, this fails, too, and says why.
            os.close(os.open(self._path, os.O_RDONLY | os.O_CREAT, 0o644))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        row = self._do(lambda connection: connection.execute(_GET, (key, self._now())).fetchone())
        return None if row is None else row[0]

    def put(self, key: str, value: bytes, seconds: float) -> None:
        """See `Store`."""
        now = self._now()

        def write(connection: sqlite3.Connection) -> None:
            with connection:  # one transaction takes less time than two
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_PUT, (key, now + seconds, value))
                connection.execute(_SWEEP, (now, _MAX_SWEPT))

        self._do(write)

    def delete(self, key: str) -> bool:
        """See `Store`."""
        done = self._do(lambda connection: connection.execute(_DELETE, (key, self._now())))
        return done.rowcount > 0

    def keys(self) -> Iterator[str]:
        """See `Store`."""
        rows = self._do(lambda connection: connection.execute(_KEYS, (self._now(),)).fetchall())
        return (key for (key,) in rows)

    def close(self) -> None:
        """See `Store`."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _do(self, function: Callable[[sqlite3.Connection], _T]) -> _T:
        """Call a function with a connection, and again with a new file if the old one is damaged.

        Only one process at a time opens or renames a file. Otherwise a process could have a damaged
        file open that another one renames, and would apply the journal of the new file, which has
        the same name, to the old one.
        """
        if self._connection is not None:
            try:
                return function(self._connection)
            except sqlite3.Error as error:
                if _code(error) not in _REOPEN:
                    raise
        with self._alone():
            self.close()
            try:
                return function(self._connect())
            except sqlite3.Error as error:
                if _code(error) not in _DAMAGED:
                    raise
                self._rename_damaged(error)
            return function(self._connect())

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let only one process at a time open the file.

        The lock is SQLite's own, on an empty file next to the database, because users may lock the
        folder of a crawl themselves. If that file cannot be made, there is no lock.

        :raises sqlite3.OperationalError: another process has had the lock for two seconds.
        """
        with contextlib.ExitStack() as stack:
            try:
                lock = sqlite3.connect(
                    f"{self._path}.lock", timeout=LOCK_TIMEOUT, isolation_level=None
                )
                stack.callback(lock.close)
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                if _code(error) == sqlite3.SQLITE_BUSY:
                    text = f"{self._path}.lock is locked by another process"
                    raise sqlite3.OperationalError(text) from None
            yield

    def _connect(self) -> sqlite3.Connection:
        is_new = self._check_owner()
        # Several threads use it, but never two at once.
        connection = sqlite3.connect(
            self._path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            connection.executescript(_JOURNAL + _SCHEMA if is_new else _JOURNAL)
        except sqlite3.Error:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _check_owner(self) -> bool:
        """Return whether the file is empty, as SQLite makes it before it writes, or unreadable.

        SQLite must not open a file before: it would roll back a journal that another program has
        left next to its database.

        :raises StoreError: the file belongs to another program.
        """
        try:
            if self._path.exists() and not (self._path.is_file() or self._path.is_dir()):
                raise StoreError(
                    f"{self._path} is not a file: it was not changed; choose another path"
                )
            with self._path.open("rb") as file:
                head = file.read(_APPLICATION_ID_AT + 4)
        except OSError:  # SQLite says what is wrong
            return True
        is_database = head.startswith(_MAGIC)
        is_ours = int.from_bytes(head[_APPLICATION_ID_AT:]) == APPLICATION_ID
        if head and not (is_database and is_ours):
            kind = "a database of another program" if is_database else "not an SQLite database"
            text = f"{self._path} is {kind}: it was not changed; remove it, or choose another path"
            raise StoreError(text)
        return not head

    def _rename_damaged(self, error: sqlite3.Error) -> None:
        """Rename our damaged file to an unused name."""
        self.close()
        if self._check_owner():  # an empty file is not damaged
            raise error
        names = (f"{self._path.name}.damaged{number or ''}" for number in itertools.count())
        free = next(path for path in map(self._path.with_name, names) if not path.exists())
        # SQLite would apply its journal to the next file, which has the same name.
        self._path.with_name(f"{self._path.name}-journal").unlink(missing_ok=True)
        self._path.replace(free)
        logger.warning(
            "The store of robots.txt files %s is damaged (%s): it is renamed to %s, and a new one "
            "is made",
            self._path, error, free.name,
        )  # fmt: skip


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
