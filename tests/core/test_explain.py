"""The explanation of a verdict: the group that applies, why, and the rules that match."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.core.explanation import Explanation, explain
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

FILE = RobotsTxt.parse(
    b"User-agent: *\nDisallow: /\n\nUser-agent: FooBot\nUser-agent: other\nAllow: /a\nDisallow:"
    b" /a/b\nCrawl-delay: 1\n\n# again\nUser-agent: foobot\nDisallow: /*/b\nUser-agent: last\n"
)


@pytest.mark.parametrize(
    ("tokens", "token", "choice"),
    [
        (["foobot"], "foobot", "foobot, named in the file"),
        (["zoo", "foobot"], "foobot", "foobot, because no group matches zoo"),
        (["zoo"], "*", "all crawlers (*), because no group matches zoo"),
        (["a", "b"], "*", "all crawlers (*), because no group matches a or b"),
        ([], "*", "all crawlers (*), because this crawler has no product token"),
    ],
)
def test_choice(tokens: list[str], token: str, choice: str) -> None:
    """The explanation has the group of the verdict, and says why it applies."""
    explanation = explain(FILE, "/a/b", tokens)
    assert (explanation.token, explanation.group_reason) == (token, choice)
    assert explanation.token == FILE.decide("/a/b", tokens).token


def test_no_group() -> None:
    """A file without a group that applies has no matching rule."""
    explanation = explain(RobotsTxt.parse(b"User-agent: other\nDisallow: /\n"), "/", ["foobot"])
    assert (
        explanation.group_reason
        == "none, because no group matches foobot and there is no group for all crawlers (*)"
    )
    assert (explanation.groups, explanation.matches) == ((), ())


def lines_of(explanation: Explanation) -> list[tuple[int, int]]:
    """Return the first and the last line of each group that applies."""
    return [(group.line, group.last) for group in explanation.groups]


def test_groups_that_apply() -> None:
    """The groups of one token have their own lines; a group without rules ends with its user-agent
    lines.
    """
    assert lines_of(explain(FILE, "/", ["foobot"])) == [(4, 8), (11, 12)]
    assert lines_of(explain(FILE, "/", ["last"])) == [(13, 13)]
    apart = RobotsTxt.parse(b"User-agent: a\n\n# b, too\nUser-agent: b\n\n")
    assert lines_of(explain(apart, "/", ["b"])) == [(1, 4)]


def test_matches() -> None:
    """The matching rules of all groups are sorted: the most specific first, and Allow before
    Disallow.
    """
    explanation = explain(FILE, "https://a.example/a/b?q", ["foobot"])
    assert [rule.line for rule in explanation.matches] == [7, 12, 6]


def test_octets_that_are_no_utf8() -> None:
    """A pattern that is not UTF-8 is compared by its bytes, and shown as text."""
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /\xe9\n")
    (rule,) = explain(robots, "/%E9", []).matches
    assert rule.pattern == "/\\xe9"
