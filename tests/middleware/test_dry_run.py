"""A dry run in real crawls: everything is decided, counted and logged, and nothing is dropped."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import Decision, Reason, RobotsDisallowed
from scrapy_robots_rfc.signals import request_disallowed
from tests.support.crawling import Crawl, crawl, records
from tests.support.site import Reply, Site, robots
from tests.support.timed_site import DELAY, Clocked, gaps, urls

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


RULES = "User-agent: *\nDisallow: /private\n"
CLOSED = "User-agent: *\nDisallow: /\n"
DRY = {"ROBOTS_DRY_RUN": True}


def stats_of(result: Crawl) -> dict[str, Any]:
    """Our stats, less those that depend on which request comes first."""
    timing = ("cache/hits", "waits", "deferred", "added_seconds")
    return {
        key: value
        for key, value in result.stats.items()
        if key.startswith("robotstxt/") and not key.endswith(timing)
    }


@ensureDeferred
async def test_dry_run_drops_nothing(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Every page is fetched.

    What is forbidden is counted, signalled and logged, as in a real run.
    """
    site.replies["/robots.txt"] = robots(RULES)
    other.replies["/robots.txt"] = Reply(503)
    pages = [site.url("/private/1"), site.url("/a"), site.url("/private/2"), other.url("/x")]
    sent: list[tuple[str, Decision]] = []

    def prepare(crawler: Crawler) -> None:
        def keep(request: Request, decision: Decision) -> None:
            sent.append((request.url, decision))

        crawler.signals.connect(keep, request_disallowed, weak=False)

    real = await crawl(pages)
    caplog.clear()
    dry = await crawl(pages, DRY, prepare=prepare)
    assert dry.outcomes == dict.fromkeys(pages, 200)
    assert stats_of(dry) == {**stats_of(real), "robotstxt/dry_run": 3}
    assert (
        dry.stat("forbidden"),
        dry.stat("forbidden/rule"),
        dry.stat("forbidden/unreachable"),
    ) == (3, 2, 1)
    assert sorted((url, decision.allowed, decision.reason) for url, decision in sent) == sorted(
        [
            (pages[0], False, Reason.RULE),
            (pages[2], False, Reason.RULE),
            (pages[3], False, Reason.UNREACHABLE),
        ],
    )
    said = records(caplog, logging.DEBUG)
    line = (
        "Forbidden by robots.txt, let through (dry run): <GET {}> (robots.txt line 2: Disallow:"
        " /private)"
    )
    assert line.format(pages[0]) in said


@ensureDeferred
async def test_dry_run_says_so(site: Site, other: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A dry run is announced, no warning claims that pages are dropped, and the last line says
    how many were not.
    """
    site.replies["/robots.txt"] = robots(RULES)
    other.replies["/robots.txt"] = Reply(503)
    await crawl([site.url("/private"), other.url("/x")], DRY)
    assert records(caplog) == [
        "ROBOTS_DRY_RUN is on: no request is dropped, even if robots.txt disallows it",
        (
            f"{other.url('/robots.txt')} is unreachable (503): nothing is allowed; the next"
            " attempt is in 300 s"
        ),
    ]
    last = records(caplog, logging.INFO)[-1].splitlines()
    assert last[:4] == [
        "robots.txt summary (spider pages):",
        "  sites: 1 successful, 1 unreachable (503): nothing is allowed",
        "  requests: 2 disallowed (1 rule, 1 unreachable)",
        "  dry run: 2 of the disallowed requests were sent",
    ]


@ensureDeferred
async def test_dry_run_after_a_backoff(site: Site) -> None:
    """Pages wait for further attempts as always, and go when those have failed."""
    site.replies["/robots.txt"] = Reply(503)
    result = await crawl(urls(site, 3), {**DRY, "ROBOTS_UNREACHABLE_BACKOFF": [0.01, 0.01]})
    assert result.outcomes == dict.fromkeys(urls(site, 3), 200)
    assert site.targets[:3] == ["/robots.txt"] * 3
    assert (result.stat("dry_run"), result.stat("deferred")) == (
        3,
        0,
    )  # they wait for less than a second


@ensureDeferred
async def test_dry_run_without_an_authority(site: Site) -> None:
    """What has no origin is let through as well: it is not this package that stops it."""
    page = "http:///private"
    real, dry = await crawl([page]), await crawl([page], DRY)
    assert isinstance(real.outcomes[page], RobotsDisallowed)
    assert not isinstance(dry.outcomes[page], RobotsDisallowed)
    assert (dry.stat("forbidden/unreachable"), dry.stat("dry_run")) == (1, 1)


@pytest.mark.parametrize(
    ("settings", "text", "dropped"),
    [
        ({}, f"Disallow: /\nCrawl-delay: {DELAY}\n", "rule"),
        (
            {"ROBOTS_CRAWL_DELAY_MAX": DELAY, "ROBOTS_CRAWL_DELAY_OVER": "forbid"},
            "Crawl-delay: 60\n",
            "crawl_delay",
        ),
    ],
    ids=["all forbidden", "too slow"],
)
@ensureDeferred
async def test_dry_run_obeys_the_pace(settings: dict[str, Any], text: str, dropped: str) -> None:
    """What is let through although it is forbidden obeys the site's Crawl-delay, up to the
    maximum.
    """
    with Clocked({"/robots.txt": robots(f"User-agent: *\n{text}")}) as site:
        result = await crawl(urls(site, 4), {**DRY, **settings})
        assert result.outcomes == dict.fromkeys(urls(site, 4), 200)
        assert (result.stat("dry_run"), result.stat(f"forbidden/{dropped}")) == (4, 4)
        assert min(gaps(site)) >= DELAY
