"""A crawl's in-memory cache.

The most recently used origins stay parsed. Parsed files use more memory and slow down garbage
collection, so the entries of all other origins are serialized, and parsed again when needed, which
usually takes less than 0.1 ms.
"""

import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.policy.origins import Origin

_T = TypeVar("_T")

#: Memory to allow for each origin's entry, in bytes. On average, real files only need half of that,
#: so the maximum number of origins is usually reached first.
BYTES_PER_ORIGIN = 2560
#: Lower bound for the maximum total size of entries in bytes, because even a few files may be
#: large.
MIN_BYTES = 16 * 1024 * 1024
#: Maximum number of parsed files. Each garbage collection visits all of them.
MAX_PARSED = 1000
#: Maximum total size of parsed files in bytes. Only hostile files reach it.
MAX_PARSED_BYTES = 256 * 1024 * 1024

#: Maximum memory for a packed entry in bytes, besides its serialized form.
ENTRY_OVERHEAD = 650
#: Maximum size of a parsed file in bytes, as a constant plus a multiple of the file size. A typical
#: file only needs an eighth of that.
PARSED_OVERHEAD = 1600
PARSED_FACTOR = 40

# Smaller entries are not compressed, because that would not save much.
_COMPRESS_ABOVE = 900
# Level 1 is faster than parsing a file again, but level 6 is not. A small window and small tables
# are faster, because zlib clears them for each entry. They hardly affect the compressed size.
_LEVEL, _WINDOW, _MEMORY = 1, 12, 5

# The garbage collector stops tracking plain tuples, but not `Origin`, which is equal to them. This
# keeps garbage collection fast in crawls with many origins.
_Key: TypeAlias = tuple[str, str, int]

#: An `OriginPolicy`, which `fetching/` defines.
Policy: TypeAlias = Any


class _Table(OrderedDict[_Key, tuple[_T, int]]):
    """An LRU table with a maximum size and a maximum total weight.

    It maps each key to a value and its weight. The least recently used key comes first, because
    `MemoryCache` calls `move_to_end` for each key that it uses. All operations take constant time.

    :param max_size: the maximum number of values.
    :param max_weight: the maximum total weight. A single value may be heavier.
    """

    def __init__(self, max_size: int, max_weight: int) -> None:
        super().__init__()
        self._max_size = max_size
        self._max_weight = max_weight
        self._weight = 0

    def put(self, key: _Key, value: _T, weight: int) -> Iterator[tuple[_Key, _T]]:
        """Set a value, and yield everything that has to be dropped to make room for it.

        Callers must use up the iterator, because this only runs as far as it is used.
        """
        self.drop(key)  # so that it is added at the end, and its old weight is subtracted
        self[key] = value, weight
        self._weight += weight
        # Keep a single value even if it is heavier than the maximum.
        while len(self) > self._max_size or (self._weight > self._max_weight and len(self) > 1):
            oldest, (dropped, _) = next(iter(self.items()))
            self.drop(oldest)
            yield oldest, dropped

    def drop(self, key: _Key) -> _T | None:
        """Remove and return a value, or return `None` if it doesn't exist."""
        value, weight = self.pop(key, (None, 0))
        self._weight -= weight
        return value


class MemoryCache:
    """A crawl's in-memory cache of each origin's entry and policy.

    :param origins: the maximum number of origins.
    :param parse: creates the policy for an entry.
    :param evicted: a function to call for each origin that is dropped to make room.
    :param min_bytes: see `MIN_BYTES`.
    :param parsed: the maximum number of parsed files, and their maximum total size in bytes.
    """

    def __init__(
        self,
        origins: int,
        *,
        parse: Callable[[Origin, CacheEntry], Policy],
        evicted: Callable[[], object],
        min_bytes: int = MIN_BYTES,
        parsed: tuple[int, int] = (MAX_PARSED, MAX_PARSED_BYTES),
    ) -> None:
        self._parse = parse
        self._evicted = evicted
        # Each origin is in one of these tables. If a packed entry is parsed again, its packed form
        # is kept next to the policy, so that it does not have to be packed again.
        size = min(parsed[0], origins)
        self._parsed: _Table[tuple[Policy, CacheEntry | bytes]] = _Table(size, parsed[1])
        self._packed: _Table[bytes] = _Table(
            origins - size, max(origins * BYTES_PER_ORIGIN, min_bytes)
        )

    def __len__(self) -> int:
        return len(self._parsed) + len(self._packed)

    def get(self, origin: Origin) -> Policy | None:
        """Return an origin's policy, which may have expired, or `None` if there is none."""
        parsed = self._parsed.get(origin)
        if parsed is not None:
            self._parsed.move_to_end(origin)
            (policy, _), _ = parsed
            return policy
        packed = self._packed.drop(origin)
        if packed is None:
            return None
        entry = _unpack(packed)
        policy = self._parse(origin, entry)
        self._put(origin, policy, packed, len(entry.body or b""))
        return policy

    def entry(self, origin: Origin) -> CacheEntry | None:
        """Return an origin's entry, or `None` if there is none."""
        if self.get(origin) is None:  # otherwise it is in `_parsed` now
            return None
        (_, entry), _ = self._parsed[origin]
        return _unpack(entry) if isinstance(entry, bytes) else entry

    def put(self, origin: Origin, policy: Policy, entry: CacheEntry) -> None:
        """Store a policy and its entry."""
        self._packed.drop(origin)
        self._put(origin, policy, entry, len(entry.body or b""))

    def _put(self, origin: Origin, policy: Policy, entry: CacheEntry | bytes, size: int) -> None:
        """Add a parsed file, and serialize the entries that must make room for it.

        :param entry: the entry, which may already be serialized.
        :param size: the size of the file in bytes.
        """
        weight = PARSED_OVERHEAD + PARSED_FACTOR * size
        # The slice converts the origin to a plain tuple (see `_Key`).
        for key, (_, old) in self._parsed.put(origin[:], (policy, entry), weight):
            packed = old if isinstance(old, bytes) else _pack(old)
            for _ in self._packed.put(key, packed, ENTRY_OVERHEAD + len(packed)):
                self._evicted()


def _pack(entry: CacheEntry) -> bytes:
    """Serialize an entry, and compress it if it is large. `_unpack` sees that by the first byte."""
    data = pickle.dumps(entry, pickle.HIGHEST_PROTOCOL)
    if len(data) <= _COMPRESS_ABOVE:
        return data
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    return packer.compress(data) + packer.flush()


def _unpack(data: bytes) -> CacheEntry:
    """Return an entry that was serialized by `_pack`."""
    if not data.startswith(pickle.PROTO):  # zlib's header starts with another byte
        data = zlib.decompress(data, _WINDOW)
    entry: CacheEntry = pickle.loads(data)  # noqa: S301 - created by `_pack`
    return entry
