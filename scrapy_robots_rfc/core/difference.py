"""What changed between two robots.txt files: rules that are gone and rules that are new, group by group.

Where nothing counts as changed, no URL changes its verdict: a rule in another spelling of its escapes is the same one,
unless it weighs more or less against another now, and one that matches nothing is none. In here: rules. Which URLs
change their verdict is a question to both files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from scrapy_robots_rfc.core.agents import ANY, token_of
from scrapy_robots_rfc.core.decision import RuleKind
from scrapy_robots_rfc.core.lines import read_line
from scrapy_robots_rfc.core.pattern import parse_pattern, precedence
from scrapy_robots_rfc.core.percent import octets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scrapy_robots_rfc.core.decision import Rule
    from scrapy_robots_rfc.core.pattern import Pattern
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt

#: Pairs of rules that are compared at most: a file of thousands of rules, all in another spelling, gets the answer that
#: costs nothing, which is that they changed.
_MOST_PAIRS = 1_000_000

#: A rule as it is written: its kind, and the octets of its pattern.
_Written: TypeAlias = tuple[RuleKind, str]
#: What it says, in whatever spelling: its kind, and its pattern in normal form.
_Sense: TypeAlias = "tuple[RuleKind, Pattern]"
_Compared: TypeAlias = "tuple[tuple[Rule, ...], tuple[Rule, ...], tuple[tuple[Rule, Rule], ...]]"
#: Groups of a file, by their numbers in it.
_Places: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What changed for one product token; `old` and `new` are not both ``None``.

    :param name: the token as a file spells it, or the tokens of the crawler that asks.
    :param old: the token whose group applied in the old file; ``None``: there was none.
    :param new: the same in the new file.
    :param removed: rules of the old file, in its order.
    :param added: rules of the new file, in its order.
    :param rewritten: rules of the old file, each with the one of the new file that says the same in other octets.
    :param bare: a group came or went that has no rule, and where there is none that of ``*`` applies, which has some.
    """

    name: str
    old: str | None
    new: str | None
    removed: tuple[Rule, ...]
    added: tuple[Rule, ...]
    rewritten: tuple[tuple[Rule, Rule], ...] = ()
    bare: bool = False

    @property
    def counts(self) -> bool:
        """Whether more changed than how rules are written, and in which groups they stand."""
        return bool(self.removed or self.added) or self.bare


def differences(old: RobotsTxt, new: RobotsTxt, tokens: Sequence[str] | None = None) -> list[Change]:
    """Return what changed, groups of one token as one (RFC 9309, 2.2.1); the order of rules means nothing (2.2.2).

    Rules that match nothing, such as an empty one, are passed over.

    :param tokens: of a crawler, in order of preference: compared is what applies to it. ``None``: all groups.
    """
    before, after = _File(old), _File(new)
    if tokens is None:
        names = {**after.names, **before.names}
        asked = [
            (name, name if key in before.names else None, name if key in after.names else None)
            for key, name in names.items()
        ]
    else:
        asked = [(",".join(tokens) or ANY, old.decide("/", tokens).token, new.decide("/", tokens).token)]
    compared: dict[tuple[_Places, _Places], _Compared] = {}  # many tokens may share their groups
    found = []
    for name, first, second in asked:
        places = before.places(first), after.places(second)
        if places not in compared:
            compared[places] = _compare(before.rules(places[0]), after.rules(places[1]))
        missed = (first is None and before.is_ruled) or (second is None and after.is_ruled)
        bare = tokens is None and missed and not any(compared[places])
        found.append(Change(name, first, second, *compared[places], bare))
    return [change for change in found if change.counts or change.rewritten]


class _File:
    """The groups of a file by their tokens.

    :param file: the file.
    """

    def __init__(self, file: RobotsTxt) -> None:
        #: The tokens as the file spells them, by the form in which they compare.
        self.names: dict[str, str] = {}
        self._places: dict[str, dict[int, None]] = {}
        for place, group in enumerate(file.groups):
            for name in group.tokens:
                key = token_of(octets(name))
                self.names[key] = name
                self._places.setdefault(key, {})[place] = None
        lines = file.octets
        self._rules = [
            {_written(rule, lines): rule for rule in reversed(group.rules) if rule.pattern.startswith(("/", "*"))}
            for group in file.groups
        ]

    @cached_property
    def is_ruled(self) -> bool:
        """Whether there are rules for those that have no group of their own (``*``)."""
        return any(self._rules[place] for place in self.places(ANY))

    def places(self, token: str | None) -> _Places:
        """Return which groups a token has."""
        return () if token is None else tuple(self._places.get(token_of(octets(token)), ()))

    def rules(self, places: _Places) -> dict[_Written, Rule]:
        """Return the rules of some groups that match something; of those written alike, the one that stands first."""
        found: dict[_Written, Rule] = {}
        for place in reversed(places):
            found.update(self._rules[place])
        return dict(sorted(found.items(), key=lambda item: item[1].line))


def _written(rule: Rule, lines: Sequence[str]) -> _Written:
    if "\\x" in rule.pattern:  # what is no UTF-8 stands like this in a rule, but so may what is
        return rule.kind, read_line(lines[rule.line - 1]).value
    return rule.kind, octets(rule.pattern)


def _compare(before: Mapping[_Written, Rule], after: Mapping[_Written, Rule]) -> _Compared:
    """Return what is gone, what is new, and what is only written otherwise."""
    gone = [(written, rule) for written, rule in before.items() if written not in after]
    come = [(written, rule) for written, rule in after.items() if written not in before]
    if not gone and not come:
        return (), (), ()
    same = _same({_sense(written) for written, _ in (*gone, *come)}, _weights(before), _weights(after))
    removed = tuple(rule for written, rule in gone if _sense(written) not in same)
    added = tuple(rule for written, rule in come if _sense(written) not in same)
    others = {_sense(written): rule for written, rule in reversed(come)}
    firsts = {_sense(written): rule for written, rule in reversed(gone)}
    rewritten = [(rule, others[sense]) for sense, rule in firsts.items() if sense in same and sense in others]
    return removed, added, tuple(sorted(rewritten, key=lambda pair: pair[0].line))


def _sense(written: _Written) -> _Sense:
    kind, pattern = written
    return kind, parse_pattern(pattern)


def _weights(rules: Iterable[_Written]) -> dict[_Sense, int]:
    """Return what rules say, each with the precedence of its most specific spelling: that one decides (2.2.2)."""
    found: dict[_Sense, int] = {}
    for kind, pattern in rules:
        sense, weight = _sense((kind, pattern)), precedence(kind is RuleKind.ALLOW, pattern)
        found[sense] = max(weight, found.get(sense, 0))
    return found


def _same(senses: set[_Sense], before: Mapping[_Sense, int], after: Mapping[_Sense, int]) -> set[_Sense]:
    """Return which of some rules stand on both sides, and win and lose there against the same rules (2.2.2)."""
    both = before.keys() & after.keys()
    same = senses & both
    moved = [sense for sense in same if before[sense] != after[sense]]
    if len(moved) * len(both) > _MOST_PAIRS:
        return same.difference(moved)
    for one in moved:
        turned = (
            (before[one] > before[other]) != (after[one] > after[other]) and _meet(one[1], other[1])
            for other in both
            if one[0] is not other[0]
        )
        if any(turned):
            same.discard(one)
    return same


def _meet(one: Pattern, other: Pattern) -> bool:
    """Whether a URL may match both patterns: one of them begins as the other does."""
    return one.head.startswith(other.head) or other.head.startswith(one.head)
