"""`scrapy robots lint` prints the findings of `core/lint.py`."""

from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from scrapy.settings import Settings

from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.common import Console, Failed, FoundRobots
from scrapy_robots_rfc.core.lint import Finding, lint
from scrapy_robots_rfc.core.lint_codes import ADVICE, Severity
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import pluralize, printable
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin

#: Exit code and colour for each severity. The command exits with the highest code, unless a file
#: can't be read.
_SEVERITIES = {
    Severity.NOTICE: (0, common.STRONG),
    Severity.WARNING: (1, common.DOUBT),
    Severity.ERROR: (3, common.BAD),
}
#: Settings that would replace a site's own file, with values that disable them.
_FROM_ITS_SITE: dict[str, Any] = {
    "ROBOTS_CACHE": None,
    "ROBOTS_EXEMPT": [],
    "ROBOTS_OVERRIDES": {},
    "ROBOTSTXT_PARSER": "scrapy_robots_rfc.RfcRobotParser",
}


def _lint(settings: Settings, console: Console, opts: Namespace) -> int:
    """Print the findings for each file, and return the exit code."""
    our_settings = common.prepared(settings)
    schemes = our_settings.schemes
    sources = dict.fromkeys(
        common.origin_of(source, schemes) if common.is_url(source, schemes) else source
        for source in opts.sources
    )
    fetched = _fetched([each for each in sources if isinstance(each, Origin)], settings)
    counts = []
    codes = [0]
    for source in sources:
        try:
            name, file, missing = _read(source, fetched, console, our_settings.max_size)
        except Failed as error:
            console.complain(str(error))
            codes.append(common.NO_ANSWER)
            continue
        findings = lint(file)
        for finding in findings:
            _show(name, finding, console, opts.format)
        codes += (_SEVERITIES[finding.severity][0] for finding in findings)
        if not missing:
            counts.append(len(findings))
        if opts.format == "text":
            console.print(printable(f"{name}: {missing or pluralize(len(findings), 'finding')}"))
        elif missing:
            console.complain(f"{name}: {missing}")
    failed = codes.count(common.NO_ANSWER)
    if opts.format == "text" and len(sources) > 1:
        total = f"{pluralize(sum(counts), 'finding')} in {pluralize(len(counts), 'file')}"
        without = len(sources) - len(counts) - failed
        total += f"; {pluralize(without, 'site')} without robots.txt" * bool(without)
        console.print(total + f"; {failed} could not be read" * bool(failed))
    return common.NO_ANSWER if failed else max(codes)


def _fetched(origins: Iterable[Origin], settings: Settings) -> Mapping[Origin, FoundRobots]:
    """Fetch all origins' files in a single crawl."""
    if not origins:
        return {}
    for setting, value in _FROM_ITS_SITE.items():
        settings.set(setting, value, "cmdline")
    return common.found_about(settings, origins)


def _read(
    source: Origin | str, fetched: Mapping[Origin, FoundRobots], console: Console, max_size: int
) -> tuple[str, RobotsTxt, str]:
    """Return a file's name, the file itself, and a note if the site has no robots.txt.

    :raises Failed: if the file is unreachable or cannot be read.
    """
    if not isinstance(source, Origin):
        return (
            source,
            RobotsTxt.parse(common.read(source, console, max_size), max_size=max_size),
            "",
        )
    found = fetched[source]
    if found.robots.outcome is Outcome.UNAVAILABLE:
        text = f"no robots.txt ({found.robots.cause}), so everything is allowed"
        return found.source, found.file, text
    if found.robots.robots is None:
        raise Failed(found.problem)
    return found.source, found.file, ""


def _show(name: str, finding: Finding, console: Console, style: str) -> None:
    """Print a finding in one of the formats."""
    if style == "json":
        record = {"file": name, "severity": finding.severity.value, **asdict(finding)}
        console.print_json({**record, "meant": finding.meant or None})
        return
    if style == "github":
        console.print(_annotation(name, finding))
        return
    severity = console.paint(finding.severity.value, _SEVERITIES[finding.severity][1])
    rest = f"{finding.code}: {printable(finding.text)}".rstrip(": ")
    console.print(f"{printable(name)}:{finding.line}: {severity} {rest}")
    for text in _explained(finding):
        console.print(f"    {printable(text)}")


def _explained(finding: Finding) -> list[str]:
    """Return a finding's effect and what was probably meant."""
    label = "" if finding.code in ADVICE else "meant: "
    return [finding.effect, *([label + finding.meant] if finding.meant else ())]


def _annotation(name: str, finding: Finding) -> str:
    """Format a finding as a GitHub workflow command, with the site's text escaped."""
    text = printable("; ".join([finding.text, *_explained(finding)])).replace("%", "%25")
    file = printable(name).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    where = f"file={file},line={finding.line},title={finding.code}"
    return f"::{finding.severity.value} {where}::{text}"


TOPIC = common.Topic(
    "Find mistakes in robots.txt files. Explain their effect and what was probably meant.",
    {
        "sources": {
            "metavar": "FILE|URL|-",
            "nargs": "+",
            "help": "a robots.txt file, any URL on a site, or - for standard input",
        },
        "--format": {"choices": ("text", "json", "github"), "default": "text"},
        "--json": {"dest": "format", "action": "store_const", "const": "json"},
    },
    _lint,
)
