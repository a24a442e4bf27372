"""The fast reading: finds the groups of one token in a file and reads those, and nothing else of it.

What it returns is what `groups.py` makes of all the records; a law in the tests holds the two together. It looks for the
word that every user-agent line contains, instead of reading lines, and leaves whatever is unusual to `lines.read_line`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.agents import token_of
from scrapy_robots_rfc.core.lines import BLANKS, MAX_LINE, RULES, LineKind, read_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_robots_rfc.core.ruleset import RawRule

# The usual user-agent line, in lower case: its token is a run of token characters, or `*` alone.
_AGENT_LINE = re.compile(rb"[ \t]*user-agent[ \t]*:[ \t]*([a-z_-]+|\*(?=[ \t\v\f#]|\Z))")

# The usual spellings of the two keys; a line with any other key goes through `read_line`.
_USUAL_KEYS = {key: key.lower() == "allow" for key in ("Allow", "allow", "ALLOW", "Disallow", "disallow", "DISALLOW")}


# A user-agent line: start and end offset, and its token in the form in which tokens compare.
AgentLine = tuple[int, int, str]


def agent_lines(octets: bytes) -> list[AgentLine]:
    """The user-agent lines of a file, in order.

    :param octets: the file, every line end as LF.
    """
    lower = octets.lower()
    found = []
    at = lower.find(b"agent")
    while at >= 0:
        start = lower.rfind(b"\n", 0, at) + 1
        end = lower.find(b"\n", at)
        if end < 0:
            end = len(lower)
        usual = _AGENT_LINE.match(lower, start, end) if end - start <= MAX_LINE else None
        token = usual[1].decode("ascii") if usual else _token_of_line(octets[start:end])
        if token is not None:
            found.append((start, end, token))
        at = lower.find(b"agent", end)
    return found


def _token_of_line(line: bytes) -> str | None:
    """The token of a line that is spelt in an unusual way; ``None`` where it is no user-agent line after all."""
    reading = read_line(line.decode("latin-1"))
    return token_of(reading.value) if reading.kind is LineKind.USER_AGENT else None


def rules_of(octets: bytes, agents: Sequence[AgentLine], token: str) -> list[RawRule]:
    """The rules of all groups of one token, in the order of the file (RFC 9309, 2.2.1: combined into one group).

    :param octets: the file, every line end as LF.
    :param agents: its user-agent lines.
    :param token: in the form in which tokens compare.
    """
    rules: list[RawRule] = []
    line, counted, at = 1, 0, 0
    while at < len(agents):
        if agents[at][2] != token:
            at += 1
            continue
        # Further user-agent lines before the first rule share the group; from the first rule on, the next one ends it.
        found: list[RawRule] = []
        while at < len(agents) and not found:
            start = agents[at][1]
            at += 1
            end = agents[at][0] if at < len(agents) else len(octets)
            line, counted = line + octets.count(b"\n", counted, start), start
            found = read_rules(octets[start:end].decode("latin-1"), line)
        rules += found
    return rules


def read_rules(text: str, first_line: int) -> list[RawRule]:
    """The allow and disallow lines of a text: whether they allow, the pattern, the line number.

    :param text: whole lines; octets, one character each.
    :param first_line: the number of its first line.
    """
    rules = []
    for number, line in enumerate(text.split("\n"), first_line):
        key, _, pattern = line.partition(":")
        allow = _USUAL_KEYS.get(key)
        if allow is None or len(line) > MAX_LINE:
            if not line or line[0] == "#":
                continue
            reading = read_line(line)
            if reading.kind not in RULES:
                continue
            allow, pattern = reading.kind is LineKind.ALLOW, reading.value
        elif "#" in pattern:
            pattern = pattern.partition("#")[0]
        rules.append((allow, pattern.strip(BLANKS), number))
    return rules
