"""`scrapy robots cache`, on every kind of store."""

from __future__ import annotations

import contextlib
import sqlite3
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_robots_rfc.cache.entry import encode
from scrapy_robots_rfc.cache.stores.redis import RedisStore
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from scrapy_robots_rfc.core.text import utc_text
from tests.support.command_line import CLOSED, DAY, HOUR, MISSING, NOW, OPEN, fill, run
from tests.support.entries import changed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy_robots_rfc.cache.stores.base import Store
    from tests.support.command_line import Done

    Command = Callable[..., Done]

UNREADABLE = "damaged, or not version 1"


@pytest.fixture
def cache(address: str) -> Command:
    """Return a function that runs the command on that store."""
    return lambda *arguments: run("cache", *arguments, "--store", address)


def test_ls(store: Store, cache: Command) -> None:
    """`ls` prints a line for each origin, sorted by name, and their number."""
    fill(store, b=MISSING, a=OPEN, c=CLOSED, d=changed(OPEN, unreachable_since=NOW - HOUR))
    store.put("http://e.example:81", b"junk", DAY)
    done = cache("ls")
    assert (done.code, done.err) == (0, "")
    head, *rows, last = (line.split() for line in done.lines)
    assert head[0] == "result"
    day = [utc_text(OPEN.fetched), utc_text(OPEN.validity.fresh_until)]
    past = [utc_text(MISSING.fetched), utc_text(MISSING.validity.fresh_until)]
    assert rows == [
        ["successful", "200", *day, "27", "http://a.example"],
        ["unavailable", "404", *past, "http://b.example"],
        ["unreachable", "DownloadTimeoutError", *rows[2][2:-1], "http://c.example"],
        ["stale", "200", *day, "27", "http://d.example"],
        ["unreadable", "damaged,", "or", "not", "vers", "http://e.example:81"],
    ]
    assert last[:2] == ["5", "origins"]


def test_ls_as_json(store: Store, cache: Command) -> None:
    """`ls --json` prints an object for each origin, with the size of the file."""
    fill(store, a=OPEN)
    store.put("http://e.example", b"junk", DAY)
    assert cache("ls", "--json").records == [
        {
            "origin": "http://a.example",
            "version": 1,
            "outcome": "successful",
            "status": 200,
            "cause": "200",
            "fetched": OPEN.fetched,
            "fresh_until": OPEN.validity.fresh_until,
            "confirmed": OPEN.validity.confirmed,
            "url": "http://a.example/robots.txt",
            "etag": '"v1"',
            "last_modified": "Tue, 14 Nov 2023 22:13:20 GMT",
            "size": 27,
        },
        {"origin": "http://e.example", "outcome": "unreadable", "cause": UNREADABLE},
    ]


def test_show(store: Store, cache: Command, address: str) -> None:
    """`show` prints the copy for a page, and the file. The URL may come after the options."""
    fill(store, a=OPEN)
    assert run("cache", "show", "--store", address, "http://a.example/").code == 0
    done = cache("show", "http://user:pw@A.example:80/some/page?x")
    assert done.code == 0
    facts = ["origin            http://a.example", 'etag              "v1"', "size              27"]
    assert {f"  {fact}" for fact in facts} <= {*done.lines}
    assert done.out.endswith("\n\nUser-agent: *\nDisallow: /x\n")


def test_control_characters_are_escaped(store: Store, cache: Command) -> None:
    """Control characters in a file are escaped."""
    body = b"User-agent: *\rDisallow:\t/\x1b[2J\r\n# \xff \xe2\x80\xae\x9b\n"
    fill(store, a=OPEN._replace(body=body, cause="a\x1b[31m\nb"))
    shown = cache("show", "http://a.example/").lines
    assert all(line.isprintable() for line in [*shown, *cache("ls").lines])
    assert shown[-3:] == ["User-agent: *", "Disallow:   /\\x1b[2J", "# \\xff \\u202e\\x9b"]


def test_show_of_a_missing_copy(store: Store, cache: Command) -> None:
    """`show` fails if an origin is not in the store, or cannot be read."""
    done = cache("show", "http://a.example/")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("scrapy robots cache: http://a.example is not in ")
    store.put("http://a.example", b"junk", DAY)
    done = cache("show", "http://a.example/")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"scrapy robots cache: http://a.example cannot be read: {UNREADABLE}\n"


def test_purge_by_url(store: Store, cache: Command) -> None:
    """`purge URL` deletes the origins of the URLs, and names those that are not in the store."""
    fill(store, a=OPEN, b=OPEN)
    done = cache("purge", "http://a.example/page", "http://x.example/")
    assert done.code == 2
    assert done.err.startswith("scrapy robots cache: http://x.example is not in ")
    assert done.out.startswith("1 origin deleted from ")
    assert list(store.keys()) == ["http://b.example"]


def test_mistaken_path(tmp_path: Path) -> None:
    """Files that are not SQLite databases, and folders, are not changed."""
    notes, empty = tmp_path / "notes.txt", tmp_path / "empty"
    notes.write_text("what a user wrote\n", encoding="utf-8")
    empty.touch()
    remedy = "so it was not changed. Remove it, or choose another path"
    folder = f"IsADirectoryError: [Errno 21] Is a directory: '{tmp_path}'"
    why = {
        notes: f"{notes} is not an SQLite database, {remedy}",
        tmp_path: f"opening it failed ({folder})",
        tmp_path / "mistyped": f"{tmp_path / 'mistyped'} does not exist or is empty",
        empty: f"{empty} does not exist or is empty",
    }
    for (path, because), action in product(why.items(), (["ls"], ["purge", "--all"])):
        done = run("cache", *action, "--store", f"sqlite:///{path}")
        error = f"--store = 'sqlite:///{path}' cannot be used: {because}"
        assert (done.code, done.out, done.err) == (2, "", f"scrapy robots cache: {error}\n")
    assert sorted(tmp_path.iterdir()) == [empty, notes]
    assert empty.stat().st_size == 0
    assert notes.read_text(encoding="utf-8") == "what a user wrote\n"


def test_store_of_a_project(tmp_path: Path) -> None:
    """The default store is the project's."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = plan_settings\n", encoding="utf-8")
    (tmp_path / "plan_settings.py").write_text("JOBDIR = 'job'\n", encoding="utf-8")
    (tmp_path / "job").mkdir()
    with contextlib.closing(SqliteStore(tmp_path / "job" / "robots.sqlite")) as store:
        store.open()
        fill(store, a=OPEN)
    listed = run("cache", "ls", folder=tmp_path).out
    assert "http://a.example\n1 origin in sqlite:///job/robots.sqlite" in listed
    named = ("-s", "JOBDIR=", "-s", "ROBOTS_CACHE=sqlite:///job/robots.sqlite")
    assert len(run("cache", "ls", "--json", *named, folder=tmp_path).records) == 1


# What other programs have written.


#: Keys that no crawl uses, and how they are shown.
FOREIGN = {
    "http://evil.example\x1b[2J\nsuccessful": "http://evil.example\\x1b[2J\\nsuccessful",
    "http://me:secret@a.example": "http://a.example",
    "https://me:sec ret/secret@@a.example": "https://a.example",
    "me:secret@a.example": "a.example",
    "HTTP://A.example/": "HTTP://A.example/",
}


def test_foreign_keys(store: Store, cache: Command) -> None:
    """Keys that are not origins, and unreadable copies, are shown escaped and without credentials,
    and `purge --all` deletes them.
    """
    for key in FOREIGN:
        store.put(key, encode(OPEN), DAY)
    store.put("http://e.example", b"junk", DAY)
    fill(store, z=OPEN)
    names = {**FOREIGN, **{url: url for url in ("http://e.example", "http://z.example")}}
    listed = [line.split()[-1] for line in cache("ls").lines[1:-1]]
    assert listed == [names[key].split()[-1] for key in sorted(names)]
    shown = [record["origin"] for record in cache("ls", "--json").records]
    assert sorted(shown) == sorted(names.values())
    done = cache("purge", "--all")
    assert (done.code, done.out.split()[:3]) == (0, ["7", "origins", "deleted"])
    assert list(store.keys()) == []


@pytest.mark.parametrize("value", ["junk", 5])
def test_foreign_values(tmp_path: Path, value: object) -> None:
    """Values that another program wrote into an SQLite file are unreadable, and can be deleted."""
    path = tmp_path / "robots.sqlite"
    store = SqliteStore(path)
    store.open()
    store.put("http://a.example", b"", DAY)
    store.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE copies SET value = ?", (value,))
    done = run("cache", "ls", "--store", f"sqlite:///{path}")
    assert (done.code, "unreadable" in done.out) == (0, True)
    done = run("cache", "purge", "--all", "--store", f"sqlite:///{path}")
    assert done.out.startswith("1 origin deleted")


def test_redis_keys_that_are_not_text(redis_address: str) -> None:
    """Redis keys with our prefix that are not UTF-8 are listed, and can be deleted."""
    store = RedisStore(redis_address)
    client: Any = store.client
    copies = store.name_of("copy", "")
    client.set(copies + b"\xff\xfe", b"junk")
    client.set(copies + b"http://", b"junk")
    assert "\\udcff\\udcfe" in run("cache", "ls", "--store", redis_address).out
    done = run("cache", "purge", "--all", "--store", redis_address)
    assert done.out.startswith("2 origins deleted from ")
    assert list(client.scan_iter(match=copies + b"*")) == []
    store.close()
