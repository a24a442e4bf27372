"""`scrapy robots lint` prints the findings of `core/lint.py`."""

import difflib
from argparse import ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from scrapy.settings import Settings

from scrapy_robots_rfc.commands.common import (
    BAD,
    DOUBT,
    IF_URL,
    NO_ANSWER,
    STRONG,
    Console,
    Failed,
    FoundRobots,
    Topic,
    found_about,
    is_url,
    origin_of,
    prepared,
    read,
)
from scrapy_robots_rfc.core.explanation import Flag
from scrapy_robots_rfc.core.lint import lint
from scrapy_robots_rfc.core.lint_codes import ADVICE, TEXTS, Code, Severity
from scrapy_robots_rfc.core.lint_findings import Finding
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import pluralize, printable
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin

#: Exit code and colour for each severity. The command exits with the highest code, unless a file
#: can't be read.
_SEVERITIES = {
    Severity.NOTICE: (0, STRONG),
    Severity.WARNING: (1, DOUBT),
    Severity.ERROR: (3, BAD),
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
    our_settings = prepared(settings)
    schemes = our_settings.schemes
    sources = dict.fromkeys(
        origin_of(source, schemes) if is_url(source, schemes) else source for source in opts.sources
    )
    fetched = _fetched([each for each in sources if isinstance(each, Origin)], settings)
    wanted = {*(TEXTS if opts.select is None else opts.select)}.difference(opts.ignore)
    totals: list[Counter[Severity]] = []
    codes = [0]
    for source in sources:
        try:
            name, file, missing = _read(source, fetched, console, our_settings.max_size)
        except Failed as error:
            console.complain(str(error))
            codes.append(NO_ANSWER)
            continue
        findings = [finding for finding in lint(file) if finding.code in wanted]
        for finding in findings:
            _show(name, finding, console, opts.format)
        codes += (_SEVERITIES[finding.severity][0] for finding in findings)
        total = Counter(finding.severity for finding in findings)
        if not missing:
            totals.append(total)
        if opts.format == "text":
            console.print(printable(f"{name}: {missing or _counted(total)}"))
        elif missing:
            console.complain(f"{name}: {missing}")
    failed = codes.count(NO_ANSWER)
    if opts.format == "text" and len(sources) > 1:
        text = f"{pluralize(len(totals), 'file')}: {_counted(sum(totals, Counter()))}"
        without = len(sources) - len(totals) - failed
        text += f"; {pluralize(without, 'site')} without robots.txt" * bool(without)
        console.print(text + f"; {failed} could not be read" * bool(failed))
    return NO_ANSWER if failed else max(codes)


def _fetched(origins: Iterable[Origin], settings: Settings) -> Mapping[Origin, FoundRobots]:
    """Fetch all origins' files in a single crawl."""
    if not origins:
        return {}
    settings.setdict(_FROM_ITS_SITE, "cmdline")
    return found_about(settings, origins)


def _read(
    source: Origin | str, fetched: Mapping[Origin, FoundRobots], console: Console, max_size: int
) -> tuple[str, RobotsTxt, str]:
    """Return a file's name, the file itself, and a note if the site has no robots.txt.

    :raises Failed: if the file is unreachable or cannot be read.
    """
    if not isinstance(source, Origin):
        body = read(source, console, max_size, IF_URL)
        return source, RobotsTxt.parse(body, max_size=max_size), ""
    found = fetched[source]
    if found.policy.outcome is Outcome.UNAVAILABLE:
        return (
            found.source,
            found.file,
            f"no robots.txt ({found.policy.cause}), so everything is allowed",
        )
    if found.policy.robots is None:
        raise Failed(found.problem)
    return found.source, found.file, ""


def _codes(value: str) -> frozenset[Flag | Code]:
    """Parse the value of `--select` or `--ignore`."""
    codes = {code.value: code for code in TEXTS}
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in codes:
            similar = difflib.get_close_matches(name, codes, n=1)
            advice = f"; did you mean {similar[0]}?" if similar else ""
            raise ArgumentTypeError(f"{name!r} is not a code of a finding{advice}")
    return frozenset(codes[name] for name in names)


def _counted(total: Counter[Severity]) -> str:
    """Return the number of findings, in total and by severity."""
    parts = [pluralize(total[each], each.value) for each in Severity if total[each]]
    counted = pluralize(total.total(), "finding")
    return f"{counted} ({', '.join(parts)})" if parts else counted


def _show(name: str, finding: Finding, console: Console, style: str) -> None:
    """Print a finding in one of the formats."""
    if style == "json":
        record = {"file": name, "severity": finding.severity.value, **asdict(finding)}
        console.print_json({**record, "meant": finding.meant or None})
    elif style == "github":
        console.print(_annotation(name, finding))
    else:
        console.print(
            f"{printable(name)}:{finding.line}:{finding.column}: {summary(finding, console)}"
        )
        console.print(f"{finding.line:>5} | {printable(finding.text)}")
        for line in marked(finding, console):
            console.print(f"{'':>5} {line}")


def summary(finding: Finding, console: Console) -> str:
    """Return a finding's severity, code and effect."""
    severity = console.paint(finding.severity.value, _SEVERITIES[finding.severity][1])
    return f"{severity} {finding.code}: {printable(finding.effect)}"


def marked(finding: Finding, console: Console) -> Iterator[str]:
    """Yield a line that marks the place of a finding, and a line with what was meant."""
    # Escaped characters are longer.
    start, end = finding.column - 1, finding.end_column - 1
    before, place = printable(finding.text[:start]), printable(finding.text[start:end])
    mark = console.paint("^" * max(1, len(place)), _SEVERITIES[finding.severity][1])
    yield f"| {' ' * len(before)}{mark}"
    for text in explained(finding)[1:]:
        yield f"= {printable(text)}"


def explained(finding: Finding) -> list[str]:
    """Return a finding's effect and what was probably meant."""
    label = "" if finding.code in ADVICE else "meant: "
    return [finding.effect, *([label + finding.meant] if finding.meant else ())]


def _annotation(name: str, finding: Finding) -> str:
    """Format a finding as a GitHub workflow command, with the site's text escaped."""
    text = printable("; ".join([finding.text, *explained(finding)])).replace("%", "%25")
    file = printable(name).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    place = f"line={finding.line},col={finding.column},endColumn={finding.end_column - 1}"
    where = f"file={file},{place},title={finding.code}"
    return f"::{finding.severity.value} {where}::{text}"


TOPIC = Topic(
    "Find mistakes in robots.txt files. Explain their effect and what was probably meant.",
    {
        "sources": {
            "metavar": "FILE|URL|-",
            "nargs": "+",
            "help": "a robots.txt file, any URL on a site, or - for standard input",
        },
        "--format": {"choices": ("text", "json", "github"), "default": "text"},
        "--select": {
            "metavar": "CODES",
            "type": _codes,
            "action": "extend",
            "help": "only these findings; may be repeated",
        },
        "--ignore": {
            "metavar": "CODES",
            "type": _codes,
            "action": "extend",
            "default": [],
            "help": "without these findings, such as unknown_key,no_rules; may be repeated",
        },
        "--json": {"dest": "format", "action": "store_const", "const": "json"},
    },
    _lint,
)
