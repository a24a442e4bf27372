"""DemoSite: the demo's web sites run while the crawl does.

Spiders find them with ``DemoSite.of(crawler)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from demo.origins import Exhibit, exhibits

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

#: What a spider of the demo site sets in its custom_settings.
SETTINGS = {
    "DEMO_SITE_ENABLED": True,
    # A proxy that the environment names would not find sites on this machine.
    "HTTPPROXY_ENABLED": False,
}


class DemoSite:
    """Scrapy extension that starts the sites before the spider opens, and stops them when the
    engine has stopped.

    :raises NotConfigured: DEMO_SITE_ENABLED is not set.
    """

    def __init__(self, crawler: Crawler) -> None:
        if not crawler.settings.getbool("DEMO_SITE_ENABLED"):
            raise NotConfigured
        self.exhibits: dict[str, Exhibit] = exhibits()
        crawler.signals.connect(self.stop, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension of a crawl."""
        return cls(crawler)

    @staticmethod
    def of(crawler: Crawler) -> DemoSite:
        """Return the demo's sites of a running crawl.

        :raises RuntimeError: the crawl has none.
        """
        found = crawler.get_extension(DemoSite)
        if found is None:
            raise RuntimeError("use demo.extension.SETTINGS in the spider's custom_settings")
        return found

    def stop(self) -> None:
        """Stop all sites."""
        for exhibit in self.exhibits.values():
            exhibit.site.stop()

    def check(self, token: str) -> str:
        """Return what the sites' own logs say of a crawler, in one line."""
        sites = [exhibit.site for exhibit in self.exhibits.values()]
        pages = sum(len(site.pages) for site in sites)
        files = sum(site.log.count("/robots.txt") for site in sites)
        trespasses = sum(len(exhibit.trespasses(token)) for exhibit in self.exhibits.values())
        return (
            f"Check, by the sites' own logs: robots.txt requested: {files}, pages requested:"
            f" {pages}, pages of disallowed paths requested: {trespasses}"
        )
