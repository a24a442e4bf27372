"""What a crawl reads of a file: the groups of a token, an index of their rules, some other records.

It searches for what it needs instead of reading lines one by one, and has `lines.py` read unusual
lines. It finds the same groups as `findings.py`: a property test compares the two. A file is passed
as octets in which a line end stands before each line, also before the first one.

The index finds the most specific rule that matches (RFC 9309, 2.2.2). Most rules are prefixes, such
as `/shop/`. In sorted order, the longest prefix with which a target begins stands right before the
target, or right before it stands a rule that begins with it. All other rules have a wildcard, or
octets to normalize. Each of them contains a literal, octets that a target must have to match it.
Only the rules whose literal is in the target are tried.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, compress, filterfalse
from typing import NamedTuple

from scrapy_robots_rfc.core.agents import ANY, GroupKey, line_keys, names_in_line
from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.lines import (
    BLANKS,
    MAX_LINE,
    RULE_KEYS,
    RULES,
    LineKind,
    Record,
    as_text,
    read_line,
)
from scrapy_robots_rfc.core.percent import BARE, NORMAL_RUN, Pattern, parse_pattern, specificity
from scrapy_robots_rfc.core.preferences import PathPreference

# A line that may be a user-agent line; its name, if that is a product token or `*` alone.
_AGENT_LINE = re.compile(
    rb"\n([ \t]*+(?i:user[- ]?agent)"
    rb"(?:[ \t]*+:[ \t]*+(?:([A-Za-z_-]++)(?![^ \t/;#\n])|(\*)(?![^ \t\v\f#\n])))?[^\n]*+)"
)
# A line that may be a rule. To look at its first letter first takes half the time.
_FIRST = "".join(sorted({key[0] for key in RULE_KEYS}))
_ANY_RULE = rf"[ \t]*+(?i:(?=[{_FIRST}])(?:{'|'.join(RULE_KEYS)}))[ \t:][^\n]*+"
_rule_lines = re.compile(rf"\n({_ANY_RULE})".encode()).finditer
# A rule in a usual spelling: something for a disallow, the prefix of its pattern, and the rest.
_KEY = r"[ \t]*+(?i:(dis)?+allow)[ \t]*+:"
_divide = re.compile(rf"\n{_KEY}[ \t]*+(/{NORMAL_RUN}|)([^\n]*+)").split
_has_usual_rule = re.compile(rf"\n{_KEY}".encode()).search
_UNUSUAL_RULE = re.compile(rf"\n(?=[ \t]*+(?i:[{_FIRST}]))(?!{_KEY}){_ANY_RULE}")
# A line of which not all counts; its part that counts.
_OVER_LONG = re.compile(rf"(\n[^\n]{{{MAX_LINE}}})[^\n]+")

# Octets that one call of a regular expression or of a sort goes through, about: no other thread
# runs meanwhile, and 64 KiB take some milliseconds.
_PIECE = 65_536

#: The target that is always allowed (RFC 9309, 2.2.2).
ROBOTS_TXT = "/robots.txt"

# With more rules that are no prefixes, it is faster to look up pieces of a target than to look for
# each literal in it. Literals are then as long as one of these sizes, in octets.
_FEW = 96
_SIZES = (0, 1, 2, 3, 5, 8)
# `prepare` parses the rules of a literal that so many share: one target may need them all.
_SHARING = 32
# Decisions that are stored, so that a crawl to which every rule of a large file applies does not
# double its memory.
_STORED_DECISIONS = 256

_split_at_special = re.compile(f"%[0-9A-Fa-f]{{2}}|[^{re.escape(BARE)}]").split
_is_bare = re.compile(f"[*{re.escape(BARE)}]*+").fullmatch
_AFTER_ALL = "\u0100"  # sorts behind every octet
# More lines than a file has.
_LINES = 1 << 32

# A rule that is no prefix: its rank, its needle, its pattern parsed, its pattern as written.
_Parsed = tuple[int, str, Pattern, str]


class AgentLine(NamedTuple):
    """A user-agent line.

    :param start: its offset in the file.
    :param end: the offset after its last byte.
    :param token: what `names_in_line` returns of it: its token
    :param name: and its whole name.
    """

    start: int
    end: int
    token: str
    name: str

    def is_for(self, key: GroupKey) -> bool:
        """Return whether a key selects the line."""
        return key.text == (self.name if key.whole else self.token)


def agent_lines(octets: bytes) -> list[AgentLine]:
    """Return the user-agent lines of a file, in order."""
    found = []
    for line in _AGENT_LINE.finditer(octets):
        start, end = line.span(1)
        if line[2] is not None and end - start <= MAX_LINE:
            token = line[2].decode("ascii").lower()
            found.append(AgentLine(start, end, token, token))
        elif line[3] is not None and end - start <= MAX_LINE:
            found.append(AgentLine(start, end, ANY, ""))
        else:
            names = _unusual_names(line[1][:MAX_LINE])
            if names is not None:
                found.append(AgentLine(start, end, *names))
    return found


@lru_cache(maxsize=64)  # a hostile file may repeat a line that takes long to read
def _unusual_names(line: bytes) -> tuple[str, str] | None:
    """Return the names in a line with an unusual spelling, or `None` for another kind of line."""
    kind, _, value = read_line(line.decode("latin-1"))
    return names_in_line(value) if kind is LineKind.USER_AGENT else None


class Section(NamedTuple):
    """Lines of a file, from the line end before the first one on.

    :param start: the offset of that line end.
    :param end: the offset behind the last line.
    :param above: the number of the line above the first one.
    """

    start: int
    end: int
    above: int


def texts_of(octets: bytes, section: Section) -> Iterator[tuple[int, str]]:
    """Yield the lines of a section in texts of 64 KiB or one line each, over-long lines cut.

    Each begins with a line end, and comes with the number of the line above it.
    """
    start, end, above = section
    while start < end:
        stop = end
        if end - start > _PIECE:
            stop = octets.rfind(b"\n", start + 1, start + _PIECE)
            stop = stop if stop >= 0 else octets.find(b"\n", start + _PIECE, end)
            stop = stop if stop >= 0 else end
        text = octets[start:stop].decode("latin-1")
        yield above, _OVER_LONG.sub(r"\1", text) if len(text) > MAX_LINE else text
        above += octets.count(b"\n", start, stop)
        start = stop


def divide_at_rules(text: str) -> list[str]:
    """Divide a text at its rules into four pieces for each, and what stands behind the last one.

    The four are what stands before a rule, something for a disallow and nothing for an allow, the
    prefix with which the pattern begins, and the rest of the line.
    """
    parts = _divide(text)
    if _UNUSUAL_RULE.search("".join(parts[::4])):
        parts = _divide(_UNUSUAL_RULE.sub(lambda line: _usual(line[0]), text))
    return parts


@lru_cache(maxsize=64)  # a hostile file may repeat a line that takes long to read
def _usual(line: str) -> str:
    """Return a line with its rule in a usual spelling, or without any."""
    kind, _, pattern = read_line(line[1:])
    return f"\n{kind.value}:{pattern}" if kind in RULES else "\n"


def _has_rules(octets: bytes, start: int, end: int) -> bool:
    """Return whether there is a rule in a part of a file."""
    if end - start < len("\nallow:"):
        return False
    if _has_usual_rule(octets, start, end):
        return True
    lines = (line[1].decode("latin-1") for line in _rule_lines(octets, start, end))
    return any(read_line(line)[0] in RULES for line in lines)


def groups_in(
    octets: bytes, agents: Sequence[AgentLine]
) -> Iterator[tuple[tuple[GroupKey, ...], Section]]:
    """Yield the groups of a file in order (RFC 9309, 2.1): the keys that select each, its lines.

    :param octets: the file.
    :param agents: its user-agent lines.
    """
    line = 0
    counted = 0
    at = 0
    while at < len(agents):
        first = at
        at += 1
        # More user-agent lines may follow before the first rule. The next one after a rule begins
        # another group.
        while at < len(agents) and not _has_rules(octets, agents[at - 1].end, agents[at].start):
            at += 1
        start = agents[first].end
        end = agents[at].start - 1 if at < len(agents) else len(octets)
        line += octets.count(b"\n", counted, start)
        counted = start
        keys = dict[GroupKey, None]()
        for agent in agents[first:at]:
            keys.update(dict.fromkeys(line_keys(agent.token, agent.name)))
        yield tuple(keys), Section(start, end, line)


def sections_for(octets: bytes, agents: Sequence[AgentLine], key: GroupKey) -> Iterator[Section]:
    """Yield the lines of the groups that a key selects. Consecutive groups are one section.

    :param octets: the file.
    :param agents: its user-agent lines.
    """
    line = 0
    counted = 0
    at = 0
    while at < len(agents):
        first = at
        at += 1
        if not agents[first].is_for(key):
            continue
        # The section starts after the last line above the first rule, so that it is the same for
        # all crawlers that the group names. It ends where a group begins that is not selected.
        start = agents[first].end
        has_rules = False
        while at < len(agents):
            is_selected = agents[at].is_for(key)
            if not is_selected or not has_rules:
                rules_between = _has_rules(octets, agents[at - 1].end, agents[at].start)
                if rules_between and not is_selected:
                    break
                has_rules = has_rules or rules_between
            if not has_rules:
                start = agents[at].end
            at += 1
        end = agents[at].start - 1 if at < len(agents) else len(octets)
        line += octets.count(b"\n", counted, start)
        counted = start
        yield Section(start, end, line)


def records_in(
    octets: bytes, parts: Iterable[Section], keys: Sequence[str], most: float = math.inf
) -> Iterator[list[Record]]:
    """Yield the records of some keys in each part of a file, in order. Values are octets.

    :param keys: in lower case.
    :param most: how many lines that begin with a key are read at most.
    """
    lines = re.compile(rf"\n[ \t]*+(?i:{'|'.join(keys)})[^\n]*+".encode("ascii"))
    read = lru_cache(maxsize=64)(read_line)  # a hostile file may repeat a line
    for start, end, above in parts:
        records = list[Record]()
        line = above
        counted = start
        for found in lines.finditer(octets, start, end):
            most -= 1
            if most < 0:
                break
            kind, key, value = read(found[0][1:].decode("latin-1"))
            if kind is LineKind.RECORD and key in keys:
                line += octets.count(b"\n", counted, found.end())
                counted = found.end()
                records.append(Record(key, value, line))
        yield records


class RuleIndex:
    """The rules of one group, for all crawlers to which it applies. The first question builds it.

    :param octets: the file.
    :param sections: the lines of the group.
    """

    def __init__(self, octets: bytes, sections: Sequence[Section]) -> None:
        self._octets = octets
        self._sections = sections
        #: Whether `prepare` is through: no question takes long.
        self.prepared: bool = False
        #: What the group says of the use of pages, once that was read.
        self.preferences: Mapping[str, Sequence[PathPreference]] | None = None
        #: The line of each pattern: the first one that allows, or else the first one, as a negative
        #: number.
        self.lines: dict[str, int] = {}
        self._prefixes: list[str] = []  # sorted, behind an empty one
        self._parents: list[int] = []  # of each prefix: the longest other one with which it begins
        # The other rules by literal: their patterns, one a line, until a target has the literal.
        self._others: dict[str, str | tuple[_Parsed, ...]] = {}
        self._sizes: set[int] = set()  # of the literals, if pieces of a target are looked up

    def find(self, target: str) -> str:
        """Return the pattern of the rule that decides on a target in normal form, or nothing."""
        prefixes = self._prefixes or self.build()
        at = bisect_right(prefixes, target) - 1
        while not target.startswith(prefixes[at]):
            at = self._parents[at]
        best = prefixes[at]
        others = self._others
        if not others:
            return best
        rank = None  # computed only for a target that has a literal: most have none
        # With pieces, `in` asks a set; without, it looks into the target.
        octets = self._pieces_of(target) if self._sizes else target
        for literal in others if octets is target else octets:
            if literal in octets:
                if rank is None:
                    rank = self._rank(best)
                rules = others[literal]
                if isinstance(rules, str):
                    rules = self._parse(literal, rules)
                for other, needle, pattern, text in rules:
                    if other < rank:
                        break
                    if needle in octets and pattern.matches(target):
                        best, rank = text, other
                        break
        return best

    def prepare(self) -> None:
        """Build the index, and parse the rules of each literal that many share."""
        if not self._prefixes:
            self.build()
        for literal, rules in self._others.items():
            if isinstance(rules, str) and rules.count("\n") >= _SHARING:
                self._parse(literal, rules)
        self.prepared = True

    def build(self) -> list[str]:
        """Index all rules; return the prefixes."""
        lines: dict[str, int] = {}
        others: dict[str, None] = {}  # the patterns that are no prefixes, in order
        for section in self._sections:
            for above, text in texts_of(self._octets, section):
                line = above
                parts = iter(divide_at_rules(text))
                for before, disallow, head, rest in zip(parts, parts, parts, parts, strict=False):
                    line += before.count("\n") + 1 if before else 1
                    pattern = head
                    if rest:
                        pattern = (head + rest.partition("#")[0]).rstrip(BLANKS)
                        if pattern != head:
                            others[pattern] = None
                    if disallow:
                        lines.setdefault(pattern, -line)
                    elif lines.get(pattern, -1) < 0:
                        lines[pattern] = line
        lines.pop("", None)
        prefixes = ["", *sorted(filterfalse(others.__contains__, lines))]
        by_literal = _by_literal(others)
        self.lines = lines
        self._parents = _parents_of(prefixes)
        self._others = {key: "\n".join(patterns) or () for key, patterns in by_literal.items()}
        self._sizes = {*map(len, by_literal)} if len(others) > _FEW else set()
        self._prefixes = prefixes  # last, because another thread may ask meanwhile
        return prefixes

    def _pieces_of(self, target: str) -> set[str]:
        pieces = {target[at : at + size] for size in self._sizes for at in range(len(target))}
        return pieces & self._others.keys()

    def _rank(self, pattern: str) -> int:
        """Return a number: higher for a more specific rule, then for an allow, then above."""
        line = self.lines.get(pattern, 0)
        return (specificity(pattern) << 1 | (line > 0)) * _LINES - abs(line)

    def _parse(self, literal: str, text: str) -> tuple[_Parsed, ...]:
        """Parse the rules of a literal; return them, the most specific one first."""
        patterns = text.split("\n")
        rules: list[_Parsed] = []
        for pattern in patterns:
            # The needle of a single rule is of no use: the literal has been found already.
            needle = literal if len(patterns) == 1 else _needle(_runs_of(pattern))
            rules.append((self._rank(pattern), needle, parse_pattern(pattern), pattern))
        rules.sort(reverse=True)
        parsed = self._others[literal] = tuple(rules)
        return parsed


def _runs_of(pattern: str) -> list[str]:
    """Divide a pattern into runs of octets that a target must have to match it.

    Some may be empty.
    """
    return pattern.split("*") if _is_bare(pattern) else _split_at_special(pattern)


def _parents_of(prefixes: list[str]) -> list[int]:
    """Return of each prefix where the longest other one stands with which it begins.

    :param prefixes: sorted: all that begin with one come right behind it.
    """
    parents = [0] * len(prefixes)
    nested = map(str.startswith, prefixes[2:], prefixes[1:])
    for at in compress(range(1, len(prefixes)), nested):
        end = bisect_left(prefixes, prefixes[at] + _AFTER_ALL, at)
        parents[at + 1 : end] = [at] * (end - at - 1)  # longer ones overwrite it later
    return parents


def _by_literal(patterns: Collection[str]) -> dict[str, list[str]]:
    """Return patterns by a literal of each.

    That is its longest run. Of many patterns, it is an end of the rarest run, so that few share
    one; the needle of each is a key, too, so that it is among the pieces of a target.
    """
    found: dict[str, list[str]] = {}
    if len(patterns) <= _FEW:
        for pattern in patterns:
            found.setdefault(max(_runs_of(pattern), key=len), []).append(pattern)
        return found
    times = Counter(chain.from_iterable(map(_runs_of, patterns)))
    for pattern in patterns:
        runs = _runs_of(pattern)
        found.setdefault(_needle(runs), [])
        ends = _ends(min(runs, key=times.__getitem__))
        found.setdefault(min(ends, key=lambda end: len(found.get(end, ()))), []).append(pattern)
    return found


def _ends(run: str) -> tuple[str, str]:
    """Return the first and the last octets of a run, as many as the largest size that it has."""
    size = _SIZES[bisect_right(_SIZES, len(run)) - 1]
    return run[:size], run[len(run) - size :]


def _needle(runs: Sequence[str]) -> str:
    """Return the last octets of a pattern's runs: others with its literal have other ones."""
    return _ends(runs[-1] or runs[-2])[1]


@dataclass(slots=True, eq=False, repr=False)
class Ruleset:
    """The decisions for one product token.

    :param index: the rules of its group.
    :param token: as the crawler writes it; ``None``: no group applies.
    :param decisions: by the pattern that decides; only those that were asked for.
    """

    index: RuleIndex
    token: str | None
    decisions: dict[str, Decision] = field(default_factory=dict)

    def decision_by(self, pattern: str) -> Decision:
        """Return and store the decision of a pattern; an empty one means that no rule matches."""
        line = self.index.lines.get(pattern)
        if line is None:
            decision = Decision(True, Reason.NO_RULE, None, self.token)
        else:
            kind = RuleKind.ALLOW if line > 0 else RuleKind.DISALLOW
            rule = Rule(kind, as_text(pattern), abs(line))
            decision = Decision(line > 0, Reason.RULE, rule, self.token)
        if len(self.decisions) >= _STORED_DECISIONS:
            self.decisions.clear()
        self.decisions[pattern] = decision
        return decision
