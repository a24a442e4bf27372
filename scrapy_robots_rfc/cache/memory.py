"""MemoryCache: what a crawl remembers of origins, bounded in origins and in octets; the least recently used goes first.

A parsed file takes much memory, so only the files in use are kept parsed. The others are kept packed, in the form in
which a store has them, and are parsed again when they are asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from scrapy_robots_rfc.cache.entry import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_robots_rfc.cache.entry import CacheEntry
    from scrapy_robots_rfc.policy.origins import Origin

_T = TypeVar("_T")

#: Packed octets for each origin of the bound. Real files take half of that on average, so that usually the bound in
#: origins is reached first.
AN_ORIGIN = 2560
#: Octets that may be kept packed even if the bound in origins is small, because their files may be large.
AT_LEAST = 16 * 1024 * 1024
#: Octets of parsed files: some thousands of usual ones.
PARSED = 32 * 1024 * 1024

# Octets that an entry takes beside its packed octets: its origin, and its places in tables.
_ENTRY = 400
# Octets that a value takes beside what `weigh` counts.
_VALUE = 900
# All parsed files are weighed again after so many uses for each of them.
_SELDOM = 10


@dataclass(slots=True, eq=False)
class _Parsed(Generic[_T]):
    """A value that is parsed.

    :param weight: octets; below 0 when the value is no longer kept.
    """

    value: _T
    packed: bytes
    weight: int = 0


class MemoryCache(Generic[_T]):
    """The memory of a crawl.

    :param origins: how many are kept at most.
    :param revive: makes the value of an entry again.
    :param evicted: called for each origin that is dropped because of the bound.
    :param weigh: returns how many octets a value takes; it may grow while it is in use. Called often.
    :param parsed: octets of parsed files at most; the one in use may take more.
    """

    def __init__(
        self,
        origins: int,
        *,
        revive: Callable[[Origin, CacheEntry], _T],
        evicted: Callable[[], object],
        weigh: Callable[[_T], int] = lambda _: 0,
        parsed: int = PARSED,
    ) -> None:
        self._limit, self._most, self._most_parsed = origins, max(origins * AN_ORIGIN, AT_LEAST), parsed
        self._revive, self._evicted, self._weigh = revive, evicted, weigh
        # Both in the order of their use. All that is parsed was used later than all that is packed.
        self._parsed: OrderedDict[Origin, _Parsed[_T]] = OrderedDict()
        self._packed: OrderedDict[Origin, bytes] = OrderedDict()
        self._octets = self._weight = self._uses = 0
        self._last: _Parsed[_T] | None = None

    def __len__(self) -> int:
        return len(self._parsed) + len(self._packed)

    @property
    def at_hand(self) -> int:
        """How many origins have a parsed value."""
        return len(self._parsed)

    @property
    def octets(self) -> int:
        """About how many octets all of it takes."""
        return self._octets + self._weight

    def get(self, origin: Origin) -> _T | None:
        """Return the value of an origin, fresh or not; ``None`` if there is none."""
        parsed = self._parsed.get(origin)
        if parsed is None:
            packed = self._packed.get(origin)
            if packed is None:
                return None
            parsed = _Parsed(self._revive(origin, decode(packed)), packed)
            del self._packed[origin]
            self._parsed[origin] = parsed
        if parsed is not self._last:
            self._parsed.move_to_end(origin)
        self._used(parsed)
        return parsed.value

    def entry(self, origin: Origin) -> CacheEntry | None:
        """Return the entry of an origin; ``None`` if there is none."""
        packed = self._octets_of(origin)
        return None if packed is None else decode(packed)

    def put(self, origin: Origin, value: _T, entry: CacheEntry) -> None:
        """Remember a value and the entry that it is made from."""
        self._insert(origin, value, encode(entry))

    def hold(self, origin: Origin, value: _T) -> Callable[[], _T]:
        """Return a function that returns the value, or a later one of its origin, even after that was dropped.

        Until it is called it holds packed octets only, and shares them with the memory as long as they are kept.
        """
        parsed = self._parsed.get(origin)
        if parsed is None or parsed.value is not value:
            return lambda: value
        return partial(self._recall, origin, parsed.packed)

    def _recall(self, origin: Origin, packed: bytes) -> _T:
        value = self.get(origin)
        if value is None:
            value = self._revive(origin, decode(packed))
            self._insert(origin, value, packed)
        return value

    def _octets_of(self, origin: Origin) -> bytes | None:
        parsed = self._parsed.get(origin)
        return self._packed.get(origin) if parsed is None else parsed.packed

    def _insert(self, origin: Origin, value: _T, packed: bytes) -> None:
        self._forget(origin)
        parsed = self._parsed[origin] = _Parsed(value, packed)
        self._octets += len(packed) + _ENTRY
        while len(self) > self._limit or (self._octets > self._most and len(self) > 1):
            self._forget(next(iter(self._packed or self._parsed)))
            self._evicted()
        self._used(parsed)

    def _forget(self, origin: Origin) -> None:
        packed = self._octets_of(origin)
        if packed is None:
            return
        self._octets -= len(packed) + _ENTRY
        if origin in self._parsed:
            self._fold(origin)
        del self._packed[origin]

    def _used(self, parsed: _Parsed[_T]) -> None:
        """Note a use, and keep the bound of parsed files. The value that was used before may have grown meanwhile."""
        self._uses += 1
        if self._uses > _SELDOM * len(self._parsed):
            self._uses = 0
            for one in self._parsed.values():
                self._weigh_again(one)
        elif parsed is not self._last:
            if self._last is not None:
                self._weigh_again(self._last)
            if not parsed.weight:
                self._weigh_again(parsed)
        self._last = parsed
        while self._weight > self._most_parsed and len(self._parsed) > 1:
            self._fold(next(iter(self._parsed)))

    def _weigh_again(self, parsed: _Parsed[_T]) -> None:
        if parsed.weight >= 0:
            weight = self._weigh(parsed.value) + _VALUE
            self._weight += weight - parsed.weight
            parsed.weight = weight

    def _fold(self, origin: Origin) -> None:
        """Keep only the packed octets of an origin."""
        parsed = self._parsed.pop(origin)
        self._weight -= parsed.weight
        parsed.weight = -1
        if parsed is self._last:
            self._last = None
        self._packed[origin] = parsed.packed
