"""`scrapy robots show URL`: how an origin's robots.txt was fetched, and what it says."""

from __future__ import annotations

import argparse
import math
from typing import Any

from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.commands import asking, check, common
from scrapy_robots_rfc.commands.asking import FoundRobots
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.findings import explain, groups_of, records_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.pacing import Limit

HELP = "Show the robots.txt of a URL's site: how it was fetched, its groups, and what else it says."

ARGUMENTS: dict[str, Any] = {
    "url": {"metavar": "URL", "help": f"of any page, {common.URL_HELP}"},
    **common.AGENT,
    **common.JSON,
}


def run(settings: ScrapySettings, console: common.Console, opts: argparse.Namespace) -> int:
    """Print what is known; the exit code is 0 unless the file is unreachable."""
    ours = asking.prepared(settings)
    origin = common.origin_of(common.as_url(opts.url), ours.schemes)
    agents = check.agents_for(opts.agent, ours, settings)
    found = asking.found_about(settings, [origin])[origin]
    for number, agent in enumerate(agents):
        record = _record(found, agent, ours.limit)
        if opts.json:
            console.print_json(record)
        else:
            if number:
                console.print()
            _show(found, record, console)
    outcome = found.robots.outcome
    if outcome not in (Outcome.UNREACHABLE, Outcome.LOCAL):
        return 0
    what = outcome.explained(found.robots.cause)
    console.complain(f"{origin.robots_url} is {what}; {found.advice}")
    return common.NO_ANSWER


def _show(found: FoundRobots, record: dict[str, Any], console: common.Console) -> None:
    """Print what is known of an origin, for one crawler."""
    check.show_access(found, console)
    if record["fresh_for"] is not None:
        console.fact("fresh for", f"{record['fresh_for']:.0f} s")
    if record["octets"] is None:
        return
    cut = ", the rest is too much and does not count" if record["truncated"] else ""
    console.fact("octets", f"{record['octets']:,}{cut}")
    console.fact("agent", record["agent"])
    check.show_group(record, console)
    console.fact("delay", record["delay"])
    for each in record["records"]:
        console.fact("record", f"line {each['line']}: {each['key']}: {each['value']}")
    for group in record["groups"]:
        mark = console.paint(">", common.STRONG, common.GOOD) if group["applies"] else " "
        names = printable(", ".join(group["tokens"])) + " (applies)" * group["applies"]
        console.print(f"\n{mark} {group['line']:>5}  {names}")
        for rule in group["rules"]:
            text = printable(f"{rule['kind']}: {rule['pattern']}")
            console.print(f"  {rule['line']:>5}    {text}")


def _record(found: FoundRobots, agent: Agent, limit: Limit | None) -> dict[str, Any]:
    """Return the same as an object of JSON; without a file, its values are null, or empty."""
    robots = found.robots
    tokens = agent.tokens
    file = robots.robots or RobotsTxt()
    explanation = explain(file, "/", tokens)
    applying = {group.line for group in explanation.groups}
    delay, interval = _interval(robots, agent, limit)
    fresh_for = robots.validity.fresh_until - Runtime().clock()
    return {
        "origin": str(robots.origin),
        "robots_txt": robots.origin.robots_url,
        "agent": check.name_of(agent),
        "tokens": list(tokens),
        **check.access_record(found),
        "fresh_for": round(fresh_for, 1) if math.isfinite(fresh_for) else None,
        "octets": None if robots.robots is None else file.content.size,
        "truncated": file.content.truncated,
        **check.group_record(explanation),
        "delay": delay,
        "interval": interval,
        "use": {label: one.allowed for label, one in file.preferences("/", tokens).items()},
        "sitemaps": list(robots.sitemaps),
        "records": [
            {"line": each.line, "key": each.key, "value": each.value} for each in records_of(file)
        ],
        "groups": [
            {
                "line": group.line,
                "tokens": list(group.tokens),
                "applies": group.line in applying,
                "rules": [check.rule_record(rule) for rule in group.rules],
            }
            for group in groups_of(file)
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
