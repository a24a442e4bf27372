"""Gate: which origins may have a request handed out by the scheduler now.

`queue.py` asks it before it hands out a request. The middleware says what became of that request.
An origin is one of:

- ready: its next request may go;
- on trial: its robots.txt is unknown or stale, and one request was handed out to find out;
- awaited: its robots.txt is being fetched;
- due at a time, or after an answer: `throttle.py` says when its next turn is.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc._scrapy import is_closing, is_under_way, requests_under_way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler

    from scrapy_robots_rfc.fetching.pending import PendingFetch
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.scheduling.part import QueuePart
    from scrapy_robots_rfc.scheduling.throttle import Throttle

#: Meta key of a request that goes back to the scheduler. Its value is what `dont_filter` was, and
#: the number by which requests that come back stay in the order in which they were handed out.
MARK = "robots_waits"

#: A request on trial that has not reached the middleware after so many seconds is with another
#: middleware, which may keep it for long: the next one of its origin is handed out.
PATIENCE = 0.25

#: A call of the queue looks at so many origins at most; what it has not looked at comes with the
#: next call.
LOOKS = 200

#: Seconds between two times that a queue on disk is saved: what was pushed before is safe from
#: SIGKILL.
SAVE_EVERY = 4.0

#: Seconds after which an origin that is due later is looked at again: its site may ask for less by
#: then.
_LONGEST_SLEEP = 5.0


@dataclass(slots=True, eq=False)
class QueuedOrigin:
    """An origin with requests in the scheduler.

    :param size: how many requests are in the scheduler.
    :param returned: those that came back, each with its number and what counts it; they go before
        all others.
    :param trial: the request that was handed out to find out about robots.txt.
    :param fetch: what is awaited.
    :param parts: how many parts of queues there are.
    :param asleep: the parts that are looked at again when the state changes.
    :param waited: how many of the next ones were in the scheduler when the last fetch ended: they
        waited for it.
    """

    origin: Origin
    name: str
    size: int = 0
    returned: list[tuple[int, Request, Callable[[], None]]] = field(default_factory=list)
    trial: Request | None = None
    fetch: PendingFetch | None = None
    parts: int = 0
    asleep: list[QueuePart] = field(default_factory=list)
    waited: int = 0


@dataclass(slots=True, eq=False)
class HandedOut:
    """A request that was handed out, and is to be told from those of other ways when it reaches the middleware.

    :param number: of the hand-out.
    :param since: when it was handed out.
    :param waited: whether it waited for a robots.txt before.
    :param trial: whether no other request of its origin is handed out before this one is judged.
    """

    queued: QueuedOrigin
    number: int
    since: float
    waited: bool
    trial: bool


class Gate:
    """The gate of a crawl; all queues of its scheduler share it.

    :param origin_of: gives the origin of a request, ``None`` for one that has none.
    :param known: whether a request of an origin can be judged without a fetch.
    :param throttle: says when the next turn of an origin is; takes turns.
    """

    def __init__(
        self,
        crawler: Crawler,
        origin_of: Callable[[Request], Origin | None],
        known: Callable[[Origin], bool],
        throttle: Throttle,
    ) -> None:
        self._crawler = crawler
        self._origin_of = origin_of
        self._known = known
        self._throttle = throttle
        self._clock = throttle.clock
        # How many requests waited for a robots.txt, and for a turn, when the crawl began to close.
        self._left: list[int] | None = None
        self._origins: dict[str, QueuedOrigin] = {}
        self._awaited: dict[str, QueuedOrigin] = {}
        self._fetches: dict[str, PendingFetch] = {}
        self._numbers = itertools.count()
        # How many requests came back, or were lined up, and how many may be: as many as are handed
        # out at once.
        self._returned = 0
        self._most = crawler.settings.getint("CONCURRENT_REQUESTS") or LOOKS
        # Origins that are due at a time: the time, a number so that no two entries are compared
        # further, the part.
        self._timed: list[tuple[float, int, QueuePart]] = []
        #: Requests that were handed out, and have not reached the middleware yet, which takes them
        #: out. Those of ready origins are not here.
        self.handed_out: dict[Request, HandedOut] = {}
        #: Called from time to time: a queue on disk writes what a process that is killed would
        #: lose.
        self.save: Callable[[], object] | None = None
        self._save_at = 0.0
        throttle.on_turn = self.wake

    # Asked by the queues.

    def parse(self, name: str) -> Origin | None:
        """Return the origin that a text names, as `str(origin)` gives it.

        ``None``: it names none.
        """
        return self._origin_of(Request(f"{name}/")) if "://" in name else None

    def of(self, request: Request) -> QueuedOrigin | None:
        """Return the origin of a request that is queued.

        ``None``: no robots.txt decides about it.
        """
        if request.meta.get("dont_obey_robotstxt"):
            return None
        origin = self._origin_of(request)
        return None if origin is None else self.named(origin)

    def named(self, origin: Origin) -> QueuedOrigin:
        """Return what is known of an origin with requests in the scheduler."""
        name = str(origin)
        queued = self._origins.get(name)
        if queued is None:
            queued = self._origins[name] = QueuedOrigin(origin, name)
        return queued

    def seconds(self, queued: QueuedOrigin | None) -> float | None:
        """Return the seconds until the next request of an origin may go.

        ``None``: its parts are woken.
        """
        if queued is None:
            return 0.0
        if self.waits(queued):
            return None
        return self._throttle.due(queued.name)

    def waits(self, queued: QueuedOrigin) -> bool:
        """Whether the requests of an origin wait for its robots.txt."""
        return queued.trial is not None or queued.fetch is not None

    def room(self) -> int:
        """Return how many more requests would be handed out now, if no robots.txt were waited for."""
        return max(0, self._most - self._returned - requests_under_way(self._crawler))

    def next_number(self) -> int:
        """Return the number of a request that is lined up behind all others that came back."""
        return next(self._numbers)

    def first_returned(self, queued: QueuedOrigin) -> Request:
        """Take out the first of the requests of an origin that came back."""
        _, request, count_less = queued.returned.pop(0)
        queued.size -= 1
        self._returned -= 1
        count_less()
        return request

    def sleep(self, part: QueuePart, queued: QueuedOrigin, seconds: float | None) -> None:
        """Wake a part when its next request may go.

        :param seconds: what `seconds` has returned.
        """
        if seconds is None:
            queued.asleep.append(part)
            return
        seconds = min(seconds, _LONGEST_SLEEP)
        heapq.heappush(self._timed, (self._clock() + seconds, next(self._numbers), part))
        self._throttle.wake_in(seconds)

    def wake_due(self) -> None:
        """Wake the parts whose time has come."""
        if not self._timed:
            return
        now = self._clock()
        due: list[QueuePart] = []
        while self._timed and self._timed[0][0] <= now and len(due) < LOOKS:
            due.append(heapq.heappop(self._timed)[-1])
        for part in reversed(
            due
        ):  # each goes to the front: the one that has slept longest is to be the first
            part.wake()
        if self._timed:
            self._throttle.wake_in(max(0.0, self._timed[0][0] - now))

    def hand_out(self, request: Request, queued: QueuedOrigin | None, *, waited: bool) -> None:
        """Note that a request leaves the scheduler now, and take its turn.

        :param waited: whether it came back to the scheduler before.
        """
        if queued is None:
            return
        if queued.waited:
            queued.waited -= 1
            waited = True
        trial = not self._known(queued.origin)
        if trial:
            queued.trial = request
        if trial or waited:
            out = HandedOut(queued, next(self._numbers), self._clock(), waited, trial)
            self.handed_out[request] = out
        self._throttle.take(request, queued.name)
        self.forget(queued)  # one of another scheduler has no part here

    def forget(self, queued: QueuedOrigin) -> None:
        """Forget an origin that has nothing in the scheduler any more, and that nothing is awaited for."""
        if not (queued.parts or queued.returned or queued.trial or queued.fetch):
            self._origins.pop(queued.name, None)

    # Called by the middleware.

    def judged(self, out: HandedOut) -> None:
        """End the trial of an origin: its request was judged, or has left the engine."""
        if out.trial:
            out.trial = False
            out.queued.trial = None
            self._ready(out.queued)

    def send_back(
        self, request: Request, out: HandedOut | None, fetch: PendingFetch | None
    ) -> Request:
        """Return a request with the mark by which a queue puts it before all others of its origin.

        :param fetch: what it waits for; ``None``: for its turn.
        """
        number = next(self._numbers) if out is None else out.number
        if self._left is not None:
            self._left[fetch is None] += 1
        request.meta[MARK] = [request.dont_filter, number]
        request.dont_filter = True
        if fetch is not None and not fetch.over:
            self._fetches[str(fetch.origin)] = fetch
            if out is not None:  # no other one is handed out before this one is in the scheduler
                self._await(out.queued, fetch)
        return request

    def _await(self, queued: QueuedOrigin, fetch: PendingFetch) -> None:
        """Hand out nothing of an origin until a fetch is over."""
        if queued.fetch is None:
            queued.fetch = fetch
            self._awaited[queued.name] = queued

    def taken_back(self, request: Request) -> int | None:
        """Take the mark of a request off; return its number, or ``None`` if it has no mark."""
        mark = request.meta.pop(MARK, None)
        if not isinstance(mark, list) or [type(each) for each in mark] != [bool, int]:
            return None  # there is none, or another crawl or the spider has written it
        number: int
        request.dont_filter, number = mark
        return number

    def came_back(
        self, queued: QueuedOrigin, entry: tuple[int, Request, Callable[[], None]]
    ) -> None:
        """Put a request that came back before all others of its origin, and await what it waits for."""
        place = len(queued.returned)
        while place and queued.returned[place - 1][0] > entry[0]:
            place -= 1
        queued.returned.insert(place, entry)
        self._returned += 1
        fetch = self._fetches.get(queued.name)
        if fetch is not None:
            self._await(queued, fetch)

    def fetch_over(self, fetch: PendingFetch) -> None:
        """Let the requests go that wait for a fetch: it has ended."""
        if is_closing(self._crawler):
            self.note_closing()
        name = str(fetch.origin)
        if self._fetches.get(name) is fetch:
            del self._fetches[name]
        queued = self._origins.get(name)
        if queued is None:
            return
        queued.waited = queued.size
        if queued.fetch is fetch:
            del self._awaited[name]
            queued.fetch = None
            self._ready(queued)

    def tick(self) -> None:
        """End the trials of requests that have left the engine, or that another middleware keeps."""
        self.end_lost_trials()
        before = self._clock() - PATIENCE
        for out in self.handed_out.values():
            if out.since <= before:
                self.judged(out)
        if self.save is not None and self._clock() >= self._save_at:
            self._save_at = self._clock() + SAVE_EVERY
            self.save()

    def end_lost_trials(self) -> None:
        """End the trials of requests that have left the engine.

        Another middleware has dropped or answered them.
        """
        for request, out in list(self.handed_out.items()):
            if not is_under_way(self._crawler, request):
                del self.handed_out[request]
                self.judged(out)

    def wake(self, name: str) -> None:
        """Look at an origin again: its turn may have come."""
        queued = self._origins.get(name)
        if queued is not None:
            self._ready(queued)

    def _ready(self, queued: QueuedOrigin) -> None:
        asleep, queued.asleep = queued.asleep, []
        for part in reversed(asleep):  # as in `wake_due`
            part.wake()
        if asleep:
            self._throttle.wake_in(0.0)
        self.forget(queued)

    def look_again(self) -> None:
        """Have the engine ask again soon.

        A call of the queue has not looked at all that is ready.
        """
        self._throttle.wake_in(0.0)

    # The end of the crawl.

    def returned_to(self, count_less: Callable[[], None]) -> list[tuple[QueuedOrigin, Request]]:
        """Take out the requests that came back to one queue.

        :param count_less: with which the queue gave them.
        """
        found: list[tuple[QueuedOrigin, Request]] = []
        for queued in list(self._origins.values()):
            own = [entry for entry in queued.returned if entry[2] == count_less]
            queued.returned = [entry for entry in queued.returned if entry[2] != count_less]
            queued.size -= len(own)
            self._returned -= len(own)
            found += [(queued, request) for _, request, _ in own]
        return found

    def note_closing(self) -> None:
        """Count what waits in the scheduler, as the crawl begins to close.

        What comes back later is added.
        """
        if self._left is None:
            awaited = sum(queued.size for queued in self._origins.values() if self.waits(queued))
            self._left = [awaited, sum(queued.size for queued in self.paced())]

    def left(self) -> list[int]:
        """Return how many requests waited for a robots.txt when the crawl closed, and how many for their turn."""
        self.note_closing()
        return self._left or [0, 0]

    # What waits, for the log.

    def awaited(self) -> Iterator[tuple[QueuedOrigin, float]]:
        """Yield the origins whose robots.txt requests wait for, and since when.

        The first one has waited longest.
        """
        for queued in self._awaited.values():
            if queued.fetch is not None:
                yield queued, queued.fetch.since

    def paced(self) -> Iterator[QueuedOrigin]:
        """Yield the origins with requests in the scheduler that wait for a turn."""
        for name in self._throttle.sites:
            queued = self._origins.get(name)
            if (
                queued is not None
                and queued.size
                and not self.waits(queued)
                and self._throttle.interval(name)
            ):
                yield queued


# The gates of crawls, for their queues.
_GATES: WeakKeyDictionary[Crawler, Gate] = WeakKeyDictionary()


def open_gate(crawler: Crawler, gate: Gate) -> None:
    """Let the queues of a crawl find its gate."""
    _GATES[crawler] = gate


def gate_of(crawler: Crawler) -> Gate | None:
    """Return the gate of a crawl; ``None``: it obeys no robots.txt."""
    return _GATES.get(crawler)


def slot_of(request: Request) -> str:
    """Return the downloader slot of a request, as Scrapy names it.

    By its meta, or else by its host.
    """
    slot = request.meta.get("download_slot")
    return str(slot if slot is not None else urlparse_cached(request).hostname or "")
