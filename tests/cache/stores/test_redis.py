"""The Redis store, beyond the contract of all stores, and a server that fails at start and later.

For crawls, see `test_redis_crawls.py`.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest
from redis import RedisError, ResponseError
from redis.connection import SSLConnection
from scrapy import Spider
from scrapy.crawler import Crawler

from demo.certificate import self_signed
from scrapy_robots_rfc.cache.stores.opening import make_store, open_store
from scrapy_robots_rfc.cache.stores.redis import RedisStore
from scrapy_robots_rfc.errors import StoreError
from tests.support.case_files import tables
from tests.support.redis_server import RedisServer, pass_by
from tests.support.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "https://example.com"
LONG = 1000.0
PASSWORD = "se/cr#et"
QUOTED = "se%2Fcr%23et"
AUTHENTICATION = "AuthenticationError: "


@pytest.fixture
def store(open_redis: Callable[..., RedisStore]) -> RedisStore:
    """An empty store."""
    return open_redis()


def raw(store: RedisStore) -> Any:
    """The client of a store."""
    return store.client


def turn_of(store: RedisStore, owner: str, hold: float = LONG) -> None:
    """Wait for a turn."""
    while seconds := store.take_turn(KEY, owner, hold):
        pass_by(raw(store), seconds)


# Addresses.


@pytest.mark.parametrize(("text", "expected", "shown"), tables("stores")["redis"])
def test_address_is_read_and_shown_without_credentials(
    text: str, expected: dict[str, Any], shown: str
) -> None:
    """An address is parsed, and shown without credentials."""
    store = RedisStore(text)
    options = raw(store).connection_pool.connection_kwargs
    assert options | expected == options
    assert make_store(text, Crawler(Spider)) == (ANY, shown)
    assert PASSWORD not in repr(store)
    assert (raw(store).connection_pool.connection_class is SSLConnection) is text.startswith(
        "rediss:"
    )


@pytest.mark.parametrize("text", tables("stores")["unreadable"])
def test_address_that_cannot_be_read(text: str) -> None:
    """The error says what is accepted, and shows nothing of the address."""
    with pytest.raises(StoreError, match="must look like redis://") as caught:
        RedisStore(text)
    assert not {"se", "123"} & set(str(caught.value).replace("/", " ").replace("#", " ").split())
    assert caught.value.__suppress_context__


# What is stored, and for how long.


def test_fleets_with_prefixes_share_nothing(
    open_redis: Callable[..., RedisStore], redis_server: RedisServer
) -> None:
    """Fleets with different prefixes share nothing, whatever characters the prefixes have."""
    one, other = (
        open_redis(f"{redis_server.url}?prefix={prefix}") for prefix in ("f*[a]?:", "f*b:")
    )
    one.put(KEY, b"one", LONG)
    other.put("http://b", b"other", LONG)
    assert (list(one.keys()), list(other.keys())) == ([KEY], ["http://b"])
    assert other.get(KEY) is None
    assert other.lease(KEY, "other", LONG)
    assert one.lease(KEY, "one", LONG)
    assert one.take_turn(KEY, "one", LONG) == other.take_turn(KEY, "other", LONG) == 0


def test_all_names_have_the_prefix_and_end(store: RedisStore) -> None:
    """Every name has the prefix and expires."""
    store.put(KEY, b"value", LONG)
    store.lease(KEY, "me", LONG)
    store.take_turn(KEY, "me", LONG)
    store.end_turn("http://b", "me", 1)
    prefix = store.name_of("copy", "").decode().removesuffix("copy:")
    names = {name.decode() for name in raw(store).scan_iter(match=f"{prefix}*")} - {
        f"{prefix}lease:"
    }
    assert names == {
        f"{prefix}{name}"
        for name in (f"copy:{KEY}", f"lease:{KEY}", f"turn:{KEY}", "turn:http://b")
    }
    assert all(0 < raw(store).pttl(name) <= LONG * 1000 for name in names)


@pytest.mark.parametrize("seconds", [1e-9, 1e300, float("inf")])
def test_any_time_above_zero_is_taken(store: RedisStore, seconds: float) -> None:
    """The shortest and the longest times are accepted."""
    store.put(KEY, b"x", seconds)
    assert store.lease("http://b", "me", seconds)
    assert not store.take_turn("http://b", "me", seconds)
    store.end_turn("http://b", "me", seconds)


def test_something_else_in_its_place(store: RedisStore) -> None:
    """A foreign value with our name cannot be read, and is overwritten."""
    raw(store).lpush(store.name_of("copy", KEY), "x")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        store.get(KEY)
    store.put(KEY, b"value", LONG)
    assert store.get(KEY) == b"value"


# Leases.


def test_one_of_many_has_the_lease(open_redis: Callable[..., RedisStore]) -> None:
    """One of many workers that ask at once gets the lease."""
    barrier = threading.Barrier(8)

    def ask(store: RedisStore) -> bool:
        barrier.wait()
        return store.lease(KEY, str(id(store)), LONG)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, [open_redis() for _ in range(8)])) == 1


# Turns.


def test_request_before_any_turn(store: RedisStore) -> None:
    """A request without a turn, such as one for robots.txt, is followed by the interval."""
    store.end_turn(KEY, "one", 60)
    assert store.take_turn(KEY, "other", LONG) > 59


def test_shorter_interval_brings_no_turn_forward(store: RedisStore) -> None:
    """A shorter interval does not move the next turn to an earlier time."""
    store.end_turn(KEY, "one", 60)
    store.end_turn(KEY, "other", 1)
    assert store.take_turn(KEY, "one", LONG) > 58


def test_absent_worker_loses_its_place(store: RedisStore) -> None:
    """A worker that does not ask again loses its place in line."""
    for owner in ("one", "gone", "three"):
        store.take_turn(KEY, owner, LONG)
    store.end_turn(KEY, "one", 0)
    assert store.take_turn(KEY, "three", LONG) > 0
    put_back(store, -6)
    assert store.take_turn(KEY, "three", LONG) == 0
    assert [name for name in raw(store).hkeys(store.name_of("turn", KEY)) if b"wait" in name] == []


def put_back(store: RedisStore, seconds: int) -> None:
    """Change a key as if the server's clock had been set back by some seconds, or forward if
    negative.
    """
    name = store.name_of("turn", KEY)
    for field, value in raw(store).hgetall(name).items():
        if field not in (b"owner", b"interval", b"ahead"):
            later = [str(int(time) + seconds * 1_000_000) for time in value.split()]
            raw(store).hset(name, field, " ".join(later))


def test_clock_that_is_put_back(store: RedisStore) -> None:
    """Turns, places in line and intervals take no longer if the server's clock is set back."""
    turn_of(store, "dead", 0.2)
    store.take_turn(KEY, "also dead", LONG)
    put_back(store, 3600)
    assert 0 < store.take_turn(KEY, "one", LONG) <= 0.2
    put_back(store, -6)
    turn_of(store, "one")
    store.end_turn(KEY, "one", 0.3)
    put_back(store, 3600)
    begun = time.monotonic()
    assert 0 < store.take_turn(KEY, "two", LONG) <= 0.3
    turn_of(store, "two")
    assert time.monotonic() - begun > 0.1


# Failing servers.


def refusal(address: str) -> str:
    """Return the error of a server at start."""
    with pytest.raises(StoreError) as caught:
        open_store(address, Crawler(Spider))
    text = str(caught.value)
    assert PASSWORD not in text
    return text.removeprefix("opening it failed (")


#: What makes a server unusable at start, the start and end of an address, and the error.
TROUBLES: list[tuple[Callable[[RedisServer, Any], object], str, str, str]] = [
    (lambda server, _: server.stop(), f":{QUOTED}@", "", "Connection refused"),
    (lambda server, _: server.freeze(), "", "?timeout=0.2", "TimeoutError: "),
    (lambda _, client: client.config_set("requirepass", PASSWORD), "", "", AUTHENTICATION),
    (lambda _, client: client.config_set("requirepass", PASSWORD), ":wrong@", "", AUTHENTICATION),
    (lambda *_: None, f"user:{QUOTED}@", "", AUTHENTICATION),
    (
        lambda _, client: client.acl_setuser(
            "guest", enabled=True, passwords=["+x"], keys=["*"], commands=["+get"]
        ),
        "guest:x@",
        "",
        "NoPermissionError: ",
    ),
]


@pytest.mark.parametrize(
    ("begin", "start", "end", "error"),
    TROUBLES,
    ids=["down", "hangs", "no password", "wrong password", "wrong user", "few rights"],
)
def test_server_that_cannot_be_used(
    redis_installed: None,
    open_redis: Callable[..., RedisStore],
    begin: Callable[[RedisServer, Any], object],
    start: str,
    end: str,
    error: str,
) -> None:
    """A server that is down or hangs, or a user without a password or rights, is an error at start,
    which shows no password.
    """
    with RedisServer() as server:
        begin(server, raw(open_redis(server.url)))
        assert error in refusal(f"redis://{start}127.0.0.1:{server.port}/0{end}")


@pytest.mark.parametrize(
    ("name", "value"),
    [("maxmemory", "1"), ("replicaof", "127.0.0.1 1"), ("min_replicas_to_write", "1")],
)
def test_server_that_cannot_write_at_start(
    redis_installed: None, open_redis: Callable[..., RedisStore], name: str, value: str
) -> None:
    """A server that has no memory left or is read-only at start is used, because it may recover."""
    with RedisServer(**{name: value}) as server:
        store = open_redis(server.url)
        assert store.get(KEY) is None
        with pytest.raises(RedisError):
            store.lease(KEY, "me", LONG)


def test_what_is_no_redis() -> None:
    """The error names a host that does not exist; a server that is not Redis is an error, too."""
    assert "nowhere.invalid" in refusal("redis://nowhere.invalid")
    with Site() as site:
        assert refusal(f"redis://{site.netloc}")


def test_tls_certificate_is_verified(
    redis_installed: None, open_redis: Callable[..., RedisStore], tmp_path: Path
) -> None:
    """With rediss://, the connection is encrypted, and the certificate of the server verified."""
    file = tmp_path / "server.pem"
    file.write_bytes(self_signed())
    with RedisServer(tls_cert_file=file, tls_key_file=file, tls_auth_clients="no") as server:
        assert "certificate verify failed" in refusal(server.url)
        store = open_redis(f"{server.url}?ssl_ca_certs={file}")
        store.put(KEY, b"value", LONG)
        assert open_redis(f"{server.url}?ssl_cert_reqs=none").get(KEY) == b"value"
        assert "ConnectionError: " in refusal(server.url.replace("rediss", "redis"))
