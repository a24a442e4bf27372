"""MemoryCache: what a crawl remembers of origins, bounded in origins and in octets; the least recently used goes first.

A parsed file takes much memory, so only so many files are kept parsed. The others are packed, in the form in which a
store has them, and are parsed again when they are asked for. Which file is packed is drawn by lot: if the one that was
not used for longest went, a crawl that asks its origins in turn would find none of them parsed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from random import Random
from typing import Generic, TypeVar

from scrapy_robots_rfc.cache.entry import CacheEntry, decode, encode
from scrapy_robots_rfc.policy.origins import Origin

_T = TypeVar("_T")

#: Packed octets for each origin of the bound. Real files take half of that on average, so that usually the bound in
#: origins is reached first.
AN_ORIGIN = 2560
#: Octets that may be kept packed even if the bound in origins is small, because their files may be large.
AT_LEAST = 16 * 1024 * 1024
#: Octets of parsed files. A real file takes about 25 KiB on average when it is in use, so that the files of 10,000
#: origins, the default bound, stay parsed.
PARSED = 256 * 1024 * 1024

#: Octets of a file above which it is parsed on a thread (`RobotsService`): a smaller one takes 5 ms at most, however
#: hostile it is, a file of 500 KiB up to a second. When such a file was packed, `MemoryCache.get` does not return it.
LARGE = 16 * 1024

# Octets that an origin takes beside its packed octets: itself, and its places in tables.
_ENTRY = 500
# Octets that a value takes beside what `weigh` counts.
_VALUE = 1600
# All parsed files are weighed again after so many uses for each of them.
_SELDOM = 10
# How hard `zlib` works when a file is packed: parsing a file again takes longer than level 1 does, not than level 6.
_LEVEL = 1


@dataclass(slots=True, eq=False)
class _Kept(Generic[_T]):
    """What is kept of an origin: parsed, packed, or both.

    :param value: ``None`` if it is not parsed.
    :param entry: what the value is made from; ``None`` if that is packed.
    :param large: whether its file is.
    :param held: whether a function of `MemoryCache.hold` has it, so that it is packed even if it is dropped.
    :param weight: octets that the value takes.
    """

    value: _T | None
    entry: CacheEntry | None
    large: bool
    packed: bytes = b""
    held: bool = False
    weight: int = 0

    def pack(self) -> int:
        """Have it packed, and return how many octets were added by that."""
        if self.entry is None:
            return 0
        self.packed, self.entry = encode(self.entry, _LEVEL), None
        return len(self.packed)


class MemoryCache(Generic[_T]):
    """The memory of a crawl.

    :param origins: how many are kept at most.
    :param revive: makes the value of an entry again; never ``None``.
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
        weigh: Callable[[_T], int],
        parsed: int = PARSED,
    ) -> None:
        self._limit, self._most, self._most_parsed = origins, max(origins * AN_ORIGIN, AT_LEAST), parsed
        self._revive, self._evicted, self._weigh = revive, evicted, weigh
        self._kept: OrderedDict[Origin, _Kept[_T]] = OrderedDict()  # in the order of their use
        self._parsed: dict[Origin, _Kept[_T]] = {}  # those that have a value
        self._random = Random(0)  # noqa: S311 - no secret
        self._octets = self._weight = self._uses = 0
        self._last: _Kept[_T] | None = None

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def at_hand(self) -> int:
        """How many origins have a parsed value."""
        return len(self._parsed)

    @property
    def octets(self) -> int:
        """About how many octets all of it takes."""
        return self._octets + self._weight

    def get(self, origin: Origin) -> _T | None:
        """Return the value of an origin, fresh or not; ``None``: there is none, or its file is large and packed."""
        kept = self._kept.get(origin)
        if kept is None or (kept.value is None and kept.large):
            return None
        if kept.value is None:
            kept.value, self._parsed[origin] = self._revive(origin, decode(kept.packed)), kept
        if kept is not self._last:
            self._kept.move_to_end(origin)
            self._used(kept)
        return kept.value

    def entry(self, origin: Origin) -> CacheEntry | None:
        """Return the entry of an origin; ``None`` if there is none."""
        kept = self._kept.get(origin)
        return None if kept is None else kept.entry or decode(kept.packed)

    def put(self, origin: Origin, value: _T, entry: CacheEntry) -> None:
        """Remember a value and the entry that it is made from."""
        if origin in self._kept:
            self._forget(origin)
        kept = _Kept(value, entry, large=entry.body is not None and len(entry.body) > LARGE)
        self._kept[origin] = self._parsed[origin] = kept
        self._octets += _ENTRY
        self._used(kept)

    def hold(self, origin: Origin, value: _T) -> Callable[[], _T]:
        """Return a function that returns the value, or a later one of its origin, even after that was dropped.

        It holds what the memory holds of the origin. When that is not parsed any more, it holds packed octets only.
        """
        kept = self._kept.get(origin)
        if kept is None or kept.value is not value:
            return lambda: value
        kept.held = True
        return partial(self._recall, origin, kept)

    def _recall(self, origin: Origin, held: _Kept[_T]) -> _T:
        value = self.get(origin)
        if value is None:
            entry = self.entry(origin) or decode(held.packed)
            value = self._revive(origin, entry)
            self.put(origin, value, entry)
        return value

    def _used(self, kept: _Kept[_T]) -> None:
        """Note a use, and keep the bounds. The value that was used before may have grown meanwhile."""
        self._uses += 1
        due: Iterable[_Kept[_T] | None] = (self._last, kept)
        if self._uses > _SELDOM * len(self._parsed):
            self._uses, due = 0, self._parsed.values()
        for each in due:
            if each is not None and each.value is not None:
                self._weigh_again(each, each.value)
        self._last = kept
        while self._weight > self._most_parsed and len(self._parsed) > 1:
            origin = next(islice(self._parsed, self._random.randrange(len(self._parsed)), None))
            drawn = self._parsed[origin]
            if drawn is not kept:
                self._octets += drawn.pack()
                self._drop_value(origin, drawn)
        while len(self) > self._limit or (self._octets > self._most and len(self) > 1):
            self._forget(next(iter(self._kept)))
            self._evicted()

    def _weigh_again(self, kept: _Kept[_T], value: _T) -> None:
        # The value shares the octets of a file with the entry, unless it had to change their line ends.
        body = None if kept.entry is None else kept.entry.body
        own = 0 if body is None or b"\r" not in body[:1000] else len(body)
        weight = self._weigh(value) + _VALUE + own
        self._weight += weight - kept.weight
        kept.weight = weight

    def _forget(self, origin: Origin) -> None:
        kept = self._kept.pop(origin)
        self._octets -= _ENTRY + len(kept.packed)
        if kept.held:
            kept.pack()
        self._drop_value(origin, kept)

    def _drop_value(self, origin: Origin, kept: _Kept[_T]) -> None:
        self._parsed.pop(origin, None)
        self._weight -= kept.weight
        kept.value, kept.weight = None, 0
