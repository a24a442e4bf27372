"""`scrapy robots show URL`: what is known of one origin's robots.txt, and what it says.

In here: the command line, the facts, and how they look.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy_robots_rfc._compat import Runtime
from scrapy_robots_rfc.commands import asking, judging
from scrapy_robots_rfc.commands.check import UNDECIDED, add_agent, prepared
from scrapy_robots_rfc.commands.explained import access, fact, places, redirects
from scrapy_robots_rfc.commands.output import Failed, printable, span
from scrapy_robots_rfc.commands.terminal import Colour, Style
from scrapy_robots_rfc.core.explain import Explanation, explain
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origin import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_robots_rfc.commands.asking import Hop, Inquirer
    from scrapy_robots_rfc.commands.output import Console
    from scrapy_robots_rfc.core.groups import Group
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt
    from scrapy_robots_rfc.identity import Agent
    from scrapy_robots_rfc.robots import Robots

_Topics: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_SITEMAPS = frozenset({"sitemap", "site-map"})


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is known of an origin's file.

    :param fresh_for: seconds for which it is used before it is asked for again.
    :param explanation: which group applies; ``None`` without a file.
    """

    robots: Robots
    hops: tuple[Hop, ...]
    agent: Agent
    fresh_for: float
    explanation: Explanation | None

    @property
    def file(self) -> RobotsTxt | None:
        """The file."""
        return self.robots.robots


def add_to(topics: _Topics) -> Iterator[argparse.ArgumentParser]:
    """Add the topic to a command line, and yield its parser."""
    text = "Show the robots.txt that a URL falls under: how it was come by, its groups, and what else it says."
    topic = topics.add_parser("show", help=text, description=text)
    topic.set_defaults(work=show, failed=UNDECIDED)
    topic.add_argument("url", metavar="URL", help="of any page, http or https")
    add_agent(topic)
    topic.add_argument("--json", action="store_true", help="one object, in one line")
    yield topic


def show(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Print what is known; the exit code is 0 unless the file cannot be reached."""
    origin = Origin.of(opts.url)
    if origin is None:
        raise Failed(f"{opts.url} is no absolute http or https URL with a valid authority", UNDECIDED)
    agent = judging.agent_for(prepared(settings, opts), settings)
    found: list[_Shown] = []
    asking.crawl(settings, partial(_ask, origin, agent, found))
    if not found:
        raise Failed(f"stopped before {origin.robots_url} was there", UNDECIDED)
    shown = found[0]
    if opts.json:
        console.say_json(_record(shown))
    else:
        for line in _lines(shown, Style.of(console.stdout)):
            console.say(line)
    if shown.robots.outcome is Outcome.UNREACHABLE:
        console.complain(f"{origin.robots_url} is unreachable: {shown.robots.cause}; see whether the site is up")
        return UNDECIDED
    return 0


async def _ask(origin: Origin, agent: Agent, found: list[_Shown], inquirer: Inquirer) -> None:
    robots = await inquirer.ask(origin)
    if robots is not None:
        fresh_for = robots.term.fresh_until - Runtime().clock()
        explanation = None if robots.robots is None else explain(robots.robots, "/", agent.tokens)
        found.append(_Shown(robots, inquirer.redirects(origin), agent, fresh_for, explanation))


def _lines(shown: _Shown, style: Style) -> Iterator[str]:
    robots = shown.robots
    yield from fact("robots.txt", access(robots, robots.origin.robots_url), style)
    yield from redirects(shown.hops, style)
    if math.isfinite(shown.fresh_for):
        yield from fact("fresh for", span(shown.fresh_for), style)
    file = shown.file
    if file is None or shown.explanation is None:
        return
    cut = ", the rest is too much and does not count" if file.truncated else ""
    yield from fact("octets", f"{file.size:,}{cut}", style)
    yield from fact("group", f"{shown.explanation.choice}{places(shown.explanation.parts)}", style)
    delay = robots.crawl_delay(list(shown.agent.tokens) or None)
    yield from fact("delay", "none is asked for" if delay is None else f"Crawl-delay {delay:g} s", style)
    for sitemap in file.sitemaps:
        yield from fact("sitemap", sitemap, style)
    for record in file.records:
        if record.key not in _SITEMAPS:
            yield from fact("record", f"line {record.line}: {record.key}: {record.value}", style)
    applying = {part.first for part in shown.explanation.parts}
    for group in file.groups:
        yield ""
        yield from _group(group, group.line in applying, style)


def _group(group: Group, applies: bool, style: Style) -> Iterator[str]:
    """Yield a group: the one that applies is marked."""
    mark = style.paint(">", Colour.STRONG, Colour.GOOD) if applies else " "
    names = style.cut(printable(", ".join(group.tokens)), 30)
    yield f"{mark} {group.line:>5}  {style.paint(names, Colour.STRONG)}{' (applies)' if applies else ''}"
    for rule in group.rules:
        yield style.cut(f"{'':>2}{rule.line:>5}  {'':>2}{rule}")


def _record(shown: _Shown) -> dict[str, Any]:
    robots, file, explanation = shown.robots, shown.file, shown.explanation
    made: dict[str, Any] = {
        "origin": str(robots.origin),
        "robots_txt": robots.origin.robots_url,
        "result": robots.outcome.value,
        "status": robots.status,
        "cause": robots.cause,
        "stale": robots.stale,
        "redirects": [{"url": hop.url, "status": hop.status} for hop in shown.hops],
        "fresh_for": round(shown.fresh_for, 1) if math.isfinite(shown.fresh_for) else None,
    }
    if file is not None and explanation is not None:
        applying = {part.first for part in explanation.parts}
        delay = robots.crawl_delay(list(shown.agent.tokens) or None)
        made |= {
            "octets": file.size,
            "truncated": file.truncated,
            "tokens": list(explanation.asked),
            "group": explanation.token,
            "crawl_delay": str(delay) if delay is not None and math.isinf(delay) else delay,  # JSON has none
            "sitemaps": list(file.sitemaps),
            "records": [{"line": record.line, "key": record.key, "value": record.value} for record in file.records],
            "groups": [_group_record(group, group.line in applying) for group in file.groups],
        }
    return made


def _group_record(group: Group, applies: bool) -> dict[str, Any]:
    return {
        "line": group.line,
        "tokens": list(group.tokens),
        "applies": applies,
        "rules": [{"line": rule.line, "kind": rule.kind.value, "pattern": rule.pattern} for rule in group.rules],
    }
