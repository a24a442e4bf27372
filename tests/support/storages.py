"""Storages of a user's own for reports.

One that uploads when a test lets it, one that fails where a test wants it.
"""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from scrapy.extensions.feedexport import BlockingFeedStorage, FileFeedStorage


class Uploading(BlockingFeedStorage):
    """Stores what is uploaded, each when `gate` is open."""

    gate: ClassVar[threading.Event]
    stored: ClassVar[dict[str, bytes]]
    opened: ClassVar[list[Any]]
    most_open: ClassVar[int]

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        self.uri = uri

    @classmethod
    def prepare(cls) -> dict[str, Any]:
        """Forget all; return the settings that name the class."""
        cls.gate, cls.stored, cls.opened, cls.most_open = threading.Event(), {}, [], 0
        return {"FEED_STORAGES": {"up": "tests.support.storages.Uploading"}}

    def open(self, spider: Any) -> Any:
        """Make a file, and count those that are open."""
        file = super().open(spider)
        self.opened.append(file)
        type(self).most_open = max(self.most_open, sum(not file.closed for file in self.opened))
        return file

    def _store_in_thread(self, file: Any) -> None:
        assert self.gate.wait(50)
        file.seek(0)
        self.stored[self.uri] = file.read()
        file.close()


class Broken(FileFeedStorage):
    """Fails where a test wants it."""

    where: ClassVar[str]
    made: ClassVar[int] = 0

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        super().__init__(uri, feed_options=feed_options)
        type(self).made += 1
        if self.where == "third" and self.made == 4:  # the first is only a try
            raise OSError("no such server")

    def open(self, spider: Any) -> Any:
        """Perhaps fail."""
        if self.where == "open":
            raise OSError("no such server")
        return super().open(spider)

    def store(self, file: Any) -> Any:
        """Perhaps fail."""
        if self.where == "store":
            raise OSError("ftp://me:secret@host is gone")
        return super().store(file)
