"""`RobotsTxt`: reads a robots.txt and decides about URLs. The rest of the package uses this class.

Parsing only finds the part of the file that counts. The first question for a product token reads
its groups. `findings.py` explains a file to users.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Self

from scrapy_robots_rfc.core import preferences as use
from scrapy_robots_rfc.core.agents import ANY, ANY_KEY, GroupKey, crawler_keys, product_tokens
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.extensions import parse_delay
from scrapy_robots_rfc.core.groups import (
    AgentLine,
    Section,
    agent_lines,
    groups_in,
    records_in,
    sections_for,
)
from scrapy_robots_rfc.core.lines import Content, Record, as_text, content_of
from scrapy_robots_rfc.core.percent import is_normal_url, request_target
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT, RuleIndex, Ruleset

# Maximum names and groups whose rules a file stores, so that a crawl that rotates its User-Agent
# does not fill the memory. An `lru_cache` for each file would take more memory than these tables.
_MAX_STORED = 64

# The beginning of an HTML or XML page: ` <html>`.
_begins_with_markup = re.compile(rb"\s*<").match

_NO_GROUP = Decision(True, Reason.NO_GROUP)


class RobotsTxt:
    """A robots.txt as RFC 9309 reads it (2.1, 2.2, 2.5). Its answers never change.

    :param body: the file.
    :param max_size: as for `parse`.
    """

    #: Bytes of a file that count: the lowest limit that RFC 9309, 2.5 permits (500 KiB).
    MAX_SIZE = 512_000

    def __init__(self, body: bytes = b"", *, max_size: int = MAX_SIZE) -> None:
        #: The part of the file that counts.
        self.content: Content = content_of(body, max_size)
        # `None` until a question reads them. Before Python 3.12, a `cached_property` has a lock, so
        # the event loop would wait while a thread reads another file.
        self._agents: list[AgentLine] | None = None
        self._groups: list[tuple[tuple[GroupKey, ...], Section]] | None = None
        self._tokens: set[str] = set()
        self._names: set[str] | None = None
        self._asked: dict[str | Sequence[str], Ruleset] = {}
        self._indexes: dict[tuple[Section, ...], RuleIndex] = {}
        self._policies: list[tuple[str, str, Ruleset]] | None = None

    @classmethod
    def parse(cls, body: bytes, *, max_size: int = MAX_SIZE) -> Self:
        """Parse a file. Accepts any bytes and never raises.

        :param body: the file.
        :param max_size: maximum bytes that count, at least 512,000 in a crawl (RFC 9309, 2.5).
        """
        return cls(body, max_size=max_size)

    def decide(self, url: str | bytes, tokens: str | Sequence[str]) -> Decision:
        """Return whether a URL may be fetched, and why (RFC 9309, 2.2.2).

        :param url: an absolute URL, or a path and query; in any spelling.
        :param tokens: product tokens in order of preference. The first one with a group decides, or
            else the ``*`` group. A str may be a token or a User-Agent header.
        """
        try:
            rules = self._asked[tokens]
        except (KeyError, TypeError):  # the first question for these tokens, or a list
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
        """Do the work that would make the first questions slow. It may take a second.

        May be called on any thread while another thread asks about other tokens.

        :param tokens: as for `decide`.
        """
        self._preferences_for(tokens)
        for _, _, rules in self._policy_rules():
            rules.index.prepare()
        self._rules_for(tokens).index.prepare()

    def prepared(self, tokens: tuple[str, ...]) -> bool:
        """Return whether no question for these product tokens takes long.

        That is so after `prepare`, until many other tokens were used.

        :param tokens: as for `decide`.
        """
        rules = self._asked.get(tokens)
        return rules is not None and rules.index.prepared

    def _rules_for(self, tokens: str | Sequence[str]) -> Ruleset:
        key = tokens if isinstance(tokens, str) else tuple(tokens)
        known = self._asked.get(key)
        if known is not None:
            return known
        token, group_key = self.select_group(key) or (None, None)
        data = self.content.data
        sections: tuple[Section, ...] = ()
        if group_key is not None:
            sections = tuple(sections_for(data, self._agent_lines(), group_key))
        for table in (self._asked, self._indexes):
            if len(table) >= _MAX_STORED:
                table.clear()
        index = self._indexes.setdefault(sections, RuleIndex(data, sections))
        rules = self._asked[key] = Ruleset(index, token)
        return rules

    def select_group(self, tokens: str | Sequence[str]) -> tuple[str, GroupKey] | None:
        """Return the token whose groups apply (2.2.1) and the key that selects them.

        Without any group for this crawler, return `None`.

        :param tokens: as for `decide`.
        """
        for token, key in _keys_of(tokens if isinstance(tokens, str) else tuple(tokens)):
            if self._has_group(key):
                return token, key
        return (ANY, ANY_KEY) if self._has_group(ANY_KEY) else None

    def _has_group(self, key: GroupKey) -> bool:
        agents = self._agent_lines()
        if not key.whole:
            return key.text in self._tokens
        if self._names is None:
            self._names = {agent.name for agent in agents}
        return key.text in self._names

    def _agent_lines(self) -> list[AgentLine]:
        agents = self._agents
        if agents is None:
            agents = agent_lines(self.content.data)
            self._tokens = {agent.token for agent in agents}
            self._agents = agents  # last, because another thread may ask
        return agents

    def _group_lines(self) -> list[tuple[tuple[GroupKey, ...], Section]]:
        if self._groups is None:
            self._groups = list(groups_in(self.content.data, self._agent_lines()))
        return self._groups

    @property
    def begins_as_page(self) -> bool:
        """Whether it begins as HTML or XML."""
        return _begins_with_markup(self.content.data) is not None

    @property
    def is_page(self) -> bool:
        """Whether it begins as HTML or XML and has no group, so that everything is allowed."""
        return self.begins_as_page and not self._agent_lines()

    def _has_any(self, keys: Iterable[str]) -> bool:
        """Return whether some keys are in the file at all. If not, no group is read for them."""
        lower = self.content.data.lower()
        return any(key.encode("ascii") in lower for key in keys)

    def records_by_group(self, *keys: str) -> Iterable[tuple[tuple[GroupKey, ...], list[Record]]]:
        """Return, for each group, the keys that select it and its records with some keys.

        Their values are bytes, one character each. Empty if the file does not contain the keys.

        :param keys: in lower case.
        """
        if not self._has_any(keys):
            return ()
        groups = self._group_lines()
        records = records_in(self.content.data, (lines for _, lines in groups), keys)
        return zip((selecting for selecting, _ in groups), records, strict=True)

    def records_for(
        self, tokens: str | Sequence[str], keys: Sequence[str], max_lines: float = math.inf
    ) -> Iterator[Record]:
        """Return the records with some keys in the groups that apply, see `records_in`.

        :param tokens: as for `decide`.
        """
        chosen = self.select_group(tokens)
        parts: list[Section] = []
        if chosen is not None and self._has_any(keys):
            parts = [lines for selecting, lines in self._group_lines() if chosen[1] in selecting]
        return chain.from_iterable(records_in(self.content.data, parts, keys, max_lines))

    def preferences(
        self, url: str | bytes, tokens: str | Sequence[str]
    ) -> Mapping[str, use.Preference]:
        """Return what the group that applies says about the use of a page, by label.

        If no Content-Signal of the group names a label, those above the first user-agent line
        count for it. Groups named by a policy token count, too. Other labels are absent. A URL that
        may not be fetched has no preferences. The parameters are the same as for `decide`.
        """
        if not self.decide(url, tokens).allowed:
            return {}
        stated = use.record_preferences(self._preferences_for(tokens), url)
        target = request_target(url)
        for token, label, rules in self._policy_rules():
            pattern = rules.index.find(target)
            decision = rules.decisions.get(pattern) or rules.decision_by(pattern)
            source = f"User-agent: {token}"
            line = None
            if decision.rule is not None:
                source = f"{decision.rule} ({source})"
                line = decision.rule.line
            preference = use.Preference(decision.allowed, line, source)
            stated = use.combined(stated, {label: preference})
        return stated

    def _policy_rules(self) -> list[tuple[str, str, Ruleset]]:
        """Return each policy token that has a group, with its label and its rules."""
        if self._policies is None:
            data = self.content.data
            policies: list[tuple[str, str, Ruleset]] = []
            for token, label in use.POLICY_TOKENS.items():
                key = GroupKey(token)
                if self._has_group(key):
                    sections = tuple(sections_for(data, self._agent_lines(), key))
                    policies.append((token, label, Ruleset(RuleIndex(data, sections), token)))
            self._policies = policies
        return self._policies

    def _preferences_for(
        self, tokens: str | Sequence[str]
    ) -> Mapping[str, Sequence[use.PathPreference]]:
        index = self._rules_for(tokens).index
        if index.preferences is None:
            data = self.content.data
            agents = self._agent_lines()
            above = Section(0, agents[0].start - 1 if agents else len(data), 0)
            (general,) = records_in(data, [above], [use.SIGNAL], use.MAX_RECORDS)
            own = self.records_for(tokens, use.RECORDS, use.MAX_RECORDS)
            index.preferences = use.read_records(own, general)
        return index.preferences

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The values of all Sitemap records inside and outside of groups, as the file has them."""
        data = self.content.data
        (records,) = records_in(data, [Section(0, len(data), 0)], ("sitemap", "site-map"))
        return tuple(as_text(record.value) for record in records if record.value)

    def crawl_delay(self, tokens: str | Sequence[str]) -> float | None:
        """Return the largest Crawl-delay of the group that applies, in seconds, or `None`.

        It may be infinite.
        """
        records = self.records_for(tokens, ["crawl-delay"])
        delays = (parse_delay(record.value) for record in records)
        return max((delay for delay in delays if delay is not None), default=None)


@lru_cache(maxsize=1024)
def _keys_of(tokens: str | tuple[str, ...]) -> tuple[tuple[str, GroupKey], ...]:
    """Return what `crawler_keys` returns for each token, in order."""
    wanted = product_tokens(tokens) if isinstance(tokens, str) else tokens
    return tuple(chain.from_iterable(map(crawler_keys, wanted)))
