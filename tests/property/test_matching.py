"""The first of all matching rules is the one that decides (RFC 9309, 2.2.2)."""

from __future__ import annotations

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.decision import Reason, RuleKind
from scrapy_robots_rfc.core.findings import explain
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import RuleText, body_for, rivals, rules, targets


@given(found=st.lists(rules, max_size=12), target=targets)
def test_first_match_decides(found: list[RuleText], target: str) -> None:
    """The explanation and the decision name the same rule."""
    robots = RobotsTxt.parse(body_for(found))
    decision = robots.decide(target, [])
    matches = explain(robots, target, []).matches
    if decision.reason is not Reason.ROBOTS_TXT:
        assert decision.rule == (matches[0] if matches else None)


@given(case=rivals(), data=st.data())
def test_all_rivals_are_named(case: tuple[list[str], str], data: st.DataObject) -> None:
    """Each rule that would decide alone is among the matching rules."""
    written, target = case
    found = [RuleText(data.draw(st.sampled_from(RuleKind)), pattern) for pattern in written]
    robots = RobotsTxt.parse(body_for(found))
    alone = [
        number
        for number, rule in enumerate(found, 2)
        if RobotsTxt.parse(body_for([rule])).decide(target, []).reason is not Reason.NO_RULE
    ]
    assert sorted(rule.line for rule in explain(robots, target, []).matches) == alone
