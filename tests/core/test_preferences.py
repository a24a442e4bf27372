"""Preferences of use: the cases of `tests/cases/preferences.toml`, and sources other than
robots.txt.
"""

from __future__ import annotations

import sys
import tomllib
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
from tests.support.case_files import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

CASES: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (FOLDER / "preferences.toml").read_text("utf-8")
)
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
        if "line" in case:
            assert case["line"] in {preference.line for preference in found.values()}


def test_what_a_preference_names() -> None:
    """A preference from robots.txt has its line and its record."""
    robots = RobotsTxt.parse(b"User-agent: *\nContent-Usage: /a train-ai=n, search=y\n")
    assert robots.preferences("/a", ["x"])["train-ai"] == Preference(
        False, 2, "Content-Usage: /a train-ai=n, search=y"
    )


def test_most_records() -> None:
    """In a group with very many records of use, the first thousand count."""
    robots = RobotsTxt.parse(
        b"User-agent: *\n" + b"DisallowAITraining: /a\n" * MAX_RECORDS + b"AllowAITraining: /ab\n"
    )
    assert said(robots.preferences("/ab", ["x"])) == {"train-ai": "no"}


def test_most_lines_that_look_like_records() -> None:
    """Lines that only look like records of use count among the first thousand."""
    body = b"User-agent: *\n" + b"Content-Signals: search=no\n" * (MAX_RECORDS - 1)
    assert RobotsTxt.parse(body + b"Content-Signal: search=no\n").preferences("/", ["x"])
    assert not RobotsTxt.parse(body + b"Content-Signals:\nContent-Signal: search=no\n").preferences(
        "/", ["x"]
    )


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


POLICY = RobotsTxt(
    b"User-agent: *\nDisallow: /private\n\nUser-agent: __usage_ai-training\nDisallow: /a\n"
    b"Allow: /a/free\n"
)


@pytest.mark.parametrize(
    ("url", "expected", "source"),
    [
        ("/a/x", "no", "User-agent: __usage_ai-training, Disallow: /a"),
        ("/a/free", "yes", "User-agent: __usage_ai-training, Allow: /a/free"),
        ("/b", "yes", "User-agent: __usage_ai-training"),
    ],
)
def test_a_policy_token_says_what_may_train_models(url: str, expected: str, source: str) -> None:
    """The rules of `__usage_ai-training` say which pages may be used for `train-ai`."""
    found = POLICY.preferences(url, ["FooBot"])
    assert said(found) == {"train-ai": expected}
    assert found["train-ai"].source == source
    assert POLICY.decide(url, ["FooBot"]).allowed


def test_without_a_group_for_a_policy_token_nothing_is_said() -> None:
    """The group of all crawlers says nothing about training, nor does a page that is disallowed."""
    assert RobotsTxt(b"User-agent: *\nDisallow: /a").preferences("/b", ["FooBot"]) == {}
    assert POLICY.preferences("/private", ["FooBot"]) == {}


def test_a_policy_token_and_a_record_are_combined() -> None:
    """A refusal by either source is a refusal."""
    body = (
        b"User-agent: *\nContent-Signal: ai-train=%b\nAllow: /\nUser-agent: __usage_ai-training\n%b"
    )
    for signal, rule, expected in (
        (b"yes", b"Disallow: /", "no"),
        (b"no", b"Allow: /", "no"),
        (b"yes", b"Allow: /", "yes"),
    ):
        found = RobotsTxt(body % (signal, rule)).preferences("/a", ["FooBot"])
        assert said(found) == {"train-ai": expected}
