"""RobotsService: from an origin to what its robots.txt says. One inquiry whoever asks; memory, store, fetch.

In here: the flow from question to answer, over callables that the middleware hands in. No Scrapy class; what the RFC
decides is in `policy/` and `core/`.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Waiter
from scrapy_robots_rfc.cache.entry import rules_of
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.cache.shared import FetchLocks, pause
from scrapy_robots_rfc.core.lines import whole_lines
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.fetch import Asker, Fetching, Ports, Sent, no_answer, through
from scrapy_robots_rfc.fetching.flights import TICK, Flight, Flights
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.queue import Attempted, FetchQueue, LockedByPeer, PendingFetch, Preempted
from scrapy_robots_rfc.fetching.results import Fetched, following, set_aside
from scrapy_robots_rfc.fetching.routes import Failed, Route
from scrapy_robots_rfc.policy import backoff
from scrapy_robots_rfc.policy.access import Access, Local, Outcome, Successful, Unreachable
from scrapy_robots_rfc.policy.caching import CachePolicy, Freshness, Validity
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy_robots_rfc.cache.client import CacheClient
    from scrapy_robots_rfc.cache.entry import CacheEntry
    from scrapy_robots_rfc.cache.peers import Peers
    from scrapy_robots_rfc.fetching.hooks import OriginListener
    from scrapy_robots_rfc.fetching.overrides import Overrides
    from scrapy_robots_rfc.fetching.parsed import ParsedRobots
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Attempt:
    """One attempt to find out about an origin.

    :param before: what this crawl went by until now; ``None``: nothing.
    :param held: the newest copy that is known, fresh or not.
    :param sent: on whose behalf it is made, and what it sends.
    :param began: when the file itself was asked for.
    """

    inquiry: PendingFetch[OriginPolicy]
    before: Validity | None
    held: CacheEntry | None
    sent: Sent
    began: float = math.inf

    @property
    def origin(self) -> Origin:
        """Whose file it is about."""
        origin: Origin = self.inquiry.key
        return origin

    @property
    def known(self) -> Validity | None:
        """What was known before it, from earlier attempts of the inquiry too."""
        last = self.inquiry.last or self.inquiry.route.last
        return self.before if last is None else last.validity

    def changes(self, outcome: Outcome) -> bool:
        """Whether something else governed before, or nothing."""
        return self.before is None or self.before.outcome is not outcome


_Result: TypeAlias = Attempted[OriginPolicy] | LockedByPeer | Preempted


class RobotsService:
    """The robots.txt files of a crawl.

    :param settings: of the crawl.
    :param ports: what the service needs of the world.
    :param listener: is told what becomes of origins.
    :param keeper: the store, started; ``None``: nothing is kept beyond the process.
    :param steering: the user's exceptions; ``None``: there are none.
    :param peers: the other crawls of the process; ``None``: nothing is shared with them.
    """

    def __init__(
        self,
        settings: Settings,
        ports: Ports,
        listener: OriginListener,
        keeper: CacheClient | None = None,
        steering: Overrides | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._settings = settings
        self._ports = ports
        self._steering = steering
        self._peers = peers
        rules = self._rules = rules_of(settings)
        self._limits = rules.limits
        self._backoff = backoff.Backoff(settings.unreachable_backoff, settings.retry_after_max)
        self._listener = listener
        self._fetching = Fetching(settings, ports)
        self._sharing = None if keeper is None else FetchLocks(keeper, rules, ports.runtime)
        self._memory: MemoryCache[OriginPolicy] = MemoryCache(
            settings.cache_size,
            revive=self._revive,
            evicted=lambda: ports.count(stats.CACHE_EVICTIONS),
            weigh=lambda robots: 0 if robots.file is None else robots.file.weight,
        )
        self._failed: Failed[OriginPolicy] = Failed()
        # Flights that wait for the store, or for another crawl: that is not the site's time.
        self._aside: set[Flight[_Result]] = set()
        self._flights: Flights[_Result] = Flights(
            ports.runtime, settings.timeout, closing=ports.closing, queued=lambda: {*ports.queued(), *self._aside}
        )
        self._inquiries: FetchQueue[OriginPolicy] = FetchQueue(
            ports.runtime,
            settings.concurrent_fetches,
            closing=ports.closing,
            attempt=self._attempt,
            settled=self._without_route,
        )

    async def robots(self, url: str) -> OriginPolicy:
        """Return what is known of the robots.txt that a URL falls under; fetch it if it is not at hand.

        Shares memory and fetches with the crawl. Await it in a spider's callback, under any reactor or none.

        :param url: absolute, http or https.
        :raises ValueError: another scheme, or no valid authority.
        :raises RobotsUndecided: the spider was closed first.
        """
        origin = Origin.of(url)
        if origin is None:
            raise ValueError("not an absolute http or https URL with a valid authority")
        return await self.get(origin)

    def at_hand(self, origin: Origin, *, route: Route = None, counted: bool = True) -> OriginPolicy | None:
        """Return what is known and still fresh, without waiting for anything.

        :param route: of the request that it is for.
        :param counted: whether the stats have this look-up.
        """
        if self._steering is not None and (steered := self._steering.robots(origin)) is not None:
            return steered
        robots, now = self._memory.get(origin), self._ports.runtime.clock()
        if robots is None or now >= robots.validity.fresh_until or (route is not None and not _for_all(robots)):
            robots = self._failed.get(origin, route)
            if robots is None or now >= robots.validity.fresh_until:
                return None
        if counted:
            self._ports.count(stats.CACHE_HITS)
        return robots

    def octets(self, origin: Origin) -> bytes | None:
        """Return the file that an origin is judged by, as it came; ``None`` where it is not at hand.

        Of one longer than ROBOTSTXT_MAX_SIZE it is the lines that count.
        """
        if self._steering is not None and self._steering.robots(origin) is not None:
            return self._steering.octets(origin)
        copy = self._memory.copy(origin)
        return None if copy is None or copy.body is None else whole_lines(copy.body, self._settings.max_size)

    def hold(self, origin: Origin, robots: OriginPolicy) -> Callable[[], OriginPolicy]:
        """Return what gives the value, or a later one of its origin, as long as anybody may want it.

        That takes the memory of a compressed file, and not that of a parsed one.
        """
        return self._memory.hold(origin, robots)

    async def get(self, origin: Origin, asker: Asker = None) -> OriginPolicy:
        """Return what is known of an origin's robots.txt; fetch it if it is not at hand. One fetch, whoever waits.

        :param asker: the request on whose behalf; its proxy is inherited.
        :raises RobotsUndecided: the spider was closed first.
        """
        robots = self.at_hand(origin)
        if robots is not None:
            return robots
        waiter: Waiter[OriginPolicy | None] = Waiter()
        self.ask(origin, asker, waiter.resolve)
        robots = await waiter
        if robots is None:
            raise undecided(origin)
        return robots

    def ask(
        self, origin: Origin, asker: Asker, listener: Callable[[OriginPolicy | None], object], route: Route = None
    ) -> None:
        """Tell a listener what is known of an origin's robots.txt as soon as that is known; fetch it anew.

        :param asker: the request on whose behalf; its proxy is inherited.
        :param route: of that request.
        :param listener: called once, perhaps before this returns; with ``None`` when the spider was closed first.
        """
        steered = None if self._steering is None else self._steering.robots(origin)
        if steered is not None or self._ports.closing():
            listener(steered)
            return
        self._ports.count(stats.WAITS if origin in self._inquiries else stats.CACHE_MISSES)
        self._inquiries.ask(origin, asker, listener, route)

    def join(self, kind: Hashable) -> None:
        """Share files and fetches with the other crawls of the process that are of the same kind, until `close`."""
        if self._peers is not None:
            self._peers.join(self._ports.runtime.loop(), kind, self._memory.copy)

    async def close(self) -> None:
        """Write what is still to be written, for a second or two at most, and let go of the store."""
        if self._peers is not None:
            self._peers.leave()
        if self._sharing is not None:
            await self._sharing.close()

    # One attempt.

    def _attempt(self, inquiry: PendingFetch[OriginPolicy], listener: Callable[[_Result | None], object]) -> None:
        held = self._memory.copy(inquiry.key)
        sent = Sent(inquiry.route.asker)
        attempt = _Attempt(inquiry, None if held is None else held.validity, held, sent)
        work, expire = partial(self._work, attempt), partial(self._too_late, attempt)

        def ended(result: _Result | None) -> None:
            made_again = isinstance(result, Attempted) and result.again is not None
            if self._peers is not None and not made_again and not isinstance(result, Preempted):
                self._peers.end(attempt.origin)
            listener(result)

        self._flights.watch(inquiry.key, work, expire, ended, inquiry.patience)

    async def _work(self, attempt: _Attempt, flight: Flight[_Result]) -> _Result:
        """Find out. Ends in a value whatever store and network do; raises when too late."""
        found = None if self._sharing is None else await self._elsewhere(attempt, self._sharing, flight)
        if found is None and self._peers is not None:
            found = self._beside(attempt, self._peers)
        if found is None:
            if attempt.held is not None and self._sharing is not None and self._sharing.shared:
                self._ports.expected(self._revive(attempt.origin, attempt.held))
            attempt.began = self._ports.runtime.clock()
            fetched = await self._fetching.fetch(attempt.origin, attempt.held, flight, attempt.sent)
            found = await self._overtaken(attempt, fetched, flight)
        if found is None:
            attempted = self._conclude(attempt, fetched)
            flight.result = attempted  # what the listeners get should a signal handler hang
            await self._ports.fetched(attempted.value, fetched.access, attempt.sent.asker)
            return attempted
        if isinstance(found, Attempted):
            flight.result = found
            await self._ports.loaded(found.value, attempt.sent.asker)
        return found

    async def _elsewhere(self, attempt: _Attempt, sharing: FetchLocks, flight: Flight[_Result]) -> _Result | None:
        """Return what the store has, or that another crawl is at it; ``None``: it is for this one to fetch it."""
        self._aside.add(flight)
        try:
            attempt.held, fresh, ours = await sharing.look(attempt.origin, attempt.held)
        finally:
            self._aside.discard(flight)
        if flight.done:
            raise RobotsUndecided("too late: nobody waits for this file any more")
        if fresh and attempt.held is not None and (attempt.inquiry.route.name is None or _for_all(attempt.held)):
            return self._adopt(attempt, attempt.held)
        if ours or fresh:
            return None
        return self._later(attempt)

    def _beside(self, attempt: _Attempt, peers: Peers) -> _Result | None:
        """Return what another crawl of the process has, or that it is at it; ``None``: it is for this one to fetch."""
        copy, busy = peers.look(attempt.origin, attempt.sent.asker)
        if copy is not None and (attempt.held is None or copy.fetched > attempt.held.fetched):
            now = self._ports.runtime.clock()
            attempt.held = copy = self._rules.reviewed(copy, now)
            if now < copy.validity.fresh_until:
                return self._adopt(attempt, copy, shared=True)
        if busy:
            return self._later(attempt)
        peers.begin(attempt.origin, attempt.sent.asker)
        return None

    def _later(self, attempt: _Attempt) -> LockedByPeer:
        """Look again later: another crawl fetches the file."""
        if not attempt.inquiry.looks:
            self._ports.count(stats.CACHE_LEASE_WAITS)
        return LockedByPeer(pause(attempt.inquiry.looks))

    async def _overtaken(self, attempt: _Attempt, fetched: Fetched, flight: Flight[_Result]) -> _Result | None:
        """Return what another crawl has found out meanwhile, where this one could not."""
        if self._sharing is None or not isinstance(fetched.access, Unreachable | Local):
            return None
        self._aside.add(flight)
        try:
            newer = await self._sharing.newer(attempt.origin, attempt.began)
        finally:
            self._aside.discard(flight)
        if flight.done:
            raise RobotsUndecided("too late: nobody waits for this file any more")
        if newer is None or (attempt.inquiry.route.name is not None and not _for_all(newer)):
            return None
        self._ports.count(stats.RESULT.format(outcome=fetched.access.outcome.value))
        self._sharing.leave(attempt.origin)
        return self._adopt(attempt, newer)

    def _adopt(self, attempt: _Attempt, copy: CacheEntry, *, shared: bool = False) -> Attempted[OriginPolicy]:
        """Go by a fresh copy out of the store, or of another crawl.

        :param shared: whether the other crawls of the process may have it from this one.
        """
        self._ports.count(stats.CACHE_STORE_HITS)
        robots = self._revive(attempt.origin, copy)
        if robots.validity.unreachable_since is not None:
            self._warn(robots, attempt.known)
        self._remember(attempt, robots, copy, shared=shared)
        return Attempted(robots)

    def _too_late(self, attempt: _Attempt) -> _Result:
        if attempt.inquiry.patience < self._settings.timeout:
            return Preempted()
        fetched = Fetched(through(Unreachable(None, no_answer(self._settings.timeout)), attempt.sent))
        attempted = self._conclude(attempt, fetched)
        self._ports.runtime.spawn(self._tell(attempted.value, fetched.access, attempt.sent.asker))
        return attempted

    async def _tell(self, robots: OriginPolicy, access: Access, asker: Asker) -> None:
        await self._ports.fetched(robots, access, asker)

    def _conclude(self, attempt: _Attempt, fetched: Fetched) -> Attempted[OriginPolicy]:
        """Turn the result of a fetch into what is known from now on; keep it, unless it is asked for again."""
        if isinstance(fetched.access, Local) or (isinstance(fetched.access, Unreachable) and fetched.access.route):
            return self._conclude_route(attempt, fetched.access)
        file, fetched = self._parsed(attempt.origin, fetched)
        access, inquiry, now = fetched.access, attempt.inquiry, self._ports.runtime.clock()
        last = inquiry.last or inquiry.route.last
        since = None if last is None else last.validity.unreachable_since
        copy = following(attempt.held, fetched, now, self._limits_after(access), since)
        robots = self._revive(attempt.origin, copy, file)
        self._ports.count(stats.RESULT.format(outcome=access.outcome.value))
        to_come: tuple[float, ...] = ()
        if isinstance(access, Unreachable):
            # An earlier copy, or a failure so old that it opens the origin, is no reason to keep requests waiting.
            if robots.outcome is Outcome.UNREACHABLE and not access.hopeless:
                to_come = self._backoff.to_come(inquiry.delays, access.retry_after)
            if not _for_all(robots) and inquiry.untried() is not None:
                self._listener.other_route(attempt.origin, robots.cause)
            else:
                self._warn(robots, attempt.known, inquiry.attempts + 1, to_come)
        if not to_come:
            self._remember(attempt, robots, copy, shared=fetched.freshness.stored)
            if self._sharing is not None:
                self._sharing.publish(attempt.origin, copy, stored=fetched.freshness.stored, since=attempt.began)
        elif attempt.changes(Outcome.UNREACHABLE):
            self._listener.again(attempt.origin, robots.cause)
        again = to_come[0] if to_come else None
        return Attempted(robots, again, alone=not _for_all(robots), hopeless=again is None)

    def _conclude_route(self, attempt: _Attempt, access: Unreachable | Local) -> Attempted[OriginPolicy]:
        """Turn a failure that says nothing about the site into what the requests of its route go by."""
        inquiry, now = attempt.inquiry, self._ports.runtime.clock()
        copy = set_aside(attempt.held, access, now, self._limits)
        robots = self._revive(attempt.origin, copy)
        self._ports.count(stats.RESULT.format(outcome=access.outcome.value))
        hopeless = isinstance(access, Local) or access.hopeless or robots.outcome is not Outcome.UNREACHABLE
        to_come = self._backoff.to_come(inquiry.delays, None)
        if isinstance(access, Local):
            self._listener.local(attempt.origin, access, robots.outcome)
        elif inquiry.untried() is not None:
            self._listener.other_route(attempt.origin, robots.cause)
        else:
            self._warn(robots, attempt.known, inquiry.attempts + 1, () if hopeless else to_come, alone=True)
        return Attempted(robots, to_come[0] if to_come else None, alone=True, hopeless=hopeless)

    def _without_route(self, inquiry: PendingFetch[OriginPolicy]) -> None:
        """Keep what is known by each route of an inquiry, as none of them brought what is for all."""
        origin: Origin = inquiry.key
        kept, now = self._memory.get(origin), self._ports.runtime.clock()
        for route in inquiry.routes.values():
            if route.last is not None and now < route.last.validity.fresh_until:
                name: Any = route.name
                self._failed.put(origin, name, route.last)
        lasts = [route.last for route in inquiry.routes.values() if route.last is not None]
        if any(last is kept for last in lasts):  # concluded, and given to other crawls
            return
        closed = [last.cause for last in lasts if last.outcome is Outcome.UNREACHABLE]
        if closed:
            self._listener.routes_failed(origin, closed[-1], inquiry.attempts)
        if self._sharing is not None:
            self._sharing.leave(origin)

    def _limits_after(self, access: Access) -> CachePolicy:
        """Leave a server alone for as long as it asks."""
        if not isinstance(access, Unreachable) or access.retry_after is None:
            return self._limits
        ttl = self._backoff.at_least(self._limits.unreachable_ttl, access.retry_after)
        return replace(self._limits, unreachable_ttl=ttl)

    # What a copy says.

    def _parsed(self, origin: Origin, fetched: Fetched) -> tuple[ParsedRobots | None, Fetched]:
        access = fetched.access
        if not isinstance(access, Successful):
            return None, fetched
        if len(access.body) > self._settings.max_size:
            self._ports.count(stats.TRUNCATED)
        file = self._parse(origin, access.body)
        if isinstance(file, str):
            failed = Unreachable(access.status, file, hopeless=True)
            return None, Fetched(failed, Freshness(stored=False))  # no reason for other crawls to stay out
        return file, fetched

    def _parse(self, origin: Origin, body: bytes) -> ParsedRobots | str:
        """Return the parsed file, or why there is none."""
        try:
            return self._ports.parse(body)
        except Exception as error:
            self._ports.count(stats.PARSER_ERRORS)
            logger.exception("ROBOTSTXT_PARSER failed on %s", origin.robots_url)
            return f"ROBOTSTXT_PARSER raised {type(error).__name__}"

    def _revive(self, origin: Origin, copy: CacheEntry, file: ParsedRobots | None = None) -> OriginPolicy:
        """Return what a copy says."""
        validity, cause = copy.validity, copy.cause
        if file is None and copy.body is not None:
            parsed = self._parse(origin, copy.body)
            if isinstance(parsed, str):  # nothing opens because a file cannot be read
                validity, cause = (
                    Validity(Outcome.UNREACHABLE, validity.fresh_until, unreachable_since=copy.fetched),
                    parsed,
                )
            else:
                file = parsed
        return OriginPolicy(origin, validity, copy.status, cause, file, self._ports.agent, copy.fetched)

    def _remember(self, attempt: _Attempt, robots: OriginPolicy, copy: CacheEntry, *, shared: bool) -> None:
        before, changed = attempt.before, attempt.changes(robots.outcome)
        made = attempt.inquiry.attempts + 1
        reached = robots.validity.unreachable_since is None
        self._listener.concluded(
            attempt.origin, robots.cause, robots.outcome, changed=changed, reached=reached, attempts=made
        )
        if robots.stale and not (before is not None and before.stale):
            self._listener.began_stale(attempt.origin, robots.cause)
        self._memory.put(attempt.origin, robots, copy)
        if _for_all(robots):
            self._failed.forget(attempt.origin)
        if self._peers is not None:
            self._peers.keep(attempt.origin, attempt.sent.asker, shared=shared)

    def _warn(
        self,
        robots: OriginPolicy,
        known: Validity | None,
        made: int = 1,
        to_come: tuple[float, ...] = (),
        *,
        alone: bool = False,
    ) -> None:
        """Say that a file cannot be reached and what follows: a warning at the first failure of a run, and at a change.

        :param made: attempts.
        :param to_come: seconds before each further one.
        :param alone: whether it is about the requests of one route only.
        """
        warned = known is not None and known.unreachable_since is not None and known.outcome is robots.outcome
        if to_come:
            # The two ticks are those after which the end of a pause, and that of an attempt, are noticed.
            until = self._ports.runtime.at(1 + sum(to_come) + len(to_come) * (self._settings.timeout + 2 * TICK))
            if warned:
                self._listener.goes_on(robots.origin, robots.cause, made, to_come, until)
            else:
                self._listener.begins(robots.origin, robots.cause, to_come, until, alone=alone)
        elif not warned:
            again = robots.validity.fresh_until - self._ports.runtime.clock()
            self._listener.failed(robots.origin, robots.cause, robots.outcome, again, alone=alone)


def _for_all(known: OriginPolicy | CacheEntry) -> bool:
    """Whether what is known governs every route: not so where the way to the site failed, and nothing is at hand."""
    return known.status is not None or known.validity.outcome is not Outcome.UNREACHABLE


def undecided(origin: Origin) -> RobotsUndecided:
    """Return the error of a request that the end of the crawl left without a verdict."""
    return RobotsUndecided(f"the spider closed before {origin.robots_url} was there")
