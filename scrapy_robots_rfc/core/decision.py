"""The answer to "may this URL be fetched?", and why: the one value that log, stats, signals and spiders see.

In here: values only. How an answer is found in a file is `ruleset.py`; how a missing file becomes one is
`policy/access.py`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from scrapy_robots_rfc.core.text import printable


class RuleKind(enum.Enum):
    """The two rules of RFC 9309, 2.2.2."""

    ALLOW = "Allow"
    DISALLOW = "Disallow"


class Reason(enum.Enum):
    """Why a URL is allowed or disallowed; the values are stable and stand in stat keys and reports."""

    #: The most specific rule that matches decides (RFC 9309, 2.2.2).
    RULE = "rule"
    #: A group applies, and none of its rules matches (2.2.2): allowed.
    NO_RULE = "no_rule"
    #: Neither a group for the token nor a `*` group (2.2.1): allowed.
    NO_GROUP = "no_group"
    #: `/robots.txt` itself (2.2.2): allowed.
    ROBOTS_TXT = "robots_txt"
    #: The file is unavailable, for example 404 (2.3.1.3): allowed.
    UNAVAILABLE = "unavailable"
    #: The file is unreachable, for example 503 or a timeout (2.3.1.4): disallowed.
    UNREACHABLE = "unreachable"
    #: A part of the crawl itself failed on the way to the file, so that nobody knows the rules: disallowed.
    LOCAL = "local"
    #: A `RobotParser` that the user chose said so; it gives no rule.
    PARSER = "parser"
    #: The site asks for a longer interval than the user's maximum, and the user wants such sites left out: disallowed.
    CRAWL_DELAY = "crawl_delay"
    #: The user exempted the site from being asked: allowed.
    EXEMPT = "exempt"


@dataclass(frozen=True, slots=True)
class Rule:
    r"""One allow or disallow line.

    :param kind: allow or disallow.
    :param pattern: the path pattern as the file writes it, in UTF-8; octets that are none stand as ``\\xNN``.
    :param line: its line number in the file, from 1.
    """

    kind: RuleKind
    pattern: str
    line: int

    def __str__(self) -> str:
        text = printable(self.pattern)
        return f"{self.kind.value}: {text}" if text else f"{self.kind.value}:"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a URL may be fetched, and why. It does not hold the URL: one value serves all that a rule decides.

    :param allowed: the verdict.
    :param reason: what the verdict rests on.
    :param rule: the rule that decided, where one did.
    :param token: the product token whose group applied; ``*`` for the wildcard group; ``None`` where no group did.
    :param origin: ``scheme://authority`` of the file, where it was fetched for one.
    :param stale: whether the file is an earlier one, obeyed because its refresh was unreachable.
    :param override: the path of the local file that decided in place of the site's own, where one did.
    """

    allowed: bool
    reason: Reason
    rule: Rule | None = None
    token: str | None = None
    origin: str | None = None
    stale: bool = False
    override: str | None = None
