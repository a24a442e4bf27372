"""Download handlers of Scrapy for the runtime of the tests."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from scrapy.utils.misc import load_object

from tests.support.running import REACTORLESS

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
