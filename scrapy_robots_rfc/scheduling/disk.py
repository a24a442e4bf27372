"""The queues on disk: they close their files while others need them, and survive SIGKILL."""

from __future__ import annotations

import errno
import json
import logging
import shutil
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from scrapy.pqueues import ScrapyPriorityQueue

from scrapy_robots_rfc._scrapy import path_safe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

#: File descriptors that queues on disk use at most; or a quarter of what the process may have, if
#: that is less.
MOST_DESCRIPTORS = 128

# What a priority of one of Scrapy's queues may use: two files for its requests, and two for its
# start requests.
_DESCRIPTORS = 4


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
        # The priorities of each queue, and whether they differ from what was written.
        self._state = {key: list(priorities) for key, priorities in state.items()}
        self._changed = False
        self._writer: threading.Thread | None = None
        # The queues that are open, the one that was used last at the end.
        self._open: OrderedDict[str, ScrapyPriorityQueue] = OrderedDict()
        self._most_open = _most_descriptors() // _DESCRIPTORS
        # Folders of a process that was killed before they were in its state: what is in them
        # cannot be read.
        self._leftovers: set[Path] = set()
        with suppress(OSError):
            self._leftovers = {entry for entry in self._path.iterdir() if entry.is_dir()}
        self._leftovers -= {self._of(key) for key in state}
        for key, priorities in state.items():
            self._tidy(key, priorities)

    def _tidy(self, key: str, priorities: list[int]) -> None:
        """Remove what is not in the state: a killed process leaves files in pieces."""
        known = {f"{priority}{start}" for priority in priorities for start in ("", "s")}
        with suppress(OSError):
            for entry in self._of(key).iterdir():
                if entry.name in known:
                    continue
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()

    def _of(self, key: str) -> Path:
        return self._path / path_safe(self._crawler, key)

    def queue(self, key: str) -> QueueOnDisk:
        """Return the queue that has a key in the state, a new one if there is none."""
        if self._leftovers and self._of(key) in self._leftovers:
            shutil.rmtree(self._of(key), ignore_errors=True)
        return QueueOnDisk(self, key)

    def use(self, key: str, work: Callable[[ScrapyPriorityQueue], T]) -> T:
        """Use one of Scrapy's queues; if it lacks a file descriptor, close others first.

        :raises OSError: no descriptor is left.
        """
        while True:
            try:
                return work(self._opened(key))
            except OSError as error:
                other = next((each for each in self._open if each != key), None)
                if other is None or not lacks_descriptors(error):
                    raise
                self._close(other)

    def _opened(self, key: str) -> ScrapyPriorityQueue:
        """Return one of Scrapy's queues; if too many files are open then, close others."""
        queue = self._open.get(key)
        if queue is None:
            queue = self._make(str(self._of(key)), self._state.get(key, []))
            self._open[key] = queue
        self._open.move_to_end(key)
        while len(self._open) > 1 and self._open_priorities() > self._most_open:
            self._close(next(iter(self._open)))
        return queue

    def _open_priorities(self) -> int:
        return sum(max(1, len(self._state.get(key, ()))) for key in self._open)

    def _close(self, key: str) -> None:
        """Close one of Scrapy's queues, if it is open, so that all of it is on disk."""
        queue = self._open.get(key)
        if queue is not None:
            priorities = queue.close()
            del self._open[key]
            if priorities != self._state.get(key, []):
                self._state[key] = priorities
                self._changed = True

    def note(self, key: str, priority: int) -> None:
        """Note that a queue has requests of a priority."""
        priorities = self._state.setdefault(key, [])
        if priority not in priorities:
            priorities.append(priority)
            self._changed = True

    def forget(self, key: str) -> None:
        """Forget a queue that is empty."""
        self._close(key)
        if self._state.pop(key, None) is not None:
            self._changed = True
        with suppress(OSError):  # what is not empty stays
            self._of(key).rmdir()

    def give_up(self, key: str, error: Exception) -> None:
        """Remove a queue that cannot be read: what is pushed later is new."""
        logger.warning(
            "Requests of %s in JOBDIR cannot be read, and may be lost: its process was killed (%s)",
            key,
            str(error),
            extra={"spider": self._crawler.spider},
        )
        queue = self._open.pop(key, None)
        if queue is not None:
            with suppress(Exception):
                queue.close()
        self._state.pop(key, None)
        self._changed = True
        shutil.rmtree(self._of(key), ignore_errors=True)

    def save(self) -> None:
        """Write to disk what a process that is killed would lose.

        The state is written on a thread, as that of many sites takes long.
        """
        for key in list(self._open):
            self._close(key)
        if self._changed and (self._writer is None or not self._writer.is_alive()):
            self._changed = False
            self._writer = threading.Thread(
                target=self._replace, args=(dict(self._state),), daemon=True
            )
            self._writer.start()

    def close(self) -> dict[str, list[int]]:
        """Return the state for the scheduler, which writes it when the crawl closes."""
        for key in list(self._open):
            self._close(key)
        if self._writer is not None:
            self._writer.join()
        return {key: priorities for key, priorities in self._state.items() if priorities}

    def _replace(self, state: dict[str, list[int]]) -> None:
        """Replace the file at once, so that a process that is killed leaves the old or the new one.

        It is written in pieces: one long call of `json` would stop the event loop.
        """
        path = self._path / "active.json"
        fresh = path.with_suffix(".json.new")
        try:
            with fresh.open("w", encoding="utf-8") as file:
                between = "{"
                for key, priorities in state.items():
                    file.write(f"{between}{json.dumps(key)}: {json.dumps(priorities)}")
                    between = ", "
                file.write("}" if state else "{}")
            fresh.replace(path)
        except OSError as error:
            self._changed = True
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

        :raises ValueError: it cannot be written.
        """
        self._folder.use(self._key, lambda queue: queue.push(request))
        self._folder.note(self._key, -request.priority)

    def pop(self) -> Request | None:
        """Take a request; ``None``: there is none, or they cannot be read and are given up.

        :raises OSError: no file descriptor is left.
        """
        return self._read(ScrapyPriorityQueue.pop)

    def __len__(self) -> int:
        return self._read(len) or 0

    def _read(self, work: Callable[[ScrapyPriorityQueue], T]) -> T | None:
        try:
            return self._folder.use(self._key, work)
        except Exception as error:
            if lacks_descriptors(error):
                raise
            self._folder.give_up(self._key, error)
            return None


def _most_descriptors() -> int:
    """Return how many file descriptors the queues on disk may use."""
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return MOST_DESCRIPTORS
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return MOST_DESCRIPTORS
    return min(MOST_DESCRIPTORS, allowed // 4)


def lacks_descriptors(error: Exception) -> bool:
    """Whether an error says that no file descriptor is left."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
