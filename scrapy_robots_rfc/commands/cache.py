"""`scrapy robots cache ACTION`: look into a store, drop copies, take them from one store to another.

The store is asked on this thread. As JSON a copy is an object; which values are valid is in `cache/entry.py`.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from scrapy_robots_rfc import settings as ours
from scrapy_robots_rfc.cache.entry import CacheEntry, decode, encode, entry_of, head_of
from scrapy_robots_rfc.cache.stores.base import Store
from scrapy_robots_rfc.cache.stores.opening import errors_of, sqlite_path, store_of
from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.common import BAD, DOUBT, GOOD, STANDARD, STRONG, Failed, span, stripped
from scrapy_robots_rfc.core.text import error_text, many, printable, utc_text
from scrapy_robots_rfc.errors import RobotsError, SettingError
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import CACHE, read_settings

T = TypeVar("T")

HELP = "Look into the store of robots.txt files, drop what stands there, take it from one store to another."

#: A line of `ls`; a cause that has no room is cut short.
_ROW = "{:11}  {:20.20}  {:>7}  {:>9}  {:>10}  {}"
#: The times in the record of a copy, and the columns that the names of its values have.
_TIMES, _NAMES = frozenset({"fetched", "fresh_until", "confirmed", "unreachable_since"}), 17

#: How an SQLite file begins; an empty one is a database without tables, which opening it would write.
_SQLITE = b"SQLite format 3\0"

#: Results with their colours, and what follows from each, in a few words.
_RESULTS = {
    "successful": (GOOD, "the rules of the file below are obeyed"),
    "stale": (DOUBT, "the file below is obeyed, although it could not be fetched again"),
    "unavailable": (GOOD, "there is no file, everything is allowed"),
    "unreachable": (BAD, "nobody knows the rules, nothing is allowed"),
    "unreadable": (BAD, ""),
}


def add_arguments(topic: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Add what a command line of this topic may have; return the parsers of its actions."""
    actions = topic.add_subparsers(title="Actions", metavar="ACTION", required=True)
    added = {act: actions.add_parser(name, help=text, description=text) for name, text, act in _ACTIONS}
    added[show].add_argument("url", metavar="URL", help=f"of any page, {common.URL_HELP}")
    for act in (ls, show):
        added[act].add_argument("--json", action="store_true", help="an object in one line for each origin")
    added[purge].add_argument("urls", metavar="URL", nargs="*", help="of any page of an origin")
    added[purge].add_argument("--expired", action="store_true", help="all that is not fresh, or cannot be read")
    added[purge].add_argument("--all", action="store_true", help="all")
    for act in (export_copies, import_copies):
        what = "default: -, standard input or output"
        added[act].add_argument("file", metavar="FILE", nargs="?", default=STANDARD, help=what)
    for act, action in added.items():
        what = "the store, as ROBOTS_CACHE names it (default: the project's)"
        action.add_argument("--store", metavar="ADDRESS", help=what)
        action.set_defaults(act=act)
    return list(added.values())


def run(settings: Settings, console: common.Console, opts: argparse.Namespace) -> int:
    """Do what is asked for with the store, and return the exit code."""
    imports = opts.act is import_copies
    # Opened first: where there is nothing to import, no store is to be made for it.
    source = common.opened(opts.file, console) if imports else nullcontext()
    with source as opts.source, _open_store(settings, opts.store, may_be_made=imports) as store:
        return int(opts.act(store, console, opts))


@dataclass(frozen=True, slots=True)
class _OpenStore:
    """A store, and what a command has to know beside it. An error of the store ends the command.

    :param name: the store, for people: its address without credentials.
    :param limits: of the crawl: for how long a copy is worth keeping.
    :param now: seconds since 1970.
    :param files: of a store on this disk, which no export may replace.
    """

    store: Store
    name: str
    limits: ours.Settings
    now: float
    files: tuple[Path, ...]

    def origins(self) -> list[str]:
        """Return all keys, in order; others may have written some that are no origins: see `Origin.written`."""
        return self.ask(lambda: sorted(self.store.keys()))

    def copy(self, key: str) -> CacheEntry | ValueError | None:
        """Return the copy of a key, or why it cannot be read; ``None``: there is nothing."""
        value = self.ask(self.store.get, key)
        try:
            return None if value is None else decode(value)
        except ValueError as error:
            return error

    def copies(self) -> Iterator[tuple[str, CacheEntry | ValueError]]:
        """Yield all keys in order, each with its copy, or why that cannot be read."""
        for key in self.origins():
            if (found := self.copy(key)) is not None:  # else it is gone meanwhile
                yield key, found

    def is_fresh(self, found: CacheEntry | ValueError | None) -> bool:
        """Whether that is a copy, and a fresh one."""
        return isinstance(found, CacheEntry) and found.validity.fresh_until > self.now

    def ask(self, call: Callable[..., T], *arguments: object) -> T:
        """Call a method of the store."""
        try:
            return call(*arguments)
        except Exception as error:
            raise Failed(f"the store {self.name} failed ({error_text(error)})", 1) from error


@contextmanager
def _open_store(settings: Settings, address: str | None, *, may_be_made: bool) -> Iterator[_OpenStore]:
    """Open the store of an address, or else that of the project, and close it at the end."""
    read = read_settings(settings)
    spec = address or read.cache
    path = sqlite_path(spec) if isinstance(spec, str) else None
    files = () if path is None else tuple(Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm", "-journal"))
    if files:
        _look_at(files[0], may_be_made=may_be_made)
    try:
        key = "--store" if address else CACHE
        with errors_of(spec, key):
            made = store_of(spec, Crawler(Spider, settings), key)
        if made is None:
            what = "there is no store, only memory:, which keeps nothing beyond a crawl"
            raise Failed(f"{what}; name one with --store ADDRESS, or in ROBOTS_CACHE")
        with errors_of(spec, key):
            made[0].open()
    except (Failed, SettingError):
        raise
    except Exception as error:
        text = str(error) if isinstance(error, RobotsError) else f"the store cannot be opened ({error_text(error)})"
        raise Failed(text, 1) from error
    with closing(made[0]):
        yield _OpenStore(*made, read, time.time(), files)


def _look_at(path: Path, *, may_be_made: bool) -> None:
    """Refuse a path that is probably mistyped: a store would make a database there, or set the file aside."""
    try:
        with path.open("rb") as file:
            first = file.read(len(_SQLITE))
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        if missing and may_be_made:
            return
        raise Failed(f"{path} is not there" if missing else f"{path}: {error.strerror}", 1) from error
    if first != _SQLITE and (first or not may_be_made):
        raise Failed(f"{path} is no SQLite file" if first else f"{path} is empty", 1)


def ls(store: _OpenStore, console: common.Console, opts: argparse.Namespace) -> int:
    """Print a line for each origin."""
    if not opts.json:
        console.say(console.paint(_ROW.format("result", "last fetch", "age", "fresh for", "octets", "origin"), STRONG))
    fresh = count = 0
    for key, found in store.copies():
        fresh, count, shown = fresh + store.is_fresh(found), count + 1, printable(stripped(key))
        if opts.json:
            console.say_json(_record(shown, found))
        else:
            result, _, rest = _row(shown, found, store.now).partition(" ")
            console.say(f"{console.paint(result, _RESULTS[result][0])} {rest}")
    if not opts.json:
        console.say(f"{many(count, 'origin')} in {store.name}, {fresh:,} of them fresh")
    return 0


def show(store: _OpenStore, console: common.Console, opts: argparse.Namespace) -> int:
    """Print all that is known of one origin, and its file."""
    key = str(common.origin_of(common.as_url(opts.url), store.limits.schemes))
    found = store.copy(key)
    if not isinstance(found, CacheEntry):
        raise Failed(f"{key} is not in {store.name}" if found is None else f"{key} cannot be read: {found}", 1)
    if opts.json:
        console.say_json(copy_record(key, found))
        return 0
    console.fact("result", f"{_result(found)}: {_RESULTS[_result(found)][1]}", _NAMES)
    for name, value in _record(key, found).items():
        text = _moment(value, store.now) if name in _TIMES else str(value)
        console.fact(name.replace("_", " "), text, _NAMES)
    if found.body is not None:
        console.say()
        for line in found.body.splitlines():
            console.say(printable(line.decode("utf-8", "backslashreplace").expandtabs(4)))
    return 0


def _record(key: str, found: CacheEntry | ValueError) -> dict[str, Any]:
    """Return all of a copy but its file."""
    if isinstance(found, ValueError):
        return {"origin": key, "error": str(found)}
    octets = {} if found.body is None else {"octets": len(found.body)}
    return {"origin": key, **head_of(found), **octets}


def _row(key: str, found: CacheEntry | ValueError, now: float) -> str:
    if isinstance(found, ValueError):
        return _ROW.format("unreadable", "", "", "", "", f"{key} ({found})")
    fresh = span(found.validity.fresh_until - now) if found.validity.fresh_until > now else "no"
    size = "" if found.body is None else f"{len(found.body):,}"
    return _ROW.format(_result(found), printable(found.cause), span(now - found.fetched), fresh, size, key)


def _result(copy: CacheEntry) -> str:
    return "stale" if copy.validity.stale else copy.validity.outcome.value


def _moment(time: float, now: float) -> str:
    """Return a time for people, and how long ago that was, or when it will be."""
    distance = f"{span(now - time)} ago" if time <= now else f"in {span(time - now)}"
    return f"{utc_text(max(time, 0.0))} ({distance})"


def purge(store: _OpenStore, console: common.Console, opts: argparse.Namespace) -> int:
    """Drop copies, and say how many."""
    schemes = store.limits.schemes
    named = list(dict.fromkeys(str(common.origin_of(common.as_url(url), schemes)) for url in opts.urls))
    if [bool(named), opts.expired, opts.all].count(True) != 1:
        raise Failed("say one of three: the URLs of origins, --expired, or --all")
    dropped = 0
    for key in named or store.origins():
        if opts.expired and store.is_fresh(store.copy(key)):
            continue
        there = store.ask(store.store.delete, key)
        dropped += there
        if named and not there:
            console.complain(f"{key} is not in {store.name}")
    console.say(f"{many(dropped, 'origin')} dropped from {store.name}")
    return 1 if dropped < len(named) else 0


def export_copies(store: _OpenStore, console: common.Console, opts: argparse.Namespace) -> int:
    """Write all copies that can be read; the others are named on stderr."""
    count = total = 0
    named = opts.file != STANDARD
    with common.new_file(opts.file, store.files) if named else nullcontext(console.stdout.buffer) as file:
        for key, found in store.copies():
            total += 1
            if Origin.written(key) is None:  # nobody would read it again
                console.complain(f"{stripped(key)} is no origin: left out")
            elif isinstance(found, ValueError):
                console.complain(f"{key} cannot be read: {found}")
            else:
                count += 1
                file.write(json.dumps(copy_record(key, found)).encode("ascii") + b"\n")
    if named:
        console.say(f"{count:,} exported from {store.name}")
    return 1 if count < total else 0


def import_copies(store: _OpenStore, console: common.Console, opts: argparse.Namespace) -> int:
    """Put copies into a store: of two of one origin, that of the later fetch stays. Broken lines are told on stderr."""
    imported = kept = old = wrong = 0
    for number, line in enumerate(opts.source, 1):
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
        elif (keep := copy.kept_for(store.now, store.limits)) > 1.0:  # what a copy gets that nobody wants any more
            imported += 1
            store.ask(store.store.put, key, encode(copy), keep)
        else:
            old += 1
    console.say(f"{imported:,} imported into {store.name}, {kept:,} there already, {old:,} too old, {wrong:,} wrong")
    return 1 if wrong else 0


def copy_record(key: str, copy: CacheEntry) -> dict[str, Any]:
    """Return a copy as a JSON object holds it.

    :param key: its origin, in a store.
    :returns: ``origin``, the head of the copy, and ``file``, or ``file_base64`` where the file is not UTF-8.
    """
    record = {"origin": key, **head_of(copy)}
    if copy.body is not None:
        try:
            record["file"] = copy.body.decode("utf-8")
        except UnicodeDecodeError:
            record["file_base64"] = base64.b64encode(copy.body).decode("ascii")
    return record


def _read(line: bytes, now: float) -> tuple[str, CacheEntry]:
    """Return the origin and the copy of a line that `copy_record` made.

    :raises ValueError: it holds none, or one with a time far in the future, whose place no fetch would take until then.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    key, text, encoded = record.get("origin"), record.get("file"), record.get("file_base64")
    if not isinstance(key, str) or Origin.written(key) is None:
        raise ValueError("its origin is none: scheme://host, or scheme://host:port")
    try:
        body = None if encoded is None else base64.b64decode(encoded, validate=True)
        copy = entry_of(record, body if text is None else text.encode("utf-8"))
    except (AttributeError, TypeError, UnicodeEncodeError, binascii.Error):
        raise ValueError("its file is no text, or no base64") from None
    for name in ("fetched", "confirmed", "unreachable_since"):  # all of them are numbers, or null
        if (record.get(name) or 0) > now + 86_400.0:  # another machine may use its own time zone as UTC
            raise ValueError(f"{name} lies more than a day in the future")
    return key, copy


_ACTIONS = (
    ("ls", "List the origins, by name.", ls),
    ("show", "Show the copy that the pages of a URL's origin fall under.", show),
    ("purge", "Drop copies, so that the next crawl fetches them anew.", purge),
    ("export", "Write all copies, as lines of JSON.", export_copies),
    ("import", "Read what export wrote; of two copies, that of the later fetch stays.", import_copies),
)
