"""Requests that wait for a slow robots.txt hold nothing up, and come out as they went in: see scenarios_deferred.py."""

from __future__ import annotations

import logging
import re
import threading
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from scrapy.signals import request_reached_downloader

from tests.support.crawling import crawl, records
from tests.support.documents import block
from tests.support.scenarios_deferred import FEW, Closes, Faithful, snapshot
from tests.support.scenarios_obeying import OURS, Gate
from tests.support.scenarios_unreachable import CloseSoon, short
from tests.support.site import Reply, robots

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy import Request
    from scrapy.crawler import Crawler

    from tests.support.runtimes import Results
    from tests.support.service_crawls import Clock
    from tests.support.site import Site


DOCUMENTED = block("docs/failing.md", "text", "held back").rstrip()


def test_slow_origin_holds_nobody_up(results: Results) -> None:
    """With 100 requests for a site whose robots.txt hangs, another site's page comes first; then all are decided."""
    assert results["slow_origin"] == {
        "order": [200],
        "fetched": True,
        "disallowed": 90,
        "first": True,
        "set_aside": 101,
        "look_ups": [2, 99, 0],
    }


def test_more_slow_sites_than_concurrent_requests(results: Results) -> None:
    """Robots.txt files that hang hold nothing up either, however many they are."""
    assert results["many_slow"] == {"first": True, "disallowed": 6}


def test_as_if_never_set_aside(results: Results) -> None:
    """The very request comes back with all that it carries, its duplicates are dropped, nothing is dropped twice."""
    forbidden = "robots.txt line 2: Disallow: /"
    assert results["faithful"] == {
        "same": 4,
        "arguments": True,
        "dropped": True,
        "outcomes": ["200", "200", forbidden, forbidden],
        "scheduled": 8 + 4,  # once more for each that was set aside
        "fetched": 1,
        "set_aside": 4,
    }


def test_past_the_scheduler(results: Results) -> None:
    """What other code downloads by itself waits in place, and gets its verdict."""
    assert results["direct"] == {
        "outcomes": [200, "robots.txt line 2: Disallow: /"],
        "pages": ["/few/1"],
        "set_aside": 0,
    }


def test_bound(results: Results) -> None:
    """No more than ROBOTSTXT_MAX_WAITING are set aside; the others wait in place and are decided as well."""
    assert results["bounds"] == {"0": [20, [], 0], "5": [20, [], 5]}


def test_order(results: Results) -> None:
    """Setting requests aside does not change the order in which start requests are fetched, and loses none."""
    assert results["order"] == {"start": [True, 8], "followed": [True, 8]}


def test_few_fetches_at_once(results: Results) -> None:
    """No more than ROBOTSTXT_CONCURRENT_FETCHES are under way; who stands in line is served when one ends."""
    assert results["few_fetches"] == {"asked": [["a", "b"], ["c"]], "outcome": 200, "too_late": True}


def test_told(results: Results) -> None:
    """While requests wait, a line says for what, for which site longest, and when the last one that is paced is due."""
    lines = {part for line in results["told"]["lines"] for part in line.split("; ")}
    held = "held back by Crawl-delay or Request-rate"
    assert {
        f"N requests {held}, the last of them is due at N",
        f"N request {held}, it is due at N",
    } <= lines
    assert re.sub(r"\d+(:\d+)*", "N", DOCUMENTED.rpartition("; ")[2]) in lines
    assert any(line.endswith("(longest: http://N.N.N.N, N s)") for line in lines)


def test_reserved(results: Results) -> None:
    """A file that is stale at once decides for those who waited for it; a page that comes later has it asked anew."""
    assert results["reserved"] == {
        "waited": [200, 200],
        "linked": "rule",
        "fetches": 2,
        "set_aside": 4,
        "leaked": False,
    }


@pytest.mark.reactor
@pytest.mark.parametrize("on_disk", [False, True])
@ensureDeferred
async def test_reserved_for_a_minute(site: Site, clock: Clock, tmp_path: Path, on_disk: bool) -> None:
    """Eight pages wait for a file that is stale after a second: it decides for a minute, then it is asked for anew."""
    Gate.opened, Gate.expected = threading.Event(), 8

    def go_by(request: Request) -> None:
        clock.now += 0 if request.url.endswith("/robots.txt") else 20

    def prepare(crawler: Crawler) -> None:
        crawler.signals.connect(go_by, request_reached_downloader, weak=False)

    changes = site.replies["/robots.txt"] = Closes()
    settings = {
        **OURS,
        "CONCURRENT_REQUESTS": 1,
        "ROBOTSTXT_CACHE_MAX_AGE": 1,
        "ROBOTSTXT_CACHE": None,
        "JOBDIR": str(tmp_path) if on_disk else None,
    }
    urls = [site.url(f"/{number}") for number in range(8)]
    result = await crawl(urls, settings, prepare=prepare)
    assert [short(outcome) for outcome in result.outcomes.values()] == [200] * 4 + ["rule"] * 4
    assert changes.fetches == 2
    assert 8 < result.stat("set_aside") <= 8 + 4  # the last of them may come when the file is there


@pytest.mark.reactor
@ensureDeferred
async def test_on_disk(site: Site, tmp_path: Path) -> None:
    """With JOBDIR a request goes through the queue on disk once more, and comes out as it was, `dont_filter` too."""
    Gate.opened, Gate.expected = threading.Event(), 4
    site.replies["/robots.txt"] = robots(FEW, gate=Gate.opened)
    urls = [site.url(target) for target in ("/few/1", "/few/2", "/x", "/y")]
    result = await crawl(urls, {**OURS, "JOBDIR": str(tmp_path)}, spider=Faithful)
    assert result.stat("set_aside") == 4
    assert result.stats["scheduler/enqueued/disk"] == 8
    assert "scheduler/unserializable" not in result.stats
    sent = {request.url: before for request, before in reversed(result.spider.sent)}  # without the duplicates
    assert [snapshot(request) for request, _ in result.spider.came] == [
        sent[request.url] for request, _ in result.spider.came
    ]
    assert [result.outcomes[url] for url in urls[:2]] == [200, 200]
    assert sorted(result.outcomes) == sorted(urls)


@pytest.mark.reactor
@pytest.mark.parametrize(("scheduler", "dropped"), [("Own", 2), ("Refuses", 4)])
@ensureDeferred
async def test_scheduler_of_the_users(site: Site, scheduler: str, dropped: int) -> None:
    """A scheduler of another make takes requests back by `dont_filter`, or drops them, which is told as usual."""
    Gate.opened, Gate.expected = threading.Event(), 2
    site.replies["/robots.txt"] = robots(FEW, gate=Gate.opened)
    urls = [site.url("/few/1"), site.url("/x")]
    settings = {**OURS, "SCHEDULER": f"tests.support.schedulers.{scheduler}"}
    result = await crawl(urls, settings, spider=Faithful)
    spider = result.spider
    assert len(spider.dropped) == dropped
    assert all(snapshot(request) == before for request, before in spider.sent)
    assert len(spider.came) == 4 - dropped


@pytest.mark.reactor
@pytest.mark.parametrize(
    ("job", "says"),
    [
        (False, "1 request waited for a robots.txt when the spider closed: it is dropped, as all that is queued"),
        (
            True,
            (
                "1 request waited for a robots.txt when the spider closed: it is in JOBDIR, and decided when the crawl "
                "is resumed"
            ),
        ),
    ],
)
@ensureDeferred
async def test_one_undecided(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture, tmp_path: Path, job: bool, says: str
) -> None:
    """The line says of one request what becomes of it."""
    site.replies["/robots.txt"] = Reply(503)
    CloseSoon.expected = 1
    settings = {"ROBOTSTXT_UNREACHABLE_BACKOFF": [600], "JOBDIR": str(tmp_path) if job else None}
    await crawl([site.url("/"), other.url("/page")], settings, spider=CloseSoon)
    assert says in records(caplog, logging.INFO)


@pytest.mark.reactor
@ensureDeferred
async def test_closed_meanwhile(site: Site, other: Site, caplog: pytest.LogCaptureFixture) -> None:
    """What waits for another attempt when the spider closes is dropped with the queue, and the log says how many."""
    site.replies["/robots.txt"] = Reply(503)
    CloseSoon.expected = 1
    pages = [*(site.url(f"/{n}") for n in range(5)), other.url("/page")]
    result = await crawl(pages, {"ROBOTSTXT_UNREACHABLE_BACKOFF": [600]}, spider=CloseSoon)
    assert result.outcomes == {other.url("/page"): 200}
    assert result.stat("undecided") == 5
    assert result.stat("origins/unreachable") == 1
    assert records(caplog, logging.INFO)[-1].splitlines()[1:] == [
        "  origins: 1 unavailable, 1 unreachable (1 503)",
        "  requests: 1 allowed, 5 undecided",
        f"  unreachable: {site.url('')} (503)",
    ]
    assert site.fetches == 1  # the next attempt was not waited for
    assert "5 requests waited for a robots.txt when the spider closed: they are dropped, as all that is queued" in (
        records(caplog, logging.INFO)
    )
