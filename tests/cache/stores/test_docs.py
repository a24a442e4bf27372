"""docs/caching.md shows a value and addresses as they are."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import redis

from demo.certificate import self_signed
from scrapy_robots_rfc.cache.entry import decode, encode
from scrapy_robots_rfc.policy.access import Outcome
from tests.support.documents import block
from tests.support.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy_robots_rfc.cache.stores.redis import RedisStore

KEY = "https://example.com"
LONG = 1000.0


def test_the_value_that_is_shown() -> None:
    """The value in docs/caching.md is what is written today, and can be read."""
    value = block("docs/caching.md", "text", '{"version"').encode()
    copy = decode(zlib.compress(value))
    assert zlib.decompress(encode(copy)) == value
    assert (copy.validity.outcome, copy.body) == (
        Outcome.SUCCESSFUL,
        b"User-agent: *\nDisallow: /x\n",
    )


def test_the_addresses_that_are_shown(
    redis_installed: None, open_redis: Callable[..., RedisStore], tmp_path: Path
) -> None:
    """Both addresses in docs/caching.md work, with a user and with TLS."""
    plain, encrypted = block("docs/caching.md", "text", "rediss://").splitlines()
    with RedisServer() as server, redis.Redis(port=server.port) as client:
        client.acl_setuser(
            "user", enabled=True, passwords=["+password"], keys=["*"], categories=["+@all"]
        )
        open_redis(plain.replace("host:6379", f"127.0.0.1:{server.port}")).put(KEY, b"value", LONG)
        assert client.exists(f"news:copy:{KEY}")
    file = tmp_path / "redis.pem"
    file.write_bytes(self_signed())
    with RedisServer(
        tls_cert_file=file, tls_key_file=file, tls_auth_clients="no", requirepass="password"
    ) as server:
        address = encrypted.replace("host", f"127.0.0.1:{server.port}").replace(
            "/etc/ssl/redis.pem", str(file)
        )
        store = open_redis(address)
        store.put(KEY, b"value", LONG)
        assert store.get(KEY) == b"value"
