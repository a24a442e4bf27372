"""Spiders that request a first page, and further pages from its callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from scrapy.http import Response


class Linked(Spider):
    """Requests the first page, then the others and yields an item, without errbacks."""

    name = "linked"

    def __init__(self, requests: Iterable[str | Request] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requests = [Request(item) if isinstance(item, str) else item for item in requests]
        self.came: list[str] = []

    async def start(self) -> AsyncIterator[Any]:
        yield self.requests[0].replace(callback=self.first)

    def first(self, response: Response) -> Iterable[Any]:
        self.came.append(response.url)
        yield from self.requests[1:]
        yield {"items": "pass"}

    def parse(self, response: Response, **_: Any) -> None:
        self.came.append(response.url)


class AsyncLinked(Linked):
    """Does the same with an asynchronous callback."""

    name = "async"

    async def first(self, response: Response) -> Any:
        self.came.append(response.url)
        for request in self.requests[1:]:
            yield request
        yield {"items": "pass"}


class Starts(Linked):
    """Requests all pages at the start."""

    async def start(self) -> AsyncIterator[Any]:
        for request in self.requests:
            yield request
        yield {"items": "pass"}
