"""The rules of one group, indexed so that the most specific match is found fast (RFC 9309, 2.2.2).

Most rules are prefixes, such as `/shop/`. In sorted order, the longest prefix of a target comes
directly before the target, or only rules that begin with that prefix come between. All other rules
have a wildcard or an escape. Each of them contains a literal: characters that a target must contain
to match it. Only the rules whose literal is in the target are tried.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, compress, filterfalse

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.groups import ANY_RULE, FIRST_LETTERS, USUAL_KEY, Section
from scrapy_robots_rfc.core.lines import BLANKS, MAX_LINE, RULES, as_text, read_line
from scrapy_robots_rfc.core.percent import BARE, NORMAL_RUN, Pattern, parse_pattern, specificity
from scrapy_robots_rfc.core.preferences import PathPreference

#: The target that is always allowed (RFC 9309, 2.2.2).
ROBOTS_TXT = "/robots.txt"

# Splits a text at rules in their usual spelling: `Disallow: /a*b` becomes `Dis`, the prefix `/a`
# and the rest `*b`.
_split_at_rules = re.compile(rf"\n{USUAL_KEY}[ \t]*+(/{NORMAL_RUN}|)([^\n]*+)").split
# A rule in another spelling: `disalow: /x`, `Disallow /x`.
_UNUSUAL_RULE = re.compile(rf"\n(?=[ \t]*+{FIRST_LETTERS})(?!{USUAL_KEY}){ANY_RULE}")
# A line that is too long, with the part of it that counts as group 1.
_TOO_LONG = re.compile(rf"(\n[^\n]{{{MAX_LINE}}})[^\n]+")
# A pattern without escapes or `$`: `/a*b`.
_is_bare = re.compile(f"[*{re.escape(BARE)}]*+").fullmatch
# Splits a pattern at everything that is not compared as it is: `/a`, `b` and `` for `/a*b$`.
_split_at_special = re.compile(f"%[0-9A-Fa-f]{{2}}|[^{re.escape(BARE)}]").split

# Bytes that one regular expression or sort processes, approximately. No other thread runs during
# that time, and 64 KiB take some milliseconds.
_PIECE = 65_536
# With more rules that are not prefixes, all substrings of a target are looked up, instead of
# searching the target for each literal. The literals then have one of these sizes.
_FEW = 96
_SIZES = (0, 1, 2, 3, 5, 8)
# When this many rules share a literal, `prepare` parses them up front, since one target may need
# them all.
_SHARED = 32
# Maximum stored decisions, so that a crawl to which every rule of a large file applies does not
# double its memory.
_MAX_DECISIONS = 256
# Sorts after every byte.
_AFTER_ALL = "\u0100"
# More lines than a file has.
_MAX_LINES = 1 << 32

# A rule that is not a prefix: its rank, its needle, the parsed pattern, and the pattern as written.
_ParsedRule = tuple[int, str, Pattern, str]


def text_pieces(file: bytes, section: Section) -> Iterator[tuple[int, str]]:
    """Yield the lines of a section in texts of up to 64 KiB, or one longer line; cut long lines.

    Each text begins with a line end. The number of the line above it comes first.
    """
    start, end, above = section
    while start < end:
        stop = end
        if end - start > _PIECE:
            stop = file.rfind(b"\n", start + 1, start + _PIECE)
            stop = stop if stop >= 0 else file.find(b"\n", start + _PIECE, end)
            stop = stop if stop >= 0 else end
        text = file[start:stop].decode("latin-1")
        yield above, _TOO_LONG.sub(r"\1", text) if len(text) > MAX_LINE else text
        above += file.count(b"\n", start, stop)
        start = stop


def split_at_rules(text: str) -> list[str]:
    """Split a text at its rules into four parts for each, and the text after the last one.

    The parts are the text before the rule, a text that is empty for an allow, the prefix at the
    beginning of the pattern, and the rest of the line.
    """
    parts = _split_at_rules(text)
    if _UNUSUAL_RULE.search("".join(parts[::4])):
        parts = _split_at_rules(_UNUSUAL_RULE.sub(lambda line: _usual(line[0]), text))
    return parts


@lru_cache(maxsize=64)  # a hostile file may repeat a line that takes long to read
def _usual(line: str) -> str:
    """Return a line with its rule in the usual spelling, or an empty line if it has none."""
    kind, _, pattern = read_line(line[1:])
    return f"\n{kind.value}:{pattern}" if kind in RULES else "\n"


class RuleIndex:
    """The rules of one group, for all crawlers to which it applies. The first lookup builds it.

    :param file: the bytes of the file.
    :param sections: the lines of the group.
    """

    def __init__(self, file: bytes, sections: Sequence[Section]) -> None:
        self._file = file
        self._sections = sections
        #: Whether `prepare` has ended, so that no lookup takes long.
        self.prepared: bool = False
        #: The group's preferences of use, after they were read.
        self.preferences: Mapping[str, Sequence[PathPreference]] | None = None
        #: Pattern -> the line of the first rule that allows, or else the first one, negated.
        self.lines: dict[str, int] = {}
        self._prefixes: list[str] = []  # sorted; the first one is empty
        # For each prefix, the index of the longest other prefix with which it begins.
        self._parents: list[int] = []
        # Literal -> the other rules: first their patterns, one per line, and parsed rules after a
        # target with the literal was looked up.
        self._others: dict[str, str | tuple[_ParsedRule, ...]] = {}
        self._sizes: set[int] = set()  # sizes of the literals, if substrings are looked up

    def find(self, target: str) -> str:
        """Return the pattern of the rule that decides about a target in normal form, or nothing."""
        prefixes = self._prefixes or self.build()
        at = bisect_right(prefixes, target) - 1
        while not target.startswith(prefixes[at]):
            at = self._parents[at]
        best = prefixes[at]
        others = self._others
        if not others:
            return best
        rank = None  # computed only for a target that contains a literal: most do not
        # `in` looks up a set of substrings, or searches the target itself.
        pieces = self._pieces_of(target) if self._sizes else target
        for literal in others if pieces is target else pieces:
            if literal in pieces:
                if rank is None:
                    rank = self._rank(best)
                rules = others[literal]
                if isinstance(rules, str):
                    rules = self._parse(literal, rules)
                for rule_rank, needle, pattern, text in rules:
                    if rule_rank < rank:
                        break
                    if needle in pieces and pattern.matches(target):
                        best, rank = text, rule_rank
                        break
        return best

    def prepare(self) -> None:
        """Build the index, and parse the rules of each literal that many rules share."""
        if not self._prefixes:
            self.build()
        for literal, rules in self._others.items():
            if isinstance(rules, str) and rules.count("\n") >= _SHARED:
                self._parse(literal, rules)
        self.prepared = True

    def build(self) -> list[str]:
        """Index all rules, and return the prefixes."""
        lines: dict[str, int] = {}
        others: dict[str, None] = {}  # the patterns that are not prefixes, in order
        for section in self._sections:
            for above, text in text_pieces(self._file, section):
                line = above
                parts = iter(split_at_rules(text))
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
        self._prefixes = prefixes  # last, because another thread may look up a target
        return prefixes

    def _pieces_of(self, target: str) -> set[str]:
        """Return the substrings of a target that are literals or needles."""
        pieces = {target[at : at + size] for size in self._sizes for at in range(len(target))}
        return pieces & self._others.keys()

    def _rank(self, pattern: str) -> int:
        """Return the rank of a rule: by specificity, then allow first, then the earlier line."""
        line = self.lines.get(pattern, 0)
        return (specificity(pattern) << 1 | (line > 0)) * _MAX_LINES - abs(line)

    def _parse(self, literal: str, text: str) -> tuple[_ParsedRule, ...]:
        """Parse the rules of a literal, store and return them, the most specific one first."""
        patterns = text.split("\n")
        rules: list[_ParsedRule] = []
        for pattern in patterns:
            # A single rule needs no needle besides its literal.
            needle = literal if len(patterns) == 1 else _needle(_runs_of(pattern))
            rules.append((self._rank(pattern), needle, parse_pattern(pattern), pattern))
        rules.sort(reverse=True)
        parsed = self._others[literal] = tuple(rules)
        return parsed


def _runs_of(pattern: str) -> list[str]:
    """Split a pattern into runs of characters that a target must contain; some may be empty."""
    return pattern.split("*") if _is_bare(pattern) else _split_at_special(pattern)


def _parents_of(prefixes: list[str]) -> list[int]:
    """Return, for each prefix, the index of the longest other prefix with which it begins.

    :param prefixes: sorted, so that all that begin with one follow it directly.
    """
    parents = [0] * len(prefixes)
    begins_with_last = map(str.startswith, prefixes[2:], prefixes[1:])
    for at in compress(range(1, len(prefixes)), begins_with_last):
        end = bisect_left(prefixes, prefixes[at] + _AFTER_ALL, at)
        parents[at + 1 : end] = [at] * (end - at - 1)  # longer ones overwrite it later
    return parents


def _by_literal(patterns: Collection[str]) -> dict[str, list[str]]:
    """Return patterns by a literal of each.

    The literal of a pattern is its longest run. If there are many patterns, it is an end of the
    rarest run, so that few patterns share a literal. The needle of each pattern is then a key, too,
    so that it is looked up in targets.
    """
    found: dict[str, list[str]] = {}
    if len(patterns) <= _FEW:
        for pattern in patterns:
            found.setdefault(max(_runs_of(pattern), key=len), []).append(pattern)
        return found
    counts = Counter(chain.from_iterable(map(_runs_of, patterns)))
    for pattern in patterns:
        runs = _runs_of(pattern)
        found.setdefault(_needle(runs), [])
        ends = _ends(min(runs, key=counts.__getitem__))
        found.setdefault(min(ends, key=lambda end: len(found.get(end, ()))), []).append(pattern)
    return found


def _ends(run: str) -> tuple[str, str]:
    """Return the first and the last characters of a run, as many as the largest fitting size."""
    size = _SIZES[bisect_right(_SIZES, len(run)) - 1]
    return run[:size], run[len(run) - size :]


def _needle(runs: Sequence[str]) -> str:
    """Return the last characters of a pattern's runs: few rules with one literal share them."""
    return _ends(runs[-1] or runs[-2])[1]


@dataclass(slots=True, eq=False, repr=False)
class Ruleset:
    """The decisions for one product token.

    :param index: the rules of its group.
    :param token: as the crawler writes it, or `None` if no group applies.
    :param decisions: the decisions so far, by the pattern that decided.
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
        if len(self.decisions) >= _MAX_DECISIONS:
            self.decisions.clear()
        self.decisions[pattern] = decision
        return decision
