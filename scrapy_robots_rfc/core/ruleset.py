"""An index of the rules of one group: it finds the most specific rule that matches (RFC 9309, 2.2.2).

Most rules are plain prefixes. In sorted order, the longest one with which a target begins is the one right before the
target or a prefix of that one, so a binary search and a short walk find it. Of the rules with a wildcard, only those
are tried whose longest literal is in the target.
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

# A rank is an integer that orders the rules of a group, so that one comparison finds the rule that decides: its upper
# bits are `pattern.precedence`, its lower bits the line number counted backwards, as of equal rules the first counts.
_LINE_BITS = 32
_LAST_LINE = (1 << _LINE_BITS) - 1

# With fewer literals than this, it is faster to look for each of them than to look up the target's own pieces.
_FEW = 48
# Octets of a piece.
_GRAM = 3

# Decisions that are kept, so that a crawl to which every rule of a large file applies does not double its memory. They
# are in a dict that is cleared when full, because a warm verdict takes 10 % longer with `lru_cache`.
_KEPT_DECISIONS = 256

# Octets of memory, as measured: for a plain rule beside its pattern, for a rule in an unusual spelling beside that,
# for a rule with a wildcard and for each octet of its pattern (which may become a part of its own), for a decision.
_PLAIN_RULE, _UNUSUAL_RULE, _WILDCARD_RULE, _WILDCARD_OCTET, _DECISION = 100, 250, 700, 20, 400


def _rank(allow: bool, pattern: str, line: int) -> int:
    return precedence(allow, pattern) << _LINE_BITS | (_LAST_LINE - line)


# A rule with a wildcard: its rank and its pattern.
WildcardRule = tuple[int, Pattern]


class WildcardRules:
    """The rules with a wildcard, by the literal (`Pattern.needle`) that a target must contain."""

    __slots__ = ("_by_needle", "_grams")

    def __init__(self, rules: Iterable[WildcardRule]) -> None:
        self._by_needle: dict[str, list[WildcardRule]] = {}
        for rule in rules:
            self._by_needle.setdefault(rule[1].needle, []).append(rule)
        self._grams = _grams_of(self._by_needle) if len(self._by_needle) > _FEW else {}

    def best(self, target: str, rank: int) -> int:
        """Return the highest rank above `rank` of a rule that matches a target; `rank` where there is none."""
        for needle in self._needles_for(target) if self._grams else self._by_needle:
            if needle in target:
                for own, pattern in self._by_needle[needle]:
                    if own > rank and pattern.matches(target):
                        rank = own
        return rank

    def _needles_for(self, target: str) -> Iterator[str]:
        """Yield the needles of which a piece is in a target."""
        for size, table in self._grams.items():
            if len(table) <= _FEW:
                pieces = {piece for piece in table if piece in target}
            else:
                pieces = table.keys() & {target[at : at + size] for at in range(len(target) - size + 1)}
            for piece in pieces:
                yield from table[piece]


def _grams_of(needles: Iterable[str]) -> dict[int, dict[str, list[str]]]:
    """Return needles by the length of a piece of them, and by that piece."""
    by_size: dict[int, dict[str, list[str]]] = {}
    for needle in needles:
        size = min(_GRAM, len(needle))
        table = by_size.setdefault(size, {})
        # The rarest of three pieces keeps the lists short, also where a thousand needles contain the same word.
        middle = (len(needle) - size) // 2
        pieces = (needle[:size], needle[middle : middle + size], needle[len(needle) - size :])
        table.setdefault(min(pieces, key=lambda piece: len(table.get(piece, ()))), []).append(needle)
    return by_size


@lru_cache(maxsize=1024)
def no_rule(token: str) -> Decision:
    """Return the decision where no rule of the group matches: allowed (RFC 9309, 2.2.2)."""
    return Decision(True, Reason.NO_RULE, None, token)


class Ruleset:
    """The rules of the group of one product token.

    The first question is answered by `scan.best_rule`; the second one builds the index.

    :param sections: the lines of the group.
    :param token: the product token, as the crawler writes it.
    """

    __slots__ = (
        "_asked",
        "_best",
        "_decisions",
        "_exact",
        "_heads",
        "_parents",
        "_patterns",
        "_sections",
        "_token",
        "_weight",
        "_wildcards",
    )

    def __init__(self, sections: Sequence[Section], token: str) -> None:
        self._sections: Sequence[Section] | None = sections  # until the index is built
        self._token = token
        self._asked = False
        self._decisions: dict[int, Decision] = {}
        self._patterns: dict[int, str] = {}  # as written, by rank; those of plain rules stand in the target
        self._weight = 0

    @property
    def weight(self) -> int:
        """About the octets of memory that it takes beside the file. Grows with the questions."""
        return self._weight + _DECISION * len(self._decisions)

    def decide(self, target: str) -> Decision:
        """Return the decision on a request target in normal form."""
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
        if self._wildcards is not None:
            rank = self._wildcards.best(target, rank)
        return self._decision(rank, target)

    def _decide_once(self, sections: Sequence[Section], target: str) -> Decision:
        rule = best_rule(sections, target)
        if rule is None:
            return no_rule(self._token)
        rank = _rank(*rule)
        self._patterns[rank] = rule[1]
        return self._decision(rank, target)

    def _build(self, sections: Sequence[Section]) -> None:
        """Index all rules."""
        self._exact: dict[str, int] = {}
        wildcards: list[WildcardRule] = []
        plain: dict[str, int] = {}
        for section in sections:
            for number, (disallow, allow, other) in enumerate(section.rows(), section.agent_line + 1):
                if disallow:  # where the pattern is known already, that rule has a higher rank
                    plain.setdefault(disallow, len(disallow) << _LINE_BITS + 1 | _LAST_LINE - number)
                elif allow:
                    rank = (len(allow) << 1 | 1) << _LINE_BITS | _LAST_LINE - number
                    if plain.get(allow, 0) < rank:
                        plain[allow] = rank
                elif other and other[0] != "#":
                    self._add_unusual(other, number, plain, wildcards)
        self._heads, self._parents, self._best = _nest(plain)
        self._wildcards = WildcardRules(wildcards) if wildcards else None
        self._weight += sum(section.end - section.start for section in sections) + _PLAIN_RULE * len(self._heads)
        self._sections = None

    def _add_unusual(self, line: str, number: int, plain: dict[str, int], wildcards: list[WildcardRule]) -> None:
        """Add a line that is no plain rule: one with a wildcard, with escapes, in another spelling, or no rule."""
        rule = read_rule(line)
        if rule is None or not rule[1] or rule[1][0] not in "/*":
            return  # an empty pattern matches nothing, and every path begins with `/`
        text = rule[1]
        rank = _rank(*rule, number)
        self._patterns[rank] = text
        pattern = parse_pattern(text)
        if pattern.parts or pattern.literals:
            wildcards.append((rank, pattern))
            self._weight += _WILDCARD_RULE + _WILDCARD_OCTET * len(text)
            return
        self._weight += _UNUSUAL_RULE
        table = self._exact if pattern.anchored else plain
        table[pattern.head] = max(rank, table.get(pattern.head, 0))

    def _decision(self, rank: int, target: str) -> Decision:
        """Return the decision by the rule of a rank (0: no rule) on a target that it matches."""
        if not rank:
            return no_rule(self._token)
        decision = self._decisions.get(rank)
        if decision is None:
            allow = bool(rank >> _LINE_BITS & 1)
            # The target begins with the pattern of a plain rule, and the rank tells its length.
            pattern = self._patterns.get(rank) or target[: rank >> _LINE_BITS + 1]
            kind = RuleKind.ALLOW if allow else RuleKind.DISALLOW
            rule = Rule(kind, as_text(pattern), _LAST_LINE - (rank & _LAST_LINE))
            decision = Decision(allow, Reason.RULE, rule, self._token)
            if len(self._decisions) >= _KEPT_DECISIONS:
                self._decisions.clear()
            self._decisions[rank] = decision
        if not decision.allowed and target == ROBOTS_TXT:
            return Decision(True, Reason.ROBOTS_TXT, None, self._token)
        return decision


def _nest(plain: Mapping[str, int]) -> tuple[list[str], array[int], array[int]]:
    """Return prefixes in order, for each the index of the longest other prefix that it begins with, and the best rank.

    The index is -1 where there is no such prefix. The best rank is the highest of a prefix and of all that it begins
    with. Arrays hold the numbers, because an int object for each would take as much memory as the prefix.

    :param plain: the rank of each prefix.
    """
    heads = sorted(plain)
    parents, best = array("i"), array("Q")
    for at, head in enumerate(heads):
        # What this prefix begins with lies before it: it is the one right before, or one that that one begins with.
        parent = at - 1
        while parent >= 0 and not head.startswith(heads[parent]):
            parent = parents[parent]
        parents.append(parent)
        best.append(max(plain[head], best[parent]) if parent >= 0 else plain[head])
    return heads, parents, best
