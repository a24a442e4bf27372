"""Spiders that ask for a first page and, when it is there, for others; the tests say for which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from scrapy.http import Response


class Linked(Spider):
    """Asks for the first of some requests; when it is there, for the others, without errbacks."""

    name = "linked"

    def __init__(self, requests: Iterable[str | Request] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requests = [Request(item) if isinstance(item, str) else item for item in requests]
        self.came: list[str] = []

    async def start(self) -> AsyncIterator[Any]:
        """Ask for the first one."""
        yield self.requests[0].replace(callback=self.first)

    def first(self, response: Response) -> Iterable[Any]:
        """Ask for the others."""
        self.came.append(response.url)
        yield from self.requests[1:]
        yield {"items": "pass"}

    def parse(self, response: Response, **_: Any) -> None:
        """Note it."""
        self.came.append(response.url)


class AsyncLinked(Linked):
    """The same with an asynchronous callback."""

    name = "async"

    async def first(self, response: Response) -> Any:
        """Ask for the others."""
        self.came.append(response.url)
        for request in self.requests[1:]:
            yield request
        yield {"items": "pass"}


class Starts(Linked):
    """Starts with all of them."""

    async def start(self) -> AsyncIterator[Any]:
        """Ask for them."""
        for request in self.requests:
            yield request
        yield {"items": "pass"}
