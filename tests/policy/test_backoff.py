"""When an unreachable file is requested again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc.policy.access import backoff_delays, retry_after, with_retry_after
from tests.support.entries import limits

# Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110, 5.6.7.
DATE = 784_111_777.0
DELAYS = limits(100, 10, 1000, 500, unreachable_backoff=(5, 15, 45))


@pytest.mark.parametrize(
    ("attempts", "asked", "to_come"),
    [
        (0, None, (5, 15, 45)),
        (1, None, (15, 45)),
        (2, None, (45,)),
        (3, None, ()),
        (0, 4.0, (5, 15, 45)),
        (0, 20.0, (20, 15, 45)),
        (1, 1e9, (300, 45)),
        (0, math.inf, (300, 15, 45)),
        (3, 20.0, ()),
    ],
)
def test_delays_come_in_turn_and_end(
    attempts: int, asked: float | None, to_come: tuple[float, ...]
) -> None:
    """The delays are used in order. A longer Retry-After replaces one, up to the maximum."""
    assert backoff_delays(attempts, asked, DELAYS) == to_come


def test_no_delays_give_one_attempt() -> None:
    """With an empty list, there is one attempt, even with Retry-After."""
    assert backoff_delays(0, 10, DELAYS._replace(unreachable_backoff=())) == ()


def test_time_to_be_left_alone_grows_up_to_the_cap() -> None:
    """The time until the next attempt grows in the same way, up to the maximum."""
    assert [with_retry_after(100, asked) for asked in (None, 10.0, 200.0, 1e9)] == [
        100,
        100,
        200,
        300,
    ]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"120", 120),
        (b" 0 ", 0),
        (b"9" * 12, 2**31),
        (b"Sun, 06 Nov 1994 08:51:37 GMT", 120),
        (b"Sunday, 06-Nov-94 08:51:37 GMT", 120),
        (b"Sun Nov  6 08:51:37 1994", 120),
        (b"Sun, 06 Nov 1994 08:00:00 GMT", 0),
        (b"", None),
        (None, None),
        (b"-1", None),
        (b"1.5", None),
        (b"soon", None),
        (b"Sun, 99 Nov 1994 99:99:99 GMT", None),
        (b"\xff\xfe", None),
        (b"9" * 400, 2**31),
        (b"0" * 20 + b"7", 7),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(
    value: bytes | None, seconds: float | None
) -> None:
    """Retry-After is read as seconds, at most 68 years, or as a date in three formats. Anything
    else is ignored.
    """
    assert retry_after(value, DATE) == seconds


@given(
    st.binary(max_size=40)
    | st.from_regex(rb"(Sun, )?[0-9]{1,3} Nov [0-9]{1,5} [0-9:]{1,9} GMT", fullmatch=True)
)
def test_hostile_headers_give_seconds_or_nothing(value: bytes) -> None:
    """Any header gives a number of seconds that is not negative, or `None`."""
    seconds = retry_after(value, DATE)
    assert seconds is None or 0 <= seconds < math.inf
