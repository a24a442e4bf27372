"""Run coroutine tests with the reactor of pytest, or without one, and its download handlers."""

from __future__ import annotations

import asyncio
import functools
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import load_object
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


_PATHS = {
    "aiohttp": "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler",
    "httpx": "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler",
}
#: Those that this version of Scrapy has. Both need asyncio.
_OTHERS = [path for path in _PATHS.values() if find_spec(path.rpartition(".")[0]) is not None]

#: Settings for each download handler. Without a reactor, Scrapy has no other ones.
HANDLERS: list[dict[str, Any]] = [
    *([] if REACTORLESS else [{}]),
    *({"DOWNLOAD_HANDLERS": {"http": path, "https": path}} for path in _OTHERS if REACTORLESS),
]

#: The same for those that support proxies. Without a reactor, older versions of Scrapy have none.
PROXY_HANDLERS = [
    settings
    for settings in HANDLERS
    if not settings
    or getattr(load_object(settings["DOWNLOAD_HANDLERS"]["http"]), "supports_proxies", False)
]
