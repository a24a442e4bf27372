"""`scrapy robots report FILE...`: what the reports that ROBOTSTXT_REPORT wrote add up to, as text, JSON, or a page.

In here: the command line, what is said of files that are not whole, and the page's way to the disk.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.commands.report_files import ReportFile
from scrapy_robots_rfc.commands.report_page import page
from scrapy_robots_rfc.commands.report_sums import Sums, record_of
from scrapy_robots_rfc.commands.report_text import lines_of, many
from scrapy_robots_rfc.commands.sources import STANDARD, once
from scrapy_robots_rfc.commands.terminal import Style

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_robots_rfc.commands import Topics
    from scrapy_robots_rfc.commands.output import Console

#: How many of each kind are listed: a screenful for people, and for programs and the page what a browser sorts at once.
TOP, TOP_OF_PAGE = 10, 1000


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
    target = None if options.html is None else _target(options.html, options.files)
    sums, files = Sums(), [ReportFile(name) for name in once(options.files, console)]
    for file in files:
        for record in file.records(console):
            sums.add(record)
        _complain(file, console)
    if target is not None:
        _write(target, page(sums, files, options.top or TOP_OF_PAGE))
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


def _target(name: str, sources: list[str]) -> Path:
    """Return where the page goes: a link is followed, and neither a report nor a device is written over."""
    try:
        path = Path(name).resolve()
        taken = path.exists() and not path.is_file()
        source = any(path == Path(source).resolve() for source in sources if source != STANDARD)
    except (OSError, ValueError, RuntimeError):  # a loop of links, a NUL
        taken, source = True, False
    if taken or name == STANDARD:
        raise Failed(f"{name} cannot be written as a page; name a file for it, such as report.html", 2)
    if source:
        raise Failed(f"{name} is one of the reports; name another file for the page, such as report.html", 2)
    return path


def _write(path: Path, text: str) -> None:
    """Write a file that appears under its name when it is whole, with the permissions of any other new file."""
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with open(handle, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:  # noqa: PTH123 - a descriptor
                file.write(text)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}; name a file in a folder of yours", 2) from error
