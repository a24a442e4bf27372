"""RobotsService: from an origin to what its robots.txt says. The way of a fetch is read here from top to bottom.

A fetch looks into memory and the store, asks the site (`fetch.py`), concludes what
governs the origin (`fetch.py`, `policy/`), keeps the result, and tells those who wait. However many ask, an origin has
one fetch at a time (`queue.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_robots_rfc import _scrapy, signals, stats
from scrapy_robots_rfc._runtime import Runtime, Threads
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.cache.locks import FetchLocks, pause
from scrapy_robots_rfc.cache.memory import LARGE, MemoryCache
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.download import Downloader, Hooks
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.fetching.fetch import Attempt, Fetched, Fetcher, following, governing_meanwhile, through
from scrapy_robots_rfc.fetching.origin_log import OriginLog
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.fetching.queue import Attempted, FetchQueue, PendingFetch, Result, RouteWait
from scrapy_robots_rfc.fetching.routes import Routes
from scrapy_robots_rfc.fetching.sources import Source, first_of
from scrapy_robots_rfc.policy import backoff
from scrapy_robots_rfc.policy.access import Access, Local, Outcome, Successful, Unreachable
from scrapy_robots_rfc.policy.caching import Freshness, Validity
from scrapy_robots_rfc.policy.origins import Origin, sitemap_urls
from scrapy_robots_rfc.settings import Settings

# Sitemap records of one robots.txt that count. Of a thousand real files, none has more than 130;
# a file of 512,000 octets (RFC 9309, 2.5) has room for more than 40,000.
_SITEMAPS = 1_000

# Routes that failed, of all origins, of which it is remembered what is known by them; the oldest is forgotten first.
_FAILED_ROUTES = 10_000

# Seconds to wait for the thread that parses large files, which takes a second at most for a file of 500 KiB; many may
# come at once. After that, a file is parsed when it is needed, on the event loop.
_PARSING = 60.0


class RobotsService:
    """The robots.txt files of a crawl.

    :param crawler: the crawl; its engine need not be there yet.
    :param settings: of the crawl.
    :param store: the client of a store, already started; ``None``: nothing is kept beyond the process.
    :param sources: say what is known of origins whose sites are not asked.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        hooks: Hooks,
        store: CacheClient | None,
        sources: Sequence[Source],
    ) -> None:
        assert crawler.stats is not None
        self._crawler, self._settings, self._hooks, self._sources = crawler, settings, hooks, sources
        self._closing = partial(_scrapy.is_closing, crawler)
        #: Gives the routes of requests; makes exchanges, also those of commands, and for tdmrep.json.
        self.routes: Routes = Routes(crawler)
        self.download: Downloader = Downloader(crawler, settings, hooks, self.routes)
        self._count: Callable[[str], None] = crawler.stats.inc_value
        self._runtime = Runtime()
        self._threads = Threads(1, self._runtime, "robots.txt parser")
        self._fetcher = Fetcher(settings, self.download, self._runtime, self._count)
        self._sharing = None if store is None else FetchLocks(store, settings, self._runtime)
        #: What the crawl remembers; what it tells of origins that cannot be reached; its fetches that are not over.
        self.memory: MemoryCache[OriginPolicy] = MemoryCache(
            settings.cache_size,
            parse=self._revive,
            evicted=lambda: self._count(stats.CACHE_EVICTIONS),
            weigh=lambda robots: 0 if robots.file is None else robots.file.weight,
        )
        self._failed: dict[tuple[Origin, Hashable], OriginPolicy] = {}
        self.origin_log: OriginLog = OriginLog(settings, self._count, self._runtime)
        self.queue: FetchQueue = FetchQueue(
            self._runtime,
            settings,
            closing=self._closing,
            work=self._find_out,
            late=self._too_late,
            queued=self.download.queued,
            settled=self._settled,
        )

    # Questions.

    async def robots(self, url: str) -> OriginPolicy:
        """Return what is known of the robots.txt that a URL falls under; fetch it if it is not at hand.

        Shares memory and fetches with the crawl. Await it in a spider's callback, under any reactor or none.

        :param url: absolute, of a scheme that is obeyed: http, https, ftp, gemini, those of ROBOTS_SCHEMES.
        :raises ValueError: another scheme, or no valid authority.
        :raises RobotsUndecided: the spider was closed first.
        """
        origin = Origin.of(url, self._settings.schemes)
        if origin is None:
            schemes = " or ".join(self._settings.schemes)
            raise ValueError(f"not an absolute URL of {schemes} with a valid authority")
        return await self.get(origin)

    async def get(self, origin: Origin) -> OriginPolicy:
        """Return what is known of an origin's robots.txt; fetch it if it is not at hand.

        :raises RobotsUndecided: the spider was closed first.
        """
        robots = self.at_hand(origin) or await self.ask(origin).result()
        if robots is None:
            raise undecided(origin)
        return robots

    async def sitemaps(self, url: str) -> list[str]:
        """Return the sitemaps that the robots.txt of a URL names, in its order and each once.

        They are absolute URLs of http, https or the file's own scheme; relative ones are read against the URL of the
        robots.txt. Of more than 1,000 Sitemap records the first 1,000 count.

        :param url: as for `robots`, which has the same errors.
        """
        robots = await self.robots(url)
        return sitemap_urls(robots.sitemaps[:_SITEMAPS], robots.origin.robots_url)

    def at_hand(self, origin: Origin, asker: Request | None = None, *, counted: bool = True) -> OriginPolicy | None:
        """Return what is known of an origin if it is fresh, without waiting; ``None``: it has to be fetched.

        :param asker: the request that is to be judged: the origin may be closed for its route only.
        :param counted: whether this look-up is counted in the stats.
        """
        if self._sources and (known := first_of(self._sources, origin)) is not None:
            return known
        robots, now = self.memory.get(origin), self._runtime.clock()
        fresh = robots is not None and now < robots.validity.fresh_until
        if robots is None or not fresh or (not robots.for_all and self.routes.of(asker) is not None):
            # When another route led to the site after this one had failed, that failure does not count any more.
            led_there = -math.inf if robots is None or not robots.for_all else robots.fetched
            robots = self._failed.get((origin, self.routes.of(asker)))
            if robots is None or now >= robots.validity.fresh_until or robots.fetched < led_there:
                return None
        if counted:
            self._count(stats.CACHE_HITS)
        return robots

    def ask(self, origin: Origin, asker: Request | None = None) -> RouteWait[OriginPolicy]:
        """Fetch an origin's robots.txt, unless a fetch is under way; return the wait for its result.

        The result is ``None`` if the spider is closed first.

        :param asker: the request that the file is fetched for; the fetch goes through its proxy.
        """
        known = first_of(self._sources, origin)
        if known is not None or self._closing():
            return RouteWait(origin, settled=True, value=known)
        self._count(stats.WAITS if origin in self.queue else stats.CACHE_MISSES)
        return self.queue.ask(origin, asker, self.routes.of(asker))

    def read_for(self, robots: OriginPolicy, agent: Agent) -> RouteWait[OriginPolicy]:
        """Read a large file on the thread for one more agent, as the first questions of each take long.

        Return the wait for that. The result is ``None`` if the spider is closed first.
        """
        wait: RouteWait[OriginPolicy] = RouteWait(robots.origin)
        self._runtime.spawn(self._read_for(wait, robots, agent))
        return wait

    async def close(self) -> None:
        """Write what is still to be written, for a second or two at most, and close the store."""
        self._threads.stop()
        if self._sharing is not None:
            await self._sharing.close()

    # The way of a fetch.

    async def _find_out(self, attempt: Attempt) -> Result:
        """Look, fetch, conclude, keep, tell. Whatever store and network do, there is a result.

        :raises RobotsUndecided: the attempt is over, see `Attempt.in_time`.
        """
        attempt.held = self.memory.entry(attempt.origin)
        attempt.before = None if attempt.held is None else attempt.held.validity
        held, access = attempt.held, None
        fresh = held is not None and self._runtime.clock() < held.validity.fresh_until
        # The memory gives no value of a file that is large and packed.
        if held is not None and fresh and self.memory.get(attempt.origin) is None:
            robots = await self._revive_aside(attempt, held)
            self.memory.put(attempt.origin, robots, held)
            return Attempted(robots)
        found = await self._look_into_store(attempt)
        if found is None:
            if attempt.held is not None and self._sharing is not None and self._sharing.shared:
                self._hooks.expected(await self._revive_aside(attempt, attempt.held))
            attempt.began = self._runtime.clock()
            fetched = await self._fetcher.fetch(attempt)
            found = await self._found_meanwhile(attempt, fetched)
            if found is None:
                file, fetched = await self._parsed(attempt, fetched)
                found, access = self._conclude(attempt, fetched, file), fetched.access
        if isinstance(found, Attempted):
            attempt.result = found  # those who wait get it even if a signal handler hangs
            await self._tell(attempt, found.value, access)
        return found

    def _too_late(self, attempt: Attempt) -> Attempted:
        """Conclude that there was no answer in time; tell it in the background."""
        fetched = Fetched(through(access_after(TimeoutError(), self._settings.timeout), attempt.request))
        attempted = self._conclude(attempt, fetched)
        self._runtime.spawn(self._tell(attempt, attempted.value, fetched.access))
        return attempted

    # Look.

    async def _look_into_store(self, attempt: Attempt) -> Result:
        """Return what the store has, or when to look again as another crawl fetches the file; ``None``: neither."""
        if self._sharing is None:
            return None
        attempt.held, fresh, ours = await attempt.wait_aside(self._sharing.look(attempt.origin, attempt.held))
        if fresh and attempt.held is not None and attempt.suits(attempt.held):
            return await self._adopt(attempt, attempt.held)
        if ours or fresh:
            return None
        if not attempt.pending.looks:
            self._count(stats.CACHE_LEASE_WAITS)
        return pause(attempt.pending.looks)

    async def _found_meanwhile(self, attempt: Attempt, fetched: Fetched) -> Result:
        """If this fetch failed, return what another crawl has put into the store meanwhile."""
        if self._sharing is None or not isinstance(fetched.access, Unreachable | Local):
            return None
        newer = await attempt.wait_aside(self._sharing.newer(attempt.origin, attempt.began))
        if newer is None or not attempt.suits(newer):
            return None
        self._count(stats.RESULT.format(outcome=fetched.access.outcome.value))
        self._sharing.leave(attempt.origin)
        return await self._adopt(attempt, newer)

    async def _adopt(self, attempt: Attempt, entry: CacheEntry) -> Attempted:
        """Go by a fresh entry of the store."""
        self._count(stats.CACHE_STORE_HITS)
        robots = await self._revive_aside(attempt, entry)
        if robots.validity.unreachable_since is not None:
            self.origin_log.failed(robots, attempt)
        self._keep(attempt, robots, entry)
        return Attempted(robots)

    # Conclude.

    def _conclude(self, attempt: Attempt, fetched: Fetched, file: ParsedRobots | str | None = None) -> Attempted:
        """Turn the result of a fetch into what is known from now on; keep it, unless another attempt follows.

        :param file: what `_parsed` gave.
        """
        access, now, limits = fetched.access, self._runtime.clock(), self._settings
        # A failure of the crawl or of a proxy says nothing about the site: it governs the requests of its route only.
        of_route = isinstance(access, Local) or (isinstance(access, Unreachable) and access.route)
        if of_route:
            entry = governing_meanwhile(attempt.held, access, now, limits)
        else:
            if isinstance(access, Unreachable):
                ttl = backoff.at_least(limits.unreachable_ttl, access.retry_after)
                limits = replace(limits, unreachable_ttl=ttl)
            since = None if attempt.last is None else attempt.last.unreachable_since
            entry = following(attempt.held, fetched, now, limits, since)
        robots = self._revive(attempt.origin, entry, file)
        self._count(stats.RESULT.format(outcome=access.outcome.value))
        alone = of_route or not robots.for_all
        to_come: tuple[float, ...] = ()
        if isinstance(access, Local):
            self.origin_log.local(robots, access)
        elif isinstance(access, Unreachable):
            # Retry only while the origin is closed: with an earlier file, or after failures for so long that the
            # origin opens, the requests that wait can be judged now.
            if robots.outcome is Outcome.UNREACHABLE and not access.hopeless:
                to_come = backoff.to_come(attempt.pending.route.attempts, access.retry_after, limits)
            self.origin_log.failed(robots, attempt, to_come, other_route=alone, that_way=of_route)
        if not of_route and not to_come:
            self._keep(attempt, robots, entry)
            if self._sharing is not None:
                self._sharing.publish(attempt.origin, entry, stored=fetched.freshness.stored, since=attempt.began)
        return Attempted(robots, to_come[0] if to_come else None, alone=alone)

    # Parse.

    async def _parsed(self, attempt: Attempt, fetched: Fetched) -> tuple[ParsedRobots | str | None, Fetched]:
        """Return the file of an answer; without one, the earlier file if it is large, because it may be obeyed."""
        access, earlier = fetched.access, None if attempt.held is None else attempt.held.body
        if not isinstance(access, Successful):
            return await self._parse(attempt, earlier) if earlier and len(earlier) > LARGE else None, fetched
        if len(access.body) > self._settings.max_size:
            self._count(stats.TRUNCATED)
        file = await self._parse(attempt, access.body)
        if isinstance(file, str):
            failed = Unreachable(access.status, file, hopeless=True)
            return None, Fetched(failed, Freshness(stored=False))  # other crawls may have a parser that works
        return file, fetched

    async def _parse(self, attempt: Attempt, body: bytes) -> ParsedRobots | str:
        """Return a parsed file, or why it cannot be parsed. A large one is read on a thread before it is handed out.

        Otherwise the first pages of a site would stop the event loop for up to a second.
        """
        file, reader = self._hooks.parse.tried(attempt.origin, body), self._hooks.reader()
        if isinstance(file, ParsedRobots) and file.unread(reader) and not self._closing():
            try:
                await attempt.wait_aside(self._read(file, reader))
            except TimeoutError:  # the thread may still be at work on this one
                file = self._hooks.parse.tried(attempt.origin, body)
                if isinstance(file, ParsedRobots):
                    file.at_once = True
        return file

    async def _read_for(self, wait: RouteWait[OriginPolicy], robots: OriginPolicy, agent: Agent) -> None:
        file = robots.file
        assert file is not None
        try:
            await self._read(file, agent)
        except TimeoutError:
            file.at_once = True
        finally:
            wait.settle(None if self._closing() and file.unread(agent) else robots)
            wait.tell()

    async def _read(self, file: ParsedRobots, agent: Agent) -> None:
        await self._threads.call(lambda: None if self._closing() else file.prepare(agent), limit=_PARSING)

    async def _revive_aside(self, attempt: Attempt, entry: CacheEntry) -> OriginPolicy:
        """Do what `_revive` does, but read a large file on a thread."""
        file = None if entry.body is None else await self._parse(attempt, entry.body)
        return self._revive(attempt.origin, entry, file)

    def _revive(self, origin: Origin, entry: CacheEntry, file: ParsedRobots | str | None = None) -> OriginPolicy:
        """Return what is known of an origin by a cache entry.

        :param file: the body of the entry, or why it cannot be parsed, if that is known already.
        """
        validity, cause = entry.validity, entry.cause
        if entry.body is None:
            file = None
        elif file is None:
            file = self._hooks.parse.tried(origin, entry.body)
        if isinstance(file, str):  # a file that cannot be read must not open the origin
            validity = Validity(Outcome.UNREACHABLE, validity.fresh_until, unreachable_since=entry.fetched)
            cause, file = file, None
        return OriginPolicy(origin, validity, entry.status, cause, file, self._hooks.agent, entry.fetched)

    # Keep.

    def _keep(self, attempt: Attempt, robots: OriginPolicy, entry: CacheEntry) -> None:
        """Remember what governs an origin from now on."""
        self.origin_log.concluded(robots, attempt)
        self.memory.put(attempt.origin, robots, entry)

    def _settled(self, pending: PendingFetch) -> None:
        """Let other crawls go on; keep the failure of each route, if none of them brought a result for all."""
        origin = pending.origin
        if not pending.alone:
            return
        kept = self.memory.get(origin)
        failed = {wait.name: wait.last for wait in pending.routes.values() if wait.last is not None}
        for route, robots in failed.items():
            self._failed[origin, route] = robots
            if len(self._failed) > _FAILED_ROUTES:
                del self._failed[next(iter(self._failed))]
        if any(robots is kept for robots in failed.values()):  # concluded, and given to other crawls already
            return
        closed = [robots for robots in failed.values() if robots.outcome is Outcome.UNREACHABLE]
        if closed:
            self.origin_log.routes_failed(closed[-1], pending.attempts)
        if self._sharing is not None:
            self._sharing.leave(origin)

    # Tell.

    async def _tell(self, attempt: Attempt, robots: OriginPolicy, access: Access | None) -> None:
        """Tell what governs an origin to the middleware and to signal handlers.

        :param access: how the fetch ended; ``None``: it came out of the store.
        """
        self._hooks.found(robots)
        send, asker = self._crawler.signals.send_catch_log_async, attempt.pending.route.asker
        if robots.file is not None and _scrapy.ROBOTS_PARSED is not None and isinstance(access, Successful | None):
            await send(_scrapy.ROBOTS_PARSED, robotparser=robots.file.parser, request=asker)
        if access is not None:
            await send(
                signals.robots_fetched,
                origin=robots.origin,
                result=access.outcome,
                status=access.status,
                body=access.body if isinstance(access, Successful) else None,
                error=None if isinstance(access, Successful) else access.cause,
                request=asker,
                robots=robots,
            )


def undecided(origin: Origin) -> RobotsUndecided:
    """Return the error of a request that the end of the crawl left without a verdict."""
    return RobotsUndecided(f"the spider closed before {origin.robots_url} was there")
