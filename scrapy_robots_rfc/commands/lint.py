"""`scrapy robots lint FILE|URL|-`: findings of a robots.txt, for people, for programs, and as annotations on GitHub.

The findings are made in `core/lint.py`.
"""

from __future__ import annotations

import argparse
from typing import Any

from scrapy.settings import Settings

from scrapy_robots_rfc.commands import asking
from scrapy_robots_rfc.commands.common import (
    BAD,
    DOUBT,
    STRONG,
    Console,
    Failed,
    as_url,
    is_url,
    origin_of,
    read,
)
from scrapy_robots_rfc.core.lint import Finding, Severity, lint
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import many, printable

HELP = (
    "Say what is odd about a robots.txt: what a crawler makes of it, and what was probably meant."
)
#: Severities with their exit codes, of which the highest counts, and their colours. 2: the file
#: could not be read.
_SEVERITIES = {Severity.NOTICE: (0, STRONG), Severity.WARNING: (1, DOUBT), Severity.ERROR: (3, BAD)}

#: What a crawl may have in place of a site's file, or in front of it.
_FROM_ITS_SITE: dict[str, Any] = {
    "ROBOTS_CACHE": None,
    "ROBOTS_EXEMPT": [],
    "ROBOTS_OVERRIDES": {},
    "ROBOTSTXT_PARSER": "scrapy_robots_rfc.RfcRobotParser",
}


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    what = "a file; -, standard input; or the URL of any page, for the robots.txt of its site"
    topic.add_argument("source", metavar="FILE|URL|-", help=what)
    topic.add_argument(
        "--format",
        choices=("text", "json", "github"),
        default="text",
        help="default: text, for people",
    )
    topic.add_argument(
        "--json",
        dest="format",
        action="store_const",
        const="json",
        help="the same as --format json",
    )


def run(settings: Settings, console: Console, options: argparse.Namespace) -> int:
    """Print the findings of a file; return the exit code."""
    max_size = asking.prepared(settings).max_size
    if is_url(options.source):
        name, file = _fetched(settings, options.source)
    else:
        name = options.source
        file = RobotsTxt.parse(read(name, console, max_size), max_size=max_size)
    found = lint(file)
    for finding in found:
        if options.format == "json":
            console.say_json(_record(name, finding))
        elif options.format == "github":
            console.say(_annotation(name, finding))
        else:
            _show(name, finding, console)
    if options.format == "text":
        counts = [
            (sum(finding.severity is severity for finding in found), severity.value)
            for severity in Severity
        ]
        summary = ", ".join(many(count, word) for count, word in counts if count)
        console.say(printable(f"{name}: {summary or 'nothing found'}"))
    return max((_SEVERITIES[finding.severity][0] for finding in found), default=0)


def _fetched(settings: Settings, url: str) -> tuple[str, RobotsTxt]:
    """Return the robots.txt of a site, and its URL; nothing but the site is asked for it.

    :raises Failed: there is none.
    """
    for setting, value in _FROM_ITS_SITE.items():
        settings.set(setting, value, "cmdline")
    origin = origin_of(as_url(url))
    found = asking.found_about(settings, [origin])[origin]
    if found.robots.robots is None:
        what = found.robots.outcome.explained(found.robots.cause)
        raise Failed(f"{origin.robots_url} is {what}; {found.advice}")
    return origin.robots_url, found.robots.robots


def _show(name: str, finding: Finding, console: Console) -> None:
    severity = console.paint(finding.severity.value, _SEVERITIES[finding.severity][1])
    rest = f"{finding.code}: {printable(finding.text)}".rstrip(": ")
    console.say(f"{printable(name)}:{finding.line}: {severity} {rest}")
    for told in (finding.effect, finding.meant and f"meant: {finding.meant}"):
        if told:
            console.say(f"    {printable(told)}")


def _record(name: str, finding: Finding) -> dict[str, object]:
    return {
        "file": name,
        "line": finding.line,
        "severity": finding.severity.value,
        "code": finding.code,
        "text": finding.text,
        "effect": finding.effect,
        "meant": finding.meant or None,
    }


def _annotation(name: str, finding: Finding) -> str:
    """Return a finding as a workflow command of GitHub's.

    A text that a site wrote must not end the command.
    """
    told = [finding.text, finding.effect, *([f"meant: {finding.meant}"] if finding.meant else [])]
    file, text = (printable(text).replace("%", "%25") for text in (name, "; ".join(told)))
    file = file.replace(":", "%3A").replace(",", "%2C")
    return (
        f"::{finding.severity.value} file={file},line={finding.line},title={finding.code}::{text}"
    )
