"""An index of the rules of one group: it finds the most specific rule that matches (RFC 9309, 2.2.2).

Most rules are plain prefixes. In sorted order, the longest one with which a target begins is the one right before the
target or a prefix of that one, so a binary search and a short walk find it. Of the other rules, only those are tried
that have a literal in the target, and only those are parsed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from functools import lru_cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.lines import MAX_LINE, as_text, read_rule
from scrapy_robots_rfc.core.pattern import Pattern, parse_pattern, precedence
from scrapy_robots_rfc.core.scan import USUAL_KEYS, Section, best_rule, no_others, other_lines, plain_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_robots_rfc.core.scan import RawRule

ROBOTS_TXT = "/robots.txt"

# More than the number of any line.
_NO_LINE = 1 << 40
# The keys of `Ruleset._first` for a whole line.
_NO_KEY = frozenset({b""})
_START = attrgetter("start")

# With fewer literals than this, it is faster to look for each of them than to look up the target's own pieces.
_FEW = 64
# Octets of a piece.
_GRAM = 3
# More rules with one literal are divided by another literal of theirs when a target has the first one.
_SHARING = 3

# More plain rules are sorted before those of all pieces are: it is faster to merge them in one go than to sort them so,
# and no other thread runs meanwhile.
_RUN = 1000

# Decisions that are kept, so that a crawl to which every rule of a large file applies does not double its memory. They
# are in a dict that is cleared when full, because a warm verdict takes 10 % longer with `lru_cache`.
_KEPT_DECISIONS = 256

# Octets of memory, as measured: for a plain rule beside its pattern, for an allow beside that, for a plain rule that
# another one begins with, for a line that is not plain, for one of these that is parsed, with as much for each wildcard
# and each escape, for a line number that is kept, for a decision, for a part of the group.
_PLAIN_RULE, _ALLOW, _PARENT, _OTHER_LINE, _PARSED, _STAR, _ESCAPE = 75, 60, 150, 510, 500, 60, 260
_NUMBER, _DECISION, _SECTION = 180, 400, 150


# The rule of a line that is not plain: its rank, its pattern, that as written, and the line. The upper bits of a rank
# are `pattern.precedence`, the lower ones the place counted backwards, as of equal rules the first one counts.
_Parsed = tuple[int, Pattern, str, str]
_PLACE_BITS = 32


def _add(table: dict[str, str | list[str]], key: str, line: str) -> None:
    """Add a line to those of a key. One alone is not in a list: the garbage collector would go through 50,000 lists."""
    before = table.setdefault(key, line)
    if type(before) is list:
        before.append(line)
    elif before is not line:
        table[key] = [str(before), line]


def _parsed(place: int, line: str) -> _Parsed:
    allow, text = read_rule(line) or (False, "")
    return (precedence(allow, text) + 1 << _PLACE_BITS) - place, parse_pattern(text), text, line


def _weight_of(line: str) -> int:
    octets = sum(octet > "\x7f" for octet in line)
    return _PARSED + _STAR * line.count("*") + _ESCAPE * line.count("%") + 2 * len(line) + 8 * octets


class WildcardRules:
    """The rules that are not plain. They are parsed when a target contains a literal of theirs.

    :param rules: their lines, by a literal that a target must contain.
    :param places: the place of each of these lines among them all.
    :param known: other literals that a target is known to contain.
    """

    __slots__ = ("_grams", "_known", "_lines", "_places", "weight")

    def __init__(
        self, rules: dict[str, str | list[str]], places: dict[str, int], known: frozenset[str] = frozenset()
    ) -> None:
        self._lines: dict[str, str | list[str] | tuple[_Parsed, ...] | WildcardRules] = {**rules}
        self._places, self._known = places, known
        self._grams = _grams_of(rules) if len(rules) > _FEW else {}
        self.weight = 0  # octets of memory, beside the lines; grows with the questions

    def best(self, target: str, rank: int) -> _Parsed | None:
        """Return the rule of the highest rank above `rank` that matches a target, or ``None``."""
        found, lines = None, self._lines
        near = [(literal, lines[literal]) for literal in self._literals_for(target)] if self._grams else lines.items()
        for literal, kept in near:
            if literal not in target:
                continue
            rules = kept
            if type(rules) is str or type(rules) is list:
                rules = lines[literal] = self._opened(literal, rules)
            if type(rules) is tuple:
                for rule in rules:
                    if rule[0] > rank and rule[1].matches(target):
                        found, rank = rule, rule[0]
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
            others = [tuple(one for one in _parsed(0, line)[1].needles if one not in known) for line in rules]
            if any(others):
                times = Counter(chain.from_iterable(others))
                divided: dict[str, str | list[str]] = {}
                for line, choice in zip(rules, others, strict=True):
                    _add(divided, min(choice, key=lambda one: (times[one], -len(one)), default=""), line)
                return WildcardRules(divided, self._places, known)
        self.weight += sum(map(_weight_of, rules))
        return tuple(sorted((_parsed(self._places[line], line) for line in rules), reverse=True, key=itemgetter(0)))

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
        "_no_rule",
        "_numbers",
        "_odd",
        "_parents",
        "_sections",
        "_token",
        "_unusual",
        "_weight",
    )

    def __init__(self, sections: Sequence[Section], token: str) -> None:
        self._sections, self._token, self._no_rule = sections, token, no_rule(token)
        self._asked = False
        self._heads: list[str] | None = None  # the patterns of plain rules, sorted; `None` until the index is built
        self._parents: dict[str, str] = {}  # for some of them, the longest other one that it begins with
        self._decisions: dict[str, Decision] = {}  # by the pattern as written: if two rules have it, the allow wins
        self._numbers: dict[str, int] = {}  # of the line with an end
        self._odd: WildcardRules | None = None
        self._weight = 0

    @property
    def weight(self) -> int:
        """About the octets of memory that it takes beside the file. Grows with the questions."""
        odd = 0 if self._odd is None else self._odd.weight
        return self._weight + odd + _PARENT * len(self._parents) + _DECISION * len(self._decisions)

    def decide(self, target: str) -> Decision:
        """Return the decision on a request target in normal form."""
        heads = self._heads
        if heads is None:
            if not self._asked:
                self._asked = True
                rule = best_rule(self._sections, target)
                return self._no_rule if rule is None else self._decision(rule[1], target, rule)
            heads = self._build()
        head = heads[bisect_right(heads, target) - 1]
        while not target.startswith(head):
            parent = self._parents.get(head)
            head = self._find_parent(head) if parent is None else parent
        if self._odd is not None:
            odd = self._odd.best(target, len(head) << 1 + _PLACE_BITS)
            if odd is not None and not (head and self._before(head, odd)):
                return self._decision(odd[2], target, odd)
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

    def _before(self, head: str, odd: _Parsed) -> bool:
        """Return whether a plain rule is more specific than another one, or as specific and above it in the file."""
        own, other = len(head) << 1 | (head in self._allowed), odd[0] - 1 >> _PLACE_BITS
        return own > other or (own == other and self._line_of(head) < self._number_of(odd[3]))

    def _build(self) -> list[str]:
        """Index all rules; return the patterns of plain ones, sorted, and before them an empty one."""
        heads, allowed = [""], []
        odd: dict[str, str | list[str]] = {}
        self._unusual: dict[tuple[bool, str], list[str]] = {}  # lines of plain rules in an unusual spelling
        places, seen = dict[str, int](), set[str]()
        for section in chain.from_iterable(map(Section.pieces, self._sections)):
            text = section.text()
            disallows, allows = plain_rules(text)
            if len(disallows) + len(allows) > _RUN:
                disallows.sort()
                allows.sort()
            heads += disallows
            allowed += allows
            if no_others(text, len(disallows) + len(allows)):
                continue
            for line, literal in other_lines(text, seen):
                self._weight += _OTHER_LINE + 2 * len(line)
                if literal is not None:
                    places[line] = len(places)
                    _add(odd, literal, line)
                    continue
                rule = read_rule(line) or (False, "")
                self._unusual.setdefault(rule, []).append(line)
                (allowed if rule[0] else heads).append(rule[1])
        heads += allowed
        heads.sort()
        self._allowed = frozenset(allowed)
        self._odd = WildcardRules(odd, places) if odd else None
        self._weight += (
            sum(section.end - section.start for section in self._sections)
            + _PLAIN_RULE * len(heads)
            + _ALLOW * len(allowed)
            + _SECTION * len(self._sections)
        )
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

    def _decision(self, pattern: str, target: str, rule: _Parsed | RawRule | None = None) -> Decision:
        """Return the decision by a rule on a target that it matches.

        :param rule: the rule; ``None``: it is plain.
        """
        decision = self._decisions.get(pattern)
        if decision is None:
            if rule is None:
                allow, line = pattern in self._allowed, self._line_of(pattern)
            elif len(rule) == 3:
                allow, _, line = rule
            else:
                allow, line = bool(rule[0] - 1 >> _PLACE_BITS & 1), self._number_of(rule[3])
            kind = RuleKind.ALLOW if allow else RuleKind.DISALLOW
            decision = Decision(allow, Reason.RULE, Rule(kind, as_text(pattern), line), self._token)
            if len(self._decisions) >= _KEPT_DECISIONS:
                self._decisions.clear()
            self._decisions[pattern] = decision
        if not decision.allowed and target == ROBOTS_TXT:
            return Decision(True, Reason.ROBOTS_TXT, None, self._token)
        return decision

    def _line_of(self, pattern: str) -> int:
        """Return the number of the first line that is the plain rule of a pattern."""
        allow = pattern in self._allowed
        number = self._first(pattern, USUAL_KEYS[allow])
        unusual = self._unusual.get((allow, pattern)) if self._unusual else None
        return min(number, *map(self._number_of, unusual)) if unusual else number

    def _number_of(self, line: str) -> int:
        """Return the number of the first line that is equal to one."""
        return self._first(f"\n{line}", _NO_KEY)

    def _first(self, end: str, keys: frozenset[bytes]) -> int:
        """Return the number of the first line with an end, and with a key before that; a very large one if none has."""
        number = self._numbers.get(end)
        if number is not None:
            return number
        first = self._sections[0]
        octets = first.octets if first.octets.endswith(b"\n") else first.octets + b"\n"
        # Of a line that is too long, only the beginning counts.
        wanted = (end if len(end) > MAX_LINE else f"{end}\n").encode("latin-1")
        number, at = _NO_LINE, octets.find(wanted, first.start)
        while at >= 0:
            start = octets.rfind(b"\n", 0, at + 1)
            if octets[start + 1 : at] in keys:
                section = self._sections[bisect_right(self._sections, start, key=_START) - 1]
                if start < section.end:  # else the line stands in a group of other tokens
                    number = section.agent_line + octets.count(b"\n", section.start, start) + 1
                    break
            at = octets.find(wanted, at + 1)
        if len(self._numbers) >= _KEPT_DECISIONS:
            self._weight -= sum(_NUMBER + len(known) for known in self._numbers)
            self._numbers.clear()
        self._weight += _NUMBER + len(end)
        self._numbers[end] = number
        return number
