"""Read a robots.txt file line by line to explain its lines, groups and decisions to users.

The commands `lint`, `show` and `check` use this module. Crawls use `groups.py`, which is faster and
finds the same groups.
"""

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from scrapy_robots_rfc.core.agents import GroupKey, crawler_keys, names_in_line
from scrapy_robots_rfc.core.decision import Rule, RuleKind
from scrapy_robots_rfc.core.gemini import deciding_tokens
from scrapy_robots_rfc.core.lines import (
    KEYS,
    MAX_LINE,
    MISSPELT,
    RULES,
    TRAINING,
    LineKind,
    Record,
    as_text,
    read_line,
)
from scrapy_robots_rfc.core.percent import parse_pattern, request_target, specificity, to_octets
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

# Any control character except the tab.
_has_control_characters = re.compile("[\x00-\x08\x0a-\x1f\x7f]").search
_has_blanks = re.compile("[ \t]").search
# `FooBot` or `*`.
_is_token = re.compile(r"\*|[A-Za-z_-]+").fullmatch


class Flag(enum.StrEnum):
    """A potential problem with a line, as reported by the linter."""

    MISSPELT_KEY = enum.auto()
    NO_COLON = enum.auto()
    UNKNOWN_KEY = enum.auto()
    OUTSIDE_GROUP = enum.auto()
    INVALID_TOKEN = enum.auto()
    NEVER_MATCHES = enum.auto()
    SPACE_IN_PATTERN = enum.auto()
    CONTROL_OCTET = enum.auto()
    NOT_UTF8 = enum.auto()
    TOO_LONG = enum.auto()
    BYTE_ORDER_MARK = enum.auto()
    OTHER_ENCODING = enum.auto()


class Line(NamedTuple):
    """A parsed line.

    :param number: the line number, starting at 1. Lines end with CR, LF or CRLF.
    :param kind: the kind of line.
    :param key: the key in lowercase, even if it is misspelled, or an empty string if there is no
        key.
    :param value: the value, without its comment or surrounding whitespace. For a junk line, this is
        the entire line.
    :param flags: potential problems with the line.
    :param text: the entire line, as written.
    """

    number: int
    kind: LineKind
    key: str
    value: str
    flags: frozenset[Flag] = frozenset()
    text: str = ""


def raw_lines(robots: RobotsTxt) -> list[str]:
    """Return the unparsed lines in a file, decoded as Latin-1."""
    return robots.content.data.decode("latin-1").removesuffix("\n").split("\n")[1:]


def lines_of(robots: RobotsTxt) -> Iterator[Line]:
    """Parse all lines and flag potential problems."""
    encoding = robots.content.encoding
    in_group = False
    for number, line in enumerate(raw_lines(robots), 1):
        kind, key, value = read_line(line)
        before_comment = line[:MAX_LINE].partition("#")[0]
        value_bytes = value.encode("latin-1")
        is_rule = kind in RULES
        in_group = in_group or kind is LineKind.USER_AGENT
        checks = {
            Flag.MISSPELT_KEY: key in MISSPELT,
            Flag.NO_COLON: key and ":" not in before_comment,
            Flag.UNKNOWN_KEY: kind is LineKind.RECORD and key not in KEYS,
            Flag.OUTSIDE_GROUP: is_rule and not in_group,
            Flag.INVALID_TOKEN: kind is LineKind.USER_AGENT and not _is_token(value),
            Flag.NEVER_MATCHES: (is_rule or key in TRAINING) and value[:1] not in ("", "/", "*"),
            Flag.SPACE_IN_PATTERN: is_rule and _has_blanks(value),
            Flag.CONTROL_OCTET: _has_control_characters(before_comment),
            # Decoding drops bytes that are not UTF-8.
            Flag.NOT_UTF8: kind is not LineKind.JUNK
            and value_bytes.decode("utf-8", "ignore").encode() != value_bytes,
            Flag.TOO_LONG: len(line) > MAX_LINE,
            Flag.BYTE_ORDER_MARK: number == 1 and encoding == "utf-8",
            # The encoding is empty if the file has no byte order mark.
            Flag.OTHER_ENCODING: number == 1 and encoding not in ("", "utf-8"),
        }
        flags = frozenset(flag for flag, applies in checks.items() if applies)
        yield Line(number, kind, as_text(key), as_text(value), flags, as_text(line))


def records_of(robots: RobotsTxt) -> tuple[Record, ...]:
    """Return all records, including records outside any group (2.2.4)."""
    lines = (line for line in lines_of(robots) if line.kind is LineKind.RECORD)
    return tuple(Record(line.key, line.value, line.number) for line in lines)


class Group(NamedTuple):
    """Consecutive user-agent lines and the lines that follow them (RFC 9309, 2.1).

    :param tokens: the values of the user-agent lines, as written.
    :param rules: the Allow and Disallow lines.
    :param line: the number of the first line, starting at 1.
    :param last: the number of the last line.
    """

    tokens: tuple[str, ...]
    rules: tuple[Rule, ...]
    line: int
    last: int


def groups_of(robots: RobotsTxt, lines: Iterable[Line] | None = None) -> tuple[Group, ...]:
    """Return the groups as written, without merging groups for the same crawler (2.1).

    :param lines: the lines of the file, if they are parsed already.
    """
    groups: list[list[Line]] = []
    next_agent_starts_group = True
    for line in lines_of(robots) if lines is None else lines:
        if line.kind is LineKind.USER_AGENT:
            if next_agent_starts_group:
                groups.append([])
            next_agent_starts_group = False
        elif line.kind in RULES:
            next_agent_starts_group = True  # user-agent lines after a rule are for another group
        elif line.kind is not LineKind.RECORD:
            continue  # blank lines, comments and junk belong to no group
        if groups:  # rules and records above the first user-agent line belong to no group
            groups[-1].append(line)
    return tuple(map(_make_group, groups))


def _make_group(lines: list[Line]) -> Group:
    """Return the group with the given lines, which start with a user-agent line."""
    rules = [line for line in lines if line.kind in RULES]
    return Group(
        tokens=tuple(line.value for line in lines if line.kind is LineKind.USER_AGENT),
        # `LineKind` and `RuleKind` have the same names for the two kinds of rules.
        rules=tuple(Rule(RuleKind[line.kind.name], line.value, line.number) for line in rules),
        line=lines[0].number,
        last=lines[-1].number,
    )


def keys_of(group: Group) -> tuple[GroupKey, ...]:
    """Return the keys that match a group."""
    keys: dict[GroupKey, None] = {}
    for value in group.tokens:
        token, name = names_in_line(to_octets(value))
        keys |= {GroupKey(token): None, GroupKey(name, whole=True): None}
    return tuple(key for key in keys if key.text)


class Explanation(NamedTuple):
    """An explanation of the decision for a URL.

    :param crawler_tokens: the crawler's product tokens, in order of preference. If a Gemini crawler
        has several purposes, only the one that decided is included.
    :param token: the token whose group applies, ``*`` for the group that applies to all crawlers,
        or `None` if no group applies.
    :param groups: the groups for that token, which are treated as a single group (2.2.1).
    :param matches: the matching rules, most specific first. The first one decides (2.2.2).
    """

    crawler_tokens: Sequence[str]
    token: str | None
    groups: tuple[Group, ...]
    matches: tuple[Rule, ...]

    @property
    def group_reason(self) -> str:
        """A human-readable explanation of why this group applies."""
        if self.crawler_tokens:
            why_no_group = f"no group matches {' or '.join(self.crawler_tokens)}"
        else:
            why_no_group = "this crawler has no product token"
        if self.token is None:
            return f"none, because {why_no_group} and there is no group for all crawlers (*)"
        # Find the token in the crawler's names, and list the names that the crawler prefers to it.
        without_group: list[str] = []
        for name in self.crawler_tokens:
            # The crawler `bot2` also uses the group for `bot`.
            spellings = [spelling for spelling, _ in crawler_keys(name)]
            if self.token in spellings:
                without_group += spellings[: spellings.index(self.token)]
                if not without_group:
                    return f"{self.token}, named in the file"
                return f"{self.token}, because no group matches {' or '.join(without_group)}"
            without_group.append(name)
        # The token is not one of the crawler's names, so it is `*`.
        return f"all crawlers (*), because {why_no_group}"


@lru_cache(maxsize=64)  # `check` may explain many URLs from a few files
def _lines_and_groups(robots: RobotsTxt) -> tuple[list[str], tuple[Group, ...]]:
    return raw_lines(robots), groups_of(robots)


def explain(robots: RobotsTxt, url: str, tokens: Sequence[str]) -> Explanation:
    """Explain why a file allows or disallows a URL.

    :param url: the URL, in any form that `RobotsTxt.decide` accepts.
    :param tokens: product tokens in order of preference.
    """
    crawler_tokens = deciding_tokens(robots, url, tokens)
    # Without a key, there are no groups, so no rule matches.
    token, key = robots.select_group(crawler_tokens) or (None, None)
    lines, all_groups = _lines_and_groups(robots)
    groups = tuple(group for group in all_groups if key in keys_of(group))
    target = request_target(url)
    # Rule -> how specific it is, and whether it is an Allow rule, which wins a tie.
    ranks: dict[Rule, tuple[int, bool]] = {}
    for rule in chain.from_iterable(group.rules for group in groups):
        # Parse the line again, because `Rule.pattern` may contain `\xNN` for invalid bytes.
        _, _, pattern = read_line(lines[rule.line - 1])
        if pattern and parse_pattern(pattern).matches(target):
            ranks[rule] = specificity(pattern), rule.kind is RuleKind.ALLOW
    # The sort is stable, so equally specific rules stay in file order.
    matches = sorted(ranks, key=ranks.__getitem__, reverse=True)
    return Explanation(crawler_tokens, token, groups, tuple(matches))
