"""Fetch robots.txt files. `Fetcher.get` runs a fetch, and its steps follow it in order.

`pending.py` limits the number of concurrent fetches and their duration. `download.py` handles each
exchange, `policy/access.py` interprets the response, and `cache/entry.py` applies the result.
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
from scrapy_robots_rfc.fetching.routes import with_route
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

# Minimum seconds between checks for a file that another worker is fetching.
_MIN_LEASE_PAUSE = 0.1
_MAX_LEASE_PAUSE = 1.0

# Minimum seconds before retrying after the machine ran out of file descriptors, ports or memory.
_MIN_SHORTAGE_PAUSE = 0.5
_MAX_SHORTAGE_PAUSE = 15.0

#: Maximum number of failed routes to remember.
FAILED_ROUTES = 10_000


class Fetcher:
    """Fetches the files for a crawl, and caches them.

    :param store: the store's client, or `None` if files are only kept in memory.
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
        #: Sends robots.txt requests.
        self.download: Downloader = Downloader(crawler, settings, crawl)
        self._store = store
        self._count = stats.counter(crawler)
        self._runtime = Runtime()
        #: The fetches in progress.
        self.pending: PendingFetches = PendingFetches(
            crawler, crawl.fetch_ended, settings.timeout, self._policy_after_error
        )
        #: The crawl's memory cache.
        self.memory: MemoryCache = MemoryCache(
            settings.cache_size,
            parse=files.policy,
            evicted=partial(self._count, stats.CACHE_EVICTIONS),
        )
        #: Policies after route failures.
        self.failed_routes: LocalCache[tuple[Origin, Hashable], OriginPolicy] = LocalCache(
            FAILED_ROUTES
        )

    async def get(self, fetch: PendingFetch) -> OriginPolicy:
        """Return an origin's policy from a fresh copy, or fetch the file with retries."""
        lease_pauses = _doubling(_MIN_LEASE_PAUSE, _MAX_LEASE_PAUSE)
        shortage_pauses = _doubling(_MIN_SHORTAGE_PAUSE, _MAX_SHORTAGE_PAUSE)
        while True:
            robots, may_request = await self._find_copy(fetch)
            if robots is not None:
                return robots
            if not may_request:  # another worker is fetching the file, so check again later
                if not fetch.waits_for_lease:
                    fetch.waits_for_lease = True
                    self._count(stats.CACHE_LEASE_WAITS)
                await self._sleep(fetch, next(lease_pauses))
                continue
            fetched = await self._request(fetch)
            if fetched is None:  # the attempt was interrupted
                fetch.was_cut = True
                await self._sleep(fetch, 0.0)
                continue
            access = fetched.access
            if isinstance(access, Local) and access.shortage:  # this does not count as an attempt
                pause = next(shortage_pauses)
                await self._note_shortage(fetch, fetched, pause)
                await self._sleep(fetch, pause)
                continue
            if self._store is not None and isinstance(access, Local | Unreachable):
                robots, _ = await self._find_copy(fetch)  # another worker may have stored it
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
        """Sleep so that another fetch can start, then wait until there is room again."""
        self.pending.leave(fetch)
        if seconds:
            await self._runtime.sleep(seconds)
        await self.pending.enter(fetch)

    # Looking for a copy.

    async def _find_copy(self, fetch: PendingFetch) -> tuple[OriginPolicy | None, bool]:
        """Return the policy from a fresh copy or `None`, and whether we may request the file."""
        copy = fetch.copy = self.memory.entry(fetch.origin)
        failure = self.failed_routes.get((fetch.origin, fetch.route))
        fetch.before = None if copy is None else copy.validity
        if failure is not None and (copy is None or failure.fetched >= copy.fetched):
            fetch.before = failure.validity
        is_fresh = copy is not None and self._runtime.clock() < copy.validity.fresh_until
        if copy is not None and is_fresh and _applies(copy, fetch):
            # It was fetched by another route, or its parsed form was dropped because it is large.
            robots = self.memory.get(fetch.origin)
            robots = robots or await self._files.prepared_policy(fetch.origin, copy)
            self.memory.put(fetch.origin, robots, copy)
            return robots, False
        if self._store is None:
            return None, True
        lookup = await self._store.find_entry(fetch.origin, copy)
        copy = fetch.copy = lookup.entry
        if copy is not None and lookup.is_fresh and _applies(copy, fetch):
            self._count(stats.CACHE_STORE_HITS)
            robots = await self._files.prepared_policy(fetch.origin, copy)
            self._report(fetch, robots)
            self.memory.put(fetch.origin, robots, copy)
            await self._notify(fetch, robots)
            return robots, False
        if copy is not None and lookup.may_fetch and self._store.shared:
            # Its pace applies to the next request.
            self._crawl.policy_changed(await self._files.prepared_policy(fetch.origin, copy))
        return None, lookup.may_fetch or lookup.is_fresh  # a fresh copy may not apply to this route

    # Making an attempt.

    async def _request(self, fetch: PendingFetch) -> Fetched | None:
        """Request the file and follow redirects. Return `None` if the attempt was interrupted."""
        self._count(stats.REQUEST_COUNT)
        copy = fetch.copy
        limits = self._settings
        cookies = FetchCookies()
        step = FetchStep(
            fetch.origin.robots_url,
            scheme=limits.schemes[fetch.origin.scheme],
            cookie_for=cookies.header_for,
        )
        while True:
            validators = None if copy is None else copy.validators_for(step.url)
            request = self.download.request(step.url, fetch, validators)
            if step.cookie:
                request.headers[b"Cookie"] = step.cookie
            answer = await self.pending.run_exchange(fetch, self.download.send(request))
            has_short_timeout = request.meta["download_timeout"] < limits.timeout
            if answer is CUT_SHORT or (has_short_timeout and isinstance(answer, LATE)):
                return None
            if isinstance(answer, Exception):
                if not isinstance(answer, IgnoreRequest):
                    self._count(stats.EXCEPTION_COUNT.format(exception=type(answer)))
                return Fetched(with_route(access_after(answer, limits.timeout), request))
            response, body = answer
            if response is None:
                return Fetched(Unavailable(None, "not in the HTTP cache"))
            cookies.keep(response)
            access = step.after_response(
                response.status,
                response.headers.get(b"Location"),
                body,
                unreachable_statuses=limits.unreachable_statuses,
                cached=copy.body if copy is not None and validators is not None else None,
            )
            if not isinstance(access, FetchStep):
                break
            step = access
        self._count(stats.RESPONSE_COUNT)
        self._count(stats.RESPONSE_STATUS_COUNT.format(status=response.status))
        if isinstance(access, Unreachable):
            seconds = retry_after(response.headers.get(b"Retry-After"), self._runtime.date())
            access = access._replace(retry_after=seconds)
            return Fetched(with_route(access, request) if access.route else access)
        return self._fetched(response, access, step.url, validators)

    def _fetched(
        self, response: Response, access: Access, url: str, sent: Validators | None
    ) -> Fetched:
        """Return the result of an attempt that got a file, or a response that there is none.

        :param sent: the validators that were sent.
        """
        lines = response.headers.getlist
        fresh = freshness(lines, self._runtime.date())
        if not isinstance(access, Successful):
            return Fetched(access, fresh)
        is_confirmed = access.status == 304
        if len(access.body) > self._settings.max_size:
            self._count(stats.TRUNCATED)
            # The file was truncated. A crawl with a larger limit must not get a 304.
            return Fetched(access, fresh, None, is_confirmed)
        tag = etag(lines)
        modified = last_modified(lines)
        if is_confirmed and sent is not None:  # keep headers missing in the 304 (RFC 9111, 3.2)
            tag = tag or sent.etag
            modified = modified or sent.last_modified
        validators = Validators(url, tag, modified) if tag or modified else None
        return Fetched(access, fresh, validators, is_confirmed)

    # After an attempt.

    async def _conclude(
        self, fetch: PendingFetch, fetched: Fetched
    ) -> tuple[OriginPolicy, Access, tuple[float, ...]]:
        """Return the new policy, the result of the attempt, and the delays before any retries."""
        access = fetched.access
        entry = self._entry_after(fetch, fetched)
        robots = await self._files.prepared_policy(fetch.origin, entry)
        if isinstance(access, Successful) and robots.file is None:
            # It can't be parsed. Other crawls may be using a parser that works.
            access = Unreachable(access.status, robots.cause, hopeless=True)
            return await self._conclude(fetch, Fetched(access, Freshness(stored=False)))
        self._count(stats.RESULT.format(outcome=access.outcome.value))
        delays = self._delays(fetch, robots, access)
        self._report(fetch, robots, access, delays)
        if delays:
            return robots, access, delays
        if _is_route_failure(access):
            self._remember_failure(fetch, robots)
            return robots, access, delays
        self.memory.put(fetch.origin, robots, entry)
        if not _applies(entry, fetch):
            # Otherwise its requests would keep starting the same fetch again.
            self.failed_routes[fetch.origin, fetch.route] = robots
        if self._store is not None:
            stored = fetched.freshness.stored
            self._runtime.spawn(self._store.publish(fetch.origin, entry, stored=stored))
        return robots, access, delays

    def _entry_after(self, fetch: PendingFetch, fetched: Fetched) -> CacheEntry:
        """Return the entry that applies after an attempt to the requests that need the fetch.

        A route failure isn't held against the site. If the site itself fails, its Retry-After may
        make the entry last longer.
        """
        access = fetched.access
        now = self._runtime.clock()
        limits = self._settings
        if isinstance(access, Local | Unreachable) and _is_route_failure(access):
            return entry_for_route(fetch.copy, access, now, limits)
        if isinstance(access, Unreachable):
            ttl = with_retry_after(limits.unreachable_ttl, access.retry_after)
            limits = limits._replace(unreachable_ttl=ttl)
        unreachable_since = None if fetch.last is None else fetch.last.unreachable_since
        return next_entry(fetch.copy, fetched, now, limits, unreachable_since)

    def _delays(
        self, fetch: PendingFetch, robots: OriginPolicy, access: Access
    ) -> tuple[float, ...]:
        """Return the seconds to wait before each retry."""
        if not isinstance(access, Unreachable) or robots.outcome is not access.outcome:
            return ()
        # A retry may use another proxy, unless the page itself names one.
        same_proxy = access.route and fetch.route is not None
        if same_proxy or access.hopeless or self.download.http_cache.offline:
            return ()
        return backoff_delays(fetch.attempts, access.retry_after, self._settings)

    def _policy_after_error(self, fetch: PendingFetch, error: Exception) -> OriginPolicy:
        """Return the policy after a fetch raised an exception. Nothing is allowed for now."""
        advice = "report it, unless a download handler or a middleware of yours is the cause"
        local = Local(f"{__name__}: {error_text(error)}", advice, error)
        entry = entry_for_route(None, local, self._runtime.clock(), self._settings)
        robots = self._files.policy(fetch.origin, entry)
        self._report(fetch, robots, local)
        self._remember_failure(fetch, robots)
        return robots

    def _remember_failure(self, fetch: PendingFetch, robots: OriginPolicy) -> None:
        """Remember a route failure, and let other workers fetch the file."""
        self.failed_routes[fetch.origin, fetch.route] = robots
        if self._store is not None:
            self._runtime.spawn(self._store.unlock(fetch.origin))

    async def _note_shortage(self, fetch: PendingFetch, fetched: Fetched, pause: float) -> None:
        """Report that the machine has run out of a resource, which isn't the site's fault."""
        entry = self._entry_after(fetch, fetched)
        robots = await self._files.prepared_policy(fetch.origin, entry)
        self._report(fetch, robots, fetched.access, (pause,))

    def _report(
        self,
        fetch: PendingFetch,
        robots: OriginPolicy,
        access: Access | None = None,
        delays: tuple[float, ...] = (),
    ) -> None:
        """Count an origin's policy, and send a signal so that anything unusual is logged.

        :param access: the result of the attempt, or `None` if a copy from the store is used.
        :param delays: seconds to wait before each retry.
        """
        if not delays and not _is_route_failure(access):
            if fetch.changes(robots.outcome):
                self._count(stats.ORIGINS.format(outcome=robots.outcome.value))
            if robots.stale and not (fetch.before is not None and fetch.before.stale):
                self._count(stats.ORIGINS_STALE)
        # Sending signals is slow. After any route failure, always send one, because a success may
        # mean that the route works again.
        if self.failed_routes or not self._is_ordinary(fetch, robots):
            self._signals.send_catch_log(
                signals.robots_attempted, robots=robots, fetch=fetch, access=access, delays=delays
            )

    def _is_ordinary(self, fetch: PendingFetch, robots: OriginPolicy) -> bool:
        """Return whether nothing about a fetch has to be logged, so that no signal is needed.

        That is the case if the first attempt got a complete file that is not a web page, and the
        origin had not been unreachable before.
        """
        file = robots.file
        before = fetch.before
        if file is None or robots.stale or fetch.attempts:
            return False
        if before is not None and before.unreachable_since is not None:
            return False
        is_page = file.robots is not None and file.robots.is_page
        return not is_page and file.size <= self._settings.max_size

    # Notifying the crawl.

    async def _notify(
        self, fetch: PendingFetch, robots: OriginPolicy, access: Access | None = None
    ) -> None:
        """Notify the crawl and the signal handlers.

        Handlers are never cancelled, since one may be closing the spider, which cancels the fetch.

        :param access: the result of the attempt, or `None` if none was made.
        """
        self._crawl.policy_changed(robots)
        if not self._is_heard():  # most crawls don't have handlers, so avoid the task
            return
        sent: Waiter[None] = Waiter()
        self._runtime.spawn(self._send_signals(fetch, robots, access, sent))
        timer = self._runtime.call_later(self._settings.timeout, partial(sent.resolve, None))
        try:
            await sent
        finally:
            timer.cancel()

    def _is_heard(self) -> bool:
        """Return whether any handlers are connected to the signals sent for a fetch."""
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
        """Send Scrapy's signals and ours, then resolve `sent`."""
        send = self._signals.send_catch_log_async
        parsed = _scrapy.ROBOTS_PARSED
        has_failed = not isinstance(access, Successful | None)
        try:
            if parsed is not None and robots.file is not None and not has_failed:
                await send(parsed, robotparser=robots.file.parser, request=fetch.source)
            if access is None or self.download.http_cache.offline:
                return
            await send(
                signals.robots_fetched,
                origin=robots.origin,
                result=access.outcome,
                status=access.status,
                body=access.body if isinstance(access, Successful) else None,
                error=access.cause if has_failed else None,
                request=fetch.source,
                robots=robots,
            )
        finally:
            sent.resolve(None)


def _is_route_failure(access: Access | None) -> bool:
    """Return whether an attempt failed because of its route."""
    return isinstance(access, Local | Unreachable) and access.route


def _applies(copy: CacheEntry, fetch: PendingFetch) -> bool:
    """Return whether a copy applies to a fetch's route."""
    return fetch.route is None or copy.for_all_routes


def _doubling(seconds: float, longest: float) -> Iterator[float]:
    """Yield delays, doubling each time up to a maximum."""
    while True:
        yield seconds
        seconds = min(2 * seconds, longest)
