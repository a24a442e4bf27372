"""The proxies that requests go through.

A robots.txt is the same through every proxy. A failure without an answer may be the fault of the proxy: it closes the
site for the requests of that route only.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias
from urllib.request import proxy_bypass

from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc._scrapy import environment_proxies

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scrapy import Request
    from scrapy.crawler import Crawler

#: The proxy of a request with its credentials, since a gateway may send each user another way; ``None``: the request
#: has none, or a later middleware chooses it.
Route: TypeAlias = str | None

_USERINFO = re.compile(r"^([^/@]*//)?[^/]*@")


class Routes:
    """Gives the routes of the requests of a crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @cached_property
    def _environment(self) -> dict[str, str]:
        return environment_proxies(self._crawler)

    def of(self, request: Request) -> Route:
        """Return the route of a request: `meta["proxy"]`, or the proxy that HttpProxyMiddleware will choose."""
        meta = request.meta
        if "proxy" not in meta:
            return self._by_environment(request) if self._environment else None
        proxy = meta["proxy"]
        if not proxy:
            return None
        credentials = request.headers.get(b"Proxy-Authorization")
        return str(proxy) if credentials is None else f"{proxy} {credentials.decode('latin-1')}"

    def way(self, asker: Request | None) -> Hashable:
        """Return route and local address of a fetch: crawls for which they are equal get the same answer.

        :param asker: the request that the file is fetched for; ``None``: there is none, as for a spider's question.
        """
        route, address = (None, None) if asker is None else (self.of(asker), asker.meta.get("bindaddress"))
        return None if route is None and address is None else (route, address)

    def _by_environment(self, request: Request) -> Route:
        parts = urlparse_cached(request)
        proxy = self._environment.get(parts.scheme)
        return None if proxy is None or (parts.hostname and proxy_bypass(parts.hostname)) else proxy


def proxy_of(request: Request | None) -> str | None:
    """Return the proxy that a request was sent through, as log lines have it: without credentials."""
    proxy = None if request is None else request.meta.get("proxy")
    return _USERINFO.sub(lambda match: match[1] or "", str(proxy)) if proxy else None
