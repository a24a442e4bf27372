"""`scrapy robots cache ACTION`: look into a store of robots.txt files, and drop copies.

The store is asked on this thread. Which values of a copy are valid is in `cache/entry.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from scrapy_robots_rfc.cache.entry import CacheEntry, decode, head_of
from scrapy_robots_rfc.cache.stores.base import Store
from scrapy_robots_rfc.cache.stores.opening import errors_of, sqlite_path, store_of
from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.common import (
    BAD,
    DOUBT,
    GOOD,
    STRONG,
    Console,
    Failed,
    span,
    stripped,
)
from scrapy_robots_rfc.core.text import error_text, many, printable, utc_text
from scrapy_robots_rfc.errors import RobotsError, StoreError
from scrapy_robots_rfc.policy.schemes import Scheme
from scrapy_robots_rfc.settings import CACHE, read_settings

T = TypeVar("T")

HELP = "Look into the store of robots.txt files, and drop what stands there."

#: The columns of `ls` behind the result; a cause that has no room is cut short.
_ROW = "  {:20.20}  {:>7}  {:>9}  {:>10}  {}"
_COLOURS = {
    "successful": GOOD,
    "stale": DOUBT,
    "unavailable": GOOD,
    "unreachable": BAD,
    "unreadable": BAD,
}
#: The times in the record of a copy, and the columns that the names of its values have.
_TIMES, _NAMES = frozenset({"fetched", "fresh_until", "confirmed", "unreachable_since"}), 17


def add_arguments(topic: argparse.ArgumentParser) -> Collection[argparse.ArgumentParser]:
    """Add what a command line of this topic may have; return the parsers of its actions."""
    actions = topic.add_subparsers(title="Actions", metavar="ACTION", required=True)
    for act, text in _ACTIONS.items():
        action = actions.add_parser(act.__name__, help=text, description=text)
        action.set_defaults(act=act)
        what = "the store, as ROBOTS_CACHE names it (default: the project's)"
        action.add_argument("--store", metavar="ADDRESS", help=what)
        if act is purge:
            action.add_argument("urls", metavar="URL", nargs="*", help="of any page of an origin")
            action.add_argument("--all", action="store_true", help="all")
            continue
        if act is show:
            action.add_argument("url", metavar="URL", help=f"of any page, {common.URL_HELP}")
        action.add_argument(
            "--json", action="store_true", help="an object in one line for each origin"
        )
    return actions.choices.values()


def run(settings: Settings, console: Console, opts: argparse.Namespace) -> int:
    """Do what is asked for with the store, and return the exit code."""
    with _open_store(settings, opts.store) as store:
        return int(opts.act(store, console, opts))


@dataclass(frozen=True, slots=True)
class _OpenStore:
    """A store, and what a command has to know beside it.

    :param name: the store, for people: its address without credentials.
    :param schemes: of URLs that have an origin.
    :param now: seconds since 1970.
    """

    store: Store
    name: str
    schemes: Mapping[str, Scheme]
    now: float

    def key(self, url: str) -> str:
        """Return the key of a URL that somebody typed."""
        return str(common.origin_of(common.as_url(url), self.schemes))

    def keys(self) -> list[str]:
        """Return all keys, in order; other programs may have written some that are no origins."""
        return self.ask(lambda: sorted(self.store.keys()))

    def copy(self, key: str) -> CacheEntry | ValueError | None:
        """Return the copy of a key, or why it cannot be read; ``None``: there is nothing."""
        value = self.ask(self.store.get, key)
        try:
            return None if value is None else decode(value)
        except ValueError as error:
            return error

    def is_fresh(self, found: CacheEntry | ValueError | None) -> bool:
        """Whether that is a copy, and a fresh one."""
        return isinstance(found, CacheEntry) and found.validity.fresh_until > self.now

    def ask(self, call: Callable[..., T], *arguments: object) -> T:
        """Call a method of the store.

        :raises StoreError: it fails.
        """
        try:
            return call(*arguments)
        except Exception as error:
            raise StoreError(f"it failed ({error_text(error)})") from error


@contextmanager
def _open_store(settings: Settings, address: str | None) -> Iterator[_OpenStore]:
    """Open the store of an address, or else that of the project, and close it at the end.

    :raises StoreError: it cannot be opened, or fails, here or where it is used.
    """
    ours = read_settings(settings)
    spec = address or ours.cache
    key = "--store" if address else CACHE
    with errors_of(spec, key):
        path = sqlite_path(spec) if isinstance(spec, str) else None
        if path is not None and _is_missing(Path(path)):
            raise StoreError(f"{path} is not there, or empty")
        try:
            made = store_of(spec, Crawler(Spider, settings), key)
            if made is not None:
                made[0].open()
        except RobotsError:
            raise
        except Exception as error:
            raise StoreError(f"it cannot be opened ({error_text(error)})") from error
        if made is None:
            raise Failed(
                "there is no store, only memory:; name one with --store ADDRESS, or in ROBOTS_CACHE"
            )
        store, name = made
        with closing(store):
            yield _OpenStore(store, name, ours.schemes, time.time())


def _is_missing(path: Path) -> bool:
    """Whether a store would make a database there, as its path is probably mistyped."""
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def ls(store: _OpenStore, console: Console, opts: argparse.Namespace) -> int:
    """Print a line for each origin."""
    if not opts.json:
        head = _ROW.format("last fetch", "age", "fresh for", "octets", "origin")
        console.say(console.paint(f"{'result':11}{head}", STRONG))
    count = 0
    fresh = 0
    for key in store.keys():  # noqa: SIM118 - no dict
        found = store.copy(key)
        if found is None:  # it is gone meanwhile
            continue
        count += 1
        fresh += store.is_fresh(found)
        name = printable(stripped(key))
        if opts.json:
            console.say_json(_record(name, found))
        else:
            result = _result(found)
            console.say(console.paint(f"{result:11}", _COLOURS[result]) + _row(name, found, store))
    if not opts.json:
        console.say(f"{many(count, 'origin')} in {store.name}, {fresh:,} of them fresh")
    return 0


def show(store: _OpenStore, console: Console, opts: argparse.Namespace) -> int:
    """Print all that is known of one origin, and its file."""
    key = store.key(opts.url)
    found = store.copy(key)
    if not isinstance(found, CacheEntry):
        raise Failed(
            f"{key} is not in {store.name}" if found is None else f"{key} cannot be read: {found}",
            1,
        )
    if opts.json:
        record = {"origin": key, **head_of(found)}
        if found.body is not None:
            record["file"] = found.body.decode("utf-8", "backslashreplace")
        console.say_json(record)
        return 0
    validity = found.validity
    console.fact(
        "result", common.meaning(validity.outcome, found.cause, stale=validity.stale), _NAMES
    )
    for name, value in _record(key, found).items():
        text = _moment(value, store.now) if name in _TIMES else str(value)
        console.fact(name.replace("_", " "), text, _NAMES)
    if found.body is not None:
        console.say()
        for line in found.body.splitlines():
            console.say(printable(line.decode("utf-8", "backslashreplace").expandtabs(4)))
    return 0


def _record(key: str, found: CacheEntry | ValueError) -> dict[str, Any]:
    """Return all of a copy but its file, as an object of JSON."""
    if isinstance(found, ValueError):
        return {"origin": key, "error": str(found)}
    octets = {} if found.body is None else {"octets": len(found.body)}
    return {"origin": key, **head_of(found), **octets}


def _result(found: CacheEntry | ValueError) -> str:
    if isinstance(found, ValueError):
        return "unreadable"
    return "stale" if found.validity.stale else found.validity.outcome.value


def _row(name: str, found: CacheEntry | ValueError, store: _OpenStore) -> str:
    if isinstance(found, ValueError):
        return _ROW.format("", "", "", "", f"{name} ({found})")
    age = span(store.now - found.fetched)
    fresh = span(found.validity.fresh_until - store.now) if store.is_fresh(found) else "no"
    size = "" if found.body is None else f"{len(found.body):,}"
    return _ROW.format(printable(found.cause), age, fresh, size, name)


def _moment(time: float, now: float) -> str:
    """Return a time for people, and how long ago that was, or when it will be."""
    distance = f"{span(now - time)} ago" if time <= now else f"in {span(time - now)}"
    return f"{utc_text(max(time, 0.0))} ({distance})"


def purge(store: _OpenStore, console: Console, opts: argparse.Namespace) -> int:
    """Drop copies, and say how many."""
    named = list(dict.fromkeys(map(store.key, opts.urls)))
    if bool(named) == opts.all:
        raise Failed("say one of two: the URLs of origins, or --all")
    dropped = 0
    for key in named or store.keys():
        there = store.ask(store.store.delete, key)
        dropped += there
        if named and not there:
            console.complain(f"{key} is not in {store.name}")
    console.say(f"{many(dropped, 'origin')} dropped from {store.name}")
    return 1 if dropped < len(named) else 0


_ACTIONS = {
    ls: "List the origins, by name.",
    show: "Show the copy that the pages of a URL's origin fall under.",
    purge: "Drop copies, so that the next crawl fetches them anew.",
}
