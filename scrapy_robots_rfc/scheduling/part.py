"""What `gate.py` and `queue.py` share: an origin with requests in the scheduler, and its parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy.utils.httpobj import urlparse_cached

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.pqueues import ScrapyPriorityQueue

    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.scheduling.disk import QueueOnDisk
    from scrapy_robots_rfc.scheduling.queue import OriginPriorityQueue


@dataclass(slots=True, eq=False, repr=False)
class QueuedOrigin:
    """An origin with requests in the scheduler.

    :param origin: ``None``: no robots.txt decides about the requests.
    :param parts: of the queues, by their slots.
    :param came_back: the requests that leave before all others, because they came back, or were
        lined up behind those. Each is after its number, by which they leave, and before the queue
        that counts it.
    :param trial: the request that was handed out to find out about robots.txt.
    :param waited: how many of the next ones were in the scheduler when the last fetch ended: they
        waited for it.
    :param asleep: the parts that are looked at again when the trial, the fetch or the turn ends.
    """

    origin: Origin | None
    parts: dict[QueueSlot, QueuePart] = field(default_factory=dict)
    came_back: list[tuple[int, Request, OriginPriorityQueue]] = field(default_factory=list)
    trial: Request | None = None
    waited: int = 0
    asleep: list[QueuePart] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many of its requests are in the scheduler."""
        return len(self.came_back) + sum(part.size for part in self.parts.values())


@dataclass(slots=True, eq=False, repr=False)
class QueueSlot:
    """A downloader slot with requests in a queue.

    :param parts: how many there are.
    :param ready: those that may have a request for all that is known, the next one first.
    """

    name: str
    parts: int = 0
    ready: list[QueuePart] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class QueuePart:
    """The requests of one origin in one downloader slot.

    :param owner: the queue that it is a part of.
    :param queue: has the requests that did not come back.
    :param size: how many these are.
    :param asleep: whether it waits to be woken, outside of the line.
    """

    owner: OriginPriorityQueue
    slot: QueueSlot
    origin: QueuedOrigin
    queue: ScrapyPriorityQueue | QueueOnDisk
    size: int = 0
    asleep: bool = False


def slot_of(request: Request) -> str:
    """Return the downloader slot of a request, as Scrapy names it: by its meta, or by its host."""
    slot = request.meta.get("download_slot")
    return str(slot if slot is not None else urlparse_cached(request).hostname or "")
