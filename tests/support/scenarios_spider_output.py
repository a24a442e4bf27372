"""Crawls in which a spider's own requests are cut short; what must come of it is in `test_runtimes.py`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.spiders import SitemapSpider

from scrapy_robots_rfc import RobotsSitemaps
from tests.support.linked_crawls import AsyncLinked, Linked
from tests.support.scenarios_obeying import OURS, Gate
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from scrapy.http import Response

    from tests.support.scenarios_obeying import Run


class Maps(RobotsSitemaps, SitemapSpider):
    """Keeps where it came to, and asks for another page beside its sitemaps."""

    name = "maps"

    def __init__(self, urls: Iterable[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        *self.sitemap_urls, self.beside = urls
        self.came: list[str] = []

    async def start(self) -> AsyncIterator[Any]:
        """Ask for both."""
        async for item in super().start():
            yield item
        yield Request(self.beside)

    def parse(self, response: Response, **_: Any) -> None:
        """Keep the address."""
        self.came.append(response.url)


async def sitemaps(run: Run) -> dict[str, Any]:
    """Crawl the sitemaps of a site whose robots.txt is slow."""
    Gate.opened, Gate.expected = threading.Event(), 1  # the page beside, after robots.txt
    text = "User-agent: *\nDisallow: /private\nSitemap: /a.xml\nSitemap: /private.xml\n"
    with Site({"/robots.txt": robots(text, gate=Gate.opened)}) as site:
        entries = "".join(f"<url><loc>{site.url(target)}</loc></url>" for target in ("/page", "/private/page"))
        site.replies["/a.xml"] = Reply(body=f"<urlset>{entries}</urlset>".encode())
        result = await run(Maps, OURS, [site.url("/robots.txt"), site.url("/beside")])
        return {
            "targets": sorted(site.targets),
            "came": len(result.spider.came),
            "counted": [result.stat(key) for key in ("reused", "set_aside", "forbidden/rule")],
        }


async def page_rules(run: Run) -> dict[str, Any]:
    """Crawl a page that forbids its links and its items, with callbacks of both kinds."""
    settings = {
        "ROBOTSTAG_OBEY": ["nofollow", "noindex", "link-nofollow"],
        "SPIDER_MIDDLEWARES": {"scrapy_robots_rfc.RfcPageRulesMiddleware": 1000},
    }
    link = b'<meta name=robots content=noindex><a rel=nofollow href="/b">x</a>'
    replies = {
        "/": Reply(headers=(("X-Robots-Tag", "none"),)),
        "/links": Reply(body=link, headers=(("Content-Type", "text/html"),)),
    }
    with Site({**replies}) as site:
        found: dict[str, Any] = {}
        for spider in (Linked, AsyncLinked):
            for first in replies:
                result = await run(spider, settings, [site.url(target) for target in (first, "/a", "/b")])
                counted = {key: value for key, value in result.stats.items() if key.startswith("robotstxt/page/")}
                found[f"{spider.name} {first}"] = [counted, result.stats.get("item_scraped_count", 0)]
        return {**found, "pages": site.pages}


SCENARIOS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {
    "sitemaps": sitemaps,
    "page_rules": page_rules,
}
