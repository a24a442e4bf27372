"""Pacing: holds requests back in the downloader until the interval that their site asks for has passed.

In here: which requests keep an interval with which others, what is logged and counted of it. What a file asks for,
and from when an interval counts, is `policy/pacing.py`; how a request is held back, `_compat.py`.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._scrapy import is_closing, send_once
from scrapy_robots_rfc.core.text import many
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.download import JUDGED, chosen_slot
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.pacing import Bound, Limit, Over, Turns
from scrapy_robots_rfc.reporting.topk import TopK
from scrapy_robots_rfc.throttling.shared import SharedThrottle
from scrapy_robots_rfc.throttling.slots import GatedSlots
from scrapy_robots_rfc.throttling.together import Crawls, Site, Waiting, go_on, join, leave, taken

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import time

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.core.identity import Agent
    from scrapy_robots_rfc.fetching.policy_of_origin import OriginPolicy
    from scrapy_robots_rfc.throttling.shared import Taking

logger = logging.getLogger(__name__)

# Seconds that a site without requests is remembered, beyond its interval: a request that was let through may stay this
# long with other middlewares before it comes to the downloader.
_KEPT = 300.0

# Seconds between two looks whether the spider is being closed, where requests wait for the turns of several workers.
# Scrapy tells nobody when it starts to close.
_LOOK = 0.5

# So many sites before the first look for those that may be forgotten.
_FIRST_SWEEP = 1000


class NoTurn(RobotsUndecided):
    """The spider was closed before the turn of a request came."""


@dataclass(slots=True, eq=False)
class _Lane:
    """A gated slot of the downloader: all of its requests keep the largest interval of the sites in it.

    :param present: sites by the number of requests that they have in the slot.
    :param tail: the interval that the last request left behind, although its site may have no other in the slot.
    """

    turns: Turns = field(default_factory=Turns)
    present: Counter[Site] = field(default_factory=Counter)
    tail: float = 0.0
    waiting: Waiting = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Visit:
    """A request on its way through a gated slot.

    :param started: it has been sent, or is about to be.
    :param unanswered: it has started, and its answer has not begun.
    :param held_since: when it was first held back.
    """

    lane: _Lane
    site: Site | None = None
    started: bool = False
    unanswered: bool = False
    held_since: float | None = None


class Throttle:
    """The paces of a crawl.

    :param limit: the longest interval that is kept.
    :param origin: gives the origin of a request, ``None`` for one that has none.
    :param store: by which the workers of several processes take turns; ``None``: each keeps intervals of its own.
    :param alone: whether an origin is this crawl's own business: the user has made an exception of it.
    """

    def __init__(
        self,
        crawler: Crawler,
        limit: Limit,
        origin: Callable[[Request], Origin | None],
        runtime: Runtime,
        store: Taking | None = None,
        alone: Callable[[Origin], bool] = lambda _: False,
    ) -> None:
        collector = crawler.stats
        assert collector is not None
        self._crawler, self._stats = crawler, collector
        self._limit, self._origin = limit, origin
        self._runtime, self._store, self._alone = runtime, store, alone
        self._clock, self._utc = runtime.clock, runtime.utc
        self._slots = GatedSlots(crawler, self._wait)
        self._sites: dict[Origin, Site] = {}
        self._crawls = Crawls()
        self._lanes: dict[str, _Lane] = {}
        self._visits: dict[Request, _Visit] = {}
        self._sweep_at = _FIRST_SWEEP
        self._added = 0.0
        #: Origins by the seconds that their requests were held back.
        self.slowed: TopK[str] = TopK()
        # What was said of which origin: hashes, as there may be millions.
        self._told: dict[str, set[int]] = {stats.CRAWL_DELAY_SITES: set(), stats.VISIT_TIME_OUTSIDE: set()}
        self._listening = self._looking = False

    # What the middleware says.

    def join(self) -> None:
        """Keep intervals together with the other crawls of this event loop, from now on until `close`."""
        self._crawls = join(self._runtime.loop(), self._listen)

    def note(self, request: Request, robots: OriginPolicy, agent: Agent) -> None:
        """Take note of the pace that a request has to keep."""
        pace = None if robots.file is None else robots.file.pace(agent)
        if pace is None:
            return
        request.meta[JUDGED] = [str(robots.origin), None]
        if request.meta.get("redirect_urls") and chosen_slot(request) is None:
            # The redirect has brought it into the slot of another host, whose pages would wait behind it.
            request.meta.pop("download_slot", None)
        site = self._site(robots)
        if pace not in site.paces.values():
            site.paces[agent] = pace
        utc = self._utc()
        unwelcome = pace.unwelcome(utc)
        if unwelcome is not None and self._first(stats.VISIT_TIME_OUTSIDE, robots.origin):
            self._log("%s for %s: pages are asked for outside of it", robots.cited(unwelcome.text), robots.origin)
        bound = pace.bound(utc)
        if bound is None:
            return
        over = bound.seconds > self._limit.longest
        if over and self._limit.over is Over.FORBID:  # a dry run, or robots.txt itself
            return
        self._tell(robots, bound, over=over)
        if site.shared is not None:
            site.shared.sent(robots.fetched + min(bound.seconds, self._limit.longest))

    def expect(self, robots: OriginPolicy, agent: Agent) -> None:
        """Take note of a site whose robots.txt is about to be asked for again: other workers may be at it."""
        pace = None if robots.file is None or self._store is None else robots.file.pace(agent)
        if pace is not None:
            self._site(robots).paces.setdefault(agent, pace)

    def fetched(self, robots: OriginPolicy) -> None:
        """Keep what a robots.txt that was fetched again asks for, and not what the one before it did."""
        if robots.origin in self._sites:
            site = self._site(robots)
            if site.shared is not None:
                site.shared.sent(robots.fetched + site.interval(self._utc()))

    def close(self) -> None:
        """Let other crawls and workers go on: nothing is sent any more."""
        self._looking = False
        for request in list(self._visits):
            self._left(request)
        for origin, site in self._sites.items():
            if site.shared is not None:
                site.shared.close()
            self._crawls.forget(origin, site)
        leave(self._runtime.loop(), self._listen)

    def _site(self, robots: OriginPolicy) -> Site:
        site = self._sites.get(robots.origin) or self._paced(robots.origin)
        if site.fetched != robots.fetched:
            site.fetched = robots.fetched
            # The request for robots.txt is the first of those that keep the interval.
            site.turns.last = max(site.turns.last, robots.fetched)
            if robots.outcome is not Outcome.UNREACHABLE:  # pages that were let through may still be on their way
                found = {agent: robots.file.pace(agent) for agent in site.paces} if robots.file else {}
                site.paces = {agent: pace for agent, pace in found.items() if pace is not None}
        return site

    def _paced(self, origin: Origin) -> Site:
        """Begin to keep the interval of an origin, with the other crawls that keep it."""
        self._listen()
        send_once(self._crawler)
        if len(self._sites) >= self._sweep_at:
            self._sweep()
        site = self._sites[origin] = self._crawls.paced(origin, self._limit.longest, alone=self._alone(origin))
        if self._store is not None:
            told = partial(self._turn_told, site)
            site.shared = SharedThrottle(origin, self._store, self._runtime, self._limit.longest, told)
            if not self._looking:
                self._looking = True
                self._runtime.call_later(_LOOK, self._look)
        return site

    def _first(self, key: str, origin: Origin) -> bool:
        """Count an origin; false where that was done before."""
        if hash(origin) in self._told[key]:
            return False
        self._told[key].add(hash(origin))
        self._stats.inc_value(key)
        return True

    def _tell(self, robots: OriginPolicy, bound: Bound, *, over: bool) -> None:
        origin, text = robots.origin, robots.cited(bound.text)
        self._stats.max_value(stats.CRAWL_DELAY_MAX, min(bound.seconds, self._limit.longest))
        if not self._first(stats.CRAWL_DELAY_SITES, origin):
            return
        if over:
            self._stats.inc_value(stats.CRAWL_DELAY_CAPPED)
            self._log("%s for %s: kept at %g s (ROBOTSTXT_CRAWL_DELAY_MAX)", text, origin, self._limit.longest)
        else:
            self._log("%s for %s", text, origin)

    def _log(self, message: str, *arguments: object) -> None:
        logger.info(message, *arguments, extra={"spider": self._crawler.spider})

    # What the downloader says.

    def _listen(self) -> None:
        """Connect to the downloader, when the first site asks for a pace: no other crawl pays for this."""
        if not self._listening:
            self._listening = True
            connect = self._crawler.signals.connect
            connect(self._reached, signals.request_reached_downloader)
            connect(self._answered, signals.headers_received)
            connect(self._left, signals.request_left_downloader)

    def _reached(self, request: Request) -> None:
        """A request is about to join the queue of its slot."""
        key: str = request.meta["download_slot"]
        origin = self._judged(request)
        if self._site_at(origin) is not None:
            self._gate(key, request)
        if key in self._lanes:
            self._visit(request, key)
        if JUDGED in request.meta:
            if origin == Origin.of(request.url):  # as it is now: what Scrapy has parsed may be from before
                del request.meta[JUDGED]  # requests that are made from this one begin anew
            else:
                request.meta[JUDGED] = [str(origin), request.url]

    def _judged(self, request: Request) -> Origin | None:
        """The origin whose interval a request keeps: what was judged, whatever a middleware has made of its URL."""
        judged, sent = request.meta.get(JUDGED, (None, None))
        return self._origin(request) if judged is None or sent not in (None, request.url) else Origin.of(judged)

    def _site_at(self, origin: Origin | None) -> Site | None:
        """The site of an origin, where it asks this crawl for a pace, or another one that this one keeps it with."""
        site = self._sites.get(origin)  # type: ignore[arg-type]  # no site is kept under None
        if site is None and origin in self._crawls.sites and not self._alone(origin):
            return self._paced(origin)
        return site

    def _gate(self, key: str, reached: Request) -> None:
        gated = self._slots.gate(key)
        if gated is None:
            return
        lane = self._lanes.setdefault(key, _Lane())
        used, under_way = gated
        if used:  # nobody knows since when
            lane.turns.last = self._clock()
        for request in under_way:
            if request is not reached:  # that one has not joined the queue yet
                self._begin(request, self._visit(request, key), self._clock())

    def _visit(self, request: Request, key: str) -> _Visit:
        visit = self._visits.get(request)
        if visit is None:
            visit = self._visits[request] = _Visit(self._lanes.setdefault(key, _Lane()))
        if visit.site is None:
            visit.site = self._site_at(self._judged(request))
            if visit.site is not None:
                visit.lane.present[visit.site] += 1
        return visit

    def _answered(self, request: Request) -> None:
        """The answer to a request begins to arrive, or it ended without one."""
        visit = self._visits.get(request)
        if visit is None or not visit.unanswered:
            return
        visit.unanswered = False
        now, utc = self._clock(), self._utc()
        visit.lane.tail = self._interval(visit.lane, utc)
        if visit.site is not None and visit.site.shared is not None:
            visit.site.shared.answered(request, visit.site.interval(utc), now)
        visit.lane.turns.answered(request, now)
        waiting = taken(visit.lane)
        if visit.site is not None:
            waiting |= visit.site.answered(request, now)
        go_on(waiting)

    def _turn_told(self, site: Site) -> None:
        """The store has told whose turn it is."""
        go_on(taken(site))

    def abandoned(self, request: Request) -> None:
        """Nobody waits for the answer to a request any more, perhaps for as long as it takes."""
        self._answered(request)

    def _left(self, request: Request) -> None:
        self._answered(request)
        visit = self._visits.pop(request, None)
        if visit is not None and visit.site is not None:
            visit.lane.present[visit.site] -= 1
            if not visit.lane.present[visit.site]:
                del visit.lane.present[visit.site]

    def held(self) -> tuple[int, float]:
        """How many requests are held back, and in how many seconds the last of them is due at the soonest.

        Those that stand in the scheduler's queue are not among them: it is not told what they are for.
        """
        now, utc = self._clock(), self._utc()
        intervals = {lane: self._interval(lane, utc) for lane in self._lanes.values()}
        held: Counter[_Lane | Site] = Counter()
        requests = 0
        for visit in self._visits.values():
            if not visit.started and intervals.get(visit.lane):
                requests += 1
                held[visit.lane] += 1
                if visit.site is not None:
                    held[visit.site] += 1
        seconds = 0.0
        for holder, count in held.items():
            interval = intervals[holder] if isinstance(holder, _Lane) else self._interval(holder, utc)
            first = holder.turns.wait(None, interval, now, patient=False) or 0.0
            seconds = max(seconds, first + (count - 1) * interval)
        return requests, seconds

    def _look(self) -> None:
        """Let no request wait for the turns of other workers when the spider is being closed: that may take long."""
        if not self._looking:
            return
        self._runtime.call_later(_LOOK, self._look)
        if is_closing(self._crawler):
            error = NoTurn("the spider closed before the turn of this request came")
            given = [request for key in self._lanes for request in self._slots.give_up(key, self._is_shared, error)]
            for request in given:
                self._left(request)
            if given:
                count = many(len(given), "request")
                self._log("%s waited for a turn at a site when the spider closed: back to the scheduler", count)

    def _is_shared(self, request: Request) -> bool:
        visit = self._visits.get(request)
        return visit is not None and visit.site is not None and visit.site.shared is not None

    # Whose turn it is.

    def _wait(self, request: Request) -> float | None:
        """Whether a request may start: see `GatedSlots`."""
        key = request.meta["download_slot"]
        visit = self._visit(request, key)
        now, utc = self._clock(), self._utc()
        seconds = max(0.0, visit.lane.turns.last + visit.lane.tail - now)
        for holder in (visit.lane, visit.site):
            if holder is None:
                continue
            # What is asked of one site, as its robots.txt, must not hold up the others of the slot.
            wait = holder.turns.wait(request, self._interval(holder, utc), now, patient=holder is visit.site)
            if wait is None:
                self._hold(visit, holder, key, now)
                return None
            seconds = max(seconds, wait)
        if not seconds and visit.site is not None and visit.site.shared is not None:
            wait = visit.site.shared.wait(visit.site.interval(utc), now)
            if wait is None:
                self._hold(visit, visit.site, key, now)
                return None
            seconds = wait
        if seconds:
            visit.held_since = visit.held_since or now
            return seconds
        self._start(request, visit, now)
        return 0.0

    def _hold(self, visit: _Visit, holder: _Lane | Site, key: str, now: float) -> None:
        """Hold a request back until its slot is told to go on."""
        visit.held_since = visit.held_since or now
        holder.waiting[self._slots, key] = visit.held_since

    def _begin(self, request: Request, visit: _Visit, now: float) -> None:
        visit.started = visit.unanswered = True
        visit.lane.turns.start(request, now)
        if visit.site is not None:
            visit.site.turns.start(request, now)

    def _start(self, request: Request, visit: _Visit, now: float) -> None:
        self._begin(request, visit, now)
        if visit.site is not None and visit.site.shared is not None:
            visit.site.shared.start(request)
        if visit.held_since is not None:
            self._added += now - visit.held_since
            if now > visit.held_since:  # also one of a site that asks for nothing, in the slot of one that does
                self.slowed.add(str(self._judged(request)), now - visit.held_since)
            visit.held_since = None
            self._stats.set_value(stats.CRAWL_DELAY_ADDED, round(self._added, 3))

    def _interval(self, holder: _Lane | Site, utc: time) -> float:
        if isinstance(holder, _Lane):
            return max((site.interval(utc) for site in holder.present), default=0.0)
        return holder.interval(utc)

    # What need not be remembered.

    def _sweep(self) -> None:
        """Forget sites and slots that nothing was heard of for a while."""
        before = self._clock() - _KEPT - self._limit.longest
        present = {site for lane in self._lanes.values() for site in lane.present}
        for origin, site in list(self._sites.items()):
            if site not in present and site.turns.idle and site.turns.last <= before:
                self._crawls.forget(origin, self._sites.pop(origin))
        self._lanes = {
            key: lane
            for key, lane in self._lanes.items()
            if lane.present or not lane.turns.idle or lane.turns.last > before
        }
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._sites))
