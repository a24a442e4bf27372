"""Requests that wait for a slow robots.txt hold nothing up, and come out as they went in: see scenarios_waiting.py."""

from __future__ import annotations

from typing import Any


def test_slow_origin_holds_nobody_up(results: dict[str, Any]) -> None:
    """With 1,000 requests for a site whose robots.txt hangs, another site's page comes first; then all are decided."""
    assert results["slow_origin"] == {
        "order": [200],
        "fetched": True,
        "disallowed": 990,
        "first": True,
        "set_aside": 1001,
        "look_ups": [2, 999, 0],
    }


def test_more_slow_sites_than_concurrent_requests(results: dict[str, Any]) -> None:
    """Robots.txt files that hang hold nothing up either, however many they are."""
    assert results["many_slow"] == {"first": True, "disallowed": 6}


def test_as_if_never_set_aside(results: dict[str, Any]) -> None:
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


def test_past_the_scheduler(results: dict[str, Any]) -> None:
    """What other code downloads by itself waits in place, and gets its verdict."""
    assert results["direct"] == {
        "outcomes": [200, "robots.txt line 2: Disallow: /"],
        "pages": ["/few/1"],
        "set_aside": 0,
    }


def test_bound(results: dict[str, Any]) -> None:
    """No more than ROBOTSTXT_MAX_WAITING are set aside; the others wait in place and are decided as well."""
    assert results["bounds"] == {"0": [20, [], 0], "5": [20, [], 5]}


def test_order(results: dict[str, Any]) -> None:
    """Setting requests aside does not change the order in which start requests are fetched, and loses none."""
    assert results["order"] == {"start": [True, 8], "followed": [True, 8]}


def test_few_fetches_at_once(results: dict[str, Any]) -> None:
    """No more than ROBOTSTXT_CONCURRENT_FETCHES are under way; who stands in line is served when one ends."""
    assert results["few_fetches"] == {"asked": [["a", "b"], ["c"]], "outcome": 200}
