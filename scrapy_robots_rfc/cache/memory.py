"""MemoryCache: what a crawl remembers of origins, in two tables with a bound.

One has the entry of each origin, with its file compressed. The other, a smaller one, has parsed
files: they take more memory, and each is many objects that the garbage collector looks at. A file
that is not there any more is parsed again when it is asked for, unless it is large. That takes less
than a tenth of a millisecond for a usual file. Each table drops what was not used for longest.
"""

import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.policy.origins import Origin

_T = TypeVar("_T")

#: Octets of entries for each origin of the bound. Real files take half of that on average, so that
#: usually the bound in origins is reached first.
AN_ORIGIN = 2560
#: Octets that entries may take even if the bound in origins is small, because files may be large.
AT_LEAST = 16 * 1024 * 1024
#: How many values stay parsed: the garbage collector stops the crawl while it looks at them all.
PARSED = 1000
#: Octets that parsed values may take: of files that are made to take much, fewer stay parsed.
PARSED_OCTETS = 256 * 1024 * 1024

#: Octets of a file above which it is parsed on a thread (`FileReader`): a smaller one takes 5 ms
#: at most, however hostile it is, a file of 500 KiB up to a second. `MemoryCache.get` does not
#: parse it again.
LARGE = 16 * 1024

#: Octets that an entry takes at most beside what is compressed: its origin, its places in tables.
AN_ENTRY = 650
#: Octets that a parsed value takes at most: beside its file, and for each octet of its file. A file
#: that is made to take much memory comes near that; a usual one takes an eighth of it.
A_VALUE = 1600
AN_OCTET = 40
# How `zlib` works. Level 1 takes less time than to parse a file again, level 6 takes more. The
# window and its tables are small, as they are cleared for each entry; results are hardly longer.
_LEVEL, _WINDOW, _MEMORY = 1, 12, 5

# What is remembered of an origin is octets, and a plain tuple as its key, which an `Origin` equals.
# The garbage collector soon stops looking at such tuples, so a crawl of many origins stands still
# for a moment only.
_Key: TypeAlias = tuple[str, str, int]


class _Table(OrderedDict[_Key, tuple[_T, int]]):
    """Values with their weights, in the order of use, bounded in number and in weight.

    A call takes the same time at any size.

    :param most: values at most.
    :param heaviest: their weight at most; the one that was used last may take more.
    """

    def __init__(self, most: int, heaviest: int) -> None:
        super().__init__()
        self._most = most
        self._heaviest = heaviest
        self._weight = 0

    def put(self, key: _Key, value: _T, weight: int) -> list[_Key]:
        """Set a value, and return the keys that are dropped for it."""
        self.drop(key)
        self[key] = value, weight
        self._weight += weight
        dropped = []
        while len(self) > self._most or (self._weight > self._heaviest and len(self) > 1):
            oldest = next(iter(self))
            self.drop(oldest)
            dropped.append(oldest)
        return dropped

    def drop(self, key: _Key) -> None:
        """Forget a value, if there is one."""
        found = self.pop(key, None)
        if found is not None:
            self._weight -= found[1]


class MemoryCache:
    """The memory of a crawl. Its values are `OriginPolicy`s, which this room does not know.

    :param origins: how many are remembered at most.
    :param parse: makes the value of an entry again; never ``None``.
    :param evicted: called for each origin that is dropped because of the bound.
    :param at_least: octets that entries may take even if `origins` is small.
    :param parsed: how many values stay parsed at most, and how many octets they may take.
    """

    def __init__(
        self,
        origins: int,
        *,
        parse: Callable[[Origin, CacheEntry], object],
        evicted: Callable[[], object],
        at_least: int = AT_LEAST,
        parsed: tuple[int, int] = (PARSED, PARSED_OCTETS),
    ) -> None:
        self._parse = parse
        self._evicted = evicted
        # The octets of each entry, with the size of its file.
        self._entries: _Table[tuple[bytes, int]] = _Table(
            origins, max(origins * AN_ORIGIN, at_least)
        )
        self._values: _Table[Any] = _Table(*parsed)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, origin: Origin) -> Any:  # noqa: ANN401 - see above
        """Return the value of an origin, fresh or not.

        ``None``: there is none, or its file is large and not parsed.
        """
        found = self._values.get(origin)
        if found is not None:
            self._values.move_to_end(origin)
            self._entries.move_to_end(origin)
            return found[0]
        stored = self._entries.get(origin)
        if stored is None or stored[0][1] > LARGE:
            return None
        entry = self._unpacked(origin, stored[0][0])
        value = self._parse(origin, entry)
        self._values.put(origin[:], value, A_VALUE + AN_OCTET * stored[0][1])
        return value

    def entry(self, origin: Origin) -> CacheEntry | None:
        """Return the entry of an origin; ``None`` if there is none."""
        stored = self._entries.get(origin)
        return None if stored is None else self._unpacked(origin, stored[0][0])

    def _unpacked(self, origin: Origin, octets: bytes) -> CacheEntry:
        self._entries.move_to_end(origin)
        entry: CacheEntry = pickle.loads(zlib.decompress(octets, _WINDOW))  # noqa: S301 - `put` made it
        return entry

    def put(self, origin: Origin, value: object, entry: CacheEntry) -> None:
        """Remember a value and the entry that it is made from."""
        key = origin[:]  # a plain tuple
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
        packed = packer.compress(pickle.dumps(entry, pickle.HIGHEST_PROTOCOL)) + packer.flush()
        size = len(entry.body or b"")
        for dropped in self._entries.put(key, (packed, size), AN_ENTRY + len(packed)):
            self._values.drop(dropped)
            self._evicted()
        self._values.put(key, value, A_VALUE + AN_OCTET * size)
