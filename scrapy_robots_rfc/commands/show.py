"""`scrapy robots show URL`: how an origin's robots.txt was fetched, and what it says."""

from __future__ import annotations

import argparse
import math
from typing import Any

from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.commands import asking, check, common
from scrapy_robots_rfc.commands.asking import FoundRobots
from scrapy_robots_rfc.commands.common import GOOD, NO_ANSWER, STRONG, Console, as_url, origin_of
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.robotstxt import RobotsTxt, explain
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.pacing import Limit

HELP = "Show the robots.txt of a URL's site: how it was fetched, its groups, and what else it says."

ARGUMENTS = (
    common.argument("url", metavar="URL", help=f"of any page, {common.URL_HELP}"),
    common.AGENT,
    common.JSON,
)


def run(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Print what is known; the exit code is 0 unless the file is unreachable."""
    ours = asking.prepared(settings)
    origin = origin_of(as_url(opts.url), ours.schemes)
    agents = check.agents_for(opts.agent, ours, settings)
    found = asking.found_about(settings, [origin])[origin]
    fresh_for = found.robots.validity.fresh_until - Runtime().clock()
    for number, agent in enumerate(agents):
        if opts.json:
            console.print_json(_record(found, fresh_for, agent, ours.limit))
        else:
            if number:
                console.print()
            _show(found, fresh_for, agent, ours.limit, console)
    outcome = found.robots.outcome
    if outcome not in (Outcome.UNREACHABLE, Outcome.LOCAL):
        return 0
    what = outcome.explained(found.robots.cause)
    console.complain(f"{origin.robots_url} is {what}; {found.advice}")
    return NO_ANSWER


def _show(
    found: FoundRobots, fresh_for: float, agent: Agent, limit: Limit | None, console: Console
) -> None:
    """Print what is known of an origin, for one crawler."""
    check.show_access(found, console)
    if math.isfinite(fresh_for):
        console.fact("fresh for", common.span(fresh_for))
    file, tokens = found.robots.robots, agent.tokens
    if file is None:
        return
    cut = ", the rest is too much and does not count" if file.truncated else ""
    console.fact("octets", f"{file.size:,}{cut}")
    console.fact("agent", check.name_of(agent))
    explanation = explain(file, "/", tokens)
    applying = {group.line for group in explanation.groups}
    check.show_group(explanation, console)
    console.fact("delay", _interval(found.robots, agent, limit)[0])
    check.show_use(file.preferences("/", tokens), console, file.licenses(tokens))
    for record in file.records:
        console.fact("record", f"line {record.line}: {record.key}: {record.value}")
    for group in file.groups:
        applies = group.line in applying
        mark = console.paint(">", STRONG, GOOD) if applies else " "
        names = printable(", ".join(group.tokens)) + (" (applies)" if applies else "")
        console.print(f"\n{mark} {group.line:>5}  {names}")
        for rule in group.rules:
            console.print(f"  {rule.line:>5}    {rule}")


def _record(
    found: FoundRobots, fresh_for: float, agent: Agent, limit: Limit | None
) -> dict[str, Any]:
    """Return the same as an object of JSON; without a file, its values are null, or empty."""
    robots, tokens = found.robots, agent.tokens
    file = robots.robots or RobotsTxt()
    explanation = explain(file, "/", tokens)
    applying = {group.line for group in explanation.groups}
    delay = robots.crawl_delay(agent)
    return {
        "origin": str(robots.origin),
        "robots_txt": robots.origin.robots_url,
        "agent": check.name_of(agent),
        "tokens": list(tokens),
        **check.access_record(found),
        "fresh_for": round(fresh_for, 1) if math.isfinite(fresh_for) else None,
        "octets": None if robots.robots is None else file.size,
        "truncated": file.truncated,
        "group": explanation.token,
        # JSON has no number that is infinite.
        "crawl_delay": "inf" if delay == math.inf else delay,
        "interval": _interval(robots, agent, limit)[1],
        "use": {label: one.allowed for label, one in file.preferences("/", tokens).items()},
        "licenses": [record.value for record in file.licenses(tokens)],
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


def _interval(robots: OriginPolicy, agent: Agent, limit: Limit | None) -> tuple[str, float | None]:
    """Return the interval that a site asks for now, and the seconds of it that a crawl waits."""
    bound = robots.bound(agent)
    if bound is None:
        return "none is asked for", None
    text = robots.cited(bound.text)
    if limit is None:
        return f"{text}: ignored (ROBOTS_CRAWL_DELAY_MAX = 0)", None
    refused = robots.refused(f"{robots.origin}/", bound, limit)
    if refused is not None:
        return f"{refused}: no page may be fetched", None
    if bound.seconds <= limit.longest:
        return text, bound.seconds
    shortened = f"shortened to {limit.longest:g} s (ROBOTS_CRAWL_DELAY_MAX)"
    return f"{text}: {shortened}", limit.longest
