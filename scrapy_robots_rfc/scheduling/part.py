"""What `gate.py` and `queue.py` share: an origin with requests in the scheduler, and its parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from scrapy.utils.httpobj import urlparse_cached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.pqueues import ScrapyPriorityQueue

    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.scheduling.queue import OriginPriorityQueue


_T = TypeVar("_T")

#: Stand in the place of an origin's name, see `QueuePart`.
UNDECIDED = "*"
MIXED = ""

# In how many dicts a `Lookup` has its values.
_DICTS = 64


class Lookup(Generic[_T]):
    """Values by their names.

    They are in many dicts, as one of 100,000 names takes some milliseconds each time that it grows.
    """

    def __init__(self) -> None:
        self._dicts = [dict[str, _T]() for _ in range(_DICTS)]

    def __iter__(self) -> Iterator[_T]:
        return chain.from_iterable(values.values() for values in self._dicts)

    def dict_of(self, name: str) -> dict[str, _T]:
        """Return the dict that has the value of a name, if there is one."""
        return self._dicts[hash(name) % _DICTS]


class CameBack(NamedTuple):
    """A request that came back to the scheduler, or that was lined up behind those.

    :param number: of its first hand-out; smaller ones leave first.
    :param queue: that counts it.
    """

    number: int
    request: Request
    queue: OriginPriorityQueue


@dataclass(slots=True, eq=False, repr=False)
class QueuedOrigin:
    """An origin with requests in the scheduler.

    :param name: the origin as text.
    :param size: how many requests are in the scheduler.
    :param came_back: those that leave before all others, by their numbers.
    :param trial: the request that was handed out to find out about robots.txt.
    :param waited: how many of the next ones were in the scheduler when the last fetch ended: they
        waited for it.
    :param parts: how many parts of queues there are.
    :param asleep: the parts that are looked at again when the trial, the fetch or the turn ends.
    """

    origin: Origin
    name: str
    size: int = 0
    came_back: list[CameBack] = field(default_factory=list)
    trial: Request | None = None
    waited: int = 0
    parts: int = 0
    asleep: list[QueuePart] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class QueueSlot:
    """A downloader slot with requests in a queue.

    :param parts: by the texts of their origins.
    :param ready: the parts that may have a request for all that is known, the next one first.
    """

    name: str
    parts: dict[str, QueuePart] = field(default_factory=dict)
    ready: list[QueuePart] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class QueuePart:
    """The requests of one origin in one downloader slot.

    :param owner: the queue that it is a part of.
    :param name: the origin as text; `UNDECIDED`: no robots.txt decides about its requests;
        `MIXED`: they are of several origins, because Scrapy's own queue wrote them.
    :param origin: ``None`` in the last two cases.
    :param asleep: whether it waits to be woken, outside of the line.
    :param queue: Scrapy's queue; ``None``: it is to be opened with `priorities`.
    """

    owner: OriginPriorityQueue
    slot: QueueSlot
    name: str
    origin: QueuedOrigin | None
    size: int = 0
    asleep: bool = False
    priorities: list[int] = field(default_factory=list)
    queue: ScrapyPriorityQueue | None = None

    @property
    def key(self) -> str:
        """What names it in the scheduler's state, and its folder on disk."""
        return self.slot.name if self.name == MIXED else f"{self.slot.name} {self.name}"

    def is_empty(self) -> bool:
        """Whether it has no request to hand out."""
        return not self.size and (self.origin is None or not self.origin.came_back)


def slot_of(request: Request) -> str:
    """Return the downloader slot of a request, as Scrapy names it: by its meta, or by its host."""
    slot = request.meta.get("download_slot")
    return str(slot if slot is not None else urlparse_cached(request).hostname or "")
