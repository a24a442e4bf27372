"""`scrapy robots diff OLD NEW`: which rules changed between two robots.txt files, and which URLs change their verdict.

What changed is found in `core/difference.py`.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any

from scrapy.settings import Settings

from scrapy_robots_rfc.commands import asking, check, common
from scrapy_robots_rfc.commands.common import BAD, GOOD, NO_ANSWER, STANDARD, STRONG, Failed
from scrapy_robots_rfc.core.difference import Change, differences
from scrapy_robots_rfc.core.text import many, printable
from scrapy_robots_rfc.policy.origins import Origin

HELP = "Compare two robots.txt files: which rules changed, and which URLs change their verdict."


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    topic.add_argument("old", metavar="OLD", help="a file, the URL of a robots.txt, or -, standard input")
    topic.add_argument("new", metavar="NEW", help="the same")
    check.add_agent(topic)
    topic.add_argument("--urls", metavar="FILE", help="URLs to judge by both, one a line; -: from standard input")
    topic.add_argument("--json", action="store_true", help="an object in one line for each change")


def run(settings: Settings, console: common.Console, opts: argparse.Namespace) -> int:
    """Print what changed, and return the exit code, as diff(1) has it: 0 where nothing did, 1 where something did."""
    if [opts.old, opts.new, opts.urls].count(STANDARD) > 1:
        raise Failed("standard input can be one thing only: name files for the others")
    ours = asking.prepared(settings)
    agents = check.agents_for(opts.agent, ours, settings)
    lines = [] if opts.urls is None else common.urls_in(opts.urls, console)
    urls, wrong = list[tuple[str, Origin]](), list[str]()
    for number, url in lines:
        try:
            urls.append((url, common.origin_of(url, ours.schemes)))
        except Failed as error:
            wrong.append(f"{common.source_name(opts.urls)} line {number}: {error}")
    console.complain_of(wrong)
    old, new = asking.given_files(settings, [opts.old, opts.new], console)
    for given in {each.source: each for each in (old, new)}.values():
        given.doubt(console)
    whose = [agent.tokens for agent in agents] if opts.agent else [None]
    changes = [change for tokens in whose for change in differences(old.file, new.file, tokens)]
    _show(changes, console, json=opts.json)
    differ: set[str] = set()
    for (url, origin), agent in product(urls, agents):
        before, after = (check.judged(url, file.found(origin, ours), agent, ours) for file in (old, new))
        if before["verdict"] != after["verdict"]:
            differ.add(before["url"])
            record = {"url": before["url"], "agent": before["agent"], "old": before, "new": after}
            console.say_json(record) if opts.json else _show_verdicts(record, console, with_agent=len(agents) > 1)
    if not opts.json:
        console.say(_summary(changes, len(differ), None if opts.urls is None else len(urls)))
    if wrong:
        return NO_ANSWER
    return 1 if differ or any(change.significant for change in changes) else 0


def _show(changes: list[Change], console: common.Console, *, json: bool) -> None:
    """Print what changed, an object a line or as text."""
    alike: dict[tuple[Any, ...], list[str]] = {}  # many tokens may share their groups
    for change in changes:
        if json:
            console.say_json(_record(change))
            continue
        old, new = ("none" if token is None else f"that of {token}" for token in (change.old, change.new))
        applies = "" if old == new else f": it was {old}, now {new}"
        alike.setdefault((applies, change.removed, change.added, change.rewritten), []).append(change.name)
    for (applies, removed, added, rewritten), names in alike.items():
        console.say(console.paint(printable(f"group for {', '.join(names)}{applies}"), STRONG))
        for sign, rules, colour in (("-", removed, BAD), ("+", added, GOOD)):
            for rule in rules:
                console.say(console.paint(f"  {sign} line {rule.line}: {rule}", colour))
        for before, after in rewritten:
            console.say(f"  = line {before.line}: {before}")
            console.say(f"    line {after.line}: {after} (says the same)")


def _show_verdicts(record: dict[str, Any], console: common.Console, *, with_agent: bool) -> None:
    """Print the verdicts on a URL by both files."""
    old, new = record["old"], record["new"]
    console.say(f"{old['verdict']} -> {console.paint(new['verdict'], STRONG)}  {printable(record['url'])}")
    for text in (f"agent {record['agent']}", f"- {old['why']}", f"+ {new['why']}")[not with_agent :]:
        console.say(f"  {printable(text)}")


def _summary(changes: list[Change], differ: int, urls: int | None) -> str:
    """Say how much changed; a line counts once, however many groups it is in."""
    removed = {rule.line for change in changes for rule in change.removed}
    rules = len(removed) + len({rule.line for change in changes for rule in change.added})
    written = len({old.line for change in changes for old, _ in change.rewritten})
    text = f"{many(rules, 'rule')} removed or added"
    if written:
        text += f", {written:,} written differently"
    empty = sum(change.empty_group for change in changes)
    if empty:
        text += f", {many(empty, 'group')} without a rule came or went"
    if urls is not None:
        text += f", {differ:,} of {urls:,} URLs change their verdict"
    return text


def _record(change: Change) -> dict[str, Any]:
    return {
        "group": change.name,
        "old": change.old,
        "new": change.new,
        "removed": [check.rule_record(rule) for rule in change.removed],
        "added": [check.rule_record(rule) for rule in change.added],
        "rewritten": [{"old": check.rule_record(old), "new": check.rule_record(new)} for old, new in change.rewritten],
    }
