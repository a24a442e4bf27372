"""`scrapy robots report FILE...`: what the reports that ROBOTSTXT_REPORT wrote add up to, as text, JSON, or a page.

In here: the command line, and what is said of files that are not whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.commands.report_files import ReportFile
from scrapy_robots_rfc.commands.report_page import page
from scrapy_robots_rfc.commands.report_sums import Sums, record_of
from scrapy_robots_rfc.commands.report_text import lines_of
from scrapy_robots_rfc.commands.sources import STANDARD, once
from scrapy_robots_rfc.commands.target import Kind, target_of, written
from scrapy_robots_rfc.commands.terminal import Style
from scrapy_robots_rfc.core.text import many

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_robots_rfc.commands import Topics
    from scrapy_robots_rfc.commands.output import Console

#: How many of each kind are listed: a screenful for people, and for programs and the page what a browser sorts at once.
TOP, TOP_OF_PAGE = 10, 1000

_PAGE = Kind("a page", "report.html", "one of the reports")


def add_to(topics: Topics) -> Iterator[argparse.ArgumentParser]:
    """Add the topic to a command line, and yield its parser; `work` is what it does."""
    text = "Sum up reports of disallowed requests, as ROBOTSTXT_REPORT writes them: by reason, origin and rule."
    topic = topics.add_parser("report", help=text, description=text)
    topic.set_defaults(work=report)
    what = "jsonlines, json or csv, as it is or packed with gzip, bz2 or xz; or -, standard input"
    topic.add_argument("files", metavar="FILE", nargs="+", help=what)
    top = f"how many origins, rules and so on are listed (default: {TOP}; {TOP_OF_PAGE:,} as JSON and in the page)"
    topic.add_argument("--top", metavar="N", type=_positive, help=top)
    topic.add_argument("--json", action="store_true", help="one object, in one line")
    topic.add_argument("--html", metavar="FILE", help="write a page with tables and plots, too")
    yield topic


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_positive.__name__ = "number from 1 on"  # how argparse calls what it refuses


def report(_: object, console: Console, options: argparse.Namespace) -> int:
    """Print what the files add up to; the exit code is 0."""
    if options.files.count(STANDARD) > 1:
        raise Failed("standard input can be one of the files only once", 2)
    reports = [Path(name) for name in options.files if name != STANDARD]
    target = None if options.html is None else target_of(options.html, _PAGE, reports)
    sums, files = Sums(), [ReportFile(name) for name in once(options.files, console)]
    for file in files:
        for record in file.records(console):
            sums.add(record)
        _complain(file, console)
    if target is not None:
        text = page(sums, files, options.top or TOP_OF_PAGE)
        with written(target) as place:
            place.write(text.encode("utf-8", "backslashreplace"))
    if options.json:
        console.say_json(record_of(sums, files, options.top or TOP_OF_PAGE))
    else:
        for line in lines_of(sums, files, options.top or TOP, Style.of(console.stdout)):
            console.say(line)
    return 0


def _complain(file: ReportFile, console: Console) -> None:
    """Say in one line what of a file could not be read."""
    reading, told = file.reading, []
    if reading.broken:
        where = f"the first at line {reading.first}, " if reading.first else ""
        told.append(f"{many(reading.broken, 'broken record')} left out ({where}{reading.because})")
    if reading.breaks_off:
        told.append("it breaks off before its end")
    if reading.others:
        told.append(f"{many(reading.others, 'record')} of another kind left out")
    if told:
        console.complain(f"{file.name}: {'; '.join(told)}; all else is summed up")
