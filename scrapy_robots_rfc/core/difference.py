"""The rules that changed between two robots.txt files, group by group.

Two rules that differ only in how escapes are written are the same, unless the other spelling changes which rule wins.
So where no change is significant, no URL changes its verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from scrapy_robots_rfc.core.agents import ANY, token_of
from scrapy_robots_rfc.core.decision import Rule, RuleKind
from scrapy_robots_rfc.core.pattern import Pattern, parse_pattern, precedence
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

#: Pairs of rules that are compared at most. In files with thousands of rules in another spelling, rules whose
#: specificity changed are reported as changed without this comparison.
_MOST_PAIRS = 1_000_000

#: A rule as it is written: its kind, and the octets of its pattern.
_Written: TypeAlias = tuple[RuleKind, str]
#: What it means in any spelling: its kind, and its pattern in normal form.
_Meaning: TypeAlias = "tuple[RuleKind, Pattern]"
#: Rules that were removed, rules that were added, and pairs that mean the same in another spelling.
_Compared: TypeAlias = "tuple[tuple[Rule, ...], tuple[Rule, ...], tuple[tuple[Rule, Rule], ...]]"
#: The indexes of some groups of a file.
_Indexes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What changed for one product token; `old` and `new` are not both ``None``.

    :param name: the token as a file spells it, or the tokens of the crawler that asks.
    :param old: the token whose group applied in the old file; ``None`` where there was none.
    :param new: the same in the new file.
    :param removed: rules of the old file, in its order.
    :param added: rules of the new file, in its order.
    :param rewritten: rules of the old file, each with the rule of the new file that means the same in other octets.
    :param empty_group: whether a group without rules came or went, so that the rules of ``*`` no longer apply to the
        token, or apply now.
    """

    name: str
    old: str | None
    new: str | None
    removed: tuple[Rule, ...]
    added: tuple[Rule, ...]
    rewritten: tuple[tuple[Rule, Rule], ...] = ()
    empty_group: bool = False

    @property
    def significant(self) -> bool:
        """Whether more changed than the spelling of rules and the groups in which they stand."""
        return bool(self.removed or self.added) or self.empty_group


def differences(old: RobotsTxt, new: RobotsTxt, tokens: Sequence[str] | None = None) -> list[Change]:
    """Return what changed. Groups of one token count as one (RFC 9309, 2.2.1); the order of rules does not count.

    Rules that match nothing, such as an empty one, are left out.

    :param tokens: of a crawler, in order of preference: compare what applies to it. ``None``: compare all groups.
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
    compared: dict[tuple[_Indexes, _Indexes], _Compared] = {}  # many tokens may share their groups
    found = []
    for name, first, second in asked:
        groups = before.groups_of(first), after.groups_of(second)
        if groups not in compared:
            compared[groups] = _compare(before.rules(groups[0]), after.rules(groups[1]))
        lost = (first is None and before.has_rules_for_all) or (second is None and after.has_rules_for_all)
        empty_group = tokens is None and lost and not any(compared[groups])
        found.append(Change(name, first, second, *compared[groups], empty_group))
    return [change for change in found if change.significant or change.rewritten]


class _File:
    """The groups of a file by their tokens."""

    def __init__(self, file: RobotsTxt) -> None:
        self._file = file
        #: The tokens as the file spells them, by the form in which tokens compare.
        self.names: dict[str, str] = {}
        self._indexes: dict[str, dict[int, None]] = {}
        for index, group in enumerate(file.groups):
            for name in group.tokens:
                key = token_of(to_octets(name))
                self.names[key] = name
                self._indexes.setdefault(key, {})[index] = None
        self.has_rules_for_all = bool(self.rules(self.groups_of(ANY)))

    def groups_of(self, token: str | None) -> _Indexes:
        """Return the indexes of the groups of a token."""
        return () if token is None else tuple(self._indexes.get(token_of(to_octets(token)), ()))

    def rules(self, indexes: _Indexes) -> dict[_Written, Rule]:
        """Return the rules of some groups that can match; of rules that are written alike, the first one."""
        found: dict[_Written, Rule] = {}
        for index in indexes:
            for rule in self._file.groups[index].rules:
                if rule.pattern.startswith(("/", "*")):
                    found.setdefault((rule.kind, self._file.octets_of(rule.pattern, rule.line)), rule)
        return found


def _compare(before: Mapping[_Written, Rule], after: Mapping[_Written, Rule]) -> _Compared:
    gone = {written: rule for written, rule in before.items() if written not in after}
    come = {written: rule for written, rule in after.items() if written not in before}
    if not gone and not come:
        return (), (), ()
    same = _same(_precedences(before), _precedences(after))
    removed = tuple(rule for written, rule in gone.items() if _meaning(written) not in same)
    added = tuple(rule for written, rule in come.items() if _meaning(written) not in same)
    old = {_meaning(written): rule for written, rule in reversed(gone.items())}  # reversed, so that the first one stays
    new = {_meaning(written): rule for written, rule in reversed(come.items())}
    rewritten = [(rule, new[meaning]) for meaning, rule in old.items() if meaning in same and meaning in new]
    return removed, added, tuple(sorted(rewritten, key=lambda pair: pair[0].line))


def _meaning(written: _Written) -> _Meaning:
    kind, pattern = written
    return kind, parse_pattern(pattern)


def _precedences(rules: Iterable[_Written]) -> dict[_Meaning, int]:
    """Return the meanings of rules, each with the precedence of its most specific spelling, which decides (2.2.2)."""
    found: dict[_Meaning, int] = {}
    for kind, pattern in rules:
        meaning, order = _meaning((kind, pattern)), precedence(kind is RuleKind.ALLOW, pattern)
        found[meaning] = max(order, found.get(meaning, 0))
    return found


def _same(before: Mapping[_Meaning, int], after: Mapping[_Meaning, int]) -> set[_Meaning]:
    """Return the meanings that both files have, and that win and lose against the same rules in both (2.2.2)."""
    both = before.keys() & after.keys()
    moved = [meaning for meaning in both if before[meaning] != after[meaning]]
    if len(moved) * len(both) > _MOST_PAIRS:
        return both.difference(moved)
    turned = {
        one
        for one in moved
        for other in both
        if one[0] is not other[0]
        and (before[one] > before[other]) != (after[one] > after[other])
        and _may_overlap(one[1], other[1])
    }
    return both - turned


def _may_overlap(one: Pattern, other: Pattern) -> bool:
    """Return whether one URL may match both patterns, which is so where one begins as the other does."""
    return one.head.startswith(other.head) or other.head.startswith(one.head)
