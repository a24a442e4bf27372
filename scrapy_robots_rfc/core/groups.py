"""The groups of a file with their rules (RFC 9309, 2.1), read line by line.

`lint`, `show` and explanations use these. A crawl does not: `scan.py` reads the same groups faster
for its verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from scrapy_robots_rfc.core.agents import token_of
from scrapy_robots_rfc.core.decision import Rule, RuleKind
from scrapy_robots_rfc.core.lines import RULES, Line, LineKind
from scrapy_robots_rfc.core.percent import to_octets


# A named tuple takes more memory, and a hostile file has 100,000 of them.
@dataclass(frozen=True, slots=True)
class Record:
    """A record that is neither a user-agent line nor a rule (RFC 9309, 2.2.4).

    :param key: in lower case.
    :param value: as the file writes it: text, or octets, one character each.
    :param line: its line number, from 1.
    """

    key: str
    value: str
    line: int


class Group(NamedTuple):
    """User-agent lines and what follows them (RFC 9309, 2.1).

    :param tokens: the values of its user-agent lines, as the file spells them.
    :param rules: its allow and disallow lines.
    :param line: the number of its first line, from 1.
    :param last: the number of its last line.
    """

    tokens: tuple[str, ...]
    rules: tuple[Rule, ...]
    line: int
    last: int

    def names(self, token: str) -> bool:
        """Whether a user-agent line names a token, which has the form that `token_of` gives."""
        return any(token_of(to_octets(name)) == token for name in self.tokens)


def read_groups(lines: Iterable[Line]) -> tuple[Group, ...]:
    """Divide the lines of a file into groups."""
    groups: list[list[Line]] = []
    ended = True
    for line in lines:
        if line.kind is LineKind.USER_AGENT:
            if ended:  # only a user-agent line that follows a rule begins a new group
                groups.append([])
            ended = False
        elif line.kind in RULES:
            ended = True
        elif line.kind is not LineKind.RECORD:
            continue
        if groups:
            groups[-1].append(line)
    return tuple(map(_group_of, groups))


def _group_of(lines: list[Line]) -> Group:
    rules = [line for line in lines if line.kind in RULES]
    return Group(
        tuple(line.value for line in lines if line.kind is LineKind.USER_AGENT),
        tuple(Rule(RuleKind[line.kind.name], line.value, line.number) for line in rules),
        lines[0].number,
        lines[-1].number,
    )
