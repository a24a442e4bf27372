"""The fast way to the rules of one product token: it finds the groups of the token, and reads nothing else of a file.

It searches for the word `agent` instead of reading lines one by one, and leaves unusual lines to `lines.py`. It finds
the same groups as `groups.py`; a property test compares the two.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from scrapy_robots_rfc.core.agents import token_of
from scrapy_robots_rfc.core.groups import Record
from scrapy_robots_rfc.core.lines import BLANKS, MAX_LINE, RULE_KEYS, LineKind, as_text, read_line, read_rule
from scrapy_robots_rfc.core.pattern import is_plain, parse_pattern, precedence
from scrapy_robots_rfc.core.percent import BARE, BARE_RUN, UNRESERVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# The usual user-agent line, in lower case: its token is a run of token characters, or `*` alone.
_USUAL_AGENT = re.compile(rb"[ \t]*user-agent[ \t]*:[ \t]*([a-z_-]+|\*(?=[ \t\v\f#]|\Z))")
# What stands before the first `agent` of a user-agent line, in lower case.
_BEFORE_AGENT = (b"user-", b"user", b"user ")

# The usual spellings of a rule, in octets and in text.
_USUAL_RULE = re.compile(rb"\n(?:[Dd]isa|[Aa])llow: ?/")
_LIKE_A_RULE = re.compile(rb"[lL][oOaA][wW]")  # every key of a rule contains this, also a misspelt one
_KEY = "(?:[Dd]isa|[Aa])llow: ?"
#: How the rules of `sorted_rules` begin, the allows first.
KEYS = ("Allow: ", "Disallow: ")
# Other usual beginnings, and how these are written there; in this order.
_SPELLINGS = (
    ("\nallow:", "\nAllow:"),
    ("\ndisallow:", "\nDisallow:"),
    ("\nAllow:/", "\nAllow: /"),
    ("\nDisallow:/", "\nDisallow: /"),
)
# In sorted lines, comments are from the first place to the second one, rules from each further one to the next.
_PLACES = ("#", "$", "Allow: /", "Allow: 0", "Disallow: /", "Disallow: 0")
_BARE = BARE_RUN.pattern
_BARE_OCTETS = BARE.encode()
_FIRST_RULE = re.compile(rf"\n{_KEY}/").search
# A pattern of bare octets, without a wildcard.
_PLAIN = rf"/{_BARE}+"
# A rule whose pattern may have wildcards or escapes, or any other line that may be a rule.
_RULE = (
    rf"(?:(?:([Dd]is)a|[Aa])llow:[ \t]*(/{_BARE}|)((?:\*({_BARE})(?:\*({_BARE}))?)?[^\n#]*)"
    rf"|([ \t]*+(?=[AaDd])(?i:{'|'.join(RULE_KEYS)})[ \t:][^\n]*))"
)

# All lines that may be rules, but plain ones in usual spellings.
_OTHERS = re.compile(rf"\n(?!{_KEY}{_PLAIN}\n|[#\n]|\Z)({_RULE}[^\n]*)").findall

# How many octets of a target exclude lines. An expression is compiled for each such prefix, so usually it is one octet;
# in a text larger than this, the compilation takes less time than the lines that more octets exclude.
_LARGE = 65_536
_DEEP = 8

# Octets that one call of a regular expression or of a sort goes through, about: no other thread runs meanwhile, and
# 64 KiB take some milliseconds.
_PIECE = 65_536

# A user-agent line: start and end offset, and its token in the form in which tokens compare.
AgentLine = tuple[int, int, str]
# A rule: whether it allows, its pattern as octets, its line number in the file.
RawRule = tuple[bool, str, int]


def agent_lines(octets: bytes) -> list[AgentLine]:
    """Return the user-agent lines of a file, in order.

    :param octets: the file; every line ends in LF.
    """
    lower = octets.lower()
    found = []
    unusual: dict[bytes, str | None] = {}  # a hostile file may repeat a line that takes long to read
    at = lower.find(b"agent")
    while at >= 0:
        start = lower.rfind(b"\n", 0, at) + 1
        end = lower.find(b"\n", at)
        if end < 0:
            end = len(lower)
        if lower[max(start, at - 5) : at].endswith(_BEFORE_AGENT):
            usual = _USUAL_AGENT.match(lower, start, end) if end - start <= MAX_LINE else None
            if usual:
                token: str | None = usual[1].decode("ascii")
            elif (line := octets[start:end]) in unusual:
                token = unusual[line]
            else:
                token = unusual[line] = _unusual_token(line)
            if token is not None:
                found.append((start, end, token))
        at = lower.find(b"agent", end)
    return found


def _unusual_token(line: bytes) -> str | None:
    """Return the token of a line in an unusual spelling; ``None`` where it is no user-agent line."""
    parsed = read_line(line.decode("latin-1"))
    return token_of(parsed.value) if parsed.kind is LineKind.USER_AGENT else None


class Section(NamedTuple):
    """The lines between a user-agent line and the next one, as offsets into the file, so that nothing is copied.

    :param octets: the file.
    :param start: the offset at which the user-agent line ends.
    :param end: the offset of the next user-agent line, or of the end of the file.
    :param agent_line: the number of the user-agent line.
    """

    octets: bytes
    start: int
    end: int
    agent_line: int

    def pieces(self) -> Sequence[Section]:
        """Return sections of whole lines, 64 KiB or one line each, that it consists of; none if it has no rules."""
        if not _LIKE_A_RULE.search(self.octets, self.start, self.end):  # a hostile file has 40,000 sections like that
            return ()
        if self.end - self.start <= _PIECE:
            return (self,)
        found, start, line = [], self.start, self.agent_line
        while self.end - start > _PIECE:
            stop = self.octets.rfind(b"\n", start + 1, start + _PIECE)
            stop = stop if stop >= 0 else self.octets.find(b"\n", start + _PIECE, self.end - 1)
            if stop < 0:
                break
            found.append(Section(self.octets, start, stop + 1, line))
            line, start = line + self.octets.count(b"\n", start, stop), stop
        return [*found, Section(self.octets, start, self.end, line)]

    def text(self) -> str:
        """Return its lines as octets, one character each, from line end to line end; over-long lines are cut."""
        text = self.octets[self.start : self.end].decode("latin-1")
        if len(text) > MAX_LINE:
            text = "\n".join(line[:MAX_LINE] for line in text.split("\n"))
        return text if text.endswith("\n") else text + "\n"

    def has_rules(self) -> bool:
        """Return whether one of its lines is a rule."""
        if not _LIKE_A_RULE.search(self.octets, self.start, self.end):
            return False
        if _USUAL_RULE.search(self.octets, self.start, self.end):
            return True
        return any(map(read_rule, self.text().split("\n")))

    def records(self, lower: bytes, keys: Sequence[str]) -> Iterator[Record]:
        """Yield the records of some keys, in order.

        :param lower: the file in lower case.
        :param keys: in lower case.
        """
        lines = {}
        for key in keys:
            word = key.encode("ascii")
            at = lower.find(word, self.start, self.end)
            while at >= 0:
                stop = lower.find(b"\n", at, self.end)
                stop = self.end if stop < 0 else stop
                lines[lower.rfind(b"\n", 0, at) + 1] = stop
                at = lower.find(word, stop, self.end)
        number, counted = self.agent_line, self.start
        read = lru_cache(maxsize=64)(read_line)  # a hostile file may repeat a line
        for start, stop in sorted(lines.items()):
            parsed = read(self.octets[start:stop].decode("latin-1"))
            if parsed.kind is LineKind.RECORD and parsed.key in keys:
                number, counted = number + self.octets.count(b"\n", counted, start), start
                yield Record(parsed.key, as_text(parsed.value), number)


def sections(octets: bytes, agents: Sequence[AgentLine], token: str, *, whole: bool = False) -> list[Section]:
    """Return the lines of all groups of one token, in the order of the file (RFC 9309, 2.2.1: one group in all).

    :param octets: the file; every line ends in LF.
    :param agents: its user-agent lines.
    :param token: in the form in which tokens compare.
    :param whole: return also what stands in a group above the user-agent line of the token. There is no rule among
        that, but other records belong to all tokens of their group.
    """
    found: list[Section] = []
    line, counted = 1, 0
    at = begin = 0  # a group of line `at` begins at line `begin` or later
    while at < len(agents):
        if agents[at][2] != token:
            at += 1
            continue
        while whole and at > begin and not Section(octets, agents[at - 1][1], agents[at][0], 0).has_rules():
            at -= 1
        # More user-agent lines may follow before the first rule; the next one behind a rule begins another group.
        while True:
            start = agents[at][1]
            at += 1
            end = agents[at][0] if at < len(agents) else len(octets)
            line, counted = line + octets.count(b"\n", counted, start), start
            found.append(Section(octets, start, end, line))
            if at == len(agents) or found[-1].has_rules():
                break
        begin = at
    return found


def best_rule(sections: Sequence[Section], target: str) -> RawRule | None:
    """Return the rule that decides on a target; ``None`` where none matches.

    It looks only at the lines that the first octets of the target do not exclude. The first question to a group is
    answered like this, in a fraction of the time that an index of all rules takes.

    :param sections: the lines of the group.
    :param target: a request target in normal form.
    """
    best, found = 0, None
    missed: set[str] = set()  # a hostile file may repeat a pattern that takes long to parse
    for section in chain.from_iterable(map(Section.pieces, sections)):
        text = section.text()
        for match in _possible_rules(target, len(text)).finditer(text):
            disallow, head, rest, needle, second, line = match.groups()
            if line is not None:
                allow, pattern = read_rule(line) or (False, "")
            # These runs have only bare octets, so they can be compared before the pattern is parsed.
            elif (
                (head and not target.startswith(head))
                or (needle and needle not in target)
                or (second and second not in target)
            ):
                continue
            else:
                allow, pattern = not disallow, (head + rest).rstrip(BLANKS) if rest else head
            order = precedence(allow, pattern)
            # Of equal rules the first one is reported, so a later one has to be better.
            if order > best and pattern and pattern not in missed:
                if pattern is head or parse_pattern(pattern).matches(target):
                    best, found = order, (section, text, match.start(), allow, pattern)
                else:
                    missed.add(pattern)
    if found is None:
        return None
    section, text, start, allow, pattern = found
    return allow, pattern, section.agent_line + text.count("\n", 0, start) + 1


def _possible_rules(target: str, size: int) -> re.Pattern[str]:
    """Return an expression that finds the lines of a text of this size that may be rules that match a target."""
    depth = _DEEP if size > _LARGE else 1
    return _lines_except(target[1 : 1 + depth], len(target) <= depth)


@lru_cache(maxsize=256)
def _lines_except(prefix: str, ended: bool) -> re.Pattern[str]:
    """Return an expression for all lines but blank ones, comments, and rules in a usual spelling that cannot match.

    A rule cannot match where it has an unreserved octet and the target another octet.

    :param prefix: what stands behind the first ``/`` of the target.
    :param ended: whether the target ends there.
    """
    differs = f"[{re.escape(UNRESERVED)}]" if ended else ""
    for octet in reversed(prefix):
        other = f"[{re.escape(UNRESERVED.replace(octet, ''))}]"
        differs = f"(?:{other}|{re.escape(octet)}{differs})" if differs else other
    return re.compile(rf"\n(?!{_KEY}/{differs}|[#\n]|\Z){_RULE}")


def _in_usual_spellings(text: str) -> str:
    for key, usual in _SPELLINGS:
        text = text.replace(key, usual)
    return text


def sorted_rules(text: str, seen: set[str]) -> tuple[str, list[str], list[str], Iterable[tuple[str, str | None]]]:
    """Read a text from line end to line end, as far as possible without a look at each of its lines.

    :param seen: as for `other_lines`.
    :returns: the text, with the usual keys as in `KEYS`; the patterns of its allows, and those of its disallows (some
        that are not plain are among them, but none with which a target begins); its `other_lines`.
    """
    first = _FIRST_RULE(text)
    if first and not first[0].endswith("llow: /"):  # mostly, a file spells all its rules in the same way
        text = _in_usual_spellings(text)
    ordered = sorted(text.split("\n"))
    comments, others, *ends = [bisect_left(ordered, place) for place in _PLACES]
    allows, disallows = ordered[ends[0] : ends[1]], ordered[ends[2] : ends[3]]
    rules = "".join(allows + disallows).encode("latin-1")
    rest = ordered[:comments] + ordered[others : ends[0]] + ordered[ends[1] : ends[2]] + ordered[ends[3] :]
    found: Iterable[tuple[str, str | None]] = ()
    if _LIKE_A_RULE.search("".join(rest).encode("latin-1")):
        usual = _in_usual_spellings(text)
        if usual != text:
            return sorted_rules(usual, seen)
        found = other_lines(text, seen)
    # Of plain rules, only the spaces behind their keys are no bare octets.
    if rules.translate(None, _BARE_OCTETS) != b" " * (len(allows) + len(disallows)):
        found = other_lines(text, seen)
        # A target may begin with `/%4`, but such a rule does not match it.
        allows = [line for line in allows if "%" not in line and "*" not in line]
        disallows = [line for line in disallows if "%" not in line and "*" not in line]
    return text, [line[len(KEYS[0]) :] for line in allows], [line[len(KEYS[1]) :] for line in disallows], found


def other_lines(text: str, seen: set[str]) -> Iterator[tuple[str, str | None]]:
    """Yield the other lines of a text that may be rules, each with octets that every target has that it matches.

    These octets are ``None`` where only the spelling of the line is unusual, so that its pattern is plain or empty.

    :param seen: lines that are passed over; those that are yielded are added.
    """
    for line, _, head, rest, needle, second, other in _OTHERS(text):
        if line in seen:
            continue
        seen.add(line)
        if other:
            rule = read_rule(other)
            if rule is not None and rule[1][:1] in ("/", "*"):  # every path begins with `/`
                yield line, None if is_plain(rule[1]) else ""
        elif rest and (bare := rest.strip(BLANKS)):
            if head or bare[0] == "*":
                literal = second if len(second) > len(needle) else needle
                yield line, head if len(head) > len(literal) else literal
        elif head:
            yield line, None
