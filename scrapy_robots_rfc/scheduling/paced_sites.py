"""The sites in a crawl that request an interval between requests, with each current interval.

`policy/pacing.py` reads intervals from robots.txt files. `throttle.py` enforces them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import time

from scrapy.crawler import Crawler

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.pacing import Bound, IntervalClock, Pace
from scrapy_robots_rfc.settings import Settings
from scrapy_robots_rfc.signals import site_paced

#: Seconds, on top of its interval, to remember a site without requests. By then its shared turns
#: will have expired.
REMEMBERED = 300.0

#: Number of sites that triggers the first cleanup of idle ones.
FIRST_SWEEP = 1000


class OwnTurns:
    """The turns of a crawl that does not share them. See `shared.py` for shared turns."""

    def wait(self, interval: float, now: float) -> float | None:  # noqa: ARG002 - it never waits
        """Return the seconds until a request may start, or `None` if the crawl will be woken.

        :param interval: seconds to leave after the previous request, or 0 for none.
        """
        return 0.0

    def start(self, request: object) -> None:
        """Use the turn granted by `wait` for a request."""

    def unused(self, request: object) -> None:
        """Pass the turn on to the next request, because this request was not sent."""

    def answered(self, request: object, interval: float, now: float) -> None:
        """End a request's turn, because its response is arriving or it ended without one.

        :param interval: seconds until the next request.
        """

    def block_until(self, until: float) -> None:
        """Make all workers wait after a request without a turn, such as a robots.txt request.

        :param until: when the interval after that request ends.
        """

    def close(self) -> None:
        """Release the turns, because this crawl won't send any more requests."""


@dataclass(slots=True, eq=False, repr=False)
class PacedSite:
    """A site that requests an interval.

    :param turns: the turns, which may be shared with other workers.
    :param clock: measures the interval in this crawl.
    :param fetched: when the robots.txt with these paces was fetched.
    :param paces: the paces for the crawl's agents, each with one agent that it applies to. The
        largest interval is used.
    :param waiting_since: when a request began to wait for its turn, or `None` if none has waited
        since the last one took it.
    """

    origin: Origin
    turns: OwnTurns = field(default_factory=OwnTurns)
    clock: IntervalClock = field(default_factory=IntervalClock)
    fetched: float = -math.inf
    paces: dict[Pace, Agent] = field(default_factory=dict)
    waiting_since: float | None = None

    def update(self, robots: OriginPolicy) -> None:
        """Replace the paces with the ones in a new robots.txt."""
        if robots.fetched <= self.fetched:  # it isn't new
            return
        self.fetched = robots.fetched
        # robots.txt was a request to the site, too, so the interval also applies after it.
        self.clock.last = max(self.clock.last, robots.fetched)
        if robots.outcome is Outcome.UNREACHABLE:
            # The refresh failed, so nothing is known about the interval. Keep the old one for pages
            # that are still in flight, since no others are sent.
            return
        # Look up the pace of each agent in the new file, which may no longer have one.
        agents = list(self.paces.values())
        self.paces = {}
        for agent in agents:
            pace = robots.pace(agent)
            if pace is not None:
                self.paces[pace] = agent

    def interval(self, utc: time) -> float:
        """Return the largest interval at a time of day, in seconds, or 0 for none."""
        bounds = [pace.bound(utc) for pace in self.paces]
        return max((bound.seconds for bound in bounds if bound is not None), default=0.0)


class PacedSites(dict[Origin, PacedSite]):
    """The paced sites of a crawl, by origin.

    :param settings: the settings, or `None` if the crawl does not obey robots.txt. No site is paced
        if ROBOTS_CRAWL_DELAY_MAX is 0.
    """

    def __init__(self, crawler: Crawler, settings: Settings | None, runtime: Runtime) -> None:
        super().__init__()
        self._crawler = crawler
        self._settings = settings
        self._max_interval = 0.0 if settings is None else settings.crawl_delay_max
        self._clock: Callable[[], float] = runtime.clock
        self._utc = runtime.utc
        self._sweep_at = FIRST_SWEEP
        # Origins that were announced, as hashes to save memory, because there may be millions.
        self._announced: set[int] = set()

    def note(self, robots: OriginPolicy, agent: Agent) -> PacedSite | None:
        """Record the interval that a robots.txt requests for an agent.

        :returns: the site, or `None` if it has no entry and doesn't need one.
        """
        settings = self._settings
        pace = robots.pace(agent) if self._max_interval else None  # a maximum of 0 paces no site
        bound = None if pace is None else pace.bound(self._utc())
        # If the interval is so long that all pages are dropped, there is nothing to pace, except in
        # a dry run, which fetches them.
        if settings and bound and settings.forbids(bound) and not settings.dry_run:
            pace = None
        site = self.get(robots.origin)
        if site is None:
            if pace is None:
                return None
            self._forget_idle()
            site = self[robots.origin] = PacedSite(robots.origin)
        site.update(robots)  # replaces the paces of an earlier file before this one is added
        if pace is not None:
            site.paces[pace] = agent
            self._announce(robots, bound)
        return site

    def interval(self, origin: Origin) -> float:
        """Return the largest interval an origin currently requests, in seconds, or 0 for none."""
        site = self.get(origin)
        return 0.0 if site is None else min(site.interval(self._utc()), self._max_interval)

    def _forget_idle(self) -> None:
        """Forget sites that have been idle for a while, if there are many sites."""
        if len(self) < self._sweep_at:
            return
        # A site is remembered until `REMEMBERED` seconds after the longest interval it may have.
        cutoff = self._clock() - REMEMBERED - self._max_interval
        for origin, site in list(self.items()):
            is_used = site.clock.outstanding or site.waiting_since is not None
            if not is_used and site.clock.last <= cutoff:
                del self[origin]
        # Each sweep checks all sites, so wait until their number has doubled.
        self._sweep_at = max(FIRST_SWEEP, 2 * len(self))

    def _announce(self, robots: OriginPolicy, bound: Bound | None) -> None:
        """Count a site and send `site_paced`, once per site, when its first bound applies.

        :param bound: the current bound, or `None` if none applies at this time of day.
        """
        origin_hash = hash(robots.origin)
        if bound is None or origin_hash in self._announced:
            return
        self._announced.add(origin_hash)
        stats.of(self._crawler).inc_value(stats.CRAWL_DELAY_SITES)
        interval = min(bound.seconds, self._max_interval)
        self._crawler.signals.send_catch_log(
            site_paced, robots=robots, bound=bound, interval=interval
        )
