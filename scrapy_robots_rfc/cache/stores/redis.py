"""RedisStore: a Redis server that the workers of a fleet share, for files, leases and turns. Needs the extra `redis`.

Every command uses one name only, as a Redis cluster requires. `cache/client.py` handles the errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from scrapy_robots_rfc.cache.stores.base import SharedStore
from scrapy_robots_rfc.core.text import error_text, without_credentials
from scrapy_robots_rfc.errors import StoreError

#: What all names begin with, unless the address has another prefix.
PREFIX = "robots:"

# Seconds for a connection, and for each answer: a healthy server needs a thousandth of that.
_TIMEOUT = 2.0

# The longest time in milliseconds. It is longer than any crawl, and the server can still add it to
# its clock.
_LONGEST = 10**12

#: The parameters for TLS that the query of an address may have, beside `prefix` and `timeout`.
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")

# One owner at a time. ARGV: owner, milliseconds.
_LEASE = """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""

# A turn is a hash: its owner, when it ends, when the next one may begin, the interval between two;
# and for each worker that waits, since when, and until when its place in the line is kept. Times
# are microseconds on the server's clock: Lua's numbers hold all their digits. That clock may be put
# back: then the times of a key go on from the last one that was seen, so that no turn lasts for as
# long as the clock went back.
_TURN = """
local time = redis.call('TIME')
local turn = {}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do turn[fields[i]] = fields[i + 1] end
local ahead, seen = tonumber(turn['ahead'] or 0), tonumber(turn['seen'] or 0)
local now = time[1] * 1000000 + time[2] + ahead
if now < seen then ahead, now = ahead + seen - now, seen end
local ends, start = tonumber(turn['until'] or 0), tonumber(turn['next'] or 0)
local holder = ends > now and turn['owner']
local function digits(number) return string.format('%.0f', math.ceil(number)) end
local function write(...) redis.call('HSET', KEYS[1], 'seen', digits(now), 'ahead', digits(ahead), ...) end
"""

# ARGV: owner, microseconds to hold it. While another worker holds the turn, nobody knows for how
# long; but the next one is at least an interval away, so a worker that asks again after an interval
# loses nothing. A free turn belongs to the worker that has waited longest; the others ask again
# soon, in case that one does not come back and loses its place.
_TAKE = (
    _TURN
    + """
local me, mine, first = ARGV[1], now, nil
for name, value in pairs(turn) do
  local since, kept = string.match(value, '^(%d+) (%d+)$')
  if since and tonumber(kept) <= now then
    redis.call('HDEL', KEYS[1], name)
  elseif since and name == 'wait:' .. me then
    mine = tonumber(since)
  elseif since and tonumber(since) < (first or math.huge) then
    first = tonumber(since)
  end
end
local pause
if holder and holder ~= me then
  pause = math.min(ends - now, math.max(tonumber(turn['interval'] or 0), 100000), 5000000)
elseif not holder and start > now then
  pause = start - now
elseif not holder and first and first < mine then
  pause = 50000
else
  write('owner', me, 'until', digits(now + ARGV[2]))
  redis.call('HDEL', KEYS[1], 'wait:' .. me)
  redis.call('PEXPIRE', KEYS[1], digits(ARGV[2] / 1000))
  return 0
end
write('wait:' .. me, digits(mine) .. ' ' .. digits(now + pause + 500000))
redis.call('PEXPIRE', KEYS[1], digits((math.max(ends, start, now + pause) - now) / 1000 + 60000))
return math.ceil(pause)
"""
)

# ARGV: owner, microseconds. The key is kept a minute longer than needed, for workers that ask
# meanwhile.
_END = (
    _TURN
    + """
if holder and holder ~= ARGV[1] then return end
start = math.max(start, now + ARGV[2])
redis.call('HDEL', KEYS[1], 'owner', 'until')
write('next', digits(start))
if tonumber(ARGV[2]) > 0 then redis.call('HSET', KEYS[1], 'interval', ARGV[2]) end
redis.call('PEXPIRE', KEYS[1], digits((start - now) / 1000 + 60000))
"""
)


class RedisStore(SharedStore):
    """A Redis server, 5 or newer.

    :param address: ``redis://user:password@host:port/database?prefix=name`` or, with TLS,
        ``rediss://``; all but the scheme may be missing.
    :raises StoreError: the address cannot be read. The error does not show it: its password may
        stand anywhere.
    """

    threads: ClassVar[int] = 8

    def __init__(self, address: str) -> None:
        try:
            self._client, self._prefix = _client_of(address)
        except ValueError:
            advice = "redis://user:password@host:port/database, with %2F for a / in the password, and so on"
            known = ", ".join(("prefix", "timeout", *_TLS))
            raise StoreError(
                f"the address of a Redis server must be like {advice}; after a ?: {known}"
            ) from None
        #: The address without credentials.
        self.name: str = without_credentials(address)
        scripts = (_LEASE, _RELEASE, _TAKE, _END)
        self._lease, self._release, self._take, self._end = map(
            self._client.register_script, scripts
        )

    def open(self) -> None:
        """Try the server.

        :raises StoreError: it cannot be reached, or cannot be used; says why.
        """
        try:
            self.lease(
                "", "probe", 0.001
            )  # a script that writes: whoever can run it can do everything else
        except (exceptions.RedisError, OSError, ValueError) as error:
            raise StoreError(
                f"the Redis server {self.name} cannot be used: {error_text(error)}"
            ) from None

    def get(self, key: str) -> bytes | None:
        """Return the value of a key."""
        value: bytes | None = self._client.get(self._name("copy", key))
        return value

    def put(self, key: str, value: bytes, keep: float) -> None:
        """Keep a value."""
        self._client.set(self._name("copy", key), value, px=_milliseconds(keep))

    def delete(self, key: str) -> bool:
        """Drop a value; whether there was one."""
        return bool(self._client.delete(self._name("copy", key)))

    def keys(self) -> Iterator[str]:
        """All keys, each once."""
        start = self._name("copy", "")
        pattern = re.sub(rb"([\\*?\[\]])", rb"\\\1", start) + b"*"
        for name in set(
            self._client.scan_iter(match=pattern, count=1000)
        ):  # the server may name one twice
            yield name[len(start) :].decode(
                "utf-8", "surrogateescape"
            )  # so that others' names can be deleted, too

    def close(self) -> None:
        """Close all connections."""
        self._client.close()
        self._client.connection_pool.disconnect()

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Let one owner at a time fetch the file of a key."""
        return bool(self._lease([self._name("lease", key)], [owner, _milliseconds(seconds)]))

    def release(self, key: str, owner: str) -> None:
        """End a lease, if it is the owner's."""
        self._release([self._name("lease", key)], [owner])

    def take_turn(self, key: str, owner: str, hold: float) -> float:
        """Let one owner at a time send a request; 0, or seconds after which to ask again."""
        microseconds: int = self._take(
            [self._name("turn", key)], [owner, 1000 * _milliseconds(hold)]
        )
        return microseconds / 1e6

    def end_turn(self, key: str, owner: str, interval: float) -> None:
        """End a turn; the next one begins after so many seconds at the earliest."""
        microseconds = 1000 * _milliseconds(interval) if interval else 0
        self._end([self._name("turn", key)], [owner, microseconds])

    def _name(self, kind: str, key: str) -> bytes:
        return f"{self._prefix}{kind}:{key}".encode("utf-8", "surrogateescape")


def _client_of(address: str) -> tuple[Any, str]:
    """Return a client that is not connected yet, and the prefix of all names.

    :raises ValueError: the address cannot be read. redis-py alone would take a wrong database, and
        any option.
    """
    parts = urlsplit(address)
    query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    prefix, timeout = query.pop("prefix", PREFIX), float(query.pop("timeout", _TIMEOUT))
    known = (
        re.fullmatch("/?[0-9]{0,9}", parts.path) and not query.keys() - _TLS and not parts.fragment
    )
    if not known or not 0 < timeout < math.inf:
        raise ValueError
    tls = (
        {"ssl_check_hostname": query.get("ssl_cert_reqs") != "none", **query}
        if parts.scheme == "rediss"
        else {}
    )
    client = redis.Redis.from_url(
        address.partition("?")[0],
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        socket_keepalive=True,
        protocol=2,
        # A kept connection may have been closed meanwhile. Every command may be repeated: nothing
        # of it adds up.
        retry=Retry(NoBackoff(), 1, supported_errors=(exceptions.ConnectionError,)),
        **tls,
    )
    return client, prefix


def _milliseconds(seconds: float) -> int:
    """Return a time that is not shorter; the server takes no 0."""
    return max(1, math.ceil(1000 * min(seconds, _LONGEST / 1000)))
