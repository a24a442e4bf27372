"""An added Allow disallows no URL, and an added Disallow allows none (RFC 9309, 2.2.2)."""

from __future__ import annotations

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.decision import RuleKind
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import GroupText, RuleText, body_of, groups, rules, token_lists, urls


def _verdicts(file: list[GroupText], url: str, tokens: list[str]) -> list[bool]:
    robots = RobotsTxt.parse(body_of(*file))
    return [robots.decide(url, tokens).allowed for _ in range(2)]


@given(
    data=st.data(),
    file=st.lists(groups, min_size=1, max_size=4),
    rule=rules,
    url=urls,
    tokens=token_lists,
)
def test_added_rule(
    data: st.DataObject, file: list[GroupText], rule: RuleText, url: str, tokens: list[str]
) -> None:
    """A rule that is added to any group changes a verdict only to its own kind."""
    which = data.draw(st.integers(0, len(file) - 1))
    group = file[which]
    at = data.draw(st.integers(0, len(group.rules)))
    longer = GroupText(group.agents, (*group.rules[:at], rule, *group.rules[at:]))
    before = _verdicts(file, url, tokens)
    after = _verdicts([*file[:which], longer, *file[which + 1 :]], url, tokens)
    assert after in (before, [rule.kind is RuleKind.ALLOW] * 2)
