"""Preferences in rules of pages and in TDMRep."""

from __future__ import annotations

import json

import pytest

from scrapy_robots_rfc.usage.rules import (
    MAX_TDMREP_BYTES,
    find_reservation,
    parse_tdmrep,
    tdm_preferences,
)


@pytest.mark.parametrize(
    ("values", "allowed"),
    [
        ([1], False),
        (["0"], True),
        ([0, "1"], False),
        (["1", "0"], True),
        ([1, None, "yes"], False),
        ([None, "2"], None),
    ],
)
def test_tdm_reservation(values: list[object], allowed: bool | None) -> None:
    """File, header and document override each other in this order; other values do nothing."""
    found = tdm_preferences(*(("here", value) for value in values))
    assert {label: one.allowed for label, one in found.items()} == (
        {} if allowed is None else {"tdm": allowed, "train-ai": allowed}
    )


def test_a_deeply_nested_reservation() -> None:
    """A deeply nested value is ignored, and does not raise."""
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert tdm_preferences(("here", nested)) == {}


def test_tdmrep_file() -> None:
    """The first entry that matches decides, not the longest; unreadable entries are ignored."""
    entries = parse_tdmrep(
        b'[{"location": "/a*", "tdm-reservation": 1}, 3, {"location": 4}, {"location": "/a/b",'
        b' "tdm-reservation": 0}]'
    )
    found = find_reservation(entries, "https://e.example/a/b")
    assert found == [("/.well-known/tdmrep.json /a*", 1)]
    assert find_reservation(entries, "/c") == []


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b"[" + b"1," * 500 + b"1]",
        b'["' + b"x" * MAX_TDMREP_BYTES + b'"]',
        json.dumps([{"location": "/" + "x" * 50}] * 400).encode(),
    ],
    ids=["object", "not UTF-8", "nested", "entries", "long", "locations"],
)
def test_tdmrep_file_that_cannot_be_read(body: bytes) -> None:
    """A file that is not an array, or is beyond a limit, is an error."""
    with pytest.raises(ValueError, match=r"^(not JSON|not an array of at most|more than)"):
        parse_tdmrep(body)
