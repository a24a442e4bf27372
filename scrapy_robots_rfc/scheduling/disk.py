"""The queued requests of a JOBDIR, which are rows of one SQLite file.

The file is `requests.queue/requests.sqlite`. Each call is a transaction of its own, so a killed
process loses only the requests that it had handed out, and a resumed crawl hands out none of them
again. As in queuelib, nothing is flushed to the disk, so a power failure may damage the file.
The journal is a rollback journal that is written over again and again, so a request can be removed
even if the disk is full. (To reuse a write-ahead log, SQLite first has to write to the file.)
"""

import json
import logging
import pickle
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from queuelib.queue import FifoDiskQueue, FifoSQLiteQueue, LifoDiskQueue, LifoSQLiteQueue
from scrapy import Request, squeues
from scrapy.crawler import Crawler
from scrapy.utils.job import job_dir
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name
from scrapy.utils.request import request_from_dict

from scrapy_robots_rfc._runtime import Runtime, log_once
from scrapy_robots_rfc._scrapy import has_ended
from scrapy_robots_rfc.errors import JobDirError, SettingError, sqlite_code
from scrapy_robots_rfc.optional import OUR_QUEUE, QUEUE

logger: logging.Logger = logging.getLogger(__name__)

#: The folder in JOBDIR and the files in it. Scrapy's scheduler chose the first two names.
FOLDER = "requests.queue"
STATE = "active.json"
FILE = "requests.sqlite"
_JOURNAL = "requests.sqlite-journal"
_OUR_PREFIXES = (STATE, "requests.")

#: The state in `active.json`. It is a number because both of Scrapy's own queues refuse a number.
#: So they never start an empty crawl in the JOBDIR of this queue.
_STATE_IN_USE = 1
# Marks the file as ours ("ROBO"), and says which format it has.
_APPLICATION_ID = 0x524F424F
_FORMAT = 1

_MAX_INTEGER = 2**63 - 1

# Requests leave in the order of the index. As in Scrapy's queue, start requests come after other
# ones with the same priority. `place` counts up, and is negative for classes that hand out the last
# request first.
_CREATE = f"""
    BEGIN;
    CREATE TABLE requests (
        place INTEGER PRIMARY KEY,
        slot BLOB NOT NULL,
        origin TEXT NOT NULL,
        priority INTEGER NOT NULL,
        is_start INTEGER NOT NULL,
        request BLOB NOT NULL
    );
    CREATE INDEX next_request ON requests (slot, origin, priority, is_start, place);
    PRAGMA application_id = {_APPLICATION_ID};
    PRAGMA user_version = {_FORMAT};
    COMMIT;
"""
_COUNT = "SELECT slot, origin, count(*) FROM requests GROUP BY slot, origin"
# Two subqueries, so that SQLite doesn't read all rows.
_LAST_PLACE = """
    SELECT max(abs((SELECT min(place) FROM requests)), abs((SELECT max(place) FROM requests)))
"""
_PUSH = "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?)"
_NEXT = """
    SELECT place, request FROM requests WHERE slot = ? AND origin = ?
    ORDER BY priority, is_start, place LIMIT 1
"""
_REMOVE = "DELETE FROM requests WHERE place = ?"

# Errors of a full disk or a failing one, which may go away.
_DISK_ERRORS = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
# Errors of files that cannot be written.
_NOT_WRITABLE = (*_DISK_ERRORS, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
# Seconds to wait for the lock if two crawls start at the same time.
_LOCK_TIMEOUT = 0.2
# Size of the journal in bytes, or half of the free space if that is less. It only has to grow
# for a transaction that changes more than 60 pages. Removing a request changes about ten.
_JOURNAL_SIZE = 262_144

# Scrapy's queue classes that hand out the last request first. The other classes in `squeues` are
# FIFO queues. `LifoSQLiteQueue` is a subclass of `FifoSQLiteQueue`.
_LIFO = (LifoDiskQueue, LifoSQLiteQueue)
_ON_DISK = (*_LIFO, FifoDiskQueue, FifoSQLiteQueue)


class PartKey(NamedTuple):
    """Identifies the rows of a `QueuePart`.

    :param slot: the name of the downloader slot.
    :param origin: the origin of the URLs, or an empty string for URLs without one, and for requests
        that are exempt. Whether robots.txt applies to the origin is decided when the crawl resumes.
    """

    slot: str
    origin: str

    def row(self) -> tuple[bytes, str]:
        """Return the key as it is stored. A slot may contain lone surrogates."""
        return self.slot.encode("utf-8", "surrogatepass"), self.origin


@dataclass(slots=True, eq=False, repr=False)
class StoredPart:
    """The requests of a `QueuePart` on disk.

    :param order_of: returns the arguments `is_start` and `is_lifo` of `RequestFile.push`.
    """

    file: "RequestFile"
    key: PartKey
    order_of: Callable[[Request], tuple[bool, bool]]

    def push(self, request: Request) -> None:
        """Store a request.

        :raises ValueError: the request cannot be stored, so Scrapy keeps it in memory.
        """
        is_start, is_lifo = self.order_of(request)
        self.file.push(self.key, request, is_start=is_start, is_lifo=is_lifo)

    def pop(self) -> Request | None:
        """Remove and return the next request, or return `None` if it cannot be restored.

        :raises FileUnavailableError: it couldn't be removed, so it is still there.
        """
        return self.file.pop(self.key)

    def peek(self) -> Request | None:
        """Return the request that `pop` would return next, or `None` if it cannot be read."""
        return self.file.peek(self.key)


class FileUnavailableError(Exception):
    """A request can't be removed, so the crawl ends."""


class RequestFile:
    """The SQLite file with a crawl's queued requests. It is locked until it is closed.

    :param folder: the folder `requests.queue` in JOBDIR.
    :raises JobDirError: another crawl uses the file, or it can't be used for another reason.
    """

    def __init__(self, crawler: Crawler, folder: Path) -> None:
        self._crawler_ref = ref(crawler)  # so that a crawl that failed to start can be collected
        self.folder: Path = folder
        self._path = folder / FILE
        self._keeps_file = False  # True after an error that ends the crawl
        self._unrestored: Counter[str] = Counter()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _refuse_other_queues(folder)
            self._open()
        except (OSError, ValueError, sqlite3.Error) as error:
            raise JobDirError(self._explain(error)) from error

    # Opening and closing.

    def _open(self, *, is_retry: bool = False) -> None:
        """Open and lock the file. If another crawl has just removed it, create a new one."""
        # No other code may open the file: closing it again would drop the lock. In `scrapy shell`,
        # the crawl runs on another thread than the one that created it.
        self._connection = sqlite3.connect(
            self._path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            #: The number of requests of each part that an earlier process left.
            self.counts: dict[PartKey, int] = self._lock_and_count()
            (last_place,) = self._connection.execute(_LAST_PLACE).fetchone()
            self._last_place: int = last_place or 0
            self._enlarge_journal()
            _replace(self.folder / STATE, json.dumps(_STATE_IN_USE))
        except BaseException as error:
            self._connection.close()
            is_removed = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED
            if is_retry or not is_removed:
                raise
            self._open(is_retry=True)

    def _lock_and_count(self) -> dict[PartKey, int]:
        """Lock the file, check that it is ours or create its table, and count its requests."""
        run = self._connection.execute
        run("PRAGMA synchronous = OFF")
        run("PRAGMA secure_delete = OFF")  # else a large request would need a large journal
        run("BEGIN EXCLUSIVE")
        run("PRAGMA locking_mode = EXCLUSIVE")  # keeps the lock after the transaction
        (application_id,) = run("PRAGMA application_id").fetchone()
        (is_empty,) = run("SELECT count(*) = 0 FROM sqlite_schema").fetchone()
        if application_id != _APPLICATION_ID and not is_empty:
            raise JobDirError(f"{self._path} is not a file of {OUR_QUEUE}. {_MOVE}")
        (version,) = run("PRAGMA user_version").fetchone()
        if version > _FORMAT:
            text = "was written by a later version of scrapy-robots-rfc. Update it, or"
            raise JobDirError(f"{self._path} {text} use another JOBDIR")
        run("COMMIT")
        run("PRAGMA journal_mode = PERSIST")  # only possible outside a transaction
        if is_empty:
            self._connection.executescript(_CREATE)
        # Write something: SQLite refuses to if the crawl that had the lock has removed the file.
        run(f"PRAGMA application_id = {_APPLICATION_ID}")
        return {
            PartKey(slot.decode("utf-8", "surrogatepass"), origin): count
            for slot, origin, count in run(_COUNT)
        }

    def _explain(self, error: OSError | ValueError | sqlite3.Error) -> str:
        """Return why the file cannot be opened, and what to do."""
        code = sqlite_code(error)
        if code == sqlite3.SQLITE_BUSY:
            return (
                f"Another crawl is using JOBDIR {self.folder.parent}. Wait until it has ended, or"
                " use another JOBDIR"
            )
        if isinstance(error, OSError) or code in _NOT_WRITABLE:
            return (
                f"Cannot write to {self._path} ({error}). Make it writable, or use another JOBDIR"
            )
        return f"{self._path} is damaged or is not a file of {OUR_QUEUE} ({error}). {_MOVE}"

    def _enlarge_journal(self) -> None:
        """Enlarge the journal, so that requests can be removed while the disk is full.

        Between two transactions, SQLite doesn't read its content.
        """
        size = min(_JOURNAL_SIZE, shutil.disk_usage(self.folder).free // 2)
        with suppress(OSError), (self.folder / _JOURNAL).open("ab") as journal:
            journal.write(b"\0" * (size - journal.tell()))  # nothing if it is large enough

    def close(self) -> object:
        """Close the file, and remove it if it is empty.

        :returns: the state for `active.json`, which is an empty dict if no requests are left.
        """
        _OPEN.pop(self._crawler, None)
        is_empty = False
        with suppress(sqlite3.Error):  # of a damaged file, which is then kept
            # This query is faster than counting, and returns NULL if there are no rows.
            is_empty = self._connection.execute(_LAST_PLACE).fetchone() == (None,)
        is_removed = is_empty and not self._keeps_file
        if is_removed:  # before the lock is dropped, because another crawl may be waiting for it
            # The file is last, because a crawl that starts without it creates its own journal.
            for name in (_JOURNAL, FILE):
                (self.folder / name).unlink(missing_ok=True)
        self._connection.close()
        for cause, count in self._unrestored.items():
            if count > 1:  # `_log_unrestored` has logged the first one
                logger.error(
                    "Lost more requests in the same way: %d (%s)",
                    count - 1,
                    cause,
                    extra=self._extra,
                )
        return {} if is_removed else _STATE_IN_USE

    # Requests.

    def push(self, key: PartKey, request: Request, *, is_start: bool, is_lifo: bool) -> None:
        """Store a request.

        :param is_start: whether the start queue class has to store it.
        :param is_lifo: whether its class hands out the last request first.
        :raises ValueError: the request cannot be stored, so Scrapy keeps it in memory.
        """
        try:
            pickled = pickle.dumps(request.to_dict(spider=self._crawler.spider), protocol=4)
        except Exception as error:  # the values may raise anything
            raise ValueError(f"{type(error).__name__}: {error}") from error
        place = self._last_place + 1
        place_in_file = -place if is_lifo else place
        # Higher priorities come first. `~` reverses the order of all 64-bit numbers.
        priority = min(max(~request.priority, -_MAX_INTEGER - 1), _MAX_INTEGER)
        row = (place_in_file, *key.row(), priority, is_start, pickled)
        try:
            self._connection.execute(_PUSH, row)
        except sqlite3.DataError as error:  # too large for SQLite
            raise ValueError(str(error)) from error
        except sqlite3.Error as error:
            if sqlite_code(error) in _DISK_ERRORS:
                self._log_once(_WAITING, error)
            else:
                self._end_crawl(error)
            raise ValueError(str(error)) from error
        self._last_place = place

    def pop(self, key: PartKey) -> Request | None:
        """Remove and return the next request, or return `None` if it cannot be restored.

        :raises FileUnavailableError: it couldn't be removed, so it is still there.
        """
        try:
            row = self._connection.execute(_NEXT, key.row()).fetchone()
            if row is None:
                raise sqlite3.DatabaseError("requests are missing")
            self._connection.execute(_REMOVE, row[:1])
        except sqlite3.Error as error:
            self._end_crawl(error)
            raise FileUnavailableError from error
        try:
            return self._restore(row[1])
        except Exception as error:  # noqa: BLE001 - a renamed callback, or anything else
            self._log_unrestored(key, error)
            return None

    def peek(self, key: PartKey) -> Request | None:
        """Return the request that `pop` would return, or `None` if it cannot be read."""
        try:
            _, pickled = self._connection.execute(_NEXT, key.row()).fetchone()
            return self._restore(pickled)
        except Exception:  # noqa: BLE001 - `pop` meets the same failure, and logs it
            return None

    def _restore(self, pickled: bytes) -> Request:
        """Return a request from its stored form. May raise anything."""
        # Scrapy's queues trust the files in JOBDIR in the same way.
        request = pickle.loads(pickled)  # noqa: S301 - we wrote it
        return request_from_dict(request, spider=self._crawler.spider)

    # Failures.

    def _end_crawl(self, error: sqlite3.Error) -> None:
        """End the crawl, because requests cannot be removed, or the file is damaged."""
        self._keeps_file = True  # `close` doesn't remove it, whatever it contains
        if self._log_once(_CLOSING, error):
            assert self._crawler.engine is not None
            Runtime().spawn(self._crawler.engine.close_spider_async(reason="jobdir_error"))

    @property
    def _crawler(self) -> Crawler:
        crawler = self._crawler_ref()
        assert crawler is not None  # whoever uses this object also has the crawl
        return crawler

    def _log_unrestored(self, key: PartKey, error: Exception) -> None:
        """Log the first request that is lost for a cause. `close` logs how many more there were."""
        cause = f"{type(error).__name__}: {error}"
        self._unrestored[cause] += 1
        if self._unrestored[cause] == 1:
            text = "Lost a request of %s that cannot be restored from JOBDIR (%s)"
            arguments = (key.origin or key.slot, cause)
            logger.error(text, *arguments, exc_info=error, extra=self._extra)

    def _log_once(self, text: str, error: sqlite3.Error) -> bool:
        """Log a failure with its folder, unless it was logged before. Return whether it is new."""
        arguments = (self.folder.parent, error)
        return log_once(self, logger, logging.ERROR, text, *arguments, extra=self._extra)

    @property
    def _extra(self) -> dict[str, object]:
        """The `extra` argument for log calls."""
        return {"spider": self._crawler.spider}


_MOVE = "Move it elsewhere, or use another JOBDIR"
_WAITING = (
    "Cannot write queued requests to JOBDIR %s (%s). Until that is possible again, new requests"
    " are only kept in memory. Free disk space, or check the disk"
)
_CLOSING = (
    "Closing the spider, because the queued requests in JOBDIR %s cannot be used (%s). Their file"
    " is left as it is"
)

# Crawl -> its open file.
_OPEN: WeakKeyDictionary[Crawler, RequestFile] = WeakKeyDictionary()


def open_requests(crawler: Crawler) -> None:
    """Open the file of a crawl with a JOBDIR, before Scrapy's scheduler opens anything.

    An exception in `Scheduler.open` would still send `spider_closed`, so `SpiderState` would
    overwrite the `spider.state` of another crawl that uses the JOBDIR.

    :raises SettingError: a disk queue class is not one of Scrapy's.
    :raises JobDirError: another crawl uses the file, or it can't be used for another reason.
    """
    folder = job_dir(crawler.settings)
    if not folder:
        return
    for setting in ("SCHEDULER_DISK_QUEUE", "SCHEDULER_START_DISK_QUEUE"):
        path = crawler.settings[setting]
        if path:
            is_lifo(load_object(path), setting)  # only for its error
    request_file(crawler, Path(folder, FOLDER))


def close_requests(crawler: Crawler) -> None:
    """Close a crawl's file, if it has one, because the crawl doesn't start.

    Scrapy won't write the state that says whether there are requests, so write it here.
    """
    file = _OPEN.get(crawler)
    if file is not None:
        _replace(file.folder / STATE, json.dumps(file.close()))


def request_file(crawler: Crawler, folder: Path) -> RequestFile:
    """Return a crawl's file, and open it if `open_requests` hasn't opened it in this folder."""
    opened = _OPEN.get(crawler)
    # A third-party scheduler may have chosen another folder.
    if opened is None or opened.folder != folder:
        # If an earlier crawl of this process failed to start, it still has the file's lock.
        for other, file in list(_OPEN.items()):
            if file.folder == folder and has_ended(other):
                file.close()
        opened = _OPEN[crawler] = RequestFile(crawler, folder)
    return opened


def refuse_our_file(crawler: Crawler) -> None:
    """Refuse a JOBDIR with requests of this queue in a crawl whose own queue can't read them.

    :raises JobDirError: there are such requests.
    """
    folder = job_dir(crawler.settings)
    if folder and Path(folder, FOLDER, FILE).exists():
        text = f"The requests in JOBDIR {folder} were stored by {OUR_QUEUE}. Set {QUEUE} to it"
        raise JobDirError(f"{text}, or use another JOBDIR")


def _refuse_other_queues(folder: Path) -> None:
    """Refuse a JOBDIR with requests of Scrapy's own queues, because this one can't read them.

    :raises JobDirError: there are such requests.
    """
    state: object = None
    with suppress(OSError, ValueError):
        state = json.loads((folder / STATE).read_bytes())
    # Scrapy's queues write a dict or a list, which is empty if no requests are left.
    if state and isinstance(state, (dict, list)):
        queue = f"{QUEUE} to the queue that it was started with (by default {_SCRAPYS_QUEUE})"
        advice = f". To finish that crawl, set {queue}. Otherwise, use another JOBDIR"
    # When our file was created, there were no others. Since then, Scrapy has refused the JOBDIR.
    elif (folder / FILE).exists() or not _has_foreign_files(folder, has_state=state is not None):
        return
    else:  # Scrapy only finds its files by their priorities, which the state lists
        advice = ", whose process was killed, so Scrapy cannot read them either. Use another JOBDIR"
    text = f"The requests in JOBDIR {folder.parent} were stored by another queue"
    raise JobDirError(text + advice)


def _has_foreign_files(folder: Path, *, has_state: bool) -> bool:
    """Return whether a process with another queue has left files because it was killed.

    :param has_state: whether there is a state. It may be the one that the process was resumed from,
        or be from an orderly stop, after which Scrapy 2.15 may leave an empty LIFO queue, a file of
        four bytes. Without a state, even an empty file means that a process was killed.
    """
    max_empty = 4 if has_state else -1
    return any(
        not path.name.startswith(_OUR_PREFIXES)
        and path.is_file()
        and path.stat().st_size > max_empty
        for path in folder.rglob("*")
    )


_SCRAPYS_QUEUE = '"scrapy.pqueues.DownloaderAwarePriorityQueue"'


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically, unless it has this content already."""
    with suppress(OSError):
        if path.read_bytes() == text.encode():
            return
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, "utf-8")
    new.replace(path)


def is_lifo(queue_class: type[Any], setting: str = "SCHEDULER_DISK_QUEUE") -> bool:
    """Return whether one of Scrapy's disk queue classes hands out the last request first.

    :param setting: the name of the setting with the class.
    :raises SettingError: it is a third-party class, which may encrypt or compress requests.
    """
    if queue_class not in vars(squeues).values() or not issubclass(queue_class, _ON_DISK):
        accepted = (
            "one of the disk queues in scrapy.squeues. To keep another class, set"
            f" {QUEUE} = {_SCRAPYS_QUEUE}"
        )
        raise SettingError(setting, global_object_name(queue_class), accepted)
    return issubclass(queue_class, _LIFO)
