"""`scrapy robots show URL`: what is known of one origin's robots.txt, and what it says."""

from __future__ import annotations

import argparse
import math
from typing import Any

from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.commands import asking, check, common
from scrapy_robots_rfc.commands.common import (
    GOOD,
    NO_ANSWER,
    STRONG,
    Console,
    as_url,
    origin_of,
    span,
)
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.robotstxt import RobotsTxt, explain
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.pacing import Limit

HELP = "Show the robots.txt that a URL falls under: how it was fetched, its groups, and what else it says."


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    topic.add_argument("url", metavar="URL", help=f"of any page, {common.URL_HELP}")
    check.add_agent(topic)
    topic.add_argument("--json", action="store_true", help="one object, in one line")


def run(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Print what is known; the exit code is 0 unless the file cannot be reached."""
    ours = asking.prepared(settings)
    origin = origin_of(as_url(opts.url), ours.schemes)
    agents = check.agents_for(opts.agent, ours, settings)
    found = asking.found_about(settings, [origin])[origin]
    fresh_for = found.robots.validity.fresh_until - Runtime().clock()
    for number, agent in enumerate(agents):
        if opts.json:
            console.say_json(_record(found, fresh_for, agent, ours.limit))
        else:
            if number:
                console.say()
            _show(found, fresh_for, agent, ours.limit, console)
    outcome = found.robots.outcome
    if outcome not in (Outcome.UNREACHABLE, Outcome.LOCAL):
        return 0
    console.complain(
        f"{origin.robots_url} is {outcome.explained(found.robots.cause)}; {found.advice}"
    )
    return NO_ANSWER


def _pace(robots: OriginPolicy, agent: Agent, limit: Limit | None) -> tuple[str, float | None]:
    """Return which interval a file asks for now, for people, and the seconds of it that a crawl keeps, if any."""
    bound = robots.bound(agent, Runtime().utc())
    if bound is None:
        return "none is asked for", None
    text = robots.cited(bound.text)
    if limit is None:
        return f"{text}: not kept (ROBOTS_CRAWL_DELAY_MAX = 0)", None
    if (refused := robots.refused(f"{robots.origin}/", bound, limit)) is not None:
        return f"{refused}: no page may be fetched", None
    if bound.seconds > limit.longest:
        return f"{text}: kept at {limit.longest:g} s (ROBOTS_CRAWL_DELAY_MAX)", limit.longest
    return text, bound.seconds


def _show(
    found: asking.FoundRobots, fresh_for: float, agent: Agent, limit: Limit | None, console: Console
) -> None:
    check.show_access(found, console)
    if math.isfinite(fresh_for):
        console.fact("fresh for", span(fresh_for))
    file, tokens = found.robots.robots, agent.tokens
    if file is None:
        return
    cut = ", the rest is too much and does not count" if file.truncated else ""
    console.fact("octets", f"{file.size:,}{cut}")
    console.fact("agent", check.name_of(agent))
    explanation = explain(file, "/", tokens)
    applying = {group.line for group in explanation.groups}
    check.show_group(explanation, console)
    console.fact("delay", _pace(found.robots, agent, limit)[0])
    check.show_use(file.preferences("/", tokens), console, file.licenses(tokens))
    for record in file.records:
        console.fact("record", f"line {record.line}: {record.key}: {record.value}")
    for group in file.groups:
        mark, applies = (
            (console.paint(">", STRONG, GOOD), " (applies)")
            if group.line in applying
            else (" ", "")
        )
        console.say(f"\n{mark} {group.line:>5}  {printable(', '.join(group.tokens))}{applies}")
        for rule in group.rules:
            console.say(f"  {rule.line:>5}    {rule}")


def _record(
    found: asking.FoundRobots, fresh_for: float, agent: Agent, limit: Limit | None
) -> dict[str, Any]:
    """Return what is known as an object of JSON.

    Without a file, what it would say is null, or empty.
    """
    robots, file = found.robots, found.robots.robots or RobotsTxt()
    explanation = explain(file, "/", agent.tokens)
    applying = {group.line for group in explanation.groups}
    delay = None if robots.file is None else robots.file.crawl_delay(agent)
    return {
        "origin": str(robots.origin),
        "robots_txt": robots.origin.robots_url,
        "agent": check.name_of(agent),
        "tokens": list(agent.tokens),
        **check.access_record(found),
        "fresh_for": round(fresh_for, 1) if math.isfinite(fresh_for) else None,
        "octets": None if robots.robots is None else file.size,
        "truncated": file.truncated,
        "group": explanation.token,
        "crawl_delay": str(delay)
        if delay is not None and math.isinf(delay)
        else delay,  # JSON has none
        "interval": _pace(robots, agent, limit)[1],
        "use": {label: said.allowed for label, said in file.preferences("/", agent.tokens).items()},
        "licenses": [record.value for record in file.licenses(agent.tokens)],
        "sitemaps": list(robots.sitemaps),
        "records": [
            {"line": each.line, "key": each.key, "value": each.value} for each in file.records
        ],
        "groups": [
            {
                "line": group.line,
                "tokens": list(group.tokens),
                "applies": group.line in applying,
                "rules": [check.rule_record(rule) for rule in group.rules],
            }
            for group in file.groups
        ],
    }
