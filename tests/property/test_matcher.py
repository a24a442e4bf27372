"""The core decides like a matcher that tries every rule (RFC 9309, 2.2.2, 2.2.3)."""

from __future__ import annotations

import random

from hypothesis import given, settings, strategies as st

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.plain_matcher import deciding_rule
from tests.support.strategies import (
    RuleText,
    body_for,
    rivals,
    rules,
)

_URL = "https://e.example"


def _expected(found: list[RuleText], target: str) -> Decision:
    """Return the decision of the simple matcher, for rules in one group for all crawlers."""
    in_lines = [Rule(rule.kind, rule.pattern, number) for number, rule in enumerate(found, 2)]
    rule = deciding_rule(in_lines, target.encode("utf-8"))
    if rule is None:
        return Decision(True, Reason.NO_RULE, None, "*")
    return Decision(rule.kind is RuleKind.ALLOW, Reason.RULE, rule, "*")


@given(case=rivals(), data=st.data())
@settings(max_examples=100)
def test_rivals(case: tuple[list[str], str], data: st.DataObject) -> None:
    """Among rules that nearly all match, the same rule decides."""
    written, target = case
    found = [RuleText(data.draw(st.sampled_from(RuleKind)), pattern) for pattern in written]
    robots = RobotsTxt.parse(body_for(found))
    for _ in range(3):
        assert robots.decide(_URL + target, []) == _expected(found, target)


def _word(chosen: random.Random) -> str:
    return "".join(chosen.choices("abcdefgh", k=chosen.randint(1, 5)))


def _wildcard_rules(chosen: random.Random, count: int) -> list[RuleText]:
    """Return rules with a wildcard, most of them with a unique literal."""
    kinds, ends = list(RuleKind), ["", "", "$", "*", "/*?q=", "%2F", "="]
    return [
        RuleText(
            chosen.choice(kinds),
            f"/{chosen.choice(['', _word(chosen)])}*{_word(chosen)}{chosen.choice(ends)}",
        )
        for _ in range(count)
    ]


@given(seed=st.integers(0, 2**32), more=st.lists(rules, max_size=10))
@settings(max_examples=20)
def test_many_wildcard_rules(seed: int, more: list[RuleText]) -> None:
    """Among very many wildcard rules, which the core finds by their literals, the same rule
    decides.
    """
    chosen = random.Random(seed)  # Hypothesis would be slow with so many rules
    found = [*_wildcard_rules(chosen, 250), *more]
    words = [_word(chosen) for _ in range(chosen.randint(1, 8))]
    target = "/" + "/".join(words) + chosen.choice(["", f"?q={_word(chosen)}"])
    robots, expected = RobotsTxt.parse(body_for(found)), _expected(found, target)
    for _ in range(3):
        assert robots.decide(_URL + target, []) == expected
