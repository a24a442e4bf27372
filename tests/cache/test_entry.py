"""The entry that follows from a fetch, the value of a stored entry, and how long it is stored."""

from __future__ import annotations

import json
import re
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given, strategies as st

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
    Validity,
)
from tests.support.case_files import tables
from tests.support.entries import FILE as WHOLE, changed, limits, made

LIMITS = limits(100, 10, 1000, 500, cache_min_age=20)
POLICY = LIMITS._replace(unreachable_statuses=frozenset({429}))
VALIDATORS = Validators("http://a.example/robots.txt", b'"1"')
FILE = made(
    Outcome.SUCCESSFUL, 200, "200", 0, 100, 0, validators=VALIDATORS, body=b"file", lifetime=60
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
    assert copy.validity[:3] == (Outcome.SUCCESSFUL, 210, 0)
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


# The format: complete, readable by others, and safe against damage.

times = st.floats(-1e12, 1e12)
headers = st.none() | st.binary(max_size=20).filter(
    lambda value: not set(value) & {*range(9), *range(10, 32), 127}
)
urls = st.text(max_size=40).map(
    lambda text: "".join(filter(str.isprintable, text)).replace("@", "")
)
validators = st.builds(Validators, urls, headers, headers)
validity = st.builds(
    Validity, st.just(Outcome.SUCCESSFUL), times, st.none() | times, st.none() | times
)
copies = st.builds(
    CacheEntry,
    validity,
    st.none() | st.integers(100, 599),
    st.text(max_size=40).filter(str.isprintable),
    times,
    st.none() | validators,
    st.binary(max_size=2000),
    st.none() | st.floats(0, 1e9),
    st.none() | st.integers(512_000, 10**9),
)


@given(copy=copies)
def test_any_entry_is_read_as_written(copy: CacheEntry) -> None:
    """Whatever a site sent, the entry that is read equals the one that was written."""
    assert decode(encode(copy)) == copy


def test_a_value_is_read_without_us() -> None:
    """A value is compressed by zlib: a line of JSON with the version, then the unchanged file."""
    head, body = zlib.decompress(encode(WHOLE)).split(b"\n", 1)
    entries = json.loads(head)
    assert (entries["version"], entries["url"]) == (1, "https://a.example/robots.txt")
    assert body == WHOLE.body


def test_every_damage_is_noticed() -> None:
    """A value with one changed, missing or added byte is rejected, or means the same."""
    value = encode(WHOLE)
    for place in range(len(value)):
        try:
            assert decode(value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]) == WHOLE
        except ValueError as error:
            assert re.search("damaged", str(error))  # noqa: PT017 - both ends are right
        with pytest.raises(ValueError, match="damaged"):
            decode(value[:place])
    with pytest.raises(ValueError, match="damaged"):
        decode(value + b"x")


def test_value_of_a_later_version_is_refused() -> None:
    """A value of a later version is rejected with an error about the version."""
    with pytest.raises(ValueError, match="or not version 1"):
        decode(by_hand({**HEAD, "version": 2}, b"ab"))


def by_hand(head: object, body: bytes) -> bytes:
    """Return a value of another program, with a valid checksum."""
    return zlib.compress(json.dumps(head).encode() + b"\n" + body)


HEAD: dict[str, Any] = {
    "version": 1,
    "outcome": "successful",
    "cause": "200",
    "fetched": 1,
    "fresh_until": 2,
    "url": "https://a.example/robots.txt",
}


def test_values_made_by_hand_are_read() -> None:
    """Other programs can write values, too, with additional keys."""
    copy = decode(by_hand({**HEAD, "theirs": [1]}, b"ab"))
    assert (copy.body, copy.fetched) == (b"ab", 1.0)
    assert copy.validators == Validators("https://a.example/robots.txt")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *tables("stores")["damaged"],
        *((key, None) for key in ("outcome", "version", "cause", "fetched")),
        ("confirmed", {}),
        ("fresh_until", 10**400),
        ("cause", "x" * 201),
        ("url", f"https://a.example/{'x' * 9000}"),
    ],
)
def test_values_of_another_type_are_refused(key: str, value: Any) -> None:
    """A value with a wrong type or out of range is rejected, even with a valid checksum."""
    with pytest.raises(ValueError, match="damaged"):
        decode(by_hand({**HEAD, key: value}, b"ab"))


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.text(), scalars, max_size=2)


@given(
    change=st.dictionaries(
        st.sampled_from([*HEAD, "status", "confirmed", "etag", "lifetime"]), anything
    )
)
def test_any_head_is_refused_or_can_be_written_again(change: dict[str, Any]) -> None:
    """Any head is rejected, or gives an entry that can be written again."""
    try:
        copy = decode(by_hand({**HEAD, **change}, b"ab"))
    except ValueError:
        return
    assert decode(encode(copy)) == copy
    assert copy.validity.outcome is Outcome.SUCCESSFUL


@pytest.mark.parametrize("body", [b"", b"x"])
def test_files_that_are_missing_or_too_much(body: bytes) -> None:
    """An entry has a file, perhaps empty, if and only if its rules are used."""
    outcomes = {"unavailable": not body, "unreachable": not body, "successful": True}
    for outcome, fine in outcomes.items():
        if fine:
            found = decode(by_hand({**HEAD, "outcome": outcome}, body))
            assert found.body == (body if outcome == "successful" else None)
        else:
            with pytest.raises(ValueError, match="damaged"):
                decode(by_hand({**HEAD, "outcome": outcome}, body))


def test_a_bomb_is_not_unpacked() -> None:
    """A value that decompresses to 256 MiB is rejected, with little memory."""
    packing = zlib.compressobj(1)
    zeros = bytes(1024 * 1024)
    bomb = b"".join([*(packing.compress(zeros) for _ in range(256)), packing.flush()])
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="damaged"):
            decode(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 * 1024 * 1024


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/\x1b[2J",
        "https://a.example/\u202e",
        "https://me:pw@a.example/",
        f"https://a.example/{'x' * 9000}",
    ],
    ids=["control", "direction", "credentials", "long"],
)
def test_urls_that_are_not_stored(url: str) -> None:
    """A URL that is very long, or has control characters or credentials, is not stored, nor are its
    validators.
    """
    copy = WHOLE._replace(validators=Validators(url, b"e"))
    assert decode(encode(copy)) == WHOLE._replace(validators=None)


def test_causes_are_one_short_line() -> None:
    """A cause is one short line, whatever the name of the exception."""
    long = WHOLE._replace(cause="a\nb\x1b" + "c" * 300)
    assert decode(encode(long)).cause == r"a\nb\x1b" + "c" * 192
