"""`scrapy crawl demo`: what demobot may fetch on the demo's sites, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from demo.extension import SETTINGS, DemoSite
from demo.reporting import ReportingSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response


class DemoSpider(ReportingSpider):
    """Asks for every page that an exhibit of the demo shows."""

    name = "demo"
    custom_settings = SETTINGS

    # One exhibit's robots.txt redirects to `localhost`. It is followed all the same: this names the
    # hosts of pages.
    allowed_domains = ["127.0.0.1"]  # noqa: RUF012 - as Scrapy's spiders declare it

    async def start(self) -> AsyncIterator[Any]:
        """Ask for the pages, exhibit by exhibit."""
        for exhibit in DemoSite.of(self.crawler).exhibits.values():
            self.report.titles[exhibit.site.url()] = exhibit.title
            # All sites of the demo are on one host, and would share its slot in the downloader: the
            # pace of one of them would delay the others.
            slot = {"download_slot": "paced"} if exhibit.paced else {}
            for target in exhibit.asks:
                yield self.ask(
                    exhibit.site.url(target), batch=exhibit.batch, follow=exhibit.follow, **slot
                )

    async def parse(self, response: Response) -> Any:  # noqa: ANN401 - as in the base
        """Follow the links of a page where its exhibit is about that.

        What they may not lead to is never asked for.
        """
        await self.keep_fetched(response)
        if response.meta["follow"] and isinstance(response, HtmlResponse):
            for link in LinkExtractor().extract_links(response):
                yield self.ask(link.url, follow=False)

    def closed(self, reason: str) -> None:
        """Print the table, and what the sites' own logs say."""
        for exhibit in DemoSite.of(self.crawler).exhibits.values():
            gap = exhibit.site.shortest_gap
            if exhibit.paced and gap is not None:
                self.report.paces[exhibit.site.url()] = (
                    f"{gap:.3f} s at least between two requests, by the site's clock"
                )
        super().closed(reason)
        print(DemoSite.of(self.crawler).check("demobot"))
