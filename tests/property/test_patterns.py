"""The core agrees with a matcher that tries every rule and position (RFC 9309, 2.2.2, 2.2.3).

The first verdict comes from the lines of the file, later ones from an index, and explanations from
other code. All three are tested.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings, strategies as st

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.explanation import explain
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.plain_matcher import deciding_rule, matches
from tests.support.strategies import RuleText, body_for, patterns, rivals, rules, targets

if TYPE_CHECKING:
    from collections.abc import Iterator

_URL = "https://e.example"
#: Pairs in one example; 60 examples have six thousand.
_PAIRS = 100

#: Escapes whose meaning depends on their place, in both spellings, and their characters.
_BY_PLACE = ["%2F", "%2f", "/", "%3F", "?", "%26", "&", "%3D", "=", "%2B", "+", "%3B", ";"]
_OTHERS = ["a", "b", "long", "%61", "é", "%C3%A9"]
_PIECES = [*_BY_PLACE, *_OTHERS, "?", "?"]
_SAME = {
    "%2F": "/",
    "/": "%2F",
    "?": "%3F",
    "=": "%3D",
    "%3D": "=",
    "%26": "&",
    "é": "%C3%A9",
    "%61": "a",
}


def _pieces(chosen: random.Random, most: int) -> list[str]:
    return chosen.choices(_PIECES, k=chosen.randint(0, most))


def _target(chosen: random.Random, pattern: list[str]) -> str:
    """Return a target that nearly matches a pattern."""
    written: list[str] = []
    for piece in pattern[chosen.choice([0, 0, 0, chosen.randint(0, len(pattern))]) :]:
        if piece == "*":
            written += _pieces(chosen, 2)
        elif chosen.random() < 0.92:
            written.append(_SAME.get(piece, piece) if chosen.random() < 0.2 else piece)
    return "/" + "".join([*written, *_pieces(chosen, 1)] if chosen.random() < 0.2 else written)


def pairs(seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Patterns, most of them with several wildcards and an end, each with a target."""
    chosen = random.Random(seed)
    for _ in range(count):
        runs = [_pieces(chosen, 4) for _ in range(chosen.choice([1, 2, 2, 2, 3, 4]))]
        pattern = [piece for run in runs for piece in ("*", *run)][1:]
        end = chosen.choice(["", "$"])
        if chosen.random() < 0.1:
            yield "*" + "".join(pattern) + end, _target(chosen, ["*", *pattern])
        else:
            yield "/" + "".join(pattern) + end, _target(chosen, pattern)


def differs(pattern: str, target: str) -> str:
    """Return the answers that differ from the simple matcher."""
    expected = matches(pattern.encode(), target.encode())
    robots = RobotsTxt.parse(body_for([RuleText(RuleKind.DISALLOW, pattern)]))
    found = {
        "the first verdict": not robots.decide(_URL + target, []).allowed,
        "the index": not robots.decide(_URL + target, []).allowed,
        "explain()": bool(explain(robots, _URL + target, []).matches),
    }
    return ", ".join(name for name, answer in found.items() if answer is not expected)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_pairs(seed: int) -> None:
    """The first verdict, the index and the explanation agree with the simple matcher."""
    assert [(pair, found) for pair in pairs(seed, _PAIRS) if (found := differs(*pair))] == []


@given(pair=st.tuples(patterns, targets))
@example(pair=("/*%2Fa", "/?%2Fa"))
@example(pair=("/*/a", "/b%2Fa?/a"))
@example(pair=("/*?a*?b", "/?a?b"))
@example(pair=("/a%4*1", "/a%41"))
def test_odd_pairs(pair: tuple[str, str]) -> None:
    """They also agree for patterns and targets with invalid escapes and other odd characters."""
    assert differs(*pair) == ""


@pytest.mark.parametrize("target", ["/priv", "/priv?longlong", "/", "/?"])
@pytest.mark.parametrize("tail", ["%3D", "%3Dlonglong", "q=%3D"])
def test_last_run_of_any_length(target: str, tail: str) -> None:
    """A pattern whose last literal is not in the target does not match, for any beginning."""
    assert [length for length in range(20) if differs(f"/*{'x' * length}?{tail}$", target)] == []


# Rules that compete.


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
