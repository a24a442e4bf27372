"""A robots.txt file: parse it, ask it. The one class of `core/` that the rest of the package talks to.

Nothing is read before it is asked for, and of a large file only the groups that the asked-for token needs.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.agents import ANY, product_tokens, token_of
from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.extensions import RequestRate, VisitTime, parse_delay, parse_rate, parse_window
from scrapy_robots_rfc.core.groups import Group, Record, merged, read_groups
from scrapy_robots_rfc.core.lines import Line, as_text, records, source_of
from scrapy_robots_rfc.core.percent import is_normal_url, octets, request_target
from scrapy_robots_rfc.core.ruleset import Ruleset
from scrapy_robots_rfc.core.scan import (
    AgentLine,
    Section,
    agent_lines,
    matching_rules,
    parsed_rules,
    sections,
    whole_groups,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from scrapy_robots_rfc.core.scan import ParsedRule

#: The parsing limit, in octets: the least that RFC 9309, 2.5 permits (500 KiB).
MAX_SIZE = 512_000

# Different identifications that one file is asked for; a crawl that rotates its User-Agent must not make it grow.
_MOST_ASKED = 64

# Octets that a file takes in memory beside its own, as measured: its objects, a user-agent line, a rule or record of
# the full reading.
_OBJECTS, _AGENT_LINE, _READ_LINE = 2000, 250, 400

_NO_GROUP = Decision(True, Reason.NO_GROUP)


class _Unrestricted:
    """Stands where no group applies: nothing is forbidden (RFC 9309, 2.2.1)."""

    def decide(self, _target: str) -> Decision:
        return _NO_GROUP


class RobotsTxt:
    """A robots.txt file as RFC 9309 reads it (2.1, 2.2, 2.5). Made by `parse`; does not change afterwards."""

    MAX_SIZE = MAX_SIZE

    def __init__(self, body: bytes = b"", *, max_size: int = MAX_SIZE) -> None:
        self._source = source_of(body, max_size)
        self._asked: dict[str | Sequence[str], Ruleset | _Unrestricted] = {}
        self._rulesets: dict[tuple[str, str], Ruleset] = {}
        self._agents: list[AgentLine] | None = None
        self._lines_read = 0
        self._parsed: dict[str, list[ParsedRule]] = {}

    @classmethod
    def parse(cls, body: bytes, *, max_size: int = MAX_SIZE) -> RobotsTxt:
        """Parse any octets whatever; never raises.

        :param body: the file.
        :param max_size: how many octets of it count, at least 512,000 in a crawl (RFC 9309, 2.5).
        """
        return cls(body, max_size=max_size)

    def decide(self, url: str | bytes, tokens: str | Sequence[str]) -> Decision:
        """Whether a URL may be fetched, and why (RFC 9309, 2.2.2).

        :param url: absolute, or from its path on; any spelling.
        :param tokens: product tokens in order of preference, of which the first that has a group decides, else the
            ``*`` group. A single string may be a token or a User-Agent header.
        """
        try:
            rules = self._asked[tokens]
        except (KeyError, TypeError):  # asked for the first time, or a list
            rules = self._rules_for(tokens)
        normal = is_normal_url(url) if type(url) is str else None
        return rules.decide(normal[1] if normal else request_target(url))

    def _rules_for(self, tokens: str | Sequence[str]) -> Ruleset | _Unrestricted:
        key = tokens if isinstance(tokens, str) else tuple(tokens)
        if key not in self._asked:
            if len(self._asked) >= _MOST_ASKED:
                self._asked.clear()
                self._rulesets.clear()
            self._asked[key] = self._ruleset(tokens)
        return self._asked[key]

    def _ruleset(self, tokens: str | Sequence[str]) -> Ruleset | _Unrestricted:
        agents = self._agent_lines()
        token = _choose(tokens, {name for _, _, name in agents})
        if token is None:
            return _Unrestricted()
        written, compared = token
        if token not in self._rulesets:
            self._rulesets[token] = Ruleset(sections(self._source.octets, agents, compared), written)
        return self._rulesets[token]

    def _agent_lines(self) -> list[AgentLine]:
        if self._agents is None:
            self._agents = agent_lines(self._source.octets)
        return self._agents

    @property
    def weight(self) -> int:
        """About the octets that the file and all that was read of it take in memory. Grows when it is asked."""
        lines = _AGENT_LINE * len(self._agents or ()) + _READ_LINE * self._lines_read
        return _OBJECTS + len(self._source.octets) + lines + sum(rules.weight for rules in self._rulesets.values())

    @property
    def truncated(self) -> bool:
        """Whether the file was longer than the limit, so that its end does not count (RFC 9309, 2.5)."""
        return self._source.truncated

    def lines(self) -> Iterator[Line]:
        """Every line as a record, with what is odd about it."""
        return records(self._source)

    @cached_property
    def _groups_and_records(self) -> tuple[tuple[Group, ...], tuple[Record, ...]]:
        groups, found = read_groups(self.lines())
        self._lines_read = len(found) + sum(len(group.tokens) + len(group.rules) for group in groups)
        return groups, found

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups as they stand in the file, not merged (RFC 9309, 2.1)."""
        return self._groups_and_records[0]

    @property
    def records(self) -> tuple[Record, ...]:
        """All records that are neither user-agent lines nor rules, in or outside groups (RFC 9309, 2.2.4)."""
        return self._groups_and_records[1]

    def group(self, tokens: str | Sequence[str]) -> Group | None:
        """The group that applies, merged from all of its token (RFC 9309, 2.2.1); ``None`` where none does."""
        token = _choose(tokens, {token_of(octets(name)) for group in self.groups for name in group.tokens})
        return merged(group for group in self.groups if token is not None and group.names(token[1]))

    def matching(self, url: str | bytes, tokens: str | Sequence[str]) -> tuple[Rule, ...]:
        """All rules of the group that applies that match a URL, the most specific first: that one decides (2.2.2).

        For explanations: once asked, it keeps all rules of the group, taken apart. Arguments as in `decide`.
        """
        agents = self._agent_lines()
        token = _choose(tokens, {name for _, _, name in agents})
        if token is None:
            return ()
        if token[1] not in self._parsed:
            self._parsed[token[1]] = parsed_rules(sections(self._source.octets, agents, token[1]))
        found = matching_rules(self._parsed[token[1]], request_target(url))
        return tuple(
            Rule(RuleKind.ALLOW if allow else RuleKind.DISALLOW, as_text(pattern), line)
            for allow, pattern, line in found
        )

    @cached_property
    def octets(self) -> list[str]:
        """The lines as they stand in the file, from line 1 on, octets as one character each. For explanations."""
        return self._source.octets.decode("latin-1").split("\n")

    def written(self, line: int) -> str:
        """A line as it stands in the file, as text.

        :param line: its number, from 1.
        """
        return as_text(self.octets[line - 1])

    @property
    def size(self) -> int:
        """Octets of the file, up to the limit: as they were parsed, a byte order mark and every line end included."""
        return self._source.size

    def mentions(self, *keys: str) -> bool:
        """Whether records of some keys, in lower case, may stand in the file: a look that costs next to nothing."""
        lower = self._source.octets.lower()
        return any(key.encode("ascii") in lower for key in keys)

    def records_for(self, tokens: str | Sequence[str], *keys: str) -> tuple[Record, ...]:
        """The records of some keys, in lower case, in the group that applies (RFC 9309, 2.2.4).

        They are those of `group`, without the cost of reading the whole file.
        """
        agents = self._agent_lines()
        token = _choose(tokens, {name for _, _, name in agents})
        if token is None:
            return ()
        lower = self._source.octets.lower()
        found = whole_groups(self._source.octets, agents, token[1])
        return tuple(record for section in found for record in section.records(lower, keys))

    def _values(self, *keys: str) -> Iterable[str]:
        whole = Section(self._source.octets, 0, len(self._source.octets), 1)
        return (record.value for record in whole.records(self._source.octets.lower(), keys))

    def _group_values(self, tokens: str | Sequence[str], key: str) -> Iterable[str]:
        return (record.value for record in self.records_for(tokens, key))

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The values of all Sitemap records, wherever they stand, as written."""
        return tuple(value for value in self._values("sitemap", "site-map") if value)

    @property
    def host(self) -> str | None:
        """The value of the first Host record: the site's preferred host."""
        return next((value for value in self._values("host") if value), None)

    def crawl_delay(self, tokens: str | Sequence[str]) -> float | None:
        """The largest Crawl-delay of the group that applies, in seconds, may be infinite; ``None`` without one."""
        delays = (parse_delay(value) for value in self._group_values(tokens, "crawl-delay"))
        return max((delay for delay in delays if delay is not None), default=None)

    def request_rate(self, tokens: str | Sequence[str]) -> RequestRate | None:
        """The slowest Request-rate of the group that applies; ``None`` where there is none."""
        rates = (parse_rate(value) for value in self._group_values(tokens, "request-rate"))
        return max((rate for rate in rates if rate is not None), key=lambda rate: rate.interval, default=None)

    def visit_time(self, tokens: str | Sequence[str]) -> VisitTime | None:
        """The first Visit-time of the group that applies; ``None`` where there is none."""
        windows = (parse_window(value) for value in self._group_values(tokens, "visit-time"))
        return next((window for window in windows if window is not None), None)


@lru_cache(maxsize=1024)
def _wanted(tokens: str | tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Tokens as the crawler writes them, each with its form in which tokens compare."""
    wanted = product_tokens(tokens) if isinstance(tokens, str) else tokens
    return tuple((token, token_of(octets(token))) for token in wanted)


def _choose(tokens: str | Sequence[str], named: Container[str]) -> tuple[str, str] | None:
    """The token whose group applies: as the crawler writes it, and as tokens compare (RFC 9309, 2.2.1).

    :param named: the tokens that the file names, as tokens compare.
    """
    for token in _wanted(tokens if isinstance(tokens, str) else tuple(tokens)):
        if token[1] in named:
            return token
    return (ANY, ANY) if ANY in named else None
