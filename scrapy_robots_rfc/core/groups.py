"""Find the groups and records in a file quickly during a crawl (RFC 9309, 2.1 and 2.2.4).

These functions use regular expressions to find the lines they need instead of reading every line.
A property test checks that they find the same groups as `explanation.py`. They take `Content.data`,
where every line, including the first, is preceded by a newline. That is why the regular expressions
start with a newline.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from scrapy_robots_rfc.core.agents import GroupKey, names_in_line
from scrapy_robots_rfc.core.lines import MAX_LINE, RULE_KEYS, RULES, LineKind, Record, read_line

# The key and colon of a correctly spelled rule: `Disallow:`, `  ALLOW :`. Group 1 only matches for
# Disallow.
USUAL_KEY = r"[ \t]*+(?i:(dis)?+allow)[ \t]*+:"
# The first letter of a rule's key: `a`, `D`. Checking it first halves the search time.
FIRST_LETTERS = f"(?i:[{''.join(sorted({key[0] for key in RULE_KEYS}))}])"
# A line that may be a rule, even if it is misspelled: `Disallow: /x`, `disalow /x`.
ANY_RULE = rf"[ \t]*+(?={FIRST_LETTERS})(?i:{'|'.join(RULE_KEYS)})[ \t:][^\n]*+"

# A line that may be a user-agent line: `User-agent: FooBot/2.1`, `user agent FooBot`. Group 2 is
# the product token, `FooBot`, if it is also the full name. Otherwise, `read_line` is needed.
_possible_agent_lines = re.compile(
    rb"\n([ \t]*+(?i:user[- ]?agent)"
    rb"(?:[ \t]*+:[ \t]*+([A-Za-z_-]++)(?![^ \t/;#\n]))?[^\n]*+)"
).finditer
# A correctly spelled rule: `Disallow:`.
_usual_rules = re.compile(rf"\n{USUAL_KEY}".encode()).finditer
# A line that may be a rule: `disalow /x`.
_possible_rule_lines = re.compile(rf"\n({ANY_RULE})".encode()).finditer
_SHORTEST_RULE = len("\nallow:")


class AgentLine(NamedTuple):
    """The position of a user-agent line and the names in it.

    :param start: the offset of the first byte.
    :param end: the offset just past the last byte.
    :param token: the product token, as returned by `names_in_line`.
    :param name: the full name.
    """

    start: int
    end: int
    token: str
    name: str


def agent_lines(file: bytes) -> list[AgentLine]:
    """Return the user-agent lines in a file, in order."""
    agents: list[AgentLine] = []
    for match in _possible_agent_lines(file):
        start, end = match.span(1)
        if end - start <= MAX_LINE and match[2] is not None:  # `User-agent: FooBot`
            token = name = match[2].decode("ascii").lower()
            agents.append(AgentLine(start, end, token, name))
        else:
            names = _unusual_names(match[1][:MAX_LINE])  # short, because they are cached
            if names is not None:
                agents.append(AgentLine(start, end, *names))
    return agents


@lru_cache(maxsize=64)  # a hostile file may repeat a line that is slow to read
def _unusual_names(line: bytes) -> tuple[str, str] | None:
    """Parse a line that isn't spelled as usual, or return `None` if it isn't a user-agent line."""
    kind, _, value = read_line(line.decode("latin-1"))
    return names_in_line(value) if kind is LineKind.USER_AGENT else None


class Section(NamedTuple):
    """A range of lines, including the newline before the first line.

    :param start: the offset of that newline.
    :param end: the offset after the last line.
    :param lines_before: the number of lines before the section.
    """

    start: int
    end: int
    lines_before: int


def _has_rules(file: bytes, start: int, end: int) -> bool:
    """Return whether part of a file contains a rule."""
    if end - start < _SHORTEST_RULE:  # usually, there is nothing between two user-agent lines
        return False
    # The rest of a long line is ignored, including a key that comes after `MAX_LINE` blanks.
    if any(len(match[0]) <= MAX_LINE + len("\n") for match in _usual_rules(file, start, end)):
        return True
    lines = (match[1].decode("latin-1") for match in _possible_rule_lines(file, start, end))
    return any(read_line(line)[0] in RULES for line in lines)


def sections_for(file: bytes, agents: Sequence[AgentLine], key: GroupKey) -> Iterator[Section]:
    """Yield the lines of each group that matches a key, merging consecutive groups.

    A file may repeat the user-agent line before each rule. Each section starts after the group's
    first user-agent line. That way, it is the same for all crawlers that share the group, so they
    can share an index.

    :param agents: the user-agent lines in the file.
    """
    names = [agent.name if key.whole else agent.token for agent in agents]
    section = Section(0, 0, 0)  # the previous section, or the start of the file
    at = 0  # the index of the first user-agent line after that section
    for found, name in enumerate(names):
        if found < at or name != key.text:  # already in that section, or for another crawler
            continue
        # The section ends where a group starts whose first line names another crawler.
        at = found + 1
        while at < len(agents) and (names[at] == name or not _starts_group(file, agents, at)):
            at += 1
        # Go back to the start of the group. Its first line may name another crawler, because a
        # group with several user-agent lines applies to each of them.
        first = found
        while not _starts_group(file, agents, first):
            first -= 1
        start = agents[first].end
        end = agents[at].start - 1 if at < len(agents) else len(file)
        lines_before = section.lines_before + file.count(b"\n", section.start, start)
        section = Section(start, end, lines_before)
        yield section


def _starts_group(file: bytes, agents: Sequence[AgentLine], at: int) -> bool:
    """Return whether a user-agent line starts a group, which is the case after a rule (2.1).

    Records that are not rules may come between the user-agent lines of a group.

    :param at: the index of the line in `agents`.
    """
    return at == 0 or _has_rules(file, agents[at - 1].end, agents[at].start)


def records_in(
    file: bytes, sections: Iterable[Section], keys: Sequence[str], max_lines: float = math.inf
) -> Iterator[Record]:
    """Yield the records in some sections that have any of the given keys.

    Record values are decoded as Latin-1.

    :param keys: the keys to find, in lowercase.
    :param max_lines: the maximum number of lines to read in all sections.
    """
    # A line that starts with one of the keys: `Crawl-delay: 5`, but also `Crawl-delays: 5`.
    lines = re.compile(rf"\n[ \t]*+(?i:{'|'.join(keys)})[^\n]*+".encode("ascii"))
    read = lru_cache(maxsize=64)(read_line)  # a hostile file may repeat a line that is slow to read
    for start, end, lines_before in sections:
        # To number the records, count each newline only once: `line` is the number of the line that
        # ends at the offset `counted_to`.
        line, counted_to = lines_before, start
        for match in lines.finditer(file, start, end):
            max_lines -= 1
            if max_lines < 0:
                return
            kind, key, value = read(match[0][1:].decode("latin-1"))
            if kind is LineKind.RECORD and key in keys:
                line += file.count(b"\n", counted_to, match.end())
                counted_to = match.end()
                yield Record(key, value, line)
