"""`scrapy robots lint FILE|URL|-`: prints what `core/lint.py` finds, also for GitHub."""

from argparse import Namespace
from dataclasses import asdict
from typing import Any

from scrapy.settings import Settings

from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.core.lint import Finding, Severity, lint
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import many, printable

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


def _lint(settings: Settings, console: common.Console, opts: Namespace) -> int:
    """Print the findings of a file; return the exit code."""
    max_size = common.prepared(settings).max_size
    name = opts.source
    if common.is_url(name):
        for setting, value in _FROM_ITS_SITE.items():
            settings.set(setting, value, "cmdline")
        origin = common.origin_of(name)
        fetched = common.found_about(settings, [origin])[origin]
        if fetched.robots.robots is None:
            raise common.Failed(fetched.problem)
        name, file = fetched.source, fetched.file
    else:
        file = RobotsTxt.parse(common.read(name, console, max_size), max_size=max_size)
    found = lint(file)
    for finding in found:
        if opts.format == "json":
            known = {"file": name, "severity": finding.severity.value, **asdict(finding)}
            console.print_json({**known, "meant": finding.meant or None})
        elif opts.format == "github":
            console.print(_annotation(name, finding))
        else:
            _show(name, finding, console)
    if opts.format == "text":
        console.print(printable(f"{name}: {many(len(found), 'finding')}"))
    return max((_SEVERITIES[finding.severity][0] for finding in found), default=0)


def _explained(finding: Finding) -> list[str]:
    """Return what follows from a finding, and what was probably meant."""
    return [finding.effect, *([f"meant: {finding.meant}"] if finding.meant else ())]


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


TOPIC = common.Topic(
    "Say what is odd about a robots.txt: what a crawler reads, and what was probably meant.",
    {
        "source": {"metavar": "FILE|URL|-", "help": "a robots.txt, or any URL of its site"},
        "--format": {"choices": ("text", "json", "github"), "default": "text"},
        "--json": {"dest": "format", "action": "store_const", "const": "json"},
    },
    _lint,
)
