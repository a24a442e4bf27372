"""Third-party feed storages: one that waits for the test, and one that fails."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from scrapy.extensions.feedexport import BlockingFeedStorage, FileFeedStorage


class Uploading(BlockingFeedStorage):
    """Stores uploads once `gate` is set."""

    gate: ClassVar[threading.Event]
    stored: ClassVar[dict[str, bytes]]
    opened: ClassVar[list[Any]]
    most_open: ClassVar[int]

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        self.uri = uri

    @classmethod
    def prepare(cls) -> dict[str, Any]:
        """Reset the class, and return the settings that use it."""
        cls.gate, cls.stored, cls.opened, cls.most_open = threading.Event(), {}, [], 0
        return {"FEED_STORAGES": {"up": "tests.support.storages.Uploading"}}

    def open(self, spider: Any) -> Any:
        """Open a file, and count the open files."""
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
    """Fails in the call that a test names."""

    where: ClassVar[str]
    made: ClassVar[int] = 0

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        super().__init__(uri, feed_options=feed_options)
        type(self).made += 1
        if self.where == "third" and self.made == 4:  # the first instance is a check at start
            raise OSError("no such server")

    def open(self, spider: Any) -> Any:
        if self.where == "open":
            raise OSError("no such server")
        return super().open(spider)

    def store(self, file: Any) -> Any:
        if self.where == "store":
            raise OSError("ftp://me:secret@host is gone")
        return super().store(file)
