"""A third-party scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.core.scheduler import BaseScheduler

if TYPE_CHECKING:
    from scrapy import Request


class Own(BaseScheduler):
    """A scheduler with its own duplicate filter, which inherits nothing from Scrapy's scheduler."""

    def __init__(self) -> None:
        self.queue: list[Request] = []
        self.seen: set[str] = set()

    def has_pending_requests(self) -> bool:
        return bool(self.queue)

    def enqueue_request(self, request: Request) -> bool:
        if not request.dont_filter and request.url in self.seen:
            return False
        self.seen.add(request.url)
        self.queue.append(request)
        return True

    def next_request(self) -> Request | None:
        return self.queue.pop() if self.queue else None
