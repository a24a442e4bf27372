"""Rules of pages: the cases of `tests/cases/page_rules.toml`, and limits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from scrapy_robots_rfc.usage.rules import MAX_CHARACTERS, MAX_MEMBERS, PageRules, parse_rules
from tests.support.case_files import tables

NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
TOKENS = ["FooBot"]


def of_header(*lines: str, now: float = NOW) -> PageRules:
    """The rules of header lines."""
    return parse_rules([line.encode("latin-1") for line in lines], [], TOKENS, now=now)


@pytest.mark.parametrize("case", tables("page_rules")["page"], ids=lambda case: case["says"])
def test_case(case: dict[str, Any]) -> None:
    """A page has the directives of the case."""
    lines = [line.encode("latin-1") for line in case.get("headers", [])]
    metas = [(name, content) for name, content in case.get("metas", [])]
    rules = parse_rules(lines, metas, TOKENS, now=NOW)
    directives = {name: value or "" for name, value in rules.directives.items()}
    assert (directives, list(rules.conflicts)) == (case["directives"], case.get("conflicts", []))


def test_places_of_a_directive() -> None:
    """`where` returns the header lines and metas that contain a directive, as written."""
    metas = [("FOOBOT", "noindex ,x")]
    rules = parse_rules([b"NoIndex", b"none"], metas, TOKENS, now=NOW)
    assert rules.where("noindex") == (
        "X-Robots-Tag: NoIndex",
        "X-Robots-Tag: none",
        "meta FOOBOT: noindex ,x",
    )
    assert rules.where("nofollow") == ("X-Robots-Tag: none",)
    assert rules.where("noai") == ()


def test_no_token() -> None:
    """A crawler without a product token obeys rules for every crawler."""
    rules = parse_rules([b"noindex, foobot: nofollow"], [], [], now=NOW)
    assert dict(rules.directives) == {"noindex": None}


def test_limit_of_the_header() -> None:
    """64 KiB of header lines are read, up to the last whole member."""
    long = "noindex," + "x" * (MAX_CHARACTERS - 20)
    assert of_header(long, "noai, nofollow").directives.keys() == {"noindex", "noai", long[8:]}
    assert of_header(long, "y" * 12, "nofollow").directives.keys() == {
        "noindex",
        long[8:],
        "y" * 12,
    }
    assert of_header("nofollow, " + "x" * MAX_CHARACTERS, "noai").directives.keys() == {"nofollow"}


def test_empty_lines() -> None:
    """Empty lines count towards the 500 members, and nothing after those is read."""
    lines = iter([b""] * MAX_MEMBERS + [b"nofollow"] * 100_000)
    rules = parse_rules(lines, [], TOKENS, now=NOW)
    assert (rules.members, rules.cut) == ((), True)
    assert len(list(lines)) == 99_999
    assert not of_header(*[""] * MAX_MEMBERS).cut
    assert of_header(*[""] * MAX_MEMBERS, "").cut
