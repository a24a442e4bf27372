"""The order of groups, and of rules in a group, does not matter (RFC 9309, 2.2.1, 2.2.2)."""

from __future__ import annotations

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import (
    GroupText,
    RuleText,
    body_for,
    body_of,
    groups,
    rules,
    token_lists,
    urls,
)


@given(data=st.data(), found=st.lists(groups, max_size=5), url=urls, tokens=token_lists)
def test_order_of_groups(
    data: st.DataObject, found: list[GroupText], url: str, tokens: list[str]
) -> None:
    """Groups in another order give the same verdict."""
    mixed = data.draw(st.permutations(found))
    before = RobotsTxt.parse(body_of(*found)).decide(url, tokens)
    after = RobotsTxt.parse(body_of(*mixed)).decide(url, tokens)
    assert (before.allowed, before.reason, before.token) == (
        after.allowed,
        after.reason,
        after.token,
    )


@given(data=st.data(), found=st.lists(rules, max_size=30), url=urls)
def test_order_of_rules(data: st.DataObject, found: list[RuleText], url: str) -> None:
    """Rules in another order give the same verdict, the first time and later."""
    mixed = data.draw(st.permutations(found))
    one, other = RobotsTxt.parse(body_for(found)), RobotsTxt.parse(body_for(mixed))
    for _ in range(2):
        before, after = one.decide(url, []), other.decide(url, [])
        assert (before.allowed, before.reason) == (after.allowed, after.reason)
