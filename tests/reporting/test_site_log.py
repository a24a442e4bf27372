"""The log of a broad crawl sums up what happens to single sites."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from twisted.internet.defer import Deferred

from scrapy_robots_rfc.reporting import site_log
from scrapy_robots_rfc.reporting.site_log import SiteLog
from tests.support.crawling import Pages, crawl, lines, make_crawler, records
from tests.support.site import Failing, Reply, robots

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.site import Asked, Site

#: `SITES=300 pytest tests/reporting/test_site_log.py` shows a broad crawl.
SITES = int(os.environ.get("SITES", "60"))
PRIVATE = "User-agent: *\nDisallow: /private\n"


def reply(number: int) -> Reply | Callable[[Asked], Reply]:
    """Return the robots.txt of one of many sites."""
    replies: list[Reply | Callable[[Asked], Reply]] = [
        Failing(1, Reply(503)),
        Reply(503),
        Reply(body=b"<!doctype html><html><p>page</html>"),
        robots(f"{PRIVATE}Crawl-delay: 0.01\n"),
        robots("User-agent: *\nCrawl-delay: 3600\n"),
        Reply(302, headers=(("Location", "/robots.txt"),)),
    ]
    return replies[number] if number < len(replies) else robots(PRIVATE)


@ensureDeferred
async def test_log_of_many_sites(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A broad crawl has at most 60 lines at INFO and above, and DEBUG has every event."""
    pages = []
    for number in range(SITES):
        site = f"http://{number}.example"
        proxy.replies[f"{site}/robots.txt"] = reply(number % 10)
        pages += [f"{site}/private", f"{site}/"]
    settings = {
        "CONCURRENT_REQUESTS": 64,
        "LOGSTATS_INTERVAL": 600,
        "ROBOTS_CRAWL_DELAY_MAX": 0.01,
        "ROBOTS_UNREACHABLE_BACKOFF": [0.01],
    }
    result = await crawl(pages, settings)
    assert result.stat("origins/unreachable") == SITES / 10
    shown = lines(caplog, logging.INFO)
    assert len(shown) <= 60
    of_kind = "robots.txt is unreachable, so nothing is allowed"
    [summed] = [line for line in records(caplog) if of_kind in line]
    assert summed.startswith(f"{SITES // 10 - 3} more times: {of_kind} (http://")
    assert summed.endswith("); each is logged at DEBUG")
    assert sum("is unreachable (503), so nothing" in line for line in records(caplog)) == 3
    every = records(caplog, logging.DEBUG)
    for text, count in (
        ("is unreachable (503), so nothing is allowed", SITES / 10),
        ("is reachable again (200)", SITES / 10),
        ("so its requests are spaced accordingly", SITES / 10),
        ("exceeds ROBOTS_CRAWL_DELAY_MAX, so its", SITES / 10),
        ("is a web page instead of a robots.txt file", SITES / 10),
        ("is unavailable (redirect loop)", SITES / 10),
        ("A page on http", SITES / 2),
    ):
        assert sum(text in line for line in every) == count
    assert f"  {SITES // 2}  Disallow: /private ({SITES // 2} sites)" in "\n".join(shown)


class Summed(logging.Handler):
    """A handler with a Deferred that fires with the first summary line."""

    def __init__(self) -> None:
        super().__init__()
        self.line: Deferred[str] = Deferred()

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a record."""
        if "is logged at DEBUG" in record.getMessage() and not self.line.called:
            self.line.callback(record.getMessage())


@ensureDeferred
async def test_events_are_summed_up_from_time_to_time(caplog: pytest.LogCaptureFixture) -> None:
    """Every LOGSTATS_INTERVAL, a line counts the events without lines of their own."""
    caplog.set_level(logging.INFO)
    handler = Summed()
    logging.getLogger(site_log.__name__).addHandler(handler)
    sites = SiteLog(make_crawler(Pages, {"LOGSTATS_INTERVAL": 0.05}))
    try:
        for host in "abcdebd":
            sites.note(site_log.RECOVERED, host, host, "200")
        line = await handler.line
    finally:
        logging.getLogger(site_log.__name__).removeHandler(handler)
    assert line == (
        "4 more times: robots.txt is reachable again (d, e, b, ...); each is logged at DEBUG"
    )
    sites.note(site_log.RECOVERED, "a", "a", "404")
    sites.close()
    shown = records(caplog, logging.INFO)
    assert shown[:3] == [f"{host} is reachable again (200)" for host in "abc"]
    assert sorted(shown[3:]) == [line, "a is reachable again (404)"]
