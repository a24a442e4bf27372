"""What a crawl reads of a file: the groups of one product token, their rules, records of some keys.

It searches for what it needs instead of reading lines one by one, and has `lines.py` read
unusual lines. It finds the same groups as `groups.py`: a property test compares the two.
A file is passed as octets in which a line end stands before each line, also before the first one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from scrapy_robots_rfc.core.agents import token_of
from scrapy_robots_rfc.core.groups import Record
from scrapy_robots_rfc.core.lines import MAX_LINE, RULE_KEYS, RULES, LineKind, read_line
from scrapy_robots_rfc.core.percent import NORMAL_RUN

# A line that may be a user-agent line; its token, if that is a run of token characters or `*`
# alone.
_AGENT_LINE = re.compile(
    rb"\n([ \t]*+(?i:user[- ]?agent)(?:[ \t]*+:[ \t]*+([A-Za-z_-]++|\*(?![^ \t\v\f#\n])))?[^\n]*+)"
)
# A line that may be a rule. To look at its first letter first takes half the time.
_FIRST = "".join({key[0] for key in RULE_KEYS})
_ANY_RULE = rf"[ \t]*+(?i:(?=[{_FIRST}])(?:{'|'.join(RULE_KEYS)}))[ \t:][^\n]*+"
_rule_lines = re.compile(rf"\n({_ANY_RULE})".encode()).finditer
# A rule in a usual spelling: something for a disallow, the prefix of its pattern, and the rest.
_KEY = r"[ \t]*+(?i:(dis)?+allow)[ \t]*+:"
_divide = re.compile(rf"\n{_KEY}[ \t]*+(/{NORMAL_RUN}|)([^\n]*+)").split
_UNUSUAL_RULE = re.compile(rf"\n(?!{_KEY}){_ANY_RULE}")
# A line of which not all counts; its part that counts.
_OVER_LONG = re.compile(rf"(\n[^\n]{{{MAX_LINE}}})[^\n]+")

# Octets that one call of a regular expression or of a sort goes through, about: no other thread
# runs meanwhile, and 64 KiB take some milliseconds.
_PIECE = 65_536

# A user-agent line: start and end offset, and its token in the form in which tokens compare.
AgentLine = tuple[int, int, str]


def agent_lines(octets: bytes) -> list[AgentLine]:
    """Return the user-agent lines of a file, in order."""
    found = []
    for line in _AGENT_LINE.finditer(octets):
        usual = line[2] is not None and len(line[1]) <= MAX_LINE
        token = line[2].decode("ascii").lower() if usual else _unusual_token(line[1][:MAX_LINE])
        if token is not None:
            found.append((*line.span(1), token))
    return found


@lru_cache(maxsize=64)  # a hostile file may repeat a line that takes long to read
def _unusual_token(line: bytes) -> str | None:
    """Return the token of a line in an unusual spelling; ``None``: it is no user-agent line."""
    kind, _, value = read_line(line.decode("latin-1"))
    return token_of(value) if kind is LineKind.USER_AGENT else None


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
    for line in _rule_lines(octets, start, end):
        if read_line(line[1].decode("latin-1"))[0] in RULES:
            return True
    return False


def groups_of(
    octets: bytes, agents: Sequence[AgentLine], token: str | None = None
) -> Iterator[tuple[tuple[str, ...], Section]]:
    """Yield the groups of a file in order (RFC 9309, 2.1): the tokens of each, and its lines.

    :param octets: the file.
    :param agents: its user-agent lines.
    :param token: in the form in which tokens compare: only its groups are yielded, with the lines
        behind their last user-agent line, which have all rules; ``None``: all groups are, with all
        lines behind their first one.
    """
    line = 0
    counted = 0
    at = 0
    while at < len(agents):
        first = at
        at += 1
        if token is not None and agents[first][2] != token:
            continue
        # More user-agent lines may follow before the first rule. The next one behind a rule begins
        # another group.
        while at < len(agents) and not _has_rules(octets, agents[at - 1][1], agents[at][0]):
            at += 1
        end = agents[at][0] - 1 if at < len(agents) else len(octets)
        # A hostile file has 40,000 user-agent lines above the first rule.
        start = agents[first if token is None else at - 1][1]
        line += octets.count(b"\n", counted, start)
        counted = start
        names = tuple(dict.fromkeys(name for _, _, name in agents[first:at]))
        yield names, Section(start, end, line)


def records_in(
    octets: bytes,
    parts: Iterable[Section],
    keys: Sequence[str],
    most: float = math.inf,
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
