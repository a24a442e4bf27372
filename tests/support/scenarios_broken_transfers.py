"""Crawls whose robots.txt breaks off, by each of Scrapy's download handlers, and replays: see scenarios_obeying.py.

The tests say what must come of them.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import product
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request, signals
from scrapy.utils.asyncio import is_asyncio_available

from tests.support.crawling import Pages
from tests.support.scenarios_unreachable import RULES, short
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.scenarios_obeying import Run

#: Download handlers of Scrapy beside the one of the runtime; both need asyncio, and older versions lack one.
_HANDLERS = {
    "httpx": "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler",
    "aiohttp": "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler",
}


class Tells(Pages):
    """Lets each server go on once its file's octets are here, or its headers: their end is what the crawl is about."""

    #: By the URL of the file: the signal that says that they are here, and what the server waits for.
    ends: ClassVar[dict[str, tuple[object, threading.Event]]]

    async def start(self) -> AsyncIterator[Any]:
        """Connect, then ask for the pages."""
        self.crawler.signals.connect(self.received, signals.headers_received)
        self.crawler.signals.connect(self.received, signals.bytes_received)
        async for request in super().start():
            yield request

    def received(self, request: Request, signal: object) -> None:
        """Tell the server."""
        told_by, came = self.ends.get(request.url, (None, None))
        if came is not None and signal is told_by:
            came.set()


async def endings(run: Run) -> dict[str, Any]:
    """A body without length or chunks ends in order, and by a reset, also before its first octet; the same over TLS."""
    handlers: dict[str, dict[str, Any]] = {"default": {}}
    if is_asyncio_available():
        known = {name: path for name, path in _HANDLERS.items() if find_spec(path.rpartition(".")[0])}
        handlers |= {name: {"DOWNLOAD_HANDLERS": {"http": path, "https": path}} for name, path in known.items()}
    found: dict[str, Any] = {}
    for name, settings in handlers.items():
        pages, Tells.ends = [], {}
        with ExitStack() as stack:
            for tls, reset, body in product((False, True), (False, True), (RULES.encode(), b"")):
                came = threading.Event()
                reply = Reply(body=body, closes=True, reset=reset, end=came)
                site = stack.enter_context(Site({"/robots.txt": reply}, tls=tls))
                told_by = signals.bytes_received if body else signals.headers_received
                Tells.ends[site.url("/robots.txt")] = told_by, came
                pages.append(site.url("/a"))
            result = await run(Tells, {"DOWNLOAD_VERIFY_CERTIFICATES": False, **settings}, pages)
        found[name] = [short(result.outcomes[page]) for page in pages]
    return found


async def replayed(run: Run) -> dict[str, Any]:
    """A crawl that fills the HTTP cache, and one that may use nothing else; of one more site it has a page only."""
    with Site({"/robots.txt": robots(RULES)}) as site, Site() as other, TemporaryDirectory() as folder:
        cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": folder}
        offline = {**cache, "HTTPCACHE_IGNORE_MISSING": True}
        await run(Pages, cache, [site.url("/a")])
        await run(Pages, {**cache, "ROBOTSTXT_OBEY": False}, [other.url("/a")])
        sent = Request(site.url("/sent"), meta={"dont_cache": True})
        asked = [len(site.asked), len(other.asked)]
        urls = [site.url("/a"), site.url("/x"), other.url("/a"), sent.url]
        result = await run(Pages, offline, [*urls[:3], sent])
        return {
            "outcomes": [short(result.outcomes[url]) for url in urls],
            "asked": [len(site.asked) - asked[0], len(other.asked) - asked[1]],
        }


SCENARIOS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {
    function.__name__: function for function in (endings, replayed)
}
