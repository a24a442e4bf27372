"""An index of the rules of one group: it finds the most specific rule that matches (RFC 9309, 2.2.2).

Most rules are plain prefixes. In sorted order, the longest one with which a target begins is the one right before the
target or a prefix of that one, so a binary search and a short walk find it. Of the other rules, only those are tried
that have a literal in the target, and only those are parsed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.lines import BLANKS, as_text
from scrapy_robots_rfc.core.pattern import Pattern, is_plain, parse_pattern, precedence
from scrapy_robots_rfc.core.scan import (
    MARKS,
    best_rule,
    line_of,
    literal_of,
    odd_lines,
    rules_without_marks,
    without_comment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_robots_rfc.core.scan import RawRule, Section

ROBOTS_TXT = "/robots.txt"

_DISALLOW, _ALLOW = MARKS

# With fewer literals than this, it is faster to look for each of them than to look up the target's own pieces.
_FEW = 64
# Octets of a piece.
_GRAM = 3
# More rules with one literal are divided by another literal of theirs when a target has the first one.
_SHARING = 8

# Decisions that are kept, so that a crawl to which every rule of a large file applies does not double its memory. They
# are in a dict that is cleared when full, because a warm verdict takes 10 % longer with `lru_cache`.
_KEPT_DECISIONS = 256

# Octets of memory, as measured: for a plain rule beside its pattern, for a plain rule that another one begins with, for
# a rule with a wildcard and for each octet of its pattern (which may become a part of its own), for a decision.
_PLAIN_RULE, _PARENT, _WILDCARD_RULE, _WILDCARD_OCTET, _DECISION = 100, 150, 700, 20, 400


# A rule that is not plain: its precedence, its pattern, and its name, which is its mark and the pattern as written.
_Parsed = tuple[int, Pattern, str]


class WildcardRules:
    """The rules that are not plain. They are parsed when a target contains a literal of theirs.

    :param rules: their names, by a literal that a target must contain.
    :param known: other literals that a target is known to contain.
    """

    __slots__ = ("_grams", "_known", "_rules")

    def __init__(self, rules: dict[str, list[str]], known: frozenset[str] = frozenset()) -> None:
        self._rules: dict[str, list[str] | tuple[_Parsed, ...] | WildcardRules] = {**rules}
        self._known = known
        self._grams = _grams_of(rules) if len(rules) > _FEW else {}

    def best(self, target: str, order: int) -> tuple[int, list[str]] | None:
        """Return the highest precedence, at least `order`, and the rules of it that match a target (2.2.2)."""
        found: list[str] = []
        for literal in self._literals_for(target) if self._grams else self._rules:
            if literal not in target:
                continue
            rules = self._rules[literal]
            if type(rules) is list:
                rules = self._rules[literal] = self._opened(literal, rules)
            if type(rules) is tuple:
                for own, pattern, name in rules:
                    if own >= order and pattern.matches(target):
                        found = [*found, name] if own == order else [name]
                        order = own
            elif type(rules) is WildcardRules:
                better = rules.best(target, order)
                if better is not None:
                    found = found + better[1] if better[0] == order else better[1]
                    order = better[0]
        return (order, found) if found else None

    def _opened(self, literal: str, rules: list[str]) -> WildcardRules | tuple[_Parsed, ...]:
        """Return rules that share a literal, parsed; if they are many, divided by the rarest other literal of each."""
        parsed = [(precedence(name[0] == _ALLOW, name[1:]), parse_pattern(name[1:]), name) for name in rules]
        if len(rules) > _SHARING:
            known = self._known | {literal}
            others = [[one for one in pattern.needles if one not in known] for _, pattern, _ in parsed]
            if any(others):
                times = Counter(chain.from_iterable(others))
                divided: dict[str, list[str]] = {}
                for name, choice in zip(rules, others, strict=True):
                    rarest = min(choice, key=lambda one: (times[one], -len(one)), default="")
                    divided.setdefault(rarest, []).append(name)
                return WildcardRules(divided, known)
            parsed.sort(key=itemgetter(0), reverse=True)
        return tuple(parsed)

    def _literals_for(self, target: str) -> Iterator[str]:
        """Yield the literals of which a piece is in a target."""
        for size, table in self._grams.items():
            if len(table) <= _FEW:
                pieces = {piece for piece in table if piece in target}
            else:
                pieces = table.keys() & {target[at : at + size] for at in range(len(target) - size + 1)}
            for piece in pieces:
                yield from table[piece]


def _grams_of(literals: Iterable[str]) -> dict[int, dict[str, list[str]]]:
    """Return literals by the length of a piece of them, and by that piece."""
    by_size: dict[int, dict[str, list[str]]] = {}
    for literal in literals:
        size = min(_GRAM, len(literal))
        table = by_size.setdefault(size, {})
        # The rarest of three pieces keeps the lists short, also where a thousand literals contain the same word.
        middle = (len(literal) - size) // 2
        pieces = (literal[:size], literal[middle : middle + size], literal[len(literal) - size :])
        table.setdefault(min(pieces, key=lambda piece: len(table.get(piece, ()))), []).append(literal)
    return by_size


@lru_cache(maxsize=1024)
def no_rule(token: str) -> Decision:
    """Return the decision where no rule of the group matches: allowed (RFC 9309, 2.2.2)."""
    return Decision(True, Reason.NO_RULE, None, token)


class Ruleset:
    """The rules of the group of one product token.

    The first question is answered by `scan.best_rule`; the second one builds the index. That has neither line numbers
    nor the order of one rule within the next: these are looked up when they are needed first.

    :param sections: the lines of the group.
    :param token: the product token, as the crawler writes it.
    """

    __slots__ = (
        "_allowed",
        "_asked",
        "_decisions",
        "_heads",
        "_numbers",
        "_odd",
        "_parents",
        "_sections",
        "_token",
        "_unusual",
        "_weight",
    )

    def __init__(self, sections: Sequence[Section], token: str) -> None:
        self._sections, self._token = sections, token
        self._asked = False
        self._heads: list[str] | None = None  # the patterns of plain rules, sorted; `None` until the index is built
        self._parents: dict[str, str] = {}  # for some of them, the longest other one that it begins with
        self._decisions: dict[str, Decision] = {}  # by the pattern as written: if two rules have it, the allow wins
        self._weight = 0

    @property
    def weight(self) -> int:
        """About the octets of memory that it takes beside the file. Grows with the questions."""
        return self._weight + _PARENT * len(self._parents) + _DECISION * len(self._decisions)

    def decide(self, target: str) -> Decision:
        """Return the decision on a request target in normal form."""
        heads = self._heads
        if heads is None:
            if not self._asked:
                self._asked = True
                rule = best_rule(self._sections, target)
                return no_rule(self._token) if rule is None else self._decision(rule[1], target, rule)
            heads = self._build()
        head = heads[bisect_right(heads, target) - 1]
        while not target.startswith(head):
            parent = self._parents.get(head)
            head = self._find_parent(head) if parent is None else parent
        if self._odd is not None:
            found = self._odd.best(target, len(head) << 1)
            if found is not None and (name := self._first(head, *found)) is not None:
                return self._decision(name[1:], target, name)
        return self._decision(head, target) if head else no_rule(self._token)

    def _first(self, head: str, order: int, names: list[str]) -> str | None:
        """Return the first one of some rules that are equal; ``None`` where the plain rule `head` is before them."""
        if head:
            name = MARKS[head in self._allowed] + head
            own = len(head) << 1 | (name[0] == _ALLOW)
            if own > order or (own == order and min((name, *names), key=self._line_number) == name):
                return None
        return names[0] if len(names) == 1 else min(names, key=self._line_number)

    def _build(self) -> list[str]:
        """Index all rules; return the patterns of plain ones, sorted, and before them an empty one."""
        self._numbers: dict[str, int] = {}
        odd: list[str] = []
        escapes = False
        for section in reversed(self._sections):
            marked, first = section.marked(), section.agent_line
            lines = marked.split("\n")
            lines.reverse()
            self._numbers.update(zip(lines, range(first + len(lines) - 1, first - 1, -1), strict=True))
            odd += odd_lines(marked)
            escapes = escapes or "%" in marked
        lines = sorted(self._numbers)
        unusual = set(rules_without_marks(lines))  # rules that stand in the file in an unusual spelling
        by_literal: dict[str, list[str]] = {}
        for line in {*odd, *unusual} if unusual else odd:
            name = line
            if line[-1] in BLANKS or "#" in line:
                name = without_comment(line)
                unusual.add(name)
            literal = literal_of(name)
            if literal is not None:
                by_literal.setdefault(literal, []).append(name)
        plain = lines + [name for name in unusual if is_plain(name[1:])]
        if len(plain) > len(lines):
            plain.sort()
        first, middle, end = (bisect_left(plain, mark) for mark in (_DISALLOW, _ALLOW, "\x03"))
        allowed = [line[1:] for line in plain[middle:end]]
        heads = ["", *(line[1:] for line in plain[first:middle]), *allowed]
        if allowed:
            heads.sort()
        if escapes:  # not all of them are in normal form
            heads = [head for head in heads if "%" not in head]
        self._allowed, self._unusual = frozenset(allowed), unusual
        self._odd = WildcardRules(by_literal) if by_literal else None
        self._weight += 2 * sum(map(len, heads)) + _PLAIN_RULE * len(self._numbers)
        self._heads = heads
        return heads

    def _find_parent(self, head: str) -> str:
        """Return the longest other plain pattern with which one begins; empty without one."""
        heads, text = self._heads or [""], head[:-1]
        while text:
            before = heads[bisect_right(heads, text) - 1]
            if text.startswith(before):
                text = before
                break
            if text[:2] != before[:2]:  # as usual, the two have only the slash in common
                text = text[:1]
                continue
            # What is before that has at most as many octets in common with the text as that has.
            same, different = 2, min(len(text), len(before)) + 1
            while different - same > 1:
                middle = (same + different) // 2
                if text.startswith(before[:middle]):
                    same = middle
                else:
                    different = middle
            text = text[:same]
        self._parents[head] = text
        return text

    def _decision(self, pattern: str, target: str, rule: RawRule | str | None = None) -> Decision:
        """Return the decision by a rule on a target that it matches.

        :param rule: the rule, or its name; ``None``: it is plain.
        """
        decision = self._decisions.get(pattern)
        if decision is None:
            if not isinstance(rule, tuple):
                name = rule or MARKS[pattern in self._allowed] + pattern
                rule = name[0] == _ALLOW, pattern, self._line_number(name)
            allow, _, line = rule
            kind = RuleKind.ALLOW if allow else RuleKind.DISALLOW
            decision = Decision(allow, Reason.RULE, Rule(kind, as_text(pattern), line), self._token)
            if len(self._decisions) >= _KEPT_DECISIONS:
                self._decisions.clear()
            self._decisions[pattern] = decision
        if not decision.allowed and target == ROBOTS_TXT:
            return Decision(True, Reason.ROBOTS_TXT, None, self._token)
        return decision

    def _line_number(self, name: str) -> int:
        """Return the number of the first line that is a rule."""
        if name in self._unusual:
            return line_of(self._sections, name[0] == _ALLOW, name[1:])
        return self._numbers[name]
