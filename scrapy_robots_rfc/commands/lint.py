"""`scrapy robots lint FILE|URL|-`: prints what `core/lint.py` finds, also for GitHub."""

from __future__ import annotations

import argparse
from typing import Any

from scrapy.settings import Settings

from scrapy_robots_rfc.commands import asking, common
from scrapy_robots_rfc.core.lint import Finding, Severity, lint
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import many, printable

HELP = "Say what is odd about a robots.txt: what a crawler reads, and what was probably meant."
#: Severities with exit codes, of which the highest counts (2: no file was read), and colours.
_SEVERITIES = {
    Severity.NOTICE: (0, common.STRONG),
    Severity.WARNING: (1, common.DOUBT),
    Severity.ERROR: (3, common.BAD),
}
#: What a crawl may read in place of a site's file, or puts in front of it.
_FROM_ITS_SITE: dict[str, Any] = {
    "ROBOTS_CACHE": None,
    "ROBOTS_EXEMPT": [],
    "ROBOTS_OVERRIDES": {},
    "ROBOTSTXT_PARSER": "scrapy_robots_rfc.RfcRobotParser",
}

ARGUMENTS: dict[str, Any] = {
    "source": {"metavar": "FILE|URL|-", "help": "-: standard input; a URL: its site's robots.txt"},
    "--format": {"choices": ("text", "json", "github"), "default": "text", "help": "default: text"},
    "--json": {"dest": "format", "action": "store_const", "const": "json", "help": "as --format"},
}


def run(settings: Settings, console: common.Console, options: argparse.Namespace) -> int:
    """Print the findings of a file; return the exit code."""
    max_size = asking.prepared(settings).max_size
    if common.is_url(options.source):
        name, file = _fetched(settings, options.source)
    else:
        name = options.source
        file = RobotsTxt.parse(common.read(name, console, max_size), max_size=max_size)
    found = lint(file)
    for finding in found:
        if options.format == "json":
            console.print_json(
                {
                    "file": name,
                    "line": finding.line,
                    "severity": finding.severity.value,
                    "code": finding.code,
                    "text": finding.text,
                    "effect": finding.effect,
                    "meant": finding.meant or None,
                }
            )
        elif options.format == "github":
            console.print(_annotation(name, finding))
        else:
            _show(name, finding, console)
    if options.format == "text":
        console.print(printable(f"{name}: {many(len(found), 'finding')}"))
    return max((_SEVERITIES[finding.severity][0] for finding in found), default=0)


def _fetched(settings: Settings, url: str) -> tuple[str, RobotsTxt]:
    """Return the URL of a site's robots.txt, and the file as the site sends it now."""
    for setting, value in _FROM_ITS_SITE.items():
        settings.set(setting, value, "cmdline")
    origin = common.origin_of(common.as_url(url))
    found = asking.found_about(settings, [origin])[origin]
    if found.robots.robots is None:
        what = found.robots.outcome.explained(found.robots.cause)
        raise common.Failed(f"{origin.robots_url} is {what}; {found.advice}")
    return origin.robots_url, found.robots.robots


def _explained(finding: Finding) -> list[str]:
    """Return what follows from a finding, and what was probably meant."""
    meant = f"meant: {finding.meant}" if finding.meant else ""
    return [text for text in (finding.effect, meant) if text]


def _show(name: str, finding: Finding, console: common.Console) -> None:
    severity = console.paint(finding.severity.value, _SEVERITIES[finding.severity][1])
    rest = f"{finding.code}: {printable(finding.text)}".rstrip(": ")
    console.print(f"{printable(name)}:{finding.line}: {severity} {rest}")
    for text in _explained(finding):
        console.print(f"    {printable(text)}")


def _annotation(name: str, finding: Finding) -> str:
    """Return a finding as a workflow command of GitHub's, which a site's text cannot end."""
    text = printable("; ".join([finding.text, *_explained(finding)])).replace("%", "%25")
    file = printable(name).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    where = f"file={file},line={finding.line},title={finding.code}"
    return f"::{finding.severity.value} {where}::{text}"
