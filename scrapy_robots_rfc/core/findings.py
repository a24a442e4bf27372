"""Explain a robots.txt to users: its lines, groups and records, and why a URL is allowed.

`lint`, `show` and `check` use this module. It reads a file line by line, with the parser's own
`read_line`. A crawl does not: `groups.py` finds the same groups faster.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from scrapy_robots_rfc.core.agents import GroupKey, crawler_keys, line_keys, names_in_line
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

# Control characters except for the tab.
_has_control_characters = re.compile("[\x00-\x08\x0a-\x1f\x7f]").search
_has_blanks = re.compile("[ \t]").search
# `FooBot` or `*`.
_is_token = re.compile(r"\*|[A-Za-z_-]+").fullmatch


class Flag(enum.StrEnum):
    """An odd property of a line. The linter has a finding for each."""

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
    """A line of the file, as it is read.

    :param number: its number, from 1; lines end in CR, LF or CRLF.
    :param kind: the kind of line.
    :param key: its key in lower case, as the file spells it, or empty if it has none.
    :param value: its value without surrounding blanks and comment; for junk, the line itself.
    :param flags: its odd properties.
    """

    number: int
    kind: LineKind
    key: str
    value: str
    flags: frozenset[Flag] = frozenset()


def raw_lines(robots: RobotsTxt) -> list[str]:
    """Return the lines of a file as it has them: bytes, one character each."""
    return robots.content.data.decode("latin-1").removesuffix("\n").split("\n")[1:]


def lines_of(robots: RobotsTxt) -> Iterator[Line]:
    """Yield every line, with its odd properties."""
    encoding = robots.content.encoding
    in_group = False
    for number, line in enumerate(raw_lines(robots), 1):
        kind, key, value = read_line(line)
        text = line[:MAX_LINE].partition("#")[0]
        value_bytes = value.encode("latin-1")
        is_rule = kind in RULES
        in_group = in_group or kind is LineKind.USER_AGENT
        odd = {
            Flag.MISSPELT_KEY: key in MISSPELT,
            Flag.NO_COLON: key and ":" not in text,
            Flag.UNKNOWN_KEY: kind is LineKind.RECORD and key not in KEYS,
            Flag.OUTSIDE_GROUP: is_rule and not in_group,
            Flag.INVALID_TOKEN: kind is LineKind.USER_AGENT and not _is_token(value),
            Flag.NEVER_MATCHES: (is_rule or key in TRAINING) and value[:1] not in ("", "/", "*"),
            Flag.SPACE_IN_PATTERN: is_rule and _has_blanks(value),
            Flag.CONTROL_OCTET: _has_control_characters(text),
            Flag.NOT_UTF8: value_bytes.decode("utf-8", "ignore").encode() != value_bytes,
            Flag.TOO_LONG: len(line) > MAX_LINE,
            Flag.BYTE_ORDER_MARK: number == 1 and encoding == "utf-8",
            Flag.OTHER_ENCODING: number == 1 and encoding not in ("", "utf-8"),
        }
        flags = frozenset(flag for flag, is_found in odd.items() if is_found)
        yield Line(number, kind, as_text(key), as_text(value), flags)


def records_of(robots: RobotsTxt) -> tuple[Record, ...]:
    """Return the records inside and outside of groups (2.2.4)."""
    lines = (line for line in lines_of(robots) if line.kind is LineKind.RECORD)
    return tuple(Record(line.key, line.value, line.number) for line in lines)


class Group(NamedTuple):
    """User-agent lines and the lines after them (RFC 9309, 2.1).

    :param tokens: the values of its user-agent lines, as the file spells them.
    :param rules: its allow and disallow lines.
    :param line: the number of its first line, from 1.
    :param last: the number of its last line.
    """

    tokens: tuple[str, ...]
    rules: tuple[Rule, ...]
    line: int
    last: int


def groups_of(robots: RobotsTxt) -> tuple[Group, ...]:
    """Return the groups as the file has them, not combined (RFC 9309, 2.1)."""
    groups: list[list[Line]] = []
    ended = True
    for line in lines_of(robots):
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


def keys_of(group: Group) -> tuple[GroupKey, ...]:
    """Return the keys that select a group, in the order of its user-agent lines."""
    keys: dict[GroupKey, None] = {}
    for value in group.tokens:
        keys.update(dict.fromkeys(line_keys(*names_in_line(to_octets(value)))))
    return tuple(keys)


class Explanation(NamedTuple):
    """Why a file decides about a URL as it does.

    :param crawler_tokens: the product tokens of the crawler, in order of preference. If a Gemini
        crawler has several purposes, only the one that decided is included.
    :param token: the token whose group applies, ``*`` for the group of all crawlers, or `None` if
        no group applies.
    :param groups: the groups of that token as the file has them; they count as one (2.2.1).
    :param matches: the rules that match, the most specific first, which decides (2.2.2).
    """

    crawler_tokens: Sequence[str]
    token: str | None
    groups: tuple[Group, ...]
    matches: tuple[Rule, ...]

    @property
    def group_reason(self) -> str:
        """The reason why this group applies, in words for the user."""
        others = "this crawler has no product token"
        if self.crawler_tokens:
            others = f"no group names {' or '.join(self.crawler_tokens)}"
        if self.token is None:
            return f"none: {others}, and there is no group for all crawlers (*)"
        missing: list[str] = []
        for name in self.crawler_tokens:
            spellings = [spelling for spelling, _ in crawler_keys(name)]
            if self.token in spellings:
                missing += spellings[: spellings.index(self.token)]
                but = f"; no group names {' or '.join(missing)}" if missing else ""
                return f"{self.token}, named in the file{but}"
            missing.append(name)
        return f"all crawlers (*): {others}"


@lru_cache(maxsize=64)  # `check` explains many URLs by a few files
def _read(robots: RobotsTxt) -> tuple[list[str], tuple[Group, ...]]:
    return raw_lines(robots), groups_of(robots)


def explain(robots: RobotsTxt, url: str, tokens: Sequence[str]) -> Explanation:
    """Return why a file decides about a URL as it does.

    :param url: as for `RobotsTxt.decide`.
    :param tokens: product tokens in order of preference.
    """
    tokens = deciding_tokens(robots, url, tokens)
    token, key = robots.select_group(tokens) or (None, None)
    lines, all_groups = _read(robots)
    groups = tuple(group for group in all_groups if key in keys_of(group))
    target = request_target(url)
    ranked: list[tuple[tuple[int, bool], Rule]] = []
    for rule in chain.from_iterable(group.rules for group in groups):
        _, _, pattern = read_line(lines[rule.line - 1])  # the text may have escapes
        if pattern and parse_pattern(pattern).matches(target):
            ranked.append(((specificity(pattern), rule.kind is RuleKind.ALLOW), rule))
    # Equally specific rules stay in the order of the file.
    ranked.sort(key=lambda rank_and_rule: rank_and_rule[0], reverse=True)
    return Explanation(tokens, token, groups, tuple(rule for _, rule in ranked))
