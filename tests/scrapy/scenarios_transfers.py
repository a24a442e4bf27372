"""Crawls whose robots.txt breaks off, by each of Scrapy's download handlers, and replays: see scenarios.py.

In here: what is crawled.
"""

from __future__ import annotations

import threading
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.utils.asyncio import is_asyncio_available

from tests.scrapy.crawling import Pages
from tests.scrapy.scenarios_failing import RULES, short
from tests.scrapy.site import Reply, Site, robots

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
            reply = Reply(body=RULES.encode(), closes=True, reset=reset, end=Tells.came)
            with Site({"/robots.txt": reply}, tls=tls) as site:
                result = await run(Tells, {"DOWNLOAD_VERIFY_CERTIFICATES": False, **settings}, [site.url("/a")])
                found[name].append(short(result.outcomes[site.url("/a")]))
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
