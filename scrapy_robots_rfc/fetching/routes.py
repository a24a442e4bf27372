"""The proxies that requests go through, and what is known of origins that could not be reached through one of them.

A robots.txt is the same through every proxy. A failure is not: it closes the site for the requests of that route only.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar
from urllib.request import proxy_bypass

from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc._scrapy import environment_proxies

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc.policy.origins import Origin

_T = TypeVar("_T")

#: The proxy of a request with its credentials, since a gateway may send each user another way; ``None``: the request
#: has none, or a later middleware chooses it.
Route: TypeAlias = str | None

#: Failed routes that are remembered, of all origins.
_REMEMBERED = 10_000

_USERINFO = re.compile(r"^([^/@]*//)?[^/]*@")


class Routes:
    """Gives the routes of the requests of a crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._environment: dict[str, str] | None = None

    def of(self, request: Request) -> Route:
        """Return the route of a request: `meta["proxy"]`, or the proxy that HttpProxyMiddleware will choose."""
        meta = request.meta
        if "proxy" not in meta:
            return None if self._environment == {} else self._by_environment(request)
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
        if self._environment is None:
            self._environment = environment_proxies(self._crawler)
        if not self._environment:
            return None
        parts = urlparse_cached(request)
        proxy = self._environment.get(parts.scheme)
        return None if proxy is None or (parts.hostname and proxy_bypass(parts.hostname)) else proxy


class FailedRoutes(Generic[_T]):
    """What is known of origins through routes that failed. When there are too many, the oldest is forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[Origin, dict[Route, _T]] = OrderedDict()
        self._count = 0

    def get(self, origin: Origin, route: Route) -> _T | None:
        """Return what is known; ``None`` if that route did not fail."""
        known = self._known.get(origin)
        return None if known is None else known.get(route)

    def put(self, origin: Origin, route: Route, value: _T) -> None:
        """Remember that a route failed."""
        known = self._known.setdefault(origin, {})
        self._count += route not in known
        known[route] = value
        while self._count > _REMEMBERED:
            oldest = next(iter(self._known))
            routes = self._known[oldest]
            del routes[next(iter(routes))]
            self._count -= 1
            if not routes:
                del self._known[oldest]

    def forget(self, origin: Origin) -> None:
        """Forget all failures of an origin: a route leads to it now."""
        self._count -= len(self._known.pop(origin, ()))


def named(proxy: object) -> str:
    """Return a proxy as log lines have it, without credentials."""
    return _USERINFO.sub(lambda match: match[1] or "", str(proxy))
