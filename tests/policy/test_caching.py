"""Cache headers (RFC 9111), valid or not."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc.policy.access import Freshness, HeaderLines, etag, freshness, last_modified

#: Sun, 06 Nov 1994 08:49:37 GMT.
THEN = 784_111_777.0
DATE, HOUR_LATER = b"Sun, 06 Nov 1994 08:49:37 GMT", b"Sun, 06 Nov 1994 09:49:37 GMT"


def several(**headers: tuple[bytes, ...]) -> HeaderLines:
    """Return a cache state from headers with their lines."""
    return lambda name: headers.get(name.decode().lower().replace("-", "_"), ())


def caching(**headers: bytes | None) -> HeaderLines:
    """Return a cache state from headers with one line each."""
    return several(**{name: (value,) for name, value in headers.items() if value is not None})


def lifetime(cache_control: bytes | None = None, **headers: bytes | None) -> float | None:
    """Return the freshness lifetime of an answer."""
    return freshness(caching(cache_control=cache_control, **headers), THEN).lifetime


@pytest.mark.parametrize(
    ("cache_control", "seconds"),
    [
        (None, None),
        (b"", None),
        (b"max-age=60", 60),
        (b"public, max-age=60, must-revalidate", 60),
        (b"Max-Age = 60", 60),
        (b'max-age="60"', 60),
        (b"max-age=0", 0),
        (b"max-age=0060", 60),
        (b"max-age=60, s-maxage=30", 30),
        (b"s-maxage=300, max-age=60", 300),
        (b"max-age=99999999999999999999", 2**31),
        (b"max-age=60, max-age=70", 60),
        (b"no-cache", 0),
        (b"max-age=60, no-cache", 0),
        (b"no-store, max-age=60", 0),
        (b'no-cache="Set-Cookie", max-age=60', 60),
        (b'private="a, no-cache, b", max-age=60', 60),
        (b'x="\\", no-store", max-age=60', 60),
        (b"private, max-age=60", 60),
    ],
)
def test_s_maxage_counts_before_max_age(cache_control: bytes | None, seconds: float | None) -> None:
    """5.2.2: s-maxage has priority over max-age; no-cache and no-store end freshness at once. Other
    directives change nothing.
    """
    assert lifetime(cache_control) == seconds


@pytest.mark.parametrize(
    "cache_control",
    [
        b"max-age",
        b"max-age=",
        b"max-age=-1",
        b"max-age=1.5",
        b"max-age=soon",
        b"max-age=60 70",
        b"max-age: 60",
        b",,;=",
        b'"',
    ],
)
def test_malformed_directive_is_absent(cache_control: bytes) -> None:
    """A malformed directive counts as absent. Of two, the first counts."""
    assert lifetime(cache_control) is None
    assert lifetime(cache_control + b",s-maxage=5") == (5 if cache_control != b'"' else None)
    assert lifetime(b"max-age=x,max-age=7") is None


@pytest.mark.parametrize(
    ("expires", "date", "seconds"),
    [
        (HOUR_LATER, DATE, 3600),
        (HOUR_LATER, None, 3600),
        (HOUR_LATER, b"Sun, 06 Nov 1994 09:19:37 GMT", 1800),
        (HOUR_LATER, b"yesterday", 3600),
        (b"Sunday, 06-Nov-94 09:49:37 GMT", DATE, 3600),
        (b"Sun Nov  6 09:49:37 1994", DATE, 3600),
        (b"Thu, 01 Jan 1970 00:00:00 GMT", DATE, 0),
        (b"0", DATE, 0),
        (b"-1", DATE, 0),
        (b"Fri, 31 Dec 9999 23:59:59 GMT", DATE, 2**31),
        (b"tomorrow", DATE, None),
        (b"Sun, 36 Nov 1994 09:49:37 GMT", DATE, None),
        (b"Sun, 06 Nov 99999 09:49:37 GMT", DATE, None),
        (b"", DATE, None),
        (None, DATE, None),
    ],
)
def test_expires_counts_from_the_date(
    expires: bytes | None, date: bytes | None, seconds: float | None
) -> None:
    """5.3: Expires counts from Date, in any format. An invalid date counts as absent, and 0 as
    expired.
    """
    assert lifetime(expires=expires, date=date) == seconds


def test_max_age_before_expires() -> None:
    """5.3: max-age has priority over Expires, unless it is malformed."""
    assert lifetime(b"max-age=60", expires=HOUR_LATER, date=DATE) == 60
    assert lifetime(b"max-age=x", expires=HOUR_LATER, date=DATE) == 3600


@pytest.mark.parametrize(
    ("age", "seconds"),
    [(b"10", 10), (b"x", 0), (b"-1", 0), (b"", 0), (None, 0), (b"600, 700", 600), (b"x,, 700", 0)],
)
def test_age_is_the_time_in_other_caches(age: bytes | None, seconds: float) -> None:
    """5.1: Age is the time in other caches; a malformed value counts as absent."""
    assert freshness(caching(cache_control=b"max-age=60", age=age), THEN) == Freshness(60, seconds)


def test_no_store_is_put_into_no_store() -> None:
    """5.2.2.5: an answer with no-store is not stored."""
    assert not freshness(caching(cache_control=b"no-store"), THEN).stored
    assert freshness(caching(cache_control=b"no-cache"), THEN).stored


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


@pytest.mark.parametrize("tag", [b'"1"', b'W/"1"', b"unquoted", b'"\xff"'])
def test_tag_is_sent_unchanged(tag: bytes) -> None:
    """RFC 9110, 8.8.3: an entity tag is opaque."""
    assert etag(caching(etag=tag)) == tag


@pytest.mark.parametrize(
    "tag", [None, b"", b"*", b" * ", b'"\n"', b'"\x00"', b'"' + b"x" * 2000 + b'"']
)
def test_tag_that_is_not_sent(tag: bytes | None) -> None:
    """RFC 9110, 13.1.2: `*` would match any file, and control characters would start another
    header.
    """
    assert etag(caching(etag=tag)) is None


def test_last_modified_is_sent_unchanged() -> None:
    """RFC 9110, 13.1.3: a valid date is sent back unchanged."""
    assert last_modified(caching(last_modified=DATE)) == DATE
    assert last_modified(caching(last_modified=b"yesterday")) is None


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
