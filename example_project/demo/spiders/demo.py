"""`scrapy crawl demo`: show what demobot may fetch on the demo's sites, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from demo.extension import SETTINGS, DemoSite
from demo.reporting import ReportingSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response


INTRODUCTION = """\
This demo crawls 12 small web sites on this machine, and then prints a table of what it was allowed
to fetch. The robots.txt of one site always answers 503, so the log warns about it:
"""


class DemoSpider(ReportingSpider):
    """Requests the pages of every exhibit."""

    name = "demo"
    custom_settings = SETTINGS

    # One robots.txt redirects to `localhost`. The redirect is followed, because `allowed_domains`
    # restricts only pages.
    allowed_domains = ["127.0.0.1"]  # noqa: RUF012 - as Scrapy's spiders declare it

    async def start(self) -> AsyncIterator[Any]:
        """Request the pages, exhibit by exhibit."""
        print(INTRODUCTION, flush=True)
        for exhibit in DemoSite.of(self.crawler).exhibits.values():
            self.report.titles[exhibit.site.url()] = exhibit.title
            # All sites of the demo are on one host, so they share its downloader slot. The site
            # with a Crawl-delay has its own slot, so that it does not delay the others.
            slot = {"download_slot": "paced"} if exhibit.paced else {}
            for target in exhibit.targets:
                yield self.request(
                    exhibit.site.url(target), batch=exhibit.batch, follow=exhibit.follow, **slot
                )

    async def parse(self, response: Response) -> Any:  # noqa: ANN401 - as in the base
        """Record the page, and follow its links if the exhibit is about links."""
        await self.record_fetched(response)
        if response.meta["follow"] and isinstance(response, HtmlResponse):
            for link in LinkExtractor().extract_links(response):
                yield self.request(link.url, follow=False)

    def closed(self, reason: str) -> None:
        """Print the table, and the check against the sites' own logs."""
        for exhibit in DemoSite.of(self.crawler).exhibits.values():
            interval = exhibit.site.shortest_interval
            if exhibit.paced and interval is not None:
                self.report.intervals[exhibit.site.url()] = (
                    f"at least {interval:.3f} s between two requests, by the site's clock"
                )
        super().closed(reason)
        print(DemoSite.of(self.crawler).check("demobot"))
