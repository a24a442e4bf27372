"""Verdicts on URLs, as a crawl would give them, and what they are based on: for `check`, `diff` and `show`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.commands.common import NO_URL, Failed, stripped
from scrapy_robots_rfc.core.agents import NOBODY, Agent, agent_of
from scrapy_robots_rfc.core.decision import Decision, Reason, Rule
from scrapy_robots_rfc.core.robotstxt import Explanation, explain
from scrapy_robots_rfc.middleware.user_agent import default_header
from scrapy_robots_rfc.policy.origins import without_dot_segments

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_robots_rfc.commands.asking import Found
    from scrapy_robots_rfc.commands.common import Style
    from scrapy_robots_rfc.settings import Settings


# Who asks.


@dataclass(frozen=True, slots=True)
class Asker:
    """A crawler that asks robots.txt.

    :param name: what the command line calls it, else the project.
    """

    name: str
    agent: Agent


def add_agent(topic: argparse.ArgumentParser) -> None:
    """Add the option that says who asks."""
    text = "product token, or User-Agent; A,B: A, or else B; as often as you like (default: the project's)"
    topic.add_argument("--agent", metavar="TOKEN", action="append", help=text)


def askers_for(names: Sequence[str] | None, settings: Settings, scrapy_settings: ScrapySettings) -> list[Asker]:
    """Return who asks, each of them once: those whom the command line names, else the crawl.

    :param names: as ROBOTSTXT_USER_AGENT takes them: ``foobot-news,foobot`` are one, in order of preference.
    :raises Failed: one is empty.
    """
    found: dict[Agent, Asker] = {}
    for name in names or ():
        agent = agent_of(name)
        if agent is None:
            raise Failed("--agent names nobody: give it a product token, or a User-Agent header")
        found.setdefault(agent, Asker(name.strip(), agent))
    if not found:
        agent = settings.user_agent or agent_of(default_header(scrapy_settings)) or NOBODY
        own = ",".join(agent.tokens) if settings.user_agent is not None else ""
        found[agent] = Asker(own or agent.identification, agent)
    return list(found.values())


# What is found out about a URL.


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is found out about a URL.

    :param url: without userinfo.
    :param decision: the verdict; ``None``: there is none, and `why` says what is wrong with the URL.
    :param why: what the verdict is based on, for people.
    :param found: what governs it; ``None`` where nothing could be asked.
    :param explanation: ``None`` where there is no file, or another parser has it.
    """

    url: str
    asker: Asker
    decision: Decision | None
    why: str
    found: Found | None = None
    explanation: Explanation | None = None

    @property
    def decided(self) -> bool:
        """Whether there is a verdict. There is none where the file is unreachable, or the crawl itself failed."""
        return self.decision is not None and self.decision.reason not in (Reason.UNREACHABLE, Reason.LOCAL)

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        if self.decision is None or not self.decided:
            return "undecided"
        return "allowed" if self.decision.allowed else "disallowed"

    @property
    def rule(self) -> Rule | None:
        """The rule that decided."""
        return None if self.decision is None else self.decision.rule

    @property
    def lost(self) -> list[Rule]:
        """The rules that match, and did not decide."""
        if self.explanation is None:
            return []
        return [rule for rule in self.explanation.matches if self.rule is None or rule.line != self.rule.line]


def judged(url: str, found: Found | None, asker: Asker, settings: Settings) -> Judgement:
    """Return the verdict on a URL.

    :param found: ``None``: it has no origin.
    """
    if found is None:
        return Judgement(stripped(url), asker, None, f"it is {NO_URL}")
    robots = found.robots
    agent = asker.agent
    decision, why = robots.verdict(url, agent, settings.limit, Runtime().utc)
    decision = replace(decision, origin=str(robots.origin))
    explanation = None
    if robots.robots is not None:
        assert robots.file is not None
        resolved = without_dot_segments(url)  # of two readings of a URL, the one that is disallowed decides
        deciding = url if resolved is None or not robots.file.decide(url, agent).allowed else resolved
        explanation = explain(robots.robots, deciding, agent.tokens)
    return Judgement(stripped(url), asker, decision, why or robots.why(decision), found, explanation)


# As JSON.


def judgement_record(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as an object of JSON; its keys are always the same."""
    decision, found, explanation = judgement.decision, judgement.found, judgement.explanation
    groups = () if explanation is None else explanation.groups
    return {
        "url": judgement.url,
        "agent": judgement.asker.name,
        "tokens": list(judgement.asker.agent.tokens),
        "verdict": judgement.verdict,
        "why": judgement.why,
        "reason": None if decision is None else decision.reason.value,
        "rule": None if judgement.rule is None else rule_record(judgement.rule),
        "group": None if explanation is None else explanation.token,
        "group_lines": [[group.line, group.last] for group in groups],
        "lost": [rule_record(rule) for rule in judgement.lost],
        "robots_txt": None if found is None else {"url": found.source, **access_record(found)},
    }


def access_record(found: Found) -> dict[str, Any]:
    """Return what came of the fetch of a robots.txt, as keys of an object of JSON."""
    robots = found.robots
    return {
        "result": robots.outcome.value,
        "status": robots.status,
        "cause": robots.cause,
        "stale": robots.stale,
        "override": robots.override,
        "exempt": robots.exempt,
        "redirects": [{"url": hop.url, "status": hop.status, "target": hop.target} for hop in found.hops],
    }


def rule_record(rule: Rule) -> dict[str, Any]:
    """Return a rule as an object of JSON."""
    return {"line": rule.line, "kind": rule.kind.value, "pattern": rule.pattern}


# As text: what `check` and `show` have in common.


def access_facts(found: Found, style: Style) -> Iterator[str]:
    """Yield where the file came from, what came of it, and the redirects that its fetch followed."""
    robots, source = found.robots, found.source
    text = f"{source} ({robots.outcome.value}: {robots.cause}{', an earlier copy is obeyed' if robots.stale else ''})"
    if robots.cause == "given" and robots.status is None:
        text = f"{source} (given)"
    elif robots.override is not None:
        text = f"{robots.source} (in place of {source}, by ROBOTSTXT_OVERRIDES)"
    elif robots.exempt is not None:
        text = f"{source} (not asked, by ROBOTSTXT_EXEMPT)"
    yield from style.fact("robots.txt", text)
    for hop in found.hops:
        where = "without a usable Location" if hop.target is None else f"to {hop.target}"
        yield from style.fact("redirected", f"{hop.status} {where}")


def group_fact(explanation: Explanation, style: Style) -> Iterator[str]:
    """Yield which group applies, and where it stands."""
    groups, places = explanation.groups, ""
    if groups:
        ends = [str(group.line) if group.line == group.last else f"{group.line}-{group.last}" for group in groups]
        lines = "line" if ends[0].isdigit() and len(ends) == 1 else "lines"
        places = f" ({lines} {', '.join(ends)}{', together' if len(groups) > 1 else ''})"
    yield from style.fact("group", f"{explanation.choice}{places}")
