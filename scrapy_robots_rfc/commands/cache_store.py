"""The store that `scrapy robots cache` works on: opened and asked on this thread, its copies as objects of JSON."""

from __future__ import annotations

import base64
import binascii
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Spider
from scrapy.crawler import Crawler

from scrapy_robots_rfc.cache.entry import CacheEntry, cache_policy, decode, encode, entry_of, head_of
from scrapy_robots_rfc.cache.stores.opening import sqlite_path, store_of
from scrapy_robots_rfc.commands.common import NO_ANSWER, Failed
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.errors import RobotsError, SettingError
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import Settings

    from scrapy_robots_rfc.cache.stores.base import Store
    from scrapy_robots_rfc.policy.caching import CachePolicy

#: How an SQLite file begins; an empty one is a database without tables.
_SQLITE = b"SQLite format 3\0"
#: Seconds that `CacheEntry.kept_for` gives a copy which is of no use any more.
_OVER = 1.0


@dataclass(frozen=True, slots=True)
class OpenStore:
    """A store, and what a command has to know beside it. An error of the store ends the command.

    :param name: the store, for people: its address without credentials.
    :param policy: for how long a copy is worth keeping.
    :param now: seconds since 1970.
    :param files: of a store on this disk, which no export may replace.
    """

    store: Store
    name: str
    policy: CachePolicy
    now: float
    files: tuple[Path, ...]

    def origins(self) -> list[str]:
        """Return all keys, in order; others may have written some that are no origins: see `Origin.written`."""
        with self._asking():
            return sorted(self.store.keys())

    def copy(self, key: str) -> CacheEntry | ValueError | None:
        """Return the copy of a key, or why it cannot be read; ``None``: there is nothing."""
        with self._asking():
            value = self.store.get(key)
        try:
            return None if value is None else decode(value)
        except ValueError as error:
            return error

    def is_fresh(self, found: CacheEntry | ValueError | None) -> bool:
        """Whether that is a copy, and a fresh one."""
        return isinstance(found, CacheEntry) and found.validity.fresh_until > self.now

    def put(self, key: str, copy: CacheEntry) -> bool:
        """Keep a copy; false where nobody would want it any more."""
        keep = copy.kept_for(self.now, self.policy)
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


@contextmanager
def open_store(settings: Settings, address: str | None, *, may_be_made: bool) -> Iterator[OpenStore]:
    """Open a store, and close it at the end.

    :param address: of the store; ``None``: that of the project.
    :param may_be_made: else a database that is not there is an error.
    :raises Failed: it cannot be opened, or there is none.
    """
    ours = read_settings(settings)
    spec = address or ours.cache
    path = sqlite_path(spec) if isinstance(spec, str) else None
    files = () if path is None else tuple(Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm", "-journal"))
    if path is not None:
        _look_at(Path(path), may_be_made=may_be_made)
    try:
        made = store_of(spec, Crawler(Spider, settings))
        if made is not None:
            made[0].open()
    except SettingError:
        raise
    except RobotsError as error:
        raise Failed(str(error)) from error
    except Exception as error:
        raise Failed(f"the store cannot be opened ({error_text(error)})") from error
    if made is None:
        raise Failed("there is no store: name one with --store ADDRESS, or in ROBOTSTXT_CACHE", NO_ANSWER)
    with closing(made[0]):
        yield OpenStore(*made, cache_policy(ours), time.time(), files)


def _look_at(path: Path, *, may_be_made: bool) -> None:
    """Refuse a path that is probably mistyped: a store would make a database there, or set the file aside."""
    try:
        with path.open("rb") as file:
            first = file.read(len(_SQLITE))
    except FileNotFoundError:
        if not may_be_made:
            raise Failed(f"{path} is not there") from None
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from error
    else:
        if first and first != _SQLITE:
            raise Failed(f"{path} is no SQLite file")


# A copy as an object of JSON, and back. Which values are valid is in `cache/entry.py`.


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
