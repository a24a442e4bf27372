"""`scrapy robots cache ACTION`: look into a store, drop copies, take them from one store to another."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack, nullcontext
from typing import IO, TYPE_CHECKING

from scrapy_robots_rfc.cache.entry import CacheEntry, head_of
from scrapy_robots_rfc.commands.cache_store import OpenStore, copy_of, open_store, record_of
from scrapy_robots_rfc.commands.common import (
    NO_ANSWER,
    STANDARD,
    Colour,
    Failed,
    Style,
    as_url,
    file_target,
    moment,
    new_file,
    opened,
    origin_of,
    shown,
    span,
    telling,
)
from scrapy_robots_rfc.core.text import many, printable
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from scrapy.settings import Settings

    from scrapy_robots_rfc.commands import Topics
    from scrapy_robots_rfc.commands.common import Console

_HEAD = ("result", "last fetch", "age", "fresh for", "octets", "origin")
_NARROWEST = (11, 10, 7, 9, 9)
_MEASURED = 1000  # rows; columns are as wide as these need, so that the others can be printed as they are read
_INDENT = 18  # where the facts begin
_WIDEST_CAUSE = 24  # longer ones are cut short, so that the columns stay under each other

#: Seconds that the clock of another machine may be ahead: it may use its own time zone as UTC.
_AHEAD = 86_400.0
_EXPORT = ("an export", "copies.jsonl", "the store itself")
_IMPORT_ADVICE = "name a file that export wrote, or - for standard input"

#: RFC 9309, 2.2: nothing else ends a line of a robots.txt.
_LINE_END = re.compile(r"\r\n?")

#: What follows from a result, in a few words.
_MEANING = {
    "successful": "the rules of the file below are obeyed",
    "stale": "the file below is obeyed, although it could not be fetched again",
    "unavailable": "there is no file, everything may be fetched",
    "unreachable": "nobody knows the rules, nothing may be fetched",
}
#: The colours of the results.
_COLOURS = {
    "successful": Colour.GOOD,
    "stale": Colour.DOUBT,
    "unavailable": Colour.GOOD,
    "unreachable": Colour.BAD,
    "unreadable": Colour.BAD,
}


def add_to(topics: Topics) -> Iterator[argparse.ArgumentParser]:
    """Add the topic to a command line, and yield the parser of each of its actions; `act` is what it does."""
    text = "Look into the store of robots.txt files, drop what stands there, take it from one store to another."
    topic = topics.add_parser("cache", help=text, description=text)
    topic.set_defaults(work=cache)
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
        if act in (export_copies, import_copies):
            what = "default: -, standard input or output"
            action.add_argument("file", metavar="FILE", nargs="?", default=STANDARD, help=what)
        what = "the store, as ROBOTSTXT_CACHE names it (default: the project's)"
        action.add_argument("--store", metavar="ADDRESS", help=what)
        yield action


def cache(settings: Settings, console: Console, options: argparse.Namespace) -> int:
    """Do what is asked for with the store, and return the exit code."""
    with ExitStack() as stack:
        imports = options.act is import_copies
        if imports:  # opened first: where there is nothing to import, no store is to be made for it
            options.source = stack.enter_context(opened(options.file, console, _IMPORT_ADVICE))
        store = stack.enter_context(open_store(settings, options.store, may_be_made=imports))
        code: int = options.act(store, console, options)
        return code


def _key(url: str) -> str:
    return str(origin_of(as_url(url)))


# ls


def ls(store: OpenStore, console: Console, options: argparse.Namespace) -> int:
    """Print a line for each origin."""
    fresh, count = 0, 0
    table = _Table(console)
    for key in store.origins():
        found = store.copy(key)
        if found is None:  # gone meanwhile
            continue
        count += 1
        fresh += store.is_fresh(found)
        if options.json and isinstance(found, ValueError):
            console.say_json({"origin": shown(key), "error": str(found)})
        elif options.json and isinstance(found, CacheEntry):
            octets = {} if found.body is None else {"octets": len(found.body)}
            console.say_json({"origin": shown(key), **head_of(found), **octets})
        else:
            table.add(_row(shown(key), found, store.now))
    if not options.json:
        table.print()
        console.say(f"{many(count, 'origin')} in {store.name}, {fresh:,} of them fresh")
    return 0


def _row(key: str, found: CacheEntry | ValueError, now: float) -> tuple[str, ...]:
    if isinstance(found, ValueError):
        return ("unreadable", "", "", "", "", f"{key} ({found})")
    cause = _shortened(printable(found.cause), _WIDEST_CAUSE)
    fresh = span(found.validity.fresh_until - now) if found.validity.fresh_until > now else "no"
    size = "" if found.body is None else f"{len(found.body):,}"
    return (_result(found), cause, span(now - found.fetched), fresh, size, key)


def _shortened(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 3]}..."


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
        told = (number.rjust(width) for number, width in zip(numbers, others, strict=True))
        return "  ".join((result.ljust(first), _shortened(cause, second).ljust(second), *told, origin))


# show


def show(store: OpenStore, console: Console, options: argparse.Namespace) -> int:
    """Print all that is known of one origin, and its file."""
    key = _key(options.url)
    found = store.copy(key)
    if found is None:
        raise Failed(f"{key} is not in {store.name}")
    if isinstance(found, ValueError):
        raise Failed(f"{key} cannot be read: {found}")
    if options.json:
        console.say_json(record_of(key, found))
        return 0
    style = Style.of(console.stdout)
    for name, text in _facts(key, found, store.now):
        console.say_all(style.fact(name, text, _INDENT, lead=""))
    if found.body is not None:
        console.say()
        text = found.body.decode("utf-8", "backslashreplace")
        for line in _LINE_END.sub("\n", text).removesuffix("\n").split("\n"):
            console.say(style.cut(printable(line.expandtabs(4))))
    return 0


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


# purge


def purge(store: OpenStore, console: Console, options: argparse.Namespace) -> int:
    """Drop copies, and say how many."""
    named = list(dict.fromkeys(map(_key, options.urls)))
    if [bool(named), options.expired, options.all].count(True) != 1:
        raise Failed("name the URLs of origins, or say --expired, or --all", NO_ANSWER)
    dropped = 0
    for key in named or store.origins():
        if options.expired and store.is_fresh(store.copy(key)):
            continue
        there = store.drop(key)
        dropped += there
        if named and not there:
            console.complain(f"{key} is not in {store.name}")
    console.say(f"{many(dropped, 'origin')} dropped from {store.name}")
    return 1 if dropped < len(named) else 0


# export and import: a copy is a line of JSON


def export_copies(store: OpenStore, console: Console, options: argparse.Namespace) -> int:
    """Write all copies that can be read; the others are named on stderr."""
    count = left = 0
    target: AbstractContextManager[IO[bytes]] = nullcontext(console.stdout.buffer)
    if options.file != STANDARD:
        target = new_file(file_target(options.file, _EXPORT, store.files))
    with target as file:
        for key in store.origins():
            found = store.copy(key)
            if found is None:  # gone meanwhile
                continue
            if Origin.written(key) is None:  # nobody would read it again
                left += 1
                console.complain(f"{shown(key)} is no origin: left out")
            elif isinstance(found, ValueError):
                left += 1
                console.complain(f"{key} cannot be read: {found}")
            else:
                count += 1
                file.write(json.dumps(record_of(key, found)).encode("ascii") + b"\n")
    if options.file != STANDARD:
        console.say(f"{count:,} exported from {store.name}")
    return 1 if left else 0


def import_copies(store: OpenStore, console: Console, options: argparse.Namespace) -> int:
    """Put copies into a store: of two of one origin, that of the later fetch stays. Broken lines are told on stderr."""
    imported = kept = old = wrong = 0
    with telling(options.file, _IMPORT_ADVICE):
        for number, line in enumerate(options.source, 1):
            if not line.strip():
                continue
            try:
                key, copy = _read(line, store.now)
            except ValueError as error:
                wrong += 1
                console.complain(f"line {number}: {error}")
                continue
            there = store.copy(key)
            if isinstance(there, CacheEntry) and there.fetched >= copy.fetched:
                kept += 1
            elif store.put(key, copy):
                imported += 1
            else:
                old += 1
    console.say(f"{imported:,} imported into {store.name}, {kept:,} there already, {old:,} too old, {wrong:,} wrong")
    return 1 if wrong else 0


def _read(line: bytes, now: float) -> tuple[str, CacheEntry]:
    """Return the origin and the copy of a line.

    :raises ValueError: it holds none, or one with a time far in the future, whose place no fetch would take until then.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    key, copy = copy_of(record)
    for name in ("fetched", "confirmed", "unreachable_since"):
        time = copy.fetched if name == "fetched" else getattr(copy.validity, name)
        if time is not None and time > now + _AHEAD:
            raise ValueError(f"{name} lies more than a day in the future")
    return key, copy


_ACTIONS = (
    ("ls", "List the origins, by name.", ls),
    ("show", "Show the copy that the pages of a URL's origin fall under.", show),
    ("purge", "Drop copies, so that the next crawl fetches them anew.", purge),
    ("export", "Write all copies, as lines of JSON.", export_copies),
    ("import", "Read what export wrote; of two copies, that of the later fetch stays.", import_copies),
)
