"""Gate: which origins may have a request handed out by the scheduler now.

`queue.py` asks it before it hands out a request; the middleware says what became of that request.
An origin is one of:

- ready: its next request may go;
- on trial: its robots.txt is unknown or stale, and one request was handed out to find out. The
  verdict about that request ends the trial;
- awaited: its robots.txt is being fetched. The end of the fetch wakes it;
- due at a time, or after an answer: `throttle.py` says when its next turn is, and wakes it.

A request that comes back leaves before all others of its origin, in the order of first hand-outs.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.pqueues import ScrapyPriorityQueue

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc._scrapy import is_closing, is_under_way, requests_under_way, wake
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.disk import QueueOnDisk
from scrapy_robots_rfc.scheduling.throttle import Throttle

if TYPE_CHECKING:
    from scrapy_robots_rfc.scheduling.queue import OriginPriorityQueue

#: Meta key of a request that goes back to the scheduler. Its value is what `dont_filter` was, and
#: the number of the request.
MARK = "robots_waits"

#: A request on trial that has not reached the middleware after so many seconds is with another
#: middleware, which may delay it for long: the next one of its origin is handed out.
PATIENCE = 0.25

#: A call of the queue looks at so many origins at most; the next call goes on.
LOOKS = 200

#: Seconds between two times that a queue on disk is saved: what was pushed before is safe from
#: SIGKILL.
SAVE_EVERY = 4.0

# Seconds after which an origin that is due later is looked at again: its site may ask for less by
# then.
_LONGEST_SLEEP = 5.0


@dataclass(slots=True, eq=False, repr=False)
class HandedOut:
    """A request that was handed out on trial, or that waited, until the middleware has judged it.

    :param number: by which it is lined up if it comes back.
    :param since: when it was handed out.
    :param waited: whether it waited for a robots.txt before.
    """

    queued: QueuedOrigin
    number: int
    since: float
    waited: bool

    @property
    def trial(self) -> bool:
        """Whether no other request of its origin is handed out before this one is judged."""
        return self.queued.awaits is self


@dataclass(slots=True, eq=False, repr=False)
class QueuedOrigin:
    """An origin with requests in the scheduler.

    :param origin: ``None``: no robots.txt decides about the requests.
    :param parts: of the queues, by their queues and slots.
    :param came_back: the requests that leave before all others, because they came back, or were
        lined up behind those. Each is after its number, by which they leave, and before the queue
        that counts it.
    :param awaits: what the next request waits for: a request on trial, or a fetch.
    :param waited: how many requests are still to leave of those that were in the scheduler when the
        last fetch ended.
    :param asleep: the parts that are looked at again when the trial, the fetch or the turn ends.
    """

    origin: Origin | None
    parts: dict[tuple[OriginPriorityQueue, str], QueuePart] = field(default_factory=dict)
    came_back: list[tuple[int, Request, OriginPriorityQueue]] = field(default_factory=list)
    awaits: HandedOut | PendingFetch | None = None
    waited: int = 0
    asleep: list[QueuePart] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many of its requests are in the scheduler."""
        return len(self.came_back) + sum(part.size for part in self.parts.values())


@dataclass(slots=True, eq=False, repr=False)
class QueuePart:
    """The requests of one origin in one downloader slot.

    :param owner: the queue that it is a part of.
    :param slot: its name.
    :param queue: has the requests that did not come back.
    :param size: how many these are.
    """

    owner: OriginPriorityQueue
    slot: str
    origin: QueuedOrigin
    queue: ScrapyPriorityQueue | QueueOnDisk
    size: int = 0


class Gate:
    """The gate of a crawl; all queues of its scheduler share it.

    :param origin_of: gives the origin of a request, ``None`` for one that has none.
    :param known: gives what is true if a request of an origin can be judged without a fetch.
    :param throttle: says when the next turn of an origin is; takes turns.
    """

    def __init__(
        self,
        crawler: Crawler,
        origin_of: Callable[[Request], Origin | None],
        known: Callable[[Origin], object],
        throttle: Throttle,
    ) -> None:
        self._crawler = crawler
        self._origin_of = origin_of
        self._known = known
        self._throttle = throttle
        throttle.on_turn = self.wake
        self._clock = throttle.clock
        #: The origins that have requests in the scheduler, or await something. ``None`` is always
        #: there, so that this dict has one name more than that of a queue's slots: else both would
        #: be enlarged in the same push, which takes milliseconds with 100,000 names.
        self.origins: dict[Origin | None, QueuedOrigin] = {None: QueuedOrigin(None)}
        self._numbers = itertools.count()
        #: How many requests came back or were lined up.
        self.returned: int = 0
        # How many may be lined up: as many as are handed out at once.
        self._most = crawler.settings.getint("CONCURRENT_REQUESTS") or LOOKS
        #: Parts that are due at a time, after that time and a number: parts are never compared.
        self.timed: list[tuple[float, int, QueuePart]] = []
        #: Requests on trial, and those that waited. The middleware takes them out.
        self.handed_out: dict[Request, HandedOut] = {}
        #: Called from time to time: a queue on disk writes what would be lost by SIGKILL.
        self.save: Callable[[], object] | None = None
        self._save_at = 0.0
        #: How many requests waited as the crawl closed, for a robots.txt or for a turn; ``None``
        #: before.
        self.left: int | None = None

    # Asked by the queues.

    def of(self, request: Request) -> QueuedOrigin:
        """Return the origin of a request, without one if no robots.txt decides about it."""
        origin = None
        if not request.meta.get("dont_obey_robotstxt"):
            origin = self._origin_of(request)
        queued = self.origins.get(origin)
        if queued is None:
            queued = self.origins[origin] = QueuedOrigin(origin)
        return queued

    def seconds(self, queued: QueuedOrigin) -> float | None:
        """Return the seconds until the next request of an origin may go; ``None``: it is woken."""
        if queued.awaits is not None:
            return None
        if queued.origin is None or not self._throttle.sites:
            return 0.0
        return self._throttle.due(queued.origin)

    def hand_out(self, request: Request, queued: QueuedOrigin, number: int | None = None) -> None:
        """Note that a request leaves the scheduler now, and take its turn.

        :param number: the number of a request that came back, which it keeps; ``None``: it did not
            come back.
        """
        if queued.origin is None:
            return
        waited = number is not None or queued.waited > 0
        queued.waited = max(0, queued.waited - 1)
        known = self._known(queued.origin)
        if waited or not known:
            if number is None:
                number = next(self._numbers)
            out = self.handed_out[request] = HandedOut(queued, number, self._clock(), waited)
            if not known:
                queued.awaits = out
        if self._throttle.sites:
            self._throttle.take(request, queued.origin)
        if not (queued.parts or queued.awaits):  # as `forget`, in a step less for each request
            self.origins.pop(queued.origin, None)

    def forget(self, queued: QueuedOrigin) -> None:
        """Forget an origin that has nothing in the scheduler, and awaits nothing."""
        if queued.origin and not (queued.parts or queued.awaits):
            self.origins.pop(queued.origin, None)

    # Sleep.

    def sleep(self, part: QueuePart, seconds: float | None) -> None:
        """Wake a part when its next request may go.

        :param seconds: what `seconds` has returned.
        """
        if seconds is None:
            part.origin.asleep.append(part)
            return
        seconds = min(seconds, _LONGEST_SLEEP)
        heapq.heappush(self.timed, (self._clock() + seconds, next(self._numbers), part))
        self._throttle.wake_in(seconds)

    def wake_due(self) -> None:
        """Wake the parts whose time has come."""
        now = self._clock()
        due: list[QueuePart] = []
        while self.timed and self.timed[0][0] <= now and len(due) < LOOKS:
            due.append(heapq.heappop(self.timed)[-1])
        _wake_all(due)
        if self.timed:
            self._throttle.wake_in(max(0.0, self.timed[0][0] - now))

    def wake(self, origin: Origin | None) -> None:
        """Look at an origin again: what it waited for may have come."""
        queued = self.origins.get(origin)
        if queued is None:
            return
        if queued.asleep:
            _wake_all(queued.asleep)
            queued.asleep = []
            wake(self._crawler)
        self.forget(queued)

    # Requests that come back.

    def room(self) -> int:
        """Return how many more requests Scrapy would hand out now, if it waited for no file."""
        return max(0, self._most - self.returned - requests_under_way(self._crawler))

    def came_back(
        self,
        queued: QueuedOrigin,
        request: Request,
        queue: OriginPriorityQueue,
        number: int | None = None,
    ) -> None:
        """Put a request before all others of its origin that did not come back.

        :param queue: that counts it.
        :param number: ``None``: it did not leave yet, and comes after those that did.
        """
        if number is None:
            number = next(self._numbers)
        elif self.left is not None:  # the crawl closes, and has counted what did not leave
            self.left += 1
        bisect.insort(queued.came_back, (number, request, queue), key=itemgetter(0))
        self.returned += 1
        queue.size += 1

    def all_returned(self, queue: OriginPriorityQueue) -> list[Request]:
        """Take out all requests that came back to one queue; it closes."""
        found: list[Request] = []
        for queued in self.origins.values():
            found += [request for _, request, owner in queued.came_back if owner is queue]
            queued.came_back = [entry for entry in queued.came_back if entry[-1] is not queue]
        queue.size -= len(found)
        self.returned -= len(found)
        return found

    # Called by the middleware.

    def judged(self, out: HandedOut) -> None:
        """End the trial of an origin: its request was judged, or has left the engine."""
        if out.trial:
            out.queued.awaits = None
            self.wake(out.queued.origin)

    def send_back(
        self, request: Request, out: HandedOut | None, fetch: PendingFetch | None
    ) -> Request:
        """Return a request with the mark by which it waits in the scheduler.

        :param fetch: what it waits for; ``None``: for its turn.
        """
        number = next(self._numbers) if out is None else out.number
        request.meta[MARK] = [request.dont_filter, number]
        request.dont_filter = True
        # Without `out` nothing sleeps for it: it came past the scheduler, or its file was known as
        # it left. If it reaches a queue, it leaves again as a trial, and waits then.
        if out is not None and fetch is not None and not fetch.over:
            self.origins.setdefault(fetch.origin, QueuedOrigin(fetch.origin)).awaits = fetch
        return request

    def taken_back(self, request: Request) -> int | None:
        """Take the mark of a request off; return its number, or ``None`` if it has no mark."""
        mark = request.meta.pop(MARK, None)
        # Another crawl or the spider may have written something else.
        if not isinstance(mark, list) or [type(each) for each in mark] != [bool, int]:
            return None
        number: int
        request.dont_filter, number = mark
        return number

    def fetch_over(self, fetch: PendingFetch) -> None:
        """Let the requests go that wait for a fetch: it has ended."""
        if is_closing(self._crawler):  # they will not leave any more
            self.note_closing()
        queued = self.origins.get(fetch.origin)
        if queued is not None:
            queued.waited = queued.size  # the file may be stale before the last of them is judged
            if queued.awaits is fetch:
                queued.awaits = None
                self.wake(fetch.origin)

    def tick(self) -> None:
        """End the trials of requests that have left the engine, and save what is on disk."""
        self.end_lost_trials()
        now = self._clock()
        if self.save is not None and now >= self._save_at:
            self._save_at = now + SAVE_EVERY
            self.save()

    def end_lost_trials(self) -> None:
        """End the trials of requests that another middleware has dropped or answered, or delays."""
        late = self._clock() - PATIENCE
        for request, out in list(self.handed_out.items()):
            if not is_under_way(self._crawler, request):
                del self.handed_out[request]
                self.judged(out)
            elif out.since <= late:
                self.judged(out)  # it stays there, as it may still reach the middleware

    # What waits, for the log.

    def awaited(self) -> Iterator[tuple[int, PendingFetch]]:
        """Yield the fetches for which requests wait in the scheduler, after how many do."""
        for queued in self.origins.values():
            if isinstance(queued.awaits, PendingFetch):
                yield queued.size, queued.awaits

    def paced(self) -> Iterator[tuple[Origin, QueuedOrigin]]:
        """Yield the origins with requests in the scheduler that wait for a turn."""
        for origin in self._throttle.sites:
            queued = self.origins.get(origin)
            if queued is None or not queued.size or queued.awaits is not None:
                continue
            if self._throttle.interval(origin):
                yield origin, queued

    def note_closing(self) -> None:
        """Count what waits as the crawl begins to close; what comes back later is added."""
        if self.left is None:
            awaiting = [queued for queued in self.origins.values() if queued.awaits is not None]
            paced = [queued for _, queued in self.paced()]
            self.left = sum(queued.size for queued in awaiting + paced)


def _wake_all(parts: list[QueuePart]) -> None:
    """Wake parts. Each goes to the front, so the one that has slept longest comes last."""
    for part in reversed(parts):
        part.owner.wake(part)


#: The gates of the crawls that run, for their queues.
GATES: dict[Crawler, Gate] = {}


def gate_of(crawler: Crawler) -> Gate:
    """Return the gate of a crawl.

    In a crawl that obeys no robots.txt, no request has an origin that may have to wait.
    """
    found = GATES.get(crawler)
    if found is None:
        throttle = Throttle(crawler, None, lambda _: None, Runtime())
        found = Gate(crawler, lambda _: None, lambda _: True, throttle)
    return found
