"""Values of Crawl-delay, Request-rate and Visit-time, as real files have them."""

from __future__ import annotations

import math
from datetime import time

import pytest

from scrapy_robots_rfc.core.extensions import RequestRate, VisitTime, parse_delay, parse_rate, parse_window


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("10", 10.0),
        ("0", 0.0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1,5", 1.5),
        ("5s", 5.0),
        ("5 sec", 5.0),
        ("2 minutes", 120.0),
        ("1h", 3600.0),
        ("10 # no", 10.0),
        ("inf", math.inf),
        ("9" * 400, math.inf),
        ("-1", None),
        ("ten", None),
        ("", None),
        ("1/5", None),
        ("10abc", None),
        ("nan", None),
        ("\u0661\u0660", None),
    ],
)
def test_delay(value: str, seconds: float | None) -> None:
    """A Crawl-delay is read in seconds with its unit; a negative one and what is no number is none."""
    assert parse_delay(value) == seconds


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
    """A Request-rate is requests by seconds with an optional window; no requests at all is no rate."""
    assert parse_rate(value) == rate


def test_interval() -> None:
    """The interval of a rate is its period divided by its requests."""
    assert RequestRate(4, 10.0).interval == 2.5


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
    """A Visit-time is two times of day in UTC; a time that does not exist makes it none."""
    assert parse_window(value) == window
