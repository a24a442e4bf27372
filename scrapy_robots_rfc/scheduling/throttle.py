"""Throttle: give requests their turns, so that the interval of each paced site is kept.

A turn is permission to send to a paced site. The queue takes it when it hands out a request
(`take`); the middleware takes it for other requests (`admit`, then `wait_for_turn`). The request
has its turn until it is answered. `paced_sites.py` has the sites and their intervals.
"""

import math
from collections.abc import Callable
from functools import partial

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc import _scrapy, stats
from scrapy_robots_rfc._runtime import Cancellable, Runtime, Waiter
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.paced_sites import OwnTurns, PacedSite, PacedSites
from scrapy_robots_rfc.settings import Settings


class Throttle:
    """The turns at the paced sites of a crawl.

    :param settings: the settings of the crawl, or `None` if it does not obey robots.txt.
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
        self.clock: Callable[[], float] = runtime.clock
        self.sites: PacedSites = PacedSites(crawler, settings, runtime)
        #: Called with an origin whose turn may have come.
        self.on_turn: Callable[[Origin], object] = lambda _: None
        # The requests that have the turn of a site.
        self._turns: dict[Request, PacedSite] = {}
        #: The origins of the requests that wait in the middleware.
        self.waiting: dict[Waiter[None], Origin] = {}
        self._timer: Cancellable | None = None
        self._wake_at = math.inf
        self._added_seconds = 0.0

    # Paced sites.

    def note(self, robots: OriginPolicy, agent: Agent) -> None:
        """Pace a site as its robots.txt asks of an agent."""
        is_new = robots.origin not in self.sites
        site = self.sites.note(robots, agent)
        if site is None:
            return
        if is_new:
            self._begin_to_pace(site)
        site.turns.sent(robots.fetched + self.sites.interval(site.origin))

    def _begin_to_pace(self, site: PacedSite) -> None:
        """Give turns to the requests of a site that were sent before its interval was known."""
        if len(self.sites) == 1:  # most crawls have no paced site, and need no signals
            connect = self._crawler.signals.connect
            connect(self._reached_downloader, signals.request_reached_downloader)
            connect(self.answered, signals.headers_received)
            connect(self.answered, signals.request_left_downloader)
        if self._share is not None:
            site.turns = self._share(site.origin, partial(self._wake_site, site.origin))
        for request in _scrapy.requests_in_downloader(self._crawler):
            if request not in self._turns and self._origin_of(request) == site.origin:
                self._give_turn(request, site)

    # Turns.

    def due(self, origin: Origin) -> float | None:
        """Return the seconds until the turn of an origin comes.

        `None` means that an answer, or another worker, comes first; then `on_turn` is called.
        """
        site = self.sites.get(origin)
        if site is None:
            return 0.0
        now = self.clock()
        interval = self.sites.interval(origin)
        seconds = site.clock.wait(interval, now)
        if seconds is None and self._release_ended(site):
            seconds = site.clock.wait(interval, now)
        if seconds == 0:
            seconds = site.turns.wait(interval, now)
        if seconds != 0 and site.waiting_since is None:
            site.waiting_since = now
        return seconds

    def take(self, request: Request, origin: Origin) -> bool:
        """Take the turn of a site for a request, or return false if it has not come."""
        site = self.sites.get(origin)
        if site is not None and self._has_turn(request, site):
            return True
        if self._turns:  # empty in most crawls
            self.release(request)  # its URL may have changed since it took the turn of another site
        if site is None:
            return True
        seconds = self.due(origin)
        if seconds is None:  # it comes after an answer, and `answered` wakes the engine then
            return False
        if seconds > 0:
            self.wake_in(seconds)
            return False
        self._give_turn(request, site)
        self._count_wait(site, request)
        return True

    def _has_turn(self, request: Request, site: PacedSite) -> bool:
        """Return whether a request has the turn of a site, and the interval is not longer now."""
        if self._turns.get(request) is not site:
            return False
        return site.clock.last + self.sites.interval(site.origin) <= self.clock()

    def _give_turn(self, request: Request, site: PacedSite) -> None:
        """Note that a request has the turn of a site."""
        self._turns[request] = site
        site.clock.outstanding.add(request)
        site.turns.start(request)

    def _count_wait(self, site: PacedSite, request: Request) -> None:
        """Count the seconds by which the interval delayed a request."""
        if site.waiting_since is None:
            return
        # The user's own delay passes at the same time, and is not counted.
        delay = _scrapy.slot_delay(self._crawler, slot_of(request))
        waited = self.clock() - max(site.waiting_since, site.clock.last) - delay
        site.waiting_since = None
        self._added_seconds += max(waited, 0.0)
        added = round(self._added_seconds, 3)
        stats.of(self._crawler).set_value(stats.CRAWL_DELAY_ADDED, added)

    def admit(self, request: Request, robots: OriginPolicy, agent: Agent) -> bool:
        """Take the turn of a request that was judged, or return false if it has to wait."""
        file = robots.file
        if not self.sites and (file is None or file.unpaced):
            return True  # most crawls have no paced site
        self.note(robots, agent)
        return self.take(request, robots.origin)

    async def wait_for_turn(self, request: Request, origin: Origin) -> None:
        """Wait in the middleware for the turn of a request, and take it.

        :raises RobotsUndecided: the spider was closed first.
        """
        while not self.take(request, origin):
            if _scrapy.is_closing(self._crawler):
                raise RobotsUndecided("the spider closed before the request could be sent")
            waiter: Waiter[None] = Waiter()
            self.waiting[waiter] = origin
            try:
                await waiter
            finally:
                del self.waiting[waiter]

    def release(self, request: Request) -> None:
        """Release the turn of a request that is not sent now, if it has one."""
        site = self._turns.pop(request, None)
        if site is not None:
            site.clock.outstanding.discard(request)
            site.turns.unused(request)
            self._wake_site(site.origin)

    def answered(self, request: Request) -> None:
        """Start the interval: the answer begins to arrive, or the request ended without one."""
        site = self._turns.pop(request, None)
        if site is not None:
            now = self.clock()
            site.turns.answered(request, self.sites.interval(site.origin), now)
            site.clock.answered(request, now)
            self._wake_site(site.origin)

    def _reached_downloader(self, request: Request) -> None:
        """Give the request a turn if the interval of its site was unknown when it was sent."""
        origin = self._origin_of(request)
        site = None if origin is None else self.sites.get(origin)
        if site is not None and request not in self._turns:
            self._give_turn(request, site)

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

    # Waking.

    def wake_in(self, seconds: float) -> None:
        """Wake the crawl after some seconds, or earlier."""
        time = self.clock() + seconds
        if time < self._wake_at:
            if self._timer is not None:
                self._timer.cancel()
            self._wake_at = time
            self._timer = self._runtime.call_later(seconds, self._wake_crawl)

    def _wake_crawl(self) -> None:
        """Let all waiting requests try again; one that has to wait longer calls `wake_in` again."""
        self._wake_at = math.inf
        for waiter in list(self.waiting):
            waiter.resolve(None)
        _scrapy.wake_engine(self._crawler)

    def _wake_site(self, origin: Origin) -> None:
        """Wake the requests of a site, because its turn may have come."""
        self.on_turn(origin)
        self._wake_crawl()

    def tick(self) -> None:
        """Release the turns of ended requests, and end all waits when the spider closes."""
        self._release_ended()
        if self.waiting and _scrapy.is_closing(self._crawler):
            self._wake_crawl()

    def close(self) -> None:
        """Release all turns: nothing more is sent."""
        if self._timer is not None:
            self._timer.cancel()
        for request in list(self._turns):
            self.answered(request)
        for site in self.sites.values():
            site.turns.close()


def slot_of(request: Request) -> str:
    """Return a request's downloader slot, taken from its meta or its host."""
    slot = request.meta.get("download_slot")
    return str(slot) if slot is not None else urlparse_cached(request).hostname or ""
