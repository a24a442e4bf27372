"""Throttle, which gives requests their turns so that each paced site's interval is kept.

A turn is permission to send a request to a paced site. The queue takes a turn when it hands out a
request (`take`). The middleware takes turns for other requests (`admit`, then `wait_for_turn`). A
request keeps its turn until it is answered. Sites and intervals are in `paced_sites.py`.
"""

import logging
import math
from collections.abc import Callable
from functools import partial
from weakref import WeakSet

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

#: Seconds after which a middleware loses the turn of a request that it holds back.
MAX_HELD = 30.0

logger: logging.Logger = logging.getLogger(__name__)


class Throttle:
    """Manages the turns at a crawl's paced sites.

    :param settings: the settings of the crawl, or `None` if it does not obey robots.txt.
    :param origin_of: returns the origin of a request, or `None` if it has none.
    :param share: returns the turns of a site that are shared with other workers, or `None` if this
        crawl doesn't share turns. Its second argument is called when the site's turn may have come.
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
        # The requests that have a site's turn.
        self._turns: dict[Request, PacedSite] = {}
        #: The origins of requests that are waiting in the middleware.
        self.waiting: dict[Waiter[None], Origin] = {}
        self._timer: Cancellable | None = None
        self._wake_at = math.inf
        self._added_seconds = 0.0
        self._has_warned_of_held = False
        # The requests with a turn that have reached the downloader, so they will be sent.
        self._reached: WeakSet[Request] = WeakSet()

    # Paced sites.

    def note(self, robots: OriginPolicy, agent: Agent) -> None:
        """Pace a site according to what its robots.txt requests for an agent."""
        is_new = robots.origin not in self.sites
        site = self.sites.note(robots, agent)
        if site is None:  # no interval is requested
            return
        if is_new:
            self._begin_to_pace(site)
        # The request for robots.txt may have had no turn, because the interval wasn't known. All
        # workers have to leave an interval after it, too.
        site.turns.block_until(robots.fetched + self.sites.interval(site.origin))

    def _begin_to_pace(self, site: PacedSite) -> None:
        """Set up a site's turns, and give them to its requests that are already being sent."""
        # Most crawls don't have paced sites, so only connect the signals for the first one.
        if len(self.sites) == 1:
            connect = self._crawler.signals.connect
            connect(self._reached_downloader, signals.request_reached_downloader)
            connect(self.answered, signals.headers_received)
            connect(self.answered, signals.request_left_downloader)
        if self._share is not None:
            site.turns = self._share(site.origin, partial(self._wake_site, site.origin))
        for request in _scrapy.requests_in_downloader(self._crawler):
            if self._origin_of(request) == site.origin:
                self._reached_downloader(request)

    # Turns.

    def due(self, origin: Origin) -> float | None:
        """Return the seconds until an origin's turn comes.

        `None` means that it depends on a response or another worker. Then `on_turn` is called.
        """
        site = self.sites.get(origin)
        if site is None:
            return 0.0
        now = self.clock()
        interval = self.sites.interval(origin)
        seconds = site.clock.wait(interval, now)
        # The request that has the turn may have been dropped, so that no response will come.
        if seconds is None and self._release_ended(site):
            seconds = site.clock.wait(interval, now)
        if seconds == 0:  # as far as this crawl is concerned, but other workers may have the turn
            seconds = site.turns.wait(interval, now)
        if seconds != 0 and site.waiting_since is None:
            site.waiting_since = now
        return seconds

    def take(self, request: Request, origin: Origin) -> bool:
        """Take a site's turn for a request, or return False if it has not come."""
        site = self.sites.get(origin)
        if site is not None and self._has_turn(request, site):
            return True
        if self._turns:  # empty in most crawls
            self.release(request)  # its URL may have changed since it took another site's turn
        if site is None:
            return True
        seconds = self.due(origin)
        if seconds is None:  # `on_turn` will be called
            return False
        if seconds > 0:
            self.wake_in(seconds)
            return False
        self._give_turn(request, site)
        self._count_wait(site, request)
        return True

    def _has_turn(self, request: Request, site: PacedSite) -> bool:
        """Return whether a request has a site's turn and the interval has not become longer."""
        if self._turns.get(request) is not site:
            return False
        return site.clock.last + self.sites.interval(site.origin) <= self.clock()

    def _give_turn(self, request: Request, site: PacedSite) -> None:
        """Record that a request has a site's turn."""
        self._turns[request] = site
        site.clock.outstanding.add(request)
        site.turns.start(request)

    def _count_wait(self, site: PacedSite, request: Request) -> None:
        """Count how many seconds the interval delayed a request."""
        if site.waiting_since is None:  # the request didn't have to wait
            return
        # Count from when the request began to wait, or from when the previous response arrived if
        # that was later, because the interval begins then. Subtract the user's own delay, because
        # the request would have waited that long anyway.
        delay = _scrapy.slot_delay(self._crawler, slot_of(request))
        waited = self.clock() - max(site.waiting_since, site.clock.last) - delay
        site.waiting_since = None
        self._added_seconds += max(waited, 0.0)
        added = round(self._added_seconds, 3)
        stats.of(self._crawler).set_value(stats.CRAWL_DELAY_ADDED, added)

    def admit(self, request: Request, robots: OriginPolicy, agent: Agent) -> bool:
        """Take the turn for a request that was judged, or return False if it has to wait."""
        file = robots.file
        if not self.sites and (file is None or file.unpaced):
            return True  # most crawls don't have paced sites
        self.note(robots, agent)
        return self.take(request, robots.origin)

    async def wait_for_turn(self, request: Request, origin: Origin) -> None:
        """Wait in the middleware for a request's turn, and take it.

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
        """Release a request's turn, if it has one, because it won't be sent now."""
        site = self._turns.pop(request, None)
        if site is not None:
            site.clock.outstanding.discard(request)
            site.turns.unused(request)
            self._wake_site(site.origin)

    def answered(self, request: Request) -> None:
        """Start the interval, because the response is arriving or the request ended without one."""
        site = self._turns.pop(request, None)
        if site is not None:
            now = self.clock()
            site.turns.answered(request, self.sites.interval(site.origin), now)
            site.clock.answered(request, now)
            self._wake_site(site.origin)

    def _reached_downloader(self, request: Request) -> None:
        """Give a request a turn if its site's interval was unknown when it was sent."""
        origin = self._origin_of(request)
        site = None if origin is None else self.sites.get(origin)
        if site is None:
            return
        self._reached.add(request)
        if request not in self._turns:
            self._give_turn(request, site)

    def _release_ended(self, site: PacedSite | None = None) -> bool:
        """Release the turns of requests that ended unsent, and return whether there were any.

        Another middleware may have answered, replaced or dropped them without sending a signal.

        :param site: the site to check, or `None` for all sites.
        """
        ended = [
            request
            for request, request_site in self._turns.items()
            if (site is None or site is request_site)
            and not _scrapy.is_under_way(self._crawler, request)
        ]
        for request in ended:
            if request in self._reached:  # its caller was cancelled, but Scrapy still sends it
                self.answered(request)
            else:
                self.release(request)
        return bool(ended)

    def _release_held(self) -> None:
        """Release the turns of requests that a middleware holds back while others wait for them.

        The middleware may hold a request until another one is answered, for example for a login
        page. If that one is waiting for the turn of the first, neither would ever be sent.
        """
        for request, site in list(self._turns.items()):
            if request in self._reached:  # it has passed all middlewares, so it will be sent
                continue
            since = site.waiting_since
            if since is not None and self.clock() - since >= MAX_HELD:
                self._warn_of_held(site.origin)
                self.release(request)

    def _warn_of_held(self, origin: Origin) -> None:
        """Warn, once per crawl, that an interval may not be kept."""
        if not self._has_warned_of_held:
            self._has_warned_of_held = True
            text = (
                "A middleware has held a request to %s for over %g s, and other requests are "
                "waiting for its turn. To avoid a deadlock, they are sent now, perhaps faster than "
                "the Crawl-delay allows. Further cases are not logged"
            )
            logger.warning(text, origin, MAX_HELD, extra={"spider": self._crawler.spider})

    # Waking.

    def wake_in(self, seconds: float) -> None:
        """Wake the crawl after the given number of seconds, or earlier."""
        time = self.clock() + seconds
        if time < self._wake_at:
            if self._timer is not None:
                self._timer.cancel()
            self._wake_at = time
            self._timer = self._runtime.call_later(seconds, self._wake_crawl)

    def _wake_crawl(self) -> None:
        """Let all waiting requests try again. Any that must wait longer call `wake_in` again."""
        self._wake_at = math.inf
        for waiter in list(self.waiting):
            waiter.resolve(None)
        _scrapy.wake_engine(self._crawler)

    def _wake_site(self, origin: Origin) -> None:
        """Wake a site's requests, because its turn may have come."""
        self.on_turn(origin)
        self._wake_crawl()

    def tick(self) -> None:
        """Release the turns of finished requests, and stop all waits when the spider closes."""
        self._release_ended()
        self._release_held()
        if self.waiting and _scrapy.is_closing(self._crawler):
            self._wake_crawl()

    def close(self) -> None:
        """Release all turns, because no more requests will be sent."""
        if self._timer is not None:
            self._timer.cancel()
        for request in list(self._turns):
            self.answered(request)
        for site in self.sites.values():
            site.turns.close()


def slot_of(request: Request) -> str:
    """Return a request's downloader slot, based on its meta or host."""
    slot = request.meta.get("download_slot")
    return str(slot) if slot is not None else urlparse_cached(request).hostname or ""
