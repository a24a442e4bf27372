"""MemoryCache: what a crawl remembers of each origin, in two bounded tables.

The first has the entry of each origin, with its file, as bytes. The second is smaller and has
parsed files, which take more memory and are many objects that the garbage collector visits. A file
that is no longer in it is parsed again when it is needed, unless it is large; a usual file takes
less than a tenth of a millisecond. Each table drops the least recently used.
"""

import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.policy.origins import Origin

_T = TypeVar("_T")

#: Bytes of entries for each origin of the bound. Real files take half of that on average, so the
#: bound in origins is usually reached first.
BYTES_PER_ORIGIN = 2560
#: Bytes that entries may take even if the bound in origins is small, because files may be large.
MIN_BYTES = 16 * 1024 * 1024
#: Maximum parsed values: the garbage collector stops the crawl while it visits them all.
MAX_PARSED = 1000
#: Maximum bytes of parsed values: of files that are made to take much memory, fewer stay parsed.
MAX_PARSED_BYTES = 256 * 1024 * 1024

#: Bytes of a file above which it is parsed on a thread (`FileReader`). A smaller file takes at most
#: 5 ms, however hostile it is, and a file of 500 KiB up to a second. `MemoryCache.get` does not
#: parse a large file again.
LARGE = 16 * 1024

#: Maximum bytes of an entry besides the stored bytes: its origin, and its places in tables.
ENTRY_OVERHEAD = 650
#: Maximum bytes of a parsed value besides its file, and for each byte of its file. A file that is
#: made to take much memory comes close; a usual file takes an eighth of it.
VALUE_OVERHEAD = 1600
PARSED_FACTOR = 40

# Smaller entries are not compressed: that would take more time than it is worth.
_COMPRESS_ABOVE = 900
# Level 1 takes less time than parsing a file again, level 6 takes more. The window and the tables
# are small because they are cleared for each entry; the results are hardly longer.
_LEVEL, _WINDOW, _MEMORY = 1, 12, 5

# An origin is stored as bytes, under a plain tuple, which is equal to an `Origin`. The garbage
# collector soon stops visiting such tuples, so it stops a crawl of many origins for a moment only.
_Key: TypeAlias = tuple[str, str, int]


class _Table(OrderedDict[_Key, tuple[_T, int]]):
    """Values with their weights, in the order of use, bounded in number and in weight.

    A call takes the same time at any size.

    :param max_size: maximum number of values.
    :param max_weight: maximum weight of all; the value that was used last may weigh more.
    """

    def __init__(self, max_size: int, max_weight: int) -> None:
        super().__init__()
        self._max_size = max_size
        self._max_weight = max_weight
        self._weight = 0

    def put(self, key: _Key, value: _T, weight: int) -> list[_Key]:
        """Set a value, and return the keys that are dropped to make room."""
        self.drop(key)
        self[key] = value, weight
        self._weight += weight
        dropped = []
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
    """The memory of a crawl. Its values are `OriginPolicy` objects, which this package ignores.

    :param origins: maximum number of origins.
    :param parse: makes the value of an entry again; never `None`.
    :param evicted: called for each origin that is dropped to make room.
    :param min_bytes: bytes that entries may take even if `origins` is small.
    :param parsed: maximum number of parsed values, and of their bytes.
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
        # The bytes of each entry, and the size of its file.
        self._entries: _Table[tuple[bytes, int]] = _Table(
            origins, max(origins * BYTES_PER_ORIGIN, min_bytes)
        )
        self._values: _Table[Any] = _Table(*parsed)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, origin: Origin) -> Any:  # noqa: ANN401 - an `OriginPolicy`
        """Return the value of an origin, fresh or not.

        :returns: `None` if it has none, or if its file is large and no longer parsed.
        """
        item = self._values.get(origin)
        if item is not None:
            self._values.move_to_end(origin)
            self._entries.move_to_end(origin)
            return item[0]
        stored = self._entries.get(origin)
        if stored is None:
            return None
        data, size = stored[0]
        if size > LARGE:
            return None
        value = self._parse(origin, self._unpack(origin, data))
        self._values.put(origin[:], value, VALUE_OVERHEAD + PARSED_FACTOR * size)
        return value

    def entry(self, origin: Origin) -> CacheEntry | None:
        """Return the entry of an origin, or `None` if it has none."""
        stored = self._entries.get(origin)
        return None if stored is None else self._unpack(origin, stored[0][0])

    def _unpack(self, origin: Origin, data: bytes) -> CacheEntry:
        self._entries.move_to_end(origin)
        if not data.startswith(pickle.PROTO):  # it is compressed
            data = zlib.decompress(data, _WINDOW)
        entry: CacheEntry = pickle.loads(data)  # noqa: S301 - `put` made it
        return entry

    def put(self, origin: Origin, value: object, entry: CacheEntry) -> None:
        """Remember a value, and the entry that it is made from."""
        key = origin[:]  # a plain tuple
        data = pickle.dumps(entry, pickle.HIGHEST_PROTOCOL)
        if len(data) > _COMPRESS_ABOVE:
            packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
            data = packer.compress(data) + packer.flush()
        size = len(entry.body or b"")
        for dropped in self._entries.put(key, (data, size), ENTRY_OVERHEAD + len(data)):
            self._values.drop(dropped)
            self._evicted()
        self._values.put(key, value, VALUE_OVERHEAD + PARSED_FACTOR * size)
