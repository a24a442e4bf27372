"""`scrapy robots cache export` and `import`: copies from one store to another, as lines of JSON."""

from __future__ import annotations

import base64
import binascii
import json
from contextlib import nullcontext
from typing import IO, TYPE_CHECKING, Any

from scrapy_robots_rfc.cache.entry import CacheEntry, entry_of, head_of
from scrapy_robots_rfc.commands.addresses import shown
from scrapy_robots_rfc.commands.shelf import readable
from scrapy_robots_rfc.commands.sources import STANDARD, opened, telling
from scrapy_robots_rfc.commands.target import Kind, target_of, written
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    import argparse
    from contextlib import AbstractContextManager

    from scrapy_robots_rfc.commands.output import Console
    from scrapy_robots_rfc.commands.shelf import Shelf

#: Seconds that the clock of another machine may be ahead: it may take its own time zone for UTC.
_AHEAD = 86_400.0

_EXPORT = Kind("an export", "copies.jsonl", "the store itself")
_ADVICE = "name a file that export wrote, or - for standard input"


def export_copies(shelf: Shelf, console: Console, options: argparse.Namespace) -> int:
    """Write all copies that can be read; the others are named on stderr."""
    count = left = 0
    with _target(shelf, console, options) as file:
        for key in shelf.origins():
            value = shelf.value(key)
            if value is None:  # gone meanwhile
                continue
            found = readable(value)
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
        console.say(f"{count:,} exported from {shelf.name}")
    return 1 if left else 0


def _target(shelf: Shelf, console: Console, options: argparse.Namespace) -> AbstractContextManager[IO[bytes]]:
    if options.file == STANDARD:
        return nullcontext(console.stdout.buffer)
    return written(target_of(options.file, _EXPORT, shelf.files))


def source(console: Console, options: argparse.Namespace) -> AbstractContextManager[IO[bytes]]:
    """Return what is imported, opened: where there is nothing, no store is to be made for it.

    :raises Failed: it cannot be opened.
    """
    return opened(options.file, console, _ADVICE)


def import_copies(shelf: Shelf, console: Console, options: argparse.Namespace) -> int:
    """Put copies into a store: of two of one origin, that of the later fetch stays. Lines that are none are named."""
    imported = kept = old = wrong = 0
    with telling(options.file, _ADVICE):
        for number, line in enumerate(options.source, 1):
            if not line.strip():
                continue
            try:
                key, copy = copy_of(_json(line))
                _not_to_come(copy, shelf.now)
            except ValueError as error:
                wrong += 1
                console.complain(f"line {number}: {error}")
                continue
            if not _is_later(copy, shelf.value(key)):
                kept += 1
            elif shelf.put(key, copy):
                imported += 1
            else:
                old += 1
    console.say(f"{imported:,} imported into {shelf.name}, {kept:,} there already, {old:,} too old, {wrong:,} wrong")
    return 1 if wrong else 0


def _json(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None


def _not_to_come(copy: CacheEntry, now: float) -> None:
    """Refuse what was made by a clock that is far ahead: no later fetch would take its place for as long."""
    for name in ("fetched", "confirmed", "unreachable_since"):
        time = copy.fetched if name == "fetched" else getattr(copy.validity, name)
        if time is not None and time > now + _AHEAD:
            raise ValueError(f"{name} lies more than a day in the future")


def _is_later(copy: CacheEntry, value: bytes | None) -> bool:
    there = None if value is None else readable(value)
    return not isinstance(there, CacheEntry) or there.fetched < copy.fetched


# A line: a JSON object.


def record_of(key: str, copy: CacheEntry) -> dict[str, Any]:
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


def copy_of(record: object) -> tuple[str, CacheEntry]:
    """Return the origin and the copy of `record_of`.

    :raises ValueError: this is none, or of an unknown version; the text says what is wrong.
    """
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    key, text, encoded = record.get("origin"), record.get("file"), record.get("file_base64")
    if not isinstance(key, str) or Origin.written(key) is None:
        raise ValueError("its origin is none: scheme://host, or scheme://host:port")
    try:
        if text is not None:
            return key, entry_of(record, text.encode("utf-8"))
        return key, entry_of(record, None if encoded is None else base64.b64decode(encoded, validate=True))
    except (AttributeError, TypeError, UnicodeEncodeError, binascii.Error):
        raise ValueError("its file is no text, or no base64") from None
