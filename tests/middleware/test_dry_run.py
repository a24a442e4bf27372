"""A dry run in real crawls: everything is decided, counted and logged, and nothing is dropped."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import Decision, Reason
from scrapy_robots_rfc.signals import request_disallowed
from tests.support.crawling import Crawl, crawl, records
from tests.support.site import Reply, Site, robots
from tests.support.timed_site import DELAY, gaps, urls

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

DRY = {"ROBOTS_DRY_RUN": True}


def stats_of(result: Crawl) -> dict[str, Any]:
    """Return our stats, except those that depend on the order of requests."""
    timing = ("cache/hits", "waits", "added_seconds")
    return {
        key: value
        for key, value in result.stats.items()
        if key.startswith("robotstxt/") and not key.endswith(timing)
    }


@ensureDeferred
async def test_dry_run_drops_nothing(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Disallowed pages are fetched, and counted, signalled and logged as in a real run."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    other.replies["/robots.txt"] = Reply(503)
    pages = [site.url("/private/1"), site.url("/a"), site.url("/private/2"), other.url("/x")]
    sent: dict[str, tuple[bool, Reason]] = {}

    def prepare(crawler: Crawler) -> None:
        def keep(request: Request, decision: Decision) -> None:
            sent[request.url] = (decision.allowed, decision.reason)

        crawler.signals.connect(keep, request_disallowed, weak=False)

    real = await crawl(pages)
    dry = await crawl(pages, DRY, prepare=prepare)
    assert dry.outcomes == dict.fromkeys(pages, 200)
    assert stats_of(dry) == {**stats_of(real), "robotstxt/dry_run": 3}
    assert sent == {
        pages[0]: (False, Reason.RULE),
        pages[2]: (False, Reason.RULE),
        pages[3]: (False, Reason.UNREACHABLE),
    }
    reason = "robots.txt line 2: Disallow: /private"
    line = f"Forbidden by robots.txt, let through (dry run): <GET {pages[0]}> ({reason})"
    assert line in records(caplog, logging.DEBUG)


@pytest.mark.parametrize(
    ("settings", "text", "reason"),
    [
        ({}, f"Disallow: /\nCrawl-delay: {DELAY}\n", "rule"),
        (
            {"ROBOTS_CRAWL_DELAY_MAX": DELAY, "ROBOTS_CRAWL_DELAY_OVER": "forbid"},
            "Crawl-delay: 60\n",
            "crawl_delay",
        ),
    ],
    ids=["all disallowed", "too slow"],
)
@ensureDeferred
async def test_dry_run_keeps_the_interval(settings: dict[str, Any], text: str, reason: str) -> None:
    """Disallowed pages that are let through keep the Crawl-delay of their site."""
    with Site({"/robots.txt": robots(f"User-agent: *\n{text}")}) as site:
        result = await crawl(urls(site, 4), {**DRY, **settings})
        assert result.outcomes == dict.fromkeys(urls(site, 4), 200)
        assert (result.stat("dry_run"), result.stat(f"forbidden/{reason}")) == (4, 4)
        assert min(gaps(site)) >= DELAY
