"""Cache headers (RFC 9111), valid or not."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc.policy.access import Freshness, HeaderLines, etag, freshness, last_modified
from tests.support.case_files import tables

CASES = tables("answers")
#: Sun, 06 Nov 1994 08:49:37 GMT.
THEN = 784_111_777.0
DATE, HOUR_LATER = b"Sun, 06 Nov 1994 08:49:37 GMT", b"Sun, 06 Nov 1994 09:49:37 GMT"


def several(**headers: tuple[bytes, ...]) -> HeaderLines:
    """Return a cache state from headers with their lines."""
    return lambda name: headers.get(name.decode().lower().replace("-", "_"), ())


def caching(**headers: str | None) -> HeaderLines:
    """Return a cache state from headers with one line each."""
    given = {name: value for name, value in headers.items() if value is not None}
    return several(**{name: (value.encode("latin-1"),) for name, value in given.items()})


def lifetime(cache_control: str | None = None, **headers: str | None) -> float | None:
    """Return the freshness lifetime of an answer."""
    return freshness(caching(cache_control=cache_control, **headers), THEN).lifetime


@pytest.mark.parametrize(("cache_control", "seconds"), CASES["cache_control"])
def test_s_maxage_counts_before_max_age(cache_control: str, seconds: float) -> None:
    """5.2.2: s-maxage has priority over max-age; no-cache and no-store end freshness at once. Other
    directives change nothing.
    """
    assert lifetime(cache_control) == seconds


@pytest.mark.parametrize("cache_control", CASES["malformed_directives"])
def test_malformed_directive_is_absent(cache_control: str) -> None:
    """A malformed directive counts as absent. Of two, the first counts."""
    assert lifetime(cache_control) is None
    assert lifetime(f"{cache_control},s-maxage=5") == (5 if cache_control != '"' else None)
    assert lifetime("max-age=x,max-age=7") is None


@pytest.mark.parametrize(("expires", "date", "seconds"), CASES["expires"])
def test_expires_counts_from_the_date(expires: str, date: str, seconds: float) -> None:
    """5.3: Expires counts from Date, in any format. An invalid date counts as absent, and 0 as
    expired.
    """
    assert lifetime(expires=expires, date=date or None) == seconds


@pytest.mark.parametrize("expires", [*CASES["invalid_expires"], None])
def test_invalid_expires_is_absent(expires: str | None) -> None:
    """5.3: without a valid Expires, an answer has no lifetime."""
    assert lifetime(expires=expires, date=DATE.decode()) is None


def test_max_age_before_expires() -> None:
    """5.3: max-age has priority over Expires, unless it is malformed."""
    expires = {"expires": HOUR_LATER.decode(), "date": DATE.decode()}
    assert lifetime("max-age=60", **expires) == 60
    assert lifetime("max-age=x", **expires) == 3600


@pytest.mark.parametrize(("age", "seconds"), [*CASES["age"], (None, 0)])
def test_age_is_the_time_in_other_caches(age: str | None, seconds: float) -> None:
    """5.1: Age is the time in other caches; a malformed value counts as absent."""
    assert freshness(caching(cache_control="max-age=60", age=age), THEN) == Freshness(60, seconds)


def test_no_store_is_put_into_no_store() -> None:
    """5.2.2.5: an answer with no-store is not stored."""
    assert not freshness(caching(cache_control="no-store"), THEN).may_store
    assert freshness(caching(cache_control="no-cache"), THEN).may_store


lines = st.lists(st.binary(max_size=40), max_size=3).map(tuple)


@given(headers=st.lists(lines, min_size=6, max_size=6), now=st.floats(0, 1e11))
def test_any_headers_give_times_with_an_end(headers: list[tuple[bytes, ...]], now: float) -> None:
    """Whatever a server sends, nothing raises, and no time is negative or infinite."""
    names = ("cache_control", "expires", "date", "age", "etag", "last_modified")
    answer = several(**dict(zip(names, headers, strict=True)))
    found = freshness(answer, now)
    assert found.lifetime is None or 0 <= found.lifetime <= 2**31
    assert 0 <= found.age <= 2**31
    for value in (etag(answer), last_modified(answer)):
        assert value is None or not set(value) & {10, 13}


@pytest.mark.parametrize("tag", CASES["tags"])
def test_tag_is_sent_unchanged(tag: str) -> None:
    """RFC 9110, 8.8.3: an entity tag is opaque."""
    assert etag(caching(etag=tag)) == tag.encode("latin-1")


@pytest.mark.parametrize("tag", [*CASES["refused_tags"], None, f'"{"x" * 2000}"'])
def test_tag_that_is_not_sent(tag: str | None) -> None:
    """RFC 9110, 13.1.2: `*` would match any file, and control characters would start another
    header.
    """
    assert etag(caching(etag=tag)) is None


def test_last_modified_is_sent_unchanged() -> None:
    """RFC 9110, 13.1.3: a valid date is sent back unchanged."""
    assert last_modified(caching(last_modified=DATE.decode())) == DATE
    assert last_modified(caching(last_modified="yesterday")) is None


def test_the_first_line_counts() -> None:
    """RFC 9111, 4.2.1: of a repeated header, the first line counts."""
    first = (DATE, HOUR_LATER)
    second = (HOUR_LATER, DATE)
    assert freshness(several(expires=second, date=first), THEN).lifetime == 3600
    assert freshness(several(expires=(b"0", HOUR_LATER), date=first), THEN).lifetime == 0
    assert freshness(several(age=(b"10, 20", b"30")), THEN).age == 10
    assert etag(several(etag=(b'"1"', b'"2"'))) == b'"1"'
    assert etag(several(etag=(b"*", b'"2"'))) is None
    assert last_modified(several(last_modified=second)) == HOUR_LATER
    assert freshness(several(cache_control=(b"max-age=5", b"max-age=6")), THEN).lifetime == 5
