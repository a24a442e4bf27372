"""The entry that follows from a fetch, the value of a stored entry, and how long it is stored."""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_robots_rfc.cache.entry import (
    CacheEntry,
    Fetched,
    Validators,
    decode,
    encode,
    next_entry,
)
from scrapy_robots_rfc.policy.access import (
    Freshness,
    Outcome,
    Successful,
    Unavailable,
    Unreachable,
)
from tests.support.entries import changed, limits, made

LIMITS = limits(100, 10, 1000, 500, cache_min_age=20)
POLICY = LIMITS._replace(unreachable_statuses=frozenset({429}))
VALIDATORS = Validators("http://a.example/robots.txt", b'"1"')
FILE = made(
    Outcome.SUCCESSFUL,
    200,
    "200",
    0,
    100,
    confirmed=0,
    validators=VALIDATORS,
    body=b"file",
    lifetime=60,
)
STALE = changed(FILE, status=503, cause="503", fetched=100, fresh_until=110, unreachable_since=100)
MISSING = made(Outcome.UNAVAILABLE, 404, "404", 0, 100)
CLOSED = made(Outcome.UNREACHABLE, 503, "503", 0, 10, unreachable_since=0)


def follow(old: CacheEntry | None, access: Any, now: float = 200, **said: Any) -> CacheEntry:
    """Return the entry after a fetch."""
    confirmed = isinstance(access, Successful) and access.status == 304
    validators = VALIDATORS if isinstance(access, Successful) else None
    return next_entry(old, Fetched(access, Freshness(**said), validators, confirmed), now, LIMITS)


@pytest.mark.parametrize("old", [FILE, STALE])
def test_a_file_that_cannot_be_reached(old: CacheEntry) -> None:
    """2.3.1.4: the earlier file is still used, with its validators."""
    copy = next_entry(old._replace(other_host=True), Fetched(Unreachable(500, "500")), 200, LIMITS)
    validity = copy.validity
    assert (validity.outcome, validity.fresh_until, validity.confirmed) == (
        Outcome.SUCCESSFUL,
        210,
        0,
    )
    assert copy[4:] == (VALIDATORS, b"file", 60, None, True)
    assert (copy.status, copy.cause, copy.fetched) == (500, "500", 200)


@pytest.mark.parametrize("copy", [FILE, STALE, MISSING, CLOSED])
@pytest.mark.parametrize(
    "access", [Successful(200, b""), Unavailable(404, "404"), Unreachable(None, "Timeout")]
)
@pytest.mark.parametrize("now", [200, 600, 2000])
def test_whatever_follows_can_be_written(copy: CacheEntry, access: Any, now: float) -> None:
    """An entry has a file if and only if it is used, as stores require."""
    for found in (follow(copy, access, now), copy.with_settings(now, POLICY)):
        assert decode(encode(found)) == found


@pytest.mark.parametrize(
    ("copy", "fresh_until"),
    [
        (FILE, 100),
        (changed(FILE, fresh_until=1e6), 100),
        (changed(CLOSED, fresh_until=1e6), 300),
        (changed(MISSING, fresh_until=90), 90),
        (MISSING._replace(status=429), 5),
        (changed(MISSING, status=None, fresh_until=90), 90),
        (changed(CLOSED, status=429, fresh_until=25), 25),
        (changed(CLOSED, status=403, fresh_until=25), 5),
    ],
)
def test_what_another_crawl_stored(copy: CacheEntry, fresh_until: float) -> None:
    """A stored entry is fresh within the limits of this crawl, which also decides what a status
    means.
    """
    assert copy.with_settings(5, POLICY).validity.fresh_until == fresh_until


@pytest.mark.parametrize(
    ("copy", "seconds"),
    [
        (FILE, 950),
        (STALE, 950),
        (MISSING, 50),
        (CLOSED, 500),
        (changed(CLOSED, fresh_until=700), 650),
    ],
)
def test_how_long_a_store_has_it(copy: CacheEntry, seconds: float) -> None:
    """A file is stored as long as it may be used, a failure as long as its start matters."""
    assert copy.stored_for(50, POLICY) == seconds


def test_a_failure_that_never_ends_is_stored_for_a_month() -> None:
    """2.3.1.4: if the site never becomes allowed, a failure is stored for 30 days."""
    never = POLICY._replace(unreachable_max_age=None)
    assert CLOSED.stored_for(0, never) == 30 * 86_400
