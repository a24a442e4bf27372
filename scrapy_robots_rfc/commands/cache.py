"""`scrapy robots cache ACTION`: shows the copies in a store of robots.txt files, and drops them."""

from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from scrapy_robots_rfc.cache.entry import CacheEntry, decode, head_of
from scrapy_robots_rfc.cache.stores.base import Store, errors_of, open_store, sqlite_path
from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.common import Console, Failed
from scrapy_robots_rfc.core.text import error_text, many, printable, utc_text
from scrapy_robots_rfc.errors import StoreError
from scrapy_robots_rfc.settings import CACHE, read_settings

#: The columns of `ls`; a cause that is too long is cut short.
_ROW = "{:11}  {:20.20}  {:24}  {:24}  {:>10}  {}"
_TIMES = frozenset({"fetched", "fresh_until", "confirmed", "unreachable_since"})
_NAMES = 17  # columns of the names that `show` prints


def _ask(call: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - what it returns
    """Call what may be a user's own; an error of any other class becomes a StoreError."""
    try:
        return call(*arguments)
    except Exception as error:
        raise StoreError(f"it failed ({error_text(error)})") from error


def _copy(store: Store, key: str) -> CacheEntry | ValueError | None:
    """Return the copy of a key, or why it cannot be read; ``None``: there is none."""
    value = _ask(store.get, key)
    try:
        return None if value is None else decode(value)
    except ValueError as error:
        return error


def _cache(settings: Settings, console: Console, opts: Namespace) -> int:
    """Run an action with the store, and return the exit code."""
    given = len(opts.urls)
    wanted = {"ls": given == 0, "show": given == 1, "purge": (given > 0) != opts.all}
    if not wanted[opts.action]:
        raise Failed("ls takes no URL, show takes one, and purge takes some, or --all")
    ours = read_settings(settings)
    keys = list(dict.fromkeys(str(common.origin_of(url, ours.schemes)) for url in opts.urls))
    address, option = (ours.cache, CACHE) if opts.store is None else (opts.store, "--store")
    with errors_of(address, option):
        # A store would make a database at a path that is mistyped.
        path = sqlite_path(address) if isinstance(address, str) else None
        if path and not _ask(lambda: Path(path).exists() and Path(path).stat().st_size):
            raise StoreError(f"{path} is not there, or empty")
        made = open_store(address, Crawler(Spider, settings), option)
        if made is None:
            raise Failed(
                "there is no store, only memory:; name one with --store ADDRESS, or in ROBOTS_CACHE"
            )
        store, name = made
        with closing(store):
            return _ACTIONS[opts.action](store, name, keys, console, opts.json)


def _ls(store: Store, name: str, _: object, console: Console, as_json: bool) -> int:
    """Print a line for each origin."""
    if not as_json:
        head = ("result", "last fetch", "fetched", "fresh until", "octets", "origin")
        console.print(console.paint(_ROW.format(*head), common.STRONG))
    count = 0
    for key in _ask(lambda: sorted(store.keys())):
        found = _copy(store, key)
        if found is None:  # it was dropped meanwhile
            continue
        count += 1
        record = _record(printable(common.stripped(key)), found)
        if as_json:
            console.print_json(record)
            continue
        stale = isinstance(found, CacheEntry) and found.validity.stale
        times = [_shown(key, record.get(key, "")) for key in ("fetched", "fresh_until")]
        octets = f"{record['octets']:,}" if "octets" in record else ""
        result = "stale" if stale else record["outcome"]
        console.print(_ROW.format(result, record["cause"], *times, octets, record["origin"]))
    if not as_json:
        console.print(f"{many(count, 'origin')} in {name}")
    return 0


def _show(store: Store, name: str, keys: list[str], console: Console, as_json: bool) -> int:
    """Print all that is known of one origin, and its file."""
    [origin] = keys
    found = _copy(store, origin)
    if not isinstance(found, CacheEntry):
        raise Failed(f"{origin} cannot be read: {found}" if found else f"{origin} is not in {name}")
    record = _record(origin, found)
    body = found.body or b""
    if as_json:
        file = {"file": body.decode("utf-8", "backslashreplace")}
        console.print_json(record if found.body is None else record | file)
        return 0
    validity = found.validity
    result = common.meaning(validity.outcome, found.cause, stale=validity.stale)
    console.fact("result", result, _NAMES)
    for key, value in record.items():
        console.fact(key.replace("_", " "), _shown(key, value), _NAMES)
    console.print()
    for line in body.splitlines():
        console.print(printable(line.decode("utf-8", "backslashreplace").expandtabs(4)))
    return 0


def _record(key: str, found: CacheEntry | ValueError) -> dict[str, Any]:
    """Return all of a copy except its file, as an object of JSON."""
    if isinstance(found, ValueError):
        return {"origin": key, "outcome": "unreadable", "cause": str(found)}
    octets = {} if found.body is None else {"octets": len(found.body)}
    return {"origin": key, **head_of(found), **octets}


def _shown(key: str, value: float | str) -> str:
    """Return a value of a record for people."""
    return utc_text(max(float(value), 0.0)) if key in _TIMES and value != "" else str(value)


def _purge(store: Store, name: str, keys: list[str], console: Console, _: object) -> int:
    """Drop copies, and print how many."""
    dropped = 0
    for key in keys or _ask(lambda: list(store.keys())):
        is_there = _ask(store.delete, key)
        dropped += is_there
        if keys and not is_there:
            console.complain(f"{key} is not in {name}")
    console.print(f"{many(dropped, 'origin')} dropped from {name}")
    return common.NO_ANSWER if dropped < len(keys) else 0


_ACTIONS = {"ls": _ls, "show": _show, "purge": _purge}

TOPIC = common.Topic(
    "Show the store of robots.txt files: ls lists origins, show prints one, purge drops some.",
    {
        "action": {"metavar": "ACTION", "choices": tuple(_ACTIONS), "help": ", ".join(_ACTIONS)},
        "urls": {"metavar": "URL", "nargs": "*", "help": f"of any page, {common.URL_HELP}"},
        "--all": {"action": "store_true", "help": "with purge: drop all copies"},
        "--store": {"metavar": "ADDRESS", "help": "as ROBOTS_CACHE (default: the project's)"},
        **common.JSON,
    },
    _cache,
)
