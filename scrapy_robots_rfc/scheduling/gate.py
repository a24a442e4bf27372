"""Decide which origins the scheduler may hand out a request for.

robots.txt is a prerequisite: a request stays in the queue until its file is known and its turn has
come. The decision is made only in `Gate.permit`. A part that has to wait is parked until
`Gate.wake` is called for its origin.
"""

from collections.abc import Callable, Container, Hashable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import ParseResult
from weakref import WeakKeyDictionary, WeakValueDictionary

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc._scrapy import is_closing, wake_engine
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.fetching.routes import Route
from scrapy_robots_rfc.fetching.service import RobotsService
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.throttle import Throttle

#: Seconds, on top of the site's interval, for which a stale file may still decide about a request
#: that was handed out with it.
MAX_STALE = 60.0

#: The number of workers whose turns a request may have waited for, with shared turns.
MAX_WORKERS = 100

#: Maximum number of parts that the queue checks in one call, because each check may peek at a
#: request and start a fetch. The next call continues.
MAX_LOOKS = 20

#: Meta key for a returned request whose `dont_filter` was set by us, not by the user.
RETURNED = "_robots_rfc_returned"

#: Returns the request that a queue would hand out next, or `None` if it cannot be read.
Peek: TypeAlias = Callable[[], Request | None]


class Part(Protocol):
    """Requests for a single origin that share a queue and downloader slot (see `queue.py`)."""

    def unpark(self) -> None:
        """Put the part first in its slot, because it has waited for longer than others."""

    def peek(self) -> Request | None:
        """Return the next request, or `None` if it cannot be read."""


class Permit(NamedTuple):
    """What a request leaves the scheduler with: the policy that it will be judged by.

    :param policy: `None` if robots.txt doesn't apply to the request, or if the middleware has to
        find the policy, because the request couldn't be read.
    :param route: the route that the policy is for, if it isn't for all routes.
    """

    policy: OriginPolicy | None = None
    route: Route = None


@dataclass(slots=True, eq=False, repr=False)
class QueuedOrigin:
    """An origin with requests in the scheduler.

    :param origin: the origin, or `None` for requests that aren't subject to robots.txt.
    :param parts: each `QueuePart` that contains its requests, by queue and key.
    :param parked: the parts that are parked until the origin is woken.
    :param kept_permit: the permit that `fetch_ended` or `_on_room` has kept for the next request
        that is handed out. Without it, a file that is evicted or stale before the turn comes would
        be fetched forever.
    """

    origin: Origin | None
    parts: dict[tuple[object, Hashable], Any] = field(default_factory=dict)
    parked: list[Part] = field(default_factory=list)
    kept_permit: Permit | None = None

    @property
    def size(self) -> int:
        """The number of requests in all parts."""
        return sum(part.size for part in self.parts.values())


class Gate:
    """The gate of a crawl, shared by all of the scheduler's queues.

    :param origin_at: returns the origin for a scheme and authority, or `None` if it has none.
    :param service: provides robots.txt files, or `None` if the crawl does not obey robots.txt.
    :param throttle: manages the turns of paced sites.
    :param schemes: the schemes for which robots.txt is obeyed.
    """

    def __init__(
        self,
        crawler: Crawler,
        origin_at: Callable[[str, str], Origin | None],
        service: RobotsService | None,
        throttle: Throttle,
        schemes: Container[str] = (),
    ) -> None:
        self._crawler = crawler
        self._count = stats.of(crawler).inc_value
        self._origin_at = origin_at
        self._service = service
        self._throttle = throttle
        self._schemes = schemes
        throttle.on_turn = self.wake
        if service is not None:
            service.pending.on_end = self.fetch_ended
            service.pending.on_room = self._on_room
        self._clock = throttle.clock
        #: The origins with requests in the scheduler, and `None` for requests that robots.txt
        #: doesn't apply to.
        self.origins: dict[Origin | None, QueuedOrigin] = {None: QueuedOrigin(None)}
        #: The permits of requests that left the scheduler.
        self.permits: WeakKeyDictionary[Request, Permit] = WeakKeyDictionary()
        self._has_counted = False  # by `count_waiting`

    def queued_origin(self, request: Request, url: ParseResult) -> QueuedOrigin:
        """Return a request's queued origin, and create it if necessary.

        If robots.txt doesn't apply to the request, it is the `None` entry.
        """
        origin = None
        if not request.meta.get("dont_obey_robotstxt"):
            origin = self._origin_at(url.scheme, url.netloc)
        return self.origins.get(origin) or self._add(origin)

    def queued_origin_of_stored(self, stored_origin: str) -> QueuedOrigin:
        """Return the queued origin for requests on disk, and create it if necessary.

        :param stored_origin: the text that is stored with them. An earlier crawl may have obeyed
            robots.txt for other schemes.
        """
        scheme, _, _ = stored_origin.partition("://")
        origin = Origin.of_text(stored_origin) if scheme in self._schemes else None
        return self.origins.get(origin) or self._add(origin)

    def _add(self, origin: Origin | None) -> QueuedOrigin:
        """Create the state of an origin, which lasts until `forget` removes it."""
        queued_origin = self.origins[origin] = QueuedOrigin(origin)
        return queued_origin

    def permit(self, queued_origin: QueuedOrigin, peek: Peek) -> Permit | None:
        """Return a permit for an origin's next request, or `None` if it has to wait.

        In that case, `wake` will be called when the answer may have changed, but not before this
        returns.

        :param peek: returns that request. A fetch uses its proxy, `bindaddress` and FTP account.
        """
        origin = queued_origin.origin
        service = self._service
        if origin is None or service is None:  # robots.txt doesn't apply
            return Permit()
        pending = service.pending
        # If the next request of one part has put the origin in line, the kept permit may still be
        # for the next request of another part.
        is_in_line = origin in pending.line and queued_origin.kept_permit is None
        if origin in pending.fetches or is_in_line:
            return None  # `fetch_ended` or `_on_room` will wake it
        # A fetch needs the site's turn, too, so this is checked before starting one.
        if self._throttle.sites and not self._throttle.due(origin):
            return None  # `on_turn` will wake it
        policy = service.known.get(origin)
        if policy is not None and policy.for_all_routes:  # no need to know the request's route
            return Permit(policy)
        has_room = pending.has_room()
        # Peek only if that can matter: a fetch can start, or one of these may be for the request:
        # `policy`, a failure of requests without a route, or the kept permit. For a failure of the
        # request's own route, it gets in line, and `_on_room` asks again.
        if has_room or policy is not None or queued_origin.kept_permit is not None:
            request = peek()
            # A fetch without the request's proxy would reveal the crawler's own address, so start
            # none. If `pop` can't read the request either, the queue skips it. If `pop` can read it
            # after all, it waits in the middleware.
            if request is None:
                return Permit()
            policy = self.policy_for(request, origin, queued_origin.kept_permit)
            if policy is not None:
                route = None if policy.for_all_routes else service.routes.of(request)
                return Permit(policy, route)
            if has_room:
                service.fetch(origin, request)
                return None
        if origin not in pending.line:
            # If it waits for long, another worker takes its turn.
            has_shared_turn = self._throttle.is_shared and origin in self._throttle.sites
            pending.get_in_line(origin, first=has_shared_turn)
        return None  # `_on_room` will be called

    def policy_for(
        self, request: Request, origin: Origin, earlier: Permit | None
    ) -> OriginPolicy | None:
        """Return the policy for a request, or `None` if its robots.txt has to be fetched first.

        :param earlier: an earlier permit, or `None`. Its policy is used unless the request now has
            another origin or route, or the policy is too old.
        """
        if earlier is not None and self.covers(earlier, request, origin):
            return earlier.policy
        service = self._service
        assert service is not None  # without one, nobody asks
        return service.known.get(origin, service.routes.of(request))

    def covers(self, permit: Permit, request: Request, origin: Origin) -> bool:
        """Return whether a permit's policy may decide about a request to an origin.

        It may have been stale for `MAX_STALE` plus the time that the request may have waited for
        its turn. This is the site's interval, or many of them if other workers take turns.
        """
        policy = permit.policy
        service = self._service
        assert service is not None  # as in `policy_for`
        if policy is None or policy.origin != origin:
            return False
        excess = self._clock() - policy.validity.fresh_until - MAX_STALE
        if excess >= 0:  # usually not, so the interval doesn't have to be looked up
            turns = MAX_WORKERS if self._throttle.is_shared else 1
            if excess >= turns * self._throttle.interval(policy.origin):
                return False
        return policy.for_all_routes or service.routes.of(request) == permit.route

    def _on_room(self, origin: Origin) -> None:
        """Start a fetch for the origin that was first in line, or wake it if it needs none.

        If so, `PendingFetches` gives the room to the next one.
        """
        queued_origin = self.origins[origin]  # `forget` would have removed it from the line
        # Any part will do: if a request with another route leaves first, `covers` is false for it.
        part: Part = next(iter(queued_origin.parts.values()))
        permit = self.permit(queued_origin, part.peek)
        if permit is not None:
            # When the queue asks, there may be no room, and the origin would get in line again.
            queued_origin.kept_permit = permit
            self.wake(origin)

    def hand_out(self, request: Request, queued_origin: QueuedOrigin, permit: Permit) -> None:
        """Record what a request leaves the scheduler with, and take its site's turn."""
        origin = queued_origin.origin
        if origin is None:
            return
        queued_origin.kept_permit = None  # it serves one request, even if it doesn't cover it
        self.permits[request] = permit
        if self._throttle.sites:
            self._throttle.take(request, origin)  # `permit` checked that it is due

    def forget(self, queued_origin: QueuedOrigin) -> None:
        """Forget an origin if it no longer has requests in the scheduler.

        It then also leaves the line for a fetch.
        """
        origin = queued_origin.origin
        if origin is not None and not queued_origin.parts:
            self.origins.pop(origin, None)
            # If a fetch is in progress, its own place in the line has nothing to do with the queue.
            if self._service is not None and origin not in self._service.pending.fetches:
                self._service.pending.line.pop(origin, None)

    def wake(self, origin: Origin) -> None:
        """Unpark an origin's parts, because they may not have to wait any longer."""
        queued_origin = self.origins.get(origin)
        if queued_origin is not None:
            parked, queued_origin.parked = queued_origin.parked, []
            for part in reversed(parked):  # because each one is put first in its slot
                part.unpark()
        # Even if none was parked: a third-party scheduler may have got the requests back.
        wake_engine(self._crawler)

    def fetch_ended(self, fetch: PendingFetch) -> None:
        """Wake the origin of a finished fetch."""
        if is_closing(self._crawler):  # count the waiting requests before they are woken
            self.count_waiting()
        queued_origin = self.origins.get(fetch.origin)
        if queued_origin is not None:
            queued_origin.kept_permit = Permit(fetch.policy, fetch.route)
        self.wake(fetch.origin)

    def return_request(self, request: Request) -> Request:
        """Count and prepare a request that returns to the scheduler as the spider closes."""
        # Count the requests in the queue before this one is among them again.
        self.count_waiting()
        self._count(stats.UNDECIDED)
        skip_filter(request)
        return request

    def waiting_for_file(self, max_origins: int | None = None) -> Iterator[tuple[Origin, int]]:
        """Yield each origin whose queued requests are waiting for its file, and their number.

        :param max_origins: the maximum number of origins to look at, to save time in log lines.
        """
        if self._service is None:
            return
        pending = self._service.pending
        # Fetches may be in line, too.
        in_line = (origin for origin in pending.line if origin not in pending.fetches)
        for origin in islice(chain(pending.fetches, in_line), max_origins):
            queued_origin = self.origins.get(origin)
            if queued_origin is not None:
                yield origin, queued_origin.size

    def waiting_for_turn(self) -> Iterator[tuple[Origin, int]]:
        """Yield each origin whose queued requests are waiting for a turn, and their number."""
        if self._service is None:
            return
        pending = self._service.pending
        for origin in self._throttle.sites:
            queued_origin = self.origins.get(origin)
            if queued_origin is None or origin in pending.fetches or origin in pending.line:
                continue
            if queued_origin.size and self._throttle.interval(origin):
                yield origin, queued_origin.size

    def count_waiting(self) -> None:
        """Count the waiting requests, because the crawl is closing. Later calls have no effect.

        It is called by everything that wakes or removes them at the end.
        """
        if self._has_counted:
            return
        self._has_counted = True
        waiting = sum(size for _, size in chain(self.waiting_for_file(), self.waiting_for_turn()))
        if waiting:
            self._count(stats.UNDECIDED, waiting)


def skip_filter(request: Request) -> None:
    """Set `dont_filter`, because the scheduler's dupefilter has already seen the request.

    A mark in the meta tells `restore_filter` that the user didn't set it.
    """
    if not request.dont_filter:
        request.dont_filter = True
        request.meta[RETURNED] = True


def restore_filter(request: Request) -> None:
    """Undo `skip_filter`, also on a copy of the request that the scheduler has stored."""
    if request.meta.pop(RETURNED, False):
        request.dont_filter = False


class GateKeeper:
    """Base class of the middleware that owns the crawl's gate.

    The queues look it up by this class, using Scrapy's `Crawler.get_downloader_middleware`.
    """

    gate: Gate


def gate_of(crawler: Crawler) -> Gate:
    """Return a crawl's gate, which is always open if the crawl does not obey robots.txt."""
    keeper = crawler.get_downloader_middleware(GateKeeper)
    if keeper is not None:
        return keeper.gate
    gate = _ALWAYS_OPEN.get(id(crawler))
    if gate is None:
        # Requests wait only for their origin's file or turn, so without origins it stays open.
        throttle = Throttle(crawler, settings=None, origin_of=lambda _: None, runtime=Runtime())
        gate = Gate(crawler, origin_at=lambda _, __: None, service=None, throttle=throttle)
        _ALWAYS_OPEN[id(crawler)] = gate
    return gate


# The gates of crawls that don't obey robots.txt, by the crawl's `id`. A queue keeps its gate alive,
# and the gate its crawl, so that no other crawl can have the same `id`.
_ALWAYS_OPEN: WeakValueDictionary[int, Gate] = WeakValueDictionary()
