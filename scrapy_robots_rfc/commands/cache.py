"""`scrapy robots cache ACTION`: shows the copies in a store of robots.txt files, and drops them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from scrapy_robots_rfc.cache.entry import CacheEntry, decode, head_of
from scrapy_robots_rfc.cache.stores.base import Store
from scrapy_robots_rfc.cache.stores.opening import errors_of, open_store, sqlite_path
from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.core.text import error_text, many, printable, utc_text
from scrapy_robots_rfc.errors import StoreError
from scrapy_robots_rfc.policy.origins import Scheme
from scrapy_robots_rfc.settings import CACHE, read_settings

HELP = "Show the store of robots.txt files: ls lists origins, show prints one, purge drops some."

ARGUMENTS: dict[str, Any] = {
    "action": {"metavar": "ACTION", "choices": ("ls", "show", "purge"), "help": "ls, show, purge"},
    "urls": {"metavar": "URL", "nargs": "*", "help": f"of any page, {common.URL_HELP}"},
    "--all": {"action": "store_true", "help": "with purge: drop all copies"},
    "--store": {"metavar": "ADDRESS", "help": "as in ROBOTS_CACHE (default: the project's)"},
    **common.JSON,
}
#: The columns of `ls`; a cause that is too long is cut short.
_ROW = "{:11}  {:20.20}  {:24}  {:24}  {:>10}  {}"
_TIMES = frozenset({"fetched", "fresh_until", "confirmed", "unreachable_since"})
_NAMES = 17  # columns of the names that `show` prints


def run(settings: Settings, console: common.Console, opts: argparse.Namespace) -> int:
    """Run an action with the store, and return the exit code."""
    given = len(opts.urls)
    wanted = {"ls": given == 0, "show": given == 1, "purge": (given > 0) != opts.all}
    if not wanted[opts.action]:
        raise common.Failed("ls takes no URL, show takes one, and purge takes some, or --all")
    with _open_store(settings, opts.store) as store:
        return {"ls": _ls, "show": _show, "purge": _purge}[opts.action](store, console, opts)


@dataclass(frozen=True, slots=True)
class _OpenStore:
    """A store with its name for people, and the schemes that have origins."""

    store: Store
    name: str
    schemes: Mapping[str, Scheme]

    def key(self, url: str) -> str:
        """Return the key of a typed URL."""
        return str(common.origin_of(common.as_url(url), self.schemes))

    def copy(self, key: str) -> CacheEntry | ValueError | None:
        """Return the copy of a key, or why it cannot be read; ``None``: there is none."""
        value = _ask(self.store.get, key)
        try:
            return None if value is None else decode(value)
        except ValueError as error:
            return error


def _ask(call: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - what it returns
    """Call what may be a user's own; an error of any other class becomes a StoreError."""
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
            raise common.Failed(f"there is no store, only memory:; {advice}")
        with closing(made[0]):
            yield _OpenStore(made[0], made[1], ours.schemes)


def _ls(store: _OpenStore, console: common.Console, opts: argparse.Namespace) -> int:
    """Print a line for each origin."""
    if not opts.json:
        names = ("result", "last fetch", "fetched", "fresh until", "octets", "origin")
        console.print(console.paint(_ROW.format(*names), common.STRONG))
    count = 0
    for key in _ask(lambda: sorted(store.store.keys())):
        found = store.copy(key)
        if found is None:  # it was dropped meanwhile
            continue
        count += 1
        record = _record(printable(common.stripped(key)), found)
        if opts.json:
            console.print_json(record)
        elif isinstance(found, ValueError):
            name = f"{record['origin']} ({found})"
            console.print(_ROW.format("unreadable", "", "", "", "", name))
        else:
            result = "stale" if found.validity.stale else found.validity.outcome.value
            times = [_shown(name, record[name]) for name in ("fetched", "fresh_until")]
            octets = f"{record['octets']:,}" if "octets" in record else ""
            console.print(_ROW.format(result, record["cause"], *times, octets, record["origin"]))
    if not opts.json:
        console.print(f"{many(count, 'origin')} in {store.name}")
    return 0


def _show(store: _OpenStore, console: common.Console, opts: argparse.Namespace) -> int:
    """Print all that is known of one origin, and its file."""
    key = store.key(opts.urls[0])
    found = store.copy(key)
    if found is None:
        raise common.Failed(f"{key} is not in {store.name}", 1)
    if isinstance(found, ValueError):
        raise common.Failed(f"{key} cannot be read: {found}", 1)
    record = _record(key, found)
    lines = (found.body or b"").splitlines(keepends=True)
    text = [line.decode("utf-8", "backslashreplace") for line in lines]
    if opts.json:
        console.print_json(record if found.body is None else {**record, "file": "".join(text)})
        return 0
    validity = found.validity
    result = common.meaning(validity.outcome, found.cause, stale=validity.stale)
    console.fact("result", result, _NAMES)
    for name, value in record.items():
        console.fact(name.replace("_", " "), _shown(name, value), _NAMES)
    console.print()
    for line in text:
        console.print(printable(line.rstrip("\r\n").expandtabs(4)))
    return 0


def _record(key: str, found: CacheEntry | ValueError) -> dict[str, Any]:
    """Return all of a copy except its file, as an object of JSON."""
    if isinstance(found, ValueError):
        return {"origin": key, "error": str(found)}
    octets = {} if found.body is None else {"octets": len(found.body)}
    return {"origin": key, **head_of(found), **octets}


def _shown(name: str, value: float | str) -> str:
    """Return a value of a record for people."""
    return utc_text(max(float(value), 0.0)) if name in _TIMES else str(value)


def _purge(store: _OpenStore, console: common.Console, opts: argparse.Namespace) -> int:
    """Drop copies, and print how many."""
    named = list(dict.fromkeys(map(store.key, opts.urls)))
    dropped = 0
    for key in named or _ask(lambda: list(store.store.keys())):
        is_there = _ask(store.store.delete, key)
        dropped += is_there
        if named and not is_there:
            console.complain(f"{key} is not in {store.name}")
    console.print(f"{many(dropped, 'origin')} dropped from {store.name}")
    return 1 if dropped < len(named) else 0
