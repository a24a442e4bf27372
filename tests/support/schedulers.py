"""Schedulers that users may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.core.scheduler import BaseScheduler

if TYPE_CHECKING:
    from scrapy import Request


class Own(BaseScheduler):
    """Made from nothing: its filter of duplicates is its own affair."""

    def __init__(self) -> None:
        self.queue: list[Request] = []
        self.seen: set[str] = set()

    def has_pending_requests(self) -> bool:
        """Return whether there are any."""
        return bool(self.queue)

    def enqueue_request(self, request: Request) -> bool:
        """Take what was not seen."""
        if not request.dont_filter and request.url in self.seen:
            return False
        self.seen.add(request.url)
        self.queue.append(request)
        return True

    def next_request(self) -> Request | None:
        """Return the newest."""
        return self.queue.pop() if self.queue else None
