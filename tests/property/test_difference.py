"""Law: where no rule changed between two files, no URL changes its verdict, for whichever crawler."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scrapy_robots_rfc.core.decision import RuleKind
from scrapy_robots_rfc.core.difference import differences
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import (
    GroupText,
    RuleText,
    bodies,
    body_for,
    body_of,
    groups,
    respelt,
    rivals,
    token_lists,
    urls,
)


@st.composite
def _otherwise(draw: st.DrawFn, found: list[GroupText]) -> list[GroupText]:
    """The same groups in another order, split, their rules spelt otherwise; perhaps one of the rules is gone."""
    written: list[GroupText] = []
    for group in draw(st.permutations(found)):
        rules = [replace(rule, pattern=draw(respelt(rule.pattern))) for rule in draw(st.permutations(group.rules))]
        cut = draw(st.sampled_from([len(rules), *range(1, len(rules) + 1)]))
        parts = (rules[:cut], rules[cut:] or rules[: draw(st.integers(0, 1))])
        written += [GroupText(group.agents, tuple(part)) for part in parts if part]
    return written


@settings(max_examples=75)
@given(data=st.data(), meeting=rivals(), found=st.lists(groups, max_size=3), url=urls, tokens=token_lists)
def test_no_rule_changed(
    data: st.DataObject, meeting: tuple[list[str], str], found: list[GroupText], url: str, tokens: list[str]
) -> None:
    """The file is the same but for how it is written: what is told as no change is none, for all and for one."""
    kinds = st.sampled_from(RuleKind)
    rules = tuple(RuleText(data.draw(kinds), pattern) for pattern in meeting[0])
    found = [GroupText((data.draw(st.sampled_from(["*", "FooBot"])),), rules), *found]
    old = RobotsTxt.parse(body_of(*found))
    new = RobotsTxt.parse(body_of(*data.draw(_otherwise(found))))
    _hold(old, new, tokens, [url, meeting[1]])


@st.composite
def _two_spellings(draw: st.DrawFn) -> tuple[list[RuleText], list[RuleText], str]:
    """Rules in two spellings each, by which some weigh more or less, and a path that nearly all of them match."""
    pieces = draw(st.lists(st.sampled_from("a~"), min_size=1, max_size=3))

    def spelt(piece: str) -> str:
        return draw(st.sampled_from([piece, f"%{ord(piece):02X}"])) if piece in "a~" else piece

    old: list[RuleText] = []
    new: list[RuleText] = []
    for _ in range(draw(st.integers(2, 3))):
        kind = draw(st.sampled_from(RuleKind))
        shape = [draw(st.sampled_from([piece, piece, "*"])) for piece in pieces[: draw(st.integers(1, 3))]]
        for side in (old, new):
            side.append(RuleText(kind, "/" + "".join(map(spelt, shape))))
    return old, new, "/" + "".join(pieces)


@given(spellings=_two_spellings())
def test_no_rule_weighs_more(spellings: tuple[list[RuleText], list[RuleText], str]) -> None:
    """Rules that are only written differently weigh the same against each other."""
    old, new, target = spellings
    _hold(RobotsTxt.parse(body_for(old)), RobotsTxt.parse(body_for(new)), [], [target])


@given(old=bodies, new=bodies, url=urls, tokens=token_lists)
def test_any_files(old: bytes, new: bytes, url: str, tokens: list[str]) -> None:
    """The same of any two files, and nothing raises."""
    _hold(RobotsTxt.parse(old), RobotsTxt.parse(new), tokens, [url, "/", "/a", "/b"])


def _hold(old: RobotsTxt, new: RobotsTxt, tokens: list[str], urls: list[str]) -> None:
    same = [not any(change.significant for change in differences(old, new, whose)) for whose in (None, tokens)]
    assume(any(same))
    for url in urls:
        assert old.decide(url, tokens).allowed is new.decide(url, tokens).allowed
