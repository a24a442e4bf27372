"""`scrapy robots cache`, on stores that other programs have written into."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_robots_rfc.cache.entry import encode
from scrapy_robots_rfc.cache.stores.redis import RedisStore
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.support.command_copies import DAY, OPEN, fill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy_robots_rfc.cache.stores.base import Store
    from tests.support.command_copies import Done

#: Keys that no crawl uses, and how they are shown.
FOREIGN = {
    "http://evil.example\x1b[2J\nsuccessful": "http://evil.example\\x1b[2J\\nsuccessful",
    "http://me:secret@a.example": "http://a.example",
    "https://me:sec ret/secret@@a.example": "https://a.example",
    "me:secret@a.example": "a.example",
    "HTTP://A.example/": "HTTP://A.example/",
}


def test_foreign_keys(robots: Callable[..., Done], store: Store, address: str) -> None:
    """Keys that are not origins are shown escaped and without credentials, and can be deleted."""
    for key in FOREIGN:
        store.put(key, encode(OPEN), DAY)
    fill(store, z=OPEN)
    listed = robots("cache", "ls", "--store", address)
    names = {**FOREIGN, "http://z.example": "http://z.example"}
    assert [line.split(maxsplit=7)[-1] for line in listed.lines[1:-1]] == [
        names[key] for key in sorted(names)
    ]
    shown = [
        json.loads(line)["origin"]
        for line in robots("cache", "ls", "--json", "--store", address).lines
    ]
    assert sorted(shown) == sorted(names.values())
    assert robots("cache", "purge", "--all", "--store", address).out.startswith(
        "6 origins deleted from "
    )
    assert list(store.keys()) == []


@pytest.mark.parametrize("value", ["junk", 5])
def test_foreign_values(robots: Callable[..., Done], tmp_path: Path, value: object) -> None:
    """Values that another program wrote into an SQLite file are unreadable, and can be deleted."""
    path = tmp_path / "robots.sqlite"
    store = SqliteStore(path)
    store.open()
    store.put("http://a.example", b"", DAY)
    store.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE copies SET value = ?", (value,))
    done = robots("cache", "ls", "--store", f"sqlite:///{path}")
    assert done.code == 0
    assert "unreadable" in done.out
    assert robots("cache", "purge", "--all", "--store", f"sqlite:///{path}").out.startswith(
        "1 origin deleted"
    )


def test_redis_keys_that_are_not_text(robots: Callable[..., Done], redis_address: str) -> None:
    """Redis keys with our prefix that are not UTF-8 are listed, and can be deleted."""
    store = RedisStore(redis_address)
    client: Any = store.client
    copies = store.name_of("copy", "")
    client.set(copies + b"\xff\xfe", b"junk")
    client.set(copies + b"http://", b"junk")
    assert "\\udcff\\udcfe" in robots("cache", "ls", "--store", redis_address).out
    assert robots("cache", "purge", "--all", "--store", redis_address).out.startswith(
        "2 origins deleted from "
    )
    assert list(client.scan_iter(match=copies + b"*")) == []
    store.close()
