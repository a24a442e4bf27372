"""OriginPriorityQueue, a priority queue for Scrapy's scheduler that keeps requests by origin.

It has one of Scrapy's own priority queues for each downloader slot and origin, and one for each
slot for requests that no robots.txt applies to. Each of them is a "part" (`QueuePart`). It hands
out a request only if `Gate.wait` allows that now; otherwise it parks the part, which means that it
skips the part until it is woken. `disk.py` has the queues on disk.
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

from scrapy_robots_rfc._scrapy import page_counter, peek, wake_engine
from scrapy_robots_rfc.scheduling.disk import (
    NO_ORIGIN,
    QueueFolder,
    QueueOnDisk,
    key_of,
    lacks_descriptors,
)
from scrapy_robots_rfc.scheduling.gate import MAX_LOOKS, QueuedOrigin, gate_of, restore_filter
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

    def unpark(self) -> None:
        """Make the part the next one of its slot."""
        self.owner.unpark(self)

    def add_to_size(self, count: int) -> None:
        """Count requests that were added, or removed if the count is negative."""
        self.size += count
        self.origin.size += count
        self.owner.size += count


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
        self._make_queue = partial(
            ScrapyPriorityQueue, crawler, downstream_queue_cls, start_queue_cls=start_queue_cls
        )
        self._gate = gate_of(crawler)
        self._pages_under_way = page_counter(crawler)
        #: Number of requests in the queue.
        self.size: int = 0
        # The parts of each slot that are not parked, the next one first.
        self._ready: dict[str, list[QueuePart]] = {}
        # The slots that have such parts. The first of those with the fewest pages under way is
        # next. Then it goes to the end.
        self._slots: deque[str] = deque()
        self._peeks = 0  # in the current call of `pop`
        # The origin of parts that Scrapy's own queue wrote, which may contain several origins, and
        # of parts whose scheme is not obeyed any more.
        self._unsorted = QueuedOrigin(None)
        self._logged_full = False  # whether the log says that the disk is full
        self._disk: QueueFolder | None = None
        if key:
            classes = (downstream_queue_cls, start_queue_cls)
            self._disk = QueueFolder(crawler, key, classes, startprios or {})
            for part_key in self._disk.keys:
                self._resume(part_key)
            self._gate.save = self._disk.save  # called every few seconds, in case of SIGKILL

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **options: Any) -> Self:  # noqa: ANN401
        """Make a queue as Scrapy's scheduler does."""
        return cls(crawler, *args, **options)

    def __len__(self) -> int:
        return self.size

    # In.

    def push(self, request: Request) -> None:
        """Queue a request.

        :raises ValueError: a queue on disk cannot write it.
        """
        restore_filter(request)
        queued = self._gate.queued_origin(request)
        slot = slot_of(request)
        part = queued.parts.get((self, slot))
        if not isinstance(part, QueuePart):
            part = self._new_part(slot, queued)
        part.queue.push(request)
        part.add_to_size(1)

    def _new_part(self, slot: str, queued: QueuedOrigin, key: str | None = None) -> QueuePart:
        """Make a part of an origin, as the last one in its slot.

        :param key: names it in the scheduler's state, and its folder on disk; `None` to make it
            from slot and origin.
        """
        queue: ScrapyPriorityQueue | QueueOnDisk
        if self._disk is None:
            queue = self._make_queue("")
        else:
            queue = QueueOnDisk(self._disk, key or key_of(slot, queued.origin))
        part = QueuePart(self, slot, queued, queue)
        queued.parts[self, slot] = part
        if slot not in self._ready:
            self._ready[slot] = []
            self._slots.append(slot)
        self._ready[slot].append(part)
        return part

    def _resume(self, key: str) -> None:
        """Continue with the part that has a key in the state."""
        slot, _, name = key.rpartition(" ")
        queued = self._gate.queued_origin(Request(f"{name}/" if "://" in name else "data:,"))
        if queued.origin is None and name != NO_ORIGIN:  # Scrapy's own queue has other keys
            slot = key
            queued = self._unsorted
        part = self._new_part(slot, queued, key)
        part.add_to_size(len(part.queue))

    # Out.

    def pop(self) -> Request | None:
        """Return a request that may be handed out now, or `None` if there is none.

        One call looks at a limited number of parts. If there are more, it wakes the engine, which
        then calls again.
        """
        if not (self.size or self._slots):
            return None
        if self._gate.timed:
            self._gate.wake_due()
        self._peeks = 0
        max_peeks = MAX_PEEKS if self._disk is None else MAX_DISK_PEEKS
        for _ in range(MAX_LOOKS):
            if not self._slots:
                return None
            if self._peeks >= max_peeks:
                break
            part = self._ready[self._next_slot()][0]
            seconds: float | None = 0.0
            if part.size:  # `_take` removes a part without requests
                seconds = self._gate.wait(part.origin, partial(self._peek, part))
            if seconds != 0:
                self._park(part, seconds)
            elif part.origin is self._unsorted:
                self._sort_next(part)
            else:
                request = self._take(part)
                if request is not None:
                    return request
        wake_engine(self._crawler)
        return None

    def _next_slot(self) -> str:
        """Return the first one of the slots with the fewest pages under way."""
        best = self._slots[0]
        if len(self._slots) == 1:
            return best
        fewest = self._pages_under_way(best)
        for slot in islice(self._slots, 1, MAX_LOOKS):
            if not fewest:
                break
            pages = self._pages_under_way(slot)
            if pages < fewest:
                best = slot
                fewest = pages
        return best

    def _peek(self, part: QueuePart) -> Request | None:
        """Return the request that a part would hand out next, or `None` if it cannot be read."""
        self._peeks += 1
        return part.queue.peek() if isinstance(part.queue, QueueOnDisk) else peek(part.queue)

    def _take(self, part: QueuePart) -> Request | None:
        """Take a request out of a part, or return `None` if another part has to be looked at.

        A part without a request is removed.
        """
        request = self._read(part)
        if request is None and part.size:  # no file descriptor is left: connections have them
            self._park(part, _RETRY_DELAY)
            return None
        self._move_to_end(part)
        if request is not None:
            self._gate.hand_out(request, part.origin)
        if not part.origin.parts:
            self._gate.forget(part.origin)
        return request

    def _sort_next(self, part: QueuePart) -> None:
        """Move the next request of an unsorted part to the part of its own origin.

        It is written there before it is removed here, so that a full disk does not lose it.
        """
        assert self._disk is not None
        request = self._peek(part) if part.size else None
        if request is not None:
            try:
                self.push(request)
            except Exception as error:  # noqa: BLE001 - each kind of queue has its own errors
                self._log_full(error)
                self._park(part, _RETRY_DELAY)
                return
            if not self._disk.flush():  # the disk is full, and the original must remain
                self._park(part, _RETRY_DELAY)
                return
        removed = self._read(part)
        if removed is None and part.size:  # no file descriptor is left
            self._park(part, _RETRY_DELAY)
            return
        if request is None and removed is not None:  # the queue cannot peek
            self.push(removed)
        self._move_to_end(part)

    def _log_full(self, error: Exception) -> None:
        if not self._logged_full:
            self._logged_full = True
            text = "Cannot write requests of a previous run back to JOBDIR, so they wait (%s)"
            logger.error(text, error, extra={"spider": self._crawler.spider})

    def _read(self, part: QueuePart) -> Request | None:
        """Take a request from Scrapy's queue; `None` also if no file descriptor is left."""
        try:
            request = part.queue.pop()
        except OSError as error:
            if lacks_descriptors(error):
                return None
            raise
        # A process that was killed may have left fewer requests on disk than it had counted.
        part.add_to_size(-part.size if request is None else -1)
        return request

    def _move_to_end(self, part: QueuePart) -> None:
        """Make a part the last one of its slot, and its slot the last one; remove it if empty."""
        ready = self._ready[part.slot]
        ready.remove(part)
        self._slots.remove(part.slot)
        if part.size:
            ready.append(part)
        else:
            if self._disk is not None:
                part.queue.close()
            del part.origin.parts[self, part.slot]
        if ready:
            self._slots.append(part.slot)
        else:
            del self._ready[part.slot]

    def _park(self, part: QueuePart, seconds: float | None) -> None:
        """Park a part for the time that `Gate.wait` returned."""
        ready = self._ready[part.slot]
        ready.remove(part)
        if not ready:
            del self._ready[part.slot]
            self._slots.remove(part.slot)
        self._gate.park(part, part.origin, seconds)

    def unpark(self, part: QueuePart) -> None:
        """Make a part that was parked the first one of its slot."""
        ready = self._ready.setdefault(part.slot, [])
        if not ready:
            self._slots.appendleft(part.slot)
        ready.insert(0, part)

    # The end of the crawl.

    def take_all(self) -> list[Request]:
        """Remove and return all requests when the crawl closes."""
        self._gate.count_waiting()
        taken = []
        for queued in self._gate.origins.values():
            for part in queued.parts.values():
                if isinstance(part, QueuePart) and part.owner is self:
                    while (request := self._read(part)) is not None:
                        taken.append(request)
        return taken

    def close(self) -> dict[str, list[int]]:
        """Close all queues, and return the state from which a later crawl continues."""
        self._gate.count_waiting()
        return {} if self._disk is None else self._disk.close()
