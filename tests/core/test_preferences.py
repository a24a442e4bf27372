"""Preferences of use: the cases of `tests/cases/preferences.toml`, and sources other than
robots.txt.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_robots_rfc.core.preferences import (
    MAX_BYTES,
    MAX_RECORDS,
    Preference,
    parse_usage,
)
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.uses import header_preferences
from tests.support.case_files import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

CASES = tables("preferences")
#: A line that only looks like a record of use.
LOOKALIKE = b"Content-Signals: search=no\n"
WORDS = {True: "yes", False: "no", None: "unknown"}


def said(preferences: Mapping[str, Preference]) -> dict[str, str]:
    """Return the preference for each label, in words."""
    return {label: WORDS[preference.allowed] for label, preference in preferences.items()}


@pytest.mark.parametrize("case", CASES["usage"], ids=lambda case: case["says"])
def test_usage_case(case: dict[str, Any]) -> None:
    """A dictionary has the meaning of the case."""
    assert {
        label: WORDS[value] for label, value in parse_usage(case["value"].encode()).items()
    } == case["said"]


@pytest.mark.parametrize("case", CASES["file"], ids=lambda case: case["says"])
def test_file_case(case: dict[str, Any]) -> None:
    """A file has the meaning of the case for a URL, the first time and later."""
    robots = RobotsTxt.parse(
        bytes.fromhex(case["body_hex"]) if "body_hex" in case else case["body"].encode()
    )
    for _ in range(2):
        found = robots.preferences(case["url"], case.get("tokens", ["FooBot"]))
        assert said(found) == case["said"]
        for key in {"line", "source"} & case.keys():
            assert case[key] in {getattr(preference, key) for preference in found.values()}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"DisallowAITraining: /a\n" * MAX_RECORDS + b"AllowAITraining: /ab\n", {"train-ai": "no"}),
        (LOOKALIKE * (MAX_RECORDS - 1) + b"Content-Signal: search=no\n", {"search": "no"}),
        (LOOKALIKE * MAX_RECORDS + b"Content-Signal: search=no\n", {}),
    ],
    ids=["records", "last", "too late"],
)
def test_most_records(body: bytes, wanted: dict[str, str]) -> None:
    """In a group with very many records of use, or lines that look like them, the first thousand
    count.
    """
    assert said(RobotsTxt(b"User-agent: *\n" + body).preferences("/ab", ["x"])) == wanted


def test_records_are_read_once() -> None:
    """No later verdict on use takes long, even if the group is in 20,000 places."""
    first = b"User-agent: *\nContent-Usage: search=n\nAllow: /\n"
    robots = RobotsTxt.parse(first + b"user-agent:*\nallow:/\n" * 20_000)
    robots.preferences("/", ("foobot",))
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        found = robots.preferences("/", ("foobot",))
    finally:
        sys.setprofile(None)
    assert said(found) == {"search": "no"}
    assert steps < 1000


def test_most_octets() -> None:
    """Of records of use, 32,768 bytes count."""
    long = b",".join(b"a%d=y" % number for number in range(1000))
    records = b"Content-Usage: %s\n" % long * (MAX_BYTES // len(long))
    found = RobotsTxt.parse(
        b"User-agent: *\n" + records + b"Content-Usage: %s,b=n\n" % long
    ).preferences("/", ["x"])
    assert len(found) == 1000
    found = RobotsTxt.parse(
        b"User-agent: *\n" + records[len(long) + 16 :] + b"Content-Usage: b=n\n"
    ).preferences("/", [])
    assert len(found) == 1001


def test_header_lines() -> None:
    """Content-Usage lines of a response are one dictionary, and Content-Signal lines are combined
    with them.
    """
    found, cut = header_preferences([b"train-ai=y", b"search=n"], [b"ai-train=no", b"ai-input=yes"])
    assert said(found) == {"train-ai": "no", "search": "no", "ai-input": "yes"}
    assert found["search"].source == "header Content-Usage: train-ai=y, search=n"
    assert found["train-ai"].source == "header Content-Signal: ai-train=no, ai-input=yes"
    assert (header_preferences([], []), cut) == (({}, False), False)
    assert header_preferences([], [b"search=no".ljust(MAX_BYTES)])[1] is False


@pytest.mark.parametrize(
    "lines", [[b"a=n," * 9000 + b"search=n"], [b"search=n", *[b"a=n, b=n"] * 5000]]
)
def test_header_lines_beyond_the_bound(lines: list[bytes]) -> None:
    """A Content-Usage that is too long is ignored; of Content-Signal lines, those within the limit
    count.
    """
    assert header_preferences(lines, []) == ({}, True)
    signals = [line.replace(b"=n", b"=no") for line in lines]
    found, cut = header_preferences([], signals)
    assert cut
    assert found.keys() == (set() if len(lines) == 1 else {"search", "a", "b"})
