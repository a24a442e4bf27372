"""OriginPriorityQueue: a queue for Scrapy's scheduler, by origin.

It hands out a request only if its origin may have one now; `gate.py` says which origins may. It has
one of Scrapy's queues for each downloader slot and origin, and one for each slot for requests that
no robots.txt decides about.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeVar

from scrapy import Request
from scrapy.pqueues import ScrapyPriorityQueue

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._scrapy import under_way_of
from scrapy_robots_rfc.scheduling.disk import QueueFolder, lacks_descriptors, most_descriptors
from scrapy_robots_rfc.scheduling.gate import LOOKS, MARK, gate_of
from scrapy_robots_rfc.scheduling.part import (
    MIXED,
    UNDECIDED,
    Lookup,
    QueuedOrigin,
    QueuePart,
    QueueSlot,
    slot_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy.crawler import Crawler

logger: logging.Logger = logging.getLogger(__name__)

# What a priority of one of Scrapy's queues may use: two files for its requests, and two for its
# start requests.
_DESCRIPTORS = 4
# Seconds after which a queue that lacked a file descriptor is opened again.
_NEXT_TRY = 1.0

T = TypeVar("T")


class OriginPriorityQueue:
    """SCHEDULER_PRIORITY_QUEUE by origin. Without `RfcRobotsTxtMiddleware` every origin is ready.

    :param crawler: the crawl.
    :param downstream_queue_cls: of the requests of one priority.
    :param key: the folder of a queue on disk; empty: it is in memory.
    :param startprios: what `close` of an earlier crawl has returned.
    :param start_queue_cls: of start requests, if theirs is another one.
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
        self._queue_cls = downstream_queue_cls
        self._start_queue_cls = start_queue_cls
        self._gate = gate_of(crawler)
        self._under_way = under_way_of(crawler)
        #: How many requests it has, those that came back to it included.
        self.size: int = 0
        self._slots = Lookup[QueueSlot]()
        # The slots with parts that are ready. The first of those with as few pages under way is
        # next, and goes to the end then.
        self._line: deque[QueueSlot] = deque()
        # Parts that sleep because of a robots.txt, in the order in which they fell asleep.
        self._waiting: OrderedDict[QueuePart, None] = OrderedDict()
        # On disk: the parts that are open, the one that was used last at the end.
        self._open_parts: OrderedDict[QueuePart, None] = OrderedDict()
        self._most_open = most_descriptors() // _DESCRIPTORS
        self._disk: QueueFolder | None = None
        if key:
            self._disk = QueueFolder(crawler, key)
            self._resume(startprios or {})
            self._gate.save = self.save

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **options: Any) -> Self:  # noqa: ANN401 - as above
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
        part = self._part_of(request, queued)
        if number is not None and queued is not None:
            self._gate.came_back(queued, request, self, number)
            self.size += 1
            assert self._crawler.stats is not None
            self._crawler.stats.inc_value(stats.DEFERRED)
            return
        try:
            self._write(part, request)
        except Exception:
            if part.is_empty():  # the request cannot be written
                self._remove(part)
            raise

    def _write(self, part: QueuePart, request: Request) -> None:
        self._with_files(part, lambda queue: queue.push(request))
        if self._disk is not None:
            priority = self._opened(part).priority(request)
            if priority not in part.priorities:
                part.priorities.append(priority)
                self._disk.note(part.key, part.priorities)
        self._count(part, 1)

    def _count(self, part: QueuePart, more: int) -> None:
        self.size += more
        part.size += more
        if part.origin is not None:
            part.origin.size += more

    def _part_of(self, request: Request, queued: QueuedOrigin | None) -> QueuePart:
        """Return the part of a request, a new one if there is none."""
        slot = self._slot_named(slot_of(request))
        name = UNDECIDED if queued is None else queued.name
        part = slot.parts.get(name)
        if part is None:
            part = self._add(slot, name, queued)
            if self._disk is not None:
                self._disk.begin(part.key)
        return part

    def _slot_named(self, name: str) -> QueueSlot:
        slots = self._slots.dict_of(name)
        slot = slots.get(name)
        if slot is None:
            slot = slots[name] = QueueSlot(name)
        return slot

    def _add(self, slot: QueueSlot, name: str, origin: QueuedOrigin | None) -> QueuePart:
        part = slot.parts[name] = QueuePart(self, slot, name, origin)
        if origin is not None:
            origin.parts += 1
        self._into_line(part)
        return part

    # Out.

    def pop(self) -> Request | None:
        """Return a request that may go now, which takes its origin's turn; ``None``: none may."""
        if not self.size:
            return None
        self._gate.wake_due()
        for _ in range(LOOKS):
            part = self._next_part()
            if part is None:
                break
            if self._may_go(part):
                request = self._hand_out(part)
                if request is not None:
                    return request
        else:
            self._gate.look_again()
        self._gate.end_lost_trials()
        self._line_up()
        return None

    def _line_up(self) -> None:
        """Put what Scrapy would hand out now, if it waited for no file, before what comes later.

        So requests leave in the order in which they leave in a crawl that obeys no robots.txt.
        """
        for part in list(islice(self._waiting, self._gate.room())):
            request = self._read(part)
            if request is None or part.origin is None:
                del self._waiting[part]
            else:
                self._gate.came_back(part.origin, request, self)
                self.size += 1

    def peek(self) -> Request | None:
        """Return a request that may go now, and leave it in the queue."""
        for _ in range(LOOKS):
            part = self._next_part()
            if part is None:
                break
            if self._may_go(part):
                if part.origin is not None and part.origin.came_back:
                    return part.origin.came_back[0].request
                return self._opened(part).peek()
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

    def _may_go(self, part: QueuePart) -> bool:
        """Whether a part may hand out a request now; otherwise it sleeps, until it is woken."""
        seconds = self._gate.seconds(part.origin)
        if seconds == 0 or part.origin is None:  # without an origin it never waits
            return True
        self._fall_asleep(part, seconds)
        if self._gate.waits(part.origin):
            self._waiting[part] = None
        return False

    def _fall_asleep(self, part: QueuePart, seconds: float | None) -> None:
        self._out_of_line(part)
        part.asleep = True
        self._gate.sleep(part, seconds)

    def _into_line(self, part: QueuePart, *, first: bool = False) -> None:
        ready = part.slot.ready
        if not ready:
            if first:
                self._line.appendleft(part.slot)
            else:
                self._line.append(part.slot)
        ready.insert(0 if first else len(ready), part)

    def _out_of_line(self, part: QueuePart) -> None:
        part.slot.ready.remove(part)
        if not part.slot.ready:
            self._line.remove(part.slot)

    def wake(self, part: QueuePart) -> None:
        """Put a part back into the line, as the first one: its next request may go."""
        self._waiting.pop(part, None)
        if part.asleep:
            part.asleep = False
            self._into_line(part, first=True)

    def _hand_out(self, part: QueuePart) -> Request | None:
        """Take a request of a part that may go; ``None``: look for another one."""
        queued = part.origin
        number = None
        request: Request | None
        if queued is not None and queued.came_back:
            number, request, queue = self._gate.next_returned(queued)
            queue.size -= 1
        else:
            request = self._read(part)
            if request is not None and part.name == MIXED:
                queued = self._gate.of(request)
                if self._gate.seconds(queued) != 0:  # it waits in the part of its own origin
                    self._write(self._part_of(request, queued), request)
                    request = None
        if request is not None:
            self._gate.hand_out(request, queued, number)
        if part.is_empty():
            self._remove(part)
        elif request is None and part.queue is None:  # connections may have all descriptors
            self._fall_asleep(part, _NEXT_TRY)
        else:
            self._to_the_end(part)
        return request

    def _read(self, part: QueuePart) -> Request | None:
        """Take a request from Scrapy's queue; ``None``, too, where no file descriptor is left."""
        if not part.size:
            return None
        request = None
        try:
            request = self._with_files(part, ScrapyPriorityQueue.pop)
        except Exception as error:
            if self._disk is None:
                raise
            if lacks_descriptors(error):
                return None
            self._give_up(part, self._disk, error)
        self._count(part, -part.size if request is None else -1)
        return request

    def _to_the_end(self, part: QueuePart) -> None:
        """Let other slots, and other parts of this slot, come first."""
        slot = part.slot
        if slot.ready[-1] is not part:
            slot.ready.remove(part)
            slot.ready.append(part)
        if self._line[-1] is not slot:
            self._line.remove(slot)
            self._line.append(slot)

    def _remove(self, part: QueuePart) -> None:
        """Forget a part that has no request."""
        del part.slot.parts[part.name]
        if not part.slot.parts:
            del self._slots.dict_of(part.slot.name)[part.slot.name]
        if not part.asleep:
            self._out_of_line(part)
        part.asleep = False
        self._waiting.pop(part, None)
        if self._disk is not None:
            self._close_part(part)
            self._disk.forget(part.key)
        if part.origin is not None:
            part.origin.parts -= 1
            self._gate.forget(part.origin)

    # On disk.

    def _resume(self, state: Mapping[str, list[int]]) -> None:
        assert self._disk is not None
        self._disk.resume(state)
        for key, priorities in state.items():
            part = self._add_named(key)
            part.priorities = list(priorities)
            try:
                self._count(part, self._with_files(part, len))
            except Exception as error:
                if lacks_descriptors(error):
                    raise
                self._give_up(part, self._disk, error)
            if part.is_empty():
                self._remove(part)

    def _add_named(self, key: str) -> QueuePart:
        """Add the part that has a key in the state; Scrapy's own queue has other keys."""
        slot, space, name = key.rpartition(" ")
        if space and name == UNDECIDED:
            return self._add(self._slot_named(slot), UNDECIDED, None)
        queued = self._gate.of(Request(f"{name}/")) if space and "://" in name else None
        if queued is None:
            return self._add(self._slot_named(key), MIXED, None)
        return self._add(self._slot_named(slot), queued.name, queued)

    def _opened(self, part: QueuePart) -> ScrapyPriorityQueue:
        """Return Scrapy's queue of a part; if too many files are open then, close others."""
        if part.queue is None:
            part.queue = ScrapyPriorityQueue(
                self._crawler,
                self._queue_cls,
                "" if self._disk is None else str(self._disk.of(part.key)),
                part.priorities,
                start_queue_cls=self._start_queue_cls,
            )
        if self._disk is not None:
            self._open_parts[part] = None
            self._open_parts.move_to_end(part)
            while len(self._open_parts) > 1 and self._open_priorities() > self._most_open:
                self._close_part(next(iter(self._open_parts)))
        return part.queue

    def _with_files(self, part: QueuePart, work: Callable[[ScrapyPriorityQueue], T]) -> T:
        """Use Scrapy's queue of a part; if that lacks a file descriptor, close others first."""
        while True:
            try:
                return work(self._opened(part))
            except OSError as error:
                other = next((each for each in self._open_parts if each is not part), None)
                if other is None or not lacks_descriptors(error):
                    raise
                self._close_part(other)

    def _open_priorities(self) -> int:
        return sum(max(1, len(part.priorities)) for part in self._open_parts)

    def _close_part(self, part: QueuePart) -> None:
        """Close Scrapy's queue of a part, if it is open, so that all of it is on disk."""
        if part.queue is None or self._disk is None:
            return
        priorities = part.queue.close()
        part.queue = None
        self._open_parts.pop(part, None)
        if priorities != part.priorities:
            part.priorities = priorities
            self._disk.note(part.key, priorities)

    def _give_up(self, part: QueuePart, disk: QueueFolder, error: Exception) -> None:
        """Remove what is on disk of a part, which cannot be read: what is pushed later is new."""
        logger.warning(
            "Requests of %s in JOBDIR cannot be read and are lost: its process was killed (%s)",
            part.key,
            str(error),
            extra={"spider": self._crawler.spider},
        )
        if part.queue is not None:
            with suppress(Exception):
                part.queue.close()
        part.queue = None
        part.priorities = []
        self._open_parts.pop(part, None)
        disk.clear(part.key)
        disk.note(part.key, part.priorities)

    def save(self) -> None:
        """Write to disk what a process that is killed would lose; the state a moment later."""
        for part in list(self._open_parts):
            self._close_part(part)
        if self._disk is not None:
            self._disk.save()

    def join(self) -> None:
        """Wait until the state is written, if it is being written."""
        if self._disk is not None:
            self._disk.join()

    # The end of the crawl.

    def take_all(self) -> list[Request]:
        """Take out all requests as a crawl closes; what came back comes first."""
        self._gate.note_closing()
        found = [request for _, request in self._returned()]
        for part in [part for slot in self._slots for part in slot.parts.values()]:
            while (request := self._read(part)) is not None:
                found.append(request)
        return found

    def close(self) -> dict[str, list[int]]:
        """Write what came back, close all queues, and return what is needed to go on."""
        self._gate.note_closing()
        if self._disk is None:
            return {}  # it is lost, as with Scrapy's own queue
        for queued, request in self._returned():
            try:
                self._write(self._part_of(request, queued), request)
            except ValueError:
                text = "Cannot be written to JOBDIR: %s"
                logger.debug(text, request, extra={"spider": self._crawler.spider})
        for part in list(self._open_parts):
            self._close_part(part)
        return self._disk.last()

    def _returned(self) -> list[tuple[QueuedOrigin, Request]]:
        found = self._gate.all_returned(self)
        self.size -= len(found)
        return found
