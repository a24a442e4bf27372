"""Robots: what is known of an origin's robots.txt, and what follows for a URL.

In here: decisions over a parsed file, or over there being none. How it is come by is `service.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.agents import Agent, agent_of
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.percent import request_target
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin, without_dot_segments
from scrapy_robots_rfc.policy.pacing import Over

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import time

    from scrapy_robots_rfc.fetching.parsed import ParsedRobots
    from scrapy_robots_rfc.policy.freshness import Validity
    from scrapy_robots_rfc.policy.pacing import Bound, Limit, Pace

# Complete disallow (RFC 9309, 2.3.1.4), as a file: it leaves /robots.txt itself allowed (2.2.2).
_CLOSED = RobotsTxt.parse(b"User-agent: *\nDisallow: /\n")


@dataclass(frozen=True, slots=True, eq=False)
class OriginPolicy:
    """What is known of an origin's robots.txt, and what follows from it.

    :param origin: whose file it is.
    :param term: what governs, and until when.
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
            return replace(decision, stale=True) if self.validity.stale else decision
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
