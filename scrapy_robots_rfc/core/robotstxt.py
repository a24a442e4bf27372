"""`RobotsTxt`: reads a robots.txt and decides on URLs. The rest of the package asks this class.

Parsing finds the user-agent lines. A question reads the groups of its product token, once.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from scrapy_robots_rfc.core.agents import ANY, product_tokens, token_of
from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.extensions import parse_delay
from scrapy_robots_rfc.core.groups import Group, Record, read_groups
from scrapy_robots_rfc.core.lines import (
    Content,
    Line,
    LineKind,
    as_text,
    content_of,
    read_line,
    read_lines,
)
from scrapy_robots_rfc.core.pattern import parse_pattern, specificity
from scrapy_robots_rfc.core.percent import is_normal_url, request_target, to_octets
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT, RuleIndex, Ruleset
from scrapy_robots_rfc.core.scan import AgentLine, Section, agent_lines, groups_of, records_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scrapy_robots_rfc.core.preferences import Preference

# Identifications and groups whose rules a file stores, so that a crawl that rotates its User-Agent
# does not fill the memory. An `lru_cache` for each file would take more memory than these tables.
_MOST_ASKED = 64

# How a page begins in whose place a robots.txt was expected.
_MARKUP = re.compile(rb"\s*<").match

_NO_GROUP = Decision(True, Reason.NO_GROUP)


class RobotsTxt:
    """A robots.txt as RFC 9309 reads it (2.1, 2.2, 2.5). Its answers never change.

    :param body: the file.
    :param max_size: as for `parse`.
    """

    #: Octets of a file that count: the least that RFC 9309, 2.5 permits as a limit (500 KiB).
    MAX_SIZE = 512_000

    def __init__(self, body: bytes = b"", *, max_size: int = MAX_SIZE) -> None:
        self._content = self._read(content_of(body, max_size))
        self._parts: list[tuple[tuple[str, ...], Section]] | None = None
        self._asked: dict[str | Sequence[str], Ruleset] = {}
        self._indexes: dict[tuple[Section, ...], RuleIndex] = {}

    @cached_property
    def _agents(self) -> list[AgentLine]:
        return agent_lines(self._content.octets)

    @cached_property
    def _named(self) -> set[str]:
        return {token for _, _, token in self._agents}

    def _read(self, content: Content) -> Content:
        """Return the content as RFC 9309 has to see it; a file of another kind changes it."""
        return content

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
        if rules.token is None:
            return _NO_GROUP
        match = is_normal_url(url) if type(url) is str else None  # most URLs are normal
        target = match[1] if match else request_target(url)
        pattern = rules.index.find(target)
        decision = rules.decisions.get(pattern) or rules.decision_by(pattern)
        if not decision.allowed and target == ROBOTS_TXT:
            return Decision(True, Reason.ROBOTS_TXT, None, rules.token)
        return decision

    def prepare(self, tokens: str | Sequence[str]) -> None:
        """Do what would make the first questions slow. It may take a second.

        May be called on any thread, while other tokens ask on another one.

        :param tokens: as for `decide`.
        """
        self._group_lines()
        self._rules_for(tokens).index.prepare()

    def prepared(self, tokens: tuple[str, ...]) -> bool:
        """Return whether no question of these product tokens takes long.

        :param tokens: as for `decide`; after `prepare`, and until many others were asked.
        """
        rules = self._asked.get(tokens)
        return rules is not None and rules.index.prepared

    def _rules_for(self, tokens: str | Sequence[str]) -> Ruleset:
        key = tokens if isinstance(tokens, str) else tuple(tokens)
        known = self._asked.get(key)
        if known is not None:
            return known
        token, compared = self.choose(key) or (None, None)
        groups = () if compared is None else groups_of(self._content.octets, self._agents, compared)
        sections = tuple(lines for _, lines in groups)
        for table in (self._asked, self._indexes):
            if len(table) >= _MOST_ASKED:
                table.clear()
        index = self._indexes.setdefault(sections, RuleIndex(self._content.octets, sections))
        rules = self._asked[key] = Ruleset(index, token)
        return rules

    def choose(self, tokens: str | Sequence[str]) -> tuple[str, str] | None:
        """Return the token whose group applies (2.2.1), and the form in which it compares.

        :param tokens: as for `decide`.
        """
        for token in _with_compared_forms(tokens if isinstance(tokens, str) else tuple(tokens)):
            if token[1] in self._named:
                return token
        return (ANY, ANY) if ANY in self._named else None

    def _group_lines(self) -> list[tuple[tuple[str, ...], Section]]:
        if self._parts is None:
            self._parts = list(groups_of(self._content.octets, self._agents))
        return self._parts

    @property
    def size(self) -> int:
        """Octets of the file up to the limit, with a byte order mark and every line end."""
        return self._content.size

    @property
    def truncated(self) -> bool:
        """Whether the file is longer than the limit, so that its end does not count (2.5)."""
        return self._content.truncated

    @property
    def is_page(self) -> bool:
        """Whether it begins as HTML or XML, and has no group, so that everything is allowed."""
        return _MARKUP(self._content.octets) is not None and not self._agents

    def lines(self) -> Iterator[Line]:
        """Yield every line, with what is odd about it."""
        return read_lines(self._content)

    @cached_property
    def raw_lines(self) -> list[str]:
        """The lines as the file has them, from line 1 on: octets, one character each."""
        return self._content.octets.decode("latin-1").split("\n")[1:]

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups as they stand in the file, not combined (RFC 9309, 2.1)."""
        return read_groups(self.lines())

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records inside and outside of groups, without user-agent lines and rules (2.2.4)."""
        found = (line for line in self.lines() if line.kind is LineKind.RECORD)
        return tuple(Record(line.key, line.value, line.number) for line in found)

    def records_by_group(self, *keys: str) -> Iterable[tuple[tuple[str, ...], list[Record]]]:
        """Return of each group its tokens, in the form that compares, and its records of some keys.

        Values are octets, one character each. Empty where no key is anywhere in the file: nothing
        is read then.

        :param keys: in lower case.
        """
        lower = self._content.octets.lower()
        if not any(key.encode("ascii") in lower for key in keys):
            return ()
        groups = self._group_lines()
        records = records_in(self._content.octets, (lines for _, lines in groups), keys)
        return zip((names for names, _ in groups), records, strict=True)

    def preferences(
        self, url: str | bytes, tokens: str | Sequence[str]
    ) -> Mapping[str, Preference]:
        """Return what the group that applies says of the use of a page, by label.

        Of labels that no Content-Signal of the group names, it is what those above the first
        user-agent line say. Other labels that it does not name are absent. A URL that may not be
        fetched has no preferences. Parameters as in `decide`.
        """
        from scrapy_robots_rfc.core import preferences as use  # noqa: PLC0415 - not for verdicts

        if not self.decide(url, tokens).allowed:
            return {}
        index = self._rules_for(tokens).index
        if index.preferences is None:
            octets = self._content.octets
            token = self.choose(tokens)
            groups = () if token is None else self._group_lines()
            parts = [lines for names, lines in groups if token and token[1] in names]
            above = Section(0, self._agents[0][0] - 1 if self._agents else len(octets), 0)
            own = records_in(octets, parts, use.RECORDS, use.MOST_RECORDS)
            general = records_in(octets, [above], [use.SIGNAL], use.MOST_RECORDS)
            index.preferences = use.read_records(
                chain.from_iterable(own), chain.from_iterable(general)
            )
        return use.of_records(index.preferences, url)

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The values of all Sitemap records inside and outside of groups, as the file has them."""
        octets = self._content.octets
        (records,) = records_in(octets, [Section(0, len(octets), 0)], ("sitemap", "site-map"))
        return tuple(as_text(record.value) for record in records if record.value)

    def crawl_delay(self, tokens: str | Sequence[str]) -> float | None:
        """Return the largest Crawl-delay of the group that applies, in seconds, or ``None``.

        It may be infinite.
        """
        token = self.choose(tokens)
        groups = self.records_by_group("crawl-delay")
        own = [records for names, records in groups if token and token[1] in names]
        delays = (parse_delay(record.value) for record in chain.from_iterable(own))
        return max((delay for delay in delays if delay is not None), default=None)


@lru_cache(maxsize=1024)
def _with_compared_forms(tokens: str | tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return tokens as the crawler writes them, each with the form in which tokens compare."""
    wanted = product_tokens(tokens) if isinstance(tokens, str) else tokens
    return tuple((token, token_of(to_octets(token))) for token in wanted)


class Explanation(NamedTuple):
    """Why a file decides on a URL as it does.

    :param asked: the product tokens of the crawler, in order of preference.
    :param token: the one whose group applies; ``*`` for the group of all crawlers; ``None`` where
        no group applies.
    :param groups: the groups of that token as they stand in the file; they count as one (2.2.1).
    :param matches: the rules that match, the most specific first: that one decides (2.2.2).
    """

    asked: tuple[str, ...]
    token: str | None
    groups: tuple[Group, ...]
    matches: tuple[Rule, ...]

    @property
    def choice(self) -> str:
        """Why this group applies, as text for people."""
        others = "this crawler has no product token"
        if self.asked:
            others = f"no group names {' or '.join(self.asked)}"
        if self.token is None:
            return f"none applies: {others}, and there is no group for *"
        if self.token not in self.asked:
            return f"for all crawlers (*): {others}"
        before = self.asked[: self.asked.index(self.token)]
        first = f", and none names {' or '.join(before)}" if before else ""
        return f"for {self.token}: it is named there{first}"


def explain(robots: RobotsTxt, url: str, tokens: Sequence[str]) -> Explanation:
    """Return why a file decides on a URL as it does.

    :param url: as for `RobotsTxt.decide`.
    :param tokens: product tokens in order of preference.
    """
    token = robots.decide("/", tokens).token
    compared = None if token is None else token_of(to_octets(token))
    groups = [group for group in robots.groups if compared is not None and group.names(compared)]
    target = request_target(url)
    found: list[tuple[tuple[int, bool], Rule]] = []
    for rule in chain.from_iterable(group.rules for group in groups):
        _, _, pattern = read_line(robots.raw_lines[rule.line - 1])  # the text may have escapes
        if pattern and parse_pattern(pattern).matches(target):
            found.append(((specificity(pattern), rule.kind is RuleKind.ALLOW), rule))
    # Equal ones stay in the order of the file.
    found.sort(key=lambda one: one[0], reverse=True)
    return Explanation(tuple(tokens), token, tuple(groups), tuple(rule for _, rule in found))
