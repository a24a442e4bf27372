"""The fast way to the rules of one product token: it finds the groups of the token, and reads nothing else of a file.

It searches for the word `agent` instead of reading lines one by one, and leaves unusual lines to `lines.py`. It finds
the same groups as `groups.py`; a property test compares the two.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_robots_rfc.core.agents import token_of
from scrapy_robots_rfc.core.groups import Record
from scrapy_robots_rfc.core.lines import BLANKS, MAX_LINE, RULE_KEYS, LineKind, as_text, read_line, read_rule
from scrapy_robots_rfc.core.pattern import is_plain, parse_pattern, precedence
from scrapy_robots_rfc.core.percent import BARE_RUN, UNRESERVED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

# The usual user-agent line, in lower case: its token is a run of token characters, or `*` alone.
_USUAL_AGENT = re.compile(rb"[ \t]*user-agent[ \t]*:[ \t]*([a-z_-]+|\*(?=[ \t\v\f#]|\Z))")
# What stands before the first `agent` of a user-agent line, in lower case.
_BEFORE_AGENT = (b"user-", b"user", b"user ")

# The usual spellings of a rule, in octets and in text.
_USUAL_RULE = re.compile(rb"\n(?:[Dd]isa|[Aa])llow:")
_LIKE_A_RULE = re.compile(rb"[lL][oOaA][wW]")  # every key of a rule contains this, also a misspelt one
# What stands before the pattern of a disallow and of an allow in a usual spelling.
_BEFORE_PATTERN = (
    ("\nDisallow: ", "\nDisallow:", "\ndisallow: ", "\ndisallow:"),
    ("\nAllow: ", "\nAllow:", "\nallow: ", "\nallow:"),
)
_KEY = "(?:[Dd]isa|[Aa])llow: ?"
_BARE = BARE_RUN.pattern
# A pattern of bare octets, without a wildcard.
_PLAIN = rf"/{_BARE}+"
#: Divides a text at its plain rules in usual spellings, into what stands before each, `Dis` or `dis` for a disallow and
#: ``None`` for an allow, and its pattern; what stands behind the last one comes last.
divide_at_plain_rules: Callable[[str], list[Any]] = re.compile(rf"\n(?:([Dd]is)a|[Aa])llow: ?({_PLAIN})(?=\n)").split

# A rule whose pattern may have wildcards or escapes, or any other line that may be a rule.
_RULE = (
    rf"(?:(?:([Dd]is)a|[Aa])llow:[ \t]*(/{_BARE}|)((?:\*({_BARE})(?:\*({_BARE}))?)?[^\n#]*)"
    rf"|([ \t]*+(?=[AaDd])(?i:{'|'.join(RULE_KEYS)})[ \t:][^\n]*))"
)
_RULES = re.compile(rf"\n({_RULE}[^\n]*)").findall

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
    at = lower.find(b"agent")
    while at >= 0:
        start = lower.rfind(b"\n", 0, at) + 1
        end = lower.find(b"\n", at)
        if end < 0:
            end = len(lower)
        if lower[max(start, at - 5) : at].endswith(_BEFORE_AGENT):
            usual = _USUAL_AGENT.match(lower, start, end) if end - start <= MAX_LINE else None
            token = usual[1].decode("ascii") if usual else _unusual_token(octets[start : min(end, start + MAX_LINE)])
            if token is not None:
                found.append((start, end, token))
        at = lower.find(b"agent", end)
    return found


@lru_cache(maxsize=64)  # a hostile file may repeat a line that takes long to read
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
        """Return sections of whole lines, 64 KiB or one line each, that it consists of."""
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
        if len(text) > MAX_LINE and max(map(len, text.split("\n"))) > MAX_LINE:
            text = "\n".join(line[:MAX_LINE] for line in text.split("\n"))
        return text if text.endswith("\n") else text + "\n"

    def has_rules(self) -> bool:
        """Return whether one of its lines is a rule."""
        if not _LIKE_A_RULE.search(self.octets, self.start, self.end):
            return False
        usual = _USUAL_RULE.search(self.octets, self.start, self.end)
        return usual is not None or any(map(read_rule, self.text().split("\n")))


def groups_of(
    octets: bytes, agents: Sequence[AgentLine], token: str | None = None
) -> list[tuple[tuple[str, ...], Section]]:
    """Return the groups of a file in order (RFC 9309, 2.1): the tokens of each, and its lines.

    :param octets: the file; every line ends in LF.
    :param agents: its user-agent lines.
    :param token: in the form in which tokens compare: only its groups are read, and only their last user-agent line and
        what follows it, which has all rules; ``None``: all groups are, from their first line on, with all records.
    """
    found = []
    line, counted, at = 1, 0, 0
    while at < len(agents):
        first, at = at, at + 1
        if token is not None and agents[first][2] != token:
            continue
        # More user-agent lines may follow before the first rule; the next one behind a rule begins another group.
        while at < len(agents) and not Section(octets, agents[at - 1][1], agents[at][0], 0).has_rules():
            at += 1
        end = agents[at][0] if at < len(agents) else len(octets)
        start = agents[first if token is None else at - 1][1]  # a hostile file has 40,000 sections without rules
        line, counted = line + octets.count(b"\n", counted, start), start
        names = (token,) if token is not None else tuple(dict.fromkeys(name for _, _, name in agents[first:at]))
        found.append((names, Section(octets, start, end, line)))
    return found


def records_in(
    parts: Iterable[Section], lower: bytes, keys: Sequence[str], most: float = math.inf
) -> Iterator[list[Record]]:
    """Yield the records of some keys in each part of a file, in order.

    :param lower: the file in lower case.
    :param keys: in lower case.
    :param most: how many lines that begin with a key are read at most.
    """
    key = rf"[ \t]*+(?:{'|'.join(keys)})".encode("ascii")
    key_in, at_first = re.compile(b"\n" + key).search, re.compile(key).match
    read = lru_cache(maxsize=64)(read_line)  # a hostile file may repeat a line
    for octets, begin, end, number in parts:
        records, line, counted = list[Record](), number, begin
        found = (at_first(lower, 0, end) if begin == 0 else None) or key_in(lower, begin, end)
        while found and most > 0:
            most -= 1
            start = lower.rfind(b"\n", 0, found.end()) + 1
            stop = lower.find(b"\n", start, end)
            stop = end if stop < 0 else stop
            parsed = read(octets[start:stop].decode("latin-1"))
            if parsed.kind is LineKind.RECORD and parsed.key in keys:
                line, counted = line + octets.count(b"\n", counted, start), start
                records.append(Record(parsed.key, as_text(parsed.value), line))
            found = key_in(lower, stop, end)
        yield records


def best_rule(sections: Sequence[Section], target: str) -> RawRule | None:
    """Return the rule that decides on a target; ``None`` where none matches.

    It looks only at the lines that the first octets of the target do not exclude. The first question to a group is
    answered like this, in a fraction of the time that an index of all rules takes.

    :param sections: the lines of the group.
    :param target: a request target in normal form.
    """
    best, found = 0, None
    for section in chain.from_iterable(map(Section.pieces, sections)):
        text = section.text()
        lines = _lines_for(target[1:2])(text)
        # A hostile file may repeat a line that takes long to parse.
        for line, disallow, head, rest, needle, second, other in _RULES("".join(dict.fromkeys(lines))):
            if other:
                allow, pattern = read_rule(other) or (False, "")
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
            if order > best and pattern and (pattern is head or parse_pattern(pattern).matches(target)):
                best, found = order, (section, text, line, allow, pattern)
    if found is None:
        return None
    section, text, line, allow, pattern = found
    return allow, pattern, section.agent_line + text.count("\n", 0, text.index(f"\n{line}\n")) + 1


@lru_cache(maxsize=256)
def _lines_for(octet: str) -> Callable[[str], list[str]]:
    """Return a function that finds all lines that may be rules, but those in a usual spelling that cannot match.

    A rule cannot match where it has an unreserved octet and the target another octet. Only one octet is compared: to
    compile an expression for more of them takes longer than the lines that they exclude.

    :param octet: what stands behind the first ``/`` of the target; empty where the target ends there.
    """
    return re.compile(rf"\n(?!{_KEY}/[{re.escape(UNRESERVED.replace(octet, ''))}])[ \tAaDd][^\n]*").findall


def plain_place(text: str, allow: bool, pattern: str) -> int:
    """Return the offset of the pattern of the first line that is a plain rule in a usual spelling; -1 without one."""
    at = text.find(f"{pattern}\n")
    if at < 0 or text.endswith(_BEFORE_PATTERN[allow], 0, at):
        return at
    # A hostile file has many lines that end like that, so each spelling is looked for.
    found = [(text.find(f"{before}{pattern}\n"), len(before)) for before in _BEFORE_PATTERN[allow]]
    return min((at + length for at, length in found if at >= 0), default=-1)


def other_lines(text: str, seen: set[str]) -> Iterator[tuple[str, str | None]]:
    """Yield the lines of a text that may be rules, each with octets that every target has that it matches.

    These octets are ``None`` where only the spelling of the line is unusual, so that its pattern is plain or empty.

    :param text: without plain rules in usual spellings.
    :param seen: lines that are passed over; those that are yielded are added.
    """
    for line, _, head, rest, needle, second, other in _RULES(text):
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
