"""The intervals of robots.txt: which values count, for which agents, and what is logged."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc import Reason, RobotsDisallowed
from tests.support.crawling import crawl, records
from tests.support.parsers import Fixed
from tests.support.site import robots
from tests.support.timed_site import DELAY, PACED, Clocked, Following, at_noon, fetched, gaps, urls

if TYPE_CHECKING:
    from collections.abc import Iterator


PAGES = 4


@pytest.fixture
def site() -> Iterator[Clocked]:
    """A site with a Crawl-delay."""
    with Clocked({"/robots.txt": PACED}) as running:
        yield running


@ensureDeferred
async def test_off(site: Clocked) -> None:
    """With a maximum of 0, nothing is delayed, logged, counted or dropped."""
    settings = {"ROBOTS_CRAWL_DELAY_MAX": 0, "ROBOTS_CRAWL_DELAY_OVER": "forbid"}
    result = await crawl(urls(site, PAGES), settings)
    assert fetched(result) == PAGES
    assert min(gaps(site)) < DELAY
    assert result.stat("crawl_delay/sites") == 0


@pytest.mark.parametrize("text", ["Crawl-delay: 3600", "Crawl-delay: inf", "Request-rate: 1/1h"])
@ensureDeferred
async def test_clamp(site: Clocked, text: str, caplog: pytest.LogCaptureFixture) -> None:
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


def said_of(site: Clocked, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines of the log about a site's interval."""
    lines = records(caplog, logging.INFO)
    return [line for line in lines if f" {site.url('')}" in line and "its requests" in line]


@ensureDeferred
async def test_forbid(site: Clocked) -> None:
    """With "forbid", pages of a site with a longer interval are dropped, but not its robots.txt."""
    site.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 61\n")
    result = await crawl(
        [*urls(site, 3), site.url("/robots.txt")], {"ROBOTS_CRAWL_DELAY_OVER": "forbid"}
    )
    error = result.outcomes[site.url("/0")]
    assert isinstance(error, RobotsDisallowed)
    assert (error.decision.allowed, error.decision.reason, error.decision.token) == (
        False,
        Reason.CRAWL_DELAY,
        "*",
    )
    assert error.decision.origin == site.url("")
    assert (
        error.why
        == "Crawl-delay 61 s (robots.txt line 2) is more than ROBOTS_CRAWL_DELAY_MAX, 60 s"
    )
    assert set(site.targets) == {"/robots.txt"}
    assert result.outcomes[site.url("/robots.txt")] == 200
    assert [
        result.stat(key) for key in ("forbidden", "forbidden/crawl_delay", "crawl_delay/sites")
    ] == [3, 3, 0]


@pytest.mark.parametrize(("window", "counts"), [("1100-1300", True), ("0600-0845", False)])
@ensureDeferred
async def test_window_of_a_request_rate(
    site: Clocked, window: str, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Request-rate with a time window counts only in that window."""
    at_noon(monkeypatch)
    site.replies["/robots.txt"] = robots(f"User-agent: *\nRequest-rate: 5/1s {window}\n")
    result = await crawl(urls(site, PAGES))
    assert (min(gaps(site)) >= DELAY) is counts
    assert result.stat("crawl_delay/sites") == counts


@ensureDeferred
async def test_log_and_stats(site: Clocked, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the interval, its line and its site once; the stats count sites and added
    time.
    """
    began = time.monotonic()
    result = await crawl(urls(site, PAGES))
    asked = f"Crawl-delay {DELAY} s (robots.txt line 2) applies to {site.url('')}"
    assert said_of(site, caplog) == [f"{asked}, so its requests are spaced accordingly"]
    assert result.stat("crawl_delay/sites") == 1
    # On a busy machine a page may be so late that its turn has started already: then it is
    # not delayed.
    assert DELAY < result.stat("crawl_delay/added_seconds") <= time.monotonic() - began


@ensureDeferred
async def test_time_added_is_what_the_user_did_not_ask_for(
    site: Clocked, caplog: pytest.LogCaptureFixture
) -> None:
    """A wait that DOWNLOAD_DELAY causes anyway does not count as added, and the log says so."""
    result = await crawl(urls(site, 2), {"DOWNLOAD_DELAY": DELAY * 3})
    assert result.stat("crawl_delay/added_seconds") < DELAY
    [line] = said_of(site, caplog)
    assert line.endswith(f", but your own delay of {DELAY * 3:g} s between its requests is longer")


@ensureDeferred
async def test_agents(site: Clocked) -> None:
    """Each agent has the interval of its group; a crawl with several agents uses the longest."""
    site.replies["/robots.txt"] = robots(
        f"User-agent: one\nUser-agent: two\nCrawl-delay: {DELAY}\nDisallow:\n\nUser-agent:"
        " *\nCrawl-delay: 0.01\n"
    )
    await crawl(urls(site, PAGES), {"ROBOTSTXT_USER_AGENT": "three"})
    assert min(gaps(site)) < DELAY
    site.arrivals.clear()
    await crawl(urls(site, PAGES), {"ROBOTSTXT_USER_AGENT": "two"})
    assert min(gaps(site)) >= DELAY
    site.arrivals.clear()
    first = Request(site.url("/first"), meta={"robotstxt_user_agent": "one"})
    await crawl(
        [first],
        {"ROBOTSTXT_USER_AGENT": "three"},
        spider=Following,
        following=map(Request, urls(site, 3)),
    )
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_refreshed_file(site: Clocked) -> None:
    """After a refresh, the interval of the new file counts."""
    files = iter([PACED, robots("User-agent: *\nDisallow: /x\n")])
    site.replies["/robots.txt"] = lambda _: next(files)
    first, *following = map(Request, urls(site, 8))
    settings = {"ROBOTS_CACHE_MAX_AGE": 2.5 * DELAY}
    await crawl([first], settings, spider=Following, following=following, one_by_one=8)
    second = site.targets.index("/robots.txt", 1)
    assert min(gaps(site)[:second]) >= DELAY
    assert min(gaps(site)[second + 1 :]) < DELAY


class Slow(Fixed):
    """Has a delay for every agent."""

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the delay, or raise."""
        return DELAY


class FailsToTell(Fixed):
    """Raises for every agent."""

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the delay, or raise."""
        raise RuntimeError("cannot tell")


@pytest.mark.parametrize(("parser", "paced"), [(Slow, True), (FailsToTell, False)])
@ensureDeferred
async def test_parser_of_the_users(site: Clocked, parser: type, paced: bool) -> None:
    """The interval of a third-party parser counts; if it raises, there is none."""
    site.replies["/robots.txt"] = robots("")
    pages = [f"{url}yes" for url in urls(site, PAGES)]
    result = await crawl(pages, {"ROBOTSTXT_PARSER": parser})
    assert fetched(result) == PAGES
    assert (min(gaps(site)) >= DELAY) is paced
    assert result.stat("crawl_delay/sites") == paced
