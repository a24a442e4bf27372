"""Run coroutine tests with the reactor of pytest, or without a reactor."""

from __future__ import annotations

import asyncio
import functools
import os
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.reactorless import install_reactor_import_hook

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Test = Callable[..., Coroutine[Any, Any, None]]

#: Whether this process runs tests without a reactor. See `test_without_reactor.py`.
REACTORLESS = "TESTS_WITHOUT_REACTOR" in os.environ
if REACTORLESS:
    install_reactor_import_hook()


def under_the_reactor(test: Test) -> Any:
    """Return a test that runs as Scrapy runs coroutines, with asyncio in a task."""

    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        await deferred_from_coro(test(*args, **kwargs))

    return ensureDeferred(run)


def in_every_runtime(test: Test) -> Any:
    """Return a test that runs with asyncio, with another reactor, and without a reactor."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run if REACTORLESS else pytest.mark.reactor(ensureDeferred(test))
