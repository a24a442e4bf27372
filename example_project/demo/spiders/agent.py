"""`scrapy crawl agent`: a spider with a name of its own, for which a site may have other rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demo.extension import SETTINGS, DemoSite
from demo.reporting import ReportingSpider
from scrapy_robots_rfc import robots_service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TARGETS = ("/news.html", "/drafts/idea.html", "/drafts/press/release.html")


class AgentSpider(ReportingSpider):
    """Crawls as `presswatch`, and shows beside each verdict what the project's default,
    `demobot`, would get.
    """

    name = "agent"

    # The product token whose group is obeyed. It should be part of the User-Agent header that is
    # sent, so that site owners can find it in their logs (RFC 9309, 2.2.1); a warning at the start
    # says so where it is not.
    robotstxt_user_agent = "presswatch"
    custom_settings = {  # noqa: RUF012 - as Scrapy's spiders declare it
        "USER_AGENT": "presswatch/1.0 (+https://example.com/presswatch)",
        **SETTINGS,
    }

    async def start(self) -> AsyncIterator[Any]:
        """Ask for the pages of the exhibit that has groups for both."""
        exhibit = DemoSite.of(self.crawler).exhibits["groups"]
        url = exhibit.site.url
        self.report.titles[url()] = (
            "One site, two crawlers: it has a group for presswatch and another for demobot"
        )
        self.report.also = "as demobot"
        robots = await robots_service(self.crawler).robots(url("/"))
        for target in TARGETS:
            default = robots.decide(url(target), "demobot")
            yield self.ask(url(target), also="allowed" if default.allowed else "disallowed")

    def closed(self, reason: str) -> None:
        """Print the table, and what the sites' own logs say."""
        super().closed(reason)
        print(DemoSite.of(self.crawler).check("presswatch"))
