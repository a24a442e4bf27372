"""The first of all matching rules is the one that decides (RFC 9309, 2.2.2)."""

from __future__ import annotations

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.findings import explain
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import RuleText, body_for, rules, targets


@given(found=st.lists(rules, max_size=12), target=targets)
def test_first_match_decides(found: list[RuleText], target: str) -> None:
    """The explanation and the decision name the same rule."""
    robots = RobotsTxt.parse(body_for(found))
    decision = robots.decide(target, [])
    matches = explain(robots, target, []).matches
    if decision.reason is not Reason.ROBOTS_TXT:
        assert decision.rule == (matches[0] if matches else None)
