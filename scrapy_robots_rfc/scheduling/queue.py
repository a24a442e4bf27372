"""OriginPriorityQueue, a priority queue for Scrapy's scheduler that groups requests by origin.

It uses one of Scrapy's own priority queues for each downloader slot and origin, plus one per slot
for requests that aren't subject to robots.txt. Each of them is a "part" (`QueuePart`). A request is
handed out only if `Gate.wait` allows it. Otherwise its part is parked, which means that it is
skipped until it is woken. The files of disk queues are managed in `disk.py`.
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
from scrapy_robots_rfc.scheduling.disk import QueueFolder, key_of
from scrapy_robots_rfc.scheduling.gate import MAX_LOOKS, QueuedOrigin, gate_of, restore_filter
from scrapy_robots_rfc.scheduling.sharded_dict import ShardedDict
from scrapy_robots_rfc.scheduling.shortage import is_shortage
from scrapy_robots_rfc.scheduling.throttle import slot_of

logger: logging.Logger = logging.getLogger(__name__)

#: Maximum number of requests that `pop` peeks at in one call, because each one may start a fetch
#: and may have to be read from disk.
MAX_PEEKS = 20
MAX_DISK_PEEKS = 4

# Seconds to wait before retrying a queue that couldn't get a file descriptor.
_RETRY_DELAY = 1.0


class QueueOnDisk:
    """One of Scrapy's disk queues. It is closed while others need its file descriptors.

    :param key: its key in the scheduler's state. The folder name is derived from it.
    """

    def __init__(self, folder: QueueFolder, key: str) -> None:
        self._folder = folder
        self._key = key

    def push(self, request: Request) -> None:
        """Write a request.

        :raises ValueError: the request cannot be written, so Scrapy keeps it in memory.
        """
        try:
            self._folder.push(self._key, request)
        except Exception as error:
            if isinstance(error, OSError) or is_shortage(error):
                raise ValueError(str(error)) from error
            raise

    def pop(self) -> Request | None:
        """Remove and return the next request, or return `None` if there is none.

        :raises OSError: no file descriptors are left, or the disk is full.
        """
        return self._folder.pop(self._key)

    def peek(self) -> Request | None:
        """Return the request that `pop` would return next, or `None` if it cannot be read."""
        return self._folder.peek(self._key)

    def __len__(self) -> int:
        return self._folder.use(self._key, len)

    def close(self) -> None:
        """Remove the queue, which is empty by now."""
        self._folder.remove(self._key)


@dataclass(slots=True, eq=False, repr=False)
class QueuePart:
    """Requests for a single origin in one downloader slot.

    :param owner: the queue that the part belongs to.
    :param slot: the name of the slot.
    :param queued_origin: the gate's state of the origin. It counts all parts of the origin.
    :param queue: one of Scrapy's priority queues.
    :param size: number of requests in it.
    :param is_copied: True if the next request of an unsorted part is already in its own part, too.
    """

    owner: "OriginPriorityQueue"
    slot: str
    queued_origin: QueuedOrigin
    queue: ScrapyPriorityQueue | QueueOnDisk
    size: int = 0
    is_copied: bool = False

    def unpark(self) -> None:
        """Put the part first in its slot."""
        self.owner.unpark(self)

    def add_to_size(self, count: int) -> None:
        """Count added requests, or removed ones if the count is negative."""
        self.size += count
        self.queued_origin.size += count
        self.owner.size += count


class OriginPriorityQueue:
    """A SCHEDULER_PRIORITY_QUEUE that groups requests by origin.

    Without `RfcRobotsTxtMiddleware`, all origins are always ready.

    :param crawler: the crawl.
    :param downstream_queue_cls: the queue class used for each priority.
    :param key: the folder for a disk queue, or an empty string for a memory queue.
    :param startprios: the state returned by `close` in an earlier crawl.
    :param start_queue_cls: the queue class for start requests, if it differs.
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
        # Each slot's parts that are not parked, in the order in which they are tried.
        self._ready: ShardedDict[str, list[QueuePart]] = ShardedDict()
        # The slots with such parts. Of the slots with the fewest pages in progress, the first is
        # used next and then moved to the end.
        self._slots: deque[str] = deque()
        self._peeks = 0  # the number of peeks in the current call of `pop`, which limits them
        # The origin used for parts written by Scrapy's own queue, which may contain several
        # origins, and for parts whose scheme is no longer obeyed.
        self._unsorted = QueuedOrigin(None)
        self._logged_shortage = False  # True if missing descriptors or disk space were logged
        self._disk: QueueFolder | None = None
        if key:  # a disk queue
            classes = (downstream_queue_cls, start_queue_cls)
            self._disk = QueueFolder(crawler, key, classes, startprios or {})
            for part_key in self._disk.keys:
                self._resume(part_key)
            self._gate.save = self._disk.save  # called every few seconds, in case of SIGKILL

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **options: Any) -> Self:  # noqa: ANN401
        """Create a queue, as called by Scrapy's scheduler."""
        return cls(crawler, *args, **options)

    def __len__(self) -> int:
        return self.size

    # Adding requests.

    def push(self, request: Request) -> None:
        """Queue a request.

        :raises ValueError: the request cannot be written to disk.
        """
        # A request that the middleware returned has `dont_filter`, because the dupefilter knows it
        # already. It has passed the dupefilter by now, so reset that.
        restore_filter(request)
        part = self._part_for(request)
        part.queue.push(request)
        part.add_to_size(1)

    def _part_for(self, request: Request) -> QueuePart:
        """Return the part for a request's origin and slot. Create it if necessary."""
        slot, queued_origin = self._place_of(request)
        part: QueuePart | None = queued_origin.parts.get((self, slot))
        return self._new_part(slot, queued_origin) if part is None else part

    def _new_part(
        self, slot: str, queued_origin: QueuedOrigin, key: str | None = None
    ) -> QueuePart:
        """Create a part for an origin, and put it last in its slot.

        :param key: identifies the part in the scheduler's state and names its folder. If it is
            `None`, it is derived from the slot and origin.
        """
        queue: ScrapyPriorityQueue | QueueOnDisk
        if self._disk is None:
            queue = self._make_queue("")
        else:
            if key is None:
                key = key_of(slot, queued_origin.origin)
            queue = QueueOnDisk(self._disk, key)
        part = QueuePart(self, slot, queued_origin, queue)
        queued_origin.parts[self, slot] = part
        ready = self._ready.setdefault(slot, [])
        if not ready:
            self._slots.append(slot)
        ready.append(part)
        return part

    def _resume(self, key: str) -> None:
        """Restore a part by its key in the state, if the key is ours.

        Otherwise the part is unsorted. It was written by Scrapy's own queue, whose keys are slot
        names that may look like ours, or by a crawl that obeyed robots.txt for other schemes. As
        its slot name, the key is enough, because `_sort_next` moves the requests to their own
        slots.
        """
        assert self._disk is not None
        request = self._disk.peek(key)
        slot, queued_origin = self._named_by(key) if request is None else self._place_of(request)
        is_ours = key == key_of(slot, queued_origin.origin)
        if not is_ours or (self, slot) in queued_origin.parts:
            slot, queued_origin = key, self._unsorted
            if " " in key:  # a part for an origin may have the same key later
                key = self._disk.make_provisional(key)
        part = self._new_part(slot, queued_origin, key)
        part.add_to_size(len(part.queue))

    def _named_by(self, key: str) -> tuple[str, QueuedOrigin]:
        """Return the slot and origin that a key names, if it is ours.

        This is used if the first request cannot be read, or its queue class has no `peek`.
        """
        slot, _, origin_text = key.rpartition(" ")
        # The gate looks up origins by request, so make one up. A `data:` URL has no origin.
        url = f"{origin_text}/" if "://" in origin_text else "data:,"
        try:
            return slot, self._gate.queued_origin(Request(url))
        except ValueError:  # a slot name of Scrapy's own queue that contains an invalid URL
            return key, self._unsorted

    def _place_of(self, request: Request) -> tuple[str, QueuedOrigin]:
        """Return a request's slot and origin."""
        return slot_of(request), self._gate.queued_origin(request)

    # Removing requests.

    def pop(self) -> Request | None:
        """Return a request that may be handed out now, or `None` if there is none.

        Each call checks a limited number of parts. If there are more, it wakes the engine, so that
        the engine calls it again.
        """
        if not (self.size or self._slots):  # if only `_slots` is left, it has empty parts to remove
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
            seconds: float | None = 0.0  # an empty part is removed below, so it must not be parked
            if part.size:
                seconds = self._gate.wait(part.queued_origin, partial(self._peek, part))
            if seconds != 0:  # including `None`
                self._park(part, seconds)
            elif part.queued_origin is self._unsorted:
                self._sort_next(part)
            else:
                request = self._take(part)
                if request is not None:
                    return request
        wake_engine(self._crawler)
        return None

    def _next_slot(self) -> str:
        """Return the first slot among those with the fewest pages in progress.

        To save time, only the first MAX_LOOKS slots are compared.
        """
        best = self._slots[0]
        if len(self._slots) == 1:
            return best
        fewest = self._pages_under_way(best)
        for slot in islice(self._slots, 1, MAX_LOOKS):
            if fewest == 0:  # no slot can have fewer
                break
            pages = self._pages_under_way(slot)
            if pages < fewest:
                best = slot
                fewest = pages
        return best

    def _peek(self, part: QueuePart) -> Request | None:
        """Return the next request in a part, or `None` if it cannot be read."""
        self._peeks += 1
        return part.queue.peek() if isinstance(part.queue, QueueOnDisk) else peek(part.queue)

    def _take(self, part: QueuePart) -> Request | None:
        """Hand out a part's next request, or return `None` if another part has to be tried.

        The part is then the last one in its slot, or removed if it is empty. If no file descriptors
        are left, it is parked instead.
        """
        request = self._pop_from(part)
        if request is None and part.size:  # no descriptors or disk space is left
            self._park(part, _RETRY_DELAY)
            return None
        self._move_back_or_remove(part)
        if request is not None:
            self._gate.hand_out(request, part.queued_origin)
        if not part.queued_origin.parts:
            self._gate.forget(part.queued_origin)
        return request

    def _sort_next(self, part: QueuePart) -> None:
        """Move the next request from an unsorted part to the part for its origin.

        The request is copied before it is removed, so that it isn't lost if the disk is full. If
        the part is empty, remove the part.
        """
        if not part.is_copied:
            peeked = self._peek(part) if part.size else None
            part.is_copied = peeked is not None and self._try_to_copy(peeked)
            if peeked is not None and not part.is_copied:  # the disk is full
                self._park(part, _RETRY_DELAY)
                return
        popped = self._pop_from(part)
        if popped is None and part.size:  # no descriptors or disk space is left
            self._park(part, _RETRY_DELAY)
            return
        if popped is not None and not part.is_copied:
            # It couldn't be peeked at: it comes after one that cannot be read, or its queue class
            # has no `peek`.
            self.push(popped)
        part.is_copied = False
        self._move_back_or_remove(part)

    def _try_to_copy(self, request: Request) -> bool:
        """Write a request to the part for its origin, and return whether it is now on disk.

        Writes are buffered, so a full disk may only be noticed when `flush` closes the files. That
        doesn't raise an error, but the queue is then no longer than before.
        """
        assert self._disk is not None
        part = self._part_for(request)
        try:
            length_before = len(part.queue)
            self.push(request)
            self._disk.flush()
            if len(part.queue) > length_before:
                return True
        except Exception as error:  # noqa: BLE001 - each queue class raises its own errors
            self._log_shortage(error)
            return False
        part.add_to_size(-1)  # `push` counted the request, but it isn't on disk
        return False

    def _log_shortage(self, error: Exception) -> None:
        if not self._logged_shortage:
            self._logged_shortage = True
            text = "Cannot use the queue's files in JOBDIR, so requests wait (%s)"
            logger.error(text, error, extra={"spider": self._crawler.spider})

    def _pop_from(self, part: QueuePart) -> Request | None:
        """Pop a request from Scrapy's queue, and update the size.

        :returns: `None` if the queue is empty, so its size is 0 now, or if no file descriptors are
            left, so its size is unchanged.
        """
        try:
            request = part.queue.pop()
        except Exception as error:
            if is_shortage(error):
                self._log_shortage(error)
                return None
            raise
        # A killed process may have left fewer requests on disk than it had counted, so an empty
        # queue sets the size to 0.
        part.add_to_size(-part.size if request is None else -1)
        return request

    def _move_back_or_remove(self, part: QueuePart) -> None:
        """Put a part last in its slot, or remove it if it is empty. Also put the slot last."""
        ready = self._ready[part.slot]
        ready.remove(part)
        self._slots.remove(part.slot)
        if part.size:
            ready.append(part)
        else:
            if self._disk is not None:
                part.queue.close()  # removes its folder
            del part.queued_origin.parts[self, part.slot]
        if ready:
            self._slots.append(part.slot)
        else:
            del self._ready[part.slot]

    def _park(self, part: QueuePart, seconds: float | None) -> None:
        """Park a part for the seconds returned by `Gate.wait`."""
        ready = self._ready[part.slot]
        ready.remove(part)
        if not ready:
            del self._ready[part.slot]
            self._slots.remove(part.slot)
        self._gate.park(part, part.queued_origin, seconds)

    def unpark(self, part: QueuePart) -> None:
        """Put a parked part first in its slot."""
        ready = self._ready.setdefault(part.slot, [])
        if not ready:
            self._slots.appendleft(part.slot)
        ready.insert(0, part)

    # Closing.

    def take_all(self) -> list[Request]:
        """Remove and return all requests when the crawl closes."""
        self._gate.count_waiting()  # before they are removed
        taken = []
        for queued_origin in self._gate.all_origins():
            for part in queued_origin.parts.values():
                if part.owner is self:  # the scheduler may have other queues
                    while (request := self._pop_from(part)) is not None:
                        taken.append(request)
        return taken

    def close(self) -> dict[str, list[int]]:
        """Close all queues, and return the state that a later crawl can resume from."""
        self._gate.count_waiting()
        return {} if self._disk is None else self._disk.close()
