"""OriginPriorityQueue: a queue for Scrapy's scheduler, by origin.

It hands out a request only if its origin may have one now; `gate.py` says which origins may. It has
one of Scrapy's queues for each downloader slot and origin, and one for each slot for requests that
no robots.txt decides about. `disk.py` has what those on disk need.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request
from scrapy.pqueues import ScrapyPriorityQueue

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._scrapy import under_way_of, wake
from scrapy_robots_rfc.scheduling.disk import QueueFolder, lacks_descriptors
from scrapy_robots_rfc.scheduling.gate import LOOKS, MARK, gate_of
from scrapy_robots_rfc.scheduling.part import QueuedOrigin, QueuePart, QueueSlot, slot_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler

logger: logging.Logger = logging.getLogger(__name__)

# Seconds after which a queue that lacked a file descriptor is opened again.
_NEXT_TRY = 1.0
# Stands in the key of a part for the origin, where no robots.txt decides about the requests.
_UNDECIDED = "*"


class OriginPriorityQueue:
    """SCHEDULER_PRIORITY_QUEUE by origin. Without `RfcRobotsTxtMiddleware` every origin is ready.

    :param crawler: the crawl.
    :param downstream_queue_cls: the class of the queue for the requests of one priority.
    :param key: the folder of a queue on disk; empty: it is in memory.
    :param startprios: the state that `close` of an earlier crawl has returned.
    :param start_queue_cls: the class for start requests, if theirs is another one.
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
        #: How many requests it has, those that came back to it included.
        self.size: int = 0
        self._slots: dict[str, QueueSlot] = {}
        # The slots with parts that are ready. Of those with the fewest pages under way, the first
        # one is next; then it goes to the end.
        self._line: deque[QueueSlot] = deque()
        # Parts that sleep because of a robots.txt, in the order in which they fell asleep.
        self._waiting: OrderedDict[QueuePart, None] = OrderedDict()
        # Stands in for the origin of a part that Scrapy's own queue wrote: such a part has several.
        self._mixed = QueuedOrigin(None)
        self._disk: QueueFolder | None = None
        if key:
            self._disk = QueueFolder(crawler, key, self._make, startprios or {})
            for part_key in startprios or ():
                self._resume(part_key)
            self._gate.save = self._disk.save

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **options: Any) -> Self:  # noqa: ANN401 - Scrapy's
        """Make a queue as Scrapy's scheduler asks for it."""
        return cls(crawler, *args, **options)

    def __len__(self) -> int:
        return self.size

    # In.

    def push(self, request: Request) -> None:
        """Queue a request. One that comes back goes before all others of its origin, in memory.

        :raises ValueError: a queue on disk cannot write it.
        """
        number = self._gate.taken_back(request) if MARK in request.meta else None
        queued = self._gate.of(request)
        part = self._part_of(slot_of(request), queued)
        if number is not None:
            self._gate.came_back(queued, request, self, number)
            assert self._crawler.stats is not None
            self._crawler.stats.inc_value(stats.DEFERRED)
            return
        try:
            part.queue.push(request)
        except Exception:
            if not part.size and not queued.came_back:  # the request cannot be written
                self._remove(part)
            raise
        part.size += 1
        self.size += 1

    def _part_of(self, name: str, queued: QueuedOrigin) -> QueuePart:
        """Return the part of an origin in the slot that has a name, a new one if there is none."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = QueueSlot(name)
        part = queued.parts.get(slot)
        if part is None:
            queue = (
                self._make("")
                if self._disk is None
                else self._disk.queue(self._key_of(slot, queued))
            )
            part = queued.parts[slot] = QueuePart(self, slot, queued, queue)
            slot.parts += 1
            if not slot.ready:
                self._line.append(slot)
            slot.ready.append(part)
        return part

    def _key_of(self, slot: QueueSlot, queued: QueuedOrigin) -> str:
        """Return what names a part in the scheduler's state, and its folder on disk."""
        if queued is self._mixed:
            return slot.name
        return f"{slot.name} {_UNDECIDED if queued.origin is None else queued.origin}"

    def _resume(self, key: str) -> None:
        """Go on with the part that has a key in the state."""
        slot, space, name = key.rpartition(" ")
        queued = self._mixed  # Scrapy's own queue has other keys
        if space and name == _UNDECIDED:
            queued = self._gate.origins[None]
        elif space and "://" in name:
            queued = self._gate.of(Request(f"{name}/"))
            if queued.origin is None:
                queued = self._mixed
        part = self._part_of(key if queued is self._mixed else slot, queued)
        part.size = len(part.queue)
        self.size += part.size
        if not part.size:
            self._remove(part)

    # Out.

    def pop(self) -> Request | None:
        """Return a request that may go now, which takes its origin's turn; ``None``: none may."""
        if not self.size:
            return None
        if self._gate.timed:
            self._gate.wake_due()
        for _ in range(LOOKS):
            part = self._next_part()
            if part is None:
                break
            seconds = self._gate.seconds(part.origin)
            if seconds == 0:
                request = self._hand_out(part)
                if request is not None:
                    return request
            else:
                self._fall_asleep(part, seconds)
        else:
            wake(self._crawler)
        self._gate.end_lost_trials()
        self._line_up()
        return None

    def _next_part(self) -> QueuePart | None:
        """Return the first ready part of the slot with the fewest pages under way."""
        best = None
        fewest = 0
        for slot in islice(self._line, LOOKS):
            pages = self._under_way(slot.name)
            if best is None or pages < fewest:
                best = slot
                fewest = pages
            if not pages:
                break
        return None if best is None else best.ready[0]

    def _hand_out(self, part: QueuePart) -> Request | None:
        """Take a request of a part that may go; ``None``: look for another one."""
        queued = part.origin
        number = None
        request: Request | None
        if queued.came_back:
            number, request = self._gate.next_returned(queued)
        else:
            request = self._read(part)
            if request is None and part.size:  # connections may have all descriptors
                self._fall_asleep(part, _NEXT_TRY)
                return None
            if request is not None and queued is self._mixed:
                self.push(request)  # it waits in the part of its own origin
                request = None
        if request is not None:
            self._gate.hand_out(request, queued, number)
        if part.size or queued.came_back:
            self._to_the_end(part)
        else:
            self._remove(part)
        return request

    def _read(self, part: QueuePart) -> Request | None:
        """Take a request from Scrapy's queue; ``None``, too, where no file descriptor is left."""
        try:
            request = part.queue.pop()
        except OSError as error:
            if lacks_descriptors(error):
                return None
            raise
        # A process that was killed may have left less on disk than it had counted.
        taken = part.size if request is None else 1
        part.size -= taken
        self.size -= taken
        return request

    def _line_up(self) -> None:
        """Put what Scrapy would hand out now, if it waited for no file, before what comes later.

        So requests leave in the order in which they leave in a crawl that obeys no robots.txt.
        """
        for part in list(islice(self._waiting, self._gate.room())):
            request = self._read(part)
            if request is None:
                del self._waiting[part]
            else:
                self._gate.came_back(part.origin, request, self)

    def _fall_asleep(self, part: QueuePart, seconds: float | None) -> None:
        self._out_of_line(part)
        part.asleep = True
        self._gate.sleep(part, seconds)
        if self._gate.waits(part.origin):
            self._waiting[part] = None

    def wake(self, part: QueuePart) -> None:
        """Put a part back into the line, as the first one: its next request may go."""
        self._waiting.pop(part, None)
        if part.asleep:
            part.asleep = False
            if not part.slot.ready:
                self._line.appendleft(part.slot)
            part.slot.ready.insert(0, part)

    def _out_of_line(self, part: QueuePart) -> None:
        part.slot.ready.remove(part)
        if not part.slot.ready:
            self._line.remove(part.slot)

    def _to_the_end(self, part: QueuePart) -> None:
        """Let other slots, and other parts of this slot, come first."""
        self._out_of_line(part)
        if part.slot.ready:
            self._line.remove(part.slot)
        self._line.append(part.slot)
        part.slot.ready.append(part)

    def _remove(self, part: QueuePart) -> None:
        """Forget a part that has no request."""
        if not part.asleep:
            self._out_of_line(part)
        part.asleep = False
        self._waiting.pop(part, None)
        del part.origin.parts[part.slot]
        part.slot.parts -= 1
        if not part.slot.parts:
            del self._slots[part.slot.name]
        if self._disk is not None:
            self._disk.forget(self._key_of(part.slot, part.origin))
        self._gate.forget(part.origin)

    # The end of the crawl.

    def take_all(self) -> list[Request]:
        """Take out all requests as a crawl closes; what came back comes first."""
        self._gate.note_closing()
        found = [request for _, request in self._gate.all_returned(self)]
        for queued in self._gate.origins.values():
            for part in queued.parts.values():
                while part.owner is self and (request := self._read(part)) is not None:
                    found.append(request)
        return found

    def close(self) -> dict[str, list[int]]:
        """Write what came back, close all queues, and return what is needed to go on."""
        if self._disk is None:
            return {}  # it is lost, as with Scrapy's own queue
        self._gate.note_closing()
        for queued, request in self._gate.all_returned(self):
            try:
                self._part_of(slot_of(request), queued).queue.push(request)
            except ValueError:
                text = "Cannot be written to JOBDIR: %s"
                logger.debug(text, request, extra={"spider": self._crawler.spider})
        return self._disk.close()
