"""Law: the core's index, whatever its size, decides as a matcher that tries every rule (RFC 9309, 2.2.2, 2.2.3)."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.property.plain_matcher import deciding_rule
from tests.property.strategies import RuleText, body_for, patterns, rules, targets

_URL = "https://e.example"


def _expected(found: list[RuleText], target: str) -> Decision:
    """What the plain matcher says of the rules of everybody's group, which begins in line 1."""
    in_lines = [Rule(rule.kind, rule.pattern, number) for number, rule in enumerate(found, 2)]
    rule = deciding_rule(in_lines, target.encode("utf-8"))
    if rule is None:
        return Decision(True, Reason.NO_RULE, None, "*")
    return Decision(rule.kind is RuleKind.ALLOW, Reason.RULE, rule, "*")


@given(pattern=patterns, target=targets)
@settings(max_examples=400)
@example(pattern="/*%2Fa", target="/?%2Fa")
@example(pattern="/*/a", target="/b%2Fa?/a")
@example(pattern="/*?a*?b", target="/?a?b")
@example(pattern="/a%4*1", target="/a%41")
def test_one_rule(pattern: str, target: str) -> None:
    """One rule matches what the plain matcher says that it matches."""
    rule = RuleText(RuleKind.DISALLOW, pattern)
    robots = RobotsTxt.parse(body_for([rule]))
    for _ in range(3):
        assert robots.decide(_URL + target, []) == _expected([rule], target)


@given(found=st.lists(rules, max_size=40), asked=st.lists(targets, min_size=1, max_size=5))
def test_many_rules(found: list[RuleText], asked: list[str]) -> None:
    """Among many rules the same one decides, named by its pattern and line, at the first ask and at later ones."""
    robots = RobotsTxt.parse(body_for(found))
    for target in [*asked, *asked]:
        assert robots.decide(_URL + target, []) == _expected(found, target)


_words = st.text("abcdefgh", min_size=1, max_size=5)
_wildcard_rules = st.builds(
    lambda kind, first, second, end: RuleText(kind, f"/{first}*{second}{end}"),
    st.sampled_from(RuleKind),
    st.one_of(st.just(""), _words),
    _words,
    st.sampled_from(["", "", "$", "*", "/*?q=", "%2F", "="]),
)


@given(
    many=st.lists(_wildcard_rules, min_size=60, max_size=90),
    more=st.lists(rules, max_size=10),
    asked=st.lists(_words, min_size=1, max_size=8).map(lambda words: "/" + "/".join(words)),
    query=st.one_of(st.just(""), _words.map(lambda word: f"?q={word}")),
)
@settings(max_examples=60)
def test_many_wildcard_rules(many: list[RuleText], more: list[RuleText], asked: str, query: str) -> None:
    """So it is among so many wildcard rules that they are found by their pieces."""
    found = [*many, *more]
    robots = RobotsTxt.parse(body_for(found))
    for _ in range(3):
        assert robots.decide(_URL + asked + query, []) == _expected(found, asked + query)
