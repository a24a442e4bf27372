"""What a queue on disk needs beside Scrapy's queues: its folder, and a bound of open files."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_robots_rfc._scrapy import path_safe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler

logger: logging.Logger = logging.getLogger(__name__)

#: File descriptors that queues on disk use at most; or a quarter of what the process may have, if
#: that is less.
MOST_DESCRIPTORS = 128


class QueueFolder:
    """The folder of a queue on disk, and its state: the priorities of each part.

    :param path: of the folder; the state is where Scrapy's scheduler looks for it.
    """

    def __init__(self, crawler: Crawler, path: str) -> None:
        self._crawler = crawler
        self._path = Path(path)
        self._priorities: dict[str, list[int]] = {}
        self._changed = False
        self._writer: threading.Thread | None = None
        # Folders of a process that was killed before they were in its state: what is in them
        # cannot be read.
        self._leftovers: set[str] = set()

    def of(self, key: str) -> Path:
        """Return the folder of a part."""
        return self._path / path_safe(self._crawler, key)

    def resume(self, state: Mapping[str, list[int]]) -> None:
        """Go on with the state of another process, and remove what is not in it.

        A process that is killed leaves files in pieces that it had just begun.
        """
        with suppress(OSError):
            folders = {entry.name for entry in os.scandir(self._path) if entry.is_dir()}
            self._leftovers = folders - {self.of(key).name for key in state}
        for key, priorities in state.items():
            self.note(key, list(priorities))
            known = {f"{priority}{start}" for priority in priorities for start in ("", "s")}
            with suppress(OSError):
                for entry in self.of(key).iterdir():
                    if entry.name in known:
                        continue
                    if entry.is_dir():
                        shutil.rmtree(entry)
                    else:
                        entry.unlink()

    def begin(self, key: str) -> None:
        """Prepare for a part that is new."""
        if self._leftovers and self.of(key).name in self._leftovers:
            self.clear(key)

    def clear(self, key: str) -> None:
        """Remove what is on disk of a part."""
        shutil.rmtree(self.of(key), ignore_errors=True)

    def note(self, key: str, priorities: list[int]) -> None:
        """Note the priorities of a part."""
        self._priorities[key] = priorities
        self._changed = True

    def forget(self, key: str) -> None:
        """Forget a part that is empty."""
        if self._priorities.pop(key, None) is not None:
            self._changed = True
        with suppress(OSError):  # what is not empty stays
            self.of(key).rmdir()

    def save(self) -> None:
        """Begin to write what has changed, on a thread: the state of many sites takes long."""
        if not self._changed or (self._writer is not None and self._writer.is_alive()):
            return
        self._changed = False
        copy = dict(self._priorities)
        self._writer = threading.Thread(target=self._replace, args=(copy,), daemon=True)
        self._writer.start()

    def join(self) -> None:
        """Wait until it is written, if it is being written."""
        if self._writer is not None:
            self._writer.join()

    def last(self) -> dict[str, list[int]]:
        """Return the state for the scheduler, which writes it when the crawl closes."""
        self.join()
        return {key: priorities for key, priorities in self._priorities.items() if priorities}

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


def most_descriptors() -> int:
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
