"""OriginPriorityQueue, a priority queue for Scrapy's scheduler that groups requests by origin.

Each downloader slot has a "part" (`QueuePart`) for each origin, and one for requests that aren't
subject to robots.txt. A request is handed out only with a permit from `Gate.permit`. Without one,
its part is parked, which means that it is skipped until its origin is woken. In memory, a part is
one of Scrapy's own priority queues. With JOBDIR, it is rows of a file (`disk.py`).
"""

import gc
import logging
import math
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc._scrapy import page_counter, peek, wake_engine
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.disk import (
    FileUnavailableError,
    PartKey,
    RequestFile,
    StoredPart,
    is_lifo,
    request_file,
)
from scrapy_robots_rfc.scheduling.gate import (
    MAX_LOOKS,
    QueuedOrigin,
    gate_of,
    restore_filter,
)
from scrapy_robots_rfc.scheduling.throttle import slot_of

logger: logging.Logger = logging.getLogger(__name__)

# Maximum number of slots to compare when choosing the next one.
_MAX_SLOTS = 200


@dataclass(slots=True, eq=False, repr=False)
class QueuePart:
    """Requests for a single origin in one downloader slot.

    :param owner: the queue that the part belongs to.
    :param key: the slot, and the origin that is stored with the requests.
    :param queued_origin: the gate's state of the origin.
    :param queue: one of Scrapy's priority queues, or requests on disk.
    :param size: number of requests in it.
    """

    owner: "OriginPriorityQueue"
    key: PartKey
    queued_origin: QueuedOrigin
    queue: ScrapyPriorityQueue | StoredPart
    size: int = 0

    def unpark(self) -> None:
        """Put the part first in its slot."""
        self.owner.unpark(self)

    def peek(self) -> Request | None:
        """Return the next request, or `None` if it cannot be read."""
        return self.queue.peek() if isinstance(self.queue, StoredPart) else peek(self.queue)


class OriginPriorityQueue:
    """A SCHEDULER_PRIORITY_QUEUE that groups requests by origin.

    Without `RfcRobotsTxtMiddleware`, all origins are always ready.

    :param crawler: the crawl.
    :param downstream_queue_cls: the queue class used for each priority.
    :param key: the folder for a disk queue, or an empty string for a memory queue.
    :param startprios: the state returned by `close` in an earlier crawl. It is not used.
    :param start_queue_cls: the queue class for start requests, if it differs.
    """

    def __init__(
        self,
        crawler: Crawler,
        downstream_queue_cls: type[Any],
        key: str,
        startprios: object = None,  # noqa: ARG002 - a parameter of Scrapy's queues
        *,
        start_queue_cls: type[Any] | None = None,
    ) -> None:
        self._crawler = crawler
        self._classes = (downstream_queue_cls, start_queue_cls)
        self._gate = gate_of(crawler)
        self._pages_under_way = page_counter(crawler)
        #: Number of requests in the queue.
        self.size: int = 0
        # The parts of each slot that are not parked, in the order in which they are tried. Of the
        # slots with the fewest pages in progress, the first is used next and then moved to the end.
        self._ready: OrderedDict[str, list[QueuePart]] = OrderedDict()
        self._file: RequestFile | None = None
        if key:  # a disk queue
            self._file = request_file(crawler, Path(key))
            is_start_lifo = None if start_queue_cls is None else is_lifo(start_queue_cls)
            self._order_of = partial(_order_of, is_lifo(downstream_queue_cls), is_start_lifo)
            self._restore_parts(self._file)

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
        if request.dont_filter:
            restore_filter(request)
        url = urlparse_cached(request)  # only once, because the look-up is slow
        queued_origin = self._gate.queued_origin(request, url)
        stored_origin = ""
        if self._file is not None:
            stored_origin = _stored_origin(request, queued_origin.origin)
        key = PartKey(slot_of(request, url), stored_origin)
        part = queued_origin.parts.get((self, key)) or self._new_part(key, queued_origin)
        part.queue.push(request)  # if it raises, a new part stays empty, and `pop` removes it
        part.size += 1
        self.size += 1

    def _new_part(self, key: PartKey, queued_origin: QueuedOrigin) -> QueuePart:
        """Create a part for an origin, and put it last in its slot."""
        queue: ScrapyPriorityQueue | StoredPart
        if self._file is None:
            queue_class, start_class = self._classes
            queue = ScrapyPriorityQueue(self._crawler, queue_class, "", start_queue_cls=start_class)
        else:
            queue = StoredPart(self._file, key, self._order_of)
        part = QueuePart(self, key, queued_origin, queue)
        queued_origin.parts[self, key] = part
        self._ready.setdefault(key.slot, []).append(part)
        return part

    def _restore_parts(self, file: RequestFile) -> None:
        """Create the parts of requests that an earlier process left."""
        was_enabled = gc.isenabled()
        gc.disable()  # it would scan all parts again and again, and so double the time
        try:
            for key, count in file.counts.items():
                part = self._new_part(key, self._gate.queued_origin_of_stored(key.origin))
                part.size = count
                self.size += count
        finally:
            if was_enabled:
                gc.enable()
        file.counts = {}  # not needed any longer

    # Removing requests.

    def pop(self) -> Request | None:
        """Return a request that may be handed out now, or `None` if there is none.

        Each call checks a limited number of parts. If there are more, it wakes the engine, so that
        the engine calls it again.
        """
        for _ in range(MAX_LOOKS):
            if not self._ready:
                return None
            # The usual case is a single slot, which is faster than comparing slots.
            slot = next(iter(self._ready)) if len(self._ready) == 1 else self._next_slot()
            request = self._take(self._ready[slot][0])
            if request is not None:
                return request
        wake_engine(self._crawler)
        return None

    def _next_slot(self) -> str:
        """Return the first slot among those with the fewest pages in progress.

        To save time, only the first `_MAX_SLOTS` slots are compared.
        """
        best, fewest = "", math.inf
        for slot in islice(self._ready, _MAX_SLOTS):
            pages = self._pages_under_way(slot)
            if pages < fewest:
                best, fewest = slot, pages
            if fewest == 0:  # no slot can have fewer
                break
        return best

    def _take(self, part: QueuePart) -> Request | None:
        """Hand out a part's next request, or return `None` if another part has to be tried."""
        request = None
        if part.size:  # 0 if its only request could not be pushed
            permit = self._gate.permit(part.queued_origin, part.peek)
            if permit is None:
                self._park(part)
                return None
            try:
                request = part.queue.pop()
            except FileUnavailableError:
                self._park(part)  # until the crawl ends, because the file is closing the spider
                return None
            part.size -= 1
            self.size -= 1
            if request is not None:
                self._gate.hand_out(request, part.queued_origin, permit)
        # Put the part last in its slot, or remove it if it is empty. Also put the slot last.
        ready = self._ready[part.key.slot]
        ready.remove(part)  # usually the first, unless `hand_out` has woken others
        if part.size:
            ready.append(part)
        else:
            del part.queued_origin.parts[self, part.key]
            self._gate.forget(part.queued_origin)  # unless it has other parts
        if ready:
            self._ready.move_to_end(part.key.slot)
        else:
            del self._ready[part.key.slot]
        return request

    def _park(self, part: QueuePart) -> None:
        """Skip a part until its origin is woken."""
        ready = self._ready[part.key.slot]
        ready.remove(part)
        if not ready:
            del self._ready[part.key.slot]
        part.queued_origin.parked.append(part)

    def unpark(self, part: QueuePart) -> None:
        """Put a parked part first in its slot, and the slot first if it is new.

        The part has waited for longer than others.
        """
        slot = part.key.slot
        if slot not in self._ready:
            self._ready[slot] = []
            self._ready.move_to_end(slot, last=False)
        self._ready[slot].insert(0, part)

    # Closing.

    def take_all(self) -> list[Request]:
        """Remove and return all requests of a queue in memory, because the crawl is closing.

        The disk queue, or the user's scheduler, then gets them.
        """
        self._gate.count_waiting()  # before they are removed
        taken = []
        for queued_origin in self._gate.origins.values():
            for part in queued_origin.parts.values():
                if part.owner is self:  # the scheduler may have other queues
                    while part.size and (request := part.queue.pop()) is not None:
                        part.size -= 1
                        self.size -= 1
                        taken.append(request)
        return taken

    def close(self) -> object:
        """Close the queue, and return the state that Scrapy writes to `active.json`."""
        self._gate.count_waiting()  # before they are closed
        if self._file is None:
            return {}
        self._store_from_memory()  # for example requests that didn't fit on the disk
        return self._file.close()

    def _store_from_memory(self) -> None:
        """Store requests that are in the scheduler's memory queue. Count the lost ones.

        The scheduler keeps requests there if `push` fails, because the disk was full or they can't
        be pickled. Those that still can't be stored are lost.
        """
        lost = 0
        # The scheduler's queues share the gate, so any other owner of parts is its memory queue.
        owners = {
            part.owner
            for queued_origin in self._gate.origins.values()
            for part in queued_origin.parts.values()
        }
        for memory_queue in owners - {self}:
            requests = memory_queue.take_all()
            # A class that hands out the last request first has to store the first one last.
            lifo = [request for request in reversed(requests) if self._order_of(request)[1]]
            fifo = [request for request in requests if not self._order_of(request)[1]]
            for request in lifo + fifo:
                try:
                    self.push(request)
                except ValueError:
                    lost += 1
        if lost:
            logger.error(
                "Lost requests that could not be written to JOBDIR: %d",
                lost,
                extra={"spider": self._crawler.spider},
            )


def _stored_origin(request: Request, origin: Origin | None) -> str:
    """Return the origin to store with a request, even if robots.txt doesn't apply to it now.

    It may apply when the crawl is resumed, because the settings may have changed.

    :param origin: the origin if robots.txt applies to it.
    :returns: an empty string for exempt requests and URLs without an origin.
    """
    if origin is None and not request.meta.get("dont_obey_robotstxt"):
        origin = Origin.of(request.url)
    return "" if origin is None else str(origin)


def _order_of(is_lifo: bool, is_start_lifo: bool | None, request: Request) -> tuple[bool, bool]:
    """Return `is_start` and `is_lifo` for `RequestFile.push`.

    :param is_lifo: whether the queue class hands out the last request first.
    :param is_start_lifo: the same for start requests, or `None` if they have no class of their own.
    """
    if is_start_lifo is not None and request.meta.get("is_start_request"):
        return True, is_start_lifo
    return False, is_lifo
