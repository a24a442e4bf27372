"""Decide which origins may have a request handed out by the scheduler.

robots.txt is a prerequisite: a request stays in the queue until its file is known and its turn has
come. An origin with requests in the scheduler is in one of four states:

- READY: the next request may be handed out.
- NO_ROOM: the file is not known, and MAX_FETCHES fetches are under way.
- FETCHING: the file is being fetched, or the next attempt will start later.
- PACED: the next request waits for its interval, or for an answer.

`Gate.wait` is the only place that decides. A part of a queue that has to wait is parked, either for
some seconds (`Gate.wake_due` wakes it) or until `Gate.wake` is called for its origin.
"""

import enum
import heapq
import itertools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias
from weakref import WeakSet

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_robots_rfc._scrapy import is_closing, wake_engine
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.fetching.service import RobotsService
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.throttle import Throttle

# Maximum number of origins that one call of the queue looks at; the next call continues.
MAX_LOOKS = 200

#: Seconds between two saves of a queue on disk. Requests pushed before a save survive SIGKILL.
SAVE_EVERY = 4.0

#: Meta key of a request that returns to the scheduler with a `dont_filter` that is only for us.
RETURNED = "_robots_rfc_returned"

# Longest time to park a paced origin: its interval may become shorter.
_MAX_PARKED = 5.0

#: Returns the request that a queue would hand out next, or `None` if it cannot be read.
Peek: TypeAlias = Callable[[], Request | None]


class Part(Protocol):
    """The requests of one origin in one queue and downloader slot, as `queue.py` keeps them."""

    def unpark(self) -> None:
        """Make the part the next one of its slot."""


class State(enum.Enum):
    """The state of an origin with requests in the scheduler."""

    READY = "ready"
    NO_ROOM = "no room"
    FETCHING = "fetching"
    PACED = "paced"


@dataclass(slots=True, eq=False, repr=False)
class QueuedOrigin:
    """An origin with requests in the scheduler.

    :param origin: the origin, or `None` for requests that no robots.txt applies to.
    :param parts: the parts of the queues that have its requests, by queue and slot.
    :param size: number of its requests in all parts.
    :param state: decided by `Gate.wait`.
    :param parked: the parts that are parked until the origin is woken.
    :param just_fetched: whether no request was handed out since the last fetch ended. The next
        request of that route is handed out even if its file is not known. Otherwise an origin whose
        file is evicted or stale before its turn comes would fetch it for ever.
    :param fetched_route: the route of that fetch.
    """

    origin: Origin | None
    parts: dict[tuple[object, str], Part] = field(default_factory=dict)
    size: int = 0
    state: State = State.READY
    parked: list[Part] = field(default_factory=list)
    just_fetched: bool = False
    fetched_route: Hashable = None


class Gate:
    """The gate of a crawl; all queues of its scheduler share it.

    :param origin_of: returns the origin of a request, or `None` if it has none.
    :param service: the robots.txt files, or `None` in a crawl that does not obey robots.txt.
    :param throttle: the turns of paced sites.
    """

    def __init__(
        self,
        crawler: Crawler,
        origin_of: Callable[[Request], Origin | None],
        service: RobotsService | None,
        throttle: Throttle,
    ) -> None:
        self._crawler = crawler
        self._origin_of = origin_of
        self._service = service
        self._throttle = throttle
        throttle.on_turn = self.wake
        self._clock = throttle.clock
        #: The origins with requests in the scheduler. `None` is always there, so that this dict has
        #: one key more than the dict of a queue's slots: otherwise both would be resized in the
        #: same push, which takes milliseconds with 100,000 keys.
        self.origins: dict[Origin | None, QueuedOrigin] = {None: QueuedOrigin(None)}
        #: Parts that are parked for some seconds: the time to wake them, a number that breaks
        #: ties, and the part.
        self.timed: list[tuple[float, int, Part]] = []
        self._numbers = itertools.count()
        #: Requests that left the scheduler because their file was known.
        self.handed_out: WeakSet[Request] = WeakSet()
        #: Called every `SAVE_EVERY` seconds, so that a queue on disk survives SIGKILL.
        self.save: Callable[[], object] | None = None
        self._save_at = 0.0
        #: Number of requests that were waiting when the crawl began to close, or `None` before.
        self.waiting_at_close: int | None = None

    # Called by the queues.

    def queued_origin(self, request: Request) -> QueuedOrigin:
        """Return the queued origin of a request, or that for `None` if no robots.txt applies."""
        origin = None
        if not request.meta.get("dont_obey_robotstxt"):
            origin = self._origin_of(request)
        queued = self.origins.get(origin)
        if queued is None:
            queued = self.origins[origin] = QueuedOrigin(origin)
        return queued

    def wait(self, queued: QueuedOrigin, peek: Peek) -> float | None:
        """Decide when the next request of an origin may be handed out.

        :param peek: returns that request; its proxy, address and account are used for a fetch.
        :returns: 0 for now, the seconds to park it, or `None` to park it until it is woken.
        """
        # 1. No robots.txt applies.
        # 2. A fetch is under way, or the origin waits for room for one: its end wakes the origin.
        # 3. The site is paced, and its turn has not come. A fetch needs the turn, too.
        # 4. The file is not known: it is fetched first.
        origin = queued.origin
        service = self._service
        if origin is None or service is None:
            return 0.0
        if queued.state is State.NO_ROOM:
            return None
        if service.pending.get(origin) is not None:
            queued.state = State.FETCHING
            return None
        seconds = self._throttle.due(origin) if self._throttle.sites else 0.0
        if seconds != 0:
            queued.state = State.PACED
            return seconds
        queued.state = State.READY
        if service.is_known(origin):
            return 0.0
        return self._fetch_first(queued, peek, service, origin)

    def _fetch_first(
        self, queued: QueuedOrigin, peek: Peek, service: RobotsService, origin: Origin
    ) -> float | None:
        """Start a fetch, or wait until there is room for one.

        :returns: 0 if the next request does not need the fetch, or else `None`.
        """
        if not queued.just_fetched and not service.pending.has_room():
            queued.state = State.NO_ROOM
            service.pending.when_room(partial(self._on_room, queued, peek))
            return None
        request = peek()
        if queued.just_fetched and (
            request is None or service.routes.of(request) == queued.fetched_route
        ):
            return 0.0
        # Its route may have failed. Then it is handed out, and the middleware drops it.
        if request is not None and service.known(origin, request, counted=False) is not None:
            return 0.0
        queued.state = State.FETCHING
        service.fetch(origin, request)
        return None

    def _on_room(self, queued: QueuedOrigin, peek: Peek) -> None:
        """Decide again about an origin, because there is room for its fetch."""
        queued.state = State.READY
        must_wait = False
        try:
            must_wait = self.wait(queued, peek) is None
        finally:
            # A fetch for a request outside the scheduler may have brought the file by now. Also
            # wake the origin after an error, or its requests would wait forever.
            if not must_wait:
                self.wake(queued.origin)

    def hand_out(self, request: Request, queued: QueuedOrigin) -> None:
        """Note that a request leaves the scheduler, and take the turn of its site."""
        if queued.origin is None or self._service is None:
            return
        queued.just_fetched = False
        self.handed_out.add(request)
        if self._throttle.sites:
            self._throttle.take(request, queued.origin)

    def forget(self, queued: QueuedOrigin) -> None:
        """Forget an origin that has no request in the scheduler."""
        if queued.origin is not None and not queued.parts and queued.state is not State.NO_ROOM:
            self.origins.pop(queued.origin, None)

    # Parking and waking.

    def park(self, part: Part, queued: QueuedOrigin, seconds: float | None) -> None:
        """Park a part for the time that `wait` returned, or until its origin is woken."""
        if seconds is None:
            queued.parked.append(part)
            return
        seconds = min(seconds, _MAX_PARKED)
        heapq.heappush(self.timed, (self._clock() + seconds, next(self._numbers), part))
        self._throttle.wake_in(seconds)

    def wake(self, origin: Origin | None) -> None:
        """Unpark the parts of an origin, because they may not have to wait any more."""
        queued = self.origins.get(origin)
        if queued is not None:
            if queued.state is not State.NO_ROOM:
                queued.state = State.READY
            parked, queued.parked = queued.parked, []
            _unpark_all(parked)
            self.forget(queued)
        wake_engine(self._crawler)

    def wake_due(self) -> None:
        """Unpark the parts whose time has come."""
        now = self._clock()
        due: list[Part] = []
        while self.timed and self.timed[0][0] <= now and len(due) < MAX_LOOKS:
            _, _, part = heapq.heappop(self.timed)
            due.append(part)
        _unpark_all(due)
        if self.timed:
            next_time, _, _ = self.timed[0]
            self._throttle.wake_in(max(0.0, next_time - now))

    # Called by the middleware.

    def fetch_ended(self, fetch: PendingFetch) -> None:
        """Wake the origin of a fetch that has ended."""
        if is_closing(self._crawler):  # its requests stay in the scheduler
            self.count_waiting()
        queued = self.origins.get(fetch.origin)
        if queued is not None:
            queued.state = State.READY  # also if the fetch was for a request outside the scheduler
            queued.just_fetched = True
            queued.fetched_route = fetch.route
        self.wake(fetch.origin)

    def return_request(self, request: Request) -> Request:
        """Return a request that was handed out, so that it goes back to the scheduler."""
        self.count_waiting()
        self.waiting_at_close = (self.waiting_at_close or 0) + 1
        skip_filter(request)
        return request

    def tick(self) -> None:
        """Save the queue on disk, if it is time to, and count what waits when the crawl closes."""
        if is_closing(self._crawler):
            self.count_waiting()
        now = self._clock()
        if self.save is not None and now >= self._save_at:
            self._save_at = now + SAVE_EVERY
            self.save()

    # For the log.

    def fetches(self) -> Iterator[tuple[int, PendingFetch]]:
        """Yield each fetch that requests in the scheduler wait for, with their number."""
        if self._service is None:
            return
        for queued in self.origins.values():
            # Check this first: there may be many origins, but few are in this state.
            if queued.state is not State.FETCHING or queued.origin is None or not queued.size:
                continue
            fetch = self._service.pending.get(queued.origin)
            if fetch is not None:
                yield queued.size, fetch

    def paced(self) -> Iterator[tuple[Origin, int]]:
        """Yield each origin whose requests in the scheduler wait for a turn, with their number."""
        for origin in self._throttle.sites:
            queued = self.origins.get(origin)
            if queued is None or queued.state in (State.FETCHING, State.NO_ROOM):
                continue
            if queued.size and self._throttle.sites.interval(origin):
                yield origin, queued.size

    def count_waiting(self) -> None:
        """Count the requests that are waiting, when the crawl begins to close."""
        if self.waiting_at_close is not None:
            return
        ready = State.READY  # there may be very many origins
        self.waiting_at_close = sum(
            [queued.size for queued in self.origins.values() if queued.state is not ready]
        )
        # An answer may have woken a paced origin just before.
        sites = self._throttle.sites
        for origin in sites:
            queued = self.origins.get(origin)
            if queued is not None and queued.state is ready and sites.interval(origin):
                self.waiting_at_close += queued.size


def _unpark_all(parts: list[Part]) -> None:
    """Unpark parts, in reverse order, because each becomes the next one of its slot."""
    for part in reversed(parts):
        part.unpark()


def skip_filter(request: Request) -> None:
    """Set `dont_filter`, because the scheduler's filter of duplicates has seen the request."""
    if not request.dont_filter:
        request.dont_filter = True
        request.meta[RETURNED] = True


def restore_filter(request: Request) -> None:
    """Undo `skip_filter`. The scheduler may have stored the request in the meantime."""
    if request.meta.pop(RETURNED, False):
        request.dont_filter = False


class GateKeeper:
    """The middleware that has the gate of a crawl.

    The queues find it by this class, with Scrapy's `Crawler.get_downloader_middleware`.
    """

    gate: Gate


def gate_of(crawler: Crawler) -> Gate:
    """Return the gate of a crawl; one that is always open if the crawl obeys no robots.txt."""
    keeper = crawler.get_downloader_middleware(GateKeeper)
    if keeper is not None:
        return keeper.gate
    from scrapy_robots_rfc._runtime import Runtime  # noqa: PLC0415 - for this case only

    throttle = Throttle(crawler, None, lambda _: None, Runtime())
    return Gate(crawler, lambda _: None, None, throttle)
