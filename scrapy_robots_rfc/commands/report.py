"""`scrapy robots report FILE`.

What the report that ROBOTS_REPORT wrote adds up to, as text, JSON, or a page.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
from collections.abc import Callable
from importlib.resources import files as resources
from pathlib import Path
from string import Template
from typing import Any

from scrapy_robots_rfc.commands.common import FAINT, STANDARD, STRONG, Console, Failed, source_name
from scrapy_robots_rfc.commands.report_sums import Report, Sums
from scrapy_robots_rfc.core.text import many, printable

HELP = "Sum up a report of disallowed requests, as ROBOTS_REPORT writes it: by reason, origin and rule."
#: How many of each kind are listed: a screenful for people, and for programs and the page what a
#: browser sorts at once.
TOP, TOP_OF_PAGE = 10, 1000
#: Bars in a plot of the page, whatever the length of its tables.
BARS = 10
NO_ORIGIN = "(no origin)"


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    topic.add_argument("file", metavar="FILE", help="a report in JSON lines; or -, standard input")
    top = f"how many origins, rules and so on are listed (default: {TOP}; {TOP_OF_PAGE:,} as JSON and in the page)"
    topic.add_argument("--top", metavar="N", type=int, help=top)
    topic.add_argument("--json", action="store_true", help="one object, in one line")
    topic.add_argument("--html", metavar="FILE", help="write a page with tables and plots, too")


def run(_: object, console: Console, options: argparse.Namespace) -> int:
    """Print what the file adds up to; the exit code is 0."""
    if options.top is not None and options.top < 1:
        raise Failed("--top must be 1 or more")
    report = Report(options.file)
    sums = Sums()
    for fields in report.read(console):
        sums.add(fields)
    if report.broken:
        what = f"{many(report.broken, 'broken record')} left out (the first at line {report.first})"
        end = "; it breaks off before its end" if report.breaks_off else ""
        console.complain(f"{source_name(report.name)}: {what}{end}; all else is summed up")
    if options.html is not None:
        _write(options.html, page(sums, report, options.top or TOP_OF_PAGE), report)
    if options.json:
        console.say_json(sums.record(report, options.top or TOP_OF_PAGE))
    else:
        show(sums, report, options.top or TOP, console)
    return 0


def _write(name: str, text: str, report: Report) -> None:
    """Write a page; a link is followed.

    :raises Failed: there is a device, a pipe, a folder or the report, which stays as it is; or it
        cannot be written.
    """
    path = Path(os.path.realpath(name))  # under that of a pipe of this process there is nothing
    is_there = Path(name).exists()
    is_read = path.exists() and report.name != STANDARD and path.samefile(report.name)
    if name == STANDARD or is_read or (is_there and not path.is_file()):
        raise Failed(
            f"{name} cannot be written over, since it is no file, or one that is read; name another file"
        )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        advice = "name a file in a folder of yours, where there is room"
        raise Failed(f"{path} cannot be written: {error.strerror}; {advice}") from error


def show(sums: Sums, report: Report, top: int, console: Console) -> None:
    """Print the sums for people.

    :param top: how many of each kind are listed.
    """
    record = sums.record(report, top)
    requests = record["requests"]
    total = f"{many(requests, 'request')} disallowed" if requests else "no request was disallowed"
    console.say(console.paint(total, STRONG))
    console.fact("file", f"{source_name(report.name)} ({many(report.records, 'record')})")
    for name, text in _FACTS.items():
        if record[name]:
            console.fact(name.replace("_", " "), text.format(record[name]))
    for kind, (title, name_of) in _TABLES.items():
        rows = record[kind]
        more = record["more"][kind]
        if rows:
            console.say()
            console.say(
                console.paint(f"{title} ({top:,} of {top + more:,})" if more else title, STRONG)
            )
        for row in rows:
            part = row["requests"] / requests if "share" in row else 0
            share = f"{'<0.1%' if part < 0.0005 else f'{part:.1%}':>7}" if part else ""
            console.say(
                f"  {row['requests']:>9,}{console.paint(share, FAINT)}  {printable(name_of(row))}"
            )


def _rule_text(row: dict[str, Any]) -> str:
    line = "" if row["line"] is None else f" line {row['line']}"
    token = "" if row["token"] is None else f" (for {row['token']})"
    return f"{row['origin'] or NO_ORIGIN}{line}: {row['rule']}{token}"


#: What is said of all of it, unless it is 0 or nothing.
_FACTS = {
    "from": "{}",
    "to": "{}",
    "dry_run": "{:,} of them were let through all the same",
    "stale": "{:,} were decided by an earlier copy, because its refresh failed",
}
#: The lists of the sums that are shown as tables, each with its title, and how a row of it is
#: called.
_TABLES: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "by_reason": ("by reason", lambda row: row["reason"]),
    "by_spider": ("by spider", lambda row: row["spider"] or "(no name)"),
    "by_origin": ("by origin", lambda row: row["origin"] or NO_ORIGIN),
    "by_rule": ("by rule", _rule_text),
    "unreachable": (
        "robots.txt unreachable",
        lambda row: f"{row['why']}, of {many(row['origins'], 'origin')}",
    ),
    "exempt": ("not asked, by entry of ROBOTS_EXEMPT", lambda row: row["entry"]),
}


def page(sums: Sums, report: Report, top: int) -> str:
    """Return the page: a template with a script that draws the numbers embedded in it, and needs no network.

    :param top: how many rows a table has at most.
    """
    data = sums.record(report, max(top, BARS))
    data |= {"top": top, "bars": BARS, "totals": sums.totals, "title": source_name(report.name)}
    folder = resources("scrapy_robots_rfc.commands")
    style, script, template = (
        (folder / f"report_page.{suffix}").read_text(encoding="utf-8")
        for suffix in ("css", "js", "html")
    )
    return Template(template).substitute(
        style=style,
        script=script,
        style_hash=_digest(style),
        script_hash=_digest(script),
        data=json.dumps(data).replace(
            "<", "\\u003c"
        ),  # so that `</script>` and `<!--` in a text have no effect
    )


def _digest(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
