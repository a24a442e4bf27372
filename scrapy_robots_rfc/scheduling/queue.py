"""OriginPriorityQueue: a queue for Scrapy's scheduler, by origin.

It hands out a request only if its origin may have one now; `gate.py` says which origins may. It has
one of Scrapy's queues for each downloader slot and origin, and one for each slot for requests that
no robots.txt decides about. `disk.py` has what those on disk need.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.pqueues import ScrapyPriorityQueue

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._scrapy import under_way_of, wake
from scrapy_robots_rfc.scheduling.disk import QueueFolder, QueueOnDisk, lacks_descriptors
from scrapy_robots_rfc.scheduling.gate import LOOKS, MARK, QueuedOrigin, QueuePart, gate_of
from scrapy_robots_rfc.scheduling.throttle import slot_of

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
        # The parts of each slot that may have a request for all that is known, the next one first.
        self._ready: dict[str, list[QueuePart]] = {}
        # The slots that have such parts. Of those with the fewest pages under way, the first one is
        # next; then it goes to the end.
        self._line: deque[str] = deque()
        # Parts that sleep because of a robots.txt, in the order in which they fell asleep.
        self._waiting: OrderedDict[QueuePart, None] = OrderedDict()
        # Stands in for the origin of a part that Scrapy's own queue wrote, which has several, or of
        # a scheme that is not obeyed any more.
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
        slot = slot_of(request)
        part = queued.parts.get((self, slot))
        if part is None:
            part = self._new_part(slot, queued)
        if number is not None:
            self._gate.came_back(queued, request, self, number)
            stats.of(self._crawler).inc_value(stats.DEFERRED)
            return
        part.queue.push(request)
        part.size += 1
        self.size += 1

    def _new_part(self, slot: str, queued: QueuedOrigin, key: str | None = None) -> QueuePart:
        """Make a part of an origin, as the last one in its slot.

        :param key: names it in the scheduler's state, and its folder on disk; ``None``: it is named
            after slot and origin.
        """
        queue: ScrapyPriorityQueue | QueueOnDisk
        if self._disk is None:
            queue = self._make("")
        else:
            if key is None:
                key = f"{slot} {_UNDECIDED if queued.origin is None else queued.origin}"
            queue = QueueOnDisk(self._disk, key)
        part = queued.parts[self, slot] = QueuePart(self, slot, queued, queue)
        if slot not in self._ready:
            self._ready[slot] = []
            self._line.append(slot)
        self._ready[slot].append(part)
        return part

    def _resume(self, key: str) -> None:
        """Go on with the part that has a key in the state."""
        slot, _, name = key.rpartition(" ")
        queued = self._gate.of(Request(f"{name}/" if "://" in name else "data:,"))
        if queued.origin is None and name != _UNDECIDED:  # Scrapy's own queue has other keys
            slot = key
            queued = self._mixed
        part = self._new_part(slot, queued, key)
        part.size = len(part.queue)
        self.size += part.size

    # Out.

    def pop(self) -> Request | None:
        """Return a request that may go now, which takes its origin's turn; ``None``: none may."""
        if not (self.size or self._line):
            return None
        if self._gate.timed:
            self._gate.wake_due()
        for _ in range(LOOKS):
            if not self._line:
                break
            slot = self._line[0] if len(self._line) == 1 else self._next_slot()
            part = self._ready[slot][0]
            seconds: float | None = 0.0  # for a part without a request, which goes
            if part.size or part.origin.came_back:
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

    def _next_slot(self) -> str:
        """Return the first one of the slots with the fewest pages under way."""
        best = self._line[0]
        fewest = self._under_way(best)
        for slot in islice(self._line, 1, LOOKS):
            if not fewest:
                break
            pages = self._under_way(slot)
            if pages < fewest:
                best = slot
                fewest = pages
        return best

    def _hand_out(self, part: QueuePart) -> Request | None:
        """Take a request of a part that may go; ``None``: look for another one."""
        queued = part.origin
        number = None
        request: Request | None
        if queued.came_back:
            number, request, counted_by = queued.came_back.pop(0)
            counted_by.size -= 1
            self._gate.returned -= 1
        else:
            request = self._read(part)
            if request is None and part.size:  # no file descriptor is left: connections have them
                self._fall_asleep(part, _NEXT_TRY)
                return None
            if request is not None and queued is self._mixed:
                self.push(request)  # it waits in the part of its own origin
                request = None
        # Other slots, and other parts of this slot, come first from now on.
        ready = self._ready[part.slot]
        ready.remove(part)
        self._line.remove(part.slot)
        if part.size or queued.came_back:
            ready.append(part)
        else:
            if self._disk is not None:
                part.queue.close()
            del queued.parts[self, part.slot]
        if ready:
            self._line.append(part.slot)
        else:
            del self._ready[part.slot]
        if request is None:
            self._gate.forget(queued)
        else:
            self._gate.hand_out(request, queued, number)
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
        ready = self._ready[part.slot]
        ready.remove(part)
        if not ready:
            del self._ready[part.slot]
            self._line.remove(part.slot)
        self._gate.sleep(part, seconds)
        if part.origin.awaits is not None:
            self._waiting[part] = None

    def wake(self, part: QueuePart) -> None:
        """Make a part that slept the first one of its slot: its next request may go."""
        self._waiting.pop(part, None)
        ready = self._ready.setdefault(part.slot, [])
        if not ready:
            self._line.appendleft(part.slot)
        ready.insert(0, part)

    # The end of the crawl.

    def take_all(self) -> list[Request]:
        """Take out all requests as a crawl closes; what came back comes first."""
        self._gate.note_closing()
        found = self._gate.all_returned(self)
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
        for request in self._gate.all_returned(self):
            try:
                self.push(request)
            except (ValueError, OSError):  # the disk may be full
                text = "Cannot be written to JOBDIR: %s"
                logger.debug(text, request, extra={"spider": self._crawler.spider})
        return self._disk.close()
