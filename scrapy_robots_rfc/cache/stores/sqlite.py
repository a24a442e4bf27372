"""SqliteStore: copies in an SQLite file, for a crawl that goes on later, or several processes.

A file of ours that is damaged is renamed, and a new one is begun. A file that is not ours is never
touched.
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

#: Says in the file's header whose it is: "RFC9" in ASCII.
APPLICATION_ID = 0x52464339
#: Seconds to wait while another process writes, or opens the file.
PATIENCE = 2.0
# How an SQLite database begins, and where it has its application id
# (https://sqlite.org/fileformat.html).
_MAGIC = b"SQLite format 3\x00"
_APPLICATION_ID_AT = 68
#: How many values whose time is over are deleted by a write at most.
_SWEPT = 20

# A rollback journal, and no write-ahead log: if somebody removes the file, the log may stay there,
# and SQLite takes it for the log of the next file. With a journal SQLite notices that the file was
# removed. SQLite does not wait for the disk. A killed process loses nothing by that; if the machine
# crashes, the file may be damaged, and a new one is begun.
_JOURNAL = "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF;"
# Key and value stand in one record, so that damage elsewhere in the file cannot give a key the
# value of another one. A table with other columns has to have another name: a file without the
# table counts as damaged.
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
# A value whose time is over counts as absent. RETURNING is not used, because SQLite has it from
# 3.35 on only.
_DELETE = "DELETE FROM copies WHERE key = ? AND keep_until > ?"
# No process can write while keys are read. The index has them all, so that takes a moment only.
_KEYS = "SELECT key FROM copies INDEXED BY copies_by_end WHERE keep_until > ?"

#: Errors that mean a damaged file if a new connection has them, too. SQLITE_ERROR is among them:
#: our statements are right, so the table is wrong.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
#: Errors that a new connection may not have: the file was removed, replaced or damaged while the
#: old one had it open.
_OPEN_ANEW = {*_DAMAGED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}


class SqliteStore(Store):
    """Several processes may use one file.

    :param path: of the file; folders that are missing on the way there are made when it is opened.
    :param now: seconds since 1970.
    """

    def __init__(self, path: str | Path, now: Callable[[], float] = time.time) -> None:
        self._path = Path(path).absolute()
        self._now = now
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Look at the file, or make an empty one: the first call opens it.

        A full disk raises nothing here, because that may pass.

        :raises StoreError: it is no file, or is not ours.
        :raises OSError: it may not be read or made.
        """
        self._check_owner()  # before a pipe is opened, or a file for the lock is beside the user's
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # This fails where SQLite would, and says why.
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
                connection.execute(_SWEEP, (now, _SWEPT))

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
        """Do something with the file, or with a new one if a new connection finds it damaged, too.

        A file is opened, and renamed, by one process at a time. Otherwise a process could read a
        damaged file after another one has renamed it. It would take the journal of the new file,
        which has the same name, for that of the old one, and write it there.
        """
        if self._connection is not None:
            try:
                return function(self._connection)
            except sqlite3.Error as error:
                if _code(error) not in _OPEN_ANEW:
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
        """Let one process at a time open the file.

        The lock is SQLite's own, on an empty file beside the database: users lock the folder of a
        crawl, as with ``flock``. Where no such file can be made, there is no lock.

        :raises sqlite3.OperationalError: another process had the lock for two seconds.
        """
        with contextlib.ExitStack() as stack:
            try:
                lock = sqlite3.connect(f"{self._path}.lock", timeout=PATIENCE, isolation_level=None)
                stack.callback(lock.close)
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                if _code(error) == sqlite3.SQLITE_BUSY:
                    why = f"{self._path}.lock is locked by another process"
                    raise sqlite3.OperationalError(why) from None
            yield

    def _connect(self) -> sqlite3.Connection:
        is_new = self._check_owner()
        # It may be used on several threads, but never on two at once.
        connection = sqlite3.connect(
            self._path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            connection.executescript(_JOURNAL + _SCHEMA if is_new else _JOURNAL)
        except sqlite3.Error:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _check_owner(self) -> bool:
        """Whether there is nothing in the file yet: SQLite makes an empty one before it writes.

        This is asked before SQLite sees the file: it would roll back a journal that another program
        has left beside its database. True, too, where the file cannot be read.

        :raises StoreError: the file is not ours.
        """
        try:
            if self._path.exists() and not (self._path.is_file() or self._path.is_dir()):
                raise StoreError(f"{self._path} is no file: it was not changed; name another one")
            with self._path.open("rb") as file:
                head = file.read(_APPLICATION_ID_AT + 4)
        except OSError:  # SQLite says what is wrong
            return True
        is_database = head.startswith(_MAGIC)
        ours = int.from_bytes(head[_APPLICATION_ID_AT:]) == APPLICATION_ID
        if head and not (is_database and ours):
            what = "a database of another program" if is_database else "no SQLite database"
            text = f"{self._path} is {what}: it was not changed; remove it, or name another file"
            raise StoreError(text)
        return not head

    def _rename_damaged(self, why: sqlite3.Error) -> None:
        """Give a damaged file of ours a name that is free."""
        self.close()
        if self._check_owner():  # nothing in it is damaged
            raise why
        names = (f"{self._path.name}.damaged{number or ''}" for number in itertools.count())
        free = next(path for path in map(self._path.with_name, names) if not path.exists())
        # Its journal would count as that of the next file, which has the same name.
        self._path.with_name(f"{self._path.name}-journal").unlink(missing_ok=True)
        self._path.replace(free)
        logger.warning(
            "The store of robots.txt files %s is damaged (%s): it is renamed to %s, and a new one "
            "is made",
            self._path, why, free.name,
        )  # fmt: skip


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
