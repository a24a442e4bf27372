"""RobotsService: from an origin to what its robots.txt says. The way of a fetch is read here from top to bottom.

A fetch looks into memory, the store and the other crawls of the process, asks the site (`fetch.py`), concludes what
governs the origin (`results.py`, `policy/`), keeps the result, and tells those who wait. However many ask, an origin
has one fetch at a time (`queue.py`).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc import _scrapy, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.cache.entry import cache_policy
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.cache.shared import FetchLocks, Peers, pause
from scrapy_robots_rfc.core.lines import whole_lines
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.download import Sent
from scrapy_robots_rfc.fetching.fetch import Fetch, Fetcher, no_answer, through
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.queue import MOST_ROUTES, TICK, Attempt, Attempted, FetchQueue, LockedByPeer, RouteWait
from scrapy_robots_rfc.fetching.results import Fetched, following, limits_after, set_aside
from scrapy_robots_rfc.fetching.routes import FailedRoutes, Routes
from scrapy_robots_rfc.policy import backoff
from scrapy_robots_rfc.policy.access import Local, Outcome, Successful, Unreachable
from scrapy_robots_rfc.policy.caching import Freshness, Validity
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc.cache.client import CacheClient
    from scrapy_robots_rfc.cache.entry import CacheEntry
    from scrapy_robots_rfc.fetching.download import Downloader
    from scrapy_robots_rfc.fetching.hooks import Hooks
    from scrapy_robots_rfc.fetching.overrides import Overrides
    from scrapy_robots_rfc.fetching.parsed import ParsedRobots
    from scrapy_robots_rfc.fetching.queue import PendingFetch, Result, Work
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)


class RobotsService:
    """The robots.txt files of a crawl.

    :param crawler: the crawl; its engine need not be there yet.
    :param settings: of the crawl.
    :param download: makes one exchange through Scrapy's downloader.
    :param hooks: what the service calls in the middleware.
    :param store: the client of a store, already started; ``None``: nothing is kept beyond the process.
    :param overrides: the user's exceptions; ``None``: there are none.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        download: Downloader,
        hooks: Hooks,
        store: CacheClient | None = None,
        overrides: Overrides | None = None,
    ) -> None:
        assert crawler.stats is not None
        self._settings, self._hooks, self._listener, self._overrides = settings, hooks, hooks.listener, overrides
        self._closing = partial(_scrapy.is_closing, crawler)
        #: Gives the routes of requests.
        self.routes = Routes(crawler)
        # The crawls of this process share files and fetches; with a shared store, they do so through the store.
        shared = store is not None and store.shared
        self._peers = None if shared else Peers(self.routes.way, self._closing)
        self._count: Callable[[str], None] = crawler.stats.inc_value
        self._runtime = Runtime()
        self._limits = cache_policy(settings)
        self._backoff = backoff.Backoff(settings.unreachable_backoff, settings.retry_after_max)
        self._fetcher = Fetcher(settings, download, self._runtime, self._count)
        self._sharing = None if store is None else FetchLocks(store, self._limits, self._runtime)
        self._memory: MemoryCache[OriginPolicy] = MemoryCache(
            settings.cache_size,
            revive=self._revive,
            evicted=lambda: self._count(stats.CACHE_EVICTIONS),
            weigh=lambda robots: 0 if robots.file is None else robots.file.weight,
        )
        self._failed: FailedRoutes[OriginPolicy] = FailedRoutes()
        self._queue: FetchQueue[OriginPolicy] = FetchQueue(
            self._runtime,
            settings,
            closing=self._closing,
            begin=self._begin,
            queued=download.queued,
            settled=self._settled,
        )

    # Questions.

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

    async def get(self, origin: Origin) -> OriginPolicy:
        """Return what is known of an origin's robots.txt; fetch it if it is not at hand.

        :raises RobotsUndecided: the spider was closed first.
        """
        robots = self.at_hand(origin) or await self.ask(origin).result()
        if robots is None:
            raise undecided(origin)
        return robots

    def at_hand(self, origin: Origin, asker: Request | None = None, *, counted: bool = True) -> OriginPolicy | None:
        """Return what is known of an origin if it is fresh, without waiting; ``None``: it has to be fetched.

        :param asker: the request that is to be judged: the origin may be closed for its route only.
        :param counted: whether this look-up is counted in the stats.
        """
        if self._overrides is not None and (override := self._overrides.robots(origin)) is not None:
            return override
        robots, now = self._memory.get(origin), self._runtime.clock()
        if robots is None or now >= robots.validity.fresh_until or not robots.for_all:
            route = None if asker is None else self.routes.of(asker)
            if robots is None or now >= robots.validity.fresh_until or route is not None:
                robots = self._failed.get(origin, route)
                if robots is None or now >= robots.validity.fresh_until:
                    return None
        if counted:
            self._count(stats.CACHE_HITS)
        return robots

    def ask(self, origin: Origin, asker: Request | None = None) -> RouteWait[OriginPolicy]:
        """Fetch an origin's robots.txt, unless a fetch is under way; return the wait for its result.

        The result is ``None`` if the spider is closed first.

        :param asker: the request that the file is fetched for; the fetch goes through its proxy.
        """
        override = None if self._overrides is None else self._overrides.robots(origin)
        if override is not None or self._closing():
            return RouteWait(origin, settled=True, value=override)
        self._count(stats.WAITS if origin in self._queue else stats.CACHE_MISSES)
        return self._queue.ask(origin, asker, None if asker is None else self.routes.of(asker))

    def octets(self, origin: Origin) -> bytes | None:
        """Return the octets of the file that an origin is judged by; ``None`` if it is not at hand.

        Of a file longer than ROBOTSTXT_MAX_SIZE, only the lines that count are returned.
        """
        if self._overrides is not None and self._overrides.robots(origin) is not None:
            return self._overrides.octets(origin)
        entry = self._memory.entry(origin)
        return None if entry is None or entry.body is None else whole_lines(entry.body, self._settings.max_size)

    def hold(self, origin: Origin, robots: OriginPolicy) -> Callable[[], OriginPolicy]:
        """Return a function that gives this value, or a later one of its origin, as long as the function is kept.

        It takes the memory of the compressed file, and not that of the parsed one.
        """
        return self._memory.hold(origin, robots)

    # The crawl begins and ends.

    def join(self, kind: Hashable) -> None:
        """Share files and fetches with the other crawls of the process that are of the same kind, until `close`."""
        if self._peers is not None:
            self._peers.join(self._runtime.loop(), kind, self._memory.entry)

    async def close(self) -> None:
        """Write what is still to be written, for a second or two at most, and close the store."""
        if self._peers is not None:
            self._peers.leave()
        if self._sharing is not None:
            await self._sharing.close()

    # The way of a fetch.

    def _begin(self, attempt: Attempt[OriginPolicy]) -> tuple[Work[OriginPolicy], Callable[[], Result[OriginPolicy]]]:
        """Return the work of an attempt, and what makes its result if the work takes too long."""
        held = self._memory.entry(attempt.pending.key)
        before = None if held is None else held.validity
        fetch = Fetch(attempt, before, held, Sent(attempt.pending.route.asker))
        return partial(self._find_out, fetch), partial(self._too_late, fetch)

    async def _find_out(self, fetch: Fetch) -> Result[OriginPolicy]:
        """Look, fetch, conclude, keep, tell. Whatever store and network do, there is a result.

        :raises RobotsUndecided: it took too long, so `_too_late` has concluded already.
        """
        found = await self._look_into_store(fetch) or self._look_at_peers(fetch)
        if found is None:
            if fetch.held is not None and self._sharing is not None and self._sharing.shared:
                self._hooks.expected(self._revive(fetch.origin, fetch.held))
            fetch.began = self._runtime.clock()
            fetched = await self._fetcher.fetch(fetch)
            found = await self._found_meanwhile(fetch, fetched)
            if found is None:
                attempted = self._conclude(fetch, fetched)
                fetch.attempt.result = attempted  # those who wait get it even if a signal handler hangs
                await self._hooks.fetched(attempted.value, fetched.access, fetch.sent.asker)
                return attempted
        if isinstance(found, Attempted):
            fetch.attempt.result = found
            await self._hooks.loaded(found.value, fetch.sent.asker)
        return found

    def _too_late(self, fetch: Fetch) -> Attempted[OriginPolicy]:
        """Conclude and keep that there was no answer in time; tell it in the background."""
        fetched = Fetched(through(Unreachable(None, no_answer(self._settings.timeout)), fetch.sent))
        attempted = self._conclude(fetch, fetched)
        told = self._hooks.fetched(attempted.value, fetched.access, fetch.sent.asker)
        self._runtime.spawn(told)
        return attempted

    # Look.

    async def _look_into_store(self, fetch: Fetch) -> Result[OriginPolicy]:
        """Return what the store has, or that another crawl fetches the file; ``None``: this crawl has to fetch it."""
        if self._sharing is None:
            return None
        fetch.held, fresh, ours = await fetch.aside(self._sharing.look(fetch.origin, fetch.held))
        if fresh and fetch.held is not None and fetch.suits(fetch.held):
            return self._adopt(fetch, fetch.held)
        return None if ours or fresh else self._look_later(fetch)

    def _look_at_peers(self, fetch: Fetch) -> Result[OriginPolicy]:
        """Do the same with the other crawls of the process."""
        if self._peers is None:
            return None
        entry, busy = self._peers.look(fetch.origin, fetch.sent.asker)
        if entry is not None and (fetch.held is None or entry.fetched > fetch.held.fetched):
            now = self._runtime.clock()
            fetch.held = entry = entry.reviewed(now, self._limits)
            if now < entry.validity.fresh_until:
                return self._adopt(fetch, entry, shared=True)
        if busy:
            self._peers.end(fetch.origin)
            return self._look_later(fetch)
        self._peers.begin(fetch.origin, fetch.sent.asker)
        return None

    def _look_later(self, fetch: Fetch) -> LockedByPeer:
        if not fetch.pending.looks:
            self._count(stats.CACHE_LEASE_WAITS)
        return LockedByPeer(pause(fetch.pending.looks))

    async def _found_meanwhile(self, fetch: Fetch, fetched: Fetched) -> Result[OriginPolicy]:
        """If this fetch failed, return what another crawl has put into the store meanwhile."""
        if self._sharing is None or not isinstance(fetched.access, Unreachable | Local):
            return None
        newer = await fetch.aside(self._sharing.newer(fetch.origin, fetch.began))
        if newer is None or not fetch.suits(newer):
            return None
        self._count(stats.RESULT.format(outcome=fetched.access.outcome.value))
        self._sharing.leave(fetch.origin)
        return self._adopt(fetch, newer)

    def _adopt(self, fetch: Fetch, entry: CacheEntry, *, shared: bool = False) -> Attempted[OriginPolicy]:
        """Go by a fresh entry of the store, or of another crawl.

        :param shared: whether other crawls of the process may take it from this one.
        """
        self._count(stats.CACHE_STORE_HITS)
        robots = self._revive(fetch.origin, entry)
        if robots.validity.unreachable_since is not None:
            self._warn(robots, fetch.known)
        self._keep(fetch, robots, entry, shared=shared)
        return Attempted(robots)

    # Conclude.

    def _conclude(self, fetch: Fetch, fetched: Fetched) -> Attempted[OriginPolicy]:
        """Turn the result of a fetch into what is known from now on; keep it, unless another attempt follows."""
        if isinstance(fetched.access, Local) or (isinstance(fetched.access, Unreachable) and fetched.access.route):
            return self._conclude_route(fetch, fetched.access)
        file, fetched = self._parsed(fetch.origin, fetched)
        access, pending, now = fetched.access, fetch.pending, self._runtime.clock()
        since = None if fetch.last is None else fetch.last.validity.unreachable_since
        entry = following(fetch.held, fetched, now, limits_after(access, self._limits, self._backoff), since)
        robots = self._revive(fetch.origin, entry, file)
        self._count(stats.RESULT.format(outcome=access.outcome.value))
        to_come: tuple[float, ...] = ()
        if isinstance(access, Unreachable):
            # Retry only while the origin is closed: with an earlier file, or after failures for so long that the
            # origin opens, the requests that wait can be judged now.
            if robots.outcome is Outcome.UNREACHABLE and not access.hopeless:
                to_come = self._backoff.to_come(pending.route.attempts, access.retry_after)
            if not robots.for_all and pending.untried() is not None:
                self._listener.other_route(fetch.origin, robots.cause)
            else:
                self._warn(robots, fetch.known, pending, to_come)
        if not to_come:
            self._keep(fetch, robots, entry, shared=fetched.freshness.stored)
            if self._sharing is not None:
                self._sharing.publish(fetch.origin, entry, stored=fetched.freshness.stored, since=fetch.began)
        elif fetch.changes(Outcome.UNREACHABLE):
            self._listener.again(fetch.origin, robots.cause)
        return Attempted(robots, to_come[0] if to_come else None, alone=not robots.for_all)

    def _conclude_route(self, fetch: Fetch, access: Unreachable | Local) -> Attempted[OriginPolicy]:
        """Turn a failure that says nothing about the site into what governs the requests of its route."""
        pending, now = fetch.pending, self._runtime.clock()
        robots = self._revive(fetch.origin, set_aside(fetch.held, access, now, self._limits))
        self._count(stats.RESULT.format(outcome=access.outcome.value))
        hopeless = isinstance(access, Local) or access.hopeless or robots.outcome is not Outcome.UNREACHABLE
        to_come = () if hopeless else self._backoff.to_come(pending.route.attempts, None)
        if isinstance(access, Local):
            self._listener.local(fetch.origin, access, robots.outcome)
        elif pending.untried() is not None:
            self._listener.other_route(fetch.origin, robots.cause)
        else:
            self._warn(robots, fetch.known, pending, to_come, alone=True)
        return Attempted(robots, to_come[0] if to_come else None, alone=True)

    def _parsed(self, origin: Origin, fetched: Fetched) -> tuple[ParsedRobots | None, Fetched]:
        access = fetched.access
        if not isinstance(access, Successful):
            return None, fetched
        if len(access.body) > self._settings.max_size:
            self._count(stats.TRUNCATED)
        file = self._parse(origin, access.body)
        if isinstance(file, str):
            failed = Unreachable(access.status, file, hopeless=True)
            return None, Fetched(failed, Freshness(stored=False))  # other crawls may have a parser that works
        return file, fetched

    def _parse(self, origin: Origin, body: bytes) -> ParsedRobots | str:
        """Return the parsed file, or why there is none."""
        try:
            return self._hooks.parse(body)
        except Exception as error:
            self._count(stats.PARSER_ERRORS)
            logger.exception("ROBOTSTXT_PARSER failed on %s", origin.robots_url)
            return f"ROBOTSTXT_PARSER raised {type(error).__name__}"

    def _revive(self, origin: Origin, entry: CacheEntry, file: ParsedRobots | None = None) -> OriginPolicy:
        """Return what is known of an origin by a cache entry.

        :param file: the body of the entry, if it is parsed already.
        """
        validity, cause = entry.validity, entry.cause
        if file is None and entry.body is not None:
            parsed = self._parse(origin, entry.body)
            if isinstance(parsed, str):  # a file that cannot be read must not open the origin
                cause = parsed
                validity = Validity(Outcome.UNREACHABLE, validity.fresh_until, unreachable_since=entry.fetched)
            else:
                file = parsed
        return OriginPolicy(origin, validity, entry.status, cause, file, self._hooks.agent, entry.fetched)

    # Keep.

    def _keep(self, fetch: Fetch, robots: OriginPolicy, entry: CacheEntry, *, shared: bool) -> None:
        """Remember what governs an origin from now on, and tell the listener."""
        self._listener.concluded(
            fetch.origin,
            robots.cause,
            robots.outcome,
            changed=fetch.changes(robots.outcome),
            reached=robots.validity.unreachable_since is None,
            attempts=fetch.pending.attempts + 1,
        )
        if robots.stale and not (fetch.before is not None and fetch.before.stale):
            self._listener.began_stale(fetch.origin, robots.cause)
        self._memory.put(fetch.origin, robots, entry)
        if robots.for_all:
            self._failed.forget(fetch.origin)
        if self._peers is not None:
            self._peers.keep(fetch.origin, fetch.sent.asker, shared=shared)

    def _settled(self, pending: PendingFetch[OriginPolicy]) -> None:
        """Let other crawls go on; keep the failure of each route, if none of them brought a result for all."""
        origin: Origin = pending.key
        if self._peers is not None:
            self._peers.end(origin)
        if not pending.alone:
            return
        kept, now = self._memory.get(origin), self._runtime.clock()
        lasts: list[tuple[Any, OriginPolicy]] = [
            (route.name, route.last) for route in pending.routes.values() if route.last is not None
        ]
        for name, last in lasts:
            if now < last.validity.fresh_until:
                self._failed.put(origin, name, last)
        if any(last is kept for _, last in lasts):  # concluded, and given to other crawls already
            return
        closed = [last.cause for _, last in lasts if last.outcome is Outcome.UNREACHABLE]
        if closed:
            self._listener.routes_failed(origin, closed[-1], pending.attempts)
        if self._sharing is not None:
            self._sharing.leave(origin)

    # Tell.

    def _warn(
        self,
        robots: OriginPolicy,
        known: Validity | None,
        pending: PendingFetch[OriginPolicy] | None = None,
        to_come: tuple[float, ...] = (),
        *,
        alone: bool = False,
    ) -> None:
        """Say that a file cannot be reached and what follows: a warning at the first failure of a run, and at a change.

        :param pending: whose attempt failed; ``None``: the entry came from a store or another crawl.
        :param to_come: seconds before each further attempt by its route.
        :param alone: whether it is about the requests of one route only.
        """
        warned = known is not None and known.unreachable_since is not None and known.outcome is robots.outcome
        if to_come and pending is not None:
            # The queue notices the end of a pause, and that of an attempt, up to a tick late.
            attempts = len(to_come) * min(len(pending.routes), MOST_ROUTES)
            until = self._runtime.at(1 + sum(to_come) + attempts * (self._settings.timeout + 2 * TICK))
            if warned:
                self._listener.goes_on(robots.origin, robots.cause, pending.route.attempts + 1, to_come, until)
            else:
                self._listener.begins(robots.origin, robots.cause, to_come, until, alone=alone)
        elif not warned:
            again = robots.validity.fresh_until - self._runtime.clock()
            self._listener.failed(robots.origin, robots.cause, robots.outcome, again, alone=alone)


def undecided(origin: Origin) -> RobotsUndecided:
    """Return the error of a request that the end of the crawl left without a verdict."""
    return RobotsUndecided(f"the spider closed before {origin.robots_url} was there")
