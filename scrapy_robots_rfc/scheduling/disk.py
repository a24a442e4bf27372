"""Disk queues that share a limited number of file descriptors and survive SIGKILL."""

import logging
import re
import struct
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
from scrapy_robots_rfc.scheduling.saved_state import SavedState
from scrapy_robots_rfc.scheduling.sharded_dict import ShardedDict
from scrapy_robots_rfc.scheduling.shortage import is_shortage, lacks_descriptors, raise_if_shortage
from scrapy_robots_rfc.scheduling.throttle import slot_of

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Maximum file descriptors for the disk queues, or a quarter of RLIMIT_NOFILE if that is less.
MAX_DESCRIPTORS = 128

#: Used instead of an origin in the key of a queue whose requests aren't subject to robots.txt.
NO_ORIGIN = "*"

# Maximum descriptors for a queue's file or folder. A FIFO queue opens two files in its folder.
_DESCRIPTORS_PER_FILE = 2
# Maximum bytes of a folder name on most file systems, and the length of the hash at its end.
_MAX_NAME = 255
_HASH = 32
# Scrapy's name for the file or folder of a priority. The "s" is added for start requests.
_PRIORITY = re.compile(r"(-?\d+)s?")


def key_of(slot: str, origin: Origin | None) -> str:
    """Return a queue's key in the saved state.

    :param origin: `None` for requests that aren't subject to robots.txt.
    """
    try:
        slot.encode()
    except UnicodeEncodeError:  # a lone surrogate, which cannot be hashed for the folder name
        slot = ascii(slot)
    return f"{slot} {NO_ORIGIN if origin is None else origin}"


class QueueFolder:
    """The folder with all disk queues and their state. Only a few queues are open at a time.

    :param path: the folder where Scrapy's scheduler looks for the state.
    :param classes: the queue class used for each priority, and the one used for start requests, if
        they have their own.
    :param state: each queue's priorities, as stored by the last process. Scrapy's
        `ScrapyPriorityQueue` stores a list instead, because it is a single queue.
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
        # Instead of using the list of a `ScrapyPriorityQueue`, `_recover` looks for its files.
        self._state = SavedState(self._path / "active.json", self._log_unsaved)
        if isinstance(state, Mapping):
            self._state.update(state)
        # Open queues, with the most recently used one last.
        self._open: dict[str, ScrapyPriorityQueue] = {}
        # The maximum number of file descriptors that each open queue may use.
        self._descriptors: dict[str, int] = {}
        # Open queues where a peek may have moved the file position.
        self._peeked: set[str] = set()
        # Keys of queues that have never held a start request. Such queues are opened without files
        # for start requests, because Scrapy would create these each time, and remove them at each
        # close.
        self._without_start: ShardedDict[str, None] = ShardedDict()
        self._max_descriptors = min(MAX_DESCRIPTORS, descriptor_limit() // 4)
        self._logged: set[tuple[object, ...]] = set()
        self._recover()

    @property
    def keys(self) -> list[str]:
        """Keys of the queues left by the last process, in alphabetical order."""
        return sorted(key for key, priorities in self._state.items() if priorities)

    def _path_of(self, key: str) -> Path:
        name = path_safe(self._crawler, key)
        encoded = name.encode()
        if len(encoded) > _MAX_NAME:
            name = encoded[: _MAX_NAME - _HASH].decode(errors="ignore") + name[-_HASH:]
        return self._path / name

    def _class_of(self, name: str) -> Any:  # noqa: ANN401 - a class, or `None`
        """Return the queue class for a file name."""
        return self._start_class if name.endswith("s") else self._class

    def _spider(self) -> dict[str, Any]:
        """Return the same `extra` that Scrapy adds to log records."""
        return {"spider": self._crawler.spider}

    def _log_once(self, text: str, *args: object, level: int) -> None:
        """Log a message at a level, or at DEBUG if only its last argument, the error, is new."""
        message = (text, *args[:-1])
        level = logging.DEBUG if message in self._logged else level
        logger.log(level, text, *args, extra=self._spider())
        self._logged.add(message)

    def _recover(self) -> None:
        """Repair the files left by a killed process, and add them to the state it saved."""
        self._move_single_queue()
        key_by_folder = {self._path_of(key).name: key for key in self._state}
        repaired = 0
        for folder in list(self._path.glob("*")):
            names = [path.name for path in _priorities_in(folder)]
            if not names:
                continue
            # A folder created after the last save isn't in the state, and its name doesn't reveal
            # its key. Its first request may reveal the key, but can only be read after the repair.
            key = key_by_folder.get(folder.name)
            if key is None:
                key = self._provisional_key(folder)
                folder.rename(self._path_of(key))
            priorities = {int(name.rstrip("s")) for name in names}  # "s" is for start requests
            self._state[key] = sorted(priorities.union(self._state.get(key, ())))
            repaired += sum(self._repair(key, name) for name in names)
            if folder.name not in key_by_folder:
                self._restore_key(key, folder)
        if repaired:
            text = "Repaired %d queues in JOBDIR that a killed process left incomplete"
            logger.info(text, repaired, extra=self._spider())

    def _move_single_queue(self) -> None:
        """Move files written by `ScrapyPriorityQueue`, which is a single queue, into a folder."""
        for path in _priorities_in(self._path):
            folder = self._path / "single"
            folder.mkdir(exist_ok=True)
            path.rename(folder / path.name)

    def _provisional_key(self, folder: Path) -> str:
        """Make up a key for a folder."""
        for number in count(1):
            # Use only the hash at the end of the name. Otherwise the key would become longer each
            # time the folder is recovered.
            key = f"{folder.name[-_HASH:]} (recovered {number})"
            if not self._path_of(key).exists():
                break
        return key

    def make_provisional(self, key: str) -> str:
        """Give a queue a provisional key, and return the key."""
        folder = self._path_of(key)
        folder.mkdir(exist_ok=True)
        provisional = self._provisional_key(folder)
        self._rename(key, provisional)
        return provisional

    def _rename(self, key: str, new_key: str) -> None:
        """Close a queue and give it another key."""
        if key in self._open:
            self._close(key)
        self._path_of(key).rename(self._path_of(new_key))
        self._state[new_key] = self._state.pop(key)

    def _restore_key(self, key: str, folder: Path) -> None:
        """Restore a folder's original key if its first request reveals it.

        :param key: the provisional key.
        :param folder: the original path of the folder. It contains a hash of the original key, so
            it tells whether a guess is right.
        """
        request = self.peek(key)
        if request is None:
            return
        slot = slot_of(request)
        for origin in (Origin.of(request.url), None):  # `None` if robots.txt doesn't apply to it
            guess = key_of(slot, origin)
            if self._path_of(guess) == folder:
                self._rename(key, guess)
                return

    def _repair(self, key: str, name: str, error: Exception | None = None) -> bool:
        """Repair the queue for one priority. Return whether its files changed.

        If it cannot be repaired, its files are renamed.

        :param error: why the queue could not be opened. It is then renamed even if its files seem
            to be right.
        """
        from scrapy_robots_rfc.scheduling.repair import repair  # noqa: PLC0415 - loads SQLite

        kind = self._class_of(name)  # `None` if start requests no longer have their own class
        is_repaired = False
        try:
            is_repaired = kind is not None and repair(self._path_of(key) / name, kind)
        except (OSError, ValueError) as repair_error:
            raise_if_shortage(repair_error)
            error = repair_error
        if error is not None and not is_repaired:
            self._rename_damaged(key, name, error)
        return is_repaired

    def _rename_damaged(self, key: str, name: str, error: object) -> None:
        """Rename the file or folder of a damaged priority, so the queue continues without it."""
        folder = self._path_of(key)
        path = folder / name
        new = folder / f"{name}.damaged"
        number = 1
        while new.exists():
            number += 1
            new = folder / f"{name}.damaged.{number}"
        with suppress(OSError):  # a third-party queue may not have a file
            path.rename(new)
        # The priority remains in the state if either its start requests or its others have a file.
        priority = int(name.rstrip("s"))
        has_files = (folder / f"{priority}").exists() or (folder / f"{priority}s").exists()
        if not has_files:
            self._state[key] = [each for each in self._state.get(key, ()) if each != priority]
        text = "Cannot read requests of %s with priority %d, so they were moved to %s (%s)"
        logger.warning(text, key, -priority, new, error, extra=self._spider())

    # Opening and closing.

    def use(self, key: str, function: Callable[[ScrapyPriorityQueue], T]) -> T:
        """Open one of Scrapy's queues if needed, call a function with it, and return the result.

        If no file descriptors are left, close all queues and try again.

        :raises OSError: there are still no descriptors left.
        """
        try:
            return function(self._opened(key))
        except Exception as error:
            if not lacks_descriptors(error):
                raise
            self.flush()
            return function(self._opened(key))

    def _opened(self, key: str) -> ScrapyPriorityQueue:
        """Return a queue, opening it if needed, and mark it as the most recently used one."""
        queue = self._open.pop(key, None)
        if queue is not None:
            self._open[key] = queue
            return queue
        queue = self._open[key] = self._load(key)
        self._close_others(key)
        return queue

    def _close_others(self, key: str) -> None:
        """Close the least recently used queues until the open ones are within the limit.

        :param key: the most recently used queue, which stays open. Its descriptors are counted.
        """
        # Each priority has one file, and usually another one for its start requests.
        priorities = max(1, len(self._state.get(key, ())))  # a new queue will have at least one
        files = priorities if key in self._without_start else 2 * priorities
        self._descriptors[key] = _DESCRIPTORS_PER_FILE * files
        while len(self._open) > 1 and sum(self._descriptors.values()) > self._max_descriptors:
            self._close(next(iter(self._open)))  # the least recently used one

    def _load(self, key: str) -> ScrapyPriorityQueue:
        """Open a queue, leaving out any priorities that cannot be opened or repaired."""
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
            raise_if_shortage(error)
        # Open the files one by one to find the damaged ones. Repair or rename them, then try again.
        for name in self._names(key):
            try:
                build_from_crawler(self._class_of(name), self._crawler, f"{path}/{name}").close()
            except Exception as error:  # noqa: BLE001 - each class raises its own errors
                raise_if_shortage(error)
                self._repair(key, name, error)
        return make(self._state.get(key, ()))

    def _names(self, key: str) -> Iterator[str]:
        """Yield the names of a queue's files."""
        for priority in list(self._state.get(key, ())):
            yield str(priority)
            if self._start_class:
                yield f"{priority}s"

    def _close(self, key: str) -> None:
        """Close a queue so that all of it is on disk, or repair it if that fails."""
        self._peeked.discard(key)
        queue = self._open.pop(key)
        self._descriptors.pop(key, None)
        try:
            self._state[key] = queue.close()
        except Exception as error:  # noqa: BLE001 - the disk may be full
            text = "Cannot write all requests of %s to JOBDIR, so some may be lost (%s)"
            self._log_once(text, key, error, level=logging.ERROR)
            # The other files can still be closed. Repair cuts off a request written only partly.
            for downstream in (*queue.queues.values(), *start_queues(queue).values()):
                with suppress(Exception):
                    downstream.close()
            for name in self._names(key):
                with suppress(OSError):  # `pop` will repair it
                    self._repair(key, name)

    def flush(self) -> None:
        """Close all queues so that all requests are on disk."""
        for key in list(self._open):
            self._close(key)

    # Requests.

    def push(self, key: str, request: Request) -> None:
        """Write a request.

        :raises OSError: no descriptors are left, or the file cannot be written.
        """
        # After a peek, queuelib's `LifoDiskQueue` would overwrite data, unless it is reopened.
        if key in self._peeked:
            self._close(key)
        is_start = request.meta.get("is_start_request", False)
        is_new = key not in self._state
        if is_new and not is_start:
            self._without_start[key] = None
        elif is_start and key in self._without_start:
            # The queue needs files for start requests from now on. `use` reopens it with them.
            self._without_start.pop(key, None)
            if key in self._open:
                self._close(key)
        self.use(key, lambda queue: queue.push(request))
        priorities = self._state.setdefault(key, [])
        if -request.priority not in priorities:
            priorities.append(-request.priority)
            self._close_others(key)  # because each priority has its own open files

    def peek(self, key: str) -> Request | None:
        """Return the next request in a queue, or `None` if it cannot be read."""
        try:
            request = self.use(key, peek)
        except Exception:  # noqa: BLE001 - `pop` will log why the queue cannot be opened
            return None
        self._peeked.add(key)
        return request

    def pop(self, key: str) -> Request | None:
        """Remove and return the next request from a queue, or return `None` if it is empty.

        If a request cannot be restored, for instance because its callback was renamed, skip it and
        return the next one. If the files for a priority are damaged, repair them, or rename them if
        that fails. They count as damaged if they are unreadable or the same request fails twice.

        :raises OSError: no file descriptors are left, or the disk is full.
        """
        # Each attempt ends in one of four ways:
        # 1. It returns a request, or the queue is empty.
        # 2. The files for the priority are damaged, so they are repaired or renamed.
        # 3. A request was removed, but it cannot be restored.
        # 4. Nothing was left in the files for the priority. The next attempt uses the next ones.
        repaired: set[str] = set()
        last_failure: tuple[str, int] | None = None
        while True:
            queue = self.use(key, lambda opened: opened)
            name_and_queue = next_queue(queue)
            request, error = self._try_pop(queue)
            if request is not None or name_and_queue is None:
                return request
            name, downstream = name_and_queue
            # If no request is left for this priority, Scrapy's queue has moved on to the next one.
            has_moved_on = next_queue(queue) != name_and_queue
            failure = None if has_moved_on else (name, len(downstream))
            # `pop` removes a request before it restores it. If two failures leave the same number
            # of requests, they are about the same request, which cannot be removed.
            is_stuck = failure == last_failure
            # Without an error, the file has fewer requests than it should have.
            is_unreadable = error is None or isinstance(error, (OSError, struct.error))
            last_failure = failure
            if not has_moved_on and (is_unreadable or is_stuck):
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

        :raises OSError: no file descriptors are left, or the disk is full.
        """
        try:
            return queue.pop(), None
        except Exception as error:
            if lacks_descriptors(error):  # a FIFO queue may have to open its next file
                self.flush()  # frees descriptors, so that a later call succeeds
            if is_shortage(error):
                raise
            return None, error

    def remove(self, key: str) -> None:
        """Remove an empty queue."""
        if key in self._open:
            self._close(key)
        self._state.pop(key, None)
        self._without_start.pop(key, None)
        with suppress(OSError):  # the folder contains other files
            self._path_of(key).rmdir()

    # The state.

    def save(self) -> None:
        """Write everything to disk, so that a later crawl can resume even after SIGKILL.

        A file is complete only when it is closed. Queues are reopened when they are needed.
        """
        self.flush()
        self._state.save()

    def close(self) -> dict[str, list[int]]:
        """Return the state. The scheduler writes it when the crawl closes."""
        self.flush()
        return self._state.close()

    def _log_unsaved(self, error: OSError) -> None:
        text = "Cannot write the state of the queue to JOBDIR (%s)"
        self._log_once(text, error, level=logging.WARNING)


def _priorities_in(folder: Path) -> list[Path]:
    """Return the file or folder of each priority."""
    return [path for path in folder.glob("*") if _PRIORITY.fullmatch(path.name)]
