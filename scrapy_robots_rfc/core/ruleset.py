"""An index of the rules of a group: it finds the most specific rule that matches (RFC 9309, 2.2.2).

Most rules are prefixes. In sorted order, the longest one with which a target begins is the one
right before the target, or a prefix of that one. Of the other rules, only those are tried that
have a literal in the target, and only those are parsed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import chain, compress, filterfalse
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.lines import BLANKS, as_text
from scrapy_robots_rfc.core.pattern import Pattern, parse_pattern, specificity
from scrapy_robots_rfc.core.percent import BARE
from scrapy_robots_rfc.core.scan import Section, divide_at_rules

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

ROBOTS_TXT = "/robots.txt"

# With more rules that are no prefixes, it is faster to look up pieces of a target than to look for
# a literal of each rule in it. Pieces have one of some sizes, in octets.
_FEW = 96
_SIZES = (0, 1, 2, 3, 5, 8)
# More rules with one literal are parsed by `prepare`, because one target may have it.
_SHARING = 32
# Decisions that are kept, so that a crawl to which every rule of a large file applies does not
# double its memory.
_KEPT_DECISIONS = 256

# Octets of memory, as measured: of a part of a group, of a rule beside its pattern, of one that is
# no prefix and of one that is parsed beside that, of its wildcards and escapes, of a decision.
_SECTION, _RULE, _ODD_RULE, _PARSED, _STAR, _ESCAPE, _DECISION = 240, 130, 220, 400, 60, 260, 400

# Divides a pattern into runs of octets that every target has that it matches; some may be empty.
_runs_of = re.compile(f"%[0-9A-Fa-f]{{2}}|[^{re.escape(BARE)}]").split
_AFTER_ALL = "\u0100"  # comes behind every octet
# More lines than a file has.
_LINES = 1 << 32

# A rule that is no prefix: its rank, octets that a target must have, its pattern, parsed and not.
_Parsed = tuple[int, str, Pattern, str]


class RuleIndex:
    """The rules of one group, for all crawlers to which it applies. It is built at the first question.

    :param sections: the lines of the group.
    """

    def __init__(self, sections: Sequence[Section]) -> None:
        self._sections = sections
        #: Whether `prepare` is through: no question takes long.
        self.prepared: bool = False
        #: About the octets of memory that it takes beside the file. Grows with the questions.
        self.weight: int = _SECTION * len(sections)
        #: By pattern, the first line with it that allows, or else the first one, with a minus.
        self.lines: dict[str, int] = {}
        self._heads: list[str] = []  # the prefixes, sorted, behind an empty one
        self._parents: list[int] = []  # of each, where the longest other one is that it begins with
        # All other rules by a literal that a target must have: lines of patterns, or parsed.
        self._odd: dict[str, str | tuple[_Parsed, ...]] = {}
        self._sizes: set[int] = set()  # of the literals, where these are pieces

    def find(self, target: str) -> str:
        """Return the pattern of the rule that decides on a target in normal form, or nothing."""
        heads = self._heads or self._build()
        at = bisect_right(heads, target) - 1
        while not target.startswith(heads[at]):
            at = self._parents[at]
        best = heads[at]
        odd = self._odd
        if not odd:
            return best
        rank = -1 if best else 0  # a rank takes long to compute, and most targets have no literal
        known = self._pieces_of(target) if self._sizes else target  # both tell what is in them
        for literal in odd if known is target else known:
            if literal in known:
                rules = odd[literal]
                if isinstance(rules, str):
                    rules = self._parse(literal, rules)
                if rank < 0:
                    rank = self._rank(best)
                for other, needle, pattern, text in rules:
                    if other < rank:
                        break
                    if needle in known and pattern.matches(target):
                        best, rank = text, other
                        break
        return best

    def prepare(self) -> None:
        """Build the index, and parse rules of which many share a literal."""
        if not self._heads:
            self._build()
        for literal, rules in self._odd.items():
            if isinstance(rules, str) and rules.count("\n") >= _SHARING:
                self._parse(literal, rules)
        self.prepared = True

    def _build(self) -> list[str]:
        """Index all rules; return the prefixes, sorted, behind an empty one."""
        lines: dict[str, int] = {}
        odd: dict[str, None] = {}  # patterns that are no prefixes, in order
        for piece in chain.from_iterable(map(Section.pieces, self._sections)):
            line = piece.agent_line
            text = piece.text()
            self.weight += len(text)
            parts = iter(divide_at_rules(text))
            for before, disallow, head, rest in zip(parts, parts, parts, parts, strict=False):
                line += before.count("\n") + 1 if before else 1
                pattern = head
                if rest:
                    pattern = (head + rest.partition("#")[0]).rstrip(BLANKS)
                    if pattern != head:
                        odd[pattern] = None
                if disallow:
                    lines.setdefault(pattern, -line)
                elif lines.get(pattern, -1) < 0:
                    lines[pattern] = line
        lines.pop("", None)
        heads = ["", *sorted(filterfalse(odd.__contains__, lines))]
        parents = [0] * len(heads)
        # All that begin with a prefix come right behind it, and longer prefixes behind shorter
        # ones.
        nested = map(str.startswith, heads[2:], heads[1:])
        for at in compress(range(1, len(heads)), nested):
            end = bisect_left(heads, heads[at] + _AFTER_ALL, at)
            parents[at + 1 : end] = [at] * (end - at - 1)
        found = _by_literal(odd)
        self.lines = lines
        self._parents = parents
        self._odd = {literal: "\n".join(patterns) or () for literal, patterns in found.items()}
        self._sizes = {*map(len, found)} if len(odd) > _FEW else set()
        self.weight += _RULE * len(lines) + _ODD_RULE * len(odd)
        self._heads = heads  # last, because another thread may ask meanwhile
        return heads

    def _pieces_of(self, target: str) -> set[str]:
        pieces = {target[at : at + size] for size in self._sizes for at in range(len(target))}
        return pieces & self._odd.keys()

    def _rank(self, pattern: str) -> int:
        """Return a number: of two rules, the more specific, else the allow, else the first has more."""
        line = self.lines.get(pattern, 0)
        return (specificity(pattern) << 1 | (line > 0)) * _LINES - abs(line)

    def _parse(self, literal: str, text: str) -> tuple[_Parsed, ...]:
        """Parse the rules of a literal; return them, the most specific one first."""
        rules = [
            (self._rank(pattern), _needle(_runs_of(pattern)), parse_pattern(pattern), pattern)
            for pattern in text.split("\n")
        ]
        found = self._odd[literal] = tuple(sorted(rules, reverse=True))
        self.weight += _PARSED * len(rules) + 2 * len(text) + 8 * (len(text.encode()) - len(text))
        self.weight += _STAR * text.count("*") + _ESCAPE * text.count("%")
        return found


def _ends(run: str) -> tuple[str, str]:
    """Return the first and the last octets of a run, as many as the largest size that it has."""
    size = _SIZES[bisect_right(_SIZES, len(run)) - 1]
    return run[:size], run[len(run) - size :]


def _needle(runs: Sequence[str]) -> str:
    """Return the last octets of the runs of a pattern, which a target must have, too."""
    return _ends(runs[-1] or runs[-2])[1]


def _by_literal(patterns: Collection[str]) -> dict[str, list[str]]:
    """Return patterns by octets that every target has that they match.

    These are the longest run of each, or of many patterns an end of the rarest one, so that few
    share it. The needle of each is there, too: it tells apart those that share a rare run.
    """
    found: dict[str, list[str]] = {}
    many = len(patterns) > _FEW
    times = Counter(chain.from_iterable(map(_runs_of, patterns))) if many else {}
    for pattern in patterns:
        runs = _runs_of(pattern)
        if many:
            found.setdefault(_needle(runs), [])
            ends = _ends(min(runs, key=times.__getitem__))
            end = min(ends, key=lambda one: len(found.get(one, ())))
            found.setdefault(end, []).append(pattern)
        else:
            found.setdefault(max(runs, key=len), []).append(pattern)
    return found


class Ruleset:
    """The decisions for one product token.

    :param index: the rules of its group.
    :param token: the product token, as the crawler writes it.
    """

    def __init__(self, index: RuleIndex, token: str) -> None:
        self.index = index
        self._token = token
        self._decisions: dict[str, Decision] = {}  # by the pattern that decides

    @property
    def weight(self) -> int:
        """About the octets of memory that it takes beside its index. Grows with the questions."""
        return _DECISION * len(self._decisions)

    def decide(self, target: str) -> Decision:
        """Return the decision on a request target in normal form."""
        pattern = self.index.find(target)
        decision = self._decisions.get(pattern)
        if decision is None:
            decision = self._decision(pattern)
        if target == ROBOTS_TXT and not decision.allowed:
            return Decision(True, Reason.ROBOTS_TXT, None, self._token)
        return decision

    def _decision(self, pattern: str) -> Decision:
        line = self.index.lines.get(pattern)
        if line is None:
            decision = Decision(True, Reason.NO_RULE, None, self._token)
        else:
            kind = RuleKind.ALLOW if line > 0 else RuleKind.DISALLOW
            rule = Rule(kind, as_text(pattern), abs(line))
            decision = Decision(line > 0, Reason.RULE, rule, self._token)
        if len(self._decisions) >= _KEPT_DECISIONS:
            self._decisions.clear()
        self._decisions[pattern] = decision
        return decision
