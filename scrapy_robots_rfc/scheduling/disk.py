"""What a queue on disk needs beside Scrapy's queues: its state, and a bound of open files."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

logger: logging.Logger = logging.getLogger(__name__)

#: File descriptors that queues on disk use at most; or a quarter of what the process may have, if
#: that is less.
MOST_DESCRIPTORS = 128


class QueueState:
    """The priorities of each part of a queue, in the file where Scrapy's scheduler looks for them.

    :param folder: of the queue.
    """

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, "active.json")
        self._priorities: dict[str, list[int]] = {}
        self._changed = False
        self._writer: threading.Thread | None = None

    def note(self, key: str, priorities: list[int]) -> None:
        """Note the priorities of a part."""
        self._priorities[key] = priorities
        self._changed = True

    def forget(self, key: str) -> None:
        """Forget a part, if it is known."""
        if self._priorities.pop(key, None) is not None:
            self._changed = True

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
        fresh = self._path.with_suffix(".json.new")
        try:
            with fresh.open("w", encoding="utf-8") as file:
                between = "{"
                for key, priorities in state.items():
                    file.write(f"{between}{json.dumps(key)}: {json.dumps(priorities)}")
                    between = ", "
                file.write("}" if state else "{}")
            fresh.replace(self._path)
        except OSError as error:
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
