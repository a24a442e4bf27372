"""A crawl's in-memory cache, which consists of two LRU tables.

The first table contains each origin's serialized entry. The second, smaller table contains parsed
files, which use more memory and slow down garbage collection. If a parsed file has been dropped,
its entry is parsed again when needed, which usually takes less than 0.1 ms.
"""

import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable
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

#: Maximum size of an entry in bytes, not including its serialized form.
ENTRY_OVERHEAD = 650
#: Maximum size of a parsed file in bytes, as a constant plus a multiple of the file size. A typical
#: file only needs an eighth of that.
VALUE_OVERHEAD = 1600
PARSED_FACTOR = 40

# Smaller entries are not compressed, because that would not save much.
_COMPRESS_ABOVE = 900
# Level 1 is faster than parsing a file again, but level 6 is not. A small window and small tables
# are faster, because zlib clears them for each entry. They hardly affect the compressed size.
_LEVEL, _WINDOW, _MEMORY = 1, 12, 5

# The garbage collector stops tracking plain tuples, but not `Origin`, which is equal to them. This
# keeps garbage collection fast in crawls with many origins.
_Key: TypeAlias = tuple[str, str, int]


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

    def put(self, key: _Key, value: _T, weight: int) -> list[_Key]:
        """Set a value, and return the keys that had to be dropped to make room for it."""
        self.drop(key)  # so that it is added at the end, and its old weight is subtracted
        self[key] = value, weight
        self._weight += weight
        dropped = []
        # Keep a single value even if it is heavier than the maximum.
        while len(self) > self._max_size or (self._weight > self._max_weight and len(self) > 1):
            oldest = next(iter(self))
            self.drop(oldest)
            dropped.append(oldest)
        return dropped

    def drop(self, key: _Key) -> None:
        """Remove a value, if it exists."""
        item = self.pop(key, None)
        if item is not None:
            self._weight -= item[1]


class MemoryCache:
    """A crawl's in-memory cache. Its values are `OriginPolicy` objects.

    :param origins: the maximum number of origins.
    :param parse: a function that creates the value for an entry.
    :param evicted: a function to call for each origin that is dropped to make room.
    :param min_bytes: see `MIN_BYTES`.
    :param parsed: the maximum number of parsed values, and their maximum total size in bytes.
    """

    def __init__(
        self,
        origins: int,
        *,
        parse: Callable[[Origin, CacheEntry], object],
        evicted: Callable[[], object],
        min_bytes: int = MIN_BYTES,
        parsed: tuple[int, int] = (MAX_PARSED, MAX_PARSED_BYTES),
    ) -> None:
        self._parse = parse
        self._evicted = evicted
        # The serialized entries, along with the size of each file.
        self._entries: _Table[tuple[bytes, int]] = _Table(
            origins, max(origins * BYTES_PER_ORIGIN, min_bytes)
        )
        # The parsed files, for some of these entries.
        self._values: _Table[Any] = _Table(*parsed)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, origin: Origin) -> Any:  # noqa: ANN401 - an `OriginPolicy`
        """Return an origin's value, which may have expired, or `None` if there is no entry."""
        value_and_weight = self._values.get(origin)
        if value_and_weight is not None:
            self._values.move_to_end(origin)
            self._entries.move_to_end(origin)
            return value_and_weight[0]
        entry_and_weight = self._entries.get(origin)
        if entry_and_weight is None:
            return None
        data, size = entry_and_weight[0]
        self._entries.move_to_end(origin)
        value = self._parse(origin, _unpack(data))
        # The slice converts the origin to a plain tuple (see `_Key`).
        self._values.put(origin[:], value, VALUE_OVERHEAD + PARSED_FACTOR * size)
        return value

    def entry(self, origin: Origin) -> CacheEntry | None:
        """Return an origin's entry, or `None` if there is none."""
        entry_and_weight = self._entries.get(origin)
        if entry_and_weight is None:
            return None
        self._entries.move_to_end(origin)
        data, _ = entry_and_weight[0]
        return _unpack(data)

    def put(self, origin: Origin, value: object, entry: CacheEntry) -> None:
        """Store a value and its entry."""
        key = origin[:]  # convert to a plain tuple (see `_Key`)
        data = pickle.dumps(entry, pickle.HIGHEST_PROTOCOL)
        if len(data) > _COMPRESS_ABOVE:
            packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
            data = packer.compress(data) + packer.flush()
        size = len(entry.body or b"")
        # A parsed file must not outlive its entry.
        for dropped in self._entries.put(key, (data, size), ENTRY_OVERHEAD + len(data)):
            self._values.drop(dropped)
            self._evicted()
        self._values.put(key, value, VALUE_OVERHEAD + PARSED_FACTOR * size)


def _unpack(data: bytes) -> CacheEntry:
    """Return an entry that was serialized by `MemoryCache.put`."""
    if not data.startswith(pickle.PROTO):  # the entry is compressed
        data = zlib.decompress(data, _WINDOW)
    entry: CacheEntry = pickle.loads(data)  # noqa: S301 - created by `put`
    return entry
