"""The decision on whether a URL may be fetched, for use in logs, stats, signals and spiders."""

import enum
from typing import NamedTuple

from scrapy_robots_rfc.core.text import printable


class RuleKind(enum.Enum):
    """The two kinds of rules in RFC 9309, 2.2.2."""

    ALLOW = "Allow"
    DISALLOW = "Disallow"


class Reason(enum.Enum):
    """The reason for a decision.

    The values appear in stat keys and reports, so they must not change.
    """

    #: Decided by the most specific rule that matches the URL (RFC 9309, 2.2.2).
    RULE = "rule"
    #: Allowed, because no rule in the group matches the URL (2.2.2).
    NO_RULE = "no_rule"
    #: Allowed, because the file has no group for the product token and no `*` group (2.2.1).
    NO_GROUP = "no_group"
    #: Allowed, because the URL is `/robots.txt` itself (2.2.2).
    ROBOTS_TXT = "robots_txt"
    #: Allowed, because the file is unavailable, for example after a 404 (2.3.1.3).
    UNAVAILABLE = "unavailable"
    #: Disallowed, because the file is unreachable, for example after a 503 or timeout (2.3.1.4).
    UNREACHABLE = "unreachable"
    #: Disallowed, because the crawl itself failed to get the file, so the rules are unknown.
    LOCAL = "local"
    #: Decided by a third-party `RobotParser`, which does not report the rule.
    PARSER = "parser"
    #: Disallowed, because the site's Crawl-delay exceeds the maximum and the user set `forbid`.
    CRAWL_DELAY = "crawl_delay"
    #: Disallowed, because a robots meta tag or header on the page disallows following its links or
    #: indexing it.
    PAGE = "page"
    #: Disallowed, because the site disallows a use that the crawl declares (ROBOTS_USE).
    USE = "use"
    #: Allowed, because the user exempted the site, so its robots.txt is not fetched.
    EXEMPT = "exempt"


class Rule(NamedTuple):
    r"""An Allow or Disallow line.

    :param kind: Allow or Disallow.
    :param pattern: the path pattern as written, decoded as UTF-8. Invalid bytes become ``\xNN``.
    :param line: the line number, starting at 1.
    """

    kind: RuleKind
    pattern: str
    line: int

    def __str__(self) -> str:
        text = printable(self.pattern)
        return f"{self.kind.value}: {text}" if text else f"{self.kind.value}:"


class Decision(NamedTuple):
    """The decision for a URL. URLs that match the same rule share an instance.

    :param allowed: True if the URL may be fetched.
    :param reason: the reason for the decision.
    :param rule: the rule that decided, or `None` if the decision is not based on a rule.
    :param token: the product token whose group applied, ``*`` for the group that applies to all
        crawlers, or `None` if no group applied.
    :param origin: ``scheme://authority`` of the URL, or `None` if it has none. Decisions inside a
        crawl omit it, so that they can share instances.
    :param stale: True if the file has expired but could not be refreshed.
    :param override: the path of the local file that was used instead of the site's robots.txt, or
        `None`.
    """

    allowed: bool
    reason: Reason
    rule: Rule | None = None
    token: str | None = None
    origin: str | None = None
    stale: bool = False
    override: str | None = None

    def __bool__(self) -> bool:
        """Return `allowed`, so that a script can write ``if robots.decide(url, agent):``."""
        return self.allowed


class Refusal(NamedTuple):
    """A human-readable reason for dropping a request or response.

    :param why: the rule, cause, header or meta tag that is responsible.
    :param line: the line number in robots.txt, or `None` if the reason is not in the file.
    :param by: the source of the refusal, such as ``robots.txt`` or ``its page``.
    """

    why: str
    line: int | None = None
    by: str = "robots.txt"
