"""Queues on disk, which share a bounded number of file descriptors and survive SIGKILL."""

import errno
import json
import logging
import re
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.utils.misc import build_from_crawler

from scrapy_robots_rfc._runtime import descriptor_limit
from scrapy_robots_rfc._scrapy import next_queue, path_safe, peek, start_queues
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.throttle import slot_of

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Maximum file descriptors of the queues on disk, or a quarter of RLIMIT_NOFILE if that is less.
MAX_DESCRIPTORS = 128

#: Replaces the origin in the key of a queue whose requests no robots.txt applies to.
NO_ORIGIN = "*"

_DESCRIPTORS = 2  # per priority for requests, and as many for start requests
# The name that Scrapy gives to the file or folder of a priority; start requests have the "s".
_PRIORITY = re.compile(r"(-?\d+)s?")


def key_of(slot: str, origin: Origin | None) -> str:
    """Return the key of a queue in the state.

    :param origin: `None` for requests that no robots.txt applies to.
    """
    return f"{slot} {NO_ORIGIN if origin is None else origin}"


class QueueFolder:
    """The folder of all queues on disk, with their state. Only a few queues are open at a time.

    :param path: the folder, in which Scrapy's scheduler looks for the state.
    :param classes: the class of the queue for the requests of one priority, and the class for start
        requests, if they have one.
    :param state: the priorities of each queue, as the last process has stored them. Scrapy's
        `ScrapyPriorityQueue` stores a list, because it is a single queue.
    """

    def __init__(
        self,
        crawler: Crawler,
        path: str,
        classes: tuple[type[Any], type[Any] | None],
        state: Mapping[str, list[int]] | Iterable[int],
    ) -> None:
        self._crawler = crawler
        self._path = Path(path)
        self._class, self._start_class = classes
        self._state = dict(state) if isinstance(state, Mapping) else {}
        # Open queues, the most recently used one at the end.
        self._open: dict[str, ScrapyPriorityQueue] = {}
        # The maximum number of file descriptors of each open queue.
        self._descriptors: dict[str, int] = {}
        # Open queues in which a peek may have moved the position of a file.
        self._peeked: set[str] = set()
        # Queues that have had no start request. Scrapy would otherwise create files for start
        # requests whenever one is opened, and remove them when it is closed.
        self._without_start: set[str] = set()
        self._max_descriptors = min(MAX_DESCRIPTORS, descriptor_limit() // 4)
        self._writer: threading.Thread | None = None
        self._recover()

    @property
    def keys(self) -> list[str]:
        """The queues that the last process left."""
        return [key for key, priorities in self._state.items() if priorities]

    def _path_of(self, key: str) -> Path:
        return self._path / path_safe(self._crawler, key)

    def _class_of(self, name: str) -> Any:  # noqa: ANN401 - a class, or `None`
        """Return the class of the queue with a file name."""
        return self._start_class if name.endswith("s") else self._class

    def _spider(self) -> dict[str, Any]:
        """Return the `extra` of log records, as Scrapy's have it."""
        return {"spider": self._crawler.spider}

    def _recover(self) -> None:
        """Repair the files that a killed process left, and add those that are not in its state."""
        self._move_single_queue()
        keys = {self._path_of(key).name: key for key in self._state}
        repaired = 0
        for folder in list(self._path.glob("*")):
            names = [path.name for path in _priorities_in(folder)]
            if not names:
                continue
            # A folder from after the last save gets a provisional key until it has been repaired.
            key = keys.get(folder.name) or self._rename(folder)
            priorities = {int(name.rstrip("s")) for name in names}  # "s" is for start requests
            self._state[key] = sorted(priorities.union(self._state.get(key, ())))
            repaired += sum(self._repair(key, name) for name in names)
            if folder.name not in keys:
                self._restore_key(key, folder)
        if repaired:
            text = "Repaired %d queues in JOBDIR that a killed process left incomplete"
            logger.info(text, repaired, extra=self._spider())

    def _move_single_queue(self) -> None:
        """Move the files of `ScrapyPriorityQueue`, which is a single queue, into a folder."""
        for path in _priorities_in(self._path):
            folder = self._path / "single"
            folder.mkdir(exist_ok=True)
            path.rename(folder / path.name)

    def _rename(self, folder: Path) -> str:
        """Rename a folder whose name does not reveal its key, and return its new key."""
        for number in count(1):
            key = f"{folder.name[-32:]} (recovered {number})"
            if not self._path_of(key).exists():
                break
        folder.rename(self._path_of(key))
        return key

    def _restore_key(self, key: str, folder: Path) -> None:
        """Restore the original key of a folder, if its first request reveals it.

        :param key: the provisional key that `_rename` gave to the folder.
        :param folder: the original path of the folder.
        """
        request = self.peek(key)
        if request is None:
            return
        slot = slot_of(request)
        origins = (Origin.of(request.url), None)  # unsorted queues have no origin
        for original in (key_of(slot, origin) for origin in origins):
            if self._path_of(original) == folder:
                self._close(key)
                self._path_of(key).rename(folder)
                self._state[original] = self._state.pop(key)
                return

    def _repair(self, key: str, name: str) -> bool:
        """Repair the queue of one priority; return whether its files changed.

        If it cannot be repaired, its files are renamed.
        """
        from scrapy_robots_rfc.scheduling.repair import repair  # noqa: PLC0415 - loads SQLite

        kind = self._class_of(name)
        try:
            return kind is not None and repair(self._path_of(key) / name, kind)
        except (OSError, ValueError) as error:
            _raise_if_descriptors_lack(error)
            self._rename_damaged(key, name, error)
            return False

    def _rename_damaged(self, key: str, name: str, error: object) -> None:
        """Rename the file or folder of a damaged priority. The queue continues without it."""
        folder = self._path_of(key)
        path = folder / name
        new = folder / f"{name}.damaged"
        number = 1
        while new.exists():
            number += 1
            new = folder / f"{name}.damaged.{number}"
        with suppress(OSError):  # a third-party queue may have no file
            path.rename(new)
        priority = int(name.rstrip("s"))
        if not any((folder / each).exists() for each in (f"{priority}", f"{priority}s")):
            self._state[key] = [each for each in self._state.get(key, ()) if each != priority]
        text = "Cannot read requests of %s with priority %d, so they were moved to %s (%s)"
        logger.warning(text, key, -priority, new, error, extra=self._spider())

    # Open and closed.

    def use(self, key: str, function: Callable[[ScrapyPriorityQueue], T]) -> T:
        """Return the result of a function of one of Scrapy's queues, which is opened for it.

        If no file descriptor is left, close all queues and try again.

        :raises OSError: no descriptor is left.
        """
        try:
            return function(self._opened(key))
        except OSError as error:
            if not lacks_descriptors(error):
                raise
            self.flush()
            return function(self._opened(key))

    def _opened(self, key: str) -> ScrapyPriorityQueue:
        """Return an open queue, as the most recently used one."""
        queue = self._open.pop(key, None)
        if queue is not None:
            self._open[key] = queue
            return queue
        queue = self._open[key] = self._load(key)
        self._close_others(key)
        return queue

    def _close_others(self, key: str) -> None:
        """Close the least recently used queues if too many files are open for a queue."""
        kinds = 1 if key in self._without_start else 2
        self._descriptors[key] = _DESCRIPTORS * kinds * max(1, len(self._state.get(key, ())))
        while len(self._open) > 1 and sum(self._descriptors.values()) > self._max_descriptors:
            self._close(next(iter(self._open)))

    def _load(self, key: str) -> ScrapyPriorityQueue:
        """Open a queue, without the priorities that cannot be opened."""
        path = str(self._path_of(key))
        make = partial(
            ScrapyPriorityQueue,
            self._crawler,
            self._class,
            path,
            start_queue_cls=None if key in self._without_start else self._start_class,
        )
        try:
            return make(self._state.get(key, ()))
        except Exception as error:  # noqa: BLE001 - a damaged file, or a third-party queue
            _raise_if_descriptors_lack(error)
        for name in self._names(key):
            try:
                kind = self._class_of(name)
                build_from_crawler(kind, self._crawler, f"{path}/{name}").close()
            except Exception as error:  # noqa: BLE001 - as above
                _raise_if_descriptors_lack(error)
                self._rename_damaged(key, name, error)
        return make(self._state.get(key, ()))

    def _names(self, key: str) -> Iterator[str]:
        """Yield the names of a queue's files."""
        for priority in list(self._state.get(key, ())):
            yield str(priority)
            if self._start_class:
                yield f"{priority}s"

    def _close(self, key: str) -> bool:
        """Close a queue, so that all of it is on disk; repair it and return false if that fails."""
        self._peeked.discard(key)
        queue = self._open.pop(key)
        self._descriptors.pop(key, None)
        try:
            self._state[key] = queue.close()
        except Exception as error:  # noqa: BLE001 - the disk may be full
            text = "Cannot write all requests of %s to JOBDIR, so some may be lost (%s)"
            logger.error(text, key, error, extra=self._spider())
            for downstream in (*queue.queues.values(), *start_queues(queue).values()):
                with suppress(Exception):
                    downstream.close()
            for name in self._names(key):
                self._repair(key, name)
            return False
        return True

    def flush(self) -> bool:
        """Close all queues; return whether all requests are on disk now."""
        return False not in [self._close(key) for key in list(self._open)]

    # Requests.

    def push(self, key: str, request: Request) -> None:
        """Write a request.

        queuelib's `LifoDiskQueue.peek` leaves the position inside the file, where the next `push`
        would write. Closing the queue first prevents that.

        :raises OSError: no descriptor is left, or the file cannot be written.
        """
        is_start = request.meta.get("is_start_request", False)
        is_first_start = is_start and key in self._without_start
        if key in self._open and (is_first_start or key in self._peeked):
            self._close(key)
        if is_start:
            self._without_start.discard(key)
        elif key not in self._state:
            self._without_start.add(key)
        self.use(key, lambda queue: queue.push(request))
        priorities = self._state.setdefault(key, [])
        if -request.priority not in priorities:
            priorities.append(-request.priority)
            self._close_others(key)

    def peek(self, key: str) -> Request | None:
        """Return the next request of a queue, or `None` if it cannot be read."""
        try:
            request = self.use(key, peek)
        except Exception:  # noqa: BLE001 - `pop` will log why the queue cannot be opened
            return None
        self._peeked.add(key)
        return request

    def pop(self, key: str) -> Request | None:
        """Remove and return the next request of a queue, or return `None` if it has none.

        If a request cannot be restored, for instance because its callback was renamed, the next one
        is returned. If the files of a priority are damaged, they are repaired, or else renamed.
        They are damaged if they cannot be read, or if the same request fails twice.

        :raises OSError: no file descriptor is left.
        """
        # Each attempt ends in one of three ways:
        # 1. It returns a request, or there was none.
        # 2. The files of the priority are damaged. They are repaired or renamed.
        # 3. A request was removed, but it cannot be restored.
        repaired: set[str] = set()
        last_failure: tuple[str, int] | None = None
        while True:
            queue = self.use(key, lambda queue: queue)
            before = next_queue(queue)
            request, error = self._try_pop(queue)
            if request is not None or before is None:
                return request
            name, downstream = before
            failure = (name, len(downstream)) if next_queue(queue) == before else None
            is_unreadable = error is None or isinstance(error, (OSError, struct.error))
            is_damaged = failure is not None and (is_unreadable or failure == last_failure)
            last_failure = failure
            if is_damaged:
                self._close(key)
                if name in repaired:
                    self._rename_damaged(key, name, error or "its file is too short")
                else:
                    repaired.add(name)
                    self._repair(key, name)
            elif error is not None:
                text = "Lost a request of %s that cannot be restored from JOBDIR (%s)"
                logger.error(text, key, error, extra=self._spider())

    def _try_pop(self, queue: ScrapyPriorityQueue) -> tuple[Request | None, Exception | None]:
        """Return the request that `pop` returns, or the error that it raises.

        :raises OSError: no file descriptor is left.
        """
        try:
            return queue.pop(), None
        except Exception as error:
            if lacks_descriptors(error):
                self.flush()
                raise
            return None, error

    def remove(self, key: str) -> None:
        """Remove a queue that is empty."""
        if key in self._open:
            self._close(key)
        self._state.pop(key, None)
        self._without_start.discard(key)
        with suppress(OSError):  # it has other files
            self._path_of(key).rmdir()

    # The state.

    def save(self) -> None:
        """Close all queues, so that their files are complete, and write the state.

        A thread writes it, because that takes long with many sites.
        """
        self.flush()
        if self._writer is None or not self._writer.is_alive():
            state = dict(self._state)
            self._writer = threading.Thread(target=self._write, args=(state,), daemon=True)
            self._writer.start()

    def close(self) -> dict[str, list[int]]:
        """Return the state for the scheduler, which writes it when the crawl closes."""
        self.flush()
        if self._writer is not None:
            self._writer.join()
        return {key: priorities for key, priorities in self._state.items() if priorities}

    def _write(self, state: dict[str, list[int]]) -> None:
        """Replace the file at once, so that a killed process leaves the old one or the new one.

        `json.dump` writes it in pieces: one long call would block the event loop.
        """
        path = self._path / "active.json"
        new = path.with_suffix(".json.new")
        try:
            with new.open("w", encoding="utf-8") as file:
                json.dump(state, file)
            new.replace(path)
        except OSError as error:
            logger.warning("Cannot write the state of the queue to JOBDIR (%s)", error)


class QueueOnDisk:
    """One of Scrapy's queues on disk, which is closed while others need its file descriptors.

    :param key: its name in the scheduler's state, which also determines its folder.
    """

    def __init__(self, folder: QueueFolder, key: str) -> None:
        self._folder = folder
        self._key = key

    def push(self, request: Request) -> None:
        """Write a request.

        :raises ValueError: it cannot be written, so Scrapy keeps it in memory.
        """
        try:
            self._folder.push(self._key, request)
        except OSError as error:  # no descriptor is left, or the disk is full
            raise ValueError(str(error)) from error

    def pop(self) -> Request | None:
        """Remove and return the next request, or return `None` if there is none.

        :raises OSError: no file descriptor is left.
        """
        return self._folder.pop(self._key)

    def peek(self) -> Request | None:
        """Return the request that `pop` would return next, or `None` if it cannot be read."""
        return self._folder.peek(self._key)

    def __len__(self) -> int:
        return self._folder.use(self._key, len)

    def close(self) -> None:
        """Remove the queue, which is empty."""
        self._folder.remove(self._key)


def _priorities_in(folder: Path) -> list[Path]:
    """Return the files or folders of priorities."""
    return [path for path in folder.glob("*") if _PRIORITY.fullmatch(path.name)]


def lacks_descriptors(error: object) -> bool:
    """Return whether an error says that no file descriptor is left."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def _raise_if_descriptors_lack(error: Exception) -> None:
    """Raise an error again if no file descriptor is left, because the queue can be read later."""
    if lacks_descriptors(error):
        raise error
