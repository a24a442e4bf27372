"""A store in the hands of a command: opened, asked on this thread, and whatever it raises ends the command.

In here: no output. What is done with the copies is the topic's business.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_robots_rfc.cache.entry import CacheEntry, Rules, decode, encode
from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.core.text import error_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_robots_rfc.cache.stores.base import Store

#: Seconds that a copy is kept which nobody would want any more: see `Rules.keep`.
_OVER = 1.0


@dataclass(frozen=True, slots=True)
class Shelf:
    """A store, and what a command has to know beside it.

    :param store: opened already.
    :param name: the store, for people: its address without credentials.
    :param rules: for how long a copy is worth keeping.
    :param now: seconds since 1970.
    :param files: of the store, where it is on this disk: nobody is to write over them.
    """

    store: Store
    name: str
    rules: Rules
    now: float
    files: tuple[Path, ...] = ()

    def origins(self) -> list[str]:
        """Return all keys, in order; others may have written some that are no origins: see `Origin.written`."""
        with self._asking():
            return sorted(self.store.keys())

    def value(self, key: str) -> bytes | None:
        """Return the value of a key."""
        with self._asking():
            return self.store.get(key)

    def put(self, key: str, copy: CacheEntry) -> bool:
        """Keep a copy; false where nobody would want it any more."""
        keep = self.rules.keep(copy, self.now)
        if keep <= _OVER:
            return False
        with self._asking():
            self.store.put(key, encode(copy), keep)
        return True

    def drop(self, key: str) -> bool:
        """Drop a value; whether there was one."""
        with self._asking():
            return self.store.delete(key)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise Failed(f"the store {self.name} failed ({error_text(error)})") from error


def readable(value: bytes) -> CacheEntry | ValueError:
    """Return the copy that a value is, or why it cannot be read."""
    try:
        return decode(value)
    except ValueError as error:
        return error
