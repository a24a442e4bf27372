"""The fast code for verdicts and the detailed code for explanations agree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hypothesis import given, settings, strategies as st

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.explanation import Line, explain, groups_of, lines_of, records_of
from scrapy_robots_rfc.core.extensions import parse_delay
from scrapy_robots_rfc.core.lines import LineKind, as_text
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.plain_matcher import deciding_rule
from tests.support.strategies import (
    any_bodies,
    bodies,
    body_for,
    body_of,
    groups,
    rules,
    targets,
    token_lists,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


_KINDS = {LineKind.ALLOW: RuleKind.ALLOW, LineKind.DISALLOW: RuleKind.DISALLOW}
_Groups = list[tuple[set[str], list[Rule]]]


def groups_by_the_rfc(lines: Iterable[Line]) -> _Groups:
    """Return the groups of a file by the definition of the RFC: a user-agent line after a rule
    starts the next group (2.1).
    """
    groups: _Groups = []
    for line in lines:
        if line.kind is LineKind.USER_AGENT:
            if not groups or groups[-1][1]:
                groups.append((set(), []))
            groups[-1][0].add(to_octets(line.value))
        elif line.kind in _KINDS and groups:
            groups[-1][1].append(Rule(_KINDS[line.kind], line.value, line.number))
    return groups


def selected(groups: _Groups, pattern: str) -> list[list[Rule]]:
    """Return the rules of each group with a user-agent line that matches an expression."""
    names = re.compile(pattern, re.IGNORECASE | re.ASCII)
    return [rules for values, rules in groups if any(map(names.match, values))]


def rules_for(groups: _Groups, names: Iterable[str]) -> tuple[str, list[Rule]] | None:
    """Return the name whose groups apply and all their rules, or `None` (2.2.1).

    A product token matches lines that begin with it. Another name matches lines that contain it up
    to a space, `/` or `;`, or else lines that contain the product token at its start.
    """
    end, anyone = r"(?=[ \t/;]|\Z)", ("*", r"\*(?=[ \t\v\f]|\Z)")
    for name in [*names, "*"]:
        run = re.match("[A-Za-z_-]*", name)[0]  # type: ignore[index]  # it always matches
        ways = [(name, re.escape(name) + r"(?![A-Za-z_-])")]
        if name == "*":
            ways = [anyone]
        elif name != run:
            ways = [(each, re.escape(each) + end) for each in (name, run) if each]
        for spelling, pattern in ways:
            found = selected(groups, pattern)
            if found:
                return spelling, [rule for rules in found for rule in rules]
    return None


@given(
    body=st.one_of(
        bodies,
        st.lists(groups, max_size=5).map(lambda found: body_of(*found)),
        st.lists(rules, max_size=40).map(body_for),
    ),
    target=targets,
    tokens=token_lists,
)
@settings(max_examples=200)
def test_verdict_of_the_records(body: bytes, target: str, tokens: list[str]) -> None:
    """The verdict and the rule follow from the lines, the first time and later, and the explanation
    names the same rule.
    """
    body = body.decode("utf-8", "ignore").encode(
        "utf-8"
    )  # so that the value of a record equals the pattern
    robots = RobotsTxt.parse(body)
    found = rules_for(groups_by_the_rfc(lines_of(robots)), tokens)
    rule = None
    if found is None:
        expected = Decision(True, Reason.NO_GROUP)
    else:
        rule = deciding_rule(found[1], target.encode("utf-8"))
        allowed = rule is None or rule.kind is RuleKind.ALLOW
        expected = Decision(allowed, Reason.RULE if rule else Reason.NO_RULE, rule, found[0])
    for _ in range(3):
        assert robots.decide("https://e.example" + target, tokens) == expected
    matches = explain(robots, "https://e.example" + target, tokens).matches
    assert matches[:1] == ((rule,) if rule else ())


@given(body=any_bodies, tokens=token_lists)
def test_groups_of_the_records(body: bytes, tokens: list[str]) -> None:
    """The groups, and the groups that apply, follow from the lines, for any bytes. The deciding
    rule is in a group that applies.
    """
    robots = RobotsTxt.parse(body)
    groups = groups_by_the_rfc(lines_of(robots))
    assert [list(group.rules) for group in groups_of(robots)] == [rules for _, rules in groups]
    found, applying = rules_for(groups, tokens), explain(robots, "/", tokens)
    assert (found is None) is (applying.token is None)
    rules = [rule for group in applying.groups for rule in group.rules]
    assert rules == ([] if found is None else found[1])
    for target in ["/", "/a", "/index/b?a=b", "/%E9"] * 2:
        decision = robots.decide("https://e.example" + target, tokens)
        assert (decision.reason is Reason.NO_GROUP) is (found is None)
        assert decision.rule is None or decision.rule in rules


_KEYS = ("crawl-delay", "x-agent")


_FEW_LINES = [
    "User-agent: FooBot",
    "User-agent: *",
    "User-agent: x",
    "Crawl-delay: 1",
    "X-Agent: a # b",
    "Disallow: /",
]
_small = st.lists(st.sampled_from(_FEW_LINES), max_size=9).map(
    lambda lines: "\n".join(lines).encode()
)


@given(body=st.one_of(_small, any_bodies), tokens=token_lists)
@settings(max_examples=100)
def test_records_of_the_group(body: bytes, tokens: list[str]) -> None:
    """A crawler gets the records of its groups; the delay is the longest of them."""
    robots = RobotsTxt.parse(body)
    expected = [
        (record.key, record.value, record.line)
        for group in explain(robots, "/", tokens).groups
        for record in records_of(robots)
        if record.key in _KEYS and group.line < record.line <= group.last
    ]
    found = [
        (record.key, as_text(record.value), record.line)
        for record in robots.records_for(tokens, _KEYS)
    ]
    assert found == expected
    values = [value for key, value, _ in expected if key == "crawl-delay"]
    delays = [delay for delay in map(parse_delay, values) if delay is not None]
    assert robots.crawl_delay(tokens) == max(delays, default=None)
