"""A store in an SQLite file, which survives restarts and may be used by several processes.

A damaged file is renamed and replaced with a new one. Files that belong to other programs are never
modified.
"""

import contextlib
import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from scrapy_robots_rfc._runtime import DISK_FULL
from scrapy_robots_rfc.cache.stores.base import Store
from scrapy_robots_rfc.errors import StoreError, sqlite_code

logger: logging.Logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: The application ID in the SQLite header of our files, which is "RFC9" in ASCII.
APPLICATION_ID = 0x52464339
#: Seconds to wait for another process to release a lock.
LOCK_TIMEOUT = 2.0
# The start of an SQLite database and the offset of its application ID; see
# https://sqlite.org/fileformat.html.
_MAGIC = b"SQLite format 3\x00"
_APPLICATION_ID_AT = 68
#: Maximum number of expired values to delete per write.
_MAX_SWEPT = 20

# Use a rollback journal instead of a write-ahead log. If a user deletes only the database, SQLite
# would apply the old write-ahead log to the next database, but would recognize an old journal.
# Also, do not wait for data to reach the disk. If the machine crashes, the file may be damaged and
# replaced, but nothing is lost if only the process is killed.
_JOURNAL = "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF;"
# WITHOUT ROWID stores the key and value in the same record, so that a damaged file cannot mix up
# the values of two keys. If the columns ever change, rename the table, because a file with
# different columns is considered damaged.
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
# Expired values are ignored. RETURNING would require SQLite 3.35.
_DELETE = "DELETE FROM copies WHERE key = ? AND keep_until > ?"
# This only reads the index, so that it does not block other processes for long.
_KEYS = "SELECT key FROM copies INDEXED BY copies_by_end WHERE keep_until > ?"

#: Errors that indicate a damaged file if they persist with a new connection. They include
#: SQLITE_ERROR, because it means that the table is missing or has different columns.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
#: Errors that a new connection may fix, because the file was deleted, replaced or damaged while it
#: was open.
_REOPEN = {*_DAMAGED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}


class SqliteStore(Store):
    """A store in an SQLite file, which several processes can share.

    :param path: the path of the file. `open` creates missing folders.
    :param now: a function that returns a Unix timestamp.
    """

    def __init__(self, path: str | Path, now: Callable[[], float] = time.time) -> None:
        self._path = Path(path).absolute()
        self._now = now
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Check the file, or create an empty one.

        The first call to another method opens the database. A full disk does not raise an error
        here, because there may be space later.

        :raises StoreError: if the path is not a file, or if it belongs to another program.
        :raises OSError: if the file cannot be read or created.
        """
        self._has_our_content()  # do this first, because opening a named pipe would block
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # This fails in the same cases as SQLite, but with a better error message.
            os.close(os.open(self._path, os.O_RDONLY | os.O_CREAT, 0o644))
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        row = self._run(lambda connection: connection.execute(_GET, (key, self._now())).fetchone())
        return None if row is None else row[0]

    def put(self, key: str, value: bytes, seconds: float) -> None:
        """See `Store`."""
        now = self._now()

        def write(connection: sqlite3.Connection) -> None:
            with connection:  # a single transaction is faster than two
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_PUT, (key, now + seconds, value))
                connection.execute(_SWEEP, (now, _MAX_SWEPT))

        self._run(write)

    def delete(self, key: str) -> bool:
        """See `Store`. A copy that has expired doesn't count."""
        cursor = self._run(lambda connection: connection.execute(_DELETE, (key, self._now())))
        return cursor.rowcount > 0

    def keys(self) -> Iterator[str]:
        """See `Store`."""
        rows = self._run(lambda connection: connection.execute(_KEYS, (self._now(),)).fetchall())
        return (key for (key,) in rows)

    def close(self) -> None:
        """See `Store`."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _run(self, query: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run a query on the database. If the file is damaged, retry with a new file.

        Only one process at a time may open or rename the file. Otherwise, one process could rename
        the damaged file while another is opening it. SQLite finds a file's journal by its name, so
        the second process would apply the journal of the new file to the damaged one.

        An open connection does not need the lock. If its file has been renamed, SQLite refuses to
        write to it (SQLITE_READONLY), and the new file is opened.
        """
        if self._connection is not None:
            try:
                return query(self._connection)
            except sqlite3.Error as error:
                if sqlite_code(error) not in _REOPEN:
                    raise
        # Open the file for the first time, or again in case that fixes the error.
        with self._only_one_process():
            self.close()
            try:
                return query(self._connect())
            except sqlite3.Error as error:
                if sqlite_code(error) not in _DAMAGED:
                    raise
                self._rename_damaged(error)
            return query(self._connect())  # creates a new file

    @contextlib.contextmanager
    def _only_one_process(self) -> Iterator[None]:
        """Context manager that allows only one process at a time to open the file.

        It uses an SQLite lock on an empty file next to the database. If that file cannot be
        created, nothing is locked.

        :raises sqlite3.OperationalError: if the lock is not available within two seconds.
        """
        with contextlib.ExitStack() as stack:
            try:
                lock = sqlite3.connect(
                    f"{self._path}.lock", timeout=LOCK_TIMEOUT, isolation_level=None
                )
                stack.callback(lock.close)
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                if sqlite_code(error) == sqlite3.SQLITE_BUSY:
                    raise sqlite3.OperationalError(
                        f"{self._path}.lock is locked by another process"
                    ) from None
                # If locking itself fails, continue without a lock.
            yield

    def _connect(self) -> sqlite3.Connection:
        """Open the database as `_connection`, and create its table if the file is new."""
        is_new = not self._has_our_content()
        # The connection is used by several threads, but never at the same time.
        connection = sqlite3.connect(
            self._path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            connection.executescript(_JOURNAL + (_SCHEMA if is_new else ""))
        except sqlite3.Error:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _has_our_content(self) -> bool:
        """Return whether our file has content, after checking that it isn't another program's.

        This must happen before SQLite opens the file. Otherwise, SQLite might roll back the other
        program's transaction.

        :returns: False if the file is missing, empty or unreadable.
        :raises StoreError: if the file belongs to another program.
        """
        try:
            # Opening a named pipe or a device might block. Opening a folder fails below.
            # Look only once, because another process may rename a damaged file at any time.
            mode = self._path.stat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise StoreError(
                    f"{self._path} is not a regular file, so it was not changed. Choose another"
                    " path"
                )
            with self._path.open("rb") as file:
                header = file.read(_APPLICATION_ID_AT + 4)
        except OSError:  # SQLite will report the error
            return False
        is_database = header.startswith(_MAGIC)
        is_ours = is_database and int.from_bytes(header[_APPLICATION_ID_AT:]) == APPLICATION_ID
        if header and not is_ours:
            kind = "another program's database" if is_database else "not an SQLite database"
            advice = "so it was not changed. Remove it, or choose another path"
            raise StoreError(f"{self._path} is {kind}, {advice}")
        return bool(header)

    def _rename_damaged(self, error: sqlite3.Error) -> None:
        """Close the damaged file, and rename it, for example to ``robots.sqlite.damaged``.

        Called with the lock, after a new connection has failed as well. So the file isn't a good
        one that another process has just created.

        :param error: raised again if the file is empty, because then it is not damaged.
        :raises StoreError: the file belongs to another program.
        """
        self.close()
        if not self._has_our_content():
            raise error
        number = 0
        free = self._path.with_name(f"{self._path.name}.damaged")
        while free.exists():
            number += 1
            free = self._path.with_name(f"{self._path.name}.damaged{number}")
        # Delete the journal, because another process could take it for one of the new file.
        self._path.with_name(f"{self._path.name}-journal").unlink(missing_ok=True)
        self._path.replace(free)
        logger.warning(
            "The robots.txt store %s is damaged (%s), so it was renamed to %s and a new one is "
            "created",
            self._path, error, free.name,
        )  # fmt: skip
