"""The sites of a crawl that ask for an interval between requests, and how long it is now.

`policy/pacing.py` reads intervals from robots.txt files. `throttle.py` keeps them.
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

#: Seconds for which a site without requests is remembered, beyond its interval. By then its turns
#: in a fleet will have expired.
REMEMBERED = 300.0

#: Seconds for which a file, or a local failure, is known after its fetch.
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
    :param waiting_since: when a request began to wait for its turn, or `None` if none is waiting.
    """

    origin: Origin
    turns: OwnTurns = field(default_factory=OwnTurns)
    clock: IntervalClock = field(default_factory=IntervalClock)
    fetched: float = -math.inf
    paces: dict[Pace, Agent] = field(default_factory=dict)
    waiting_since: float | None = None

    def update(self, robots: OriginPolicy) -> None:
        """Replace the paces by those in a new robots.txt."""
        is_newer = robots.fetched > self.fetched
        if not is_newer:
            return
        self.fetched = robots.fetched
        # The interval begins with the request for robots.txt.
        self.clock.last = max(self.clock.last, robots.fetched)
        if robots.outcome is Outcome.UNREACHABLE:
            return  # pages that were sent before may still be in flight
        agents = list(self.paces.values())
        self.paces = {}
        for agent in agents:
            pace = robots.pace(agent)
            if pace is not None:
                self.paces[pace] = agent

    def interval(self, utc: time) -> float:
        """Return the largest interval at a time of day, in seconds; 0 for none."""
        bounds = [pace.bound(utc) for pace in self.paces]
        return max((bound.seconds for bound in bounds if bound is not None), default=0.0)


class PacedSites(dict[Origin, PacedSite]):
    """The paced sites of a crawl, by origin.

    :param settings: with ROBOTS_CRAWL_DELAY_MAX = 0 no site is paced; `None` if the crawl does not
        obey robots.txt.
    """

    def __init__(self, crawler: Crawler, settings: Settings | None, runtime: Runtime) -> None:
        super().__init__()
        self._crawler = crawler
        self._settings = settings
        self._max_interval = 0.0 if settings is None else settings.crawl_delay_max
        self._clock: Callable[[], float] = runtime.clock
        self._utc = runtime.utc
        self._sweep_at = FIRST_SWEEP
        # Origins whose interval was logged, as hashes: there may be millions of them.
        self._logged: set[int] = set()

    def note(self, robots: OriginPolicy, agent: Agent) -> PacedSite | None:
        """Note the interval that a robots.txt asks of an agent.

        :returns: the site, or `None` if it is not paced.
        """
        settings = self._settings
        pace = robots.pace(agent) if self._max_interval else None
        bound = None if pace is None else pace.bound(self._utc())
        if settings and bound and settings.forbids(bound) and not settings.dry_run:
            pace = None  # no page of the site is fetched
        site = self.get(robots.origin)
        if site is None:
            if pace is None:
                return None
            self._forget_idle()
            site = self[robots.origin] = PacedSite(robots.origin)
        site.update(robots)
        if pace is not None:
            site.paces[pace] = agent
            self._log(robots, bound)
        return site

    def interval(self, origin: Origin) -> float:
        """Return the largest interval that an origin asks for now, in seconds; 0 for none."""
        site = self.get(origin)
        return 0.0 if site is None else min(site.interval(self._utc()), self._max_interval)

    def known_for(self, origin: Origin) -> float:
        """Return the seconds for which a file is known after its fetch, even if it is stale.

        Otherwise a file that is stale at once would be fetched for each request. A fetch takes the
        turn of its site, so the next request may be sent an interval later.
        """
        return MIN_KNOWN_FOR + self.interval(origin)

    def _forget_idle(self) -> None:
        """Forget the sites that were idle for a while, if there are many sites."""
        if len(self) < self._sweep_at:
            return
        before = self._clock() - REMEMBERED - self._max_interval
        for origin, site in list(self.items()):
            is_used = site.clock.outstanding or site.waiting_since is not None
            if not is_used and site.clock.last <= before:
                del self[origin]
        self._sweep_at = max(FIRST_SWEEP, 2 * len(self))

    def _log(self, robots: OriginPolicy, bound: Bound | None) -> None:
        """Count the site and send the signal, once for each site."""
        origin = hash(robots.origin)
        if bound is None or origin in self._logged:
            return
        self._logged.add(origin)
        stats.of(self._crawler).inc_value(stats.CRAWL_DELAY_SITES)
        interval = min(bound.seconds, self._max_interval)
        self._crawler.signals.send_catch_log(
            site_paced, robots=robots, bound=bound, interval=interval
        )
