"""The queues on disk: they close their files while others need them, and survive SIGKILL."""

import errno
import json
import logging
import shutil
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.pqueues import ScrapyPriorityQueue

from scrapy_robots_rfc._scrapy import path_safe, start_queues

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

#: File descriptors that queues on disk use at most; or a quarter of what the process may have, if
#: that is less.
MOST_DESCRIPTORS = 128

# What a priority of one of Scrapy's queues may use: two files for its requests, and two for its
# start requests.
_DESCRIPTORS = 4


def peek(queue: ScrapyPriorityQueue) -> Request | None:
    """Return the request that `pop` would return next, or `None` if it cannot be read.

    `ScrapyPriorityQueue.peek` prefers start requests, which `pop` does not, and fails where `pop`
    would go on to another priority first.
    """
    try:
        start = start_queues(queue)
        priority = queue.curprio
        if priority not in queue.queues and priority not in start:
            priorities = (
                priority
                for queues in (queue.queues, start)
                for priority, downstream in queues.items()
                if downstream
            )
            priority = min(priorities, default=None)
        if priority is None:
            return None
        downstream: Any = queue.queues.get(priority) or start[priority]
        request: Request | None = downstream.peek()
    except Exception:  # noqa: BLE001 - no `peek`, a damaged file, a callback that is gone
        return None
    return request


class QueueFolder:
    """The folder of a queue on disk: its state, and those of its queues that are open.

    :param path: of the folder; the state is where Scrapy's scheduler looks for it.
    :param make: makes one of Scrapy's queues, from its folder and its priorities.
    :param state: what the last process has left: the priorities of each of Scrapy's queues.
    """

    def __init__(
        self,
        crawler: Crawler,
        path: str,
        make: Callable[[str, list[int]], ScrapyPriorityQueue],
        state: Mapping[str, list[int]],
    ) -> None:
        self._crawler = crawler
        self._path = Path(path)
        self._make = make
        self._state = dict(state)
        # Those that are open, the one that was used last at the end.
        self._open: dict[str, ScrapyPriorityQueue] = {}
        # Open queues in which a peek may have moved the position of a file.
        self._peeked: set[str] = set()
        self._most_open = _most_descriptors() // _DESCRIPTORS
        self._writer: threading.Thread | None = None
        self._tidy()

    def _tidy(self) -> None:
        """Remove what a killed process wrote after it last saved its state: it may be in pieces."""
        known = {
            (self._of(key).name, f"{priority}{start}")
            for key, priorities in self._state.items()
            for priority in priorities
            for start in ("", "s")
        }
        for entry in self._path.glob("*/*"):
            if (entry.parent.name, entry.name) in known:
                continue
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def _of(self, key: str) -> Path:
        return self._path / path_safe(self._crawler, key)

    def use(self, key: str, work: Callable[[ScrapyPriorityQueue], T]) -> T:
        """Use one of Scrapy's queues; if it lacks a file descriptor, close all others first.

        :raises OSError: no descriptor is left.
        """
        try:
            return work(self._opened(key))
        except OSError as error:
            if not lacks_descriptors(error):
                raise
            self._close_all()
            return work(self._opened(key))

    def _opened(self, key: str) -> ScrapyPriorityQueue:
        """Return one of Scrapy's queues; if too many files are open then, close others."""
        queue = self._open.pop(key, None)
        if queue is None:
            queue = self._make(str(self._of(key)), self._state.get(key, []))
        self._open[key] = queue
        while len(self._open) > 1 and self._open_priorities() > self._most_open:
            self._close_first()
        return queue

    def _open_priorities(self) -> int:
        return sum(max(1, len(self._state.get(key, ()))) for key in self._open)

    def push(self, key: str, request: Request) -> None:
        """Write a request.

        queuelib's `LifoDiskQueue.peek` leaves the position inside the file, and the next `push`
        would write there. Closing the queue first prevents that.

        :raises OSError: no descriptor is left, or the file cannot be written.
        """
        if key in self._peeked:
            self._close(key)
        self.use(key, lambda queue: queue.push(request))

    def peek(self, key: str) -> Request | None:
        """Return the next request of a queue, or `None` if it cannot be read."""
        self._peeked.add(key)
        try:
            return self.use(key, peek)
        except Exception:  # noqa: BLE001 - `pop` will log why the queue cannot be opened
            return None

    def _close(self, key: str) -> None:
        """Close a queue, so that all of it is on disk."""
        self._peeked.discard(key)
        if key in self._open:
            self._state[key] = self._open.pop(key).close()

    def _close_first(self) -> None:
        """Close the queue that was used longest ago."""
        self._close(next(iter(self._open)))

    def _close_all(self) -> None:
        while self._open:
            self._close_first()

    def note(self, key: str, priority: int) -> None:
        """Note that a queue has requests of a priority."""
        priorities = self._state.setdefault(key, [])
        if priority not in priorities:
            priorities.append(priority)

    def forget(self, key: str) -> None:
        """Forget a queue that is empty."""
        self._state.pop(key, None)
        self._peeked.discard(key)
        if key in self._open:
            self._open.pop(key).close()
        with suppress(OSError):  # what is not empty stays
            self._of(key).rmdir()

    def give_up(self, key: str, error: Exception) -> None:
        """Remove a queue that cannot be read: what is pushed later is new.

        :raises OSError: no file descriptor is left: the queue may be read later.
        """
        if lacks_descriptors(error):
            raise error
        logger.warning(
            "Requests of %s in JOBDIR cannot be read, and may be lost: its process was killed (%s)",
            key,
            str(error),
            extra={"spider": self._crawler.spider},
        )
        with suppress(Exception):  # its files may not even be closed
            self.forget(key)
        shutil.rmtree(self._of(key), ignore_errors=True)

    def lose(self, key: str, error: Exception) -> None:
        """Log that a request was read, and cannot be made again."""
        logger.error(
            "A request of %s in JOBDIR cannot be made again, and is lost (%s)",
            key,
            str(error),
            extra={"spider": self._crawler.spider},
        )

    def save(self) -> None:
        """Close all queues, so that their files are whole, and write the state.

        That is done on a thread, as it takes long with many sites.
        """
        self._close_all()
        if self._writer is None or not self._writer.is_alive():
            state = dict(self._state)
            self._writer = threading.Thread(target=self._replace, args=(state,), daemon=True)
            self._writer.start()

    def close(self) -> dict[str, list[int]]:
        """Return the state for the scheduler, which writes it when the crawl closes."""
        self._close_all()
        if self._writer is not None:
            self._writer.join()
        return {key: priorities for key, priorities in self._state.items() if priorities}

    def _replace(self, state: dict[str, list[int]]) -> None:
        """Replace the file at once, so that a process that is killed leaves the old or the new one.

        `json.dump` writes it in pieces: one long call would stop the event loop.
        """
        path = self._path / "active.json"
        fresh = path.with_suffix(".json.new")
        try:
            with fresh.open("w", encoding="utf-8") as file:
                json.dump(state, file)
            fresh.replace(path)
        except OSError as error:
            logger.warning("The state of the queue cannot be written to JOBDIR: %s", error)


class QueueOnDisk:
    """One of Scrapy's queues on disk, which is closed while others need its file descriptors.

    :param key: names it in the scheduler's state, and its folder.
    """

    def __init__(self, folder: QueueFolder, key: str) -> None:
        self._folder = folder
        self._key = key

    def push(self, request: Request) -> None:
        """Write a request.

        :raises ValueError: it cannot be written, or no file descriptor is left; Scrapy has it wait
            in memory then.
        """
        try:
            self._folder.push(self._key, request)
        except OSError as error:
            if lacks_descriptors(error):
                raise ValueError(str(error)) from error
            raise
        self._folder.note(self._key, -request.priority)

    def pop(self) -> Request | None:
        """Take a request; ``None``: there is none, or they cannot be read and are given up.

        One that cannot be made again, for instance because its callback has another name now, is
        lost alone.

        :raises OSError: no file descriptor is left.
        """
        left: int | None = None
        while True:
            try:
                return self._folder.use(self._key, ScrapyPriorityQueue.pop)
            except Exception as error:  # noqa: BLE001 - a file in pieces, or the user's class
                before = left
                left = None if isinstance(error, (OSError, struct.error)) else len(self)
                if left in (None, before):  # it was not taken out
                    self._folder.give_up(self._key, error)
                    return None
                self._folder.lose(self._key, error)

    def peek(self) -> Request | None:
        """Return the request that `pop` would return next, or `None` if it cannot be read."""
        return self._folder.peek(self._key)

    def __len__(self) -> int:
        return self._read(len) or 0

    def close(self) -> None:
        """Forget the queue: it is empty."""
        self._folder.forget(self._key)

    def _read(self, work: Callable[[ScrapyPriorityQueue], T]) -> T | None:
        try:
            return self._folder.use(self._key, work)
        except Exception as error:  # noqa: BLE001 - a file in pieces
            self._folder.give_up(self._key, error)
            return None


def _most_descriptors() -> int:
    """Return how many file descriptors the queues on disk may use."""
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return MOST_DESCRIPTORS
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MOST_DESCRIPTORS, allowed // 4)


def lacks_descriptors(error: Exception) -> bool:
    """Whether an error says that no file descriptor is left."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
