"""What a crawl remembers of origins: bounded, the least recently used goes first.

In here: what is kept, and how small. What a copy means is the service's business.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_robots_rfc.policy.origin import Origin
    from scrapy_robots_rfc.stores.codec import Copy

_T = TypeVar("_T")


class Memory(Generic[_T]):
    """The memory of a crawl.

    :param origins: how many are kept at most.
    :param revive: makes the value of a copy anew.
    :param evicted: called for each origin that is dropped because of the bound.
    """

    def __init__(self, origins: int, *, revive: Callable[[Origin, Copy], _T], evicted: Callable[[], object]) -> None:
        self._limit, self._revive, self._evicted = origins, revive, evicted
        self._kept: OrderedDict[Origin, tuple[_T, Copy]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, origin: Origin) -> _T | None:
        """Return the value of an origin, fresh or not; ``None`` where there is none."""
        if origin not in self._kept:
            return None
        self._kept.move_to_end(origin)
        return self._kept[origin][0]

    def copy(self, origin: Origin) -> Copy | None:
        """Return the copy of an origin."""
        return self._kept[origin][1] if origin in self._kept else None

    def put(self, origin: Origin, value: _T, copy: Copy) -> None:
        """Remember a value and the copy that it is made from."""
        self._kept[origin] = value, copy
        self._kept.move_to_end(origin)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)
            self._evicted()
