"""How a robots.txt is got: `Fetcher.get` reads from top to bottom, and the steps follow in their order.

`pending.py` has the fetches that are under way, their places and their time. `download.py` makes
each exchange, `policy/access.py` says what an answer means, `cache/entry.py` what is known after
it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest

from scrapy_robots_rfc import _scrapy, signals, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.cache.entry import (
    CacheEntry,
    Fetched,
    Validators,
    following,
    following_for_route,
)
from scrapy_robots_rfc.cache.locks import FetchLocks, pause
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.fetching.origin_log import OriginLog
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.fetching.pending import PREEMPTED, Crawl, PendingFetch, PendingFetches
from scrapy_robots_rfc.fetching.routes import Route, through
from scrapy_robots_rfc.policy import backoff, caching
from scrapy_robots_rfc.policy.access import Access, Asking, Local, Outcome, Successful, Unreachable
from scrapy_robots_rfc.policy.caching import Freshness, Validity

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_robots_rfc.cache.client import CacheClient
    from scrapy_robots_rfc.fetching.download import Downloader
    from scrapy_robots_rfc.fetching.reading import FileReader
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.settings import Settings

# Failures of routes that are remembered; the oldest is forgotten first.
_FAILED_ROUTES = 10_000


class Fetcher:
    """Gets the files of a crawl, and remembers what it has found.

    :param store: that is used beyond the process; ``None``: there is none.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        crawl: Crawl,
        files: FileReader,
        download: Downloader,
        store: CacheClient | None,
    ) -> None:
        assert crawler.stats is not None
        self._signals = crawler.signals
        self._settings = settings
        self._crawl = crawl
        self._files = files
        self._download = download
        self._count: Callable[[str], None] = crawler.stats.inc_value
        self._runtime = Runtime()
        #: The fetches that are under way.
        self.pending: PendingFetches = PendingFetches(
            crawler, crawl, download, settings.timeout, self._undecided
        )
        #: What workers share; what the crawl remembers; what is logged of origins that cannot be
        #: reached.
        self.locks: FetchLocks | None = (
            None if store is None else FetchLocks(store, settings, self._runtime)
        )
        self.memory: MemoryCache[OriginPolicy] = MemoryCache(
            settings.cache_size,
            parse=files.policy,
            evicted=partial(self._count, stats.CACHE_EVICTIONS),
            weigh=lambda robots: 0 if robots.file is None else robots.file.weight,
        )
        self.origin_log: OriginLog = OriginLog(settings, self._count, self._runtime)
        self._failed: dict[tuple[Origin, Hashable], OriginPolicy] = {}

    def newest(self, origin: Origin, route: Route, stale_for: float) -> OriginPolicy | None:
        """Return the newest that is known of an origin by a route, if it has not been stale for so many seconds.

        When another route led to the site after this one had failed, that failure does not count
        any more.
        """
        known = self.memory.get(origin)
        if known is not None and route is not None and not known.for_all:
            known = None
        found = (each for each in (known, self._failed.get((origin, route))) if each is not None)
        newest = max(found, key=lambda robots: robots.fetched, default=None)
        fresh = (
            newest is not None and self._runtime.clock() < newest.validity.fresh_until + stale_for
        )
        return newest if fresh else None

    async def get(self, fetch: PendingFetch) -> OriginPolicy:
        """Look, ask, conclude, tell.

        Again after a pause, while the origin is closed and attempts are left.
        """
        looks = 0
        while True:
            await self.pending.place(fetch)
            robots, copy, ours = await self._look(fetch)
            if robots is not None:
                return robots
            if not ours:
                self.pending.leave_place(fetch)
                if not looks:
                    self._count(stats.CACHE_LEASE_WAITS)
                await self._runtime.sleep(pause(looks))
                looks += 1
                continue
            fetched = await self._ask(fetch, copy)
            if fetched is None:  # others come first now
                fetch.preempted += 1
                self.pending.leave_place(fetch)
                continue
            newer = await self._found_meanwhile(fetch, fetched.access)
            if newer is not None:
                return await self._adopt(fetch, newer)
            file, fetched = await self._parsed(fetch, fetched)
            robots, pauses = await self._conclude(fetch, copy, fetched, file)
            self.pending.leave_place(fetch)
            await self._tell(fetch, robots, fetched.access)
            if not pauses:
                return robots
            fetch.attempts += 1
            fetch.last = robots.validity
            await self._runtime.sleep(pauses[0])

    # Look.

    async def _look(
        self, fetch: PendingFetch
    ) -> tuple[OriginPolicy | None, CacheEntry | None, bool]:
        """Return what memory or store has, if it is fresh; the newest copy.

        And whether no other worker fetches it.
        """
        copy = self.memory.entry(fetch.origin)
        fetch.before = self._governing(fetch, copy)
        if (
            copy is not None
            and self._runtime.clock() < copy.validity.fresh_until
            and fetch.suits(copy)
        ):
            # A large file that is not parsed any more; or one that a fetch by another route has
            # brought.
            robots = self.memory.get(fetch.origin) or await self._files.policy_aside(
                fetch.origin, copy
            )
            self.memory.put(fetch.origin, robots, copy)
            return robots, copy, False
        if self.locks is None:
            return None, copy, True
        copy, fresh, ours = await self.locks.look(fetch.origin, copy)
        if copy is not None and fresh and fetch.suits(copy):
            return await self._adopt(fetch, copy), copy, False
        if (
            copy is not None and ours and self.locks.shared
        ):  # its pace counts for the request that is sent now
            self._crawl.found(await self._files.policy_aside(fetch.origin, copy))
        return None, copy, ours or fresh

    def _governing(self, fetch: PendingFetch, copy: CacheEntry | None) -> Validity | None:
        """Return what governed the requests of a fetch before it."""
        failed = self._failed.get((fetch.origin, fetch.route))
        if failed is not None and (copy is None or copy.fetched <= failed.fetched):
            return failed.validity
        return None if copy is None else copy.validity

    async def _adopt(self, fetch: PendingFetch, copy: CacheEntry) -> OriginPolicy:
        """Go by a fresh copy of the store."""
        self._count(stats.CACHE_STORE_HITS)
        robots = await self._files.policy_aside(fetch.origin, copy)
        if robots.validity.unreachable_since is not None:
            self.origin_log.failed(robots, fetch)
        self.origin_log.concluded(robots, fetch)
        self.memory.put(fetch.origin, robots, copy)
        await self._tell(fetch, robots, None)
        return robots

    async def _found_meanwhile(self, fetch: PendingFetch, access: Access) -> CacheEntry | None:
        """If an attempt failed, return what another worker has put into the store meanwhile."""
        if self.locks is None or not isinstance(access, Unreachable | Local):
            return None
        newer = await self.locks.newer(fetch.origin, fetch.asked)
        if newer is None or not fetch.suits(newer):
            return None
        self._count(stats.RESULT.format(outcome=access.outcome.value))
        self.locks.leave(fetch.origin)
        return newer

    # Ask.

    async def _ask(self, fetch: PendingFetch, copy: CacheEntry | None) -> Fetched | None:
        """Ask the site, and follow redirects; ``None``: others come first now."""
        self._count(stats.REQUEST_COUNT)
        fetch.asked = self._runtime.clock()
        limits = self._settings
        state = Asking(fetch.origin.robots_url, scheme=limits.schemes[fetch.origin.scheme])
        fetch.spent = 0.0
        while True:
            known = None if copy is None else copy.known_at(state.url)
            answer = await self.pending.in_time(fetch, partial(self._send, fetch, state.url, known))
            if answer is PREEMPTED:
                return None
            if isinstance(answer, Exception):
                if not isinstance(answer, IgnoreRequest):
                    self._count(stats.EXCEPTION_COUNT.format(exception=type(answer)))
                return Fetched(through(access_after(answer, limits.timeout), fetch.request))
            response, body = answer
            access = state.answered(
                response.status,
                response.headers.get(b"Location"),
                body,
                unreachable_statuses=limits.unreachable_statuses,
                cached=copy.body if copy is not None and known is not None else None,
            )
            if not isinstance(access, Asking):
                break
            state = access
        self._count(stats.RESPONSE_COUNT)
        self._count(stats.RESPONSE_STATUS_COUNT.format(status=response.status))
        if isinstance(access, Unreachable):
            wanted = backoff.retry_after(response.headers.get(b"Retry-After"), self._runtime.date())
            access = replace(access, retry_after=wanted)
            return Fetched(through(access, fetch.request) if access.route else access)
        return self._answered(response, access, state.url, known)

    async def _send(
        self, fetch: PendingFetch, url: str, known: Validators | None
    ) -> tuple[Response, bytes]:
        fetch.request = self._download.request(
            url,
            timeout=max(self._settings.timeout - fetch.spent, 0.1),
            mark=fetch,
            retry=not self._settings.unreachable_backoff,  # retries on top of a backoff would multiply with it
            asker=fetch.source,
            known=known,
        )
        return await self._download.send(fetch.request)

    def _answered(
        self, response: Response, access: Access, url: str, known: Validators | None
    ) -> Fetched:
        """Return what came of an attempt whose last answer says whether there is a file."""
        lines = response.headers.getlist
        freshness = caching.freshness(lines, self._runtime.date())
        if not isinstance(access, Successful):
            return Fetched(access, freshness)
        confirmed = access.status == 304
        if len(access.body) > self._settings.max_size:
            self._count(stats.TRUNCATED)
            # It is a part of the file: a crawl with a larger limit must not be answered 304.
            return Fetched(access, freshness, None, confirmed)
        tag = caching.etag(lines)
        modified = caching.last_modified(lines)
        if confirmed and known is not None:  # what a 304 leaves out stays (RFC 9111, 3.2)
            tag = tag or known.etag
            modified = modified or known.last_modified
        return Fetched(
            access,
            freshness,
            Validators(url, tag, modified) if tag or modified else None,
            confirmed,
        )

    # Conclude.

    async def _parsed(
        self, fetch: PendingFetch, fetched: Fetched
    ) -> tuple[ParsedRobots | None, Fetched]:
        """Return the file of an answer, if there is one.

        A file that cannot be parsed counts as unreachable.
        """
        access = fetched.access
        if not isinstance(access, Successful):
            return None, fetched
        file = await self._files.parsed(fetch.origin, access.body)
        if not isinstance(file, str):
            return file, fetched
        failed = Unreachable(access.status, file, hopeless=True)
        return None, Fetched(
            failed, Freshness(stored=False)
        )  # other crawls may have a parser that works

    async def _conclude(
        self,
        fetch: PendingFetch,
        copy: CacheEntry | None,
        fetched: Fetched,
        file: ParsedRobots | None,
    ) -> tuple[OriginPolicy, tuple[float, ...]]:
        """Return what is known from now on, and the pauses before further attempts.

        Without those, remember it.
        """
        access = fetched.access
        now = self._runtime.clock()
        limits = self._settings
        self._count(stats.RESULT.format(outcome=access.outcome.value))
        if isinstance(access, Local) or (isinstance(access, Unreachable) and access.route):
            # It says nothing about the site, and governs the requests of this route only.
            entry = following_for_route(copy, access, now, limits)
            robots = await self._files.policy_aside(fetch.origin, entry)
            pauses: tuple[float, ...] = ()
            if isinstance(access, Local):
                self.origin_log.local(robots, access)
            else:
                # A proxy that a later middleware chose may be another one next time. One that
                # requests name stays.
                pauses = self._pauses(fetch, robots, access) if fetch.route is None else ()
                self.origin_log.failed(robots, fetch, pauses, of_route=True)
            if not pauses:
                self._remember_failure(fetch, robots)
            return robots, pauses
        if isinstance(access, Unreachable):
            ttl = backoff.at_least(limits.unreachable_ttl, access.retry_after)
            limits = replace(limits, unreachable_ttl=ttl)
        since = None if fetch.last is None else fetch.last.unreachable_since
        entry = following(copy, fetched, now, limits, since)
        robots = await self._files.policy_aside(fetch.origin, entry, file)
        pauses = ()
        if isinstance(access, Unreachable):
            pauses = self._pauses(fetch, robots, access)
            self.origin_log.failed(robots, fetch, pauses)
        if not pauses:
            self.origin_log.concluded(robots, fetch)
            self.memory.put(fetch.origin, robots, entry)
            if self.locks is not None:
                self.locks.publish(
                    fetch.origin, entry, stored=fetched.freshness.stored, since=fetch.asked
                )
        return robots, pauses

    def _pauses(
        self, fetch: PendingFetch, robots: OriginPolicy, access: Unreachable
    ) -> tuple[float, ...]:
        """Return the seconds before each further attempt.

        None follows where requests can be judged already.
        """
        if robots.outcome is not Outcome.UNREACHABLE or access.hopeless:
            return ()
        return backoff.to_come(fetch.attempts, access.retry_after, self._settings)

    def _undecided(self, fetch: PendingFetch, cause: str) -> OriginPolicy:
        """Return what is known where a fetch raised an exception.

        Nothing, and the next request tries again.
        """
        now = self._runtime.clock()
        validity = Validity(Outcome.LOCAL, now)
        robots = OriginPolicy(
            fetch.origin, validity, None, f"{__name__}: {cause}", None, self._crawl.agent, now
        )
        self._remember_failure(fetch, robots)
        return robots

    def _remember_failure(self, fetch: PendingFetch, robots: OriginPolicy) -> None:
        self._failed[fetch.origin, fetch.route] = robots
        if len(self._failed) > _FAILED_ROUTES:
            del self._failed[next(iter(self._failed))]
        if self.locks is not None:
            self.locks.leave(fetch.origin)

    # Tell.

    async def _tell(self, fetch: PendingFetch, robots: OriginPolicy, access: Access | None) -> None:
        """Tell the crawl and handlers of signals. Then those go on who wait by other routes, if it is for all.

        :param access: how the attempt ended; ``None``: none was made.
        """
        self._crawl.found(robots)
        fetch.spent = 0.0
        await self.pending.in_time(fetch, partial(self._send_signals, fetch, robots, access))
        if robots.for_all and self.memory.get(fetch.origin) is robots:
            self.pending.cancel_others(fetch, robots)

    async def _send_signals(
        self, fetch: PendingFetch, robots: OriginPolicy, access: Access | None
    ) -> None:
        send = self._signals.send_catch_log_async
        file = robots.file
        if (
            file is not None
            and _scrapy.ROBOTS_PARSED is not None
            and isinstance(access, Successful | None)
        ):
            await send(_scrapy.ROBOTS_PARSED, robotparser=file.parser, request=fetch.source)
        if access is None:
            return
        await send(
            signals.robots_fetched,
            origin=robots.origin,
            result=access.outcome,
            status=access.status,
            body=access.body if isinstance(access, Successful) else None,
            error=None if isinstance(access, Successful) else access.cause,
            request=fetch.source,
            robots=robots,
        )
