"""What a crawl reads of a file: the groups of one product token, their rules, records of some keys.

It searches for what it needs instead of reading lines one by one, and leaves unusual lines to
`lines.py`. It finds the same groups as `groups.py`; a property test compares the two.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from scrapy_robots_rfc.core.agents import token_of
from scrapy_robots_rfc.core.groups import Record
from scrapy_robots_rfc.core.lines import (
    MAX_LINE,
    RULE_KEYS,
    LineKind,
    as_text,
    read_line,
    read_rule,
)
from scrapy_robots_rfc.core.percent import NORMAL_RUN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# A line that may be a user-agent line; its token, if that is a run of token characters or `*`
# alone.
_AGENT_LINE = re.compile(
    rb"\n([ \t]*+(?i:user[- ]?agent)(?:[ \t]*+:[ \t]*+([A-Za-z_-]++|\*(?![^ \t\v\f#\n])))?[^\n]*+)"
)
# Octets in which rules begin usually, and octets that are in every key of a rule, also a misspelt
# one.
_USUAL_RULE = re.compile(rb"\n(?:[Dd]isa|[Aa])llow:")
_LIKE_A_RULE = re.compile(rb"[lL][oOaA][wW]")
# A rule in a usual spelling: something for a disallow, the prefix of its pattern, and the rest.
_KEY = r"[ \t]*+(?i:(dis)?+allow)[ \t]*+:"
_divide = re.compile(rf"\n{_KEY}[ \t]*+(/{NORMAL_RUN}|)([^\n]*+)").split
# A line that may be a rule in another spelling.
_UNUSUAL_RULE = re.compile(rf"\n(?!{_KEY})[ \t]*+(?i:{'|'.join(RULE_KEYS)})[ \t:][^\n]*+")
# A line of which not all counts; its part that counts.
_OVER_LONG = re.compile(rf"(\n[^\n]{{{MAX_LINE}}})[^\n]+")

# Octets that one call of a regular expression or of a sort goes through, about: no other thread
# runs meanwhile, and 64 KiB take some milliseconds.
_PIECE = 65_536

# A user-agent line: start and end offset, and its token in the form in which tokens compare.
AgentLine = tuple[int, int, str]


def agent_lines(octets: bytes) -> list[AgentLine]:
    """Return the user-agent lines of a file, in order; every line of it ends in LF."""
    found = []
    for line in _AGENT_LINE.finditer(
        b"\n" + octets
    ):  # with a line end before it, all offsets are one more
        usual = line[2] is not None and len(line[1]) <= MAX_LINE
        token = line[2].decode("ascii").lower() if usual else _unusual_token(line[1][:MAX_LINE])
        if token is not None:
            found.append((line.start(), line.end() - 1, token))
    return found


@lru_cache(maxsize=64)  # a hostile file may repeat a line that takes long to read
def _unusual_token(line: bytes) -> str | None:
    """Return the token of a line in an unusual spelling.

    ``None`` where it is no user-agent line.
    """
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
        """Return its lines as octets, one character each; over-long ones are cut."""
        text = self.octets[self.start : self.end].decode("latin-1")
        return _OVER_LONG.sub(r"\1", text) if len(text) > MAX_LINE else text

    def has_rules(self) -> bool:
        """Return whether one of its lines is a rule."""
        if _USUAL_RULE.search(self.octets, self.start, self.end):
            return True
        possible = _LIKE_A_RULE.search(self.octets, self.start, self.end)
        return possible is not None and any(map(read_rule, self.text().split("\n")))


def divide_at_rules(text: str) -> list[str]:
    """Divide a text at its rules into four pieces for each, and four more.

    These are what stands before a rule, something for a disallow and nothing for an allow, the
    prefix with which the pattern begins, and the rest of the line.
    """
    parts = _divide(text)
    if _UNUSUAL_RULE.search("".join(parts[::4])):
        parts = _divide(_UNUSUAL_RULE.sub(lambda line: _usual(line[0]), text))
    parts += ("", "", "")
    return parts


@lru_cache(maxsize=64)  # a hostile file may repeat a line that takes long to read
def _usual(line: str) -> str:
    """Return a line with its rule in a usual spelling, or without any."""
    allow, pattern = read_rule(line[1:]) or (True, "")
    return f"\n{'allow' if allow else 'disallow'}:{pattern}"


def groups_of(
    octets: bytes, agents: Sequence[AgentLine], token: str | None = None
) -> list[tuple[tuple[str, ...], Section]]:
    """Return the groups of a file in order (RFC 9309, 2.1): the tokens of each, and its lines.

    :param octets: the file; every line ends in LF.
    :param agents: its user-agent lines.
    :param token: in the form in which tokens compare: only its groups are read, and only their last
        user-agent line and what follows it, which has all rules; ``None``: all groups are, from
        their first line on, with all records.
    """
    found = []
    line, counted, at = 1, 0, 0
    while at < len(agents):
        first, at = at, at + 1
        if token is not None and agents[first][2] != token:
            continue
        # More user-agent lines may follow before the first rule; the next one behind a rule begins
        # another group.
        while (
            at < len(agents)
            and not Section(octets, agents[at - 1][1], agents[at][0], 0).has_rules()
        ):
            at += 1
        end = agents[at][0] if at < len(agents) else len(octets)
        start = agents[first if token is None else at - 1][
            1
        ]  # a hostile file has 40,000 sections without rules
        line, counted = line + octets.count(b"\n", counted, start), start
        names = (
            (token,)
            if token is not None
            else tuple(dict.fromkeys(name for _, _, name in agents[first:at]))
        )
        found.append((names, Section(octets, start, end, line)))
    return found


def records_in(
    parts: Iterable[Section], keys: Sequence[str], most: float = math.inf
) -> Iterator[list[Record]]:
    """Yield the records of some keys in each part of a file, in order.

    :param keys: in lower case.
    :param most: how many lines that begin with a key are read at most.
    """
    lines = re.compile(rf"\n[ \t]*+(?i:{'|'.join(keys)})[^\n]*+".encode("ascii"))
    read = lru_cache(maxsize=64)(read_line)  # a hostile file may repeat a line
    for octets, start, end, number in parts:
        records, line, counted = list[Record](), number, start
        for found in lines.finditer(octets, start, end):
            most -= 1
            if most < 0:
                break
            parsed = read(found[0][1:].decode("latin-1"))
            if parsed.kind is LineKind.RECORD and parsed.key in keys:
                line += octets.count(b"\n", counted, found.start() + 1)
                counted = found.start() + 1
                records.append(Record(parsed.key, as_text(parsed.value), line))
        yield records
