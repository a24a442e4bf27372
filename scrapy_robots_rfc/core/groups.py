r"""Find the groups and records of a file fast, for a crawl (RFC 9309, 2.1 and 2.2.4).

The functions search for what they need instead of reading a file line by line; `lines.py` reads the
lines with an unusual spelling. They find the same groups as `findings.py`: a property test compares
the two. A file is the bytes of `Content`, in which a line end precedes each line, the first one
too. So all regular expressions begin with the line end.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from scrapy_robots_rfc.core.agents import ANY, GroupKey, line_keys, names_in_line
from scrapy_robots_rfc.core.lines import MAX_LINE, RULE_KEYS, RULES, LineKind, Record, read_line

# The key and colon of a rule in its usual spelling: `Disallow:`, `  ALLOW :`. Group 1 is empty for
# Allow.
USUAL_KEY = r"[ \t]*+(?i:(dis)?+allow)[ \t]*+:"
# The first letters of the keys of rules. Checking them first takes half the time.
FIRST_LETTERS = f"(?i:[{''.join(sorted({key[0] for key in RULE_KEYS}))}])"
# A line that may be a rule, in any spelling: `Disallow: /x`, `disalow /x`.
ANY_RULE = rf"[ \t]*+(?={FIRST_LETTERS})(?i:{'|'.join(RULE_KEYS)})[ \t:][^\n]*+"

# A line that may be a user-agent line, with its name if that is a product token or `*`. The line
# `User-agent: FooBot/2.1` has the name `FooBot`, and `user agent FooBot` is read by `lines.py`.
_agent_lines = re.compile(
    rb"\n([ \t]*+(?i:user[- ]?agent)"
    rb"(?:[ \t]*+:[ \t]*+(?:([A-Za-z_-]++)(?![^ \t/;#\n])|(\*)(?![^ \t\v\f#\n])))?[^\n]*+)"
).finditer
# A rule in its usual spelling: `Disallow:`.
_has_usual_rule = re.compile(rf"\n{USUAL_KEY}".encode()).search
# Lines that may be rules: `disalow /x`.
_rule_lines = re.compile(rf"\n({ANY_RULE})".encode()).finditer
_SHORTEST_RULE = len("\nallow:")


class AgentLine(NamedTuple):
    """A user-agent line.

    :param start: the offset of its first byte.
    :param end: the offset after its last byte.
    :param token: its token, see `names_in_line`.
    :param name: its whole name.
    """

    start: int
    end: int
    token: str
    name: str

    def is_for(self, key: GroupKey) -> bool:
        """Return whether a key selects the line."""
        return key.text == (self.name if key.whole else self.token)


def agent_lines(file: bytes) -> list[AgentLine]:
    """Return the user-agent lines of a file, in order."""
    agents: list[AgentLine] = []
    for line in _agent_lines(file):
        start, end = line.span(1)
        is_usual = end - start <= MAX_LINE
        if is_usual and line[2] is not None:
            token = line[2].decode("ascii").lower()
            agents.append(AgentLine(start, end, token, token))
        elif is_usual and line[3] is not None:
            agents.append(AgentLine(start, end, ANY, ""))
        else:
            names = _unusual_names(line[1][:MAX_LINE])
            if names is not None:
                agents.append(AgentLine(start, end, *names))
    return agents


@lru_cache(maxsize=64)  # a hostile file may repeat a line that takes long to read
def _unusual_names(line: bytes) -> tuple[str, str] | None:
    """Return the names in a line with an unusual spelling, or `None` for another kind of line."""
    kind, _, value = read_line(line.decode("latin-1"))
    return names_in_line(value) if kind is LineKind.USER_AGENT else None


class Section(NamedTuple):
    """Some lines of a file, including the line end before the first one.

    :param start: the offset of that line end.
    :param end: the offset after the last line.
    :param above: the number of the line above the first one.
    """

    start: int
    end: int
    above: int


def _has_rules(file: bytes, start: int, end: int) -> bool:
    """Return whether there is a rule in a part of a file."""
    if end - start < _SHORTEST_RULE:
        return False
    if _has_usual_rule(file, start, end):
        return True
    lines = (line[1].decode("latin-1") for line in _rule_lines(file, start, end))
    return any(read_line(line)[0] in RULES for line in lines)


def groups_in(
    file: bytes, agents: Sequence[AgentLine]
) -> Iterator[tuple[tuple[GroupKey, ...], Section]]:
    """Yield the groups of a file in order (2.1): the keys that select each, and its lines.

    :param agents: the user-agent lines of the file.
    """
    line = 0
    counted = 0
    at = 0
    while at < len(agents):
        first = at
        at += 1
        # More user-agent lines may follow before the first rule. The next one after a rule begins
        # another group.
        while at < len(agents) and not _has_rules(file, agents[at - 1].end, agents[at].start):
            at += 1
        start = agents[first].end
        end = agents[at].start - 1 if at < len(agents) else len(file)
        line += file.count(b"\n", counted, start)
        counted = start
        keys = dict[GroupKey, None]()
        for agent in agents[first:at]:
            keys.update(dict.fromkeys(line_keys(agent.token, agent.name)))
        yield tuple(keys), Section(start, end, line)


def sections_for(file: bytes, agents: Sequence[AgentLine], key: GroupKey) -> Iterator[Section]:
    """Yield the lines of the groups that a key selects. Consecutive groups are one section.

    A section starts after the last user-agent line above the first rule, so that it is the same for
    all crawlers that the group names.

    :param agents: the user-agent lines of the file.
    """
    line = 0
    counted = 0
    at = 0
    while at < len(agents):
        first = at
        at += 1
        if not agents[first].is_for(key):
            continue
        start = agents[first].end
        has_rules = False
        while at < len(agents):
            is_selected = agents[at].is_for(key)
            # Once there are rules, it does not matter whether a selected line begins a group.
            if not is_selected or not has_rules:
                rules_between = _has_rules(file, agents[at - 1].end, agents[at].start)
                if rules_between and not is_selected:
                    break  # a group begins that the key does not select
                has_rules = has_rules or rules_between
            if not has_rules:
                start = agents[at].end
            at += 1
        end = agents[at].start - 1 if at < len(agents) else len(file)
        line += file.count(b"\n", counted, start)
        counted = start
        yield Section(start, end, line)


def records_in(
    file: bytes, sections: Iterable[Section], keys: Sequence[str], max_lines: float = math.inf
) -> Iterator[list[Record]]:
    """Yield the records with some keys in each section, in order.

    Their values are bytes, one character each.

    :param keys: in lower case.
    :param max_lines: maximum lines that are read, in all sections.
    """
    # Lines that begin with one of the keys: `Crawl-delay: 5`.
    lines = re.compile(rf"\n[ \t]*+(?i:{'|'.join(keys)})[^\n]*+".encode("ascii"))
    read = lru_cache(maxsize=64)(read_line)  # a hostile file may repeat a line
    for start, end, above in sections:
        records = list[Record]()
        line = above
        counted = start
        for match in lines.finditer(file, start, end):
            max_lines -= 1
            if max_lines < 0:
                break
            kind, key, value = read(match[0][1:].decode("latin-1"))
            if kind is LineKind.RECORD and key in keys:
                line += file.count(b"\n", counted, match.end())
                counted = match.end()
                records.append(Record(key, value, line))
        yield records
