"""What stands in a store: it comes back as it was, anybody can read it, and what is damaged is refused."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_robots_rfc.cache.entry import CacheEntry, Validators, decode, encode
from scrapy_robots_rfc.policy.access import Outcome
from tests.stores.copies import FILE, MISSING, UNKNOWN

times = st.floats(-1e12, 1e12)
headers = st.none() | st.binary(max_size=20).filter(lambda value: not set(value) & {*range(9), *range(10, 32), 127})
urls = st.text(max_size=40).map(lambda text: "".join(filter(str.isprintable, text)).replace("@", ""))
validators = st.builds(Validators, urls, headers, headers)
copies = st.builds(
    CacheEntry,
    st.just(Outcome.SUCCESSFUL),
    st.none() | st.integers(100, 599),
    st.text(max_size=40).filter(str.isprintable),
    times,
    times,
    st.none() | times,
    st.none() | times,
    st.none() | validators,
    st.binary(max_size=2000),
    st.none() | st.floats(0, 1e9),
)


@given(copy=copies)
def test_any_copy_comes_back(copy: CacheEntry) -> None:
    """Whatever a site sent: what is read equals what was written."""
    assert decode(encode(copy)) == copy


@pytest.mark.parametrize("copy", [FILE, MISSING, UNKNOWN, replace(FILE, body=b"", validators=None)])
def test_each_kind_comes_back(copy: CacheEntry) -> None:
    """A file, that there is none, that nobody knows, and an empty file."""
    assert decode(encode(copy)) == copy


def test_a_value_is_read_without_us() -> None:
    """A line with version and checksum, a line of JSON, then the file, compressed where that makes it shorter."""
    first, head, body = encode(FILE).split(b"\n", 2)
    assert first == b"robots.txt 1 %08x" % zlib.crc32(head + b"\n" + body)
    entries = json.loads(head)
    assert entries["url"] == "https://a.example/robots.txt"
    assert entries["coding"] == "zlib"
    assert zlib.decompress(body) == FILE.body
    short = replace(FILE, body=b"User-agent: *\nDisallow: /x\n")
    assert encode(short).split(b"\n", 2)[2] == short.body


def test_what_is_not_known_takes_no_room() -> None:
    """Nothing stands for what there is not: the smallest value is short."""
    assert len(encode(MISSING)) < 130


def test_every_damage_is_noticed() -> None:
    """A value is refused when any one octet of it differs, is missing, or is too much."""
    value = encode(FILE)
    for place in range(len(value)):
        with pytest.raises(ValueError, match=r"damaged|not a copy|version"):
            decode(value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :])
        with pytest.raises(ValueError, match=r"damaged|not a copy"):
            decode(value[:place])
    with pytest.raises(ValueError, match="damaged"):
        decode(value + b"x")


@given(value=st.binary(max_size=200))
def test_any_octets(value: bytes) -> None:
    """Octets of somebody else's are refused, and nothing else happens."""
    with pytest.raises(ValueError, match=r"damaged|not a copy|version"):
        decode(value)


def test_an_unknown_version() -> None:
    """What a later version wrote is refused, and the error says so."""
    value = encode(FILE)
    with pytest.raises(ValueError, match="written in version 2, where 1 is known"):
        decode(value.replace(b"robots.txt 1 ", b"robots.txt 2 ", 1))


def signed(head: object, body: bytes = b"", *, line: bytes | None = None) -> bytes:
    """Return a value that somebody made by hand, with a checksum that is right."""
    rest = (json.dumps(head).encode() if line is None else line) + b"\n" + body
    return b"robots.txt 1 %08x\n%s" % (zlib.crc32(rest), rest)


HEAD: dict[str, Any] = {
    "outcome": "successful",
    "cause": "200",
    "fetched": 1,
    "fresh_until": 2,
    "length": 2,
    "url": "https://a.example/robots.txt",
}


def test_signed_by_hand() -> None:
    """Others can write values too, with entries of their own."""
    copy = decode(signed({**HEAD, "theirs": [1]}, b"ab"))
    assert (copy.body, copy.fetched, copy.validators) == (b"ab", 1.0, Validators("https://a.example/robots.txt"))


@pytest.mark.parametrize(
    "changed",
    [
        {"outcome": "open"},
        {"outcome": None},
        {"outcome": "unavailable"},
        {"outcome": ["successful"]},
        {"status": "200"},
        {"status": True},
        {"cause": None},
        {"cause": "200\nINFO: all is well"},
        {"cause": "x" * 201},
        {"fetched": None},
        {"fetched": "1"},
        {"fetched": True},
        {"fetched": float("nan")},
        {"fresh_until": float("inf")},
        {"fresh_until": 10**400},
        {"confirmed": {}},
        {"etag": 'x"\r\nCookie: a=b'},
        {"etag": "\u20ac"},
        {"last_modified": 5},
        {"url": 5},
        {"url": "https://a.example/\x1b[2J"},
        {"url": "https://a.example/\nINFO: all is well"},
        {"url": "https://a.example/\u202e"},
        {"url": "https://me:secret@a.example/robots.txt"},
        {"url": "https://a.example/" + "x" * 9000},
        {"length": None},
        {"length": 3},
        {"length": -1},
        {"coding": "br"},
        {"coding": "zlib"},
        {"coding": "zlib", "length": 10**9},
    ],
)
def test_wrong_entries(changed: dict[str, Any]) -> None:
    """An entry of another type or out of its range is refused, however right the checksum is."""
    with pytest.raises(ValueError, match="damaged"):
        decode(signed({**HEAD, **changed}, b"ab"))


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b"[" * 100_000, b'"' + b"x" * 200_000 + b'"', b"\xff", b"1" * 9999])
def test_wrong_heads(line: bytes) -> None:
    """A head that is no JSON object, or that is deeper or longer than any, is refused."""
    with pytest.raises(ValueError, match="damaged"):
        decode(signed(None, line=line))


def test_a_bomb_is_not_unpacked() -> None:
    """A value that says it is small, and unpacks to 64 MiB, costs no memory."""
    bomb = zlib.compress(bytes(64 * 1024 * 1024), 1)
    tracemalloc.start()
    try:
        for length in (2, 64 * 1024 * 1024):
            with pytest.raises(ValueError, match="damaged"):
                decode(signed({**HEAD, "coding": "zlib", "length": length}, bomb))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * 1024 * 1024


def test_long_validators_are_left_out() -> None:
    """What a site sends to fill our disks is not kept: the file is, and is fetched unconditionally."""
    long = replace(FILE, validators=Validators("https://a.example/" + "x" * 9000, b"e"))
    assert decode(encode(long)) == replace(FILE, validators=None)
    long = replace(FILE, validators=Validators("https://a.example/", b"e" * 2000, b"m\r\nx"))
    assert decode(encode(long)) == replace(FILE, validators=Validators("https://a.example/"))


@pytest.mark.parametrize("url", ["https://a.example/\x1b[2J", "https://a.example/\u202e", "https://me:pw@a.example/"])
def test_urls_that_nobody_should_see(url: str) -> None:
    """A URL that a terminal would act on, or with credentials, is kept in no store: nor are its validators."""
    copy = replace(FILE, validators=Validators(url, b"e"))
    assert decode(encode(copy)) == replace(FILE, validators=None)


def test_causes_are_one_short_line() -> None:
    """What is told to people stays on its line, and short, whatever an exception is called."""
    assert decode(encode(replace(FILE, cause="a\nb\x1b" + "c" * 300))).cause == r"a\nb\x1b" + "c" * 192


def test_a_file_too_large_to_be_compressed() -> None:
    """A file beyond the bound of what is unpacked is written as it is, and comes back."""
    large = replace(FILE, body=bytes(17 * 1024 * 1024))
    value = encode(large)
    assert len(value) > 17 * 1024 * 1024
    assert decode(value) == large
