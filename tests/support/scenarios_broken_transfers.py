"""A robots.txt that ends with its connection, by each of Scrapy's download handlers, and replays.

The tests say what must come of them; see scenarios_obeying.py.
"""

from __future__ import annotations

from contextlib import ExitStack
from importlib.util import find_spec
from itertools import product
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.utils.asyncio import is_asyncio_available

from tests.support.crawling import Pages
from tests.support.scenarios_unreachable import RULES, short
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.scenarios_obeying import Run

#: Download handlers of Scrapy beside the one of the runtime; both need asyncio, and older versions
#: lack one.
_HANDLERS = {
    "httpx": "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler",
    "aiohttp": "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler",
}


async def endings(run: Run) -> dict[str, Any]:
    """A body without length or chunks, and an empty one, end with their connection.

    The same over TLS.
    """
    handlers: dict[str, dict[str, Any]] = {"default": {}}
    if is_asyncio_available():
        known = {
            name: path for name, path in _HANDLERS.items() if find_spec(path.rpartition(".")[0])
        }
        handlers |= {
            name: {"DOWNLOAD_HANDLERS": {"http": path, "https": path}}
            for name, path in known.items()
        }
    found: dict[str, Any] = {}
    for name, settings in handlers.items():
        pages = []
        with ExitStack() as stack:
            for tls, body in product((False, True), (RULES.encode(), b"")):
                reply = Reply(body=body, closes=True)
                site = stack.enter_context(Site({"/robots.txt": reply}, tls=tls))
                pages.append(site.url("/x"))
            result = await run(Pages, {"DOWNLOAD_VERIFY_CERTIFICATES": False, **settings}, pages)
        found[name] = [short(result.outcomes[page]) for page in pages]
    return found


async def replayed(run: Run) -> dict[str, Any]:
    """A crawl that fills the HTTP cache, and one that may use nothing else.

    Of one more site it has a page only.
    """
    with (
        Site({"/robots.txt": robots(RULES)}) as site,
        Site() as other,
        TemporaryDirectory() as folder,
    ):
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
