"""An index of the rules of one group: it finds the most specific rule that matches (RFC 9309, 2.2.2).

Most rules are plain prefixes. In sorted order, the longest one with which a target begins is the one right before the
target or a prefix of that one, so a binary search and a short walk find it. Of the other rules, only those are tried
that have a literal in the target, and only those are parsed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.lines import as_text, read_rule
from scrapy_robots_rfc.core.pattern import Pattern, parse_pattern, precedence
from scrapy_robots_rfc.core.percent import BARE
from scrapy_robots_rfc.core.scan import Section, best_rule, divide_at_plain_rules, other_lines, plain_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROBOTS_TXT = "/robots.txt"

# With fewer literals than this, it is faster to look for each of them than to look up the target's own pieces.
_FEW = 96
# Octets of a piece.
_GRAM = 3
_FROM = [slice(at, None) for at in range(_GRAM)]
# More rules with one literal are divided by another literal of theirs when a target has the first one.
_SHARING = 32

# Decisions that are kept, so that a crawl to which every rule of a large file applies does not double its memory. They
# are in a dict that is cleared when full, because a warm verdict takes 10 % longer with `lru_cache`.
_KEPT_DECISIONS = 256

# Octets of memory, as measured: for a plain rule beside its pattern, for an allow beside that, for a plain rule that
# another one begins with, for a line that is not plain, for one of these that is parsed, with as much for each wildcard
# and each escape, for a decision, for the number of a line, for a part of the group.
_PLAIN_RULE, _ALLOW, _PARENT, _OTHER_LINE, _PARSED, _STAR, _ESCAPE = 75, 60, 150, 510, 500, 60, 260
_DECISION, _NUMBER, _SECTION = 400, 240, 150

# The rule of a line that is not plain: its rank, a literal beside that of its table, its pattern, that as
# written, and the line. The upper bits of a rank are `pattern.precedence`, the lower ones the place
# counted backwards, as of equal rules the first one counts.
_Parsed = tuple[int, str, Pattern, str, str]
_PLACE_BITS = 32
_NOT_BARE = re.compile(f"%[0-9A-Fa-f]{{2}}|[^{re.escape(BARE)}]")
# Some octets of a literal: a tuple of them, because `zip` makes all those of a target in half the time.
_Piece = tuple[str, ...]


def _add(table: dict[str, str | list[str]], key: str, line: str) -> None:
    """Add a line to those of a key. One alone is not in a list: the garbage collector would go through 50,000 lists."""
    before = table.setdefault(key, line)
    if type(before) is list:
        before.append(line)
    elif before is not line:
        table[key] = [str(before), line]


def _runs_of(line: str) -> list[str]:
    """Return runs of octets that every target contains that the rule of a line matches; some may be empty."""
    rule = read_rule(line)
    return _NOT_BARE.split(rule[1]) if rule else []


def _parsed(place: int, line: str) -> _Parsed:
    allow, text = read_rule(line) or (False, "")
    pattern = parse_pattern(text)
    rank = (precedence(allow, text) + 1 << _PLACE_BITS) - place
    return rank, pattern.needles[-1], pattern, text, line


def _weight_of(lines: Sequence[str]) -> int:
    text = "".join(lines)
    octets = 2 * len(text) + 8 * (len(text.encode()) - len(text))
    return _PARSED * len(lines) + _STAR * text.count("*") + _ESCAPE * text.count("%") + octets


class WildcardRules:
    """The rules that are not plain. They are parsed when a target contains a literal of theirs.

    :param rules: their lines, by a literal that a target must contain.
    :param places: the place of each of these lines among them all.
    :param known: other literals that a target is known to contain.
    """

    __slots__ = ("_few", "_grams", "_known", "_lines", "_places", "weight")

    def __init__(
        self, rules: dict[str, str | list[str]], places: dict[str, int], known: frozenset[str] = frozenset()
    ) -> None:
        self._lines: dict[str, str | list[str] | tuple[_Parsed, ...] | WildcardRules] = {**rules}
        self._places, self._known = places, known
        self._few = list(rules)  # literals that are looked for one by one
        self._grams: dict[int, dict[_Piece, list[str]]] = {}  # the other ones, by the length of a piece of them
        if len(rules) > _FEW:
            self._few.clear()
            for size in range(_GRAM + 1):
                alike = [one for one in rules if len(one) == size or len(one) > size == _GRAM]
                if len(alike) > _FEW:
                    self._grams[size] = _by_piece(alike, size)
                else:
                    self._few += alike
        #: Octets of memory, beside the lines; grows with the questions.
        self.weight: int = 0

    def best(self, target: str, rank: int) -> _Parsed | None:
        """Return the rule of the highest rank above `rank` that matches a target, or ``None``."""
        found, lines = None, self._lines
        few = not self._grams
        for literal in self._few if few else self._literals_in(target):
            if few and literal not in target:
                continue
            rules = lines[literal]
            if type(rules) is str or type(rules) is list:
                rules = lines[literal] = self._opened(literal, rules)
            if type(rules) is tuple:
                for rule in rules:
                    if rule[0] <= rank:
                        break
                    if rule[1] in target and rule[2].matches(target):
                        found, rank = rule, rule[0]
                        break
            elif type(rules) is WildcardRules:
                self.weight -= rules.weight
                better = rules.best(target, rank)
                self.weight += rules.weight
                if better is not None:
                    found, rank = better, better[0]
        return found

    def open_shared(self) -> None:
        """Parse the rules of each literal that is shared by many."""
        for literal, rules in self._lines.items():
            if type(rules) is list and len(rules) > _SHARING:
                opened = self._lines[literal] = self._opened(literal, rules)
                if type(opened) is WildcardRules:
                    opened.open_shared()
                    self.weight += opened.weight

    def _opened(self, literal: str, lines: str | list[str]) -> WildcardRules | tuple[_Parsed, ...]:
        """Return rules that share a literal, parsed; if they are many, divided by the rarest other literal of each."""
        rules = [lines] if type(lines) is str else lines
        if len(rules) > _SHARING:
            known = self._known | {literal}
            others = [[one for one in _runs_of(line) if one and one not in known] for line in rules]
            if any(others):
                times = Counter(chain.from_iterable(others))
                divided: dict[str, str | list[str]] = {}
                for line, choice in zip(rules, others, strict=True):
                    _add(divided, min(choice, key=lambda one: (times[one], -len(one)), default=""), line)
                return WildcardRules(divided, self._places, known)
        self.weight += _weight_of(rules)
        return tuple(sorted([_parsed(self._places[line], line) for line in rules], reverse=True))

    def _literals_in(self, target: str) -> list[str]:
        """Return the literals that are in a target, most of them found by the pieces that it has."""
        found = [one for one in self._few if one in target]
        for size, table in self._grams.items():
            for piece in set(filter(table.__contains__, zip(*map(target.__getitem__, _FROM[:size]), strict=False))):
                found += [one for one in table[piece] if len(one) == size or one in target]
        return found


def _by_piece(literals: Iterable[str], size: int) -> dict[_Piece, list[str]]:
    """Return literals by a piece of them, of `size` octets."""
    table: dict[str, list[str]] = {}
    for literal in literals:
        # The rarest of three pieces keeps the lists short, also where a thousand literals contain the same word.
        middle = (len(literal) - size) // 2
        pieces = (literal[:size], literal[middle : middle + size], literal[len(literal) - size :])
        table.setdefault(min(pieces, key=lambda piece: len(table.get(piece, ()))), []).append(literal)
    return {tuple(piece): found for piece, found in table.items()}


@lru_cache(maxsize=1024)
def no_rule(token: str) -> Decision:
    """Return the decision where no rule of the group matches: allowed (RFC 9309, 2.2.2)."""
    return Decision(True, Reason.NO_RULE, None, token)


class Ruleset:
    """The rules of the group of one product token.

    The first question is answered by `scan.best_rule`; the second one builds the index. That has no line numbers, and
    does not know which pattern begins with which other one: both are looked up when they are needed first.

    :param sections: the lines of the group.
    :param token: the product token, as the crawler writes it.
    """

    def __init__(self, sections: Sequence[Section], token: str) -> None:
        self._sections, self._token, self._no_rule = sections, token, no_rule(token)
        self._asked = False
        #: Whether `prepare` is through: no question takes long.
        self.prepared: bool = False
        self._heads: list[str] | None = None  # the patterns of plain rules, sorted; `None` until the index is built
        self._parents: dict[str, str] = {}  # for some of them, the longest other one that it begins with
        self._decisions: dict[str, Decision] = {}  # by the pattern as written: if two rules have it, the allow wins
        self._numbers: dict[tuple[bool, str], int] = {}  # line numbers that were looked up; they outlive decisions
        self._texts: list[tuple[str, int]] = []  # of the sections, with the number of the line before each
        self._unusual: dict[tuple[bool, str], list[str]] = {}  # for some plain rules, lines in an unusual spelling
        self._odd: WildcardRules | None = None
        self._weight = 0

    @property
    def weight(self) -> int:
        """About the octets of memory that it takes beside the file. Grows with the questions."""
        odd = 0 if self._odd is None else self._odd.weight
        kept = _PARENT * len(self._parents) + _DECISION * len(self._decisions) + _NUMBER * len(self._numbers)
        return self._weight + odd + kept

    def decide(self, target: str) -> Decision:
        """Return the decision on a request target in normal form."""
        heads = self._heads
        if heads is None:
            if not self._asked:
                self._asked = True
                rule = best_rule(self._sections, target)
                return self._no_rule if rule is None else self._decision(rule[1], target, rule[0], "", rule[2])
            heads = self._build()
        head = heads[bisect_right(heads, target) - 1]
        while head and not target.startswith(head):
            parent = self._parents.get(head)
            head = self._find_parent(head) if parent is None else parent
        if self._odd is not None:
            odd = self._odd.best(target, len(head) << 1 + _PLACE_BITS)
            if odd is not None and not (head and self._before(head, odd)):
                decision = self._decisions.get(odd[3])
                if decision is None or target == ROBOTS_TXT:
                    decision = self._decision(odd[3], target, bool(odd[0] - 1 >> _PLACE_BITS & 1), odd[4])
                return decision
        if not head:
            return self._no_rule
        decision = self._decisions.get(head)
        return self._decision(head, target) if decision is None or target == ROBOTS_TXT else decision

    def prepare(self) -> None:
        """Build the index, and parse rules of which many share a literal: one target may have it."""
        self._asked = True
        if self._heads is None:
            self._build()
        if self._odd is not None:
            self._odd.open_shared()
        self.prepared = True

    def _before(self, head: str, odd: _Parsed) -> bool:
        """Return whether a plain rule is more specific than another one, or as specific and above it in the file."""
        allow = head in self._allowed
        own, other = len(head) << 1 | allow, odd[0] - 1 >> _PLACE_BITS
        return own > other or (own == other and self._number_of(allow, head) < self._number_of(allow, odd[3], odd[4]))

    def _build(self) -> list[str]:
        """Index all rules; return the patterns of plain ones, sorted, and before them an empty one."""
        heads, allowed = [""], list[str]()
        odd: dict[str, str | list[str]] = {}
        places, seen = dict[str, int](), set[str]()
        for section in chain.from_iterable(map(Section.pieces, self._sections)):
            text = section.text()
            self._texts.append((text, section.agent_line))
            parts = divide_at_plain_rules(text)
            heads += parts[2::3]
            if None in (kinds := parts[1::3]):
                allowed += [pattern for kind, pattern in zip(kinds, parts[2::3], strict=True) if kind is None]
            for line, literal in other_lines("".join(parts[::3]), seen):
                self._weight += _OTHER_LINE + 2 * len(line)
                if literal is not None:
                    places[line] = len(places)
                    _add(odd, literal, line)
                    continue
                allow, pattern = read_rule(line) or (False, "")
                self._unusual.setdefault((allow, pattern), []).append(line)
                heads.append(pattern)
                if allow:
                    allowed.append(pattern)
            self._weight += 2 * len(text) + _SECTION
        heads.sort()
        self._allowed = frozenset(allowed)
        self._odd = WildcardRules(odd, places) if odd else None
        self._weight += _PLAIN_RULE * len(heads) + _ALLOW * len(allowed)
        self._heads = heads  # last, because another thread may ask meanwhile
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
            same, different = 2, min(len(text), len(before)) + 1
            # What is before that has at most as many octets in common with the text as that has.
            while different - same > 1:
                middle = (same + different) // 2
                if text.startswith(before[:middle]):
                    same = middle
                else:
                    different = middle
            text = text[:same]
        self._parents[head] = text
        return text

    def _decision(
        self, pattern: str, target: str, allow: bool | None = None, line: str = "", number: int = 0
    ) -> Decision:
        """Return the decision by a rule on a target that it matches.

        :param allow: whether it allows; ``None``: it is plain.
        :param line: the line of a rule that is not plain.
        :param number: the number of its line, where that is known.
        """
        decision = self._decisions.get(pattern)
        if decision is None:
            if allow is None:
                allow = pattern in self._allowed
            kind = RuleKind.ALLOW if allow else RuleKind.DISALLOW
            rule = Rule(kind, as_text(pattern), number or self._number_of(allow, pattern, line))
            decision = Decision(allow, Reason.RULE, rule, self._token)
            if len(self._decisions) >= _KEPT_DECISIONS:
                self._decisions.clear()
            self._decisions[pattern] = decision
        if not decision.allowed and target == ROBOTS_TXT:
            return Decision(True, Reason.ROBOTS_TXT, None, self._token)
        return decision

    def _number_of(self, allow: bool, pattern: str, line: str = "") -> int:
        """Return the number of the first line that has a rule.

        :param line: the line of a rule that is not plain.
        """
        number = self._numbers.get((allow, pattern))
        if number is None:
            lines = [line] if line else self._unusual.get((allow, pattern), ())
            number = 0
            for text, before in self._texts:
                place = -1 if line else plain_place(text, allow, pattern)
                for one in lines:
                    at = text.find(f"\n{one}\n", 0, len(text) if place < 0 else place)
                    place = place if at < 0 else at + 1
                if place >= 0:
                    number = before + text.count("\n", 0, place)
                    break
            self._numbers[allow, pattern] = number
        return number
