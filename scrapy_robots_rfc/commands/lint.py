"""`scrapy robots lint FILE|URL|-`: findings of a robots.txt, for people, for programs, and as annotations on GitHub.

The findings are made in `core/lint.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands.asking import given_files, prepared
from scrapy_robots_rfc.commands.common import Colour, Style, stripped
from scrapy_robots_rfc.core.findings import Severity
from scrapy_robots_rfc.core.lint import lint
from scrapy_robots_rfc.core.text import many, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from scrapy.settings import Settings

    from scrapy_robots_rfc.commands.common import Console
    from scrapy_robots_rfc.core.findings import Finding

HELP = "Say what is odd about a robots.txt: what a crawler makes of it, and what was probably meant."
#: The exit code of the worst finding; 2 is left for what could not be read.
EXIT = {Severity.NOTICE: 0, Severity.WARNING: 1, Severity.ERROR: 3}

_INDENT = 4
_COLOURS = {Severity.ERROR: Colour.BAD, Severity.WARNING: Colour.DOUBT, Severity.NOTICE: Colour.STRONG}


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    what = "a file; a URL, of the file itself or of a site; or -, standard input"
    topic.add_argument("source", metavar="FILE|URL|-", help=what)
    topic.add_argument("--format", choices=tuple(_FORMATS), default="text", help="default: text, for people")
    topic.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")


def run(settings: Settings, console: Console, options: argparse.Namespace) -> int:
    """Print the findings of a file; return the exit code."""
    prepared(settings, options)
    (given,) = given_files(settings, [options.source], console)
    found = lint(given.file)
    _FORMATS[options.format](stripped(given.source), found, console)
    return max((EXIT[finding.severity] for finding in found), default=0)


# The formats.


def _text(name: str, found: Sequence[Finding], console: Console) -> None:
    style = Style.of(console.stdout)
    for finding in found:
        place, word = printable(f"{name}:{finding.line}: "), finding.severity.value
        rest = f" {finding.code.value}: {printable(finding.text)}".rstrip(": ")
        rest = style.cut(rest, len(place) + len(word))
        console.say(f"{place}{style.paint(word, _COLOURS[finding.severity])}{rest}")
        for told in (finding.effect, finding.meant and f"meant: {finding.meant}"):
            if told:
                console.say_all(style.wrapped(told, _INDENT, " " * _INDENT))
    counts = [(sum(finding.severity is severity for finding in found), severity.value) for severity in Severity]
    summary = ", ".join(many(count, word) for count, word in counts if count)
    console.say(printable(f"{name}: {summary or 'nothing found'}"))


def _json(name: str, found: Sequence[Finding], console: Console) -> None:
    for finding in found:
        record = {
            "file": name,
            "line": finding.line,
            "severity": finding.severity.value,
            "code": finding.code.value,
            "text": finding.text,
            "effect": finding.effect,
            "meant": finding.meant or None,
        }
        console.say_json(record)


def _github(name: str, found: Sequence[Finding], console: Console) -> None:
    def escaped(text: str) -> str:
        """As GitHub's workflow commands want it; a text that a site wrote must not end the command."""
        return printable(text).replace("%", "%25")

    file = escaped(name).replace(":", "%3A").replace(",", "%2C")
    for finding in found:
        told = [finding.text, finding.effect, *([f"meant: {finding.meant}"] if finding.meant else [])]
        place = f"file={file},line={finding.line},title={finding.code.value}"
        console.say(f"::{finding.severity.value} {place}::{escaped('; '.join(told))}")


_FORMATS: dict[str, Callable[[str, Sequence[Finding], Console], None]] = {
    "text": _text,
    "json": _json,
    "github": _github,
}
