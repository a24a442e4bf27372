"""A store of a user's own, as docs/caching.md shows it."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from scrapy_robots_rfc import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from scrapy.crawler import Crawler


class FolderStore(Store):
    """One file an origin; its time of modification says until when it is wanted."""

    threads = 4

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make it as Scrapy makes components."""
        return cls(crawler.settings["COPIES_FOLDER"])

    def open(self) -> None:
        """Make the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def _file(self, key: str) -> Path:
        return self.folder / quote(key, safe="")

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        try:
            value = self._file(key).read_bytes()
            return value if self._file(key).stat().st_mtime > time.time() else None
        except FileNotFoundError:
            return None

    def put(self, key: str, value: bytes, seconds: float) -> None:
        """See `Store`."""
        new = self.folder / f".{uuid.uuid4().hex}"
        new.write_bytes(value)
        os.utime(new, (0, time.time() + seconds))
        new.replace(self._file(key))  # whole or not at all

    def delete(self, key: str) -> bool:
        """See `Store`."""
        there = self.get(key) is not None
        self._file(key).unlink(missing_ok=True)
        return there

    def keys(self) -> Iterator[str]:
        """See `Store`."""
        names = [file.name for file in self.folder.iterdir() if not file.name.startswith(".")]
        return (key for key in map(unquote, names) if self.get(key) is not None)

    def close(self) -> None:
        """Nothing is open."""
