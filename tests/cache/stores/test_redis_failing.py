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


def refusal(address: str) -> str:
    """Return the error of a server at start."""
    with pytest.raises(StoreError) as caught:
        open_store(address, Crawler(Spider))
    text = str(caught.value)
    assert PASSWORD not in text
    return text.removeprefix("opening it failed (")


def test_server_that_is_not_there(
    redis_installed: None, open_redis: Callable[..., RedisStore]
) -> None:
    """A server that is down is an error; when it is back, the store works."""
    with RedisServer() as server:
        store = open_redis(server.url)
        store.put(KEY, b"value", LONG)
        store.lease(KEY, "one", LONG)
        server.stop()
        with pytest.raises(redis.ConnectionError):
            store.get(KEY)
        assert "Connection refused" in refusal(f"redis://:{QUOTED}@127.0.0.1:{server.port}")
        server.start()
        assert store.get(KEY) is None
        assert store.lease(KEY, "two", LONG)


#: What makes a server unusable, and the error. For crawls, see `test_redis_crawls.py`.
TROUBLES: list[tuple[Callable[[RedisServer, Any], object], str]] = [
    (lambda server, _: server.freeze(), "TimeoutError: "),
    (lambda _, client: client.config_set("requirepass", PASSWORD), "AuthenticationError: "),
]


@pytest.mark.parametrize(("begin", "error"), TROUBLES, ids=[error for _, error in TROUBLES])
def test_server_that_cannot_be_used(
    redis_installed: None,
    open_redis: Callable[..., RedisStore],
    begin: Callable[[RedisServer, Any], object],
    error: str,
) -> None:
    """A server that hangs or wants a password is an error at start."""
    with RedisServer() as server:
        begin(server, raw(open_redis(server.url)))
        assert error in refusal(f"{server.url}?timeout=0.2")
        server.thaw()


def test_unknown_host_is_named() -> None:
    """The error names a host that does not exist."""
    assert "nowhere.invalid" in refusal("redis://nowhere.invalid")


def test_wrong_password(redis_installed: None) -> None:
    """A wrong password or user is an error at start, which shows no password."""
    with RedisServer(requirepass=PASSWORD) as server:
        host = f"127.0.0.1:{server.port}"
        for wrong in (f"redis://:wrong@{host}", f"redis://user:{QUOTED}@{host}"):
            assert "AuthenticationError: " in refusal(wrong)


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
