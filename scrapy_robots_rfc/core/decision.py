"""`Decision`: whether a URL may be fetched, and why. Log, stats, signals and spiders get it.

`ruleset.py` finds the decision in a file; `policy/access.py` decides without a file.
"""

import enum
from typing import NamedTuple

from scrapy_robots_rfc.core.text import printable


class RuleKind(enum.Enum):
    """The two kinds of rules of RFC 9309, 2.2.2."""

    ALLOW = "Allow"
    DISALLOW = "Disallow"


class Reason(enum.Enum):
    """Why a URL is allowed or disallowed.

    The values are stable, because stat keys and reports contain them.
    """

    #: The most specific rule that matches the URL decided (RFC 9309, 2.2.2).
    RULE = "rule"
    #: No rule of the group that applies matches the URL (2.2.2): allowed.
    NO_RULE = "no_rule"
    #: The file has neither a group for the product token nor a `*` group (2.2.1): allowed.
    NO_GROUP = "no_group"
    #: The URL is `/robots.txt` itself (2.2.2): allowed.
    ROBOTS_TXT = "robots_txt"
    #: The file is unavailable, for example 404 (2.3.1.3): allowed.
    UNAVAILABLE = "unavailable"
    #: The file is unreachable, for example 503 or a timeout (2.3.1.4): disallowed.
    UNREACHABLE = "unreachable"
    #: A part of the crawl failed on the way to the file, so the rules are unknown: disallowed.
    LOCAL = "local"
    #: A third-party `RobotParser` decided; it does not name a rule.
    PARSER = "parser"
    #: The site asks for a longer interval than the user's maximum, and the user disallows such
    #: sites.
    CRAWL_DELAY = "crawl_delay"
    #: A rule of the page: its links are not followed, or its items are dropped.
    PAGE = "page"
    #: The site refuses all uses that the crawl declares (ROBOTS_USE): disallowed.
    USE = "use"
    #: The user exempted the site, so its robots.txt is not fetched: allowed.
    EXEMPT = "exempt"


class Rule(NamedTuple):
    r"""An allow or disallow line of a file.

    :param kind: allow or disallow.
    :param pattern: the path pattern as the file writes it, in UTF-8; other bytes become ``\\xNN``.
    :param line: its line number in the file, from 1.
    """

    kind: RuleKind
    pattern: str
    line: int

    def __str__(self) -> str:
        text = printable(self.pattern)
        return f"{self.kind.value}: {text}" if text else f"{self.kind.value}:"


class Decision(NamedTuple):
    """Whether a URL may be fetched, and why. All URLs that one rule decides share it.

    :param allowed: the verdict.
    :param reason: the kind of reason.
    :param rule: the rule that decided, or `None` if no rule did.
    :param token: the product token whose group applied, ``*`` for the group of all crawlers, or
        `None` without a group.
    :param origin: ``scheme://authority`` of the file, or `None` if no file was fetched.
    :param stale: whether the file is an earlier copy, obeyed because it could not be refreshed.
    :param override: the path of the local file that decided instead of the site's own, or `None`.
    """

    allowed: bool
    reason: Reason
    rule: Rule | None = None
    token: str | None = None
    origin: str | None = None
    stale: bool = False
    override: str | None = None


class Refusal(NamedTuple):
    """The reason why a request or its response is refused, in words for the user.

    :param why: the reason: a rule, a cause, or records, header lines and metas about uses.
    :param line: the line of robots.txt that decided, or `None` if none did.
    :param by: where the refusal comes from.
    """

    why: str
    line: int | None = None
    by: str = "robots.txt"
