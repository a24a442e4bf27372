"""Throttle: holds requests back in the downloader until the interval that their site asks for has passed.

`policy/pacing.py` reads what a file asks for and counts intervals. `GatedSlots` in `slots.py` holds a request back.
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
from scrapy_robots_rfc.reporting.summary import TopK
from scrapy_robots_rfc.throttling.shared import PacedOrigin, ProcessCrawls, SharedThrottle, go_on, join, leave
from scrapy_robots_rfc.throttling.slots import GatedSlots

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import time

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.cache.client import CacheClient
    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy

logger: logging.Logger = logging.getLogger(__name__)

# Seconds for which an origin without requests is remembered, beyond its interval: so long a request that was let
# through may stay with other middlewares before it reaches the downloader.
_KEPT = 300.0

# Seconds between two checks whether the spider is being closed, where requests wait for the turns of several workers.
# Scrapy has no signal for the start of closing.
_LOOK = 0.5

# From this number of origins on, those that may be forgotten are looked for.
_FIRST_SWEEP = 1000


class NoTurn(RobotsUndecided):
    """The spider was closed before the turn of a request came."""


@dataclass(slots=True, eq=False)
class _PacedSlot:
    """A gated slot of the downloader: all of its requests keep the largest interval of the origins in it.

    :param present: origins -> how many requests they have in the slot.
    :param tail: the interval to keep after the last answer, although its origin may have no request in the slot now.
    """

    turns: Turns = field(default_factory=Turns)
    present: Counter[PacedOrigin] = field(default_factory=Counter)
    tail: float = 0.0

    def interval(self, utc: time) -> float:
        return max((paced.interval(utc) for paced in self.present), default=0.0)


@dataclass(slots=True, eq=False)
class _SlotRequest:
    """A request on its way through a gated slot.

    :param started: whether it has been sent, or is about to be.
    :param unanswered: whether it has started, and its answer has not begun to arrive.
    :param held_since: when it was first held back.
    """

    slot: _PacedSlot
    origin: PacedOrigin | None = None
    started: bool = False
    unanswered: bool = False
    held_since: float | None = None


class Throttle:
    """Keeps the intervals that the sites of a crawl ask for.

    :param limit: the longest interval that is kept.
    :param origin: gives the origin of a request, ``None`` for one that has none.
    :param store: by it the workers of several processes take turns; ``None``: each of them keeps its own intervals.
    :param alone: whether the user made an exception for an origin: then this crawl keeps its interval alone.
    """

    def __init__(
        self,
        crawler: Crawler,
        limit: Limit,
        origin: Callable[[Request], Origin | None],
        runtime: Runtime,
        store: CacheClient | None = None,
        alone: Callable[[Origin], bool] = lambda _: False,
    ) -> None:
        assert crawler.stats is not None
        self._crawler, self._stats = crawler, crawler.stats
        self._limit, self._origin_of = limit, origin
        self._runtime, self._store, self._alone = runtime, store, alone
        self._clock, self._utc = runtime.clock, runtime.utc
        self._gates = GatedSlots(crawler, self._wait)
        self._origins: dict[Origin, PacedOrigin] = {}
        self._crawls = ProcessCrawls()
        self._slots: dict[str, _PacedSlot] = {}
        self._requests: dict[Request, _SlotRequest] = {}
        self._sweep_at = _FIRST_SWEEP
        self._added = 0.0
        #: Origins by the seconds that their requests were held back.
        self.slowed: TopK[str] = TopK()
        # Pairs of a stat and an origin that is counted in it, as hashes, because there may be millions.
        self._counted: set[int] = set()
        self._listening = self._looking = False

    # Called by the middleware.

    def join(self) -> None:
        """Keep intervals together with the other crawls of this event loop, from now on until `close`."""
        self._crawls = join(self._runtime.loop(), self._listen)

    def note(self, request: Request, robots: OriginPolicy, agent: Agent) -> None:
        """Note the pace that a request has to keep."""
        pace = None if robots.file is None else robots.file.pace(agent)
        if pace is None:
            return
        request.meta[JUDGED] = [str(robots.origin), None]
        if request.meta.get("redirect_urls") and chosen_slot(request) is None:
            # The redirect has brought it into the slot of another host, whose pages would wait behind it.
            request.meta.pop("download_slot", None)
        paced = self._refreshed(robots)
        paced.noted = self._clock()
        if pace not in paced.paces.values():
            paced.paces[agent] = pace
        utc = self._utc()
        unwelcome = pace.unwelcome(utc)
        if unwelcome is not None and self._is_first(stats.VISIT_TIME_OUTSIDE, robots.origin):
            self._log("%s for %s: pages are asked for outside of it", robots.cited(unwelcome.text), robots.origin)
        bound = pace.bound(utc)
        if bound is None:
            return
        over = bound.seconds > self._limit.longest
        if over and self._limit.over is Over.FORBID:  # the request is a dry run's, or for the robots.txt itself
            return
        self._log_interval(robots, bound, over=over)
        if paced.shared is not None:
            paced.shared.sent(robots.fetched + min(bound.seconds, self._limit.longest))

    def expect(self, robots: OriginPolicy, agent: Agent) -> None:
        """Note the pace of a site whose robots.txt is about to be asked for again: other workers may send requests."""
        pace = None if robots.file is None or self._store is None else robots.file.pace(agent)
        if pace is not None:
            self._refreshed(robots).paces.setdefault(agent, pace)

    def fetched(self, robots: OriginPolicy) -> None:
        """Keep what a robots.txt asks for that was fetched again, and no longer what the earlier one asked for."""
        if robots.origin in self._origins:
            paced = self._refreshed(robots)
            if paced.shared is not None:
                paced.shared.sent(robots.fetched + paced.interval(self._utc()))

    def close(self) -> None:
        """Let other crawls and workers go on: nothing is sent any more."""
        self._looking = False
        for request in list(self._requests):
            self._left(request)
        for origin, paced in self._origins.items():
            if paced.shared is not None:
                paced.shared.close()
            self._crawls.forget(origin, paced)
        leave(self._runtime.loop(), self._listen)

    def held(self) -> tuple[int, float]:
        """Return how many requests are held back, and in how many seconds the last of them is due at the soonest.

        Requests in the scheduler's queue are not counted: nobody knows their origins before they leave it.
        """
        now, utc = self._clock(), self._utc()
        intervals = {slot: slot.interval(utc) for slot in self._slots.values()}
        held: Counter[_PacedSlot | PacedOrigin] = Counter()
        requests = 0
        for entry in self._requests.values():
            if not entry.started and intervals.get(entry.slot):
                requests += 1
                held.update([entry.slot] if entry.origin is None else [entry.slot, entry.origin])
        seconds = 0.0
        for holder, count in held.items():
            interval = holder.interval(utc)
            first = holder.turns.wait(None, interval, now, patient=False) or 0.0
            seconds = max(seconds, first + (count - 1) * interval)
        return requests, seconds

    # What is known of origins.

    def _refreshed(self, robots: OriginPolicy) -> PacedOrigin:
        """Return an origin with the paces of its present robots.txt."""
        paced = self._origins.get(robots.origin) or self._pace(robots.origin)
        if paced.fetched != robots.fetched:
            paced.fetched = robots.fetched
            # The interval begins with the request for robots.txt.
            paced.turns.last = max(paced.turns.last, robots.fetched)
            if robots.outcome is not Outcome.UNREACHABLE:  # pages that were let through may still be on their way
                found = {agent: robots.file.pace(agent) for agent in paced.paces} if robots.file else {}
                paced.paces = {agent: pace for agent, pace in found.items() if pace is not None}
        return paced

    def _pace(self, origin: Origin) -> PacedOrigin:
        """Begin to keep the interval of an origin, with the other crawls that keep it."""
        self._listen()
        send_once(self._crawler)
        if len(self._origins) >= self._sweep_at:
            self._sweep()
        paced = self._origins[origin] = self._crawls.pace(origin, self._limit.longest, alone=self._alone(origin))
        if self._store is not None:
            told = partial(go_on, [paced])
            paced.shared = SharedThrottle(origin, self._store, self._runtime, self._limit.longest, told)
            if not self._looking:
                self._looking = True
                self._runtime.call_later(_LOOK, self._look)
        return paced

    def _paced_by_any(self, origin: Origin | None) -> PacedOrigin | None:
        """Return an origin that asks for an interval in this crawl, or in another one that it keeps intervals with."""
        paced = self._origins.get(origin)  # type: ignore[arg-type]  # nothing is kept under None
        if paced is None and origin in self._crawls.origins and not self._alone(origin):
            return self._pace(origin)
        return paced

    def _is_first(self, key: str, origin: Origin) -> bool:
        """Count an origin in a stat; false if it is counted there already."""
        entry = hash((key, origin))
        if entry in self._counted:
            return False
        self._counted.add(entry)
        self._stats.inc_value(key)
        return True

    def _log_interval(self, robots: OriginPolicy, bound: Bound, *, over: bool) -> None:
        """Log and count, once an origin, the interval that is kept.

        :param over: whether the origin asks for a longer one.
        """
        origin, text = robots.origin, robots.cited(bound.text)
        self._stats.max_value(stats.CRAWL_DELAY_MAX, min(bound.seconds, self._limit.longest))
        if not self._is_first(stats.CRAWL_DELAY_SITES, origin):
            return
        if over:
            self._stats.inc_value(stats.CRAWL_DELAY_CAPPED)
            self._log("%s for %s: kept at %g s (ROBOTSTXT_CRAWL_DELAY_MAX)", text, origin, self._limit.longest)
        else:
            self._log("%s for %s", text, origin)

    def _log(self, message: str, *arguments: object) -> None:
        logger.info(message, *arguments, extra={"spider": self._crawler.spider})

    # Requests on their way through the downloader.

    def _listen(self) -> None:
        """Connect to the downloader when the first site asks for an interval; crawls without one need no signals."""
        if not self._listening:
            self._listening = True
            connect = self._crawler.signals.connect
            connect(self._reached, signals.request_reached_downloader)
            connect(self.answered, signals.headers_received)
            connect(self._left, signals.request_left_downloader)

    def _reached(self, request: Request) -> None:
        """Put a gate into the slot whose queue a request is about to join, if its origin asks for an interval."""
        key: str = request.meta["download_slot"]
        origin = self._judged(request)
        if self._paced_by_any(origin) is not None:
            self._gate(key, request)
        if key in self._slots:
            self._entry(request, key)
        if JUDGED in request.meta:
            if origin == Origin.of(request.url):  # parsed anew: a middleware may have changed the URL in place
                del request.meta[JUDGED]  # so that requests which are made from this one begin anew
            else:
                request.meta[JUDGED] = [str(origin), request.url]

    def _judged(self, request: Request) -> Origin | None:
        """Return the origin that a request was judged for, whatever a middleware has made of its URL since."""
        judged, sent = request.meta.get(JUDGED, (None, None))
        return self._origin_of(request) if judged is None or sent not in (None, request.url) else Origin.of(judged)

    def _gate(self, key: str, reached: Request) -> None:
        gated = self._gates.gate(key)
        if gated is None:
            return
        slot = self._slots.setdefault(key, _PacedSlot())
        used, under_way = gated
        under_way.discard(reached)  # that one has not joined the queue yet
        if used:  # nobody knows when its last request ended
            slot.turns.last = self._clock()
        for request in under_way:
            self._begin(request, self._entry(request, key), self._clock())
        self._runtime.call_later(0, partial(self._look_again, key, under_way))

    def _look_again(self, key: str, under_way: set[Request]) -> None:
        """Count as left the requests that had just ended when their slot was gated: no signal comes for them."""
        for request in under_way:
            if request in self._requests and not self._gates.sent(key, request):
                self._left(request)

    def _entry(self, request: Request, key: str) -> _SlotRequest:
        entry = self._requests.get(request)
        if entry is None:
            entry = self._requests[request] = _SlotRequest(self._slots.setdefault(key, _PacedSlot()))
        if entry.origin is None:
            entry.origin = self._paced_by_any(self._judged(request))
            if entry.origin is not None:
                entry.slot.present[entry.origin] += 1
        return entry

    def answered(self, request: Request) -> None:
        """Count the interval from now on: the answer begins to arrive, or nobody waits for it any more."""
        entry = self._requests.get(request)
        if entry is None or not entry.unanswered:
            return
        entry.unanswered = False
        slot, origin = entry.slot, entry.origin
        now, utc = self._clock(), self._utc()
        slot.tail = slot.interval(utc)
        slot.turns.answered(request, now)
        if origin is not None:
            if origin.shared is not None:
                origin.shared.answered(request, origin.interval(utc), now)
            origin.turns.answered(request, now)
            go_on(origin.crawls)

    def _left(self, request: Request) -> None:
        self.answered(request)
        entry = self._requests.pop(request, None)
        if entry is not None and entry.origin is not None:
            entry.slot.present[entry.origin] -= 1
            if not entry.slot.present[entry.origin]:
                del entry.slot.present[entry.origin]

    def _look(self) -> None:
        """Once the spider is closing, give up requests that wait for the turns of other workers: that may take long."""
        if not self._looking:
            return
        self._runtime.call_later(_LOOK, self._look)
        if is_closing(self._crawler):
            error = NoTurn("the spider closed before the turn of this request came")
            given = [request for key in self._slots for request in self._gates.give_up(key, self._is_shared, error)]
            for request in given:
                self._left(request)
            if given:
                count = many(len(given), "request")
                self._log("%s waited for a turn at a site when the spider closed: back to the scheduler", count)

    def _is_shared(self, request: Request) -> bool:
        entry = self._requests.get(request)
        return entry is not None and entry.origin is not None and entry.origin.shared is not None

    # Whether a request may start.

    def _wait(self, request: Request) -> float | None:
        """Return the seconds until a request may start; ``None``: `go_on` will be called for its slot."""
        key = request.meta["download_slot"]
        entry = self._entry(request, key)
        slot, origin = entry.slot, entry.origin
        now, utc = self._clock(), self._utc()
        # While one site takes long to answer, as for its robots.txt, the other sites of the slot must not wait for it.
        of_slot = slot.turns.wait(request, slot.interval(utc), now, patient=False)
        seconds: float | None = max(0.0, slot.turns.last + slot.tail - now, of_slot or 0.0)
        if origin is not None:
            interval = origin.interval(utc)
            of_origin = origin.turns.wait(request, interval, now)
            seconds = None if of_origin is None else max(seconds or 0.0, of_origin)
            if seconds == 0 and origin.shared is not None:
                seconds = origin.shared.wait(interval, now)
        if seconds == 0:
            self._start(request, entry, now)
            return seconds
        entry.held_since = entry.held_since or now
        if seconds is None and origin is not None:
            origin.waiting[self._gates, key] = entry.held_since
        return seconds

    def _begin(self, request: Request, entry: _SlotRequest, now: float) -> None:
        entry.started = entry.unanswered = True
        entry.slot.turns.start(request, now)
        if entry.origin is not None:
            entry.origin.turns.start(request, now)

    def _start(self, request: Request, entry: _SlotRequest, now: float) -> None:
        self._begin(request, entry, now)
        if entry.origin is not None and entry.origin.shared is not None:
            entry.origin.shared.start(request)
        if entry.held_since is not None:
            held, entry.held_since = now - entry.held_since, None
            self._added += held
            if held > 0:  # also a request of a site that asks for nothing, in the slot of one that does
                self.slowed.add(str(self._judged(request)), held)
            self._stats.set_value(stats.CRAWL_DELAY_ADDED, round(self._added, 3))

    def _sweep(self) -> None:
        """Forget origins and slots that had no request for a while."""
        before = self._clock() - _KEPT - self._limit.longest
        present = {paced for slot in self._slots.values() for paced in slot.present}
        for origin, paced in list(self._origins.items()):
            if paced not in present and paced.turns.idle and max(paced.turns.last, paced.noted) <= before:
                self._crawls.forget(origin, self._origins.pop(origin))
        self._slots = {
            key: slot
            for key, slot in self._slots.items()
            if slot.present or not slot.turns.idle or slot.turns.last > before
        }
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._origins))
