"""Requests that wait for a slow robots.txt do not change, and are kept when the spider closes."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from tests.support.crawling import close_when, crawl, plugged, records
from tests.support.site import Reply, robots

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.crawler import Crawler

    from tests.support.service_crawls import Clock
    from tests.support.site import Site


DROPPED = "had not been sent yet. The queue is dropped, because JOBDIR is not set"


class Moving:
    """A middleware that changes the URLs of one site to another, before they are judged."""

    moves: ClassVar[dict[str, str]] = {}

    def process_request(self, request: Request) -> None:
        for before, after in self.moves.items():
            if request.url.startswith(before) and not request.url.endswith("/robots.txt"):
                request._set_url(request.url.replace(before, after))


@ensureDeferred
async def test_request_that_was_changed_after_it_left_the_queue(
    site: Site, other: Site, tmp_path: Path
) -> None:
    """A request that waits in the middleware when the spider closes goes back to the queue."""
    gate = threading.Event()
    other.replies["/robots.txt"] = robots("", gate=gate)
    settings = plugged(Moving, 50, JOBDIR=str(tmp_path))
    Moving.moves = {site.url(""): other.url("")}
    closed = await crawl([site.url("/a")], settings, prepare=close_when(lambda _: other.fetches))
    assert (closed.outcomes, closed.stat("undecided"), other.pages) == ({}, 1, [])
    gate.set()
    resumed = await crawl([], settings)
    assert resumed.outcomes == {other.url("/a"): 200}
    assert site.pages == []


@pytest.mark.parametrize("is_stored", [True, False])
@ensureDeferred
async def test_url_that_was_changed_is_judged(
    site: Site, other: Site, tmp_path: Path, is_stored: bool
) -> None:
    """A request is judged by the site of its new URL, whether it was in memory or on disk."""
    other.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /\n")
    Moving.moves = {site.url(""): other.url("")}
    settings = plugged(Moving, 50, **({"JOBDIR": str(tmp_path)} if is_stored else {}))
    result = await crawl([site.url("/a")], settings)
    assert result.verdicts(other.url("/a")) == ["rule"]
    assert (site.pages, other.pages) == ([], [])


class Delaying:
    """A middleware in which pages spend some time before they are judged."""

    clock: ClassVar[Clock]
    seconds: ClassVar[float]

    def process_request(self, request: Request) -> None:
        if not request.url.endswith("/robots.txt"):
            self.clock.now += self.seconds


@pytest.mark.parametrize(("seconds", "expected"), [(30, ["rule", 1]), (90, [200, 2])])
@ensureDeferred
async def test_file_that_expires_after_a_request_left_the_queue(
    site: Site, clock: Clock, seconds: float, expected: list[Any]
) -> None:
    """A request that left the queue is judged by its file for a minute after the file expires."""
    files = iter([robots("User-agent: *\nDisallow: /\n"), robots("")])
    site.replies["/robots.txt"] = lambda _: next(files)
    Delaying.clock, Delaying.seconds = clock, 86_400 + seconds
    result = await crawl([site.url("/a")], plugged(Delaying, 50))
    assert [*result.verdicts(), site.fetches] == expected


@pytest.mark.reactor
@ensureDeferred
async def test_closed_meanwhile(site: Site, other: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Requests that wait for another attempt when the spider closes are counted and logged."""
    site.replies["/robots.txt"] = Reply(503)

    def has_failed(crawler: Crawler) -> object:
        return other.pages and crawler.stats.get_value("robotstxt/result/unreachable")

    pages = [*(site.url(f"/{n}") for n in range(5)), other.url("/page")]
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [600]}
    result = await crawl(pages, settings, prepare=close_when(has_failed))
    assert result.outcomes == {other.url("/page"): 200}
    assert result.stat("undecided") == 5
    assert result.stat("origins/unreachable") == 1
    assert records(caplog, logging.INFO)[-1].splitlines()[1:] == [
        (
            "  sites: 1 unavailable (404), so everything is allowed; 1 unreachable so far (503),"
            " so pages were waiting"
        ),
        "  requests: 1 allowed, 5 undecided",
        f"  unreachable: {site.url('')} (503)",
        "  obeyed as: Scrapy (from USER_AGENT)",
    ]
    assert site.fetches == 1  # the next attempt was not waited for
    assert f"When the spider closed, 5 requests {DROPPED}" in records(caplog, logging.INFO)
