"""`scrapy crawl demo`: crawl the demo's sites, and print what the log says about robots.txt."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals

from demo.extension import SETTINGS, DemoSite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response


INTRODUCTION = """\
This demo crawls {} small web sites on this machine. The plugin is switched on by one line in
demo/settings.py, and each site shows something else:
"""
LOG = """
For each page that it drops, the log names the rule or error. The log ends with a summary:
"""
# The messages that the demo prints. Scrapy logs warnings itself.
SHOWN = ("Forbidden by ", "robots.txt summary ")


class DemoSpider(Spider):
    """Requests the pages of every exhibit."""

    name = "demo"
    custom_settings = SETTINGS

    # One robots.txt redirects to `localhost`. The redirect is followed, because `allowed_domains`
    # restricts only pages.
    allowed_domains = ["127.0.0.1"]  # noqa: RUF012 - as Scrapy's spiders declare it

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401 - Scrapy's own
        """Create the spider, and print parts of the log until the crawl has ended."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        logger, handler = logging.getLogger("scrapy_robots_rfc"), logging.StreamHandler(sys.stdout)
        handler.addFilter(lambda record: record.getMessage().startswith(SHOWN))
        logger.addHandler(handler)

        def end() -> None:
            logger.removeHandler(handler)
            print()
            print(DemoSite.of(crawler).check("demobot"))

        crawler.signals.connect(end, signals.engine_stopped, weak=False)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Request the pages, exhibit by exhibit."""
        exhibits = [one for one in DemoSite.of(self.crawler).exhibits.values() if one.targets]
        print(INTRODUCTION.format(len(exhibits)))
        for exhibit in exhibits:
            print(f"  {exhibit.site.url()}  {exhibit.title}")
        print(LOG, flush=True)
        for exhibit in exhibits:
            # All sites of the demo are on one host, so they share its downloader slot. The site
            # with a Crawl-delay has its own slot, so that it does not delay the others.
            slot = {"download_slot": "paced"} if exhibit.paced else {}
            for target in exhibit.targets:
                yield Request(exhibit.site.url(target), meta=slot)

    def parse(self, response: Response, **_: Any) -> None:  # noqa: ANN401 - Scrapy's signature
        """Do nothing, because the log and the sites' own logs show what happened."""
