"""A parsed robots.txt, and an origin's policy, which decides if a URL may be fetched and why.

`reader.py` creates both, and `service.py` fetches the files.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.agents import Agent, GroupKey, parse_agent
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.percent import request_target
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin, other_reading
from scrapy_robots_rfc.policy.pacing import (
    KEYS,
    MAX_RECORDS,
    Bound,
    CrawlDelayOver,
    Pace,
    pace_of,
    pace_of_number,
)
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False, slots=True)
class ParsedRobots:
    """A parsed file. If a third-party parser raises an exception, the page is disallowed.

    :param parser: provides `allowed(url, user_agent)`, and optionally `crawl_delay(user_agent)`.
    :param robots: the file as parsed by our parser, or `None` with a third-party parser, which only
        returns a verdict.
    :param has_crawl_delay: True if the parser has its own `crawl_delay()`, which is used instead of
        the file's records.
    :param size: the file size in bytes.
    :param digest: ``sha256:`` and the digest of the bytes used, or an empty string if the crawl has
        neither a report nor an archive.
    :param unpaced: True if we know that the file contains no records about intervals.
    """

    parser: Any
    robots: RobotsTxt | None
    has_crawl_delay: bool = False
    size: int = 0
    digest: str = ""
    unpaced: bool = False
    # Parser errors that were already logged.
    _logged: frozenset[str] = frozenset()
    # The pace of each group that has been needed, according to our parser.
    _paces: dict[GroupKey, Pace | None] | None = None

    def decide(self, url: str, agent: Agent) -> Decision:
        """Return the parser's decision (RFC 9309, 2.2 for our own parser). Never raises.

        A third-party parser gets the first product token, or the whole User-Agent if there is none.
        """
        if self.robots is not None:
            return self.robots.decide(url, agent.tokens)
        try:
            allowed = self.parser.allowed(url, _name(agent))
            # Coroutines and strings are truthy, but they aren't verdicts.
            if allowed not in (True, False):
                raise TypeError(f"allowed() returned {allowed!r} instead of True or False")
            return Decision(bool(allowed), Reason.PARSER)
        except Exception as error:  # noqa: BLE001 - third-party code
            self._log_once("%s.allowed() failed, so the page is disallowed", error)
            return Decision(False, Reason.PARSER)

    def crawl_delay(self, agent: Agent) -> float | None:
        """Return the Crawl-delay in seconds, from our own or a third-party parser."""
        if self.robots is not None and not self.has_crawl_delay:
            return self.robots.crawl_delay(agent.tokens)
        method = getattr(self.parser, "crawl_delay", None)  # new in Scrapy 2.18
        delay: float | None = None if method is None else method(_name(agent))
        return delay

    def pace(self, agent: Agent) -> Pace | None:
        """Return the pace requested by the file or the parser's Crawl-delay. Never raises.

        The first call sets `unpaced`, so that callers needn't ask again if there are no records.
        """
        if self.robots is None or self.has_crawl_delay:
            try:
                return pace_of_number(self.crawl_delay(agent))
            except Exception as error:  # noqa: BLE001 - third-party code
                self._log_once("%s.crawl_delay() failed, so its interval is ignored", error)
                return None
        if self._paces is None:
            self._paces = {}
            self.unpaced = not self.robots.contains_any(KEYS)
        selected = None if self.unpaced else self.robots.select_group(agent.tokens)
        if selected is None:  # no records about intervals, or no group for this agent
            return None
        _, group = selected
        if group not in self._paces:
            records = self.robots.records_for(agent.tokens, KEYS, MAX_RECORDS)
            self._paces[group] = pace_of(records)
        return self._paces[group]

    def _log_once(self, text: str, error: Exception) -> None:
        """Log a failure of the third-party parser, once per file."""
        if text not in self._logged:
            self._logged |= {text}
            logger.error(text, type(self.parser).__name__, exc_info=error)


def _name(agent: Agent) -> str:
    """Return the name to pass to a third-party parser.

    Many parsers compare the whole name, so it is a product token, if the agent has one.
    """
    return agent.tokens[0] if agent.tokens else agent.identification


@dataclass(frozen=True, slots=True, eq=False)
class OriginPolicy:
    """The state of an origin's robots.txt, and its decisions about URLs.

    :param origin: the origin.
    :param validity: the result that currently applies to the origin, and for how long.
    :param status: the status of the last response, or `None` if there was none.
    :param cause: a short description of how the last fetch ended, such as ``200``, ``404`` or
        ``no answer in 30 s``.
    :param file: the parsed file that is obeyed, or `None` if there is none.
    :param fetched: when the last fetch ended, on `Runtime.clock`, or minus infinity if none has.
    :param for_all_routes: True if the policy applies to all routes (see `CacheEntry`).
    :param override: the path of the local file (ROBOTS_OVERRIDES) that is used instead of the
        site's, or `None`.
    :param exempt: the ROBOTS_EXEMPT entry that exempts the site, or `None`.
    """

    origin: Origin
    validity: Validity
    status: int | None
    cause: str
    file: ParsedRobots | None = field(repr=False)
    _agent: Callable[[], Agent] = field(repr=False)
    fetched: float = -math.inf
    for_all_routes: bool = True
    override: str | None = None
    exempt: str | None = None

    @property
    def outcome(self) -> Outcome:
        """The result that decisions are based on."""
        return self.validity.outcome

    @property
    def is_set_by_user(self) -> bool:
        """True if the policy comes from ROBOTS_EXEMPT or ROBOTS_OVERRIDES."""
        return self.exempt is not None or self.override is not None

    @property
    def stale(self) -> bool:
        """True if the file is an older copy that is still used because it couldn't be refreshed."""
        return self.validity.stale

    @property
    def robots(self) -> RobotsTxt | None:
        """The file, or `None` if there is no file or a third-party parser is used."""
        return None if self.file is None else self.file.robots

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The URLs of all Sitemap records."""
        return () if self.robots is None else self.robots.sitemaps

    @property
    def source(self) -> str:
        """The file's name in messages, which is ``robots.txt`` or the path of the local file."""
        return "robots.txt" if self.override is None else f"local file {self.override}"

    def cited(self, text: str) -> str:
        """Return a text about robots.txt, naming the local file instead if one is used."""
        return text.replace("robots.txt", self.source, 1)

    def crawl_delay(self, agent: Agent | str | list[str] | None = None) -> float | None:
        """Return the Crawl-delay in seconds, or `None` if there is none.

        :param agent: product tokens or a User-Agent header; by default, the crawl's own.
        """
        return None if self.file is None else self.file.crawl_delay(self._agent_of(agent))

    def pace(self, agent: Agent | str | list[str] | None = None) -> Pace | None:
        """Return the pace set by Crawl-delay and Request-rate, or `None` if there is none.

        :param agent: product tokens or a User-Agent header; by default, the crawl's own.
        """
        return None if self.file is None else self.file.pace(self._agent_of(agent))

    def bound(self, agent: Agent) -> Bound | None:
        """Return the longest interval that the file requests at this time of day, or `None`."""
        pace = self.pace(agent)
        return None if pace is None else pace.bound(Runtime().utc())

    def decide(self, url: str, agent: Agent | str | list[str] | None = None) -> Decision:
        """Return whether a URL of this origin may be fetched according to its file, and why.

        A crawl may also drop it because of ROBOTS_CRAWL_DELAY_OVER. This doesn't update any stats
        or send any signals.

        :param agent: product tokens or a User-Agent header; by default, the crawl's own.
        """
        return self._decide(url, self._agent_of(agent))._replace(origin=str(self.origin))

    def verdict(
        self, url: str, agent: Agent, settings: Settings | None = None
    ) -> tuple[Decision, str | None]:
        """Return the decision about a URL, and the reason if the URL may not be fetched.

        :param settings: the crawl's settings. If given, pages are also disallowed if the site
            requests too long an interval.
        """
        decision = self._decide(url, agent)
        if not decision.allowed:
            return decision, self.why(decision)
        if settings is None or settings.crawl_delay_over is not CrawlDelayOver.FORBID:
            return decision, None
        why = self.interval_problem(url, self.bound(agent), settings)
        if why is not None:
            decision = decision._replace(allowed=False, reason=Reason.CRAWL_DELAY, rule=None)
        return decision, why

    def _decide(self, url: str, agent: Agent) -> Decision:
        """Return the decision based on the file's rules, or on its absence."""
        if self.file is None:
            return self._without_file(url)
        decision = self.file.decide(url, agent)
        if decision.allowed:
            # The handler or server may use another URL instead, for example by resolving `..`. Then
            # both must be allowed. Nearly all http URLs have only one reading, so do a quick check
            # for dot segments (`/.`, `/%2e`), and for ftp URLs (`ftp:` and `FTP:` sort before "g").
            may_have_two = "/." in url or "/%2" in url or url < "g"
            other = other_reading(url) if may_have_two else None
            if other is not None:
                decision = self.file.decide(other, agent)
        if self.override is not None:
            return decision._replace(override=self.override)
        if self.validity.unreachable_since is not None:  # `stale`, without a call for each page
            return decision._replace(stale=True)
        return decision

    def _without_file(self, url: str) -> Decision:
        """Return the decision for a site without a file."""
        if self.exempt is not None:
            return _EXEMPT
        decision = _WITHOUT_FILE[self.validity.outcome]
        if not decision.allowed and request_target(url) == ROBOTS_TXT:  # RFC 9309, 2.2.2
            return _ROBOTS_TXT
        return decision

    def interval_problem(self, url: str, bound: Bound | None, settings: Settings) -> str | None:
        """Return why a page is disallowed because of its site's interval, or `None` if it isn't.

        :param bound: the interval that the site requests.
        """
        # Fetching robots.txt itself is always allowed (RFC 9309, 2.2.2).
        if bound is None or not settings.forbids(bound) or request_target(url) == ROBOTS_TXT:
            return None
        maximum = f"ROBOTS_CRAWL_DELAY_MAX, {settings.crawl_delay_max:g} s"
        return f"{self.cited(bound.text)} is more than {maximum}"

    def why(self, decision: Decision) -> str:
        """Return the reason for a decision, as shown in log lines, errors and commands."""
        if decision.rule is not None:
            reason = f"{self.source} line {decision.rule.line}: {decision.rule}"
        else:
            reason = _REASONS[decision.reason].format(
                source=self.source, token=decision.token, cause=self.cause, exempt=self.exempt
            )
        if decision.stale:
            reason += f"; stale copy, its refresh failed: {self.cause}"
        return reason

    def _agent_of(self, agent: Agent | str | list[str] | None) -> Agent:
        """Return the agent for an argument of a public method, by default the crawl's own."""
        return agent if isinstance(agent, Agent) else parse_agent(agent) or self._agent()


#: The start of the reason if robots.txt is unreachable, followed by the cause.
UNREACHABLE = "robots.txt unreachable: "
#: The reason for pages on an exempt site.
EXEMPT = "exempt: `{exempt}` of ROBOTS_EXEMPT"

#: Reason -> text, for decisions that aren't based on a rule.
_REASONS = {
    Reason.NO_RULE: "{source}: no rule of the group `{token}` matches",
    Reason.NO_GROUP: "{source}: the file has no group for this crawler",
    Reason.ROBOTS_TXT: "robots.txt itself is always allowed",
    Reason.UNAVAILABLE: "robots.txt unavailable ({cause}), so everything is allowed",
    Reason.UNREACHABLE: f"{UNREACHABLE}{{cause}}",
    Reason.LOCAL: "robots.txt not requested because the crawl itself failed: {cause}",
    Reason.PARSER: "{source}: ROBOTSTXT_PARSER decided",
    Reason.CRAWL_DELAY: "{source} asks for a longer interval than ROBOTS_CRAWL_DELAY_MAX",
    Reason.USE: "{source} refuses a declared use",
    Reason.EXEMPT: EXEMPT,
}

_EXEMPT = Decision(True, Reason.EXEMPT)
_ROBOTS_TXT = Decision(True, Reason.ROBOTS_TXT, None, "*")
_WITHOUT_FILE = {
    Outcome.UNAVAILABLE: Decision(True, Reason.UNAVAILABLE),
    Outcome.UNREACHABLE: Decision(False, Reason.UNREACHABLE),
    Outcome.LOCAL: Decision(False, Reason.LOCAL),
    # This can't happen without a file, but when in doubt, nothing is allowed.
    Outcome.SUCCESSFUL: Decision(False, Reason.UNREACHABLE),
}
