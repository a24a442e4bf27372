"""OriginPriorityQueue: a queue for Scrapy's scheduler that hands out a request only if its origin may have one now.

`gate.py` says which origins may. This queue has one of Scrapy's queues for each downloader slot and
origin, and one for each slot for requests that no robots.txt decides about.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections import OrderedDict, deque
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scrapy.pqueues import ScrapyPriorityQueue

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._scrapy import path_safe, under_way_of
from scrapy_robots_rfc.scheduling.disk import most_descriptors, remove_strays, replace_state
from scrapy_robots_rfc.scheduling.gate import LOOKS, Gate, QueuedOrigin, gate_of, slot_of
from scrapy_robots_rfc.scheduling.part import QueuePart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler

logger: logging.Logger = logging.getLogger(__name__)

# What a priority of one of Scrapy's queues may use: two files for its requests, and two for its
# start requests.
_DESCRIPTORS = 4

# What stands in a key in the place of an origin: no robots.txt decides about these requests.
_UNDECIDED = "*"


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
        self._folder = key
        #: Says which origins may have a request handed out; ``None``: the crawl obeys no
        #: robots.txt.
        self.gate: Gate | None = gate_of(crawler)
        self._under_way = under_way_of(crawler)
        self._size = 0
        self._parts: dict[str, QueuePart] = {}
        # The parts that are looked at, by slot. Slots with as many pages under way take turns, and
        # so do their parts.
        self._ready: dict[str, list[QueuePart]] = {}
        # The order of the slots. One that has no such part any more is left out when it is the
        # first.
        self._line: deque[str] = deque()
        # Parts of origins whose robots.txt is waited for.
        self._waiting: OrderedDict[str, QueuePart] = OrderedDict()
        # On disk: the parts that are open, the one that was used last at the end; and what `close`
        # is to return.
        self._open_parts: OrderedDict[str, QueuePart] = OrderedDict()
        self._state: dict[str, list[int]] = {}
        self._state_changed = False
        self._writer: threading.Thread | None = None
        self._most_open = most_descriptors() // _DESCRIPTORS
        # Folders of a crawl that was killed before they were in its state: what is in them cannot
        # be read.
        self._leftovers: set[str] = set()
        if key:
            self._resume(startprios or {})
            if self.gate is not None:
                self.gate.save = self.save

    @classmethod
    def from_crawler(
        cls,
        crawler: Crawler,
        downstream_queue_cls: type[Any],
        key: str,
        startprios: Mapping[str, list[int]] | None = None,
        *,
        start_queue_cls: type[Any] | None = None,
    ) -> Self:
        """Make a queue as Scrapy's scheduler asks for it."""
        return cls(crawler, downstream_queue_cls, key, startprios, start_queue_cls=start_queue_cls)

    def __len__(self) -> int:
        return self._size

    # In.

    def push(self, request: Request) -> None:
        """Queue a request. One that comes back goes before all others of its origin, in memory.

        :raises ValueError: a queue on disk cannot write it.
        """
        gate = self.gate
        number = None if gate is None else gate.taken_back(request)
        queued = None if gate is None else gate.of(request)
        part = self._part_of(request, queued)
        if number is not None and gate is not None and queued is not None:
            self._bring_back(gate, queued, number, request)
            assert self._crawler.stats is not None
            self._crawler.stats.inc_value(stats.DEFERRED)
            return
        try:
            self._write(part, request)
        finally:
            self._remove_if_empty(part)

    def _write(self, part: QueuePart, request: Request) -> None:
        queue = self._opened(part)
        queue.push(request)
        part.dirty = True
        priority = queue.priority(request)
        if priority not in part.priorities:
            part.priorities.append(priority)
            self._note_state(part)
        part.size += 1
        self._size += 1
        if part.origin is not None:
            part.origin.size += 1

    def _part_of(self, request: Request, queued: QueuedOrigin | None) -> QueuePart:
        slot = slot_of(request)
        key = f"{slot} {_UNDECIDED if queued is None else queued.name}"
        part = self._parts.get(key)
        if part is None:
            part = self._add(QueuePart(self, slot, key, queued))
            if path_safe(self._crawler, key) in self._leftovers:
                shutil.rmtree(Path(self._folder, path_safe(self._crawler, key)), ignore_errors=True)
        return part

    def _add(self, part: QueuePart) -> QueuePart:
        self._parts[part.key] = part
        if part.origin is not None:
            part.origin.parts += 1
        self._into_line(part)
        return part

    # Out.

    def pop(self) -> Request | None:
        """Return a request that may go now, which takes its origin's turn.

        ``None``: there is none now.
        """
        if not self._size:
            return None
        if self.gate is not None:
            self.gate.wake_due()
        for part in islice(self._candidates(), LOOKS):
            if not self._may_go(part):
                continue
            request = self._hand_out(part)
            if request is not None:
                return request
        if self.gate is not None:
            if self._ready:
                self.gate.look_again()
            self.gate.end_lost_trials()
            self._line_up(self.gate)
        return None

    def _line_up(self, gate: Gate) -> None:
        """Put what Scrapy would hand out now, if no robots.txt were waited for, before what is pushed later.

        So requests leave in the order in which they leave in a crawl that obeys no robots.txt.
        """
        for part in list(islice(self._waiting.values(), gate.room())):
            request = self._read(part)
            if request is None or part.origin is None:
                del self._waiting[part.key]
            else:
                self._bring_back(gate, part.origin, gate.next_number(), request)

    def _bring_back(self, gate: Gate, queued: QueuedOrigin, number: int, request: Request) -> None:
        gate.came_back(queued, (number, request, self._count_less))
        queued.size += 1
        self._size += 1

    def peek(self) -> Request | None:
        """Return a request that may go now, and leave it in the queue."""
        for part in islice(self._candidates(), LOOKS):
            if self._may_go(part):
                if part.origin is not None and part.origin.returned:
                    return part.origin.returned[0][1]
                return self._opened(part).peek()
        return None

    def _candidates(self) -> Iterator[QueuePart]:
        """Yield the first part of the slot that has the fewest pages under way, again and again.

        Whoever asks either takes a request of that part, or takes the part out of the line.
        """
        line = self._line
        while self._ready:
            best = None
            fewest = 0
            for _ in range(min(len(line), LOOKS)):
                slot = line[0]
                if slot not in self._ready:
                    line.popleft()
                    continue
                pages = self._under_way(slot)
                if best is None or pages < fewest:
                    best, fewest = slot, pages
                if not pages:
                    break
                line.rotate(-1)
            if best is not None:
                yield self._ready[best][0]

    def _may_go(self, part: QueuePart) -> bool:
        """Whether a part may hand out a request now.

        One that may not goes out of the line, until it is woken.
        """
        seconds = 0.0 if self.gate is None else self.gate.seconds(part.origin)
        if seconds == 0:
            return True
        self._out_of_line(part)
        part.asleep = True
        if self.gate is not None and part.origin is not None:
            self.gate.sleep(part, part.origin, seconds)
            if self.gate.waits(part.origin):
                self._waiting[part.key] = part
        return False

    def _into_line(self, part: QueuePart, *, first: bool = False) -> None:
        parts = self._ready.get(part.slot)
        if parts is None:
            self._ready[part.slot] = [part]
        else:
            parts.insert(0 if first else len(parts), part)
        if first:
            self._line.appendleft(part.slot)
        elif parts is None:
            self._line.append(part.slot)

    def _out_of_line(self, part: QueuePart) -> None:
        parts = self._ready[part.slot]
        parts.remove(part)
        if not parts:
            del self._ready[part.slot]

    def wake(self, part: QueuePart) -> None:
        """Put a part back into the line, as the first one: its next request may go."""
        self._waiting.pop(part.key, None)
        if part.asleep:
            part.asleep = False
            self._into_line(part, first=True)

    def _hand_out(self, part: QueuePart) -> Request | None:
        """Take a request of a part that is the first one in the line.

        ``None``: look for another one.
        """
        queued = part.origin
        waited = queued is not None and bool(queued.returned)
        if self.gate is not None and queued is not None and waited:
            request = self.gate.first_returned(queued)
        else:
            found = self._read(part)
            if found is None:
                self._remove_if_empty(part)
                return None
            request = found
        self._to_the_end(part)
        leaves = True
        if self.gate is not None:
            if part.mixed:
                queued = self.gate.of(request)
                leaves = self.gate.seconds(queued) == 0
            if leaves:
                self.gate.hand_out(request, queued, waited=waited)
            else:
                self._write(self._part_of(request, queued), request)
        self._remove_if_empty(part)
        return request if leaves else None

    def _read(self, part: QueuePart) -> Request | None:
        """Take a request from Scrapy's queue.

        What a killed process has left may not be readable: it is given up.
        """
        if not part.size:
            return None
        try:
            request = self._opened(part).pop()
        except Exception:
            if not self._folder:
                raise
            logger.warning(
                "%d requests of %s in JOBDIR cannot be read and are lost: the crawl before was killed",
                part.size,
                part.key,
                exc_info=True,
                extra={"spider": self._crawler.spider},
            )
            self._give_up(part)
            request = None
        part.dirty = True
        lost = 1 if request is not None else part.size
        part.size -= lost
        self._size -= lost
        if part.origin is not None:
            part.origin.size -= lost
        return request

    def _count_less(self) -> None:
        """Note that a request that came back to this queue was handed out."""
        self._size -= 1

    def _to_the_end(self, part: QueuePart) -> None:
        """Let other slots, and other parts of this slot, come first."""
        parts = self._ready[part.slot]
        parts.append(parts.pop(parts.index(part)))
        if self._line[0] == part.slot:
            self._line.rotate(-1)

    def _remove_if_empty(self, part: QueuePart) -> None:
        if (
            part.size
            or (part.origin is not None and part.origin.returned)
            or self._parts.get(part.key) is not part
        ):
            return
        del self._parts[part.key]
        if not part.asleep:
            self._out_of_line(part)
        part.asleep = False
        self._waiting.pop(part.key, None)
        if part.queue is not None:
            self._close_part(part)
        if self._state.pop(part.key, None) is not None:
            self._state_changed = True
        if self._folder:
            with suppress(OSError):  # what is not empty stays
                Path(self._folder, path_safe(self._crawler, part.key)).rmdir()
        if part.origin is not None and self.gate is not None:
            part.origin.parts -= 1
            self.gate.forget(part.origin)

    # On disk.

    def _resume(self, state: Mapping[str, list[int]]) -> None:
        for key, priorities in state.items():
            part = self._add(self._part_named(key))
            part.priorities = list(priorities)
            self._note_state(part)
            remove_strays(self._folder_of(part), priorities)
            try:
                part.size = len(self._opened(part))
            except Exception:  # noqa: BLE001 - whatever a killed process has left
                logger.warning(
                    "Requests of %s in JOBDIR cannot be read and are lost: the crawl before was killed",
                    key,
                )
                self._give_up(part)
            self._size += part.size
            if part.origin is not None:
                part.origin.size += part.size
            self._remove_if_empty(part)
        known = {path_safe(self._crawler, key) for key in state}
        with suppress(OSError):
            self._leftovers = {
                entry.name for entry in os.scandir(self._folder) if entry.is_dir()
            } - known

    def _part_named(self, key: str) -> QueuePart:
        slot, space, name = key.rpartition(" ")
        if not space or self.gate is None:
            return QueuePart(self, key, key, None, mixed=True)
        if name == _UNDECIDED:
            return QueuePart(self, slot, key, None)
        origin = self.gate.parse(name)
        if origin is None:
            return QueuePart(self, key, key, None, mixed=True)
        return QueuePart(self, slot, key, self.gate.named(origin))

    def _opened(self, part: QueuePart) -> ScrapyPriorityQueue:
        """Return Scrapy's queue of a part; if too many files are open then, close others."""
        if part.queue is None:
            part.queue = ScrapyPriorityQueue(
                self._crawler,
                self._queue_cls,
                self._folder_of(part),
                part.priorities,
                start_queue_cls=self._start_queue_cls,
            )
        if self._folder:
            self._open_parts[part.key] = part
            self._open_parts.move_to_end(part.key)
            while len(self._open_parts) > 1 and self._priorities_open() > self._most_open:
                self._close_part(next(iter(self._open_parts.values())))
        return part.queue

    def _folder_of(self, part: QueuePart) -> str:
        return f"{self._folder}/{path_safe(self._crawler, part.key)}"

    def _give_up(self, part: QueuePart) -> None:
        """Forget what is on disk of a part, which cannot be read: what is pushed later is new."""
        if part.queue is not None:
            with suppress(Exception):
                part.queue.close()
        part.queue = None
        part.priorities = []
        self._open_parts.pop(part.key, None)
        shutil.rmtree(self._folder_of(part), ignore_errors=True)

    def _priorities_open(self) -> int:
        return sum(max(1, len(part.priorities)) for part in self._open_parts.values())

    def _close_part(self, part: QueuePart) -> None:
        """Close Scrapy's queue of a part, so that all of it is on disk."""
        assert part.queue is not None
        priorities = part.queue.close()
        part.queue = None
        part.dirty = False
        self._open_parts.pop(part.key, None)
        if priorities != part.priorities:
            part.priorities = priorities
            self._note_state(part)

    def _note_state(self, part: QueuePart) -> None:
        if self._folder:
            self._state[part.key] = part.priorities
            self._state_changed = True

    def save(self) -> None:
        """Write to disk what a process that is killed would lose. A thread writes the state."""
        for part in list(self._open_parts.values()):
            if part.dirty:
                self._close_part(part)
        writing = self._writer is not None and self._writer.is_alive()
        if self._state_changed and not writing:
            self._state_changed = False
            self._writer = threading.Thread(
                target=replace_state, args=(self._folder, dict(self._state)), daemon=True
            )
            self._writer.start()

    def join(self) -> None:
        """Wait for the thread that writes the state, if it is at work."""
        if self._writer is not None:
            self._writer.join()

    def take_all(self) -> list[Request]:
        """Take out all requests, of a queue in memory that is closed.

        What came back comes first.
        """
        found: list[Request] = []
        if self.gate is not None:
            self.gate.note_closing()
            found += [request for _, request in self.gate.returned_to(self._count_less)]
        for part in list(self._parts.values()):
            while (request := self._read(part)) is not None:
                found.append(request)
        self._size = 0
        return found

    def close(self) -> dict[str, list[int]]:
        """Close all queues, write what came back to its ordinary one, and return what is needed to go on."""
        if self.gate is not None:
            self.gate.note_closing()
            self._write_returned(self.gate)
        for part in list(self._open_parts.values()):
            self._close_part(part)
        self.join()
        return {key: priorities for key, priorities in self._state.items() if priorities}

    def _write_returned(self, gate: Gate) -> None:
        for queued, request in gate.returned_to(self._count_less):
            try:
                self._write(self._part_of(request, queued), request)
            except ValueError:
                logger.debug(
                    "Cannot be written to JOBDIR: %s",
                    request,
                    extra={"spider": self._crawler.spider},
                )
