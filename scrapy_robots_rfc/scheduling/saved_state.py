"""SavedState, the state of disk queues, which is saved while the crawl runs."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

from scrapy_robots_rfc.scheduling.sharded_dict import ShardedDict

# Seconds that the thread sleeps after each shard, so that the other threads can run.
_PAUSE = 0.001


class SavedState(ShardedDict[str, list[int]]):
    """The priorities of each disk queue by key.

    :param path: the file where Scrapy's scheduler looks for the state.
    :param on_error: called in a thread if the file cannot be written.
    """

    def __init__(self, path: Path, on_error: Callable[[OSError], object]) -> None:
        super().__init__()
        self._path = path
        self._on_error = on_error
        self._writer: threading.Thread | None = None

    def save(self) -> None:
        """Write the file in a thread, because it may be large.

        If the previous thread is still busy, the next call will write it.
        """
        if self._writer is None or not self._writer.is_alive():
            self._writer = threading.Thread(target=self._write, daemon=True)
            self._writer.start()

    def close(self) -> dict[str, list[int]]:
        """Wait for the thread, and return the state of all queues that have requests."""
        if self._writer is not None:
            self._writer.join()
        return {
            key: priorities
            for shard in self.shards
            for key, priorities in shard.items()
            if priorities
        }

    def _write(self) -> None:
        """Replace the file atomically, so that a killed process leaves either the old or new one.

        A long call to `json.dumps` would block all other threads, so encode one shard at a time and
        let the others run after each one. They may change the state meanwhile, because a state that
        differs from the files is repaired when it is loaded.
        """
        new = self._path.with_suffix(".json.new")
        texts = []
        for shard in self.shards:
            copy = shard.copy()  # atomic, because of the GIL
            if copy:
                texts.append(json.dumps(copy)[1:-1])  # without the braces
                time.sleep(_PAUSE)
        try:
            new.write_text("{" + ", ".join(texts) + "}", encoding="utf-8")
            new.replace(self._path)
        except OSError as error:
            self._on_error(error)
