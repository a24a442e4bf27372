"""`scrapy robots cache export` and `import`: copies from one store to another, as lines of JSON.

In here: files, lines, what is said of them. What a line is, is `stores/dump.py`'s business.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from scrapy_robots_rfc.commands.addresses import shown
from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.commands.shelf import is_origin, readable
from scrapy_robots_rfc.stores.codec import Copy
from scrapy_robots_rfc.stores.dump import copy_of, record_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy_robots_rfc.commands.output import Console
    from scrapy_robots_rfc.commands.shelf import Shelf

#: Seconds that the clock of another machine may be ahead: it may take its own time zone for UTC.
_AHEAD = 86_400.0
#: Standard input or output, as the name of a file.
STANDARD = "-"


def export_copies(shelf: Shelf, console: Console, options: argparse.Namespace) -> int:
    """Write all copies that can be read; the others are named on stderr."""
    count = left = 0
    with _output(options.file, console) as file:
        for key in shelf.origins():
            value = shelf.value(key)
            if value is None:  # gone meanwhile
                continue
            found = readable(value)
            if not is_origin(key):  # nobody would read it again
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


def import_copies(shelf: Shelf, console: Console, options: argparse.Namespace) -> int:
    """Put copies into a store: of two of one origin, that of the later fetch stays. Lines that are none are named."""
    imported = kept = old = wrong = 0
    with _input(options.file, console) as file:
        for number, line in enumerate(file, 1):
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


def _not_to_come(copy: Copy, now: float) -> None:
    """Refuse what was made by a clock that is far ahead: no later fetch would take its place for as long."""
    for name in ("fetched", "confirmed", "unreachable_since"):
        time = getattr(copy, name)
        if time is not None and time > now + _AHEAD:
            raise ValueError(f"{name} lies more than a day in the future")


def _is_later(copy: Copy, value: bytes | None) -> bool:
    there = None if value is None else readable(value)
    return not isinstance(there, Copy) or there.fetched < copy.fetched


@contextmanager
def _output(name: str, console: Console) -> Iterator[IO[bytes]]:
    """A file appears under its name when it is whole: an export that fails takes nobody's last one away."""
    if name == STANDARD:
        yield console.stdout.buffer
        return
    path = Path(name)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            part = Path(file.name)
            try:
                yield file
            except BaseException:
                part.unlink()
                raise
        part.replace(path)
    except OSError as error:
        raise Failed(f"{name}: {error.strerror}") from error


@contextmanager
def _input(name: str, console: Console) -> Iterator[IO[bytes]]:
    if name == STANDARD:
        yield console.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield file
    except OSError as error:
        raise Failed(f"{name}: {error.strerror}") from error
