"""Which rules changed between two files, for everybody and for one crawler."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.core.difference import differences
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

OLD = RobotsTxt.parse(
    b"User-agent: *\nDisallow: /\n\nUser-agent: foobot\nUser-agent: gone\nDisallow: /a\nDisallow: /b\nDisallow: /b\n"
)
NEW = RobotsTxt.parse(
    b"User-agent: FooBot\nAllow: /b/c\nDisallow: /b\n\nUser-agent: come\nAllow: /\nUser-agent: *\nDisallow: /\n"
)


def changes(*tokens: str) -> list[tuple[str, str | None, str | None, list[int], list[int]]]:
    """What changed, rules by their line numbers."""
    return [
        (
            change.name,
            change.old,
            change.new,
            [rule.line for rule in change.removed],
            [rule.line for rule in change.added],
        )
        for change in differences(OLD, NEW, tokens)
    ]


def test_all_groups() -> None:
    """Groups that changed, came or went; spelling of tokens, order and repetition of rules are no change."""
    assert changes() == [
        ("foobot", "foobot", "foobot", [6], [2]),
        ("come", None, "come", [], [6]),
        ("gone", "gone", None, [6, 7], []),
    ]


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        (["foobot"], [("foobot", "foobot", "foobot", [6], [2])]),
        (["gone"], [("gone", "gone", "*", [6, 7], [8])]),
        (["zoo", "come"], [("zoo, come", "*", "come", [2], [6])]),
        (["zoo"], []),
    ],
)
def test_one_crawler(tokens: list[str], found: list[object]) -> None:
    """What applies to a crawler is compared, whichever groups that are."""
    assert changes(*tokens) == found


def test_nothing_changed() -> None:
    """A file and itself."""
    assert differences(OLD, OLD) == []
