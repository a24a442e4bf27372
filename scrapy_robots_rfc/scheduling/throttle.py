"""Throttle: says when the next request to a site may leave for the downloader, so that the site's interval is kept.

`policy/pacing.py` reads what a file asks for and counts intervals. Requests whose turn has not come wait in `queue.py`,
or where `middleware/deferred.py` sets them aside.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import Request, signals

from scrapy_robots_rfc import _scrapy, stats
from scrapy_robots_rfc._runtime import Cancellable, Runtime, Waiter
from scrapy_robots_rfc.core.tally import TopK
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.download import JUDGED, MARK, chosen_slot
from scrapy_robots_rfc.fetching.queue import TICK
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.pacing import Bound, Held, Limit, Pace
from scrapy_robots_rfc.scheduling.shared import PacedOrigin, SharedThrottle

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from scrapy_robots_rfc.cache.client import CacheClient
    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.scheduling.queue import PacedPriorityQueue, WaitingLine
    from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

# Seconds for which an origin without requests is remembered, beyond its interval: so long a request that was let
# through may stay with other middlewares before it reaches the downloader.
_KEPT = 300.0

# Seconds between two looks whether the spider is being closed, and whether requests ended before they were sent: Scrapy
# has no signals for either.
_LOOK = 0.25

# From this number of origins on, those that may be forgotten are looked for.
_FIRST_SWEEP = 1000

# The throttles of crawls, for their queues.
_THROTTLES: WeakKeyDictionary[Crawler, Throttle] = WeakKeyDictionary()


class Throttle:
    """Keeps the intervals that the sites of a crawl ask for.

    :param settings: of the crawl; with ROBOTS_CRAWL_DELAY_MAX = 0 none is kept.
    :param origin: gives the origin of a request, ``None`` for one that has none.
    :param store: by one that is shared, the workers of several processes take turns; ``None``: there is none.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        origin: Callable[[Request], Origin | None],
        runtime: Runtime,
        store: CacheClient | None = None,
    ) -> None:
        assert crawler.stats is not None
        self._crawler, self._stats = crawler, crawler.stats
        #: Whether intervals are kept at all.
        self.keeps: bool = settings.limit is not None
        self._limit, self._origin_of, self._schemes = settings.limit or Limit(0.0), origin, settings.schemes
        self._runtime, self._store = runtime, store if store is not None and store.shared else None
        self.clock: Callable[[], float] = runtime.clock
        self._utc = runtime.utc
        #: Origins that are paced, as text -> what is known of each.
        self.origins: dict[str, PacedOrigin] = {}
        self._requests: dict[Request, PacedOrigin] = {}  # those that have the turn of an origin, until they are over
        self._in_place: dict[Request, Waiter[None]] = {}
        #: Where the other requests wait that have no turn yet.
        self.queues: list[PacedPriorityQueue | WaitingLine] = []
        self._timer: Cancellable | None = None
        self._sweep_at, self._wake_at, self._added = _FIRST_SWEEP, math.inf, 0.0
        # Origins by the seconds that their requests were held back.
        self._slowed: TopK[str] = TopK()
        #: Origins -> how many requests waited for their turns in queues that are closed.
        self.left_over: Counter[str] = Counter()
        #: Origins -> how many were given back to the scheduler without their robots.txt: they waited for that, and no
        #: turn, when the crawl ended.
        self.undecided: Counter[str] = Counter()
        #: Called from time to time when the spider is being closed, so that nothing waits any more.
        self.when_closing: Callable[[], object] = lambda: None
        # Pairs of an origin and what was logged of it, as hashes, because there may be millions.
        self._logged: set[int] = set()
        self._closed, self._closing_since = False, math.inf
        #: Whether any origin was paced so far.
        self.begun: bool = False
        if self.keeps:
            _THROTTLES[crawler] = self

    @staticmethod
    def of(crawler: Crawler) -> Throttle | None:
        """Return the throttle of a crawl; ``None``: it keeps no intervals."""
        return _THROTTLES.get(crawler)

    # Called by the middleware.

    def lets_go(self, request: Request, robots: OriginPolicy, agent: Agent) -> bool:
        """Note the pace that a request has to keep, and take its turn; false: it has to wait."""
        pace = self._pace_of(robots, agent)
        if pace is None:
            return True
        request.meta[JUDGED] = [str(robots.origin), None]
        if request.meta.get("redirect_urls") and chosen_slot(request) is None:
            # The redirect has brought it into the slot of another host, whose pages would wait behind it.
            request.meta.pop("download_slot", None)
        paced = self._refreshed(robots)
        paced.noted = self.clock()
        if pace not in paced.paces.values():
            paced.paces[agent] = pace
        utc = self._utc()
        unwelcome = pace.unwelcome(utc)
        if unwelcome is not None and self._is_first("visit_time", robots.origin):
            self._log("%s for %s: pages are asked for outside of it", robots.cited(unwelcome.text), robots.origin)
        bound = pace.bound(utc)
        if bound is not None and not self._limit.forbids(bound):  # else it is a dry run's, or for the robots.txt itself
            self._log_interval(robots, bound)
            if paced.shared is not None:
                paced.shared.sent(robots.fetched + min(bound.seconds, self._limit.longest))
        return self.take(request)

    def _pace_of(self, robots: OriginPolicy, agent: Agent) -> Pace | None:
        return robots.file.pace(agent) if self.keeps and robots.file is not None else None

    def expect(self, robots: OriginPolicy, agent: Agent) -> bool:
        """Note the pace of a site before a request is judged: its robots.txt has come, or is asked for again.

        :returns: whether it asks for a pace.
        """
        pace = self._pace_of(robots, agent)
        if pace is not None and not self._limit.forbids(pace.bound(self._utc())):
            self._refreshed(robots).paces.setdefault(agent, pace)
        return pace is not None

    def fetched(self, robots: OriginPolicy) -> None:
        """Keep what a robots.txt asks for that was fetched again, and no longer what the earlier one asked for."""
        if str(robots.origin) in self.origins:
            paced = self._refreshed(robots)
            if paced.shared is not None:
                paced.shared.sent(robots.fetched + paced.interval(self._utc()))

    def close(self) -> None:
        """Let other workers go on: nothing is sent any more. Name whom it cost most."""
        self._closed = True
        for origin, seconds in self._slowed.most(stats.LISTED):
            self._stats.set_value(stats.CRAWL_DELAY_ADDED_BY.format(origin=origin), round(seconds, 3))
        if self._timer is not None:
            self._timer.cancel()
        for request in list(self._requests):
            self._left(request)
        for paced in self.origins.values():
            if paced.shared is not None:
                paced.shared.close()

    def held(self) -> list[Held]:
        """Return the sites whose requests wait for their turns."""
        now, utc, found = self.clock(), self._utc(), []
        for name, count in self._held().items():
            if (paced := self.origins.get(name)) is not None:
                interval = paced.interval(utc)
                first = paced.turns.wait(None, interval, now, patient=False) or 0.0
                found.append(Held(count, interval, first))
        return found

    def left(self) -> int:
        """Return how many requests waited for their turns when the spider closed, wherever they stand."""
        return (self.left_over + self._held() - self.undecided).total()

    def _held(self) -> Counter[str]:
        held = Counter(map(self.name, self._in_place))
        for queue in self.queues:
            held += queue.waiting()
        return held

    # Turns.

    def interval(self, name: str) -> float:
        """Return the seconds that an origin, as text, asks for now; 0: it asks for none."""
        paced = self.origins.get(name)
        return 0.0 if paced is None else paced.interval(self._utc())

    def due(self, name: str) -> float | None:
        """Return the seconds until the next request of an origin may go; ``None``: the engine will be woken.

        :param name: the origin, as text.
        """
        paced = self.origins.get(name)
        if paced is None:
            return 0.0
        seconds = paced.wait(self._utc(), self.clock())
        if seconds is None and self._forget_ended(paced):
            seconds = paced.wait(self._utc(), self.clock())
        return seconds

    def take(self, request: Request) -> bool:
        """Take the turn of its site for a request that is about to leave for the downloader; false: it has to wait."""
        name = self.name(request)
        paced = self.origins.get(name)
        held = self._requests.get(request)
        # Its turn may have come only by what was known of the pace of its site before.
        if held is not None and held is paced and held.turns.last + held.interval(self._utc()) <= self.clock():
            return True
        self.release(request)
        if paced is None:
            return True
        seconds = self.due(name)
        if seconds:
            self.wake_in(seconds)
        if seconds != 0:
            return False
        self._begin(request, paced)
        self._count_held(paced, request)
        return True

    def release(self, request: Request) -> None:
        """Leave the turn of a request to another one: it is not sent now."""
        paced = self._requests.pop(request, None)
        if paced is not None:
            paced.turns.forget(request)
            if paced.shared is not None:
                paced.shared.unused(request)
            self._tell_waiting(paced)

    async def wait_in_place(self, request: Request) -> None:
        """Wait in the downloader for the turn of a request, and take it.

        :raises RobotsUndecided: the spider was closed first.
        """
        # The fetch of a robots.txt ends by itself soon after: an error before that would count as a fault of the crawl.
        patience = TICK + 0.1 if MARK in request.meta else 0.0
        while not self.take(request):
            if self._closed or self.clock() - self._closing_since >= patience:
                raise RobotsUndecided("the spider closed before the turn of this request came")
            waiter = self._in_place[request] = Waiter()
            try:
                await waiter
            finally:
                del self._in_place[request]

    def waiting_in_place(self) -> list[Request]:
        """The requests for which `wait_in_place` waits."""
        return list(self._in_place)

    def wake_in(self, seconds: float) -> None:
        """Let all that wait ask again, after so many seconds or before."""
        when = self.clock() + seconds
        if when < self._wake_at and not self._closed:
            if self._timer is not None:
                self._timer.cancel()
            self._wake_at = when
            self._timer = self._runtime.call_later(seconds, self._wake)

    def _wake(self) -> None:
        self._wake_at, self._timer = math.inf, None
        self._tell()

    def _tell(self) -> None:
        """Let all that wait ask again now."""
        for waiter in list(self._in_place.values()):
            waiter.resolve(None)
        _scrapy.EngineSlot(self._crawler).wake()

    def _tell_waiting(self, paced: PacedOrigin) -> None:
        if paced.since is not None:
            self._tell()

    def name(self, request: Request) -> str:
        """Return the origin that a request was judged for, as text; empty if it has none."""
        return str(self._judged(request) or "")

    # What is known of origins.

    def _refreshed(self, robots: OriginPolicy) -> PacedOrigin:
        """Return an origin with the paces of its present robots.txt."""
        paced = self.origins.get(str(robots.origin)) or self._pace(robots.origin)
        if paced.fetched != robots.fetched:
            paced.fetched = robots.fetched
            # The interval begins with the request for robots.txt.
            paced.turns.last = max(paced.turns.last, robots.fetched)
            if robots.outcome is not Outcome.UNREACHABLE:  # pages that were let through may still be on their way
                found = {agent: robots.file.pace(agent) for agent in paced.paces} if robots.file else {}
                paced.paces = {agent: pace for agent, pace in found.items() if pace is not None}
        return paced

    def _pace(self, origin: Origin) -> PacedOrigin:
        """Begin to keep the interval of an origin."""
        self._listen()
        if len(self.origins) >= self._sweep_at:
            self._sweep()
        longest, shared = self._limit.longest, None
        if self._store is not None:
            shared = SharedThrottle(origin, self._store, self._runtime, longest, self._tell)
        paced = self.origins[str(origin)] = PacedOrigin(longest, shared)
        for request in _scrapy.in_downloader(self._crawler):
            if request not in self._requests and self._judged(request) == origin:
                self._begin(request, paced)  # it left when nobody knew of the interval
        return paced

    def _is_first(self, what: str, origin: Origin) -> bool:
        """Whether something is logged of an origin for the first time."""
        entry = hash((what, origin))
        if entry in self._logged:
            return False
        self._logged.add(entry)
        return True

    def _log_interval(self, robots: OriginPolicy, bound: Bound) -> None:
        """Log and count, once an origin, the interval that is kept."""
        longest = self._limit.longest
        if not self._is_first("interval", robots.origin):
            return
        self._stats.inc_value(stats.CRAWL_DELAY_SITES)
        kept = f": kept at {longest:g} s (ROBOTS_CRAWL_DELAY_MAX)" if bound.seconds > longest else ""
        self._log("%s for %s%s", robots.cited(bound.text), robots.origin, kept)

    def _log(self, message: str, *arguments: object) -> None:
        logger.info(message, *arguments, extra={"spider": self._crawler.spider})

    # Requests on their way through the downloader.

    def _listen(self) -> None:
        """Connect to the downloader when the first site asks for an interval; crawls without one need no signals."""
        if not self.begun:
            self.begun = True
            connect = self._crawler.signals.connect
            connect(self._reached, signals.request_reached_downloader)
            connect(self.answered, signals.headers_received)
            connect(self._left, signals.request_left_downloader)
            self._runtime.call_later(_LOOK, self._look)

    def _reached(self, request: Request) -> None:
        """Let others wait for the answer of a request, also if it left before its origin asked for an interval."""
        origin = self._judged(request)
        paced = self.origins.get(str(origin))
        if paced is not None and request not in self._requests:
            self._begin(request, paced)
        if JUDGED in request.meta:
            # Parsed anew: a middleware may have changed the URL in place.
            if origin == Origin.of(request.url, self._schemes):
                del request.meta[JUDGED]  # so that requests which are made from this one begin anew
            else:
                request.meta[JUDGED] = [str(origin), request.url]

    def _judged(self, request: Request) -> Origin | None:
        """Return the origin that a request was judged for, whatever a middleware has made of its URL since."""
        if JUDGED not in request.meta:  # as of most requests; each is asked about when it is queued
            return self._origin_of(request)
        judged, sent = request.meta[JUDGED]
        return Origin.of(judged, self._schemes) if sent in (None, request.url) else self._origin_of(request)

    def _begin(self, request: Request, paced: PacedOrigin) -> None:
        self._requests[request] = paced
        paced.turns.start(request, self.clock())
        if paced.shared is not None:
            paced.shared.start(request)

    def _count_held(self, paced: PacedOrigin, request: Request) -> None:
        """Count the seconds for which the crawl had requests for an origin that could not go yet."""
        since, paced.since = paced.since, None
        if since is not None:
            # The interval runs beside the delay that the user asks for, which would have passed anyway.
            held = self.clock() - max(since, paced.turns.last) - _scrapy.slot_delay(self._crawler, request)
            if held > 0:
                self._added += held
                self._slowed.add(self.name(request), held)
            self._stats.set_value(stats.CRAWL_DELAY_ADDED, round(self._added, 3))

    def answered(self, request: Request) -> None:
        """Count the interval from now on: the answer begins to arrive, or nobody waits for it any more."""
        paced = self._requests.get(request)
        if paced is None or request not in paced.turns.outstanding:
            return
        now = self.clock()
        if paced.shared is not None:
            paced.shared.answered(request, paced.interval(self._utc()), now)
        paced.turns.answered(request, now)
        self._tell_waiting(paced)

    def _left(self, request: Request) -> None:
        self.answered(request)
        self._requests.pop(request, None)

    def _forget_ended(self, paced: PacedOrigin | None = None) -> bool:
        """Give up the turns of requests that have ended without being sent, and say whether there were any.

        Another middleware may have answered, replaced or dropped them: no signal tells of it.

        :param paced: look at those of one origin only.
        """
        active = _scrapy.active_requests(self._crawler)
        own = self._requests if paced is None else [each for each in paced.turns.outstanding if each in self._requests]
        ended = [request for request in own if request not in active]
        for request in ended:
            self.release(request)
        return bool(ended)

    def _look(self) -> None:
        """Let nothing wait for what has ended, nor for its turn when the spider is being closed."""
        if self._closed:
            return
        self._runtime.call_later(_LOOK, self._look)
        self._forget_ended()
        if _scrapy.is_closing(self._crawler):
            self._closing_since = min(self._closing_since, self.clock())
            self._tell()
            self.when_closing()

    def _sweep(self) -> None:
        """Forget origins that had no request for a while."""
        before = self.clock() - _KEPT - self._limit.longest
        for name, paced in list(self.origins.items()):
            if not paced.turns.outstanding and max(paced.turns.last, paced.noted) <= before:
                del self.origins[name]
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self.origins))
