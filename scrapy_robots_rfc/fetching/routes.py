"""A request's route, which is its proxy or its FTP account.

A robots.txt is the same through every proxy. But if there is no response, the proxy or the account
may be at fault, so the failure only affects requests that use the same route.
"""

import contextlib
import re
from typing import TypeAlias
from urllib.request import getproxies

from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.http import Request
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc.policy.access import Local, Unreachable

#: A request's FTP account or its proxy, including credentials because a gateway may route each user
#: differently. `None` if the request has neither, or if a later middleware picks the proxy.
Route: TypeAlias = str | None

# The start of a proxy's URL, up to its credentials: `http://user:password@`.
_USERINFO = re.compile(r"^([^/@]*//)?[^/]*@")


class Routes:
    """Finds the routes of a crawl's requests."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._has_environment_proxy = bool(getproxies())

    def of(self, request: Request | None) -> Route:
        """Return a request's route, which is the proxy from its meta or from the environment.

        For FTP it is the account from the meta, if any, because Scrapy's handler ignores proxies.

        :param request: a page request, or `None` if a spider needs the file for no particular page.
        """
        if request is None:
            return None
        if has_account(request):
            return f"{request.meta['ftp_user']} {request.meta.get('ftp_password')}"
        if urlparse_cached(request).scheme == "ftp":
            return None
        if "proxy" not in request.meta and self._has_environment_proxy:
            # Find out which proxy Scrapy's own method takes from the environment for this URL. A
            # subclass's method may pick another one each time, so don't call it. The method adds
            # the proxy to the request, so call it with a new one.
            middleware = self._crawler.get_downloader_middleware(HttpProxyMiddleware)
            request = Request(request.url)
            if middleware is not None:
                with contextlib.suppress(Exception):  # it will raise for our request, too
                    HttpProxyMiddleware.process_request(middleware, request)
        proxy = request.meta.get("proxy")
        if not proxy:
            return None
        credentials = request.headers.get(b"Proxy-Authorization")
        return str(proxy) if credentials is None else f"{proxy} {credentials.decode('latin-1')}"

    def default_route(self, request: Request) -> Route:
        """Return the route that a request uses if it doesn't specify one."""
        return self.of(Request(request.url))


def has_account(request: Request) -> bool:
    """Return whether a request uses FTP and names a user."""
    return request.meta.get("ftp_user") is not None and urlparse_cached(request).scheme == "ftp"


def proxy_of(request: Request) -> str | None:
    """Return the proxy that a request was sent through, without credentials, for log lines."""
    proxy = request.meta.get("proxy")
    return _USERINFO.sub(lambda match: match[1] or "", str(proxy)) if proxy else None


def sparing_site(access: Unreachable | Local, request: Request) -> Unreachable | Local:
    """Return a failure that spares the site if its request used a proxy or an FTP account.

    The cause then names the proxy. `Local` spares the site anyway.

    :param request: the request as it was sent, so a middleware may have added the proxy.
    """
    if isinstance(access, Local):
        return access
    proxy = proxy_of(request)
    if proxy is not None:  # also for FTP, because a third-party handler may use it
        cause = f"{access.cause}, through proxy {proxy}"
        return access._replace(cause=cause, spares_site=True)
    if has_account(request):
        return access._replace(spares_site=True)
    return access
