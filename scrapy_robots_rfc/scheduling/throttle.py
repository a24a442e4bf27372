"""Throttle, which gives requests their turns so that each paced site's interval is kept.

A turn is permission to send a request to a paced site. The queue takes a turn when it hands out a
request (`take`). Once a request has been judged, the middleware asks again (`admit`). If it has no
turn, because it bypassed the queue, or its URL or the interval has changed, it waits
(`wait_for_turn`). Each turn ends in one of these ways:

- The response begins to arrive, or the request fails: `answered` starts the interval.
- The request won't be sent now, because it is dropped, waits for its robots.txt, or another
  middleware has answered: `release` lets the next request have the turn.
- The request has left the downloader without a signal, because another middleware replaced or
  dropped it, or its caller was cancelled: `_end_lost_turns` finds it.
- A middleware holds the request, so others may wait for the turn: `_end_lost_turns` releases it
  after `MAX_HELD` seconds.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import ParseResult

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc import _scrapy, stats
from scrapy_robots_rfc._runtime import CANCELLED, Runtime, Waiter, log_once
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.pacing import Bound, Pace
from scrapy_robots_rfc.scheduling.paced_site import PacedSite, Turns
from scrapy_robots_rfc.settings import Settings
from scrapy_robots_rfc.signals import site_paced

#: Seconds after which a middleware loses the turn of a request that it holds back.
MAX_HELD = 30.0

# Maximum seconds until a waiting site is checked again.
_MAX_WAIT = 5.0

#: Seconds, on top of its interval, to remember a site without requests. By then its shared turns
#: will have expired.
REMEMBERED = 300.0

#: Number of sites that triggers the first cleanup of idle ones.
FIRST_SWEEP = 1000

logger: logging.Logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class Turn:
    """The turn of a request, which is in `Throttle._turns` until it ends.

    :param site: the site that the request may be sent to.
    :param since: when the request took it.
    :param will_be_sent: True once the request has passed all middlewares.
    """

    site: PacedSite
    since: float
    will_be_sent: bool = False


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
        share: Callable[[Origin, Callable[[], object]], Turns] | None = None,
    ) -> None:
        self._crawler = crawler
        self._settings = settings
        # A maximum of 0 paces no site.
        self._max_interval = 0.0 if settings is None else settings.crawl_delay_max
        self._origin_of = origin_of
        self._share = share
        #: True if other workers take turns at the same sites.
        self.is_shared: bool = share is not None
        self._runtime = runtime
        self.clock: Callable[[], float] = runtime.clock
        #: The paced sites.
        self.sites: dict[Origin, PacedSite] = {}
        self._sweep_at = FIRST_SWEEP
        # Origins that were announced, as hashes to save memory, because there may be millions.
        self._announced: set[int] = set()
        #: Called with an origin whose turn may have come, so that its requests leave the queue.
        self.on_turn: Callable[[Origin], object] = lambda _: None
        # The requests that have a site's turn.
        self._turns: dict[Request, Turn] = {}
        self._added_seconds = 0.0  # the total of `_count_wait`

    # Paced sites.

    def note(self, policy: OriginPolicy, agent: Agent) -> None:
        """Pace a site according to what its robots.txt requests for an agent.

        Called for each new policy, and again for a request, which may have an agent of its own.
        """
        pace, bound = self._pace_to_keep(policy, agent)
        site = self.sites.get(policy.origin)
        if site is None and pace is None:
            return
        if site is None:
            site = self._begin_to_pace(policy.origin)
        site.update(policy)  # replaces the paces of an earlier file before this one is added
        # The request may have been handed out with an older policy.
        if pace is not None and policy.fetched >= site.fetched:
            site.paces[pace] = agent
            self._report_pace(policy, bound)
        # The request for robots.txt may have had no turn, because the interval wasn't known. Noting
        # it again has no effect, because only the time of its response counts.
        site.turns.ended_without_turn(policy.fetched, self.interval(site.origin))

    def _pace_to_keep(self, policy: OriginPolicy, agent: Agent) -> tuple[Pace | None, Bound | None]:
        """Return the pace to keep for an agent, and the bound that applies now, or `None`."""
        settings = self._settings
        if settings is None or not self._max_interval:
            return None, None
        pace = policy.pace(agent)
        bound = None if pace is None else pace.bound(self._runtime.utc())
        # If the interval is so long that all pages are dropped, there is nothing to pace, except in
        # a dry run, which fetches them.
        if bound is not None and settings.forbids(bound) and not settings.dry_run:
            return None, None
        return pace, bound

    def interval(self, origin: Origin) -> float:
        """Return the interval to keep at an origin now, in seconds, or 0 for none.

        It is the largest one that the origin requests, up to ROBOTS_CRAWL_DELAY_MAX.
        """
        site = self.sites.get(origin)
        return 0.0 if site is None else min(site.interval(self._runtime.utc()), self._max_interval)

    def _begin_to_pace(self, origin: Origin) -> PacedSite:
        """Add a site, and give turns to its requests that are already being sent."""
        # Most crawls don't have paced sites, so only connect the signals for the first one.
        if not self.sites:
            connect = self._crawler.signals.connect
            connect(self._reached_downloader, signals.request_reached_downloader)
            connect(self.answered, signals.headers_received)
            connect(self.answered, signals.request_left_downloader)
            # By then, only a request that was answered by a middleware still has its turn.
            connect(self.release, signals.response_received)
        self._forget_idle()
        site = self.sites[origin] = PacedSite(origin, Turns())
        if self._share is not None:
            site.turns = self._share(origin, partial(self._wake, site))
        for request in _scrapy.requests_in_downloader(self._crawler):
            if self._origin_of(request) == origin:
                self._reached_downloader(request)
        return site

    def _forget_idle(self) -> None:
        """Forget sites that have been idle for a while, if there are many sites."""
        if len(self.sites) < self._sweep_at:
            return
        # A site is remembered until `REMEMBERED` seconds after the longest interval it may have.
        cutoff = self.clock() - REMEMBERED - self._max_interval
        for origin, site in list(self.sites.items()):
            is_used = site.turns.outstanding or site.waiting_since is not None or site.waiters
            if not is_used and site.turns.last <= cutoff:
                del self.sites[origin]
        # Each sweep checks all sites, so wait until their number has doubled.
        self._sweep_at = max(FIRST_SWEEP, 2 * len(self.sites))

    def _report_pace(self, policy: OriginPolicy, bound: Bound | None) -> None:
        """Count a site and send `site_paced`, once per site, when its first bound applies.

        :param bound: the current bound, or `None` if none applies at this time of day.
        """
        origin_hash = hash(policy.origin)
        if bound is None or origin_hash in self._announced:
            return
        self._announced.add(origin_hash)
        stats.of(self._crawler).inc_value(stats.CRAWL_DELAY_SITES)
        interval = min(bound.seconds, self._max_interval)
        self._crawler.signals.send_catch_log(
            site_paced, policy=policy, bound=bound, interval=interval
        )

    # Turns.

    def due(self, origin: Origin) -> bool:
        """Return whether an origin's turn has come.

        If not, a request counts as waiting from now on, and `_wake` is called when the turn may
        have come.
        """
        site = self.sites.get(origin)
        if site is None:
            return True
        now = self.clock()
        interval = self.interval(origin)
        seconds = site.turns.wait(interval, now)
        if seconds == 0:
            return True
        if site.waiting_since is None:
            site.waiting_since = now
        if seconds is not None and site.timer is None:
            wake = partial(self._wake, site)
            # The interval may become shorter in the meantime.
            site.timer = self._runtime.call_later(min(seconds, _MAX_WAIT), wake)
        return False

    def take(self, request: Request, origin: Origin) -> bool:
        """Return whether a request may be sent now, and take its site's turn if the site is paced.

        If not, `_wake` is called when the turn may have come.

        The queue calls this when it hands out the request, and `admit` calls it again after the
        request was judged. If the interval has become longer in the meantime, or the URL has
        changed, the request loses the turn that it took first.
        """
        site = self.sites.get(origin)
        if site is not None and self._has_turn(request, site):
            return True
        if self._turns:  # empty in most crawls
            self.release(request)  # another site's turn, or this one's if it may not use it yet
        if site is None:
            return True
        if not self.due(origin):
            return False
        self._give_turn(request, site)
        self._count_wait(site, request)
        return True

    def _has_turn(self, request: Request, site: PacedSite) -> bool:
        """Return whether a request has a site's turn and may still use it.

        It may not if the interval has become longer since then, and hasn't passed yet.
        """
        turn = self._turns.get(request)
        if turn is None or turn.site is not site:
            return False
        return site.turns.last + self.interval(site.origin) <= self.clock()

    def _give_turn(self, request: Request, site: PacedSite) -> None:
        """Record that a request has a site's turn."""
        self._turns[request] = Turn(site, self.clock())
        site.turns.start(request)

    def _count_wait(self, site: PacedSite, request: Request) -> None:
        """Count how many seconds the interval delayed the next request of a site."""
        if site.waiting_since is None:  # the request didn't have to wait
            return
        # Count from when a request began to wait, or from when the previous response arrived if
        # that was later, because the interval begins then. Subtract the user's own delay, because
        # the request would have waited that long anyway.
        delay = _scrapy.slot_delay(self._crawler, slot_of(request, urlparse_cached(request)))
        waited = self.clock() - max(site.waiting_since, site.turns.last) - delay
        site.waiting_since = None
        self._added_seconds += max(waited, 0.0)
        added = round(self._added_seconds, 3)
        stats.of(self._crawler).set_value(stats.CRAWL_DELAY_ADDED, added)

    def admit(self, request: Request, policy: OriginPolicy, agent: Agent) -> bool:
        """Take the turn for a request that was judged, or return False if it has to wait."""
        file = policy.file
        if not self.sites and (file is None or file.unpaced):
            return True  # most crawls don't have paced sites
        self.note(policy, agent)
        return self.take(request, policy.origin)

    async def wait_for_turn(self, request: Request, origin: Origin) -> None:
        """Wait in the middleware for a request's turn, and take it.

        :raises RobotsUndecided: the spider was closed first.
        """
        while not self.take(request, origin):
            if _scrapy.is_closing(self._crawler):
                raise RobotsUndecided("the spider closed before the request could be sent")
            site = self.sites[origin]
            waiter: Waiter[None] = Waiter()
            site.waiters.append(waiter)
            try:
                await waiter  # `_wake` resolves it
            except CANCELLED:
                site.waiting_since = None  # this wait must not be counted as a delay
                raise
            finally:
                site.waiters.remove(waiter)

    def release(self, request: Request) -> None:
        """Release a request's turn, if it has one, because it won't be sent now."""
        turn = self._turns.pop(request, None)
        if turn is not None:
            turn.site.turns.unused(request)
            self._wake(turn.site)

    def answered(self, request: Request) -> None:
        """Start the interval, because the response is arriving or the request ended without one."""
        turn = self._turns.pop(request, None)
        if turn is not None:
            site = turn.site
            site.turns.answered(request, self.interval(site.origin), self.clock())
            self._wake(site)

    def _reached_downloader(self, request: Request) -> None:
        """Note that a request will be sent, and give it a turn if it has none.

        It has none if robots.txt doesn't apply to it, or if the interval was unknown before.
        """
        if request not in self._turns:
            origin = self._origin_of(request)
            site = None if origin is None else self.sites.get(origin)
            if site is None:
                return
            self._give_turn(request, site)
        self._turns[request].will_be_sent = True

    def _end_lost_turns(self) -> None:
        """End the turns of requests that ended without a signal, or that a middleware holds back.

        A middleware may hold a request until another one is answered, for example for a login page.
        If that one is waiting for the turn of the first, neither would ever be sent.
        """
        for request, turn in list(self._turns.items()):
            if not _scrapy.is_under_way(self._crawler, request):
                # Scrapy still sends a request whose caller was cancelled, so the interval starts.
                end = self.answered if turn.will_be_sent else self.release
                end(request)
            elif not turn.will_be_sent and self.clock() - turn.since >= MAX_HELD:
                self._warn_of_held(turn.site.origin)
                self.release(request)

    def _warn_of_held(self, origin: Origin) -> None:
        """Warn, once per crawl, that an interval may not be kept."""
        text = (
            "A middleware has held a request to %s for over %g s. To avoid a deadlock, others may "
            "be sent now, perhaps faster than the Crawl-delay allows. Further cases are not logged"
        )
        extra = {"spider": self._crawler.spider}
        log_once(self._crawler, logger, logging.WARNING, text, origin, MAX_HELD, extra=extra)

    def _wake(self, site: PacedSite) -> None:
        """Let all waiting requests of a site try again, because its turn may have come."""
        if site.timer is not None:
            site.timer.cancel()
            site.timer = None
        self.on_turn(site.origin)
        for waiter in list(site.waiters):
            waiter.resolve(None)

    def tick(self) -> None:
        """End lost turns, and stop all waits when the spider closes.

        Called every `TICK` seconds.
        """
        self._end_lost_turns()
        if _scrapy.is_closing(self._crawler):
            for site in self.sites.values():
                if site.waiters:
                    self._wake(site)

    def close(self) -> None:
        """End all turns as if answered, because their requests may have been sent."""
        for request in list(self._turns):
            self.answered(request)
        for site in self.sites.values():
            site.turns.close()
            if site.timer is not None:
                site.timer.cancel()


def slot_of(request: Request, url: ParseResult) -> str:
    """Return a request's downloader slot, based on its meta or the host in its URL."""
    slot = request.meta.get("download_slot")
    return str(slot) if slot is not None else url.hostname or ""
