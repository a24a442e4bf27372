"""All the records of a file, put into groups (RFC 9309, 2.1): the full reading, for whoever wants to see a file.

A crawl does not come here for a verdict; `scan.py` reads the same lines faster, and a law holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.agents import token_of
from scrapy_robots_rfc.core.decision import Rule, RuleKind
from scrapy_robots_rfc.core.lines import RULES, Line, LineKind
from scrapy_robots_rfc.core.percent import octets

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Record:
    """A record that is neither a user-agent line nor a rule (RFC 9309, 2.2.4).

    :param key: in lower case.
    :param value: as written.
    :param line: its line number, from 1.
    """

    key: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class Group:
    """User-agent lines and what follows them (RFC 9309, 2.1).

    :param tokens: of its user-agent lines, as the file spells them.
    :param rules: its allow and disallow lines.
    :param records: whatever else stands in it.
    :param line: the number of its first line, from 1.
    :param last: the number of its last one.
    """

    tokens: tuple[str, ...]
    rules: tuple[Rule, ...]
    records: tuple[Record, ...]
    line: int
    last: int

    def names(self, token: str) -> bool:
        """Whether one of its user-agent lines names a token, given in the form of `agents.token_of`."""
        return any(token_of(octets(name)) == token for name in self.tokens)


def merged(groups: Iterable[Group]) -> Group | None:
    """Groups of one token as one (RFC 9309, 2.2.1); ``None`` for no groups."""
    all_of_them = tuple(groups)
    if not all_of_them:
        return None
    return Group(
        tuple(dict.fromkeys(token for group in all_of_them for token in group.tokens)),
        tuple(rule for group in all_of_them for rule in group.rules),
        tuple(record for group in all_of_them for record in group.records),
        all_of_them[0].line,
        all_of_them[-1].last,
    )


class _OpenGroup:
    """A group while its lines come in."""

    def __init__(self, line: int) -> None:
        self.line = self.last = line
        self.tokens: list[str] = []
        self.rules: list[Rule] = []
        self.records: list[Record] = []

    def close(self) -> Group:
        return Group(tuple(self.tokens), tuple(self.rules), tuple(self.records), self.line, self.last)


def read_groups(lines: Iterable[Line]) -> tuple[tuple[Group, ...], tuple[Record, ...]]:
    """Put the lines of a file into groups.

    :returns: the groups in order, and the records of the whole file, those inside groups included.
    """
    groups: list[_OpenGroup] = []
    records: list[Record] = []
    for line in lines:
        if line.kind is LineKind.USER_AGENT:
            if not groups or groups[-1].rules:  # a user-agent line that follows a rule ends a group; nothing else does
                groups.append(_OpenGroup(line.number))
            groups[-1].tokens.append(line.value)
        elif line.kind in RULES and groups:
            kind = RuleKind.ALLOW if line.kind is LineKind.ALLOW else RuleKind.DISALLOW
            groups[-1].rules.append(Rule(kind, line.value, line.number))
        elif line.kind is LineKind.RECORD:
            record = Record(line.key, line.value, line.number)
            records.append(record)
            if groups:
                groups[-1].records.append(record)
        else:
            continue
        if groups:
            groups[-1].last = line.number
    return tuple(group.close() for group in groups), tuple(records)
