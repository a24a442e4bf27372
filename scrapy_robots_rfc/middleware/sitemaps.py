"""RobotsSitemaps: sitemaps out of the robots.txt that the crawl goes by, for spiders of Scrapy's SitemapSpider kind.

In here: which of a spider's requests take their answer from memory, and which sitemaps of a file are asked for. What
may be fetched of them is decided where every page is; what a sitemap holds is Scrapy's business.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy import Request
from scrapy.spiders import SitemapSpider
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.middleware.reuse import KEY, is_robots_txt
from scrapy_robots_rfc.policy.origins import DEFAULT_PORTS, Origin, without_userinfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from scrapy.http import Response

logger = logging.getLogger(__name__)


class RobotsSitemaps(SitemapSpider):
    """Mixin for Scrapy's `SitemapSpider`: ``class MySpider(RobotsSitemaps, SitemapSpider)``.

    A robots.txt among `sitemap_urls` is not fetched a second time: the middleware answers with the file that the crawl
    goes by. Its sitemaps are asked for as any page, so that those that robots.txt forbids are dropped. Everything else
    is as without the mixin, and so is all of it where the middleware is not at work.
    """

    #: Sitemap records of one robots.txt that count at most. Of a thousand real files the one with the most has 130; one
    #: of 512,000 octets (RFC 9309, 2.5) has room for more than 40,000.
    robots_sitemaps_max: int = 1_000

    async def start(self) -> AsyncIterator[Any]:
        """Yield what the spider starts with; requests for a robots.txt are marked to be answered from memory."""
        async for item in super().start():
            yield self._marked(item) if isinstance(item, Request) else item

    def _marked(self, request: Request) -> Request:
        parts = urlparse_cached(request)
        if request.callback != self._parse_sitemap or parts.scheme not in DEFAULT_PORTS or not is_robots_txt(parts):
            return request  # a callback of the user's own keeps what it is made for
        return request.replace(callback=self._parse_robots_txt, meta={**request.meta, KEY: True})

    def _parse_robots_txt(self, response: Response) -> Iterator[Request]:
        """Yield a request for each sitemap."""
        values = RobotsTxt.parse(response.body, max_size=len(response.body)).sitemaps
        most = self.robots_sitemaps_max
        if len(values) > most:
            shown = without_userinfo(response.url)
            text = "%s names %d sitemaps: only the first %d count (robots_sitemaps_max)"
            logger.warning(text, shown, len(values), most, extra={"spider": self})
        for url in dict.fromkeys(sitemap_urls(values[:most], response.url)):
            yield Request(url, callback=self._parse_sitemap)


def sitemap_urls(values: Iterable[str], base: str) -> Iterator[str]:
    """Yield the absolute URLs of sitemaps, those that are http or https.

    Others, ``file:///etc/passwd`` among them, are no site's to ask for.

    :param values: of the Sitemap records, whatever they are.
    :param base: the URL of the file; relative ones are read against it.
    """
    for value in values:
        try:
            url = urljoin(base, value)
        except ValueError:  # brackets that hold no address
            continue
        if Origin.of(url) is not None:
            yield url
