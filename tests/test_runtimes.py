"""The same crawls with asyncio, with another reactor and without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.runtimes import Results


def test_stock_middleware_leaks(results: Results) -> None:
    """With Scrapy's own middleware, many of 20 waiting pages are fetched although all are
    disallowed.
    """
    found = results["stock_leak"]
    assert found["fetches"] == 1
    assert found["leaked"] > 0


@pytest.mark.parametrize("count", [1, 2, 3, 20, 50])
def test_every_waiting_request_gets_the_verdict(results: Results, count: int) -> None:
    """However many pages wait, robots.txt is fetched once, and no disallowed page is fetched."""
    expected = {"leaked": 0, "fetches": 1, "disallowed": count}
    assert results["waiting"][str(count)] == expected


def test_access_results(results: Results) -> None:
    """A redirected file is obeyed; a failing server disallows all, a missing file allows it."""
    assert results["access"] == {"outcomes": ["rule", 200, "unreachable", 200]}


def test_size_limit(results: Results) -> None:
    """Endless, chunked and compressed files are cut at the limit, whatever DOWNLOAD_MAXSIZE is."""
    assert results["sizes"] == {"outcomes": [["rule", 200, 1]] * 3}


def test_timeout(results: Results) -> None:
    """A robots.txt that hangs is unreachable after ROBOTS_TIMEOUT, with retries enabled, too."""
    found = results["timeout"]
    assert found["outcomes"] == ["unreachable", "unreachable"]
    assert found["pages"] == []
    assert found["seconds"] < 5


def test_closing_while_robots_txt_hangs(results: Results) -> None:
    """Closing takes at most two seconds longer than with Scrapy alone, and no page is fetched."""
    found = dict(results["closing"])
    assert found.pop("longer") < 2
    counted = {
        "robotstxt/cache/misses": 1,
        "robotstxt/request_count": 1,
        "robotstxt/undecided": 10,
    }
    assert found == {"pages": [], "outcomes": 0, "stats": counted, "reason": "test"}


def test_closing_while_robots_txt_hangs_in_the_slot(results: Results) -> None:
    """A robots.txt that hangs in the slot of other pages does not delay the end."""
    for seconds, reason, pages in results["closing_beside"].values():
        assert (reason, pages) == ("test", [])
        assert seconds < 5


def test_one_request_at_a_time(results: Results) -> None:
    """With one request at a time, the server never gets two at once, including robots.txt."""
    assert results["one_at_a_time"] == {
        "delayed": [True, True, False],
        "slots": [True, True, False],
    }


def test_hanging_signal_handler(results: Results) -> None:
    """A signal handler that hangs delays requests by ROBOTS_TIMEOUT at most, and the file is
    obeyed.
    """
    found = results["hanging_handler"]
    assert found["outcomes"] == ["rule", 200]
    assert 0.5 <= found["seconds"] < 5


def test_signal_handler_closes_the_spider(results: Results) -> None:
    """A signal handler may close the spider; then no page is fetched."""
    assert results["closing_handler"] == {"reason": "enough", "pages": []}


def test_spider_asks_the_service(results: Results) -> None:
    """A spider gets rules, sitemaps, delay and decisions without a second fetch."""
    assert results["asking"] == {
        "same": True,
        "fetches": 1,
        "sitemaps": ["http://a.example/map.xml"],
        "delay": 0.3,
        "decision": [False, True],
        "rules": ["Disallow: /x"],
    }


def test_broken_parser(results: Results) -> None:
    """If a third-party parser raises, everything is disallowed, and no request waits forever."""
    assert results["broken_parser"] == {
        "FailsToParse": ["unreachable", "unreachable", 0],
        "FailsToDecide": ["parser", "parser", 0],
    }


def test_pacing(results: Results) -> None:
    """Every request obeys the Crawl-delay of its site, including redirects, retries and other
    slots.
    """
    assert results["pacing"] == {"pages": 4, "requests": 8, "obeyed": True, "sites": 1}


def test_slow_store(results: Results) -> None:
    """While a store is slow, the crawl continues."""
    assert results["slow_store"] == {"outcomes": [200, 200], "in_time": True, "errors": 0}


def test_exceptions(results: Results) -> None:
    """A local file decides, an exempt site's file is not fetched, and a dry run sends disallowed
    requests.
    """
    assert results["exceptions"] == {
        "real": ["rule", 200, 200, "rule"],
        "fetches": [0, 0, 1],
        "dry": [200, 200, 200, 200],
        "paced": True,
        "counted": [2, 2, 1, 2],
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resumed", {"outcomes": [["rule", 200]] * 3, "fetches": 1, "hits": [0, 1, 1]}),
        ("confirmed", {"outcomes": ["rule", "rule"], "statuses": [1, 1]}),
        ("side_by_side", {"outcomes": [["rule", 200]] * 3, "fetches": 1, "waits": 2}),
    ],
)
def test_stores(results: Results, name: str, expected: dict[str, Any]) -> None:
    """A resumed job does not fetch fresh files, a 304 confirms a copy, and one of several crawls
    fetches.
    """
    assert results[name] == expected


def test_report(results: Results) -> None:
    """A report is written during the crawl; if it fails, verdicts are the same."""
    reasons = ["rule", "rule", "rule", "exempt"]
    counted = [[3, 0, 3], [3, 1, 3]]
    assert results["reported"] == {"reasons": reasons, "at_once": True, "counted": counted}


def test_large_file_does_not_stop_the_event_loop(results: Results) -> None:
    """While 200,000 hostile bytes are parsed, timers of the event loop still run."""
    found = dict(results["large_file"])
    assert found.pop("share") < 0.5
    assert found.pop("ticks") > 3
    assert found == {"outcomes": ["rule", "rule", 200, 200], "fetches": 1}
