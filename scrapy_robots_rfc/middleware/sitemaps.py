"""Answers a spider's own requests for a robots.txt from the cache; a mixin for SitemapSpider makes use of it.

The sitemaps themselves are requested like any page, and may be forbidden. Scrapy's SitemapSpider reads them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any
from urllib.parse import ParseResult

from scrapy import Request
from scrapy.http import Response, TextResponse
from scrapy.spiders import SitemapSpider
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc._scrapy import sitemap_callback
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.policy.schemes import SCHEMES, joined

logger: logging.Logger = logging.getLogger(__name__)

#: The meta key of a request for a robots.txt that asks for an answer from the cache.
REUSE_KEY = "robotstxt_reuse"


def is_robots_txt(parts: ParseResult) -> bool:
    """Whether a URL is that of an origin's robots.txt (RFC 9309, 2.3)."""
    return parts.path == "/robots.txt" and not parts.query and not parts.params


def wants_copy(request: Request) -> bool:
    """Whether a request for a robots.txt asks for an answer from the cache."""
    return request.method == "GET" and bool(request.meta.get(REUSE_KEY))


def answer_from_cache(request: Request, body: bytes) -> TextResponse:
    """Return the answer to such a request. It looks like one that was fetched, except for its flags."""
    return TextResponse(
        request.url,
        headers={"Content-Type": "text/plain; charset=utf-8"},
        body=body,
        flags=["cached", "robotstxt"],  # with "cached", Scrapy's HTTP cache does not store it
        request=request,
    )


class RobotsSitemaps(SitemapSpider):
    """Mixin for Scrapy's `SitemapSpider`: ``class MySpider(RobotsSitemaps, SitemapSpider)``.

    A robots.txt among `sitemap_urls` is not fetched a second time: the middleware answers from its cache. The sitemaps
    in it are requested like any page, so that those that robots.txt forbids are dropped. All else is as without the
    mixin, and nothing changes if the middleware is not at work.
    """

    #: How many Sitemap records of one robots.txt count at most. Of a thousand real files, none has more than 130, while
    #: a file of 512,000 octets (RFC 9309, 2.5) has room for more than 40,000.
    robots_sitemaps_max: int = 1_000

    async def start(self) -> AsyncIterator[Any]:
        """Yield what the spider starts with; requests for a robots.txt are marked to be answered from the cache."""
        async for item in super().start():
            yield self._marked(item) if isinstance(item, Request) else item

    def _marked(self, request: Request) -> Request:
        parts = urlparse_cached(request)
        callback = sitemap_callback(self)
        reads_sitemaps = callback is not None and request.callback == callback
        if not reads_sitemaps or parts.scheme not in SCHEMES or not is_robots_txt(parts):
            return request  # a callback of the user's expects the site's answer, too
        return request.replace(callback=self._parse_robots_txt, meta={**request.meta, REUSE_KEY: True})

    def _parse_robots_txt(self, response: Response) -> Iterator[Request]:
        """Yield a request for each sitemap."""
        values = RobotsTxt.parse(response.body, max_size=len(response.body)).sitemaps
        most = self.robots_sitemaps_max
        if len(values) > most:
            shown = without_userinfo(response.url)
            text = "%s names %d sitemaps: only the first %d count (robots_sitemaps_max)"
            logger.warning(text, shown, len(values), most, extra={"spider": self})
        for url in dict.fromkeys(sitemap_urls(values[:most], response.url)):
            yield Request(url, callback=sitemap_callback(self))


def sitemap_urls(values: Iterable[str], base: str) -> Iterator[str]:
    """Yield the absolute URLs of sitemaps, and no others than http, https and the scheme of the file.

    A site may name ``file:///etc/passwd``, or an address in the user's own network.


    :param values: of the Sitemap records; they may be malformed.
    :param base: the URL of the file, against which relative values are resolved.
    """
    for value in values:
        try:
            url = joined(base, value)
        except ValueError:  # such as brackets without an IPv6 address
            continue
        origin = Origin.of(url)
        if origin is not None and origin.scheme in ("http", "https", base.partition(":")[0]):
            yield url
