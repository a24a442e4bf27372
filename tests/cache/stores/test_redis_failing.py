"""A Redis server that fails at start and later. For crawls, see `test_redis_crawls.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis
from scrapy import Spider
from scrapy.crawler import Crawler

from demo.certificate import self_signed
from scrapy_robots_rfc.cache.stores.opening import open_store
from scrapy_robots_rfc.cache.stores.redis import RedisStore
from scrapy_robots_rfc.errors import StoreError
from tests.support.redis_server import RedisServer
from tests.support.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "https://example.com"
LONG = 1000.0
PASSWORD = "se/cr#et"
QUOTED = "se%2Fcr%23et"


def raw(store: RedisStore) -> Any:
    """The client of a store."""
    return store.client


def failure(store: RedisStore) -> type[Exception]:
    """Return the error of every call."""
    calls: list[Callable[[], Any]] = [
        lambda: store.put(KEY, b"x", LONG),
        lambda: store.lease(KEY, "me", LONG),
        lambda: store.take_turn(KEY, "me", LONG),
    ]
    kinds = set()
    for call in calls:
        with pytest.raises(redis.RedisError) as caught:
            call()
        kinds.add(caught.type)
    [kind] = kinds
    return kind


def refusal(address: str) -> str:
    """Return the error of a server at start."""
    with pytest.raises(StoreError) as caught:
        open_store(address, Crawler(Spider))
    text = str(caught.value)
    assert PASSWORD not in text
    return text.removeprefix("it cannot be opened (")


def test_server_that_is_not_there_is_an_error(
    redis_installed: None, open_redis: Callable[..., RedisStore]
) -> None:
    """A server that is down is an error at start and later; when it is back, the store works."""
    with RedisServer() as server:
        store = open_redis(server.url)
        store.put(KEY, b"value", LONG)
        store.lease(KEY, "one", LONG)
        server.stop()
        assert failure(store) is redis.ConnectionError
        assert "Connection refused" in refusal(f"redis://:{QUOTED}@127.0.0.1:{server.port}")
        server.start()
        assert store.get(KEY) is None
        assert store.lease(KEY, "two", LONG)


def test_unknown_host_is_named() -> None:
    """The error names a host that does not exist."""
    assert "nowhere.invalid" in refusal("redis://nowhere.invalid")


def test_server_that_does_not_answer_is_an_error(
    redis_installed: None, open_redis: Callable[..., RedisStore]
) -> None:
    """A server that does not answer in time is an error; when it answers, the store works."""
    with RedisServer() as server:
        store = open_redis(f"{server.url}?timeout=0.2")
        store.put(KEY, b"value", LONG)
        server.freeze()
        assert failure(store) is redis.TimeoutError
        assert refusal(f"{server.url}?timeout=0.2").startswith("TimeoutError: ")
        server.thaw()
        while True:  # earlier commands may take a moment
            try:
                assert store.get(KEY) in (b"value", b"x")
                break
            except redis.TimeoutError:
                pass


def test_server_without_memory_can_only_be_read(
    redis_installed: None, open_redis: Callable[..., RedisStore]
) -> None:
    """A server without memory fails to write, but can be read."""
    with RedisServer() as server:
        store = open_redis(server.url)
        store.put(KEY, b"value", LONG)
        raw(store).config_set("maxmemory", "1")
        assert failure(store) is redis.exceptions.OutOfMemoryError
        assert "OutOfMemoryError: " in refusal(server.url)
        assert store.get(KEY) == b"value"


def test_replica_is_an_error(redis_installed: None, open_redis: Callable[..., RedisStore]) -> None:
    """A replica is an error, at start and later."""
    with RedisServer() as server:
        store = open_redis(server.url)
        raw(store).replicaof("127.0.0.1", 1)
        assert failure(store) is redis.ReadOnlyError
        assert "read only replica" in refusal(server.url)


def test_wrong_password_is_an_error_that_does_not_show_it(
    redis_installed: None, open_redis: Callable[..., RedisStore]
) -> None:
    """A wrong, missing or changed password is an error, which does not show it."""
    with RedisServer(requirepass=PASSWORD) as server:
        host = f"127.0.0.1:{server.port}"
        store = open_redis(f"redis://:{QUOTED}@{host}")
        for wrong in (f"redis://{host}", f"redis://:wrong@{host}", f"redis://user:{QUOTED}@{host}"):
            assert "AuthenticationError: " in refusal(wrong)
        raw(store).config_set("requirepass", "another")
        raw(store).connection_pool.disconnect()
        assert issubclass(failure(store), redis.AuthenticationError)


def test_user_with_too_few_rights_is_an_error(
    redis_installed: None, open_redis: Callable[..., RedisStore]
) -> None:
    """A user without write access is an error at start."""
    with RedisServer() as server:
        raw(open_redis(server.url)).acl_setuser(
            "guest", enabled=True, passwords=["+x"], keys=["*"], commands=["+get"]
        )
        assert "NoPermissionError: " in refusal(f"redis://guest:x@127.0.0.1:{server.port}")


def test_server_that_is_no_redis_is_an_error() -> None:
    """A server that is not Redis is an error at start."""
    with Site() as site:
        assert refusal(f"redis://{site.netloc}")


def test_server_proves_who_it_is_with_tls(
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
