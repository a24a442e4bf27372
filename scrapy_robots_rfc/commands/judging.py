"""A verdict on a URL, as the crawl would give it, with all that it rests on: for `check`, as a value and as JSON.

In here: no output. What people see is `explained.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc._compat import Runtime
from scrapy_robots_rfc.core.decision import Decision, Reason, Rule
from scrapy_robots_rfc.core.explain import Explanation, explain
from scrapy_robots_rfc.files import RfcFile
from scrapy_robots_rfc.identity import NOBODY, Agent, agent_of, user_agent_among
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.freshness import Term
from scrapy_robots_rfc.policy.origin import Origin, without_dot_segments, without_userinfo
from scrapy_robots_rfc.policy.pacing import Limit
from scrapy_robots_rfc.robots import Robots

if TYPE_CHECKING:
    from scrapy.settings import Settings as ScrapySettings

    from scrapy_robots_rfc.commands.asking import Hop
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt
    from scrapy_robots_rfc.settings import Settings


@dataclass(frozen=True, slots=True)
class Finding:
    """What is found out about a URL.

    :param url: without userinfo.
    :param decision: the verdict; ``None``: there is none, and `why` says what is wrong with the URL.
    :param why: what it rests on, for people.
    :param robots: what was asked; `None` where nothing could be.
    :param source: the URL of the robots.txt, or the name of the file that was given in its place.
    :param hops: the redirects that its fetch followed.
    :param explanation: ``None`` where there is no file, or another parser has it.
    """

    url: str
    decision: Decision | None
    why: str
    robots: Robots | None = None
    source: str | None = None
    hops: tuple[Hop, ...] = ()
    explanation: Explanation | None = None

    @property
    def decided(self) -> bool:
        """Whether a site's owner, or there being no file, decided; not that nobody knows."""
        return self.decision is not None and self.decision.reason is not Reason.UNREACHABLE

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        if self.decision is None or not self.decided:
            return "undecided"
        return "allowed" if self.decision.allowed else "disallowed"


def agent_for(settings: Settings, scrapy_settings: ScrapySettings) -> Agent:
    """Return who the crawl is to robots.txt where no spider and no request says: by setting, else by its header."""
    if settings.user_agent is not None:
        return settings.user_agent
    header = user_agent_among(scrapy_settings.getdict("DEFAULT_REQUEST_HEADERS"))
    return agent_of(scrapy_settings.get("USER_AGENT") if header is None else header) or NOBODY


def given(file: RobotsTxt, url: str, agent: Agent) -> Robots | None:
    """Return what a file says that is given in place of the one of a URL's origin; ``None`` for what has no origin."""
    origin = Origin.of(url)
    if origin is None:
        return None
    return Robots(origin, Term(Outcome.SUCCESSFUL, math.inf), None, "given", RfcFile(None, file), lambda: agent)


def judged(url: str, robots: Robots, source: str, agent: Agent, settings: Settings) -> Finding:
    """Return the verdict on a URL."""
    decision = robots.judge(url, agent)
    why = robots.why(decision)
    if decision.allowed:
        refusal = _refusal(url, robots, agent, settings)
        if refusal is not None:
            decision, why = replace(decision, allowed=False, reason=Reason.CRAWL_DELAY, rule=None), refusal
    decision = replace(decision, origin=str(robots.origin))
    explanation = None if robots.robots is None else explain(robots.robots, _deciding(url, robots, agent), agent.tokens)
    return Finding(without_userinfo(url), decision, why, robots, source, (), explanation)


def _deciding(url: str, robots: Robots, agent: Agent) -> str:
    """Return which spelling of a URL decides: see `Robots.judge`."""
    resolved = without_dot_segments(url)
    assert robots.file is not None
    return url if resolved is None or not robots.file.decide(url, agent).allowed else resolved


def _refusal(url: str, robots: Robots, agent: Agent, settings: Settings) -> str | None:
    if not settings.crawl_delay or robots.file is None:
        return None
    pace = robots.file.pace(agent)
    bound = None if pace is None else pace.bound(Runtime().utc())
    limit = Limit(settings.crawl_delay_max, settings.crawl_delay_over)
    return None if bound is None else robots.refused(url, bound, limit)


def record(finding: Finding) -> dict[str, Any]:
    """Return a finding as an object of JSON."""
    decision, robots, explanation = finding.decision, finding.robots, finding.explanation
    made: dict[str, Any] = {"url": finding.url, "verdict": finding.verdict, "why": finding.why}
    made["reason"] = None if decision is None else decision.reason.value
    made["rule"] = None if decision is None or decision.rule is None else rule_record(decision.rule)
    if explanation is not None:
        made["tokens"] = list(explanation.asked)
        made["group"] = explanation.token
        made["group_lines"] = [[part.first, part.last] for part in explanation.parts]
        made["lost"] = [rule_record(rule) for rule in lost(finding)]
    if robots is not None:
        made["robots_txt"] = {
            "url": finding.source,
            "result": robots.outcome.value,
            "status": robots.status,
            "cause": robots.cause,
            "stale": robots.stale,
            "redirects": [{"url": hop.url, "status": hop.status} for hop in finding.hops],
        }
    return made


def lost(finding: Finding) -> list[Rule]:
    """Return the rules that match, and did not decide."""
    if finding.explanation is None:
        return []
    decided = None if finding.decision is None else finding.decision.rule
    return [rule for rule in finding.explanation.matches if decided is None or rule.line != decided.line]


def rule_record(rule: Rule) -> dict[str, Any]:
    """Return a rule as an object of JSON."""
    return {"line": rule.line, "kind": rule.kind.value, "pattern": rule.pattern}
