"""Run coroutine tests as Scrapy runs coroutines."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_twisted import ensureDeferred
from scrapy.utils.defer import deferred_from_coro

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def under_the_reactor(test: Callable[..., Coroutine[Any, Any, None]]) -> Any:
    """Return a test that runs as Scrapy runs coroutines, with asyncio in a task."""

    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        await deferred_from_coro(test(*args, **kwargs))

    return ensureDeferred(run)
