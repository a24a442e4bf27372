"""`scrapy crawl agent`: a spider with its own product token gets the rules for that token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demo.extension import SETTINGS, DemoSite
from demo.reporting import ReportingSpider
from scrapy_robots_rfc import robots_service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TARGETS = ("/news.html", "/drafts/idea.html", "/drafts/press/release.html")


class AgentSpider(ReportingSpider):
    """Crawls as `presswatch`, and shows what `demobot`, the project's token, would get."""

    name = "agent"

    # Follow the group for this product token. It should also be part of the User-Agent header, so
    # that site owners find it in their logs (RFC 9309, 2.2.1); otherwise the log warns at start.
    robotstxt_user_agent = "presswatch"
    custom_settings = {  # noqa: RUF012 - as Scrapy's spiders declare it
        "USER_AGENT": "presswatch/1.0 (+https://example.com/presswatch)",
        **SETTINGS,
    }

    async def start(self) -> AsyncIterator[Any]:
        """Request the pages of the site that has groups for both crawlers."""
        exhibit = DemoSite.of(self.crawler).exhibits["groups"]
        url = exhibit.site.url
        self.report.titles[url()] = (
            "One site, two crawlers: it has a group for presswatch and one for demobot"
        )
        self.report.other_heading = "as demobot"
        robots = await robots_service(self.crawler).robots(url("/"))
        for target in TARGETS:
            decision = robots.decide(url(target), "demobot")
            other_verdict = "allowed" if decision.allowed else "disallowed"
            yield self.request(url(target), other_verdict=other_verdict)

    def closed(self, reason: str) -> None:
        """Print the table, and the check against the sites' own logs."""
        super().closed(reason)
        print(DemoSite.of(self.crawler).check("presswatch"))
