"""`scrapy robots lint FILE|URL|-`: findings of a robots.txt, for people, for programs, and as annotations on GitHub.

The findings are made in `core/lint.py`.
"""

from __future__ import annotations

import argparse

from scrapy.settings import Settings

from scrapy_robots_rfc.commands.asking import given_file, prepared
from scrapy_robots_rfc.commands.common import BAD, DOUBT, STRONG, Console, is_url, stripped
from scrapy_robots_rfc.core.findings import Severity
from scrapy_robots_rfc.core.lint import Finding, lint
from scrapy_robots_rfc.core.text import many, printable

HELP = "Say what is odd about a robots.txt: what a crawler makes of it, and what was probably meant."
#: Severities with their exit codes, of which the highest counts, and their colours. 2: the file could not be read.
_SEVERITIES = {Severity.NOTICE: (0, STRONG), Severity.WARNING: (1, DOUBT), Severity.ERROR: (3, BAD)}


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    what = "a file; a URL, of the file itself or of a site; or -, standard input"
    topic.add_argument("source", metavar="FILE|URL|-", help=what)
    topic.add_argument("--format", choices=("text", "json", "github"), default="text", help="default: text, for people")
    topic.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")


def run(settings: Settings, console: Console, options: argparse.Namespace) -> int:
    """Print the findings of a file; return the exit code."""
    prepared(settings)
    given = given_file(settings, options.source, console)
    name = stripped(given.source) if is_url(given.source) else given.source
    found = lint(given.file)
    for finding in found:
        if options.format == "json":
            console.say_json(_record(name, finding))
        elif options.format == "github":
            console.say(_annotation(name, finding))
        else:
            _show(name, finding, console)
    if options.format == "text":
        counts = [(sum(finding.severity is severity for finding in found), severity.value) for severity in Severity]
        summary = ", ".join(many(count, word) for count, word in counts if count)
        console.say(printable(f"{name}: {summary or 'nothing found'}"))
    return max((_SEVERITIES[finding.severity][0] for finding in found), default=0)


def _show(name: str, finding: Finding, console: Console) -> None:
    severity = console.paint(finding.severity.value, _SEVERITIES[finding.severity][1])
    rest = f"{finding.code.value}: {printable(finding.text)}".rstrip(": ")
    console.say(f"{printable(name)}:{finding.line}: {severity} {rest}")
    for told in (finding.effect, finding.meant and f"meant: {finding.meant}"):
        if told:
            console.say(f"    {printable(told)}")


def _record(name: str, finding: Finding) -> dict[str, object]:
    return {
        "file": name,
        "line": finding.line,
        "severity": finding.severity.value,
        "code": finding.code.value,
        "text": finding.text,
        "effect": finding.effect,
        "meant": finding.meant or None,
    }


def _annotation(name: str, finding: Finding) -> str:
    """Return a finding as a workflow command of GitHub's; a text that a site wrote must not end the command."""
    told = [finding.text, finding.effect, *([f"meant: {finding.meant}"] if finding.meant else [])]
    file, text = (printable(text).replace("%", "%25") for text in (name, "; ".join(told)))
    file = file.replace(":", "%3A").replace(",", "%2C")
    return f"::{finding.severity.value} file={file},line={finding.line},title={finding.code.value}::{text}"
