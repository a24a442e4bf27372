"""MemoryCache: what a crawl remembers of origins, bounded in origins and in octets; the least recently used goes first.

A parsed file takes much memory, so only so many files are kept parsed. The others are packed, in the form in which a
store has them, and are parsed again when they are asked for. Which file is packed is drawn by lot: if the one that was
not used for longest went, a crawl that asks its origins in turn would find none of them parsed.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from random import Random
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
#: Octets of parsed files. A real file takes about 25 KiB on average when it is in use, so that the files of 10,000
#: origins, the default bound, stay parsed.
PARSED = 256 * 1024 * 1024

#: Octets of a file above which it is parsed on a thread (`RobotsService`): a smaller one takes 5 ms at most, however
#: hostile it is, a file of 500 KiB up to a second. When such a file was packed, `MemoryCache.get` does not return it.
LARGE = 16 * 1024

# Octets that an entry takes beside its packed octets: its origin, and its places in tables.
_ENTRY = 400
# Octets that a value takes beside what `weigh` counts.
_VALUE = 1600
# All parsed files are weighed again after so many uses for each of them.
_SELDOM = 10
# How hard `zlib` works when a file is packed: parsing a file again takes longer than level 1 does, not than level 6.
_LEVEL = 1


class _Large(bytes):
    """The packed octets of a large file."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class _Parsed(Generic[_T]):
    """A value that is parsed.

    :param entry: what it is made from; ``None`` if that is packed.
    :param large: whether its file is.
    :param held: whether a function of `MemoryCache.hold` has it, so that it is packed even if it is dropped.
    :param place: its index in the list of all that are parsed; below 0 when it is no longer kept.
    :param weight: octets.
    """

    value: _T  # not there any more when it is no longer kept
    entry: CacheEntry | None
    packed: bytes = b""
    large: bool = False
    held: bool = False
    place: int = -1
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
        # In the order of their use; packed, or parsed.
        self._kept: OrderedDict[Origin, bytes | _Parsed[_T]] = OrderedDict()
        self._at_hand: list[Origin] = []  # those that are parsed
        self._random = Random(0)  # noqa: S311 - no secret
        self._octets = self._weight = self._uses = 0
        self._last: _Parsed[_T] | None = None

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def at_hand(self) -> int:
        """How many origins have a parsed value."""
        return len(self._at_hand)

    @property
    def octets(self) -> int:
        """About how many octets all of it takes."""
        return self._octets + self._weight

    def get(self, origin: Origin) -> _T | None:
        """Return the value of an origin, fresh or not; ``None``: there is none, or its file is large and packed."""
        parsed = self._kept.get(origin)
        if parsed is None or type(parsed) is _Large:
            return None
        if isinstance(parsed, bytes):
            parsed = _Parsed(self._revive(origin, decode(parsed)), None, parsed)
            self._unfold(origin, parsed)
        if parsed is not self._last:
            self._kept.move_to_end(origin)
        value = parsed.value
        self._used(parsed)
        return value

    def entry(self, origin: Origin) -> CacheEntry | None:
        """Return the entry of an origin; ``None`` if there is none."""
        kept = self._kept.get(origin)
        if kept is None or isinstance(kept, bytes):
            return None if kept is None else decode(kept)
        return decode(kept.packed) if kept.entry is None else kept.entry

    def put(self, origin: Origin, value: _T, entry: CacheEntry) -> None:
        """Remember a value and the entry that it is made from."""
        large = entry.body is not None and len(entry.body) > LARGE
        self._insert(origin, _Parsed(value, entry, large=large))

    def hold(self, origin: Origin, value: _T) -> Callable[[], _T]:
        """Return a function that returns the value, or a later one of its origin, even after that was dropped.

        It holds what the memory holds of the origin. When that is not parsed any more, it holds packed octets only.
        """
        parsed = self._kept.get(origin)
        if not isinstance(parsed, _Parsed) or parsed.value is not value:
            return lambda: value
        parsed.held = True
        return partial(self._recall, origin, parsed)

    def _recall(self, origin: Origin, held: _Parsed[_T]) -> _T:
        value = self.get(origin)
        if value is None:
            entry = decode(held.packed)
            value = self._revive(origin, entry)
            self.put(origin, value, entry)
        return value

    def _insert(self, origin: Origin, parsed: _Parsed[_T]) -> None:
        if origin in self._kept:
            self._forget(origin)
        self._octets += _ENTRY
        self._unfold(origin, parsed)
        self._used(parsed)

    def _unfold(self, origin: Origin, parsed: _Parsed[_T]) -> None:
        """Keep an origin parsed."""
        self._kept[origin] = parsed
        parsed.place = len(self._at_hand)
        self._at_hand.append(origin)

    def _forget(self, origin: Origin) -> None:
        kept = self._kept[origin]
        if not isinstance(kept, bytes):
            self._octets -= _ENTRY + len(kept.packed)
            if kept.held:
                kept.pack()
            self._leave(kept)
        else:
            self._octets -= _ENTRY + len(kept)
        del self._kept[origin]

    def _used(self, parsed: _Parsed[_T]) -> None:
        """Note a use, and keep the bound of parsed files. The value that was used before may have grown meanwhile."""
        self._uses += 1
        if self._uses > _SELDOM * len(self._at_hand):
            self._uses = 0
            for origin in self._at_hand:
                self._weigh_again(self._kept[origin])
        elif parsed is not self._last:
            if self._last is not None:
                self._weigh_again(self._last)
            if not parsed.weight:
                self._weigh_again(parsed)
        self._last = parsed
        while self._weight > self._most_parsed and len(self._at_hand) > 1:
            at = int(self._random.random() * (len(self._at_hand) - 1))
            self._fold(self._at_hand[at + (at >= parsed.place)])
        while len(self) > self._limit or (self._octets > self._most and len(self) > 1):
            self._forget(next(iter(self._kept)))
            self._evicted()

    def _weigh_again(self, parsed: _Parsed[_T] | bytes) -> None:
        if isinstance(parsed, bytes) or parsed.place < 0:
            return
        # The value shares the octets of a file with the entry, unless it had to change their line ends.
        body = None if parsed.entry is None else parsed.entry.body
        own = 0 if body is None or b"\r" not in body[:1000] else len(body)
        weight = self._weigh(parsed.value) + _VALUE + own
        self._weight += weight - parsed.weight
        parsed.weight = weight

    def _fold(self, origin: Origin) -> None:
        """Keep only the packed octets of an origin."""
        parsed = self._kept[origin]
        assert isinstance(parsed, _Parsed)
        self._octets += parsed.pack()
        self._kept[origin] = _Large(parsed.packed) if parsed.large else parsed.packed
        self._leave(parsed)

    def _leave(self, parsed: _Parsed[_T]) -> None:
        """Take a value from those that are parsed; the last one of these takes its place."""
        last = self._at_hand.pop()
        if parsed.place < len(self._at_hand):
            self._at_hand[parsed.place] = last
            moved = self._kept[last]
            assert isinstance(moved, _Parsed)
            moved.place = parsed.place
        self._weight -= parsed.weight
        parsed.place = -1
        del parsed.value
        if parsed is self._last:
            self._last = None
