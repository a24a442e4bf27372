"""`scrapy robots cache ACTION`: what stands in a store, whatever store it is.

In here: the command line, and what looks and drops: ls, show, purge. Export and import are `transfer.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.commands import transfer
from scrapy_robots_rfc.commands.addresses import origin_of, shown
from scrapy_robots_rfc.commands.output import Failed, moment, span
from scrapy_robots_rfc.commands.shelf import Shelf, readable
from scrapy_robots_rfc.commands.sources import STANDARD, as_url
from scrapy_robots_rfc.commands.terminal import Colour, Style
from scrapy_robots_rfc.core.text import many, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_robots_rfc.commands import Topics
    from scrapy_robots_rfc.commands.output import Console

_HEAD = ("result", "last fetch", "age", "fresh for", "octets", "origin")
_NARROWEST = (11, 10, 7, 9, 9)
_MEASURED = 1000  # rows; columns are as wide as these need, so that the others can be printed as they are read
_INDENT = 18  # where the facts begin
_WIDEST_CAUSE = 24  # longer ones are cut short, so that the columns stay under each other

#: RFC 9309, 2.2: nothing else ends a line of a robots.txt.
_LINE_END = re.compile(r"\r\n?")


def add_to(topics: Topics) -> Iterator[argparse.ArgumentParser]:
    """Add the topic to a command line, and yield the parser of each of its actions; `act` is what it does."""
    text = "Look into the store of robots.txt files, drop what stands there, take it from one store to another."
    topic = topics.add_parser("cache", help=text, description=text)
    actions = topic.add_subparsers(title="Actions", metavar="ACTION", required=True)
    for name, text, act in _ACTIONS:
        action = actions.add_parser(name, help=text, description=text)
        action.set_defaults(act=act)
        if act is show:
            action.add_argument("url", metavar="URL", help="of any page, http or https")
        if act in (ls, show):
            action.add_argument("--json", action="store_true", help="an object in one line for each origin")
        if act is purge:
            action.add_argument("urls", metavar="URL", nargs="*", help="of any page of an origin")
            action.add_argument("--expired", action="store_true", help="all that is not fresh, or cannot be read")
            action.add_argument("--all", action="store_true", help="all")
        if act in (transfer.export_copies, transfer.import_copies):
            action.add_argument(
                "file",
                metavar="FILE",
                nargs="?",
                default=STANDARD,
                help="default: -, standard input or output",
            )
        action.add_argument(
            "--store", metavar="ADDRESS", help="the store, as ROBOTSTXT_CACHE names it (default: the project's)"
        )
        yield action


# The actions: each returns the exit code.


def ls(shelf: Shelf, console: Console, options: argparse.Namespace) -> int:
    """Print a line for each origin."""
    fresh, count = 0, 0
    table = _Table(console)
    for key in shelf.origins():
        value = shelf.value(key)
        if value is None:  # gone meanwhile
            continue
        count += 1
        found = readable(value)
        fresh += isinstance(found, CacheEntry) and found.validity.fresh_until > shelf.now
        if options.json:
            console.say_json(_entry(shown(key), found))
        else:
            table.add(_row(shown(key), found, shelf.now))
    if not options.json:
        table.print()
        console.say(f"{many(count, 'origin')} in {shelf.name}, {fresh} of them fresh")
    return 0


def show(shelf: Shelf, console: Console, options: argparse.Namespace) -> int:
    """Print all that is known of one origin, and its file."""
    key = _key(options.url)
    value = shelf.value(key)
    if value is None:
        raise Failed(f"{key} is not in {shelf.name}")
    found = readable(value)
    if isinstance(found, ValueError):
        raise Failed(f"{key} cannot be read: {found}")
    if options.json:
        console.say_json(transfer.record_of(key, found))
        return 0
    style = Style.of(console.stdout)
    for name, text in _facts(key, found, shelf.now):
        for line in style.fact(name, text, _INDENT, lead=""):
            console.say(line)
    if found.body is not None:
        console.say()
        text = found.body.decode("utf-8", "backslashreplace")
        for line in _LINE_END.sub("\n", text).removesuffix("\n").split("\n"):
            console.say(style.cut(printable(line.expandtabs(4))))
    return 0


def purge(shelf: Shelf, console: Console, options: argparse.Namespace) -> int:
    """Drop copies, and say how many."""
    named = list(dict.fromkeys(map(_key, options.urls)))
    if [bool(named), options.expired, options.all].count(True) != 1:
        raise Failed("name the URLs of origins, or say --expired, or --all", 2)
    dropped = 0
    for key in named or shelf.origins():
        if options.expired and _fresh(shelf.value(key), shelf.now):
            continue
        there = shelf.drop(key)
        dropped += there
        if named and not there:
            console.complain(f"{key} is not in {shelf.name}")
    console.say(f"{many(dropped, 'origin')} dropped from {shelf.name}")
    return 1 if dropped < len(named) else 0


_ACTIONS = (
    ("ls", "List the origins, by name.", ls),
    ("show", "Show the copy that the pages of a URL's origin fall under.", show),
    ("purge", "Drop copies, so that the next crawl fetches them anew.", purge),
    ("export", "Write all copies, as lines of JSON.", transfer.export_copies),
    ("import", "Read what export wrote; of two copies, that of the later fetch stays.", transfer.import_copies),
)


# What they share.


def _key(url: str) -> str:
    return str(origin_of(as_url(url)))


def _fresh(value: bytes | None, now: float) -> bool:
    found = None if value is None else readable(value)
    return isinstance(found, CacheEntry) and found.validity.fresh_until > now


def _row(key: str, found: CacheEntry | ValueError, now: float) -> tuple[str, ...]:
    if isinstance(found, ValueError):
        return ("unreadable", "", "", "", "", f"{key} ({found})")
    cause = printable(found.cause)
    cause = cause if len(cause) <= _WIDEST_CAUSE else f"{cause[: _WIDEST_CAUSE - 3]}..."
    fresh = span(found.validity.fresh_until - now) if found.validity.fresh_until > now else "no"
    size = "" if found.body is None else f"{len(found.body):,}"
    return (_result(found), cause, span(now - found.fetched), fresh, size, key)


class _Table:
    """The rows of `ls`, in columns that stay under each other."""

    def __init__(self, console: Console) -> None:
        self._say, self._style = console.say, Style.of(console.stdout)
        self._rows: list[tuple[str, ...]] = []
        self._widths: tuple[int, ...] = ()

    def add(self, row: tuple[str, ...]) -> None:
        """Print a row, as soon as the widths are known."""
        self._rows.append(row)
        if self._widths or len(self._rows) == _MEASURED:
            self.print()

    def print(self) -> None:
        """Print the rows that are held back, the first time below the head."""
        if not self._widths:
            columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(_HEAD)
            needed = zip(_NARROWEST, columns, strict=False)  # all columns but the last
            self._widths = tuple(max(least, *map(len, cells), 0) for least, cells in needed)
            self._say(self._style.paint(self._style.cut(self._line(_HEAD)), Colour.STRONG))
        for row in self._rows:
            result = row[0]
            self._say(self._style.paint(result, _COLOURS[result]) + self._line(row).removeprefix(result))
        self._rows.clear()

    def _line(self, row: tuple[str, ...]) -> str:
        result, cause, *numbers, origin = row
        first, second, *others = self._widths
        cause = cause if len(cause) <= second else f"{cause[: second - 3]}..."
        told = (number.rjust(width) for number, width in zip(numbers, others, strict=True))
        return "  ".join((result.ljust(first), cause.ljust(second), *told, origin))


def _entry(key: str, found: CacheEntry | ValueError) -> dict[str, Any]:
    if isinstance(found, ValueError):
        return {"origin": key, "error": str(found)}
    record = transfer.record_of(key, found)
    record.pop("file", None)
    record.pop("file_base64", None)
    return record if found.body is None else {**record, "octets": len(found.body)}


def _result(copy: CacheEntry) -> str:
    return "stale" if copy.validity.stale else copy.validity.outcome.value


def _facts(key: str, copy: CacheEntry, now: float) -> Iterator[tuple[str, str]]:
    yield "origin", key
    yield "result", f"{_result(copy)}: {_MEANING[_result(copy)]}"
    yield "last fetch", f"{copy.cause}, {moment(copy.fetched, now)}"
    yield "fresh until", moment(copy.validity.fresh_until, now)
    if copy.validity.confirmed is not None:
        yield "last confirmed", moment(copy.validity.confirmed, now)
    if copy.validity.unreachable_since is not None:
        yield "unreachable since", moment(copy.validity.unreachable_since, now)
    if copy.validators is not None:
        yield "file came from", copy.validators.url
        for name, value in (("ETag", copy.validators.etag), ("Last-Modified", copy.validators.last_modified)):
            if value is not None:
                yield name, value.decode("latin-1")
    if copy.body is not None:
        yield "octets", f"{len(copy.body):,}"


#: What follows from a result, in a few words.
_MEANING = {
    "successful": "the rules of the file below are obeyed",
    "stale": "the file below is obeyed, although it could not be fetched again",
    "unavailable": "there is no file, everything may be fetched",
    "unreachable": "nobody knows the rules, nothing may be fetched",
}


#: The same at a glance.
_COLOURS = {
    "successful": Colour.GOOD,
    "stale": Colour.DOUBT,
    "unavailable": Colour.GOOD,
    "unreachable": Colour.BAD,
    "unreadable": Colour.BAD,
}
