"""Throttle: decide when the next request to a site may be sent, to keep its interval.

`policy/pacing.py` reads intervals and counts them. A turn is permission to send to a paced site.
The queue takes it when it hands out a request (`take`); the middleware takes it for other requests
(`admit`, then `wait_in_place`). The request has its turn until it is answered.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc import _scrapy, stats
from scrapy_robots_rfc._runtime import Cancellable, Runtime, Waiter
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.pacing import Bound, IntervalClock, Pace
from scrapy_robots_rfc.settings import Settings
from scrapy_robots_rfc.signals import site_paced

#: Seconds for which a site without requests is remembered, beyond its interval. By then its turns
#: in a fleet will have expired.
REMEMBERED = 300.0

#: Seconds for which a file, or a local failure, counts as known after its fetch.
MIN_KNOWN_FOR = 1.0

#: Number of sites at which idle ones are forgotten for the first time.
FIRST_SWEEP = 1000


class OwnTurns:
    """The turns of a crawl that does not share them; `shared.py` has the turns of a fleet."""

    def wait(self, interval: float, now: float) -> float | None:  # noqa: ARG002 - it never waits
        """Return the seconds until a request may start, or `None` if the crawl is woken then.

        :param interval: seconds after the previous request; 0 for no wait.
        """
        return 0.0

    def start(self, request: object) -> None:
        """Use the turn that `wait` granted for a request."""

    def unused(self, request: object) -> None:
        """Leave the turn of a request that was not sent to the next request."""

    def answered(self, request: object, interval: float, now: float) -> None:
        """End the turn of a request: its answer begins to arrive, or it ended without an answer.

        :param interval: seconds until the next request.
        """

    def sent(self, until: float) -> None:
        """Make all workers wait after a request without a turn, such as a robots.txt request.

        :param until: when its interval ends.
        """

    def close(self) -> None:
        """Release the turns: this crawl sends nothing more."""


@dataclass(slots=True, eq=False, repr=False)
class PacedSite:
    """A site that asks for an interval.

    :param turns: the turns of the workers of a fleet.
    :param clock: counts the interval of this crawl.
    :param fetched: when the robots.txt with these paces was fetched.
    :param paces: the paces of the crawl's agents, each with one of these agents; the largest
        interval counts.
    :param since: when a request began to wait for its turn, or `None` if none is waiting.
    """

    origin: Origin
    turns: OwnTurns = field(default_factory=OwnTurns)
    clock: IntervalClock = field(default_factory=IntervalClock)
    fetched: float = -math.inf
    paces: dict[Pace, Agent] = field(default_factory=dict)
    since: float | None = None


class Throttle:
    """The turns at the sites of a crawl that ask for an interval.

    :param settings: with ROBOTS_CRAWL_DELAY_MAX = 0 no site is paced; `None` if the crawl does not
        obey robots.txt.
    :param origin_of: returns the origin of a request, or `None` if it has none.
    :param share: makes the turns of a fleet at a site, or `None` if this crawl shares none.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings | None,
        origin_of: Callable[[Request], Origin | None],
        runtime: Runtime,
        share: Callable[[Origin, Callable[[], object]], OwnTurns] | None = None,
    ) -> None:
        self._crawler = crawler
        self._origin_of = origin_of
        self._share = share
        self._runtime = runtime
        self._settings = settings
        self._longest = 0.0 if settings is None else settings.crawl_delay_max
        self._utc = runtime.utc
        self.clock: Callable[[], float] = runtime.clock
        #: Origin -> paced site.
        self.sites: dict[Origin, PacedSite] = {}
        #: Called with an origin whose turn may have come.
        self.on_turn: Callable[[Origin], object] = lambda _: None
        # The requests that have the turn of a site.
        self._turns: dict[Request, PacedSite] = {}
        #: The origins of the requests that wait in the middleware.
        self.in_place: dict[Waiter[None], Origin] = {}
        self._timer: Cancellable | None = None
        self._wake_at = math.inf
        self._sweep_at = FIRST_SWEEP
        self._added = 0.0
        # Origins whose interval was logged, as hashes: there may be millions of them.
        self._logged: set[int] = set()

    # What sites ask for.

    def note(self, robots: OriginPolicy, agent: Agent) -> None:
        """Pace a site as its robots.txt asks of an agent, and log that once for each site."""
        settings = self._settings
        pace = robots.pace(agent) if self._longest else None
        bound = None if pace is None else pace.bound(self._utc())
        if settings and bound and settings.forbids(bound) and not settings.dry_run:
            pace = None  # no page of the site is fetched
        site = self.sites.get(robots.origin)
        if site is None:
            if pace is None:
                return
            site = self._begin_to_pace(robots.origin)
        self._refresh(site, robots)
        if pace is not None:
            site.paces[pace] = agent
            self._log_interval(robots, bound)
        site.turns.sent(robots.fetched + self.interval(site.origin))

    def _refresh(self, site: PacedSite, robots: OriginPolicy) -> None:
        """Replace the paces of a site by those in its new robots.txt."""
        if site.fetched == robots.fetched:
            return
        site.fetched = robots.fetched
        # The interval begins with the request for robots.txt.
        site.clock.last = max(site.clock.last, robots.fetched)
        if robots.outcome is Outcome.UNREACHABLE:
            return  # pages that were sent before may still be in flight
        agents = site.paces.values()
        site.paces = {pace: agent for agent in agents if (pace := robots.pace(agent)) is not None}

    def interval(self, origin: Origin) -> float:
        """Return the largest interval that an origin asks for now, in seconds; 0 for none."""
        site = self.sites.get(origin)
        if site is None:
            return 0.0
        utc = self._utc()
        bounds = [pace.bound(utc) for pace in site.paces]
        seconds = max((bound.seconds for bound in bounds if bound is not None), default=0.0)
        return min(seconds, self._longest)

    def known_for(self, origin: Origin) -> float:
        """Return the seconds for which a file counts as known after its fetch, even if it is stale.

        Otherwise a file that is stale at once would be fetched for each request. A fetch takes the
        turn of its site, so the next request may be sent an interval later.
        """
        return MIN_KNOWN_FOR + (self.interval(origin) if self.sites else 0.0)

    # Turns.

    def due(self, origin: Origin) -> float | None:
        """Return the seconds until the turn of an origin comes.

        `None` means that an answer, or another worker, comes first; then `on_turn` is called.
        """
        site = self.sites.get(origin)
        if site is None:
            return 0.0
        now = self.clock()
        interval = self.interval(origin)
        seconds = site.clock.wait(interval, now)
        if seconds is None and self._release_ended(site):
            seconds = site.clock.wait(interval, now)
        if seconds == 0:
            seconds = site.turns.wait(interval, now)
        if seconds != 0 and site.since is None:
            site.since = now
        return seconds

    def take(self, request: Request, origin: Origin) -> bool:
        """Take the turn of a site for a request, or return false if it has not come."""
        site = self.sites.get(origin)
        if site is not None and self._has_turn(request, site):
            return True
        if self._turns:
            self.release(request)  # its URL may have changed since it took the turn of another site
        if site is None:
            return True
        seconds = self.due(origin)
        if seconds:
            self.wake_in(seconds)
        if seconds != 0:
            return False
        self._begin(request, site)
        self._count_wait(site, request)
        return True

    def _has_turn(self, request: Request, site: PacedSite) -> bool:
        """Return whether a request has the turn, by the pace that is known now."""
        if self._turns.get(request) is not site:
            return False
        return site.clock.last + self.interval(site.origin) <= self.clock()

    def admit(self, request: Request, robots: OriginPolicy, agent: Agent) -> bool:
        """Take the turn of a request that was judged, or return false if it has to wait."""
        file = robots.file
        if not self.sites and (file is None or file.unpaced):
            return True  # most crawls have no paced site
        self.note(robots, agent)
        return self.take(request, robots.origin)

    def release(self, request: Request) -> None:
        """Release the turn of a request that is not sent now, if it has one."""
        site = self._turns.pop(request, None)
        if site is not None:
            site.clock.outstanding.discard(request)
            site.turns.unused(request)
            self._ask_again(site.origin)

    async def wait_in_place(self, request: Request, origin: Origin) -> None:
        """Wait in the middleware for the turn of a request, and take it.

        :raises RobotsUndecided: the spider was closed first.
        """
        while not self.take(request, origin):
            if _scrapy.is_closing(self._crawler):
                raise RobotsUndecided("the spider closed before the turn of this request came")
            waiter: Waiter[None] = Waiter()
            self.in_place[waiter] = origin
            try:
                await waiter
            finally:
                del self.in_place[waiter]

    # Waking.

    def wake_in(self, seconds: float) -> None:
        """Wake all who wait in some seconds, or earlier."""
        when = self.clock() + seconds
        if when < self._wake_at:
            if self._timer is not None:
                self._timer.cancel()
            self._wake_at = when
            self._timer = self._runtime.call_later(seconds, self._wake_all)

    def _wake_all(self) -> None:
        """Wake all who wait; who has to wait longer calls `wake_in` again."""
        self._wake_at = math.inf
        for waiter in list(self.in_place):
            waiter.resolve(None)
        _scrapy.wake_engine(self._crawler)

    def _ask_again(self, origin: Origin) -> None:
        """Wake the waiting requests of a site."""
        self.on_turn(origin)
        self._wake_all()

    def tick(self) -> None:
        """Release the turns of finished requests, and end all waits when the spider closes."""
        self._release_ended()
        if self.in_place and _scrapy.is_closing(self._crawler):
            self._wake_all()

    def close(self) -> None:
        """Release all turns: nothing more is sent."""
        if self._timer is not None:
            self._timer.cancel()
        for request in list(self._turns):
            self.answered(request)
        for site in self.sites.values():
            site.turns.close()

    # Sites.

    def _begin_to_pace(self, origin: Origin) -> PacedSite:
        if not self.sites:  # most crawls need no signals
            connect = self._crawler.signals.connect
            connect(self._reached, signals.request_reached_downloader)
            connect(self.answered, signals.headers_received)
            connect(self.answered, signals.request_left_downloader)
        if len(self.sites) >= self._sweep_at:
            self._sweep()
        site = self.sites[origin] = PacedSite(origin)
        if self._share is not None:
            ask_again = partial(self._ask_again, origin)
            site.turns = self._share(origin, ask_again)
        for request in _scrapy.in_downloader(self._crawler):
            if request not in self._turns and self._origin_of(request) == origin:
                self._begin(request, site)  # it was sent before the interval was known
        return site

    def _sweep(self) -> None:
        """Forget sites that were idle for a while."""
        before = self.clock() - REMEMBERED - self._longest
        for origin, site in list(self.sites.items()):
            waits = site.clock.outstanding or site.since is not None
            if not waits and site.clock.last <= before:
                del self.sites[origin]
        self._sweep_at = max(FIRST_SWEEP, 2 * len(self.sites))

    def _log_interval(self, robots: OriginPolicy, bound: Bound | None) -> None:
        """Count and notify, once for each site, the interval between two requests."""
        origin = hash(robots.origin)
        if bound is None or origin in self._logged:
            return
        self._logged.add(origin)
        stats.of(self._crawler).inc_value(stats.CRAWL_DELAY_SITES)
        interval = min(bound.seconds, self._longest)
        self._crawler.signals.send_catch_log(
            site_paced, robots=robots, bound=bound, interval=interval
        )

    # Requests in the downloader.

    def _reached(self, request: Request) -> None:
        """Give the request a turn if the interval of its site was unknown when it was sent."""
        origin = self._origin_of(request)
        site = None if origin is None else self.sites.get(origin)
        if site is not None and request not in self._turns:
            self._begin(request, site)

    def _begin(self, request: Request, site: PacedSite) -> None:
        self._turns[request] = site
        site.clock.outstanding.add(request)
        site.turns.start(request)

    def _count_wait(self, site: PacedSite, request: Request) -> None:
        """Count the seconds by which the interval delayed a request."""
        since = site.since
        if since is None:
            return
        site.since = None
        # The user's own delay passes at the same time, and is not counted.
        delay = _scrapy.slot_delay(self._crawler, slot_of(request))
        waited = self.clock() - max(since, site.clock.last) - delay
        self._added += max(waited, 0.0)
        stats.of(self._crawler).set_value(stats.CRAWL_DELAY_ADDED, round(self._added, 3))

    def answered(self, request: Request) -> None:
        """Start the interval: the answer begins to arrive, or the request ended without one."""
        site = self._turns.pop(request, None)
        if site is not None:
            now = self.clock()
            site.turns.answered(request, self.interval(site.origin), now)
            site.clock.answered(request, now)
            self._ask_again(site.origin)

    def _release_ended(self, site: PacedSite | None = None) -> bool:
        """Release the turns of requests that ended unsent, and return whether there were any.

        Another middleware may have answered, replaced or dropped them, and no signal says so.

        :param site: the site to look at, or `None` for all.
        """
        ended = [
            request
            for request, paced in self._turns.items()
            if site in (None, paced) and not _scrapy.is_under_way(self._crawler, request)
        ]
        for request in ended:
            self.release(request)
        return bool(ended)


def slot_of(request: Request) -> str:
    """Return a request's downloader slot, taken from its meta or its host."""
    slot = request.meta.get("download_slot")
    return str(slot) if slot is not None else _hostname(urlparse_cached(request).netloc)


@lru_cache(maxsize=10_000)
def _hostname(netloc: str) -> str:
    return urlsplit(f"//{netloc}").hostname or ""
