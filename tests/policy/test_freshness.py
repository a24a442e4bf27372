"""How long a result is valid (RFC 9309, 2.4 and 2.3.1.4), and when an unreachable file is requested
again, on a clock that the test sets.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, strategies as st

from scrapy_robots_rfc.policy.access import (
    Outcome,
    Validity,
    backoff_delays,
    limit_validity,
    retry_after,
    validity_after,
    with_retry_after,
)
from tests.support.case_files import tables
from tests.support.entries import limits as limited

if TYPE_CHECKING:
    from scrapy_robots_rfc.settings import Settings


LIMITS = limited(100, 10, 1000, 500)
FOREVER = limited(100, 10, 1000, None)
FILE, MISSING, UNKNOWN = Outcome.SUCCESSFUL, Outcome.UNAVAILABLE, Outcome.UNREACHABLE


def test_successful_file_holds_for_max_age() -> None:
    """2.4: a file is used for the maximum age, and no longer."""
    expected = Validity(FILE, 101, confirmed=1)
    for old in (None, Validity(UNKNOWN, 1, unreachable_since=0)):
        assert validity_after(old, FILE, 1, LIMITS) == expected
    assert not expected.stale


def test_copy_is_obeyed_while_unreachable() -> None:
    """2.4: a copy is used beyond its age while the file is unreachable and requested again."""
    copy = validity_after(None, FILE, 0, LIMITS)
    first = validity_after(copy, UNKNOWN, 100, LIMITS)
    assert first == Validity(FILE, 110, confirmed=0, unreachable_since=100)
    assert first.stale
    assert validity_after(first, UNKNOWN, 110, LIMITS) == Validity(FILE, 120, 0, 100)


def test_copy_ends_with_its_time() -> None:
    """2.3.1.4: a copy is used for the stale time after its last confirmation, to the second."""
    old = Validity(FILE, 990, confirmed=0, unreachable_since=900)
    last = validity_after(old, UNKNOWN, 995, LIMITS)
    assert (last.outcome, last.fresh_until) == (FILE, 1000)
    assert validity_after(last, UNKNOWN, 1000, LIMITS).outcome is UNKNOWN


def test_no_stale_copy_where_none_is_wanted() -> None:
    """2.3.1.4: with a stale time of 0, an unreachable file disallows everything at once."""
    copy = validity_after(None, FILE, 0, LIMITS)
    assert validity_after(copy, UNKNOWN, 100, limited(100, 10, 0, 500)).outcome is UNKNOWN


@pytest.mark.parametrize(
    ("limits", "expected"),
    [(LIMITS, MISSING), (FOREVER, UNKNOWN)],
    ids=["limited", "never"],
)
def test_unreachable_for_long(limits: Settings, expected: Outcome) -> None:
    """2.3.1.4: unreachable for long counts as unavailable, unless the user disables that."""
    validity = validity_after(None, UNKNOWN, 0, limits)
    assert validity_after(validity, UNKNOWN, 499, limits).outcome is UNKNOWN
    late = validity_after(validity, UNKNOWN, 500, limits)
    assert (late.outcome, late.fresh_until) == (expected, 510)
    assert validity_after(late, UNKNOWN, 510, limits).outcome is expected


def test_a_success_ends_the_run_of_failures() -> None:
    """2.3.1.4: after an answer, the time of being unreachable starts again."""
    validity = validity_after(None, UNKNOWN, 0, LIMITS)
    validity = validity_after(validity, MISSING, 400, LIMITS)
    assert validity_after(validity, UNKNOWN, 500, LIMITS) == Validity(
        UNKNOWN, 510, unreachable_since=500
    )


@pytest.mark.parametrize(
    ("asked", "given"), [(None, 100), (0, 20), (19, 20), (50, 50), (101, 100), (2.0**31, 100)]
)
@pytest.mark.parametrize("outcome", [FILE, MISSING])
def test_what_the_site_asks_for(outcome: Outcome, asked: float | None, given: float) -> None:
    """2.4, RFC 9111: a file, and its absence, are valid as long as the headers say, within the
    limits.
    """
    limits = limited(100, 10, 1000, 500, cache_min_age=20)
    assert validity_after(None, outcome, 1, limits, asked).fresh_until == 1 + given


@pytest.mark.parametrize(
    ("old", "now", "expected"),
    [
        # Another crawl stored it for longer than this one may.
        ((FILE, 500, 0), 50, (FILE, 100, 0)),
        ((FILE, 60, 0), 50, (FILE, 60, 0)),
        ((MISSING, 500), 50, (MISSING, 100)),
        # Unreachable, and not requested again for longer than in this crawl.
        ((UNKNOWN, 500, None, 0), 5, (UNKNOWN, 300, None, 0)),
        # A stale copy that is used for a shorter time here, and one that is too old here.
        ((FILE, 500, -980, 0), 5, (FILE, 20, -980, 0)),
        ((FILE, 2000, -996, 0), 5, (UNKNOWN, 5, None, 0)),
        # An origin that was opened by a limit that is not this crawl's.
        ((MISSING, 20, None, -400), 5, (UNKNOWN, 5, None, -400)),
    ],
)
def test_what_another_crawl_stored(old: tuple[Any, ...], now: float, expected: Any) -> None:
    """2.4: a copy from a store is valid within the limits of this crawl, and never longer than it
    says.
    """
    assert limit_validity(Validity(*old), 0, now, LIMITS) == Validity(*expected)


# Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110, 5.6.7.
DATE = 784_111_777.0
DELAYS = limited(100, 10, 1000, 500, unreachable_backoff=(5, 15, 45))


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
    delays = [with_retry_after(100, asked) for asked in (None, 10.0, 200.0, 1e9)]
    assert delays == [100, 100, 200, 300]


@pytest.mark.parametrize(("value", "seconds"), tables("answers")["retry_after"])
def test_retry_after_is_read_as_seconds_or_a_date(value: str, seconds: float) -> None:
    """Retry-After is read as seconds, at most 68 years, or as a date in three formats."""
    assert retry_after(value.encode(), DATE) == seconds


@pytest.mark.parametrize("value", [*tables("answers")["invalid_retry_after"], None])
def test_invalid_retry_after_is_ignored(value: str | None) -> None:
    """Any other Retry-After is ignored."""
    assert retry_after(None if value is None else value.encode("latin-1"), DATE) is None


@example(b"9" * 400)
@given(
    st.binary(max_size=40)
    | st.from_regex(rb"(Sun, )?[0-9]{1,3} Nov [0-9]{1,5} [0-9:]{1,9} GMT", fullmatch=True)
)
def test_hostile_headers_give_seconds_or_nothing(value: bytes) -> None:
    """Any header gives a number of seconds that is not negative, or `None`."""
    seconds = retry_after(value, DATE)
    assert seconds is None or 0 <= seconds < math.inf
