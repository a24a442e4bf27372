"""Crawls beside a part of Scrapy that obeys Crawl-delay, too, as a later version will.

`Throttler` stands in for it: it reads the delays from `robots_parsed`, and spaces requests.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, signals
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc._runtime import Runtime
from tests.support.crawling import crawl
from tests.support.site import Site, robots
from tests.support.timed_site import DELAY, fetched, gaps, urls

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler

pytestmark = pytest.mark.skipif(
    not hasattr(signals, "robots_parsed"), reason="Scrapy before 2.18 has no robots_parsed"
)

OBEY = "THROTTLER_ROBOTSTXT_OBEY"
#: The longest delay that the throttler obeys.
LONGEST = 2 * DELAY


class Throttler:
    """Spaces the requests of each host. A downloader middleware stands in for its own queue."""

    last: Throttler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def __init__(self, crawler: Crawler) -> None:
        Throttler.last = self
        self.delays: dict[str | None, float] = {}
        self.starts: dict[str | None, float] = {}
        self.agent: str = crawler.settings["USER_AGENT"]
        if crawler.settings.getbool(OBEY):
            crawler.signals.connect(self.robots_parsed, signals.robots_parsed)

    def robots_parsed(self, robotparser: Any, request: Request) -> None:
        delay = robotparser.crawl_delay(self.agent)
        if delay is not None:
            self.delays[urlparse_cached(request).hostname] = min(delay, LONGEST)

    async def process_request(self, request: Request) -> None:
        seconds = self.get_time_until_ready(request)
        self.reserve(request)
        await Runtime().sleep(seconds)

    def get_time_until_ready(self, request: Request) -> float:
        start = self.starts.get(urlparse_cached(request).hostname, 0)
        return max(0.0, start - time.monotonic())

    def reserve(self, request: Request) -> None:
        host = urlparse_cached(request).hostname
        start = max(self.starts.get(host, 0), time.monotonic())
        # A little longer, because a request may take longer to arrive than the next one.
        self.starts[host] = start + 1.1 * self.delays.get(host, 0)


async def paced(site: Site, settings: dict[str, Any]) -> dict[str | None, float]:
    """Crawl a site that asks for an hour between two requests with the add-on and the throttler,
    and return the delays of the throttler.
    """
    site.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 3600\n")

    def prepare(crawler: Crawler) -> None:
        crawler.settings.set(OBEY, True, "default")

    settings = {
        "ADDONS": {"scrapy_robots_rfc.Addon": 500},
        "DOWNLOADER_MIDDLEWARES": {Throttler: 900},
        **settings,
    }
    result = await crawl(urls(site, 3), settings, prepare=prepare)
    assert fetched(result) == 3
    return Throttler.last.delays


@pytest.mark.parametrize("longest", [0.0, DELAY])
@ensureDeferred
async def test_one_part_paces_a_site(
    site: Site, longest: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Only this package obeys Crawl-delay, up to ROBOTS_CRAWL_DELAY_MAX."""
    assert await paced(site, {"ROBOTS_CRAWL_DELAY_MAX": longest}) == {}
    assert min(gaps(site)) >= longest
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


@ensureDeferred
async def test_both_pace_a_site(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """If the user lets both obey Crawl-delay, the longer interval applies."""
    delays = await paced(site, {"ROBOTS_CRAWL_DELAY_MAX": DELAY, OBEY: True})
    assert delays == {"127.0.0.1": LONGEST}
    assert min(gaps(site)) >= DELAY
    assert max(gaps(site)) >= LONGEST
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []
