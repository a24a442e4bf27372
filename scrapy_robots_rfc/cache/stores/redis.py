"""A store on a Redis server, which several workers can share.

This requires the `redis` extra. Each command uses a single key, as required by Redis Cluster.
"""

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
from scrapy_robots_rfc.errors import StoreError

#: The default prefix for all keys on the server.
PREFIX = "robots:"

# Default timeout for connecting and for each response, in seconds.
_TIMEOUT = 2.0

# Maximum number of milliseconds, which is small enough for the server to add it to its clock.
_MAX_MILLISECONDS = 10**12

# The codes of errors that mean that the server can't write now, but may be able to later. Before
# Redis 7, errors in scripts only have them in their text.
_CANNOT_WRITE = re.compile(r"\b(OOM|READONLY|MISCONF|NOREPLICAS)\b")

#: The query parameters in an address that configure TLS.
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")

# Take or renew a lease. ARGV contains the owner and milliseconds.
_LEASE = """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

# Release a lease. ARGV contains the owner.
_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""

# A turn is a hash with its `owner`, when it expires (`until`), when the `next` turn may start, and
# the `interval`. For each waiting worker, `wait:OWNER` is the time when the worker started waiting
# and the time until which it keeps its place in line. Times are in microseconds on the server's
# clock, which Lua numbers can represent exactly. If the clock is set back, we continue from the
# latest time so far (`seen`) by adding `ahead` to the clock. Otherwise, a turn would last until the
# clock has caught up.
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
local function write(...)
  redis.call('HSET', KEYS[1], 'seen', digits(now), 'ahead', digits(ahead), ...)
end
"""

# Take or renew a turn. ARGV contains the owner and the microseconds until the turn expires.
#
# While another worker holds the turn, a worker waits for one interval, because the next turn starts
# at least one interval later. It waits for at least 0.1 and at most 5 seconds, and not beyond the
# end of the turn. A free turn goes to the worker that has been waiting longest. Until it takes the
# turn, the others retry after a short pause. A worker that is more than five seconds late loses its
# place in line. With a shorter limit, workers with a busy event loop or a slow connection might
# keep losing their places.
_TAKE_TURN = f"""{_TURN}
local me, mine, first = ARGV[1], now, nil
for name, value in pairs(turn) do
  local since, lasts = string.match(value, '^(%d+) (%d+)$')
  if since and tonumber(lasts) <= now then
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
write('wait:' .. me, digits(mine) .. ' ' .. digits(now + pause + 5000000))
redis.call('PEXPIRE', KEYS[1], digits((math.max(ends, start, now + pause) - now) / 1000 + 60000))
return math.ceil(pause)
"""

# End a turn. ARGV contains the owner and the interval in microseconds. The key expires a minute
# later than necessary, in case workers are still waiting.
_END_TURN = f"""{_TURN}
if holder and holder ~= ARGV[1] then return end
start = math.max(start, now + ARGV[2])
redis.call('HDEL', KEYS[1], 'owner', 'until')
write('next', digits(start))
if tonumber(ARGV[2]) > 0 then redis.call('HSET', KEYS[1], 'interval', ARGV[2]) end
redis.call('PEXPIRE', KEYS[1], digits((start - now) / 1000 + 60000))
"""


class RedisStore(SharedStore):
    """A store on a Redis server, version 5 or newer.

    :param address: ``redis://user:password@host:port/database?prefix=name``, or ``rediss://...``
        for TLS. Everything except the scheme is optional.
    :raises StoreError: if the address is malformed. The error message does not contain the address,
        because the password could be anywhere in it.
    """

    threads: ClassVar[int] = 8

    def __init__(self, address: str) -> None:
        try:
            client, self._prefix = _client_of(address)
        except ValueError:
            parameters = ", ".join(("prefix", "timeout", *_TLS))
            raise StoreError(
                "the address must look like redis://user:password@host:port/database, with special "
                "characters in the password percent-encoded, such as %2F for /. The supported "
                f"query parameters are {parameters}"
            ) from None
        self.client: Any = client
        self._lease = self.client.register_script(_LEASE)
        self._release = self.client.register_script(_RELEASE)
        self._take_turn = self.client.register_script(_TAKE_TURN)
        self._end_turn = self.client.register_script(_END_TURN)

    def open(self) -> None:
        """Check the connection by running a script, which needs a permission of its own.

        If the server can't write now, the crawl reads from it, and tries again later.
        """
        try:
            self.lease("", "probe", 0.001)
        except (exceptions.OutOfMemoryError, exceptions.ReadOnlyError):
            pass  # redis-py removes these two codes from the text
        except exceptions.ResponseError as error:
            if not _CANNOT_WRITE.search(str(error)):
                raise

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        value: bytes | None = self.client.get(self.name_of("copy", key))
        return value

    def put(self, key: str, value: bytes, seconds: float) -> None:
        """See `Store`."""
        self.client.set(self.name_of("copy", key), value, px=_milliseconds(seconds))

    def delete(self, key: str) -> bool:
        """See `Store`."""
        return bool(self.client.delete(self.name_of("copy", key)))

    def keys(self) -> Iterator[str]:
        """See `Store`."""
        start = self.name_of("copy", "")
        pattern = re.sub(rb"([\\*?\[\]])", rb"\\\1", start) + b"*"
        for name in set(self.client.scan_iter(match=pattern, count=1000)):  # without duplicates
            # Keys from other programs may not be valid UTF-8. Escape them, so that they can be
            # deleted as well.
            yield name[len(start) :].decode("utf-8", "surrogateescape")

    def close(self) -> None:
        """See `Store`."""
        self.client.close()
        self.client.connection_pool.disconnect()  # in redis-py 5.0.0, `close` leaves it open

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """See `SharedStore`."""
        return bool(self._lease([self.name_of("lease", key)], [owner, _milliseconds(seconds)]))

    def release(self, key: str, owner: str) -> None:
        """See `SharedStore`."""
        self._release([self.name_of("lease", key)], [owner])

    def take_turn(self, key: str, owner: str, seconds: float) -> float:
        """See `SharedStore`."""
        arguments = [owner, 1000 * _milliseconds(seconds)]  # microseconds, see the script
        microseconds: int = self._take_turn([self.name_of("turn", key)], arguments)
        return microseconds / 1e6

    def end_turn(self, key: str, owner: str, interval: float) -> None:
        """See `SharedStore`."""
        # 0 stays 0, which lets the next turn start now.
        microseconds = 1000 * _milliseconds(interval) if interval else 0
        self._end_turn([self.name_of("turn", key)], [owner, microseconds])

    def name_of(self, kind: str, key: str) -> bytes:
        """Return the Redis key for an origin's copy, lease or turn."""
        return f"{self._prefix}{kind}:{key}".encode("utf-8", "surrogateescape")  # as in `keys`


def _client_of(address: str) -> tuple[Any, str]:
    """Return a client that is not connected yet, and the prefix for all keys.

    :raises ValueError: if the address is malformed. redis-py itself would accept it and might use
        the wrong database.
    """
    parts = urlsplit(address)
    # Strict parsing would not accept an empty query.
    query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    prefix = query.pop("prefix", PREFIX)
    timeout = float(query.pop("timeout", _TIMEOUT))
    unknown = query.keys() - _TLS
    database = re.fullmatch("/?[0-9]{0,9}", parts.path)
    if unknown or parts.fragment or database is None or not 0 < timeout < math.inf:
        raise ValueError
    # Python does not allow checking the host name without checking the certificate.
    tls = {"ssl_check_hostname": query.get("ssl_cert_reqs") != "none", **query}
    client = redis.Redis.from_url(
        address.partition("?")[0],
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        socket_keepalive=True,
        protocol=2,  # version 3 requires Redis 6
        # Retry once, because the server may have closed an idle connection. All commands are
        # idempotent.
        retry=Retry(NoBackoff(), 1, supported_errors=(exceptions.ConnectionError,)),
        **(tls if parts.scheme == "rediss" else {}),
    )
    return client, prefix


def _milliseconds(seconds: float) -> int:
    """Convert seconds to milliseconds that the server accepts as a time until something expires.

    They are rounded up, because it does not accept 0.
    """
    return max(1, math.ceil(1000 * min(seconds, _MAX_MILLISECONDS / 1000)))
