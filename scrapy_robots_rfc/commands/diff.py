"""`scrapy robots diff OLD NEW`: which rules changed between two robots.txt files, and which URLs change their verdict.

In here: the command line, and how it looks. What changed is `core/difference.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy_robots_rfc.commands import asking, judging, sources
from scrapy_robots_rfc.commands.check import UNDECIDED, add_agent, prepared
from scrapy_robots_rfc.commands.output import Failed, printable
from scrapy_robots_rfc.commands.terminal import Colour, Style
from scrapy_robots_rfc.core.difference import Change, differences
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.policy.origin import without_userinfo

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_robots_rfc.commands.asking import Inquirer
    from scrapy_robots_rfc.commands.judging import Finding
    from scrapy_robots_rfc.commands.output import Console
    from scrapy_robots_rfc.identity import Agent
    from scrapy_robots_rfc.robots import Robots

_Topics: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

#: Exit codes, as those of diff(1).
SAME, DIFFERENT = 0, 1


def add_to(topics: _Topics) -> Iterator[argparse.ArgumentParser]:
    """Add the topic to a command line, and yield its parser."""
    text = "Compare two robots.txt files: which rules changed, and which URLs change their verdict."
    topic = topics.add_parser("diff", help=text, description=text)
    topic.set_defaults(work=diff, failed=UNDECIDED)
    topic.add_argument("old", metavar="OLD", help="a file, the URL of a robots.txt, or -, standard input")
    topic.add_argument("new", metavar="NEW", help="the same")
    add_agent(topic)
    topic.add_argument("--urls", metavar="FILE", help="URLs to judge by both, one a line; -: from standard input")
    topic.add_argument("--json", action="store_true", help="an object in one line for each change")
    yield topic


def diff(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Print what changed, and return the exit code."""
    names = (opts.old, opts.new)
    if [*names, opts.urls].count(sources.STANDARD) > 1:
        raise Failed("standard input can be one thing only: name files for the others", UNDECIDED)
    ours = prepared(settings, opts)
    agent = judging.agent_for(ours, settings)
    bodies = _bodies(settings, names, console)
    urls = [] if opts.urls is None else sources.lines(opts.urls, console)
    old, new = files = [RobotsTxt.parse(body, max_size=ours.max_size) for body in bodies]

    def judge(url: str) -> tuple[Finding, Finding]:
        before, after = (
            judging.judged(url, _given(file, url, agent), without_userinfo(name), agent, ours)
            for file, name in zip(files, names, strict=True)
        )
        return before, after

    changes = differences(old, new, agent.tokens if opts.agent else ())
    changed = [pair for pair in map(judge, urls) if pair[0].verdict != pair[1].verdict]
    if opts.json:
        for change in changes:
            console.say_json(_record(change))
        for before, after in changed:
            console.say_json({"url": before.url, "old": judging.record(before), "new": judging.record(after)})
    else:
        for line in _lines(changes, changed, Style.of(console.stdout)):
            console.say(line)
        console.say(_summary(changes, len(changed), None if opts.urls is None else len(urls)))
    return DIFFERENT if changes or changed else SAME


def _given(file: RobotsTxt, url: str, agent: Agent) -> Robots:
    robots = judging.given(file, url, agent)
    if robots is None:
        raise Failed(f"{without_userinfo(url)} is no absolute http or https URL with a valid authority", UNDECIDED)
    return robots


def _bodies(settings: ScrapySettings, names: tuple[str, ...], console: Console) -> list[bytes]:
    """Return what is compared; a crawl runs only where something is to be fetched."""
    found: dict[str, bytes] = {name: sources.read(name, console) for name in names if not sources.is_url(name)}
    wanted = [name for name in dict.fromkeys(names) if name not in found]
    if wanted:
        asking.crawl(settings, partial(_download, wanted, found))
    if len(found) < len(set(names)):
        raise Failed("stopped before the files were there", UNDECIDED)
    return [found[name] for name in names]


async def _download(wanted: list[str], found: dict[str, bytes], inquirer: Inquirer) -> None:
    for name in wanted:
        found[name] = await inquirer.download(name)


def _lines(changes: list[Change], changed: list[tuple[Finding, Finding]], style: Style) -> Iterator[str]:
    for change in changes:
        yield style.paint(printable(f"group for {change.name}{_applies(change)}"), Colour.STRONG)
        for sign, rules, colour in (("-", change.removed, Colour.BAD), ("+", change.added, Colour.GOOD)):
            for rule in rules:
                yield style.paint(style.cut(f"  {sign} line {rule.line}: {rule}"), colour)
    for before, after in changed:
        yield f"{before.verdict} -> {style.paint(after.verdict, Colour.STRONG)}  {printable(after.url)}"
        for sign, finding in (("-", before), ("+", after)):
            text, *more = style.wrapped(printable(finding.why), 4)
            yield f"  {sign} {text}"
            yield from more


def _applies(change: Change) -> str:
    """Say which group applied and which applies, where that is not the same."""
    if change.old == change.new:
        return ""
    if change.old is None:
        return ": there was none" if change.new == change.name else f": there was none, now that of {change.new}"
    if change.new is None:
        return ": there is none any more" + ("" if change.old == change.name else f", it was that of {change.old}")
    return f": it was that of {change.old}, now that of {change.new}"


def _summary(changes: list[Change], changed: int, urls: int | None) -> str:
    rules = sum(len(change.removed) + len(change.added) for change in changes)
    verdicts = "" if urls is None else f", {changed:,} of {urls:,} URLs change their verdict"
    return f"{rules:,} {'rule' if rules == 1 else 'rules'} removed or added{verdicts}"


def _record(change: Change) -> dict[str, Any]:
    return {
        "group": change.name,
        "old": change.old,
        "new": change.new,
        "removed": [judging.rule_record(rule) for rule in change.removed],
        "added": [judging.rule_record(rule) for rule in change.added],
    }
