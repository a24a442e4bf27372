"""`scrapy robots cache ACTION`: shows the copies in a store of robots.txt files, and drops them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from scrapy_robots_rfc.cache.entry import CacheEntry, decode, head_of
from scrapy_robots_rfc.cache.stores.base import Store
from scrapy_robots_rfc.cache.stores.opening import errors_of, open_store, sqlite_path
from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.common import (
    BAD,
    DOUBT,
    GOOD,
    STRONG,
    Console,
    Failed,
    argument,
    span,
)
from scrapy_robots_rfc.core.text import error_text, many, printable, utc_text
from scrapy_robots_rfc.errors import StoreError
from scrapy_robots_rfc.policy.schemes import Scheme
from scrapy_robots_rfc.settings import CACHE, read_settings

T = TypeVar("T")

HELP = (
    "Show the store of robots.txt files: ls lists the origins, show prints one, purge drops some."
)

ARGUMENTS = (
    argument("action", metavar="ACTION", choices=("ls", "show", "purge"), help="ls, show, purge"),
    argument("urls", metavar="URL", nargs="*", help=f"of any page, {common.URL_HELP}"),
    argument("--all", action="store_true", help="with purge: drop all copies"),
    argument("--store", metavar="ADDRESS", help="as in ROBOTS_CACHE (default: the project's)"),
    common.JSON,
)
#: The columns of `ls`; a cause that is too long is cut short.
_ROW = "{}  {:20.20}  {:>7}  {:>9}  {:>10}  {}"
_RESULT = 11  # columns of a result
_COLOURS = {"successful": GOOD, "unavailable": GOOD, "stale": DOUBT}  # all others are bad
#: The times in the record of a copy, and the columns of the names in it.
_TIMES, _NAMES = frozenset({"fetched", "fresh_until", "confirmed", "unreachable_since"}), 17


def run(settings: Settings, console: Console, opts: argparse.Namespace) -> int:
    """Run an action with the store, and return the exit code."""
    given = len(opts.urls)
    wanted = {"ls": given == 0, "show": given == 1, "purge": (given > 0) != opts.all}
    if not wanted[opts.action]:
        raise Failed("ls takes no URL, show takes one, and purge takes some, or --all")
    with _open_store(settings, opts.store) as store:
        return {"ls": _ls, "show": _show, "purge": _purge}[opts.action](store, console, opts)


@dataclass(frozen=True, slots=True)
class _OpenStore:
    """A store with its name for people, the schemes that have origins, and the time."""

    store: Store
    name: str
    schemes: Mapping[str, Scheme]
    now: float

    def key(self, url: str) -> str:
        """Return the key of a typed URL."""
        return str(common.origin_of(common.as_url(url), self.schemes))

    def keys(self) -> list[str]:
        """Return all keys, in order; other programs may have written some that are no origins."""
        return self.ask(lambda: sorted(self.store.keys()))

    def copy(self, key: str) -> CacheEntry | ValueError | None:
        """Return the copy of a key, or why it cannot be read; ``None``: there is none."""
        value = self.ask(self.store.get, key)
        try:
            return None if value is None else decode(value)
        except ValueError as error:
            return error

    def ask(self, call: Callable[..., T], *arguments: object) -> T:
        """Call a method of the store; an error of any class becomes a StoreError."""
        try:
            return call(*arguments)
        except Exception as error:
            raise StoreError(f"it failed ({error_text(error)})") from error


@contextmanager
def _open_store(settings: Settings, address: str | None) -> Iterator[_OpenStore]:
    """Open the store of an address, or else that of the project, and close it at the end."""
    ours = read_settings(settings)
    spec = address or ours.cache
    key = "--store" if address else CACHE
    with errors_of(spec, key):
        # A store would make a database at a path that is mistyped.
        path = sqlite_path(spec) if isinstance(spec, str) else None
        if path and (not Path(path).exists() or not Path(path).stat().st_size):
            raise StoreError(f"{path} is not there, or empty")
        made = open_store(spec, Crawler(Spider, settings), key)
        if made is None:
            advice = "name one with --store ADDRESS, or in ROBOTS_CACHE"
            raise Failed(f"there is no store, only memory:; {advice}")
        with closing(made[0]):
            yield _OpenStore(*made, ours.schemes, time.time())


def _ls(store: _OpenStore, console: Console, opts: argparse.Namespace) -> int:
    """Print a line for each origin."""
    if not opts.json:
        names = ("last fetch", "age", "fresh for", "octets", "origin")
        console.print(console.paint(_ROW.format(f"{'result':{_RESULT}}", *names), STRONG))
    count = 0
    fresh = 0
    for key in store.keys():  # noqa: SIM118 - no dict
        found = store.copy(key)
        if found is None:  # it was dropped meanwhile
            continue
        count += 1
        fresh += isinstance(found, CacheEntry) and found.validity.fresh_until > store.now
        name = printable(common.stripped(key))
        if opts.json:
            console.print_json(_record(name, found))
        else:
            _print_row(name, found, store.now, console)
    if not opts.json:
        console.print(f"{many(count, 'origin')} in {store.name}, {fresh:,} of them fresh")
    return 0


def _print_row(name: str, found: CacheEntry | ValueError, now: float, console: Console) -> None:
    if isinstance(found, ValueError):
        result = "unreadable"
        columns = ["", "", "", "", f"{name} ({found})"]
    else:
        validity = found.validity
        result = "stale" if validity.stale else validity.outcome.value
        fresh = span(validity.fresh_until - now) if validity.fresh_until > now else "no"
        octets = "" if found.body is None else f"{len(found.body):,}"
        columns = [printable(found.cause), span(now - found.fetched), fresh, octets, name]
    painted = console.paint(f"{result:{_RESULT}}", _COLOURS.get(result, BAD))
    console.print(_ROW.format(painted, *columns))


def _show(store: _OpenStore, console: Console, opts: argparse.Namespace) -> int:
    """Print all that is known of one origin, and its file."""
    key = store.key(opts.urls[0])
    found = store.copy(key)
    if found is None:
        raise Failed(f"{key} is not in {store.name}", 1)
    if isinstance(found, ValueError):
        raise Failed(f"{key} cannot be read: {found}", 1)
    body = found.body
    if opts.json:
        file = {} if body is None else {"file": body.decode("utf-8", "backslashreplace")}
        console.print_json({"origin": key, **head_of(found), **file})
        return 0
    validity = found.validity
    result = common.meaning(validity.outcome, found.cause, stale=validity.stale)
    console.fact("result", result, _NAMES)
    for name, value in _record(key, found).items():
        text = _moment(value, store.now) if name in _TIMES else str(value)
        console.fact(name.replace("_", " "), text, _NAMES)
    if body is not None:
        console.print()
        for line in body.splitlines():
            console.print(printable(line.decode("utf-8", "backslashreplace").expandtabs(4)))
    return 0


def _record(key: str, found: CacheEntry | ValueError) -> dict[str, Any]:
    """Return all of a copy except its file, as an object of JSON."""
    if isinstance(found, ValueError):
        return {"origin": key, "error": str(found)}
    octets = {} if found.body is None else {"octets": len(found.body)}
    return {"origin": key, **head_of(found), **octets}


def _moment(time: float, now: float) -> str:
    """Return a time for people, and how long ago that was, or when it will be."""
    distance = f"{span(now - time)} ago" if time <= now else f"in {span(time - now)}"
    return f"{utc_text(max(time, 0.0))} ({distance})"


def _purge(store: _OpenStore, console: Console, opts: argparse.Namespace) -> int:
    """Drop copies, and print how many."""
    named = list(dict.fromkeys(map(store.key, opts.urls)))
    dropped = 0
    for key in named or store.keys():
        is_there = store.ask(store.store.delete, key)
        dropped += is_there
        if named and not is_there:
            console.complain(f"{key} is not in {store.name}")
    console.print(f"{many(dropped, 'origin')} dropped from {store.name}")
    return 1 if dropped < len(named) else 0
