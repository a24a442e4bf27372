"""The route of a request: its proxy, or its FTP account.

A robots.txt is the same through every proxy. A failure without an answer may be the fault of the
proxy, or of the account: it closes the site for the requests of that route only.
"""

import re
from typing import TypeAlias
from urllib.request import getproxies

from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.http import Request
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc.policy.access import Local, Unreachable

#: The proxy of a request with its credentials, since a gateway may route each user differently, or
#: its FTP account; `None` if the request has neither, or a later middleware chooses the proxy.
Route: TypeAlias = str | None

_USERINFO = re.compile(r"^([^/@]*//)?[^/]*@")


class Routes:
    """Finds the routes of the requests of a crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._environment = bool(getproxies())
        #: Whether any request had a route so far.
        self.are_used: bool = self._environment

    def of(self, request: Request | None) -> Route:
        """Return the route of a request: the proxy of its meta, or of the environment.

        For FTP it is the account of the meta, if there is one: Scrapy's handler uses no proxy.
        """
        route = None if request is None else self._of(request)
        if route is not None:
            self.are_used = True
        return route

    def _of(self, request: Request) -> Route:
        """Return the route of a request, see `of`."""
        if urlparse_cached(request).scheme == "ftp":
            if not has_account(request):
                return None
            return f"{request.meta['ftp_user']} {request.meta.get('ftp_password')}"
        if "proxy" not in request.meta and self._environment:
            chooser = self._crawler.get_downloader_middleware(HttpProxyMiddleware)
            request = Request(request.url)
            if chooser is not None:
                HttpProxyMiddleware.process_request(chooser, request)
        proxy = request.meta.get("proxy")
        if not proxy:
            return None
        credentials = request.headers.get(b"Proxy-Authorization")
        return str(proxy) if credentials is None else f"{proxy} {credentials.decode('latin-1')}"

    def default_route(self, request: Request) -> Route:
        """Return the route that a request takes if it names none."""
        return self.of(Request(request.url)) if self._environment else None


def has_account(request: Request) -> bool:
    """Return whether a request is for FTP and names the user that it is made for."""
    return request.meta.get("ftp_user") is not None and urlparse_cached(request).scheme == "ftp"


def proxy_of(request: Request | None) -> str | None:
    """Return the proxy that a request was sent through, without credentials, for log lines."""
    proxy = None if request is None else request.meta.get("proxy")
    return _USERINFO.sub(lambda match: match[1] or "", str(proxy)) if proxy else None


def with_route(access: Unreachable | Local, request: Request | None) -> Unreachable | Local:
    """Return the failure of a request, marked as a failure of its route if it has one.

    A failure through a proxy, or of an FTP account, says nothing about the site.
    """
    if request is None or isinstance(access, Local):
        return access
    proxy = proxy_of(request)
    if proxy is not None:
        cause = f"{access.cause}, through proxy {proxy}"
        return access._replace(cause=cause, route=True)
    if has_account(request):
        return access._replace(route=True)
    return access
