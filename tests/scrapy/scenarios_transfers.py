"""Crawls whose robots.txt breaks off, under each of Scrapy's download handlers: see scenarios.py; test_transfers.py.

In here: what is crawled.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.utils.asyncio import is_asyncio_available

from tests.scrapy.crawling import Pages
from tests.scrapy.scenarios_failing import short
from tests.scrapy.site import Reply, Site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.scrapy.scenarios import Run

#: Download handlers of Scrapy beside the one of the runtime; both need asyncio.
_HANDLERS = {
    "httpx": "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler",
    "aiohttp": "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler",
}


class Tells(Pages):
    """Lets the server go on once the file's octets are here: it is their end that the crawl is about."""

    came: threading.Event

    async def start(self) -> AsyncIterator[Any]:
        """Connect, then ask for the pages."""
        self.crawler.signals.connect(self.received, signals.bytes_received)
        async for request in super().start():
            yield request

    def received(self) -> None:
        """Tell the server."""
        self.came.set()


async def endings(run: Run) -> dict[str, Any]:
    """A body without length or chunks ends in order, and by a reset; the same over TLS, without TLS's own end."""
    handlers: dict[str, dict[str, Any]] = {"default": {}}
    if is_asyncio_available():
        handlers |= {name: {"DOWNLOAD_HANDLERS": {"http": path, "https": path}} for name, path in _HANDLERS.items()}
    found: dict[str, Any] = {}
    for name, settings in handlers.items():
        found[name] = []
        for tls, reset in ((False, False), (False, True), (True, False), (True, True)):
            Tells.came = threading.Event()
            reply = Reply(body=b"User-agent: *\nDisallow: /x\n", closes=True, reset=reset, end=Tells.came)
            with Site({"/robots.txt": reply}, tls=tls) as site:
                result = await run(Tells, {"DOWNLOAD_VERIFY_CERTIFICATES": False, **settings}, [site.url("/a")])
                found[name].append(short(result.outcomes[site.url("/a")]))
    return found


TRANSFERS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {endings.__name__: endings}
