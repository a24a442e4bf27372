"""The interval from records, and the turns of requests that obey it."""

from __future__ import annotations

import math
from datetime import time

import pytest

from scrapy_robots_rfc import RobotsTxt
from scrapy_robots_rfc.core.extensions import VisitTime
from scrapy_robots_rfc.policy.pacing import (
    KEYS,
    Bound,
    Pace,
    inside,
    pace_of,
    pace_of_number,
)
from tests.support.case_files import tables

CASES = tables("intervals")
NOON = time(12)
MORNING = VisitTime(time(6), time(8, 45))


def pace(text: str, *tokens: str) -> Pace | None:
    """Return the interval of a file for an agent."""
    return pace_of(RobotsTxt.parse(text.encode()).records_for(tokens or ("foobot",), KEYS))


@pytest.mark.parametrize(("lines", "seconds", "says"), CASES["intervals"])
def test_largest_bound_at_noon(lines: str, seconds: float, says: str) -> None:
    """The longest interval at that time decides, of all valid records of the merged group."""
    found = pace(f"User-agent: foobot\n{lines}\n")
    bound = found.bound(NOON) if found else None
    assert bound is not None
    assert (bound.seconds, bound.text) == (seconds, says)


@pytest.mark.parametrize("lines", CASES["no_intervals"])
def test_no_bound_at_noon(lines: str) -> None:
    """Records of other crawlers or other times ask for nothing."""
    found = pace(f"User-agent: foobot\n{lines}\n")
    assert found is None or found.bound(NOON) is None


def test_records_without_meaning_ask_for_nothing() -> None:
    """Without valid records, or without a group for the agent, there is no interval."""
    assert pace("User-agent: foobot\nCrawl-delay: 0\nRequest-rate: x\nVisit-time: noon\n") is None
    assert pace("User-agent: other\nCrawl-delay: 5\n") is None
    assert pace("Crawl-delay: 5\n") is None


def test_the_largest_of_a_window() -> None:
    """Of several intervals for the same time, only the longest counts. A thousand lines cost
    nothing.
    """
    lines = "".join(
        f"Crawl-delay: {seconds}\nRequest-rate: 1/{seconds} 0600-0845\n" for seconds in (3, 7, 5)
    )
    found = pace(f"User-agent: *\n{lines}")
    assert found is not None
    assert [(bound.seconds, bound.window) for bound in found.bounds] == [(7, None), (7, MORNING)]


def test_groups_of_a_token_count_as_one() -> None:
    """A token gets the longest interval for each time of day from all its groups. The first group
    names the record.
    """
    text = (
        "User-agent: a\nUser-agent: b\nCrawl-delay: 5\nRequest-rate: 1/9 0600-0845\nAllow:"
        " /\nUser-agent: b\nCrawl-delay: 7\nRequest-rate: 1/9 0600-0845\nAllow: /\n"
        "User-agent: c\nAllow: /\n"
    )
    first = Bound(5.0, "Crawl-delay 5 s (robots.txt line 3)")
    rate = Bound(9.0, "Request-rate 1/9 s 0600-0845 (robots.txt line 4)", MORNING)
    second = Bound(7.0, "Crawl-delay 7 s (robots.txt line 7)")
    assert pace(text, "a") == Pace((first, rate))
    assert pace(text, "b") == Pace((second, rate))
    assert pace(text, "c") is None


def test_more_windows_in_all_groups_than_are_distinguished() -> None:
    """After the first sixteen times of day in all groups, a rate counts all day."""
    group = "User-agent: a\nRequest-rate: 1/{0} {0:02}00-{0:02}30\nAllow: /\n"
    text = "".join(group.format(hour) for hour in range(1, 20))
    found = pace(text, "a")
    assert found is not None
    assert len(found.bounds) == 17
    assert (found.bound(time(0)) or found.bounds[0]).seconds == 19.0


@pytest.mark.parametrize(("start", "end", "at", "expected"), CASES["windows"])
def test_window_may_span_midnight(start: time, end: time, at: time, *, expected: bool) -> None:
    """A time of day is in UTC, may include midnight, and is all day if it ends when it starts."""
    assert inside(VisitTime(start, end), at) is expected


@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        (7.0, 7.0),
        (2, 2.0),
        (math.inf, math.inf),
        (10**400, math.inf),
        (0, None),
        (-1.5, None),
        (math.nan, None),
        (None, None),
        ("5", None),
    ],
)
def test_number_of_another_parser(number: object, seconds: float | None) -> None:
    """The Crawl-delay of another parser counts if it is a number above 0."""
    found = pace_of_number(number)
    bound = found.bound(NOON) if found else None
    assert (bound and bound.seconds) == seconds
