"""The robots.txt parser used in crawls.

Creating a `RobotsTxt` is cheap. A group's rules are parsed when they are first needed.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
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
    records_in,
    sections_for,
)
from scrapy_robots_rfc.core.lines import (
    RULES,
    Content,
    LineKind,
    Record,
    as_text,
    content_of,
    read_line,
)
from scrapy_robots_rfc.core.percent import match_normal_url, request_target, to_octets
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT, RuleIndex, Ruleset
from scrapy_robots_rfc.core.text import printable, shorten

# Maximum number of crawlers and groups to cache per file, so that a crawl that rotates its
# User-Agent does not run out of memory. An `lru_cache` for each file would use more memory.
_MAX_CACHED = 64

# The start of an HTML or XML page: ` <html>`.
_starts_with_markup = re.compile(rb"\s*<").match

# Bytes and kinds of lines to show in `repr`.
_MAX_SHOWN = 1000
_SHOWN = (LineKind.USER_AGENT, *RULES)

# The scheme of a URL, with or without an authority (RFC 3986, 3.1).
_is_absolute = re.compile("[A-Za-z][A-Za-z0-9+.-]*:").match
# Text that is only a URL. A User-Agent header may start with one, but then other words follow.
_is_url = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*").fullmatch

# Text that is a URL or a path instead of a file: `https://a.example/robots.txt`, `/a/robots.txt`.
# It is a single word that starts like a URL or has no colon, so it isn't a record. A host name or a
# file name contains a dot.
_is_address = re.compile(
    r"\s*+(?=\S++\s*+\Z)(?:(?:https?|ftp|file|gemini)://|[a-z]:[\\/]"
    r"|(?=[^:#]++\Z)(?:[.~]*+[\\/]|[\w-]++\.\w|.*\.txt\s*\Z))",
    re.IGNORECASE,
).match

_NO_GROUP = Decision(True, Reason.NO_GROUP)


class RobotsTxt:
    """An immutable robots.txt file (RFC 9309, 2.1, 2.2 and 2.5).

    See `parse` for the parameters.
    """

    #: The default maximum size in bytes, which is the lowest limit that RFC 9309, 2.5 permits.
    MAX_SIZE = 512_000

    def __init__(self, body: bytes | str = b"", *, max_size: int = MAX_SIZE) -> None:
        if isinstance(body, str):
            if _is_address(body):
                raise ValueError(
                    f"{shorten(body)!r} is a URL or a path; pass the content of the file"
                )
            body = body.encode("utf-8", "surrogatepass")
        elif not isinstance(body, (bytes, bytearray)):
            raise TypeError(f"the file must be bytes or str, not {type(body).__name__}")
        #: The content of the file, up to the limit.
        self.content: Content = content_of(body, max_size)
        # The rules for a crawler's tokens, and the index for a group. Different tokens may select
        # the same group, whose index is built only once.
        self._rules: dict[str | Sequence[str], Ruleset] = {}
        self._indexes: dict[tuple[Section, ...], RuleIndex] = {}

    @classmethod
    def parse(cls, body: bytes | str, *, max_size: int = MAX_SIZE) -> Self:
        """Parse a file. This accepts any bytes without raising.

        :param body: the content of the file. A str is encoded as UTF-8.
        :param max_size: the maximum size in bytes, at least 512,000 according to RFC 9309, 2.5.
            Anything after that is ignored.
        :raises TypeError: if `body` is neither bytes nor a str.
        :raises ValueError: if it is a str that is a URL or a path instead of a file.
        """
        return cls(body, max_size=max_size)

    def decide(self, url: str | bytes, tokens: str | Sequence[str]) -> Decision:
        """Return whether a URL may be fetched, and why (RFC 9309, 2.2.2).

        :param url: an absolute URL, or a path and query. Percent-encoding is optional.
        :param tokens: product tokens in order of preference. The first one that has a group in the
            file is used, or else the ``*`` group. A str can be a token or a User-Agent header.
        :raises TypeError: if an argument has any other type.
        :raises ValueError: if `tokens` is a str, and the arguments seem to be in the wrong order.
        """
        if type(tokens) is str:  # a crawl passes a tuple
            _check_order(url, tokens)
        try:
            rules = self._rules[tokens]
        except (KeyError, TypeError):  # not cached yet, or a list
            rules = self._rules_for(tokens)
        if rules.token is None:
            return _NO_GROUP
        match = match_normal_url(url) if type(url) is str else None  # most URLs are normal
        target = match[1] if match else request_target(url)
        pattern = rules.index.find(target)
        decision = rules.decisions.get(pattern)
        if decision is None:
            decision = rules.cache_decision(pattern)
        if not decision.allowed and target == ROBOTS_TXT:  # no rule can disallow the file itself
            return Decision(True, Reason.ROBOTS_TXT, None, rules.token)
        return decision

    def __repr__(self) -> str:
        """Show the user-agent lines and rules at the start of the file."""
        lines = self.content.data[:_MAX_SHOWN].decode("latin-1").split("\n")
        shown = [as_text(line).strip() for line in lines if read_line(line)[0] in _SHOWN]
        more = " ..." if len(self.content.data) > _MAX_SHOWN else ""
        return printable(f"<{type(self).__name__}: {', '.join(shown) or 'no rules'}{more}>")

    def _rules_for(self, tokens: str | Sequence[str]) -> Ruleset:
        """Return the rules for the given tokens, which are cached."""
        if not hasattr(tokens, "__len__") or not all(isinstance(name, str) for name in tokens):
            raise TypeError(f"the agent must be a str or a list of str, not {tokens!r}")
        key = tokens if isinstance(tokens, str) else tuple(tokens)
        cached = self._rules.get(key)
        if cached is not None:
            return cached
        token, group_key = self.select_group(key) or (None, None)
        data = self.content.data
        sections: tuple[Section, ...] = ()
        if group_key is not None:
            sections = tuple(sections_for(data, self._agents, group_key))
        for table in (self._rules, self._indexes):
            if len(table) >= _MAX_CACHED:
                table.clear()
        # If the group has an index already, the new one is not used. Creating it is cheap, because
        # the first lookup builds it.
        index = self._indexes.setdefault(sections, RuleIndex(data, sections))
        rules = self._rules[key] = Ruleset(index, token)
        return rules

    def select_group(self, tokens: str | Sequence[str]) -> tuple[str, GroupKey] | None:
        """Return the token whose group applies (2.2.1) and the key of the group.

        :param tokens: see `decide`.
        :returns: `None` if no group applies to this crawler.
        """
        for token, key in _crawler_keys(tokens if isinstance(tokens, str) else tuple(tokens)):
            if self._has_group(key):
                return token, key
        return (ANY, ANY_KEY) if self._has_group(ANY_KEY) else None

    def _has_group(self, key: GroupKey) -> bool:
        """Return whether a user-agent line has the key's full name or token."""
        return key.text in (self._names if key.whole else self._tokens)

    @cached_property
    def _agents(self) -> list[AgentLine]:
        return agent_lines(self.content.data)

    # Sets, because a crawl looks up the group of each request to a site with a Crawl-delay.
    @cached_property
    def _tokens(self) -> set[str]:
        return {agent.token for agent in self._agents}

    @cached_property
    def _names(self) -> set[str]:
        return {agent.name for agent in self._agents}

    @property
    def starts_with_markup(self) -> bool:
        """True if the file starts like HTML or XML."""
        return _starts_with_markup(self.content.data) is not None

    @property
    def is_page(self) -> bool:
        """True if this is a web page rather than a robots.txt file, so everything is allowed."""
        return self.starts_with_markup and not self._agents

    def contains_any(self, record_keys: Iterable[str]) -> bool:
        """Return whether any of the keys is anywhere in the file, even if only in a comment.

        This is a quick check that avoids parsing groups in most cases.
        """
        lower = self.content.data.lower()
        return any(key.encode("ascii") in lower for key in record_keys)

    def records_for(
        self, tokens: str | Sequence[str], record_keys: Sequence[str], max_lines: float = math.inf
    ) -> Iterator[Record]:
        """Return the records with the given keys in the groups that apply; see `records_in`.

        :param tokens: see `decide`.
        """
        sections = self._rules_for(tokens).index.sections if self.contains_any(record_keys) else ()
        return records_in(self.content.data, sections, record_keys, max_lines)

    def preferences(
        self, url: str | bytes, tokens: str | Sequence[str]
    ) -> Mapping[str, use.Preference]:
        """Return the site's preferences about how a page may be used, by label.

        They come from the records in the group that applies, from Content-Signal records above the
        first user-agent line (which are defaults for all groups), and from groups for a use, such
        as ``User-agent: __usage_ai-training``. The result is empty if the URL may not be fetched.
        See `decide` for the parameters.
        """
        if not self.decide(url, tokens).allowed:
            return {}
        preferences = use.record_preferences(self._preferences_for(tokens), url)
        # A policy token stands for a use instead of a crawler.
        for token, label in use.POLICY_TOKENS.items():
            if self._has_group(GroupKey(token)):
                decision = self.decide(url, (token,))
                rule = decision.rule  # if it is `None`, the use is allowed
                source = f"User-agent: {token}" + (f", {rule}" if rule else "")
                preference = use.Preference(decision.allowed, rule and rule.line, source)
                preferences = use.combined(preferences, {label: preference})
        return preferences

    def _preferences_for(
        self, tokens: str | Sequence[str]
    ) -> Mapping[str, Sequence[use.PathPreference]]:
        """Return what the site says about uses such as AI training, for the group that applies.

        It is parsed once and cached.
        """
        index = self._rules_for(tokens).index
        if index.preferences is None:
            data = self.content.data
            agents = self._agents
            # Every line is preceded by a newline, so the section above the first user-agent line
            # ends one byte before it.
            end = agents[0].start - 1 if agents else len(data)
            before_groups = Section(start=0, end=end, lines_before=0)
            # Many sites write Content-Signal above all groups. These are defaults for the labels
            # that the group's own Content-Signal records do not mention.
            default_signals = records_in(data, [before_groups], [use.SIGNAL], use.MAX_RECORDS)
            own_records = self.records_for(tokens, use.RECORDS, use.MAX_RECORDS)
            index.preferences = use.read_records(own_records, default_signals)
        return index.preferences

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The values of all Sitemap records, as written, except for bytes that are not UTF-8.

        In a value with such bytes, all bytes outside ASCII are percent-encoded.
        """
        data = self.content.data
        records = records_in(data, [Section(0, len(data), 0)], ("sitemap", "site-map"))
        values = [record.value for record in records if record.value]
        return tuple(
            text
            if to_octets(text) == value  # it is valid UTF-8
            else "".join(c if c.isascii() else f"%{ord(c):02X}" for c in value)
            for value, text in zip(values, map(as_text, values), strict=True)
        )

    def crawl_delay(self, tokens: str | Sequence[str]) -> float | None:
        """Return the largest Crawl-delay in the groups that apply, or `None` if there is none.

        The delay is in seconds and may be infinite.

        :raises ValueError: if `tokens` is a URL.
        """
        if type(tokens) is str:  # a crawl passes a tuple
            _check_agent(tokens, "crawl_delay(tokens)")
        records = self.records_for(tokens, ["crawl-delay"])
        delays = (parse_delay(record.value) for record in records)
        return max((delay for delay in delays if delay is not None), default=None)


def _check_agent(agent: str, call: str) -> None:
    """Raise ValueError if an agent is a URL.

    :param call: the correct call, to show in the message.
    """
    if _is_url(agent):
        raise ValueError(f"the agent is a URL, {agent!r}; call {call}")


def _check_order(url: str | bytes, agent: str) -> None:
    """Raise ValueError if a URL and an agent seem to be in the order of `urllib.robotparser`.

    :raises TypeError: the URL is neither a str nor bytes.
    """
    call = "decide(url, tokens)"
    _check_agent(agent, call)
    start = to_octets(url)
    if start[:1] != "/" and not _is_absolute(start):
        raise ValueError(f"{url!r} is neither a URL nor a path; call {call}")


@lru_cache(maxsize=1024)
def _crawler_keys(tokens: str | tuple[str, ...]) -> tuple[tuple[str, GroupKey], ...]:
    """Return the keys for finding the user-agent lines of all tokens; see `crawler_keys`."""
    names = product_tokens(tokens) if isinstance(tokens, str) else tokens
    return tuple(chain.from_iterable(map(crawler_keys, names)))
