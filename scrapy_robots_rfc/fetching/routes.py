"""The proxies that requests go through, and the accounts that those for FTP log in to.

A robots.txt is the same through every proxy. A failure without an answer may be the fault of the
proxy, or of the account: it closes the site for the requests of that route only.
"""

from __future__ import annotations

import re
from typing import TypeAlias
from urllib.request import getproxies

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc.policy.access import Local, Unreachable

#: The proxy of a request with its credentials, since a gateway may send each user another way, or
#: its FTP account; ``None``: the request has neither, or a later middleware chooses the proxy.
Route: TypeAlias = str | None

_USERINFO = re.compile(r"^([^/@]*//)?[^/]*@")


class Routes:
    """Gives the routes of the requests of a crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._environment = bool(getproxies())

    def of(self, request: Request | None) -> Route:
        """Return the route of a request: the proxy of its meta, or that of the environment.

        For FTP it is the account of the meta, if that names a user: Scrapy's handler uses no proxy.
        """
        if request is None:
            return None
        if has_account(request):
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

    def usual(self, request: Request) -> Route:
        """Return the route that a request takes if it names none."""
        return self.of(Request(request.url)) if self._environment else None


def has_account(request: Request) -> bool:
    """Whether a request is for FTP, and names the user that it is made for."""
    return request.meta.get("ftp_user") is not None and urlparse_cached(request).scheme == "ftp"


def proxy_of(request: Request | None) -> str | None:
    """Return the proxy that a request was sent through, without credentials, for log lines."""
    proxy = None if request is None else request.meta.get("proxy")
    return _USERINFO.sub(lambda match: match[1] or "", str(proxy)) if proxy else None


def through(access: Unreachable | Local, request: Request | None) -> Unreachable | Local:
    """Return a failure with the name of its proxy, if the request had one.

    It says nothing about the site then. Nor does one of a request with an account of its own.
    """
    proxy = proxy_of(request)
    if request is None or isinstance(access, Local):
        return access
    if proxy is not None:
        return access._replace(cause=f"{access.cause}, through proxy {proxy}", route=True)
    return access._replace(route=True) if has_account(request) else access
