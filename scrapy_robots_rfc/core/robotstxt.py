"""`RobotsTxt`: parses a robots.txt and decides on URLs. The rest of the package asks files through this class.

Parsing reads almost nothing: a question to a large file reads only the groups of the product token
that asks.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.agents import ANY, product_tokens, token_of
from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.extensions import (
    RequestRate,
    VisitTime,
    parse_delay,
    parse_rate,
    parse_window,
)
from scrapy_robots_rfc.core.groups import Group, Record, merged, read_groups
from scrapy_robots_rfc.core.lines import Line, as_text, content_of, read_line, read_lines
from scrapy_robots_rfc.core.pattern import Pattern, parse_pattern, specificity
from scrapy_robots_rfc.core.percent import is_normal_url, request_target, to_octets
from scrapy_robots_rfc.core.ruleset import RuleIndex, Ruleset
from scrapy_robots_rfc.core.scan import AgentLine, Section, agent_lines, groups_of, records_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_robots_rfc.core.preferences import PathPreference, Preference

# Identifications and groups for which a file keeps its rules, so that a crawl that rotates its
# User-Agent does not fill the memory. These tables are no `lru_cache`: one for each file would take
# more memory, and refer back to the file.
_MOST_ASKED = 64

# Octets of memory that a file takes beside its own, as measured: for its objects, for a user-agent
# line, and for a rule or record of `groups` and `records`.
_OBJECTS, _AGENT_LINE, _READ_LINE = 2000, 250, 400

# How a page begins in whose place a robots.txt was expected.
_MARKUP = re.compile(rb"\s*<").match

_NO_GROUP = Decision(True, Reason.NO_GROUP)

# Stands for the rules of tokens that have not asked.
_UNREAD = Ruleset(RuleIndex(()), ANY)


class RobotsTxt:
    """A robots.txt file as RFC 9309 reads it (2.1, 2.2, 2.5). Its answers do not change once it is made.

    :param body: the file.
    :param max_size: as for `parse`.
    """

    #: Octets of a file that count: the least that RFC 9309, 2.5 permits as a limit (500 KiB).
    MAX_SIZE = 512_000

    def __init__(self, body: bytes = b"", *, max_size: int = MAX_SIZE) -> None:
        self._content = content_of(body, max_size)
        self._agents: list[AgentLine] | None = None
        self._parts: list[tuple[tuple[str, ...], Section]] | None = None
        self._asked: dict[str | Sequence[str], Ruleset | None] = {}
        self._rulesets: dict[tuple[str, str], Ruleset] = {}
        self._indexes: dict[tuple[Section, ...], RuleIndex] = {}
        self._lines_read = 0
        self._rules_read: dict[tuple[str, str], list[tuple[tuple[int, bool], Rule, Pattern]]] = {}
        self._preferences_read: dict[Ruleset | None, Mapping[str, Sequence[PathPreference]]] = {}

    @classmethod
    def parse(cls, body: bytes, *, max_size: int = MAX_SIZE) -> RobotsTxt:
        """Parse a file; any octets are accepted, and nothing is raised.

        :param body: the file.
        :param max_size: how many octets of it count, at least 512,000 in a crawl (RFC 9309, 2.5).
        """
        return cls(body, max_size=max_size)

    def decide(self, url: str | bytes, tokens: str | Sequence[str]) -> Decision:
        """Return whether a URL may be fetched, and why (RFC 9309, 2.2.2).

        :param url: absolute, or from its path on; in any spelling.
        :param tokens: product tokens in order of preference. The first one that has a group
            decides; where none has one, the ``*`` group does. A str may be a token or a User-Agent
            header.
        """
        try:
            rules = self._asked[tokens]
        except (KeyError, TypeError):  # tokens that ask for the first time, or a list
            rules = self._rules_for(tokens)
        if rules is None:
            return _NO_GROUP
        normal = is_normal_url(url) if type(url) is str else None
        return rules.decide(normal[1] if normal else request_target(url))

    def prepare(self, tokens: str | Sequence[str]) -> None:
        """Find all groups, and build the index of the one that applies, as questions would do. It may take a second.

        May be called on any thread, while other tokens ask on another one.

        :param tokens: as for `decide`.
        """
        self._group_lines()
        rules = self._rules_for(tokens)
        if rules is not None:
            rules.index.prepare()

    def prepared(self, tokens: tuple[str, ...]) -> bool:
        """Return whether questions with these product tokens take no long time.

        They do where none has been asked, or many others since then, and where `prepare` is not
        through.
        """
        rules = self._asked.get(tokens, _UNREAD)
        return rules is None or rules.index.prepared

    def _rules_for(self, tokens: str | Sequence[str]) -> Ruleset | None:
        key = tokens if isinstance(tokens, str) else tuple(tokens)
        rules = self._asked.get(key, _UNREAD)
        if rules is _UNREAD:
            if len(self._asked) >= _MOST_ASKED:
                self._asked.clear()
            token = self.choose(key)
            rules = None if token is None else self._rulesets.get(token)
            if token is not None and rules is None:
                if len(self._rulesets) >= _MOST_ASKED:
                    self._rulesets.clear()
                    self._indexes.clear()
                    self._asked.clear()
                    self._preferences_read.clear()
                groups = groups_of(self._content.octets, self._agent_lines(), token[1])
                sections = tuple(lines for _, lines in groups)
                index = self._indexes.get(sections)
                if index is None:
                    index = self._indexes[sections] = RuleIndex(sections)
                rules = self._rulesets[token] = Ruleset(index, token[0])
            self._asked[key] = rules
        return rules

    def choose(
        self, tokens: str | Sequence[str], named: Collection[str] = ()
    ) -> tuple[str, str] | None:
        """Return the token whose group applies (2.2.1): as the crawler writes it, and in the form that compares.

        :param tokens: as for `decide`.
        :param named: the tokens of the file in the form in which they compare, if they are known.
        """
        named = named or {token for _, _, token in self._agent_lines()}
        for token in _with_compared_forms(tokens if isinstance(tokens, str) else tuple(tokens)):
            if token[1] in named:
                return token
        return (ANY, ANY) if ANY in named else None

    def _agent_lines(self) -> list[AgentLine]:
        if self._agents is None:
            self._agents = agent_lines(self._content.octets)
        return self._agents

    def _group_lines(self) -> list[tuple[tuple[str, ...], Section]]:
        if self._parts is None:
            self._parts = groups_of(self._content.octets, self._agent_lines())
        return self._parts

    @property
    def weight(self) -> int:
        """About the octets of memory that the file and everything read from it take.

        Grows with the questions.
        """
        lines = _AGENT_LINE * len(self._agents or ()) + _READ_LINE * (
            self._lines_read + len(self._parts or ())
        )
        indexes = sum(index.weight for index in [*self._indexes.values()])
        decisions = sum(rules.weight for rules in [*self._rulesets.values()])
        return _OBJECTS + len(self._content.octets) + lines + indexes + decisions

    @property
    def size(self) -> int:
        """Octets of the file up to the limit, with a byte order mark and every line end."""
        return self._content.size

    @property
    def truncated(self) -> bool:
        """Whether the file is longer than the limit, so that its end does not count (RFC 9309, 2.5)."""
        return self._content.truncated

    def lines(self) -> Iterator[Line]:
        """Yield every line, with what is odd about it."""
        return read_lines(self._content)

    @cached_property
    def raw_lines(self) -> list[str]:
        """The lines as the file has them, from line 1 on: octets, one character each.

        For explanations.
        """
        return self._content.octets.decode("latin-1").split("\n")

    def line_text(self, line: int) -> str:
        """Return a line as the file has it, as text.

        :param line: its number, from 1.
        """
        return as_text(self.raw_lines[line - 1])

    @cached_property
    def _groups_and_records(self) -> tuple[tuple[Group, ...], tuple[Record, ...]]:
        groups, records = read_groups(self.lines())
        self._lines_read = len(records) + sum(
            len(group.tokens) + len(group.rules) for group in groups
        )
        return groups, records

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups as they stand in the file, not combined (RFC 9309, 2.1)."""
        return self._groups_and_records[0]

    @property
    def records(self) -> tuple[Record, ...]:
        """All records that are neither user-agent lines nor rules, inside and outside of groups (RFC 9309, 2.2.4)."""
        return self._groups_and_records[1]

    def group(self, tokens: str | Sequence[str]) -> Group | None:
        """Return the group that applies, combined from all groups of its token (RFC 9309, 2.2.1), or ``None``."""
        token = self.choose(tokens)
        return (
            None
            if token is None
            else merged(group for group in self.groups if group.names(token[1]))
        )

    def matching(self, url: str | bytes, tokens: str | Sequence[str]) -> tuple[Rule, ...]:
        """Return all rules of the group that applies that match a URL, the most specific first: that one decides.

        For explanations: it reads the whole file, and keeps its rules. Parameters as in `decide`.
        """
        token = self.choose(tokens)
        if token is None:
            return ()
        if token not in self._rules_read:
            group = self.group(tokens)
            read = [self._parsed(rule) for rule in group.rules if rule.pattern] if group else []
            self._rules_read[token] = sorted(
                read, key=lambda one: one[0], reverse=True
            )  # equal ones stay in order
        target = request_target(url)
        return tuple(
            rule for _, rule, pattern in self._rules_read[token] if pattern.matches(target)
        )

    def _parsed(self, rule: Rule) -> tuple[tuple[int, bool], Rule, Pattern]:
        octets = self.octets_of(rule.pattern, rule.line)
        return (specificity(octets), rule.kind is RuleKind.ALLOW), rule, parse_pattern(octets)

    def octets_of(self, value: str, line: int) -> str:
        """Return the value of a line, such as the pattern of a rule, as octets, one character each."""
        if (
            "\\x" in value
        ):  # an octet that is not UTF-8 became `\xNN`, or the file itself has these characters
            return read_line(self.raw_lines[line - 1]).value
        return to_octets(value)

    def mentions(self, *keys: str) -> bool:
        """Return whether the file contains some keys, in lower case, anywhere.

        Much faster than to read its records.
        """
        lower = self._content.octets.lower()
        return any(key.encode("ascii") in lower for key in keys)

    @property
    def is_page(self) -> bool:
        """Whether it begins as HTML or XML does, and has no group, so that everything is allowed."""
        return _MARKUP(self._content.octets) is not None and not self._agent_lines()

    def records_by_group(self, *keys: str) -> Iterator[tuple[tuple[str, ...], list[Record]]]:
        """Yield the tokens of each group, in the form in which they compare, and its records of some keys."""
        names, parts = (
            [names for names, _ in self._group_lines()],
            [lines for _, lines in self._group_lines()],
        )
        return zip(names, records_in(parts, keys), strict=True)

    def records_for(
        self, tokens: str | Sequence[str], *keys: str, most: float = math.inf
    ) -> tuple[Record, ...]:
        """Return the records of some keys, in lower case, in the group that applies (RFC 9309, 2.2.4).

        They are those of `group`, but the rest of the file is not read.

        :param most: how many lines that begin with a key are read at most.
        """
        token = self.choose(tokens)
        parts = (
            lines for names, lines in self._group_lines() if token is not None and token[1] in names
        )
        return tuple(chain.from_iterable(records_in(parts, keys, most)))

    def preferences(
        self, url: str | bytes, tokens: str | Sequence[str]
    ) -> Mapping[str, Preference]:
        """Return what the group that applies says of the use of a page: label -> `preferences.Preference`.

        Of labels that no Content-Signal of the group names, it is what those above the first
        user-agent line say. Other labels that it does not name are absent. A URL that may not be
        fetched has no preferences. Parameters as in `decide`.
        """
        from scrapy_robots_rfc.core import preferences as use  # noqa: PLC0415 - a verdict does not need it

        if not self.decide(url, tokens).allowed:
            return {}
        key = self._rules_for(tokens)
        read = self._preferences_read.get(key)
        if read is None:
            records = self.records_for(tokens, *use.RECORDS, most=use.MOST_RECORDS)
            above = self._records_above(use.SIGNAL, most=use.MOST_RECORDS)
            read = use.read_records(self._as_octets(records), self._as_octets(above))
            self._preferences_read[key] = read
            self._lines_read += len(records) + len(above)
        return use.of_records(read, url)

    def _as_octets(self, records: Iterable[Record]) -> list[Record]:
        return [
            replace(record, value=self.octets_of(record.value, record.line)) for record in records
        ]

    def _records_above(self, key: str, most: float = math.inf) -> tuple[Record, ...]:
        """Return the records of a key above the first user-agent line."""
        octets, agents = self._content.octets, self._agent_lines()
        above = _section_of(octets[: agents[0][0]] if agents else octets)
        return tuple(*records_in([above], [key], most))

    def licenses(self, tokens: str | Sequence[str]) -> tuple[Record, ...]:
        """Return the License records of the group that applies.

        Without one, those above the first user-agent line.
        """
        return self.records_for(tokens, "license") or self._records_above("license")

    def _values(self, *keys: str) -> Iterator[str]:
        """Yield the values of some keys in the whole file, but no empty ones."""
        whole = _section_of(self._content.octets)
        return (record.value for record in next(records_in([whole], keys)) if record.value)

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The values of all Sitemap records inside and outside of groups, as the file writes them."""
        return tuple(self._values("sitemap", "site-map"))

    @property
    def host(self) -> str | None:
        """The value of the first Host record: the host that the site prefers."""
        return next(self._values("host"), None)

    def crawl_delay(self, tokens: str | Sequence[str]) -> float | None:
        """Return the largest Crawl-delay of the group that applies, in seconds, or ``None``.

        It may be infinite.
        """
        delays = (parse_delay(record.value) for record in self.records_for(tokens, "crawl-delay"))
        return max((delay for delay in delays if delay is not None), default=None)

    def request_rate(self, tokens: str | Sequence[str]) -> RequestRate | None:
        """Return the slowest Request-rate of the group that applies, or ``None``."""
        rates = (parse_rate(record.value) for record in self.records_for(tokens, "request-rate"))
        return max(
            (rate for rate in rates if rate is not None),
            key=lambda rate: rate.interval,
            default=None,
        )

    def visit_time(self, tokens: str | Sequence[str]) -> VisitTime | None:
        """Return the first Visit-time of the group that applies, or ``None``."""
        windows = (parse_window(record.value) for record in self.records_for(tokens, "visit-time"))
        return next((window for window in windows if window is not None), None)


def _section_of(octets: bytes) -> Section:
    """Return a file, or its beginning, as if it stood below a user-agent line with the number 0."""
    return Section(b"\n" + octets, 0, len(octets) + 1, 0)


@lru_cache(maxsize=1024)
def _with_compared_forms(tokens: str | tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return tokens as the crawler writes them, each with the form in which tokens compare."""
    wanted = product_tokens(tokens) if isinstance(tokens, str) else tokens
    return tuple((token, token_of(to_octets(token))) for token in wanted)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a file decides on a URL as it does.

    :param asked: the product tokens of the crawler, in order of preference.
    :param token: the one whose group applies; ``*`` for the group of all crawlers; ``None`` where
        no group applies.
    :param groups: the groups of that token as they stand in the file; they count as one (RFC 9309,
        2.2.1).
    :param matches: the rules that match, the most specific first: that one decides (2.2.2).
    """

    asked: tuple[str, ...]
    token: str | None
    groups: tuple[Group, ...]
    matches: tuple[Rule, ...]

    @property
    def choice(self) -> str:
        """Why this group applies, as text for people."""
        others = (
            f"no group names {' or '.join(self.asked)}"
            if self.asked
            else "this crawler has no product token"
        )
        if self.token is None:
            return f"none applies: {others}, and there is no group for *"
        if self.token == ANY and ANY not in self.asked:
            return f"for all crawlers (*): {others}"
        before = self.asked[: self.asked.index(self.token)] if self.token in self.asked else ()
        first = f", and none names {' or '.join(before)}" if before else ""
        return f"for {self.token}: it is named there{first}"


def explain(robots: RobotsTxt, url: str, tokens: Sequence[str]) -> Explanation:
    """Return why a file decides on a URL as it does.

    :param url: as for `RobotsTxt.decide`.
    :param tokens: product tokens in order of preference.
    """
    token = robots.decide("/", tokens).token
    compared = None if token is None else token_of(to_octets(token))
    groups = tuple(
        group for group in robots.groups if compared is not None and group.names(compared)
    )
    return Explanation(tuple(tokens), token, groups, robots.matching(url, tokens))
