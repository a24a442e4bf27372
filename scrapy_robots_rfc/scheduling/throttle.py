"""Throttle: when the next request to a site may leave, so that its interval passes between two.

`policy/pacing.py` reads what a robots.txt asks for and counts intervals. The turn of a site is
taken in two places: by the queue, when it hands out a request (`take`), and by the middleware for
what came another way (`admit`, and then `wait_in_place`). The request has it until it is answered.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_robots_rfc import _scrapy, stats
from scrapy_robots_rfc._runtime import Cancellable, Runtime, Waiter
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.pacing import Limit
from scrapy_robots_rfc.scheduling.paced import OwnTurns, PacedSite
from scrapy_robots_rfc.scheduling.part import slot_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.policy.pacing import Bound
    from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

#: Seconds for which a site without requests is remembered, beyond its interval: for so long a
#: request that was let through may stay with other middlewares before it reaches the downloader.
REMEMBERED = 300.0

#: The number of sites from which on those that may be forgotten are looked for.
FIRST_SWEEP = 1000


class Throttle:
    """The turns at the sites of a crawl that ask for an interval.

    :param settings: with ROBOTS_CRAWL_DELAY_MAX = 0 no site is paced; ``None``: the crawl obeys no
        robots.txt.
    :param origin_of: gives the origin of a request, ``None`` for one that has none.
    :param share: makes the turns of a fleet at a site; ``None``: this crawl shares none.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings | None,
        origin_of: Callable[[Request], Origin | None],
        runtime: Runtime,
        share: Callable[[Origin, float, Callable[[], object]], OwnTurns] | None = None,
    ) -> None:
        self._crawler = crawler
        self._origin_of = origin_of
        self._share = share
        self._runtime = runtime
        self._limit = (settings and settings.limit) or Limit(0.0)
        self._dry_run = settings is not None and settings.dry_run
        self._utc = runtime.utc
        self.clock: Callable[[], float] = runtime.clock
        #: Sites that are paced, by their origins.
        self.sites: dict[Origin, PacedSite] = {}
        #: Called with the origin whose turn may have come.
        self.on_turn: Callable[[Origin], object] = lambda _: None
        # The requests that have the turn of a site, until they are answered or over.
        self._turns: dict[Request, PacedSite] = {}
        #: The origins of the requests that wait in place.
        self.in_place: dict[Waiter[None], Origin] = {}
        self._timer: Cancellable | None = None
        self._wake_at = math.inf
        self._sweep_at = FIRST_SWEEP
        self._added = 0.0
        # Origins whose interval was logged, as hashes: there may be millions of them.
        self._logged: set[int] = set()
        self._closed = False

    # What sites ask for.

    def note(self, robots: OriginPolicy, agent: Agent) -> None:
        """Pace a site as its present robots.txt asks of an agent, and log that once a site."""
        pace = None
        if robots.file is not None and self._limit.longest:
            pace = robots.file.pace(agent)
        site = self.sites.get(robots.origin)
        if pace is None and site is None:
            return
        bound = None if pace is None else pace.bound(self._utc())
        if self._limit.forbids(bound) and not self._dry_run:
            pace = None  # no page of the site is fetched
        if site is None:
            if pace is None:
                return
            site = self._begin_to_pace(robots.origin)
        self._refresh(site, robots)
        if pace is not None:
            site.used = self.clock()
            if pace not in site.paces.values():
                site.paces[agent] = pace
            self._log_interval(robots, bound)
        site.turns.sent(robots.fetched + site.interval(self._utc()))

    def _refresh(self, site: PacedSite, robots: OriginPolicy) -> None:
        """Pace a site by its present robots.txt, and no longer by the one before."""
        if site.fetched == robots.fetched:
            return
        site.fetched = robots.fetched
        # The interval begins with the request for robots.txt.
        site.clock.last = max(site.clock.last, robots.fetched)
        if robots.outcome is Outcome.UNREACHABLE:
            return  # pages that were let through before may still be on their way
        file = robots.file
        paces = {} if file is None else {agent: file.pace(agent) for agent in site.paces}
        site.paces = {agent: pace for agent, pace in paces.items() if pace is not None}

    def interval(self, origin: Origin) -> float:
        """Return the seconds that an origin asks for now; 0: it asks for none."""
        site = self.sites.get(origin)
        return 0.0 if site is None else site.interval(self._utc())

    # Turns.

    def due(self, origin: Origin) -> float | None:
        """Return the seconds until the next request of an origin may go.

        ``None``: an answer is waited for, and `on_turn` is called then.
        """
        site = self.sites.get(origin)
        if site is None:
            return 0.0
        seconds = site.wait(self._utc(), self.clock())
        if seconds is None and self._forget_ended(site):
            seconds = site.wait(self._utc(), self.clock())
        return seconds

    def take(self, request: Request, origin: Origin) -> bool:
        """Take the turn of a site for a request that leaves now; false: it has to wait."""
        site = self.sites.get(origin)
        if site is not None and self._has_turn(request, site):
            return True
        if self._turns:
            self.release(request)  # it may have that of another site: its URL was changed since
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
        """Whether a request has the turn already, also by what is known of the site's pace now."""
        if self._turns.get(request) is not site:
            return False
        return site.clock.last + site.interval(self._utc()) <= self.clock()

    def admit(self, request: Request, robots: OriginPolicy, agent: Agent) -> bool:
        """Let a request that was judged leave now, in the turn of its site.

        False: it has to wait.
        """
        file = robots.file
        if not self.sites and (file is None or file.pace(agent) is None):
            return True  # most crawls have no paced site
        self.note(robots, agent)
        return self.take(request, robots.origin)

    def release(self, request: Request) -> None:
        """Give up the turn of a request, if it has one: it is not sent now."""
        site = self._turns.pop(request, None)
        if site is not None:
            site.unused(request)
            self._ask_again(site.origin)

    async def wait_in_place(self, request: Request, origin: Origin) -> None:
        """Wait in the downloader for the turn of a request, and take it.

        :raises RobotsUndecided: the spider was closed first.
        """
        while not self.take(request, origin):
            if self._closed or _scrapy.is_closing(self._crawler):
                raise RobotsUndecided("the spider closed before the turn of this request came")
            waiter: Waiter[None] = Waiter()
            self.in_place[waiter] = origin
            try:
                await waiter
            finally:
                del self.in_place[waiter]

    # What wakes those that wait.

    def wake_in(self, seconds: float) -> None:
        """Let all that wait ask again, after so many seconds or before."""
        when = self.clock() + seconds
        if when < self._wake_at and not self._closed:
            if self._timer is not None:
                self._timer.cancel()
            self._wake_at = when
            self._timer = self._runtime.call_later(seconds, self._wake)

    def _wake(self) -> None:
        self._wake_at = math.inf
        self._timer = None
        self._wake_all()

    def _wake_all(self) -> None:
        for waiter in list(self.in_place):
            waiter.resolve(None)
        _scrapy.wake(self._crawler)

    def _ask_again(self, origin: Origin) -> None:
        """Let the requests of a site that wait ask for the turn again."""
        self.on_turn(origin)
        self._wake_all()

    def tick(self) -> None:
        """Let no request wait for one that has ended, and none in place as the spider closes."""
        self._forget_ended()
        if self.in_place and _scrapy.is_closing(self._crawler):
            self._wake_all()

    def close(self) -> None:
        """Let other workers go on: nothing is sent any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for request in list(self._turns):
            self._left(request)
        for site in self.sites.values():
            site.turns.close()

    # What is known of sites.

    def _begin_to_pace(self, origin: Origin) -> PacedSite:
        if not self.sites:  # most crawls need no signals
            connect = self._crawler.signals.connect
            connect(self._reached, signals.request_reached_downloader)
            connect(self.answered, signals.headers_received)
            connect(self._left, signals.request_left_downloader)
            _scrapy.send_once(self._crawler)
        if len(self.sites) >= self._sweep_at:
            self._sweep()
        longest = self._limit.longest
        site = self.sites[origin] = PacedSite(origin, longest)
        if self._share is not None:
            site.turns = self._share(origin, longest, partial(self._ask_again, origin))
        for request in _scrapy.in_downloader(self._crawler):
            if request not in self._turns and self._origin_of(request) == origin:
                self._begin(request, site)  # it left when the interval was not known
        return site

    def _sweep(self) -> None:
        """Forget sites that had no request for a while."""
        before = self.clock() - REMEMBERED - self._limit.longest
        for origin, site in list(self.sites.items()):
            if not site.clock.outstanding and max(site.clock.last, site.used) <= before:
                del self.sites[origin]
        self._sweep_at = max(FIRST_SWEEP, 2 * len(self.sites))

    def _log_interval(self, robots: OriginPolicy, bound: Bound | None) -> None:
        """Log and count, once a site, the interval that passes between two requests."""
        origin = hash(robots.origin)
        if bound is None or origin in self._logged:
            return
        self._logged.add(origin)
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value(stats.CRAWL_DELAY_SITES)
        asked = robots.cited(bound.text)
        if bound.seconds <= self._limit.longest:
            self._log("%s for %s: its requests are sent that far apart", asked, robots.origin)
        else:
            text = "%s for %s: its requests are sent %g s apart (ROBOTS_CRAWL_DELAY_MAX)"
            self._log(text, asked, robots.origin, self._limit.longest)

    def _log(self, text: str, *arguments: object) -> None:
        logger.info(text, *arguments, extra={"spider": self._crawler.spider})

    # Requests on their way through the downloader.

    def _reached(self, request: Request) -> None:
        """Let others wait for a request that has no turn: its site's interval was not known."""
        origin = self._origin_of(request)
        site = None if origin is None else self.sites.get(origin)
        if site is not None and request not in self._turns:
            self._begin(request, site)

    def _begin(self, request: Request, site: PacedSite) -> None:
        self._turns[request] = site
        site.start(request, self.clock())

    def _count_wait(self, site: PacedSite, request: Request) -> None:
        """Count the seconds for which the crawl had requests for a site that could not go yet."""
        since = site.since
        if since is None:
            return
        site.since = None
        # The delay that the user asks for passes at the same time, and is not counted.
        delay = _scrapy.slot_delay(self._crawler, slot_of(request))
        waited = self.clock() - max(since, site.clock.last) - delay
        self._added += max(waited, 0.0)
        assert self._crawler.stats is not None
        self._crawler.stats.set_value(stats.CRAWL_DELAY_ADDED, round(self._added, 3))

    def answered(self, request: Request) -> None:
        """Count the interval from now on.

        The answer begins to arrive, or the request has ended without one.
        """
        site = self._turns.get(request)
        if site is not None and request in site.clock.outstanding:
            site.answered(request, self._utc(), self.clock())
            self._ask_again(site.origin)

    def _left(self, request: Request) -> None:
        self.answered(request)
        self._turns.pop(request, None)

    def _forget_ended(self, site: PacedSite | None = None) -> bool:
        """Give up the turns of requests that have ended unsent; return whether there were any.

        Another middleware may have answered, replaced or dropped them: no signal says so.

        :param site: look at those of one site only.
        """
        ended = [
            request
            for request, paced in self._turns.items()
            if site in (None, paced) and not _scrapy.is_under_way(self._crawler, request)
        ]
        for request in ended:
            self.release(request)
        return bool(ended)
