"""A robots.txt that was parsed, and what is known of an origin: what follows for a URL, and why.

`RfcFile` is a file in the hands of our parser, which gives rules and reasons; `ForeignFile` one in the hands of another
`RobotParser`, which gives yes or no. How a file is fetched is `service.py`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.core.agents import Agent, agent_of
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.percent import request_target
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.parser import RfcRobotParser
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin, without_dot_segments
from scrapy_robots_rfc.policy.pacing import KEYS, Over, Pace, pace_of, pace_of_number
from scrapy_robots_rfc.settings import PARSER_ACCEPTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import time

    from scrapy.crawler import Crawler

    from scrapy_robots_rfc.policy.caching import Validity
    from scrapy_robots_rfc.policy.pacing import Bound, Limit
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)

# Agents whose pace is kept with a file; a crawl that makes up a User-Agent for every request must not make it grow.
_KEPT_PACES = 16

# Octets of memory: of a pace that is kept, and of an octet of a file in the hands of another parser, of which nobody
# knows what it makes of it. Protego takes seven to nine for a usual file.
_PACE, _FOREIGN_OCTET = 600, 10


class ParsedRobots(Protocol):
    """What the rest of the package asks of a parsed file."""

    @property
    def parser(self) -> object:
        """The instance of `ROBOTSTXT_PARSER`."""

    @property
    def robots(self) -> RobotsTxt | None:
        """The file as our core reads it; ``None`` with another parser."""

    @property
    def digest(self) -> str | None:
        """``sha256:`` and the digest of the octets that count; ``None`` where nobody reports it."""

    @property
    def weight(self) -> int:
        """About the octets that it takes in memory; grows when it is asked."""

    def decide(self, url: str, agent: Agent) -> Decision:
        """Whether a URL may be fetched; never raises."""

    def crawl_delay(self, agent: Agent) -> float | None:
        """The Crawl-delay for an agent, in seconds."""

    def pace(self, agent: Agent) -> Pace | None:
        """What the file asks of an agent's pace, ``None`` for nothing; never raises."""


class RfcFile:
    """A file in the hands of `RfcRobotParser`.

    :param own_delay: the parser is a subclass with a `crawl_delay()` of its own.
    :param digest: of the octets that count.
    """

    __slots__ = ("_own_delay", "_paces", "digest", "parser", "robots")

    def __init__(
        self,
        parser: Any,  # noqa: ANN401 - as below
        robots: RobotsTxt,
        *,
        own_delay: bool = False,
        digest: str | None = None,
    ) -> None:
        self.parser = parser
        self.digest = digest
        self.robots: RobotsTxt = robots
        self._own_delay = own_delay
        self._paces: dict[Agent, Pace | None] | None = {}

    @property
    def weight(self) -> int:
        """What the core says, and what the paces take."""
        return self.robots.weight + _PACE * len(self._paces or ())

    def decide(self, url: str, agent: Agent) -> Decision:
        """Return the core's decision (RFC 9309, 2.2)."""
        return self.robots.decide(url, agent.tokens)

    def crawl_delay(self, agent: Agent) -> float | None:
        """Return the core's value, or a subclass's own."""
        if self._own_delay:
            return _delay_of(self.parser, agent)
        return self.robots.crawl_delay(agent.tokens)

    def pace(self, agent: Agent) -> Pace | None:
        """Return what the records of the group that applies ask for, or a subclass's own delay."""
        if self._paces is None:
            return None
        if agent in self._paces:
            return self._paces[agent]
        if not self._own_delay and not self.robots.mentions(*KEYS):
            self._paces = None  # as most files: nobody needs to look again
            return None
        return _kept(self._paces, agent, self._pace_of(agent))

    def _pace_of(self, agent: Agent) -> Pace | None:
        if not self._own_delay:
            return pace_of(self.robots.records_for(agent.tokens, *KEYS))
        try:
            return pace_of_number(_delay_of(self.parser, agent))
        except Exception:
            logger.exception(_NO_DELAY, type(self.parser).__name__)
            return None


class ForeignFile:
    """A file in the hands of a parser that the user chose. Its exceptions close the gate.

    :param parser: has `allowed(url, user_agent)`, and perhaps `crawl_delay(user_agent)`.
    :param failed: called for each exception.
    :param size: octets of the file.
    :param digest: of the octets that count.
    """

    __slots__ = ("_failed", "_paces", "_told", "digest", "parser", "weight")

    robots: RobotsTxt | None = None

    def __init__(
        self,
        parser: Any,  # noqa: ANN401 - the user's
        failed: Callable[[], object],
        size: int = 0,
        *,
        digest: str | None = None,
    ) -> None:
        self.parser = parser
        self.digest = digest
        self.weight = _FOREIGN_OCTET * size
        self._failed = failed
        self._told = False
        self._paces: dict[Agent, Pace | None] = {}

    def decide(self, url: str, agent: Agent) -> Decision:
        """Ask the parser, by the first product token, or the whole identification where there is none."""
        try:
            allowed = self.parser.allowed(url, _name(agent))
            if allowed not in (True, False):  # a coroutine, a text: true for Python, and no verdict
                raise TypeError(f"allowed() gave {allowed!r}, not True or False")
            return Decision(bool(allowed), Reason.PARSER)
        except Exception:
            self._failed()
            if not self._told:
                logger.exception("%s.allowed() failed: the page is treated as disallowed", type(self.parser).__name__)
                self._told = True
            return Decision(False, Reason.PARSER)

    def crawl_delay(self, agent: Agent) -> float | None:
        """Ask the parser, if it can tell (Scrapy 2.18 and newer)."""
        return _delay_of(self.parser, agent) if hasattr(self.parser, "crawl_delay") else None

    def pace(self, agent: Agent) -> Pace | None:
        """Return what the parser's Crawl-delay asks for."""
        if agent in self._paces:
            return self._paces[agent]
        try:
            pace = pace_of_number(self.crawl_delay(agent))
        except Exception:
            self._failed()
            logger.exception(_NO_DELAY, type(self.parser).__name__)
            pace = None
        return _kept(self._paces, agent, pace)


def digest_of(octets: bytes) -> str:
    """Return what names a file by what it holds: ``sha256:`` and 64 hexadecimal digits."""
    return f"sha256:{sha256(octets).hexdigest()}"


_NO_DELAY = "%s.crawl_delay() failed: no delay is kept"


def _kept(paces: dict[Agent, Pace | None], agent: Agent, pace: Pace | None) -> Pace | None:
    if len(paces) >= _KEPT_PACES:
        paces.clear()
    paces[agent] = pace
    return pace


def _name(agent: Agent) -> str:
    return agent.tokens[0] if agent.tokens else agent.identification


def _delay_of(parser: Any, agent: Agent) -> float | None:  # noqa: ANN401 - the user's class
    delay: float | None = parser.crawl_delay(_name(agent))
    return delay


class FileParser:
    """Parses the files of a crawl by ROBOTSTXT_PARSER.

    :param parser_class: of the parser.
    :raises SettingError: it cannot be loaded or made, or is no parser.
    """

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        assert crawler.stats is not None
        self._crawler, self._settings = crawler, settings
        self._failed = partial(crawler.stats.inc_value, stats.PARSER_ERRORS)
        self.parser_class = load_parser(settings, crawler)

    def __call__(self, body: bytes) -> ParsedRobots:
        """Return a parsed file; raises what a parser that the user chose raises."""
        parser = build_from_crawler(self.parser_class, self._crawler, body)
        digest = digest_of(body[: self._settings.max_size]) if self._settings.report else None
        # A subclass with its own allowed() is asked through it.
        if isinstance(parser, RfcRobotParser) and type(parser).allowed is RfcRobotParser.allowed:
            own_delay = type(parser).crawl_delay is not RfcRobotParser.crawl_delay
            return RfcFile(parser, parser.robots, own_delay=own_delay, digest=digest)
        return ForeignFile(parser, self._failed, len(body), digest=digest)


def load_parser(settings: Settings, crawler: Crawler) -> type[Any]:
    """Return the parser's class.

    :raises SettingError: it cannot be loaded or made, or is no parser.
    """
    try:
        parser: type[Any] = load_object(settings.parser)
        instance = build_from_crawler(parser, crawler, b"")  # a missing dependency shows here, at start
        instance.allowed  # noqa: B018 - so does a class of another kind
    except Exception as error:
        accepted = f"{PARSER_ACCEPTED} ({type(error).__name__}: {error})"
        raise SettingError("ROBOTSTXT_PARSER", settings.parser, accepted) from error
    return parser


# Complete disallow (RFC 9309, 2.3.1.4), as a file: it leaves /robots.txt itself allowed (2.2.2).
_CLOSED = RobotsTxt.parse(b"User-agent: *\nDisallow: /\n")


@dataclass(frozen=True, slots=True, eq=False)
class OriginPolicy:
    """What is known of an origin's robots.txt, and what follows from it.

    :param origin: whose file it is.
    :param validity: what governs, and until when.
    :param status: the HTTP status of the last fetch; ``None`` without an answer.
    :param cause: how the last fetch ended, in a word or two: ``200``, ``404``, ``no answer in 30 s``.
    :param file: the parsed file that is obeyed; ``None`` where there is none.
    :param fetched: when the last fetch ended, on the service's clock; before all time where there was none.
    :param override: the path of the local file that stands in for the site's own; `file` is that one.
    :param exempt: the entry of ROBOTSTXT_EXEMPT because of which the site is not asked.
    """

    origin: Origin
    validity: Validity
    status: int | None
    cause: str
    file: ParsedRobots | None = field(repr=False)
    _agent: Callable[[], Agent] = field(repr=False)
    fetched: float = 0.0
    override: str | None = None
    exempt: str | None = None

    @property
    def outcome(self) -> Outcome:
        """What governs the decisions: the file, that there is none, or that nobody knows (RFC 9309, 2.3.1), and why."""
        return self.validity.outcome

    @property
    def stale(self) -> bool:
        """Whether the file is an earlier one, obeyed because its refresh was unreachable."""
        return self.validity.stale

    @property
    def for_all(self) -> bool:
        """Whether it governs the requests of every route; see `governs_all`."""
        return governs_all(self.status, self.validity.outcome)

    @property
    def robots(self) -> RobotsTxt | None:
        """The file itself: groups, rules, records. ``None`` where there is none, or another parser has it."""
        return None if self.file is None else self.file.robots

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The URLs of all Sitemap records."""
        return () if self.robots is None else self.robots.sitemaps

    @property
    def source(self) -> str:
        """What the file is called in log lines and errors: ``robots.txt``, or the path of the local one."""
        return "robots.txt" if self.override is None else f"local file {self.override}"

    def cited(self, text: str) -> str:
        """Return a text that names robots.txt, with the name of the local file in its place where one decides."""
        return text if self.override is None else text.replace("robots.txt", self.source, 1)

    def refused(self, url: str, bound: Bound, limit: Limit) -> str | None:
        """Why a page is not fetched whose site asks for a longer interval than the user lets it; else ``None``."""
        if bound.seconds <= limit.longest or limit.over is not Over.FORBID:
            return None
        if request_target(url) == ROBOTS_TXT:  # RFC 9309, 2.2.2
            return None
        return f"{self.cited(bound.text)} is more than ROBOTSTXT_CRAWL_DELAY_MAX, {limit.longest:g} s"

    def crawl_delay(self, agent: str | list[str] | None = None) -> float | None:
        """The Crawl-delay, in seconds; ``None`` where there is none.

        :param agent: product tokens or a User-Agent header; ``None``: the crawl's own.
        """
        return None if self.file is None else self.file.crawl_delay(self._named(agent))

    def pace(self, agent: str | list[str] | None = None) -> Pace | None:
        """What Crawl-delay, Request-rate and Visit-time ask for; ``None`` where they ask for nothing.

        :param agent: product tokens or a User-Agent header; ``None``: the crawl's own.
        """
        return None if self.file is None else self.file.pace(self._named(agent))

    def decide(self, url: str, agent: str | list[str] | None = None) -> Decision:
        """Whether a URL of this origin may be fetched, and why. Nothing is counted, no signal is sent.

        :param agent: product tokens or a User-Agent header; ``None``: the crawl's own.
        """
        return replace(self.judge(url, self._named(agent)), origin=str(self.origin))

    def judge(self, url: str, agent: Agent) -> Decision:
        """As `decide`, for an agent that is known; the decision has no origin yet."""
        if self.file is not None:
            decision = self.file.decide(url, agent)
            if decision.allowed and (resolved := without_dot_segments(url)) is not None:
                decision = self.file.decide(resolved, agent)
            if self.override is not None:
                return replace(decision, override=self.override)
            return replace(decision, stale=True) if self.validity.unreachable_since is not None else decision
        if self.exempt is not None:
            return _EXEMPT
        if self.validity.outcome is Outcome.UNAVAILABLE:
            return _UNAVAILABLE
        closed = _CLOSED.decide(url, ())
        if closed.allowed:
            return closed
        return _LOCAL if self.validity.outcome is Outcome.LOCAL else _UNREACHABLE

    def verdict(
        self, url: str, agent: Agent, limit: Limit | None, utc: Callable[[], time]
    ) -> tuple[Decision, str | None]:
        """As `judge`, the interval heeded that the site asks for; and why the URL may not be fetched, else ``None``.

        :param limit: what is longer may close the site; ``None``: intervals play no part.
        :param utc: gives the time of day.
        """
        decision = self.judge(url, agent)
        if not decision.allowed:
            return decision, self.why(decision)
        if limit is None or limit.over is not Over.FORBID:
            return decision, None
        bound = self.bound(agent, utc())
        why = None if bound is None else self.refused(url, bound, limit)
        if why is not None:
            decision = replace(decision, allowed=False, reason=Reason.CRAWL_DELAY, rule=None)
        return decision, why

    def bound(self, agent: Agent, utc: time) -> Bound | None:
        """The longest interval that the file asks for at a time of day; ``None`` where it asks for none."""
        pace = None if self.file is None else self.file.pace(agent)
        return None if pace is None else pace.bound(utc)

    def paces(self, agent: Agent) -> bool:
        """Whether the file asks for a pace."""
        return self.file is not None and self.file.pace(agent) is not None

    def why(self, decision: Decision) -> str:
        """What a decision rests on, for log lines, errors and people."""
        if decision.rule is not None:
            why = f"{self.source} line {decision.rule.line}: {decision.rule}"
        else:
            why = _WHY[decision.reason].format(
                source=self.source, token=decision.token, cause=self.cause, exempt=self.exempt
            )
        return f"{why}; stale copy, its refresh failed: {self.cause}" if decision.stale else why

    def _named(self, agent: str | list[str] | None) -> Agent:
        return agent_of(agent) or self._agent()


def governs_all(status: int | None, outcome: Outcome) -> bool:
    """Whether what is known governs every route: not so where the way to the site failed, and nothing is at hand.

    :param status: of the last answer; ``None`` without one.
    :param outcome: what governs.
    """
    return status is not None or outcome is not Outcome.UNREACHABLE


#: How it is said that nobody knows; the cause follows.
UNREACHABLE = "robots.txt unreachable: "

#: What a decision without a rule rests on.
_WHY = {
    Reason.RULE: "{source}: a rule",
    Reason.NO_RULE: "{source}: no rule of the group `{token}` matches",
    Reason.NO_GROUP: "{source}: no group is meant for this crawler",
    Reason.ROBOTS_TXT: "robots.txt itself may always be fetched",
    Reason.UNAVAILABLE: "robots.txt unavailable: {cause}",
    Reason.UNREACHABLE: f"{UNREACHABLE}{{cause}}",
    Reason.LOCAL: "robots.txt not asked for, the crawl itself failed: {cause}",
    Reason.PARSER: "{source}: the verdict of ROBOTSTXT_PARSER",
    Reason.CRAWL_DELAY: "{source}: asks for a longer interval than ROBOTSTXT_CRAWL_DELAY_MAX",
    Reason.EXEMPT: "not asked: `{exempt}` of ROBOTSTXT_EXEMPT",
}

_EXEMPT = Decision(True, Reason.EXEMPT)
_UNAVAILABLE = Decision(True, Reason.UNAVAILABLE)
_UNREACHABLE = Decision(False, Reason.UNREACHABLE)
_LOCAL = Decision(False, Reason.LOCAL)
