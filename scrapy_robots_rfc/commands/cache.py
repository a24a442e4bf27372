"""`scrapy robots cache` shows or deletes the robots.txt files in a store."""

from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from scrapy_robots_rfc.cache.entry import CacheEntry, decode, metadata_of
from scrapy_robots_rfc.cache.stores.base import Store
from scrapy_robots_rfc.cache.stores.opening import explain_store_errors, open_store, sqlite_path
from scrapy_robots_rfc.commands.common import (
    JSON,
    NO_ANSWER,
    STRONG,
    URL_HELP,
    Console,
    Failed,
    Topic,
    origin_of,
    stripped,
)
from scrapy_robots_rfc.core.text import error_text, pluralize, printable, utc_text
from scrapy_robots_rfc.errors import StoreError
from scrapy_robots_rfc.settings import CACHE, read_settings

#: The columns printed by `ls`. Long causes are truncated.
_ROW = "{:11}  {:20.20}  {:24}  {:24}  {:>10}  {}"
_TIMES = frozenset({"fetched", "fresh_until", "confirmed", "unreachable_since"})
_NAMES = 17  # the width of the names that `show` prints


def _call(call: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    """Call a store method, and convert any error to StoreError. Stores may be custom classes."""
    try:
        return call(*arguments)
    except Exception as error:
        raise StoreError(f"it failed ({error_text(error)})") from error


def _copy(store: Store, key: str) -> CacheEntry | ValueError | None:
    """Return the copy for a key, an error if it can't be read, or `None` if it is missing."""
    value = _call(store.get, key)
    try:
        return None if value is None else decode(value)
    except ValueError as error:
        return error


def _cache(settings: Settings, console: Console, opts: Namespace) -> int:
    """Run an action on the store, and return the exit code."""
    count = len(opts.urls)
    is_right = {"ls": count == 0, "show": count == 1, "purge": (count > 0) != opts.all}
    if not is_right[opts.action]:
        raise Failed("ls takes no URL, show takes one, and purge takes URLs or --all")
    our_settings = read_settings(settings)
    keys = list(dict.fromkeys(str(origin_of(url, our_settings.schemes)) for url in opts.urls))
    address, option = (our_settings.cache, CACHE) if opts.store is None else (opts.store, "--store")
    with explain_store_errors(address, option):
        # If the path is mistyped, the store would create a new database there.
        path = sqlite_path(address) if isinstance(address, str) else None
        if path and not _call(lambda: Path(path).exists() and Path(path).stat().st_size):
            raise StoreError(f"{path} does not exist or is empty")
        made = open_store(address, Crawler(Spider, settings), option)
        if made is None:
            is_given = opts.store is not None
            problem = (
                f"--store {address!r} keeps no files" if is_given else "no store is configured"
            )
            raise Failed(f"{problem}; use --store ADDRESS, or set ROBOTS_CACHE")
        store, name = made
        with closing(store):
            return _ACTIONS[opts.action](store, name, keys, console, opts.json)


def _ls(store: Store, name: str, _: object, console: Console, as_json: bool) -> int:
    """Print a line for each origin."""
    keys = _call(lambda: sorted(store.keys()))
    if not as_json:
        head = ("result", "last fetch", "fetched", "fresh until", "bytes", "origin")
        console.print(console.paint(_ROW.format(*head), STRONG))
    count = 0
    for key in keys:
        copy = _copy(store, key)
        if copy is None:  # another process has just deleted it
            continue
        count += 1
        record = _record(printable(stripped(key)), copy)
        if as_json:
            console.print_json(record)
            continue
        stale = isinstance(copy, CacheEntry) and copy.validity.stale
        times = [_shown(key, record.get(key, "")) for key in ("fetched", "fresh_until")]
        size = f"{record['size']:,}" if "size" in record else ""
        result = "stale" if stale else record["outcome"]
        console.print(_ROW.format(result, record["cause"], *times, size, record["origin"]))
    if not as_json:
        console.print(f"{pluralize(count, 'origin')} in {name}")
    return 0


def _show(store: Store, name: str, keys: list[str], console: Console, as_json: bool) -> int:
    """Print an origin's copy with its file."""
    [origin] = keys
    copy = _copy(store, origin)
    if copy is None:
        raise Failed(f"{origin} is not in {name}")
    if isinstance(copy, ValueError):
        raise Failed(f"{origin} cannot be read: {copy}")
    record = _record(origin, copy)
    body = copy.body or b""
    if as_json:
        file = {"file": body.decode("utf-8", "backslashreplace")}
        console.print_json(record if copy.body is None else record | file)
        return 0
    validity = copy.validity
    result = validity.outcome.explained(copy.cause, stale=validity.stale)
    console.fact("result", result, _NAMES)
    for key, value in record.items():
        console.fact(key.replace("_", " "), _shown(key, value), _NAMES)
    console.print()
    for line in body.splitlines():
        console.print(printable(line.decode("utf-8", "backslashreplace").expandtabs(4)))
    return 0


def _record(key: str, copy: CacheEntry | ValueError) -> dict[str, Any]:
    """Return a copy's metadata as a JSON object."""
    if isinstance(copy, ValueError):
        return {"origin": key, "outcome": "unreadable", "cause": str(copy)}
    size = {} if copy.body is None else {"size": len(copy.body)}
    return {"origin": key, **metadata_of(copy), **size}


def _shown(key: str, value: float | str) -> str:
    """Format a record's value for output."""
    if key in _TIMES and value != "":
        return utc_text(max(float(value), 0.0))
    return str(value)


def _purge(store: Store, name: str, keys: list[str], console: Console, _: object) -> int:
    """Delete copies, and print how many were deleted."""
    deleted = 0
    for key in keys or _call(lambda: list(store.keys())):
        was_there = _call(store.delete, key)
        deleted += was_there
        if keys and not was_there:
            console.complain(f"{key} is not in {name}")
    console.print(f"{pluralize(deleted, 'origin')} deleted from {name}")
    return NO_ANSWER if deleted < len(keys) else 0


_ACTIONS = {"ls": _ls, "show": _show, "purge": _purge}

TOPIC = Topic(
    "Inspect the store of robots.txt files: ls lists origins, show prints one, purge deletes.",
    {
        "action": {"metavar": "ACTION", "choices": tuple(_ACTIONS), "help": ", ".join(_ACTIONS)},
        "urls": {
            "metavar": "URL",
            "nargs": "*",
            "default": [],  # without it, argparse says that a URL is required
            "help": f"of any page, {URL_HELP}",
        },
        "--all": {"action": "store_true", "help": "with purge: delete all copies"},
        "--store": {
            "metavar": "ADDRESS",
            "help": "a store, as in ROBOTS_CACHE (default: the project's)",
        },
        **JSON,
    },
    _cache,
)
