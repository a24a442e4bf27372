"""A Scrapy extension that runs the demo's web sites during a crawl.

Spiders get them with ``DemoSite.of(crawler)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from demo.origins import Exhibit, exhibits

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

#: The custom_settings of a spider that crawls the demo sites.
SETTINGS = {
    "DEMO_SITE_ENABLED": True,
    # A proxy from the environment would not find sites on this machine.
    "HTTPPROXY_ENABLED": False,
}


class DemoSite:
    """Starts the sites before the spider opens, and stops them when the engine has stopped.

    :raises NotConfigured: if DEMO_SITE_ENABLED is not set.
    """

    def __init__(self, crawler: Crawler) -> None:
        if not crawler.settings.getbool("DEMO_SITE_ENABLED"):
            raise NotConfigured
        self.exhibits: dict[str, Exhibit] = exhibits()
        crawler.signals.connect(self.stop, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the extension of a crawl."""
        return cls(crawler)

    @staticmethod
    def of(crawler: Crawler) -> DemoSite:
        """Return the extension of a running crawl.

        :raises RuntimeError: if the crawl has none.
        """
        extension = crawler.get_extension(DemoSite)
        if extension is None:
            raise RuntimeError("use demo.extension.SETTINGS in the spider's custom_settings")
        return extension

    def stop(self) -> None:
        """Stop all sites."""
        for exhibit in self.exhibits.values():
            exhibit.site.stop()

    def check(self, token: str) -> str:
        """Return one line that sums up the sites' own logs.

        :param token: the product token of the crawler.
        """
        sites = [exhibit.site for exhibit in self.exhibits.values()]
        pages = sum(len(site.pages) for site in sites)
        files = sum(site.log.count("/robots.txt") for site in sites)
        violations = sum(len(exhibit.violations(token)) for exhibit in self.exhibits.values())
        return (
            f"The sites' own logs: {files} requests for robots.txt, {pages} for pages,"
            f" {violations} of them for disallowed pages"
        )
