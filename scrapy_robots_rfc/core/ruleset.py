"""The rules of one group, indexed: the most specific match in time that hardly grows with their number (RFC 9309, 2.2.2).

Most rules are plain prefixes. Sorted, the longest that a target begins with lies right before the target or among that
one's own prefixes, so a binary search and a short walk find it. Rules with a wildcard stand behind the literals that they
require. In here: which rule wins. What one pattern matches is `pattern.py`; which lines are the rules is `scan.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.lines import as_text
from scrapy_robots_rfc.core.pattern import Pattern, parse_pattern, specificity
from scrapy_robots_rfc.core.percent import is_normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROBOTS_TXT = "/robots.txt"

# A rank orders rules of one group: the more specific first, of equals the allow, of these the one that stands first.
# It is one integer, so that a comparison is one step: specificity, kind, and the place in the group from its end.
_PLACE_BITS = 32
_PLACE = (1 << _PLACE_BITS) - 1

# Below so many wildcard rules, asking each in turn is faster than looking up the target's own pieces.
_FEW = 24
_GRAM = 3


# An allow or disallow line as it was read: whether it allows, its pattern as octets, its line number in the file.
# A plain tuple: a large file makes thousands of them.
RawRule = tuple[bool, str, int]


class Wild(NamedTuple):
    """A rule with a wildcard: its rank, a literal that every match contains, and its pattern."""

    rank: int
    needle: str
    pattern: Pattern


class GramIndex:
    """Wildcard rules by a piece of their literal, so that a target's own pieces lead to the few that may match."""

    __slots__ = ("_by_size",)

    def __init__(self, wilds: Iterable[Wild]) -> None:
        self._by_size: dict[int, dict[str, list[Wild]]] = {}
        for wild in wilds:
            size = min(_GRAM, len(wild.needle))
            table = self._by_size.setdefault(size, {})
            pieces = [wild.needle[at : at + size] for at in range(len(wild.needle) - size + 1)]
            # The rarest piece keeps the lists short, also when a thousand rules share a word.
            table.setdefault(min(pieces, key=lambda piece: len(table.get(piece, ()))), []).append(wild)

    def candidates(self, target: str) -> list[Wild]:
        """Rules that may match a target, the highest rank first."""
        found: list[Wild] = []
        for size, table in self._by_size.items():
            if len(table) <= _FEW:
                pieces = {piece for piece in table if piece in target}
            else:
                pieces = table.keys() & {target[at : at + size] for at in range(len(target) - size + 1)}
            for piece in pieces:
                found += table[piece]
        found.sort(reverse=True)
        return found


class Ruleset:
    """The rules of one group for one token, ready to decide.

    :param rules: in the order in which they stand in the file.
    :param token: the product token whose group they are, as the crawler writes it.
    """

    __slots__ = (
        "_best",
        "_decisions",
        "_exact",
        "_grams",
        "_heads",
        "_no_rule",
        "_parents",
        "_rules",
        "_token",
        "_wilds",
    )

    def __init__(self, rules: Sequence[RawRule], token: str) -> None:
        self._rules = rules
        self._token = token
        self._no_rule = Decision(True, Reason.NO_RULE, None, token)
        self._decisions: dict[int, Decision] = {}
        self._exact: dict[str, int] = {}
        self._wilds: list[Wild] = []
        plain: dict[str, int] = {}
        for place, (allow, pattern, _) in enumerate(rules):
            if not pattern:
                continue  # the empty pattern matches nothing
            rank = (specificity(pattern) * 2 + allow) << _PLACE_BITS | (_PLACE - place)
            if is_normal(pattern):
                if plain.get(pattern, 0) < rank:
                    plain[pattern] = rank
            else:
                self._add_special(pattern, rank, plain)
        self._heads, self._parents, self._best = _nest(plain)
        self._wilds.sort(reverse=True)
        self._grams = GramIndex(self._wilds) if len(self._wilds) > _FEW else None

    def _add_special(self, text: str, rank: int, plain: dict[str, int]) -> None:
        """Add a pattern with a wildcard, or one that is not in normal form as it is written."""
        if text[0] not in "/*":
            return  # no path begins with anything else
        pattern = parse_pattern(text)
        if pattern.parts:
            needle = max((*pattern.parts, pattern.head), key=len) if not pattern.literals else ""
            self._wilds.append(Wild(rank, needle, pattern))
            return
        table = self._exact if pattern.anchored else plain
        table[pattern.head] = max(rank, table.get(pattern.head, 0))

    def decide(self, target: str) -> Decision:
        """The verdict on a request target in normal form."""
        heads = self._heads
        at = bisect_right(heads, target) - 1
        while at >= 0 and not target.startswith(heads[at]):
            at = self._parents[at]
        rank = self._best[at] if at >= 0 else 0
        if self._exact:
            rank = max(rank, self._exact.get(target, 0))
        if self._wilds:
            rank = self._best_wild(target, rank)
        if not rank:
            return self._no_rule
        decision = self._decisions.get(rank) or self._decision(rank)
        if decision.allowed or target != ROBOTS_TXT:
            return decision
        return Decision(True, Reason.ROBOTS_TXT, None, self._token)

    def _best_wild(self, target: str, rank: int) -> int:
        """The highest rank above `rank` of a wildcard rule that matches; `rank` itself where there is none."""
        for wild in self._wilds if self._grams is None else self._grams.candidates(target):
            if wild[0] <= rank:
                return rank
            if wild[1] in target and wild[2].matches(target):
                return wild[0]
        return rank

    def _decision(self, rank: int) -> Decision:
        allow, pattern, line = self._rules[_PLACE - (rank & _PLACE)]
        kind = RuleKind.ALLOW if allow else RuleKind.DISALLOW
        decision = Decision(allow, Reason.RULE, Rule(kind, as_text(pattern), line), self._token)
        self._decisions[rank] = decision
        return decision


def _nest(plain: Mapping[str, int]) -> tuple[list[str], list[int], list[int]]:
    """Prefixes in order; for each the longest other one that it begins with (-1: none); the best rank among it and those.

    :param plain: prefix to rank.
    """
    heads = sorted(plain)
    parents: list[int] = []
    best: list[int] = []
    for at, head in enumerate(heads):
        # What this one begins with lies before it, and is the one right before or one of that one's own.
        parent = at - 1
        while parent >= 0 and not head.startswith(heads[parent]):
            parent = parents[parent]
        parents.append(parent)
        best.append(max(plain[head], best[parent]) if parent >= 0 else plain[head])
    return heads, parents, best
