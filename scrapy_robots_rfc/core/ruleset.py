"""The rules of one group, indexed: the most specific match in time that hardly grows with their number (2.2.2).

Most rules are plain prefixes. Sorted, the longest that a target begins with lies right before the target or among
that one's own prefixes, so a binary search and a short walk find it. Rules with a wildcard stand behind the literals
that they require. In here: which rule wins. What one pattern matches is `pattern.py`; which lines are rules, `scan.py`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.lines import as_text, read_rule
from scrapy_robots_rfc.core.pattern import Pattern, parse_pattern, precedence
from scrapy_robots_rfc.core.scan import best_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scrapy_robots_rfc.core.scan import Section

ROBOTS_TXT = "/robots.txt"

# A rank orders the rules of one group: the more specific first, of equals the allow, of these the one that stands
# first. It is one integer, so that a comparison is one step: `pattern.precedence`, and the line number from the end.
_LINE_BITS = 32
_LAST_LINE = (1 << _LINE_BITS) - 1

# Below so many wildcard rules, asking each in turn is faster than looking up the target's own pieces.
_FEW = 48
_GRAM = 3

# Verdicts that are kept for the next target of the same rule: a crawl that meets every rule of a large file must not
# double it.
_KEPT_DECISIONS = 256

# Octets that an index takes, as measured: of a rule beside its pattern, of one in an unusual spelling beside that, of
# one with a wildcard and of each octet of that one's pattern (which may be a part of its own), and of a verdict.
_PLAIN_RULE, _UNUSUAL_RULE, _WILD_RULE, _WILD_OCTET, _VERDICT = 100, 250, 700, 20, 400


def _rank(allow: bool, pattern: str, line: int) -> int:
    return precedence(allow, pattern) << _LINE_BITS | (_LAST_LINE - line)


# A rule with a wildcard: its rank, a literal that every match contains, and its pattern.
Wild = tuple[int, str, Pattern]


class Wilds:
    """Rules with a wildcard behind the literals that they require: a target meets only the few that may match."""

    __slots__ = ("_grams", "_needles")

    def __init__(self, wilds: Iterable[Wild]) -> None:
        self._needles: dict[str, list[Wild]] = {}
        for wild in wilds:
            self._needles.setdefault(wild[1], []).append(wild)
        self._grams = _grams_of(self._needles) if len(self._needles) > _FEW else {}

    def best(self, target: str, rank: int) -> int:
        """The highest rank above `rank` of a rule that matches a target; `rank` itself where there is none."""
        for needle in self._candidates(target) if self._grams else self._needles:
            if needle in target:
                for wild_rank, _, pattern in self._needles[needle]:
                    if wild_rank > rank and pattern.matches(target):
                        rank = wild_rank
        return rank

    def _candidates(self, target: str) -> Iterator[str]:
        """Needles of which a piece is in a target."""
        for size, table in self._grams.items():
            if len(table) <= _FEW:
                pieces = {piece for piece in table if piece in target}
            else:
                pieces = table.keys() & {target[at : at + size] for at in range(len(target) - size + 1)}
            for piece in pieces:
                yield from table[piece]


def _grams_of(needles: Iterable[str]) -> dict[int, dict[str, list[str]]]:
    """Needles by one of their pieces, for each length of pieces."""
    by_size: dict[int, dict[str, list[str]]] = {}
    for needle in needles:
        size = min(_GRAM, len(needle))
        table = by_size.setdefault(size, {})
        # The rarest of a few pieces keeps the lists short, also when a thousand needles share a word.
        middle = (len(needle) - size) // 2
        pieces = (needle[:size], needle[middle : middle + size], needle[len(needle) - size :])
        table.setdefault(min(pieces, key=lambda piece: len(table.get(piece, ()))), []).append(needle)
    return by_size


@lru_cache(maxsize=1024)
def no_rule(token: str) -> Decision:
    """The verdict where none of a group's rules matches: allowed (RFC 9309, 2.2.2)."""
    return Decision(True, Reason.NO_RULE, None, token)


class Ruleset:
    """The rules of one group for one token, ready to decide.

    :param sections: the lines of the group.
    :param token: the product token whose group it is, as the crawler writes it.
    """

    __slots__ = (
        "_asked",
        "_best",
        "_decisions",
        "_exact",
        "_heads",
        "_parents",
        "_sections",
        "_token",
        "_weight",
        "_wilds",
        "_written",
    )

    def __init__(self, sections: Sequence[Section], token: str) -> None:
        self._sections: Sequence[Section] | None = sections
        self._token = token
        self._asked = False
        self._decisions: dict[int, Decision] = {}
        self._written: dict[int, str] = {}
        self._weight = 0

    @property
    def weight(self) -> int:
        """About the octets that it takes in memory, the file not counted. Grows when it is asked."""
        return self._weight + _VERDICT * len(self._decisions)

    def decide(self, target: str) -> Decision:
        """The verdict on a request target in normal form."""
        if self._sections is not None:
            if not self._asked:
                self._asked = True
                return self._decide_once(self._sections, target)
            self._build(self._sections)
        heads = self._heads
        at = bisect_right(heads, target) - 1
        while at >= 0 and not target.startswith(heads[at]):
            at = self._parents[at]
        rank = self._best[at] if at >= 0 else 0
        if self._exact:
            rank = max(rank, self._exact.get(target, 0))
        if self._wilds is not None:
            rank = self._wilds.best(target, rank)
        return self._verdict(rank, target)

    def _verdict(self, rank: int, target: str) -> Decision:
        if not rank:
            return no_rule(self._token)
        decision = self._decisions.get(rank) or self._decision(rank, target)
        return (
            decision
            if decision.allowed or target != ROBOTS_TXT
            else Decision(True, Reason.ROBOTS_TXT, None, self._token)
        )

    def _decide_once(self, sections: Sequence[Section], target: str) -> Decision:
        rule = best_rule(sections, target)
        if rule is None:
            return no_rule(self._token)
        rank = _rank(*rule)
        self._written[rank] = rule[1]
        return self._verdict(rank, target)

    def _build(self, sections: Sequence[Section]) -> None:
        """Index all rules."""
        self._exact: dict[str, int] = {}
        wilds: list[Wild] = []
        plain: dict[str, int] = {}
        for section in sections:
            for number, (disallow, allow, other) in enumerate(section.rows(), section.agent_line + 1):
                if disallow:  # the same pattern again changes nothing
                    plain.setdefault(disallow, len(disallow) << _LINE_BITS + 1 | _LAST_LINE - number)
                elif allow:
                    rank = (len(allow) << 1 | 1) << _LINE_BITS | _LAST_LINE - number
                    if plain.get(allow, 0) < rank:
                        plain[allow] = rank
                elif other and other[0] != "#":
                    self._add_unusual(other, number, plain, wilds)
        self._heads, self._parents, self._best = _nest(plain)
        self._wilds = Wilds(wilds) if wilds else None
        self._weight += sum(section.end - section.start for section in sections) + _PLAIN_RULE * len(self._heads)
        self._sections = None

    def _add_unusual(self, line: str, number: int, plain: dict[str, int], wilds: list[Wild]) -> None:
        """Add a line that may be a rule with a wildcard, with escapes, in another spelling, or none at all."""
        rule = read_rule(line)
        if rule is None or not rule[1] or rule[1][0] not in "/*":
            return  # the empty pattern matches nothing, and no path begins with anything else
        text = rule[1]
        rank = _rank(*rule, number)
        self._written[rank] = text
        pattern = parse_pattern(text)
        if pattern.parts or pattern.literals:
            wilds.append((rank, pattern.needle, pattern))
            self._weight += _WILD_RULE + _WILD_OCTET * len(text)
            return
        self._weight += _UNUSUAL_RULE
        table = self._exact if pattern.anchored else plain
        table[pattern.head] = max(rank, table.get(pattern.head, 0))

    def _decision(self, rank: int, target: str) -> Decision:
        """The verdict by the rule of a rank; a plain one is as long as it is specific, and begins the target."""
        allow = bool(rank >> _LINE_BITS & 1)
        pattern = self._written.get(rank) or target[: rank >> _LINE_BITS + 1]
        kind = RuleKind.ALLOW if allow else RuleKind.DISALLOW
        rule = Rule(kind, as_text(pattern), _LAST_LINE - (rank & _LAST_LINE))
        decision = Decision(allow, Reason.RULE, rule, self._token)
        if len(self._decisions) >= _KEPT_DECISIONS:
            self._decisions.clear()
        self._decisions[rank] = decision
        return decision


def _nest(plain: Mapping[str, int]) -> tuple[list[str], array[int], array[int]]:
    """Prefixes in order; of each the longest other one that it begins with (-1: none), and the best rank so far.

    Numbers stand in arrays: an integer of its own for each would take as much as the prefix.

    :param plain: prefix to rank.
    """
    heads = sorted(plain)
    parents, best = array("i"), array("Q")
    for at, head in enumerate(heads):
        # What this one begins with lies before it, and is the one right before or one of that one's own.
        parent = at - 1
        while parent >= 0 and not head.startswith(heads[parent]):
            parent = parents[parent]
        parents.append(parent)
        best.append(max(plain[head], best[parent]) if parent >= 0 else plain[head])
    return heads, parents, best
