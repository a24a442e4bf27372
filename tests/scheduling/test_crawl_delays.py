"""The intervals of robots.txt: which values count, for which agents, and what is logged."""

from __future__ import annotations

import datetime
import logging
import time

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc import Decision, Reason, _runtime
from tests.support.crawling import Serial, crawl, records
from tests.support.site import Site, robots
from tests.support.timed_site import DELAY, PACED, Following, fetched, gaps, urls

PAGES = 4


@ensureDeferred
async def test_off(paced: Site) -> None:
    """With a maximum of 0, nothing is delayed, logged, counted or dropped."""
    settings = {"ROBOTS_CRAWL_DELAY_MAX": 0, "ROBOTS_CRAWL_DELAY_OVER": "forbid"}
    result = await crawl(urls(paced, PAGES), settings)
    assert fetched(result) == PAGES
    assert min(gaps(paced)) < DELAY
    assert result.stat("crawl_delay/sites") == 0


@pytest.mark.parametrize(
    "text", ["Crawl-delay: 3600", f"Crawl-delay: {'9' * 400}", "Request-rate: 1/1h"]
)
@ensureDeferred
async def test_clamp(site: Site, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """An interval above the maximum is reduced to it, which the log and the stats say once."""
    site.replies["/robots.txt"] = robots(f"User-agent: *\n{text}\n")
    result = await crawl(urls(site, 3), {"ROBOTS_CRAWL_DELAY_MAX": DELAY})
    assert fetched(result) == 3
    assert DELAY <= min(gaps(site)) < 10 * DELAY
    [said] = said_of(site, caplog)
    assert said.endswith(
        f"(robots.txt line 2) for {site.url('')} exceeds ROBOTS_CRAWL_DELAY_MAX, so its requests"
        f" are only {DELAY} s apart"
    )
    assert result.stat("crawl_delay/sites") == 1


def said_of(site: Site, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines of the log about a site's interval."""
    lines = records(caplog, logging.INFO)
    return [line for line in lines if f" {site.url('')}" in line and "its requests" in line]


@ensureDeferred
async def test_forbid(site: Site) -> None:
    """With "forbid", pages of a site with a longer interval are dropped, but not its robots.txt."""
    site.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 61\n")
    result = await crawl(
        [*urls(site, 3), site.url("/robots.txt")], {"ROBOTS_CRAWL_DELAY_OVER": "forbid"}
    )
    error = result.dropped(site.url("/0"))
    why = "Crawl-delay 61 s (robots.txt line 2) is more than ROBOTS_CRAWL_DELAY_MAX, 60 s"
    decision = Decision(False, Reason.CRAWL_DELAY, token="*", origin=site.url(""))
    assert (error.decision, error.why) == (decision, why)
    assert set(site.targets) == {"/robots.txt"}
    assert result.outcomes[site.url("/robots.txt")] == 200
    counted = ("forbidden", "forbidden/crawl_delay", "crawl_delay/sites")
    assert [result.stat(key) for key in counted] == [3, 3, 0]


@pytest.mark.parametrize(("window", "counts"), [("1100-1300", True), ("0600-0845", False)])
@ensureDeferred
async def test_window_of_a_request_rate(
    site: Site, window: str, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Request-rate with a time window counts only in that window."""
    monkeypatch.setattr(_runtime.Runtime, "utc", lambda _: datetime.time(12))
    site.replies["/robots.txt"] = robots(f"User-agent: *\nRequest-rate: 5/1s {window}\n")
    result = await crawl(urls(site, PAGES))
    assert (min(gaps(site)) >= DELAY) is counts
    assert result.stat("crawl_delay/sites") == counts


@ensureDeferred
async def test_log_and_stats(paced: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the interval, its line and its site once; the stats count sites and added
    time.
    """
    began = time.monotonic()
    result = await crawl(urls(paced, PAGES))
    asked = f"Crawl-delay {DELAY} s (robots.txt line 2) applies to {paced.url('')}"
    assert said_of(paced, caplog) == [f"{asked}, so its requests are spaced accordingly"]
    assert result.stat("crawl_delay/sites") == 1
    # On a busy machine a page may be so late that its turn has started already: then it is
    # not delayed.
    assert DELAY < result.stat("crawl_delay/added_seconds") <= time.monotonic() - began


@pytest.mark.parametrize(("delay", "shown"), [(DELAY, DELAY), (DELAY * 3.001, DELAY * 3)])
@ensureDeferred
async def test_time_added_is_what_the_user_did_not_ask_for(
    paced: Site, caplog: pytest.LogCaptureFixture, delay: float, shown: float
) -> None:
    """A wait that DOWNLOAD_DELAY causes anyway does not count as added, and the log says so."""
    result = await crawl(urls(paced, 2), {"DOWNLOAD_DELAY": delay})
    assert result.stat("crawl_delay/added_seconds") < DELAY
    [line] = said_of(paced, caplog)
    own = f"your own delay of {shown:g} s between its requests"
    assert line.endswith(f", but {own} is at least as long")


@ensureDeferred
async def test_agents(site: Site) -> None:
    """Each agent has the interval of its group; a crawl with several agents uses the longest."""
    own = f"User-agent: one\nUser-agent: two\nCrawl-delay: {DELAY}\nDisallow:\n"
    site.replies["/robots.txt"] = robots(f"{own}\nUser-agent: *\nCrawl-delay: 0.01\n")
    await crawl(urls(site, PAGES), {"ROBOTSTXT_USER_AGENT": "three"})
    assert min(gaps(site)) < DELAY
    site.arrivals.clear()
    await crawl(urls(site, PAGES), {"ROBOTSTXT_USER_AGENT": "two"})
    assert min(gaps(site)) >= DELAY
    site.arrivals.clear()
    first = Request(site.url("/first"), meta={"robotstxt_user_agent": "one"})
    following = map(Request, urls(site, 3))
    three = {"ROBOTSTXT_USER_AGENT": "three"}
    await crawl([first], three, spider=Following, following=following)
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_refreshed_file(site: Site) -> None:
    """After a refresh, the interval of the new file counts."""
    files = iter([PACED, robots("User-agent: *\nDisallow: /x\n")])
    site.replies["/robots.txt"] = lambda _: next(files)
    await crawl(urls(site, 8), {"ROBOTS_CACHE_MAX_AGE": 2.5 * DELAY}, spider=Serial)
    second = site.targets.index("/robots.txt", 1)
    assert min(gaps(site)[:second]) >= DELAY
    assert min(gaps(site)[second + 1 :]) < DELAY
