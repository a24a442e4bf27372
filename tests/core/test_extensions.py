"""Values of Crawl-delay, Request-rate and Visit-time, as in real files."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.extensions import (
    RequestRate,
    VisitTime,
    parse_delay,
    parse_rate,
    parse_window,
    plain_delay,
)
from tests.support.case_files import tables
from tests.support.documents import rows

if TYPE_CHECKING:
    from datetime import time

CASES = tables("intervals")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *CASES["delays"],
        ("9" * 16_000, math.inf),
        ("0." + "9" * 16_000, 1.0),
        ("9" * 16_000 + " weeks", math.inf),
    ],
)
def test_delay(value: str, seconds: float) -> None:
    """A Crawl-delay is read in seconds, with its unit."""
    assert parse_delay(value) == plain_delay(value) == seconds


UNITS = {
    1e-3: ["ms"],
    1: ["s", "sec", "second"],
    60: ["m", "min", "minute"],
    3600: ["h", "hr", "hour"],
    86_400: ["d", "day"],
    604_800: ["w", "week"],
}


@pytest.mark.parametrize(
    ("seconds", "unit"), [(size, unit) for size, units in UNITS.items() for unit in units]
)
def test_units(seconds: float, unit: str) -> None:
    """Each unit is read in any case, with or without a space, plural or full stop."""
    plural = unit if unit == "m" else f"{unit}s"  # `ms` is milliseconds
    for written in (unit, unit.upper(), f" {unit}", f"{unit}.", f" {plural}", f" {plural}."):
        assert plain_delay(f"3{written}") == parse_delay(f"3{written}") == 3 * seconds, written


def test_units_of_the_page() -> None:
    """docs/pacing.md has exactly these units."""
    names = [re.findall("`([a-z]+)`", row[0]) for row in rows("docs/pacing.md", "written |")]
    assert names == list(UNITS.values())


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *CASES["odd_delays"],
        ("1e" + "9" * 1000, math.inf),
        ("at most " + "9" * 16_000, math.inf),
    ],
)
def test_delay_that_is_not_understood(value: str, seconds: float) -> None:
    """Of any other value, the largest number counts, in seconds."""
    assert plain_delay(value) is None
    assert parse_delay(value) == seconds


@pytest.mark.parametrize("value", CASES["no_delays"])
def test_no_delay(value: str) -> None:
    """A negative number, or a value without a number, means no interval."""
    assert plain_delay(value) is None
    assert parse_delay(value) is None


@given(st.one_of(st.text(max_size=40), st.text("0123456789.,-+e infsmhdw/", max_size=40)))
def test_any_delay(value: str) -> None:
    """Any value gives a non-negative number of seconds, or none."""
    delay = parse_delay(value)
    assert delay is None or delay >= 0
    assert plain_delay(value) in (None, delay)


@pytest.mark.parametrize(("value", "rate"), CASES["rates"])
def test_rate(value: str, rate: list[Any]) -> None:
    """A Request-rate is a number of requests per period, with an optional time of day; 0 requests
    are ignored.
    """
    expected = None
    if rate:
        requests, seconds, *window = rate
        expected = RequestRate(requests, seconds, VisitTime(*window) if window else None)
    assert parse_rate(value) == expected


@pytest.mark.parametrize(("value", "window"), CASES["visit_times"])
def test_window(value: str, window: list[time]) -> None:
    """A Visit-time is two times of day in UTC; an invalid time makes it invalid."""
    assert parse_window(value) == (VisitTime(*window) if window else None)
