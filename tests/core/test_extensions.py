"""Values of Crawl-delay, Request-rate and Visit-time, as in real files."""

from __future__ import annotations

import math
import re
from datetime import time

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
from tests.support.documents import rows


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("10", 10.0),
        ("+10", 10.0),
        ("0", 0.0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1,5", 1.5),
        ("5s", 5.0),
        ("500 ms", 0.5),
        ("1.5 sec", 1.5),
        ("10 min.", 600.0),
        ("10 MIN.", 600.0),
        ("1 hour.", 3600.0),
        ("1,5 h", 5400.0),
        ("2 weeks", 1_209_600.0),
        ("inf", math.inf),
        ("infinite", math.inf),
        ("inf ms", math.inf),
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
        ("10 fortnights", 10.0),
        ("10abc", 10.0),
        ("10;", 10.0),
        ('"10"', 10.0),
        ("10 # no", 10.0),
        ("1/5", 5.0),
        ("5-10", 10.0),
        ("5 - 10 seconds", 10.0),
        ("1.5-2.5", 2.5),
        ("1.2.3", 3.0),
        ("ten (10)", 10.0),
        ("1h30m", 30.0),
        ("10 minutes, please", 10.0),
        ("about -5", 5.0),
        ("1e3", 1000.0),
        ("1e" + "9" * 1000, math.inf),
        ("at most " + "9" * 16_000, math.inf),
        ("infinity!", math.inf),
        ("0 or so", 0.0),
        ("info 3", 3.0),
    ],
)
def test_delay_that_is_not_understood(value: str, seconds: float) -> None:
    """Of any other value, the largest number counts, in seconds."""
    assert plain_delay(value) is None
    assert parse_delay(value) == seconds


@pytest.mark.parametrize(
    "value", ["", "-1", "-1.5 min.", "- 3", "-inf", "ten", "nan", "-", "s", "\u0661\u0660", "info"]
)
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


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        ("1/5", RequestRate(1, 5.0)),
        ("30/1m", RequestRate(30, 60.0)),
        ("1 / 10s", RequestRate(1, 10.0)),
        ("1/5 0600-0845", RequestRate(1, 5.0, VisitTime(time(6), time(8, 45)))),
        ("1/5 whenever", RequestRate(1, 5.0)),
        ("0/5", None),
        ("5", None),
        ("-1/5", None),
        ("1/x", None),
        ("1/0", None),
    ],
)
def test_rate(value: str, rate: RequestRate | None) -> None:
    """A Request-rate is a number of requests per period, with an optional time of day; 0 requests
    are ignored.
    """
    assert parse_rate(value) == rate


@pytest.mark.parametrize(
    ("value", "window"),
    [
        ("0600-0845", VisitTime(time(6), time(8, 45))),
        ("06:00 - 08:45", VisitTime(time(6), time(8, 45))),
        ("2200-0400", VisitTime(time(22), time(4))),
        ("0000-2400", VisitTime(time(0), time(0))),
        ("2500-0100", None),
        ("0660-0700", None),
        ("noon", None),
    ],
)
def test_window(value: str, window: VisitTime | None) -> None:
    """A Visit-time is two times of day in UTC; an invalid time makes it invalid."""
    assert parse_window(value) == window
