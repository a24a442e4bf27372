"""Fetch robots.txt files: `Fetcher.get` tells the story of a fetch, its steps follow in order.

`pending.py` has the fetches that are under way, and bounds their number and time. `download.py`
makes each exchange, `policy/access.py` says what an answer means, `cache/entry.py` what follows.
"""

from collections.abc import Hashable, Iterator
from functools import partial

from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc import _scrapy, signals, stats
from scrapy_robots_rfc._runtime import LATE, Runtime, Waiter
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.cache.entry import (
    CacheEntry,
    Fetched,
    Validators,
    entry_for_route,
    next_entry,
)
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.fetching.cookies import FetchCookies
from scrapy_robots_rfc.fetching.crawl import Crawl
from scrapy_robots_rfc.fetching.download import Downloader
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.fetching.parsed import FileReader, OriginPolicy
from scrapy_robots_rfc.fetching.pending import CUT_SHORT, PendingFetch, PendingFetches
from scrapy_robots_rfc.fetching.routes import through
from scrapy_robots_rfc.policy.access import (
    Access,
    FetchStep,
    Freshness,
    Local,
    Successful,
    Unavailable,
    Unreachable,
    backoff_delays,
    etag,
    freshness,
    last_modified,
    retry_after,
    with_retry_after,
)
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

# Seconds between two looks at a file that another worker fetches.
_MIN_LEASE_PAUSE = 0.1
_MAX_LEASE_PAUSE = 1.0

# Seconds before an attempt is repeated because the machine was short of descriptors, ports or
# memory.
_MIN_SHORTAGE_PAUSE = 0.5
_MAX_SHORTAGE_PAUSE = 15.0

#: Maximum number of failed routes that are remembered.
FAILED_ROUTES = 10_000


class Fetcher:
    """Fetches the files of a crawl, and remembers them.

    :param store: the client of a store, or `None` if files are not stored beyond the process.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        crawl: Crawl,
        files: FileReader,
        store: CacheClient | None,
    ) -> None:
        self._signals = crawler.signals
        self._settings = settings
        self._crawl = crawl
        self._files = files
        #: Makes exchanges.
        self.download: Downloader = Downloader(crawler, settings, crawl)
        self._store = store
        self._count = stats.counter(crawler)
        self._runtime = Runtime()
        #: The fetches that are under way.
        self.pending: PendingFetches = PendingFetches(
            crawler, crawl.fetch_ended, settings.timeout, self._undecided
        )
        #: The memory of the crawl.
        self.memory: MemoryCache = MemoryCache(
            settings.cache_size,
            parse=files.policy,
            evicted=partial(self._count, stats.CACHE_EVICTIONS),
        )
        #: The failures of routes.
        self.failed_routes: LocalCache[tuple[Origin, Hashable], OriginPolicy] = LocalCache(
            FAILED_ROUTES
        )

    async def get(self, fetch: PendingFetch) -> OriginPolicy:
        """Look for a copy, ask the site, conclude, notify; repeat while attempts are left."""
        pauses_for_lease = _doubling(_MIN_LEASE_PAUSE, _MAX_LEASE_PAUSE)
        pauses_in_shortage = _doubling(_MIN_SHORTAGE_PAUSE, _MAX_SHORTAGE_PAUSE)
        while True:
            robots, may_ask = await self._look(fetch)
            if robots is not None:
                return robots
            if not may_ask:  # another worker fetches the file: look again later
                if not fetch.waits_for_lease:
                    fetch.waits_for_lease = True
                    self._count(stats.CACHE_LEASE_WAITS)
                await self._sleep(fetch, next(pauses_for_lease))
                continue
            fetched = await self._ask(fetch)
            if fetched is None:  # the attempt was cut short: to the end of the line
                fetch.was_cut = True
                await self._sleep(fetch, 0.0)
                continue
            access = fetched.access
            if isinstance(access, Local) and access.shortage:  # that is not an attempt
                pause = next(pauses_in_shortage)
                await self._note_shortage(fetch, fetched, pause)
                await self._sleep(fetch, pause)
                continue
            if self._store is not None and isinstance(access, Local | Unreachable):
                robots, _ = await self._look(fetch)  # another worker may have fetched it by now
                if robots is not None:
                    return robots
            robots, access, delays = await self._conclude(fetch, fetched)
            await self._notify(fetch, robots, access)
            if not delays:
                return robots
            fetch.attempts += 1
            fetch.last = robots.validity
            await self._sleep(fetch, delays[0])

    async def _sleep(self, fetch: PendingFetch, seconds: float) -> None:
        """Let other origins be fetched, and continue after some seconds when there is room."""
        self.pending.leave(fetch)
        if seconds:
            await self._runtime.sleep(seconds)
        await self.pending.enter(fetch)

    # Look.

    async def _look(self, fetch: PendingFetch) -> tuple[OriginPolicy | None, bool]:
        """Return a fresh copy, and whether this crawl may ask the site if there is none."""
        copy = fetch.copy = self.memory.entry(fetch.origin)
        failed = self.failed_routes.get((fetch.origin, fetch.route))
        fetch.before = None if copy is None else copy.validity
        if failed is not None and (copy is None or failed.fetched >= copy.fetched):
            fetch.before = failed.validity
        fresh = copy is not None and self._runtime.clock() < copy.validity.fresh_until
        if copy is not None and fresh and _suits(copy, fetch):
            # It is large and its parsed form was dropped, or it came by another route.
            robots = self.memory.get(fetch.origin)
            robots = robots or await self._files.prepared_policy(fetch.origin, copy)
            self.memory.put(fetch.origin, robots, copy)
            return robots, False
        if self._store is None:
            return None, True
        copy, fresh, ours = await self._store.find_entry(fetch.origin, copy)
        fetch.copy = copy
        if copy is not None and fresh and _suits(copy, fetch):
            return await self._use(fetch, copy), False
        if copy is not None and ours and self._store.shared:
            # Its pace applies to the request that follows.
            self._crawl.policy_changed(await self._files.prepared_policy(fetch.origin, copy))
        return None, ours or fresh  # a fresh copy may not decide for this route

    async def _use(self, fetch: PendingFetch, copy: CacheEntry) -> OriginPolicy:
        """Use a fresh copy of the store."""
        self._count(stats.CACHE_STORE_HITS)
        robots = await self._files.prepared_policy(fetch.origin, copy)
        self._note(fetch, robots)
        self.memory.put(fetch.origin, robots, copy)
        await self._notify(fetch, robots)
        return robots

    # Ask.

    async def _ask(self, fetch: PendingFetch) -> Fetched | None:
        """Ask the site, and follow redirects. Return `None` if the attempt was cut short."""
        self._count(stats.REQUEST_COUNT)
        copy = fetch.copy
        limits = self._settings
        cookies = FetchCookies()
        state = FetchStep(
            fetch.origin.robots_url,
            scheme=limits.schemes[fetch.origin.scheme],
            cookie_for=cookies.header_for,
        )
        while True:
            known = None if copy is None else copy.validators_for(state.url)
            request = self.download.request(state.url, fetch, known)
            if state.cookie:
                request.headers[b"Cookie"] = state.cookie
            answer = await self.pending.in_time(fetch, self.download.send(request))
            is_short = request.meta["download_timeout"] < limits.timeout
            if answer is CUT_SHORT or (is_short and isinstance(answer, LATE)):
                return None
            if isinstance(answer, Exception):
                if not isinstance(answer, IgnoreRequest):
                    self._count(stats.EXCEPTION_COUNT.format(exception=type(answer)))
                return Fetched(through(access_after(answer, limits.timeout), request))
            response, body = answer
            if response is None:
                return Fetched(Unavailable(None, "not in the HTTP cache"))
            cookies.keep(response)
            access = state.after_response(
                response.status,
                response.headers.get(b"Location"),
                body,
                unreachable_statuses=limits.unreachable_statuses,
                cached=copy.body if copy is not None and known is not None else None,
            )
            if not isinstance(access, FetchStep):
                break
            state = access
        self._count(stats.RESPONSE_COUNT)
        self._count(stats.RESPONSE_STATUS_COUNT.format(status=response.status))
        if isinstance(access, Unreachable):
            wanted = retry_after(response.headers.get(b"Retry-After"), self._runtime.date())
            access = access._replace(retry_after=wanted)
            return Fetched(through(access, request) if access.route else access)
        return self._answered(response, access, state.url, known)

    def _answered(
        self, response: Response, access: Access, url: str, known: Validators | None
    ) -> Fetched:
        """Return the result of an attempt that ended with an answer about the file."""
        lines = response.headers.getlist
        fresh = freshness(lines, self._runtime.date())
        if not isinstance(access, Successful):
            return Fetched(access, fresh)
        confirmed = access.status == 304
        if len(access.body) > self._settings.max_size:
            self._count(stats.TRUNCATED)
            # This is only a part of the file: a crawl with a larger limit must not get a 304.
            return Fetched(access, fresh, None, confirmed)
        tag = etag(lines)
        modified = last_modified(lines)
        if confirmed and known is not None:  # a 304 keeps what it leaves out (RFC 9111, 3.2)
            tag = tag or known.etag
            modified = modified or known.last_modified
        validators = Validators(url, tag, modified) if tag or modified else None
        return Fetched(access, fresh, validators, confirmed)

    # Conclude.

    async def _conclude(
        self, fetch: PendingFetch, fetched: Fetched
    ) -> tuple[OriginPolicy, Access, tuple[float, ...]]:
        """Return what is known now, how the attempt ended, and the pauses before further ones."""
        access = fetched.access
        entry = self._entry_after(fetch, fetched)
        robots = await self._files.prepared_policy(fetch.origin, entry)
        if isinstance(access, Successful) and robots.file is None:
            # It cannot be parsed. Other crawls may have a parser that works.
            access = Unreachable(access.status, robots.cause, hopeless=True)
            return await self._conclude(fetch, Fetched(access, Freshness(stored=False)))
        self._count(stats.RESULT.format(outcome=access.outcome.value))
        delays = self._delays(fetch, robots, access)
        of_route = isinstance(access, Local | Unreachable) and access.route
        self._note(fetch, robots, access, delays)
        if of_route and not delays:
            self._remember_failure(fetch, robots)
        elif not delays:
            self.memory.put(fetch.origin, robots, entry)
            if not _suits(entry, fetch):
                # Otherwise its requests would start the same fetch again, for ever.
                self.failed_routes[fetch.origin, fetch.route] = robots
            if self._store is not None:
                stored = fetched.freshness.stored
                self._runtime.spawn(self._store.publish(fetch.origin, entry, stored=stored))
        return robots, access, delays

    def _entry_after(self, fetch: PendingFetch, fetched: Fetched) -> CacheEntry:
        """Return the entry that applies to the requests of a fetch after an attempt.

        A failure of their route says nothing about the site. After a failure of the site, its
        Retry-After may make the entry last longer.
        """
        access = fetched.access
        now = self._runtime.clock()
        limits = self._settings
        if isinstance(access, Local | Unreachable) and access.route:
            return entry_for_route(fetch.copy, access, now, limits)
        if isinstance(access, Unreachable):
            ttl = with_retry_after(limits.unreachable_ttl, access.retry_after)
            limits = limits._replace(unreachable_ttl=ttl)
        unreachable_since = None if fetch.last is None else fetch.last.unreachable_since
        return next_entry(fetch.copy, fetched, now, limits, unreachable_since)

    def _delays(
        self, fetch: PendingFetch, robots: OriginPolicy, access: Access
    ) -> tuple[float, ...]:
        """Return the seconds before each further attempt."""
        if not isinstance(access, Unreachable) or robots.outcome is not access.outcome:
            return ()
        # A retry may use another proxy, unless the page itself names one.
        same_proxy = access.route and fetch.route is not None
        if same_proxy or access.hopeless or self.download.http_cache.offline:
            return ()
        return backoff_delays(fetch.attempts, access.retry_after, self._settings)

    def _undecided(self, fetch: PendingFetch, error: Exception) -> OriginPolicy:
        """Return the result of a fetch that raised: nothing is known, and it is tried again."""
        advice = "report it, unless a download handler or a middleware of yours is the cause"
        local = Local(f"{__name__}: {error_text(error)}", advice, error)
        entry = entry_for_route(None, local, self._runtime.clock(), self._settings)
        robots = self._files.policy(fetch.origin, entry)
        self._note(fetch, robots, local)
        self._remember_failure(fetch, robots)
        return robots

    def _remember_failure(self, fetch: PendingFetch, robots: OriginPolicy) -> None:
        self.failed_routes[fetch.origin, fetch.route] = robots
        if self._store is not None:
            self._runtime.spawn(self._store.unlock(fetch.origin))

    async def _note_shortage(self, fetch: PendingFetch, fetched: Fetched, pause: float) -> None:
        """Log that the machine lacks something, which says nothing about the site."""
        entry = self._entry_after(fetch, fetched)
        robots = await self._files.prepared_policy(fetch.origin, entry)
        self._note(fetch, robots, fetched.access, (pause,))

    def _note(
        self,
        fetch: PendingFetch,
        robots: OriginPolicy,
        access: Access | None = None,
        delays: tuple[float, ...] = (),
    ) -> None:
        """Count what governs an origin now, and tell the log unless it is an ordinary success.

        :param access: how the attempt ended, or `None` if a copy from the store is used.
        :param delays: seconds before each further attempt.
        """
        is_route_failure = isinstance(access, Local | Unreachable) and access.route
        if not delays and not is_route_failure:
            if fetch.changes(robots.outcome):
                self._count(stats.ORIGINS.format(outcome=robots.outcome.value))
            if robots.stale and not (fetch.before is not None and fetch.before.stale):
                self._count(stats.ORIGINS_STALE)
        # Sending a signal is slow. After a route has failed, a success may end that, too.
        if self.failed_routes or not self._is_ordinary(fetch, robots):
            self._signals.send_catch_log(
                signals.robots_attempted, robots=robots, fetch=fetch, access=access, delays=delays
            )

    def _is_ordinary(self, fetch: PendingFetch, robots: OriginPolicy) -> bool:
        """Return whether the first attempt gave a whole file, and nothing failed before."""
        file = robots.file
        before = fetch.before
        if file is None or robots.stale or fetch.attempts:
            return False
        if before is not None and before.unreachable_since is not None:
            return False
        is_page = file.robots is not None and file.robots.is_page
        return not is_page and file.size <= self._settings.max_size

    # Notify.

    async def _notify(
        self, fetch: PendingFetch, robots: OriginPolicy, access: Access | None = None
    ) -> None:
        """Notify the crawl and the handlers of signals.

        Handlers are never cancelled, since one may be closing the spider, which cancels the fetch.

        :param access: how the attempt ended, or `None` if none was made.
        """
        self._crawl.policy_changed(robots)
        if not self._is_heard():  # most crawls have no handlers, and need no task for them
            return
        sent: Waiter[None] = Waiter()
        self._runtime.spawn(self._send_signals(fetch, robots, access, sent))
        timer = self._runtime.call_later(self._settings.timeout, partial(sent.resolve, None))
        try:
            await sent
        finally:
            timer.cancel()

    def _is_heard(self) -> bool:
        """Return whether anything listens to the signals of a fetch."""
        heard = partial(signals.has_receivers, self._signals)
        parsed = _scrapy.ROBOTS_PARSED
        return heard(signals.robots_fetched) or (parsed is not None and heard(parsed))

    async def _send_signals(
        self,
        fetch: PendingFetch,
        robots: OriginPolicy,
        access: Access | None,
        sent: Waiter[None],
    ) -> None:
        send = self._signals.send_catch_log_async
        parsed = _scrapy.ROBOTS_PARSED
        failed = not isinstance(access, Successful | None)
        try:
            if parsed is not None and robots.file is not None and not failed:
                await send(parsed, robotparser=robots.file.parser, request=fetch.source)
            if access is None or self.download.http_cache.offline:
                return
            await send(
                signals.robots_fetched,
                origin=robots.origin,
                result=access.outcome,
                status=access.status,
                body=access.body if isinstance(access, Successful) else None,
                error=access.cause if failed else None,
                request=fetch.source,
                robots=robots,
            )
        finally:
            sent.resolve(None)


def _suits(copy: CacheEntry, fetch: PendingFetch) -> bool:
    """Return whether a copy decides for the route of a fetch."""
    return fetch.route is None or copy.for_all_routes


def _doubling(seconds: float, longest: float) -> Iterator[float]:
    """Yield pauses, each twice as long as the one before, up to the longest."""
    while True:
        yield seconds
        seconds = min(2 * seconds, longest)
