"""OriginPriorityQueue, a priority queue for Scrapy's scheduler that keeps requests by origin.

It has one of Scrapy's own priority queues for each downloader slot and origin, and one for each
slot for requests that no robots.txt decides about. It hands out a request only if `gate.py` says
that the origin may have one now. `disk.py` has the queues on disk.
"""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.pqueues import ScrapyPriorityQueue

from scrapy_robots_rfc._scrapy import under_way_of, wake
from scrapy_robots_rfc.scheduling.disk import (
    NO_ORIGIN,
    QueueFolder,
    QueueOnDisk,
    key_of,
    lacks_descriptors,
    peek,
)
from scrapy_robots_rfc.scheduling.gate import MAX_LOOKS, QueuedOrigin, gate_of
from scrapy_robots_rfc.scheduling.throttle import slot_of

logger: logging.Logger = logging.getLogger(__name__)

#: Maximum number of requests that one call of `pop` peeks at, in memory and on disk: each may start
#: a fetch, and one on disk has to be read.
MAX_PEEKS = 20
MAX_DISK_PEEKS = 4

# Seconds after which a queue that lacked a file descriptor is opened again.
_RETRY_DELAY = 1.0


@dataclass(slots=True, eq=False, repr=False)
class QueuePart:
    """The requests of one origin in one downloader slot.

    :param owner: the queue that it is a part of.
    :param slot: the name of the slot.
    :param queue: one of Scrapy's priority queues.
    :param size: number of requests in it.
    """

    owner: "OriginPriorityQueue"
    slot: str
    origin: QueuedOrigin
    queue: ScrapyPriorityQueue | QueueOnDisk
    size: int = 0

    def wake(self) -> None:
        """Make the part the next one of its slot."""
        self.owner.wake(self)


class OriginPriorityQueue:
    """SCHEDULER_PRIORITY_QUEUE by origin. Without `RfcRobotsTxtMiddleware` every origin is ready.

    :param crawler: the crawl.
    :param downstream_queue_cls: the class of the queue for the requests of one priority.
    :param key: the folder of a queue on disk; empty for a queue in memory.
    :param startprios: the state that `close` of an earlier crawl returned.
    :param start_queue_cls: the class for start requests, if it is another one.
    """

    def __init__(
        self,
        crawler: Crawler,
        downstream_queue_cls: type[Any],
        key: str,
        startprios: Mapping[str, list[int]] | None = None,
        *,
        start_queue_cls: type[Any] | None = None,
    ) -> None:
        self._crawler = crawler
        self._make = partial(
            ScrapyPriorityQueue, crawler, downstream_queue_cls, start_queue_cls=start_queue_cls
        )
        self._gate = gate_of(crawler)
        self._under_way = under_way_of(crawler)
        #: Number of requests in the queue.
        self.size: int = 0
        # The parts of each slot that are not parked, the next one first.
        self._ready: dict[str, list[QueuePart]] = {}
        # The slots that have such parts. The next one is the first of those with the fewest pages
        # under way; then it goes to the end.
        self._line: deque[str] = deque()
        self._peeks = 0
        # The origin of parts that Scrapy's own queue wrote, which may have several, or of a scheme
        # that is not obeyed any more.
        self._mixed = QueuedOrigin(None)
        self._disk: QueueFolder | None = None
        if key:
            classes = (downstream_queue_cls, start_queue_cls)
            self._disk = QueueFolder(crawler, key, classes, startprios or {})
            for part_key in self._disk.keys:
                self._resume(part_key)
            self._gate.save = self._disk.save

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **options: Any) -> Self:  # noqa: ANN401 - Scrapy's
        """Make a queue as Scrapy's scheduler does."""
        return cls(crawler, *args, **options)

    def __len__(self) -> int:
        return self.size

    # In.

    def push(self, request: Request) -> None:
        """Queue a request.

        :raises ValueError: a queue on disk cannot write it.
        """
        self._gate.taken_back(request)
        queued = self._gate.of(request)
        slot = slot_of(request)
        part = queued.parts.get((self, slot))
        if not isinstance(part, QueuePart):
            part = self._new_part(slot, queued)
        part.queue.push(request)
        part.size += 1
        self.size += 1

    def _new_part(self, slot: str, queued: QueuedOrigin, key: str | None = None) -> QueuePart:
        """Make a part of an origin, as the last one in its slot.

        :param key: names it in the scheduler's state, and its folder on disk; `None` to make it
            from slot and origin.
        """
        queue: ScrapyPriorityQueue | QueueOnDisk
        if self._disk is None:
            queue = self._make("")
        else:
            if key is None:
                key = key_of(slot, queued.origin)
            queue = QueueOnDisk(self._disk, key)
        part = QueuePart(self, slot, queued, queue)
        queued.parts[self, slot] = part
        if slot not in self._ready:
            self._ready[slot] = []
            self._line.append(slot)
        self._ready[slot].append(part)
        return part

    def _resume(self, key: str) -> None:
        """Continue with the part that has a key in the state."""
        slot, _, name = key.rpartition(" ")
        queued = self._gate.of(Request(f"{name}/" if "://" in name else "data:,"))
        if queued.origin is None and name != NO_ORIGIN:  # Scrapy's own queue has other keys
            slot = key
            queued = self._mixed
        part = self._new_part(slot, queued, key)
        part.size = len(part.queue)
        self.size += part.size

    # Out.

    def pop(self) -> Request | None:
        """Return a request that may be handed out now, which takes its site's turn, or `None`."""
        if not (self.size or self._line):
            return None
        if self._gate.timed:
            self._gate.wake_due()
        self._peeks = 0
        max_peeks = MAX_PEEKS if self._disk is None else MAX_DISK_PEEKS
        for _ in range(MAX_LOOKS):
            if not self._line:
                return None
            if self._peeks >= max_peeks:
                break
            part = self._ready[self._next_slot()][0]
            # A part without a request is handed to `_hand_out`, which removes it.
            seconds = self._gate.wait(part.origin, partial(self._peek, part)) if part.size else 0.0
            if seconds == 0:
                request = self._hand_out(part)
                if request is not None:
                    return request
            else:
                self._park(part, seconds)
        wake(self._crawler)  # there is more to look at
        return None

    def _next_slot(self) -> str:
        """Return the first one of the slots with the fewest pages under way."""
        best = self._line[0]
        if len(self._line) == 1:
            return best
        fewest = self._under_way(best)
        for slot in islice(self._line, 1, MAX_LOOKS):
            if not fewest:
                break
            pages = self._under_way(slot)
            if pages < fewest:
                best = slot
                fewest = pages
        return best

    def _peek(self, part: QueuePart) -> Request | None:
        """Return the request that a part would hand out next, or `None` if it cannot be read."""
        self._peeks += 1
        return part.queue.peek() if isinstance(part.queue, QueueOnDisk) else peek(part.queue)

    def _hand_out(self, part: QueuePart) -> Request | None:
        """Take a request out of a part; `None` to look for another part."""
        queued = part.origin
        request = self._read(part)
        if request is None and part.size:  # no file descriptor is left: connections have them
            self._park(part, _RETRY_DELAY)
            return None
        if request is not None and queued is self._mixed:
            self.push(request)  # into the part of its own origin, on disk before it can be lost
            if self._disk is not None:
                self._disk.flush()
            request = None
        # From now on the other slots, and the other parts of this slot, come first.
        ready = self._ready[part.slot]
        ready.remove(part)
        self._line.remove(part.slot)
        if part.size:
            ready.append(part)
        else:
            if self._disk is not None:
                part.queue.close()
            del queued.parts[self, part.slot]
        if ready:
            self._line.append(part.slot)
        else:
            del self._ready[part.slot]
        if request is not None:
            self._gate.hand_out(request, queued)
        if not queued.parts:
            self._gate.forget(queued)
        return request

    def _read(self, part: QueuePart) -> Request | None:
        """Take a request from Scrapy's queue; `None` also if no file descriptor is left."""
        try:
            request = part.queue.pop()
        except OSError as error:
            if lacks_descriptors(error):
                return None
            raise
        # A process that was killed may have left fewer requests on disk than it had counted.
        taken = part.size if request is None else 1
        part.size -= taken
        self.size -= taken
        return request

    def _park(self, part: QueuePart, seconds: float | None) -> None:
        ready = self._ready[part.slot]
        ready.remove(part)
        if not ready:
            del self._ready[part.slot]
            self._line.remove(part.slot)
        self._gate.park(part, part.origin, seconds)

    def wake(self, part: QueuePart) -> None:
        """Make a part that was parked the first one of its slot."""
        ready = self._ready.setdefault(part.slot, [])
        if not ready:
            self._line.appendleft(part.slot)
        ready.insert(0, part)

    # The end of the crawl.

    def take_all(self) -> list[Request]:
        """Remove and return all requests when the crawl closes."""
        self._gate.note_closing()
        taken = []
        for queued in self._gate.origins.values():
            for part in queued.parts.values():
                if isinstance(part, QueuePart) and part.owner is self:
                    while (request := self._read(part)) is not None:
                        taken.append(request)
        return taken

    def close(self) -> dict[str, list[int]]:
        """Close all queues, and return the state from which a later crawl continues."""
        self._gate.note_closing()
        return {} if self._disk is None else self._disk.close()
