"""Entries that survive a crawl, on a clock that the test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import Reason, RobotsDisallowed
from tests.support.crawling import crawl
from tests.support.site import Reply
from tests.support.stores import ONE_STORE, OneStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.service_crawls import Clock
    from tests.support.site import Site

DAY = 86_400.0
FILE = Reply(
    200, b"User-agent: *\nDisallow: /x\n", (("ETag", '"1"'), ("Cache-Control", "max-age=3600"))
)


async def outcome(site: Site, settings: dict[str, Any]) -> tuple[str, bool]:
    """Return the outcome of a disallowed page in a separate crawl, and whether a stale copy
    decided.
    """
    result = await crawl([site.url("/x")], settings)
    found = result.outcomes[site.url("/x")]
    return (
        (found.decision.reason.value, found.decision.stale)
        if isinstance(found, RobotsDisallowed)
        else ("", False)
    )


def conditions(site: Site) -> list[str | None]:
    """Return the entity tags of the requests for robots.txt."""
    return [
        asked.headers.get("If-None-Match") for asked in site.asked if asked.target == "/robots.txt"
    ]


@ensureDeferred
async def test_term_and_tag_outlive_a_crawl(site: Site, clock: Clock, tmp_path: Path) -> None:
    """2.4, RFC 9111: a resumed crawl uses a copy until it expires, and then refreshes it."""
    site.replies["/robots.txt"] = FILE
    settings = {"JOBDIR": str(tmp_path)}
    assert await outcome(site, settings) == ("rule", False)
    clock.now += 3599
    assert await outcome(site, settings) == ("rule", False)
    assert conditions(site) == [None]
    site.replies["/robots.txt"] = Reply(304)
    for _ in range(2):
        clock.now += 3600
        assert await outcome(site, settings) == ("rule", False)
    assert conditions(site) == [None, '"1"', '"1"']


@ensureDeferred
async def test_stale_copy_outlives_a_crawl(site: Site, clock: Clock) -> None:
    """2.3.1.4: a stale copy is used for 30 days, however many crawls there are."""
    OneStore.store = OneStore()
    site.replies["/robots.txt"] = FILE
    await outcome(site, ONE_STORE)
    site.replies["/robots.txt"] = Reply(503)
    seen = []
    for day in (1, 20, 29, 31):
        clock.now = 1000.0 + day * DAY
        seen.append(await outcome(site, ONE_STORE))
    assert seen == [("rule", True), ("rule", True), ("rule", True), ("", False)]
    assert conditions(site) == [None, '"1"', '"1"', '"1"', None]


@ensureDeferred
async def test_being_unreachable_outlives_a_crawl(site: Site, clock: Clock) -> None:
    """2.3.1.4: a restart does not extend the 30 days of an unreachable file."""
    OneStore.store = OneStore()
    site.replies["/robots.txt"] = Reply(503)
    seen = []
    for day in (0, 15, 29, 30):
        clock.now = 1000.0 + day * DAY
        seen.append((await outcome(site, ONE_STORE))[0])
    closed = Reason.UNREACHABLE.value
    assert seen == [closed, closed, closed, ""]
    assert site.fetches == 4


@pytest.mark.parametrize("seconds", [-2 * DAY, 60.0, 2 * DAY], ids=["days back", "on", "days on"])
@ensureDeferred
async def test_clock_that_was_set(
    site: Site, clock: Clock, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """2.4: a copy from the future or from long ago is fetched again; a minute is tolerated."""
    OneStore.store = OneStore()
    site.replies["/robots.txt"] = FILE
    await outcome(site, ONE_STORE)
    clock.ahead += seconds
    assert await outcome(site, ONE_STORE) == ("rule", False)
    asked_again = [None] if abs(seconds) <= 60 else [None, '"1"']
    assert conditions(site) == asked_again
    clock.now += 3660
    assert await outcome(site, ONE_STORE) == ("rule", False)
    assert conditions(site) == [*asked_again, '"1"']
