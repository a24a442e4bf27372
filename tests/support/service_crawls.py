"""Crawls in which a coroutine of the test uses the service, and a clock that the test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import DeferredList

from scrapy_robots_rfc import RobotsService, robots_service
from tests.support.crawling import Crawl, Pages, crawl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from scrapy.crawler import Crawler


class Clock:
    """A clock that a test sets. `ahead` shifts only the date."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.ahead = 0.0

    def __call__(self) -> float:
        return self.now

    def date(self) -> float:
        return 1_700_000_000.0 + self.now + self.ahead


class Scripted(Pages):
    """Runs a coroutine with the service at the start of a crawl."""

    async def start(self) -> AsyncIterator[Any]:
        await self.script(robots_service(self.crawler))  # type: ignore[attr-defined]  # an argument of the spider
        async for request in super().start():
            yield request


async def run(
    script: Callable[[RobotsService], Awaitable[None]],
    settings: dict[str, Any] | None = None,
    *,
    requests: Iterable[str] = (),
    prepare: Callable[[Crawler], None] = lambda _: None,
) -> Crawl:
    """Run a coroutine in a crawl, then crawl pages."""
    errors: list[BaseException] = []

    async def guarded(service: RobotsService) -> None:
        try:
            await script(service)
        except BaseException as error:
            errors.append(error)
            raise

    result = await crawl(requests, settings, spider=Scripted, prepare=prepare, script=guarded)
    if errors:
        raise errors[0]
    return result


async def gather(*coroutines: Any) -> list[Any]:
    """Run coroutines side by side in any runtime, and return their results."""
    together = DeferredList([deferred_from_coro(c) for c in coroutines], consumeErrors=True)
    return [result for _, result in await maybe_deferred_to_future(together)]
