"""An index of a group's rules that finds the most specific match quickly (RFC 9309, 2.2.2).

Most rules are plain prefixes, such as `/shop/`. They are sorted, so a binary search for the target
ends at the longest matching prefix, or at a longer rule that starts with it.

All other rules are "special": they contain something that isn't plain text, such as a wildcard or
an escape, or they don't start with `/`. Whatever isn't plain splits a pattern into "runs" of text
that every matching target contains. For example, `/a*b/c$` has the runs `/a` and `b/c`. One of
the runs, or a part of it, is the rule's "literal". A special rule is only tried if the target
contains its literal. If several rules share a literal, each is also checked for its "needle", the
end of its last run.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.groups import ANY_RULE, FIRST_LETTERS, USUAL_KEY, Section
from scrapy_robots_rfc.core.lines import BLANKS, MAX_LINE, RULES, as_text, read_line
from scrapy_robots_rfc.core.percent import BARE, NORMAL_RUN, Pattern, parse_pattern, specificity
from scrapy_robots_rfc.core.preferences import PathPreference

#: The request target that is always allowed (RFC 9309, 2.2.2).
ROBOTS_TXT = "/robots.txt"

# Splits a text at correctly spelled rules: `Disallow: /a*b` becomes `Dis`, `/a` and `*b`.
_split_at_rules = re.compile(rf"\n{USUAL_KEY}[ \t]*+(/{NORMAL_RUN}|)([^\n]*+)").split
# A misspelled rule: `disalow: /x`, `Disallow /x`.
_UNUSUAL_RULE = re.compile(rf"\n(?=[ \t]*+{FIRST_LETTERS})(?!{USUAL_KEY}){ANY_RULE}")
# A line longer than `MAX_LINE`: `Disallow: /aaaa...`. Group 1 is the part up to the limit.
_TOO_LONG = re.compile(rf"(\n[^\n]{{{MAX_LINE}}})[^\n]+")
# Replaces escapes and special characters in patterns, one per line.
_replace_special = re.compile(f"%[0-9A-Fa-f]{{2}}|[^\n{re.escape(BARE)}]").sub

# Approximate number of bytes to process at a time. Regular expressions hold the GIL, so a larger
# piece would block the event loop for more than a few milliseconds.
_PIECE = 65_536
# With up to this many special rules, we search the target for each literal. With more rules, we
# look up all substrings of the target up to a maximum size instead.
_MAX_SEARCHES = 96
_MAX_SIZE = 8
# About how many characters of special rules to compare with a target, which takes 20 ms at first,
# and less later. Of the remaining rules, each Disallow counts as a match. In 1,000 real files, at
# most 2,300 characters are compared.
_MAX_COMPARED = 8000
# Maximum number of decisions to cache. Caching one for each rule could double the memory used by a
# file.
_MAX_DECISIONS = 256
# A character that sorts after every byte.
_AFTER_ALL = "\u0100"
# A number larger than any line number.
_MAX_LINES = 1 << 32

# The rank, needle and pattern of a special rule.
_RankedRule = tuple[int, str, str]


def text_pieces(file: bytes, section: Section) -> Iterator[tuple[int, str]]:
    """Decode a section in pieces of up to 64 KiB, and truncate lines that are too long.

    A line of more than 64 KiB becomes a piece of its own.

    :returns: pairs of a line number and a piece. The piece starts with a newline, and the line
        number is for the line before it.
    """
    start, end, line_before = section
    while start < end:
        stop = end
        if end - start > _PIECE:
            # Stop before the last line that starts within the limit. The newline at `start` belongs
            # to this piece.
            stop = file.rfind(b"\n", start + 1, start + _PIECE)
            if stop < 0:  # the first line is longer than the limit, so stop after it
                stop = file.find(b"\n", start + _PIECE, end)
            if stop < 0:  # the long line is the last one
                stop = end
        text = file[start:stop].decode("latin-1")
        yield line_before, _TOO_LONG.sub(r"\1", text) if len(text) > MAX_LINE else text
        line_before += file.count(b"\n", start, stop)
        start = stop


def split_at_rules(text: str) -> list[str]:
    """Split a text at its rules.

    :returns: four strings for each rule, followed by the text after the last rule. The four strings
        are the text before the rule, ``Dis`` or `None`, the start of the pattern up to the first
        special character, and the rest of the line.
    """
    parts = _split_at_rules(text)
    # Misspelled rules are left in the text between the other rules, which is every fourth part. If
    # there are any, correct them and split the text again.
    if _UNUSUAL_RULE.search("".join(parts[::4])):
        parts = _split_at_rules(_UNUSUAL_RULE.sub(lambda match: _corrected(match[0]), text))
    return parts


@lru_cache(maxsize=64)  # a hostile file may repeat a line that is slow to read
def _corrected(line: str) -> str:
    """Correct the spelling of a rule, or return an empty line if it is none.

    Either way, no line number changes.
    """
    kind, _, pattern = read_line(line[1:])
    return f"\n{kind.value}:{pattern}" if kind in RULES else "\n"


class RuleIndex:
    """The rules in a group, shared by all crawlers that the group applies to.

    The first lookup builds the index.

    :param file: the content of the file.
    :param sections: the lines of the group.
    """

    def __init__(self, file: bytes, sections: Sequence[Section]) -> None:
        self._file = file
        #: The lines of the group.
        self.sections: Sequence[Section] = sections
        #: The group's preferences, or `None` if they have not been read yet.
        self.preferences: Mapping[str, Sequence[PathPreference]] | None = None
        #: Pattern -> the line number of its first Allow rule, or the negated line number of its
        #: first Disallow rule if there is no Allow rule. (A tuple would use more memory.)
        self.signed_lines: dict[str, int] = {}
        self._prefixes: list[str] = []  # sorted, starting with an empty string
        # For each prefix, the index of the longest other prefix that it starts with.
        self._parents: list[int] = []
        # Literal -> the special rules (see the module docstring) that have this literal. They are
        # stored as text with one pattern per line, and are ranked once a target contains the
        # literal. If there are many, needles are keys, too, so that `_literals_in` finds them.
        self._by_literal: dict[str, str | tuple[_RankedRule, ...]] = {}
        # Pattern -> its parsed form, for the patterns that were compared with a target.
        self._parsed: dict[str, Pattern] = {}
        # The sizes of all literals and needles, for looking up a target's substrings. Empty if so
        # few rules are special that searching the target for each literal is faster.
        self._sizes: set[int] = set()

    def find(self, target: str) -> str:
        """Return the most specific pattern that matches a normalized target, or "" if none does."""
        prefixes = self._prefixes or self._build()
        # Start at the last prefix that does not sort after the target. For the target `/shop/z`,
        # this may be `/shop/a`, which does not match, but starts with the longest match, `/shop/`.
        # The search ends at the empty prefix at the latest.
        at = bisect_right(prefixes, target) - 1
        while not target.startswith(prefixes[at]):
            at = self._parents[at]
        longest_prefix = prefixes[at]
        if not self._by_literal:
            return longest_prefix
        return self._find_special(target, longest_prefix)

    def _find_special(self, target: str, best: str) -> str:
        """Return the most specific matching pattern.

        :param best: the most specific plain prefix that matches, or an empty string.
        """
        # A rule can only match if the target contains its literal and its needle. With few special
        # rules, search the target for each of them. With many, first collect the set of literals
        # and needles that the target contains. `needle in searched` then does either.
        searched: str | set[str] = target
        found: Collection[str]
        if self._sizes:  # there are many special rules
            found = searched = self._literals_in(target)
        else:
            found = list(filter(target.__contains__, self._by_literal))
        if not found:  # as for most targets
            return best
        best_rank = self._rank(best)
        candidates = [
            (rank, pattern)
            for literal in found
            for rank, needle, pattern in self._rules_of(literal)
            if rank > best_rank and needle in searched
        ]
        candidates.sort(reverse=True)  # most specific first
        characters_left = _MAX_COMPARED
        for _, pattern in candidates:
            if characters_left > 0:
                is_match = self._matches(pattern, target)
            else:
                is_match = self.signed_lines[pattern] < 0  # Disallow
            characters_left -= len(pattern)
            if is_match:
                return pattern
        return best

    def _matches(self, pattern: str, target: str) -> bool:
        """Return whether a pattern, which is parsed at its first use, matches a target."""
        parsed = self._parsed.get(pattern)
        if parsed is None:
            parsed = self._parsed[pattern] = parse_pattern(pattern)
        return parsed.matches(target)

    def _build(self) -> list[str]:
        """Index all rules, and return the prefixes."""
        self.signed_lines, special = self._read_rules()
        if len(special) > _MAX_SEARCHES:
            by_literal = _group_by_rare_text(special)
            self._sizes = set(map(len, by_literal))
        else:
            # Without a pattern, `_without_special` would return one text too many.
            by_literal = _group_by_longest_run(special) if special else {}
        # A needle that is not a literal has no rules.
        self._by_literal = {key: patterns or () for key, patterns in by_literal.items()}
        prefixes = ["", *sorted(self.signed_lines.keys() - special.keys())]
        self._parents = _parents_of(prefixes)
        self._prefixes = prefixes  # last, so that `find` builds the index again after an error
        return prefixes

    def _read_rules(self) -> tuple[dict[str, int], dict[str, None]]:
        """Return `signed_lines`, and the patterns of all special rules in file order."""
        signed_lines: dict[str, int] = {}
        special: dict[str, None] = {}  # a dict has the same order in each process, unlike a set
        for section in self.sections:
            for line_before, text in text_pieces(self._file, section):
                line = line_before
                # Take the four parts of one rule at a time: for `Disallow: /a*b # c`, these are the
                # lines before it, `Dis`, `/a` and `*b # c`. Leave out the text after the last rule.
                parts = iter(split_at_rules(text))
                for before, disallow, plain, rest in zip(parts, parts, parts, parts, strict=False):
                    line += 1
                    if before:  # there are rarely other lines between two rules
                        line += before.count("\n")
                    pattern = plain
                    if rest:
                        pattern = (plain + rest.partition("#")[0]).rstrip(BLANKS)
                        if pattern != plain:  # otherwise `rest` is only blanks and a comment
                            special[pattern] = None
                    if disallow:
                        signed_lines.setdefault(pattern, -line)
                    elif signed_lines.get(pattern, -1) < 0:  # this is its first Allow rule
                        # Allow wins over Disallow if their patterns are the same (RFC 9309, 2.2.2).
                        signed_lines[pattern] = line
        signed_lines.pop("", None)  # an empty pattern, such as in `Disallow:`, matches nothing
        return signed_lines, special

    def _literals_in(self, target: str) -> set[str]:
        """Return the keys of `_by_literal` (literals and needles) that a target contains.

        The number of sizes is limited, so this takes linear time.
        """
        substrings = {target[at : at + size] for size in self._sizes for at in range(len(target))}
        return substrings & self._by_literal.keys()

    def _rank(self, pattern: str) -> int:
        """Return a number that is higher for more specific rules.

        If two rules are equally specific, it is higher for Allow, then for the first rule in the
        file.
        """
        # Above 0 for Allow. 0 for the empty pattern, which stands for no rule.
        line = self.signed_lines.get(pattern, 0)
        return (2 * specificity(pattern) + (line > 0)) * _MAX_LINES - abs(line)

    def _rules_of(self, literal: str) -> tuple[_RankedRule, ...]:
        """Return the rules that share a literal, most specific first. They are ranked once."""
        rules = self._by_literal[literal]
        if not isinstance(rules, str):
            return rules
        patterns = rules.split("\n")
        # `_find_special` uses needles to skip most of the rules that share a literal. A single rule
        # uses its literal, which the target is known to contain. Rules without a literal have no
        # run, so they have no needle either.
        needles: Iterable[str] = [literal] * len(patterns)
        if literal and len(patterns) > 1:
            needles = map(_needle, _without_special(patterns))
        ranked = sorted(
            zip(map(self._rank, patterns), needles, patterns, strict=True), reverse=True
        )
        by_rank = self._by_literal[literal] = tuple(ranked)  # no two rules have the same rank
        return by_rank


def _parents_of(prefixes: list[str]) -> list[int]:
    """Return the index of the longest other prefix that each prefix starts with.

    For example, the result for "", `/a`, `/a/b` and `/c` is 0, 0, 1 and 0.

    :param prefixes: the sorted prefixes. The first one is empty. Each one is directly followed by
        all longer prefixes that start with it.
    """
    parents = [0] * len(prefixes)  # the first prefix is empty, so the others start with it
    # For each of the others, whether it is a parent, because the prefix that follows it starts with
    # it. `compress` finds the few parents faster than a loop, which matters because a file may
    # contain tens of thousands of prefixes.
    is_parent = map(str.startswith, prefixes[2:], prefixes[1:])
    for parent in compress(range(1, len(prefixes)), is_parent):
        end = bisect_left(prefixes, prefixes[parent] + _AFTER_ALL, parent)
        # All prefixes before `end` start with the parent. If one of them is a parent itself, its
        # turn comes later, so it overwrites this.
        parents[parent + 1 : end] = [parent] * (end - parent - 1)
    return parents


def _group_by_longest_run(patterns: Collection[str]) -> dict[str, str]:
    """Group the patterns of special rules by their longest run, with one pattern per line.

    The fewest targets contain that run, so few rules are tried. Lines need less memory than a list.
    """
    groups: dict[str, list[str]] = {}
    for pattern, text in zip(patterns, _without_special(patterns), strict=True):
        groups.setdefault(max(text.split("*"), key=len), []).append(pattern)
    return {literal: "\n".join(group) for literal, group in groups.items()}


def _group_by_rare_text(patterns: Collection[str]) -> dict[str, str]:
    """Group the patterns of many special rules by a rare part of each, with one pattern per line.

    That way, few rules are tried for a target. The part is the pattern's needle if no other rule
    has that needle, or else the start or end of the pattern's rarest run. The result also contains
    every needle as a key. A rule is only tried if the target contains its needle, too, and
    `_literals_in` only finds keys.
    """
    texts = _without_special(patterns)
    needles = list(map(_needle, texts))
    by_literal = dict.fromkeys(needles, "")
    needle_counts, run_counts = Counter(needles), Counter("*".join(texts).split("*"))
    groups: dict[str, list[str]] = {}
    for pattern, text, needle in zip(patterns, texts, needles, strict=True):
        if needle_counts[needle] == 1:
            by_literal[needle] = pattern  # faster than a list, and there may be 40,000
        else:
            groups.setdefault(_rarest(text, run_counts, groups), []).append(pattern)
    for literal, group in groups.items():
        single = by_literal.get(literal)  # a rule whose needle is the literal of others
        by_literal[literal] = "\n".join([single, *group] if single else group)
    return by_literal


def _rarest(text: str, run_counts: Mapping[str, int], groups: Mapping[str, Sequence[str]]) -> str:
    """Return the start or end of the rarest run in a pattern, whichever fewer rules share.

    :param text: the pattern, as returned by `_without_special`.
    :param run_counts: run -> the number of times that it occurs in all patterns.
    :param groups: literal -> the patterns that have it so far.
    """
    rarest_run = min(filter(None, text.split("*")), key=run_counts.__getitem__, default="")
    start, end = rarest_run[:_MAX_SIZE], rarest_run[-_MAX_SIZE:]
    return end if len(groups.get(end, ())) < len(groups.get(start, ())) else start


def _without_special(patterns: Iterable[str]) -> list[str]:
    """Replace everything between runs in each pattern with `*`: `/a%26b*c$` becomes `/a*b*c*`."""
    return _replace_special("*", "\n".join(patterns)).split("\n")


def _needle(text: str) -> str:
    """Return the end of a pattern's last run, which usually differs between rules.

    :param text: the pattern, as returned by `_without_special`.
    """
    return text.rstrip("*").rpartition("*")[2][-_MAX_SIZE:]


@dataclass(slots=True, eq=False, repr=False)
class Ruleset:
    """The rules and cached decisions for a product token.

    :param index: the rules of its group.
    :param token: the token in the crawler's own spelling, or `None` if no group applies. Then
        `RobotsTxt.decide` doesn't need the rules.
    :param decisions: cached decisions, keyed by the deciding pattern.
    """

    index: RuleIndex
    token: str | None
    decisions: dict[str, Decision] = field(default_factory=dict)

    def cache_decision(self, pattern: str) -> Decision:
        """Cache and return the decision for a pattern, which is empty if no rule matches."""
        line = self.index.signed_lines.get(pattern)  # above 0 for Allow, below 0 for Disallow
        if line is None:
            decision = Decision(True, Reason.NO_RULE, None, self.token)
        else:
            kind = RuleKind.ALLOW if line > 0 else RuleKind.DISALLOW
            rule = Rule(kind, as_text(pattern), abs(line))
            decision = Decision(kind is RuleKind.ALLOW, Reason.RULE, rule, self.token)
        if len(self.decisions) >= _MAX_DECISIONS:
            self.decisions.clear()
        self.decisions[pattern] = decision
        return decision
