"""Decide which origins may have a request handed out by the scheduler.

robots.txt is a prerequisite: a request stays in the queue until its file is known and its turn has
come. An origin with requests in the scheduler is in one of four states:

- READY: the next request may be handed out.
- IN_LINE: the file is unknown, and MAX_FETCHES fetches are under way.
- FETCHING: the file is being fetched, or its next attempt is due later.
- PACED: the next request waits for its interval, or for an answer.

`Gate.wait` is the only place that decides. A part of a queue that has to wait is parked: until a
time, when `Gate.wake_due` wakes it, or until `Gate.wake` does.
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

from scrapy_robots_rfc._scrapy import is_closing, wake
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.fetching.service import RobotsService
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.throttle import Throttle

# Maximum number of origins that one call of the queue looks at; the next call continues.
MAX_LOOKS = 200

#: Seconds between two saves of a queue on disk. Requests pushed before a save survive SIGKILL.
SAVE_EVERY = 4.0

# Longest time to park a paced origin: its interval may become shorter.
_MAX_PARKED = 5.0

#: Returns the request that a queue would hand out next, or `None` if it cannot be read.
Peek: TypeAlias = Callable[[], Request | None]


class Part(Protocol):
    """The requests of one origin in one queue and downloader slot, as `queue.py` keeps them."""

    @property
    def size(self) -> int:
        """Number of requests."""

    def wake(self) -> None:
        """Make the part the next one of its slot."""


class State(enum.Enum):
    """The state of an origin with requests in the scheduler."""

    READY = "ready"
    IN_LINE = "in line"
    FETCHING = "fetching"
    PACED = "paced"


@dataclass(slots=True, eq=False, repr=False)
class QueuedOrigin:
    """An origin with requests in the scheduler.

    :param origin: the origin, or `None` for requests that no robots.txt decides about.
    :param parts: the parts of the queues that have its requests, by queue and slot.
    :param state: decided by `Gate.wait`.
    :param parked: the parts that are parked until the origin is woken.
    :param is_owed: whether a fetch has ended and no request was handed out since. The next request
        of its route is then handed out, whatever became of the file. Otherwise an origin whose file
        is evicted or stale before its turn comes would fetch it for ever.
    :param route: the route of that fetch.
    """

    origin: Origin | None
    parts: dict[tuple[object, str], Part] = field(default_factory=dict)
    state: State = State.READY
    parked: list[Part] = field(default_factory=list)
    is_owed: bool = False
    route: Hashable = None

    @property
    def size(self) -> int:
        """Number of its requests in the scheduler."""
        return sum(part.size for part in self.parts.values())


class Gate:
    """The gate of a crawl; all queues of its scheduler share it.

    :param origin_of: returns the origin of a request, or `None` if it has none.
    :param files: knows and fetches robots.txt files, or `None` in a crawl that obeys none.
    :param throttle: says when the next turn of an origin is, and takes turns.
    """

    def __init__(
        self,
        crawler: Crawler,
        origin_of: Callable[[Request], Origin | None],
        files: RobotsService | None,
        throttle: Throttle,
    ) -> None:
        self._crawler = crawler
        self._origin_of = origin_of
        self._files = files
        self._throttle = throttle
        throttle.on_turn = self.wake
        self._clock = throttle.clock
        #: The origins with requests in the scheduler. `None` is always there, so that this dict has
        #: one key more than the dict of a queue's slots: otherwise both would be resized in the
        #: same push, which takes milliseconds with 100,000 keys.
        self.origins: dict[Origin | None, QueuedOrigin] = {None: QueuedOrigin(None)}
        #: Parts that are parked until a time, with that time and a number that breaks ties.
        self.timed: list[tuple[float, int, Part]] = []
        self._numbers = itertools.count()
        #: Requests that left the scheduler because their file was known.
        self.handed_out: WeakSet[Request] = WeakSet()
        # The `dont_filter` of requests that go back to the scheduler as the crawl closes.
        self._given_back: dict[Request, bool] = {}
        #: Called every `SAVE_EVERY` seconds, so that a queue on disk survives SIGKILL.
        self.save: Callable[[], object] | None = None
        self._save_at = 0.0
        #: Number of requests that were waiting when the crawl closed, or `None` before.
        self.left: int | None = None

    # Called by the queues.

    def of(self, request: Request) -> QueuedOrigin:
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
        # 1. No robots.txt decides.
        # 2. A fetch is under way, or the origin is in line for one: its end wakes the origin.
        # 3. The site is paced, and its turn has not come. A fetch needs the turn, too.
        # 4. The file is unknown or stale: it is fetched first.
        origin = queued.origin
        files = self._files
        if origin is None or files is None:
            return 0.0
        if queued.state is State.IN_LINE:
            return None
        if files.pending.of(origin) is not None:
            queued.state = State.FETCHING
            return None
        seconds = self._throttle.due(origin) if self._throttle.sites else 0.0
        if seconds != 0:
            queued.state = State.PACED
            return seconds
        queued.state = State.READY
        if files.is_known(origin):
            return 0.0
        return self._fetch_first(queued, peek, files, origin)

    def _fetch_first(
        self, queued: QueuedOrigin, peek: Peek, files: RobotsService, origin: Origin
    ) -> float | None:
        """Start a fetch, or put the origin in line for one."""
        if not queued.is_owed and not files.pending.has_room():
            queued.state = State.IN_LINE
            files.pending.when_room(partial(self._leave_line, queued, peek))
            return None
        request = peek()
        if queued.is_owed and (request is None or files.routes.of(request) == queued.route):
            return 0.0
        # The route of the request may have failed: then it is handed out, and dropped.
        if request is not None and files.known(origin, request, counted=False) is not None:
            return 0.0
        queued.state = State.FETCHING
        files.fetch(origin, request)
        return None

    def _leave_line(self, queued: QueuedOrigin, peek: Peek) -> None:
        """Decide again about an origin that was in line: there is room for its fetch."""
        queued.state = State.READY
        # A fetch for a request outside the scheduler may have brought the file by now.
        if self.wait(queued, peek) is not None:
            self.wake(queued.origin)

    def hand_out(self, request: Request, queued: QueuedOrigin) -> None:
        """Note that a request leaves the scheduler, and take the turn of its site."""
        if queued.origin is None or self._files is None:
            return
        queued.is_owed = False
        self.handed_out.add(request)
        if self._throttle.sites:
            self._throttle.take(request, queued.origin)

    def forget(self, queued: QueuedOrigin) -> None:
        """Forget an origin that has no request in the scheduler."""
        if queued.origin is not None and not queued.parts and queued.state is not State.IN_LINE:
            self.origins.pop(queued.origin, None)

    # Parking and waking.

    def park(self, part: Part, queued: QueuedOrigin, seconds: float | None) -> None:
        """Park a part.

        :param seconds: what `wait` returned.
        """
        if seconds is None:
            queued.parked.append(part)
            return
        seconds = min(seconds, _MAX_PARKED)
        heapq.heappush(self.timed, (self._clock() + seconds, next(self._numbers), part))
        self._throttle.wake_in(seconds)

    def wake(self, origin: Origin | None) -> None:
        """Wake the parked parts of an origin: what they waited for may have come."""
        queued = self.origins.get(origin)
        if queued is not None:
            if queued.state is not State.IN_LINE:
                queued.state = State.READY
            parked, queued.parked = queued.parked, []
            _wake_all(parked)
            self.forget(queued)
        wake(self._crawler)

    def wake_due(self) -> None:
        """Wake the parts whose time has come."""
        now = self._clock()
        due: list[Part] = []
        while self.timed and self.timed[0][0] <= now and len(due) < MAX_LOOKS:
            due.append(heapq.heappop(self.timed)[-1])
        _wake_all(due)
        if self.timed:
            self._throttle.wake_in(max(0.0, self.timed[0][0] - now))

    # Called by the middleware.

    def fetch_ended(self, fetch: PendingFetch) -> None:
        """Wake the origin of a fetch that has ended."""
        if is_closing(self._crawler):  # its requests stay in the scheduler
            self.note_closing()
        queued = self.origins.get(fetch.origin)
        if queued is not None:
            queued.state = State.READY  # an inline request may have started the fetch
            queued.is_owed = True
            queued.route = fetch.route
        self.wake(fetch.origin)

    def give_back(self, request: Request) -> Request:
        """Return a request that was handed out, for the scheduler: the crawl closes."""
        self.note_closing()
        self.left = (self.left or 0) + 1
        self._given_back[request] = request.dont_filter
        request.dont_filter = True  # the filter of duplicates has seen it
        return request

    def taken_back(self, request: Request) -> None:
        """Restore a request that comes from `give_back`."""
        if request in self._given_back:
            request.dont_filter = self._given_back.pop(request)

    def tick(self) -> None:
        """Save what is on disk, if it is time to."""
        now = self._clock()
        if self.save is not None and now >= self._save_at:
            self._save_at = now + SAVE_EVERY
            self.save()

    # For the log.

    def awaited(self) -> Iterator[tuple[int, PendingFetch]]:
        """Yield the fetches that requests in the scheduler wait for, with the number of these."""
        if self._files is None:
            return
        for queued in self.origins.values():
            # Check this first: there may be many origins, but few are in this state.
            if queued.state is not State.FETCHING or queued.origin is None or not queued.size:
                continue
            fetch = self._files.pending.of(queued.origin)
            if fetch is not None:
                yield queued.size, fetch

    def paced(self) -> Iterator[tuple[Origin, QueuedOrigin]]:
        """Yield the origins whose requests in the scheduler wait for a turn."""
        for origin in self._throttle.sites:
            queued = self.origins.get(origin)
            if queued is None or queued.state in (State.FETCHING, State.IN_LINE):
                continue
            if queued.size and self._throttle.interval(origin):
                yield origin, queued

    def note_closing(self) -> None:
        """Count the requests that are waiting when the crawl begins to close."""
        if self.left is None:
            paced = {origin for origin, _ in self.paced()}
            self.left = sum(
                queued.size
                for origin, queued in self.origins.items()
                if queued.state is not State.READY or origin in paced
            )


def _wake_all(parts: list[Part]) -> None:
    """Wake parts, the one that was parked first last: each goes to the front of its slot."""
    for part in reversed(parts):
        part.wake()


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
