"""RobotsService, which provides robots.txt files to the middleware and to spiders.

`RobotsService.fetch` starts a fetch, and `_get` runs it. Below `_get` are its steps, in order:
`download.py` handles each exchange, `policy/access.py` interprets the response, and
`cache/entry.py` applies the result.
"""

from functools import partial
from typing import Any, Protocol

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.misc import load_object

from scrapy_robots_rfc import _scrapy, signals, stats
from scrapy_robots_rfc._runtime import TIMEOUT_ERRORS, Runtime, Waiter, doubling
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.cache.entry import (
    CacheEntry,
    Fetched,
    Validators,
    next_entry,
    temporary_entry,
)
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.cache.stores.opening import explain_store_errors, open_store
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.cookies import FetchCookies
from scrapy_robots_rfc.fetching.download import MARK, Downloader
from scrapy_robots_rfc.fetching.faults import HELD, NO_CONNECTION, access_after
from scrapy_robots_rfc.fetching.known import FixedPolicies, KnownPolicies
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.pending import PendingFetch, PendingFetches
from scrapy_robots_rfc.fetching.reader import FileReader
from scrapy_robots_rfc.fetching.routes import Routes, sparing_site
from scrapy_robots_rfc.optional import OFFLINE, OVERRIDES
from scrapy_robots_rfc.policy.access import (
    Access,
    FetchStep,
    Freshness,
    Local,
    Outcome,
    Successful,
    Unreachable,
    backoff_delays,
    etag,
    freshness,
    last_modified,
    retry_after,
    with_retry_after,
)
from scrapy_robots_rfc.policy.origins import Origin, sitemap_urls
from scrapy_robots_rfc.settings import Settings

# The first and the longest pause between checks for a file that another worker has locked.
_LOCK_PAUSES = 0.1, 1.0
# The same before retrying after the machine ran out of file descriptors, memory or the like.
_SHORTAGE_PAUSES = 0.5, 15.0

# Maximum number of doubtful timeouts per fetch that aren't held against the site.
_MAX_DOUBTFUL = 2


class Crawl(Protocol):
    """A crawl that needs robots.txt files."""

    def default_agent(self) -> Agent:
        """Return the agent for requests that don't name one. May raise any spider error."""

    def robots_txt_answered(self, request: Request) -> None:
        """Handle a robots.txt request that was answered, or was cancelled after it was sent."""

    def policy_changed(self, policy: OriginPolicy) -> None:
        """Handle a policy that was found or fetched. It also paces later robots.txt requests."""


class RobotsService:
    """Finds and fetches a crawl's robots.txt files.

    :param crawler: its engine doesn't have to exist yet.
    :param crawl: notified about fetches.
    :raises SettingError: ROBOTSTXT_PARSER, or a local file, cannot be used.
    :raises StoreError: the ROBOTS_CACHE store cannot be used.
    """

    def __init__(self, crawler: Crawler, settings: Settings, crawl: Crawl) -> None:
        self._crawler = crawler
        self._settings = settings
        self._crawl = crawl
        self._count = stats.of(crawler).inc_value
        self._runtime = Runtime()
        self._files = FileReader(crawler, settings, crawl.default_agent)
        # Read local files first, so that no store stays open if one of them can't be read.
        fixed: list[FixedPolicies] = []
        if settings.exempt or settings.overrides:
            overrides = load_object(OVERRIDES)
            fixed.append(overrides(crawler, settings, self._files.parse, crawl.default_agent))
        #: The `OfflineReplay`, or `None` for any other crawl.
        self.offline: Any = None
        if crawler.settings.getbool("HTTPCACHE_IGNORE_MISSING"):
            self.offline = load_object(OFFLINE)(crawler, crawl.default_agent)
            fixed.append(self.offline)
        #: The store's client, or `None` if files are only kept in memory.
        self.store: CacheClient | None = self._open_store()
        #: The fetches in progress.
        self.pending: PendingFetches = PendingFetches(
            crawler, settings.timeout, self._get, self._policy_after_error
        )
        #: Finds the routes of requests.
        self.routes: Routes = Routes(crawler)
        #: Sends robots.txt requests.
        self.download: Downloader = Downloader(
            crawler, settings, self.routes, crawl.robots_txt_answered
        )
        memory = MemoryCache(
            settings.cache_size,
            parse=self._files.policy,
            evicted=partial(self._count, stats.CACHE_EVICTIONS),
        )
        #: The policies that are known.
        self.known: KnownPolicies = KnownPolicies(fixed, memory, self._runtime.clock)

    def _open_store(self) -> CacheClient | None:
        """Open the ROBOTS_CACHE store, if there is one."""
        if self.offline is not None:
            return None
        with explain_store_errors(self._settings.cache):
            opened = open_store(self._settings.cache, self._crawler)
        if opened is None:
            return None
        store, name = opened
        return CacheClient(store, name, self._settings, runtime=self._runtime, count=self._count)

    async def robots(self, url: str) -> OriginPolicy:
        """Return the policy for a URL's origin, fetching its robots.txt if it isn't cached.

        Memory and fetches are shared with the crawl. Await this in a spider callback, with any
        reactor or none. If it is cancelled, the fetch continues for other callers.

        :param url: an absolute URL with a supported scheme: http, https, ftp, gemini, or one from
            ROBOTS_SCHEMES.
        :raises ValueError: the scheme isn't supported, or there is no valid authority.
        :raises RobotsUndecided: the spider was closed first.
        """
        origin = Origin.of(url, self._settings.schemes)
        if origin is None:
            schemes = " or ".join(self._settings.schemes)
            raise ValueError(f"not an absolute URL of {schemes} with a valid authority")
        return await self.get(origin)

    def cached(self, origin: Origin) -> OriginPolicy | None:
        """Return an origin's policy if it is known and fresh, or `None`."""
        return self.known.get(origin)

    async def get(self, origin: Origin) -> OriginPolicy:
        """Return an origin's policy, fetching its robots.txt if it isn't cached.

        :raises RobotsUndecided: the spider was closed first.
        """
        policy = await self.fetch_for(origin)
        if policy is None:
            raise undecided_error(origin)
        return policy

    async def sitemaps(self, url: str) -> list[str]:
        """Return the sitemaps listed in the robots.txt for a URL, in order and without duplicates.

        They are absolute URLs with http, https or the file's own scheme. Relative ones are resolved
        against the robots.txt URL. Only the first 1,000 Sitemap records are used.

        :param url: same as for `robots`, which raises the same errors.
        """
        policy = await self.robots(url)
        return sitemap_urls(policy.sitemaps, policy.origin.robots_url, self._settings.schemes)

    def fetch(self, origin: Origin, request: Request | None = None) -> PendingFetch:
        """Start fetching an origin's robots.txt if no fresh policy is known, or join a fetch.

        Await its `result`, which is `None` if the spider is closed first.

        :param request: the request that needs the file, or `None`. A new fetch uses its route. If
            the fetch that is joined has another `route`, its failure may not be for this request.
        """
        route = self.routes.of(request)
        policy = self.known.get(origin, route)
        # Also fetch nothing if the crawl is closing.
        if policy is not None or _scrapy.is_closing(self._crawler):
            return PendingFetch(origin, route, has_ended=True, policy=policy)
        fetch = self.pending.fetches.get(origin)
        if fetch is not None:
            self._count(stats.WAITS)
            return fetch
        self._count(stats.CACHE_MISSES)
        return self.pending.begin(origin, route, request)

    async def fetch_for(
        self, origin: Origin, request: Request | None = None
    ) -> OriginPolicy | None:
        """Return an origin's policy for a request, fetching its robots.txt if it isn't known.

        The result is `None` if the spider is closed first.

        The request may join a fetch that uses another route. If that fetch fails because of its own
        route, another fetch is needed.
        """
        route = self.routes.of(request)
        while True:
            fetch = self.fetch(origin, request)
            policy = await fetch.result()
            if policy is None or fetch.route == route:
                return policy
            # Otherwise, ask again. `fetch` finds the policy now, unless only that route has failed.

    async def close(self) -> None:
        """Cancel all fetches, and close the store after waiting up to a second for its calls."""
        self.pending.cancel_all()
        if self.store is not None:
            await self.store.close()

    # A fetch, step by step. `pending.py` limits how many there are, and their duration.

    async def _get(self, fetch: PendingFetch) -> OriginPolicy:
        """Return an origin's policy from the store, or fetch the file with retries.

        If the machine has run out of a resource, the fetch keeps trying until the crawl ends.
        """
        lock_pauses = doubling(*_LOCK_PAUSES)
        shortage_pauses = doubling(*_SHORTAGE_PAUSES)
        has_waited = False
        while True:
            policy, may_request = await self._look_up(fetch)
            if policy is not None:
                return policy
            if not may_request:  # another worker is fetching the file, so check again later
                if not has_waited:
                    has_waited = True
                    self._count(stats.CACHE_LEASE_WAITS)
                await self._sleep(fetch, next(lock_pauses))
                continue
            fetched = await self._request(fetch)
            access = fetched.access
            if isinstance(access, Local) and access.shortage:
                # This isn't one of the fetch's `attempts`, and the policy doesn't change. Only the
                # signal needs one.
                pause = next(shortage_pauses)
                policy = await self._files.read(fetch.origin, self._entry_after(fetch, fetched))
                self._report_attempt(fetch, policy, access, (pause,))
                await self._sleep(fetch, pause)
                continue
            if self.store is not None and isinstance(access, Local | Unreachable):
                # Another worker may have stored it if this one has lost its lock. If not, report
                # the failure, even if another one has the lock now.
                policy, _ = await self._look_up_in_store(fetch, self.store)
                if policy is not None:
                    return policy
            policy, access, delays = await self._conclude(fetch, fetched)
            await self._announce(fetch, policy, access)
            if not delays:
                return policy
            fetch.attempts += 1
            fetch.failing_since = policy.validity.unreachable_since
            await self._sleep(fetch, delays[0])  # the other delays are only logged

    async def _sleep(self, fetch: PendingFetch, seconds: float) -> None:
        """Give the fetch's room to others while it sleeps. `run_exchange` takes room again."""
        self.pending.leave(fetch)
        await self._runtime.sleep(seconds)

    # Looking in the store.

    async def _look_up(self, fetch: PendingFetch) -> tuple[OriginPolicy | None, bool]:
        """Return the policy from the store or `None`, and whether we may request the file.

        Also set the fetch's `entry` and `validity_before`, which later steps use.
        """
        origin = fetch.origin
        fetch.entry = self.known.memory.entry(origin)
        fetch.validity_before = self.known.validity(origin, fetch.route, fetch.entry)
        if self.store is None:
            return None, True
        return await self._look_up_in_store(fetch, self.store)

    async def _look_up_in_store(
        self, fetch: PendingFetch, store: CacheClient
    ) -> tuple[OriginPolicy | None, bool]:
        """Return the same as `_look_up`. The fetch's `entry` becomes the newest one."""
        origin = fetch.origin
        lookup = await store.find_entry(origin, fetch.entry)
        entry = fetch.entry = lookup.entry
        if entry is not None and lookup.is_fresh and fetch.can_use(entry):
            self._count(stats.CACHE_STORE_HITS)
            policy = await self._files.read(origin, entry)
            self._report_attempt(fetch, policy)
            self.known.add(origin, fetch.route, policy, entry)
            await self._announce(fetch, policy)
            return policy, False
        if entry is not None and lookup.may_fetch and store.shared:
            # Until there is a new file, other workers may request pages at the old one's interval.
            # So use it for the robots.txt request, too.
            self._crawl.policy_changed(await self._files.read(origin, entry))
        # An entry that is fresh here doesn't apply to this route. So request the file, without the
        # lock, which other workers don't need as long as they have that entry.
        return None, lookup.may_fetch or lookup.is_fresh

    # Making an attempt.

    async def _request(self, fetch: PendingFetch) -> Fetched:
        """Request the file and follow redirects."""
        self._count(stats.REQUEST_COUNT)
        entry = fetch.entry
        settings = self._settings
        unreachable_statuses = settings.unreachable_statuses
        if entry is not None and entry.body is not None:
            # A 304 that we didn't ask for counts as a failure, so our copy stays in use.
            unreachable_statuses = unreachable_statuses | {304}
        cookies = FetchCookies()
        step = FetchStep(
            fetch.origin.robots_url,
            scheme=settings.schemes[fetch.origin.scheme],
            cookie_for=cookies.header_for,
            same_host_only=settings.same_host_only,
        )
        while True:
            validators = None if entry is None else entry.validators_for(step.url)
            request = self.download.request(step.url, fetch, validators)
            if step.cookie:
                request.headers[b"Cookie"] = step.cookie
            answer = await self.pending.run_exchange(fetch, self.download.send(request))
            if isinstance(answer, Exception):
                return self._without_response(fetch, answer, step, request)
            response, body = answer
            cookies.keep(response)
            next_step = step.after_response(
                response.status,
                response.headers.get(b"Location"),
                body,
                unreachable_statuses=unreachable_statuses,
                # A 304 only confirms our copy if we sent its validators.
                cached=entry.body if entry is not None and validators is not None else None,
            )
            if not isinstance(next_step, FetchStep):
                access: Access = next_step
                break
            step = next_step
        self._count(stats.RESPONSE_COUNT)
        self._count(stats.RESPONSE_STATUS_COUNT.format(status=response.status))
        if isinstance(access, Unreachable):
            if not access.refused:  # that cause is about a redirect anyway
                access = access._replace(cause=step.with_target(access.cause))
            return self._failed(response, access, request)
        fetched = self._fetched(response, access, step.url, validators)
        return fetched._replace(other_host=step.has_left_host)

    def _without_response(
        self, fetch: PendingFetch, error: Exception, step: FetchStep, request: Request
    ) -> Fetched:
        """Return the result of an attempt that ended with an exception."""
        if not isinstance(error, IgnoreRequest):  # as in Scrapy's own middleware
            self._count(stats.EXCEPTION_COUNT.format(exception=type(error)))
        access = access_after(error, self._settings.timeout)
        exchange = request.meta[MARK]
        if isinstance(error, TIMEOUT_ERRORS) and exchange.was_held:
            access = HELD
        elif isinstance(error, TIMEOUT_ERRORS) and not exchange.has_connection:
            fetch.doubtful_timeouts += 1
            if fetch.doubtful_timeouts <= _MAX_DOUBTFUL:
                access = NO_CONNECTION
        if isinstance(access, Unreachable):
            access = access._replace(cause=step.with_target(access.cause))
        return Fetched(sparing_site(access, request))

    def _failed(self, response: Response, access: Unreachable, request: Request) -> Fetched:
        """Return the result of an attempt whose response says that the file is unreachable."""
        seconds = retry_after(response.headers.get(b"Retry-After"), self._runtime.date())
        access = access._replace(retry_after=seconds)
        if access.spares_site:  # a 407, whose cause has to name the proxy
            return Fetched(sparing_site(access, request))
        # Other crawls may follow a redirect that this one refuses.
        return Fetched(access, Freshness(may_store=not access.refused))

    def _fetched(
        self, response: Response, access: Access, url: str, sent: Validators | None
    ) -> Fetched:
        """Return the result of an attempt whose response has a file, or says that there is none.

        :param sent: the validators that were sent.
        """
        values_of = response.headers.getlist
        fresh = freshness(values_of, self._runtime.date())
        if not isinstance(access, Successful):
            return Fetched(access, fresh)
        is_confirmed = access.status == 304
        if len(access.body) > self._settings.max_size:
            self._count(stats.TRUNCATED)
            # Without validators, a crawl with a larger limit gets the whole file instead of a 304.
            return Fetched(access, fresh, is_confirmed=is_confirmed)
        tag = etag(values_of)
        modified = last_modified(values_of)
        if is_confirmed and sent is not None:  # keep headers missing in the 304 (RFC 9111, 3.2)
            tag = tag or sent.etag
            modified = modified or sent.last_modified
        validators = Validators(url, tag, modified) if tag or modified else None
        return Fetched(access, fresh, validators, is_confirmed)

    # After an attempt.

    async def _conclude(
        self, fetch: PendingFetch, fetched: Fetched
    ) -> tuple[OriginPolicy, Access, tuple[float, ...]]:
        """Report an attempt, and cache and store its result unless it is followed by a retry.

        :returns: the new policy, the result of the attempt, and the delays before any retries.
        """
        access = fetched.access
        entry = self._entry_after(fetch, fetched)
        policy = await self._files.read(fetch.origin, entry)
        if isinstance(access, Successful) and policy.file is None:
            # ROBOTSTXT_PARSER failed, and would fail again in a retry (`hopeless`). Don't store
            # that, since other crawls may use another parser.
            access = Unreachable(access.status, policy.cause, hopeless=True)
            return await self._conclude(fetch, Fetched(access, Freshness(may_store=False)))
        self._count(stats.RESULT.format(outcome=access.outcome.value))
        delays = self._delays(fetch, policy, access)
        self._report_attempt(fetch, policy, access, delays)
        if delays:  # nothing is cached before the last attempt
            return policy, access, delays
        if access.spares_site:
            self._remember_failure(fetch, policy)
        else:
            self.known.add(fetch.origin, fetch.route, policy, entry)
            if self.store is not None:
                may_store = fetched.freshness.may_store
                self._runtime.spawn(self.store.publish(fetch.origin, entry, may_store=may_store))
        return policy, access, delays

    def _entry_after(self, fetch: PendingFetch, fetched: Fetched) -> CacheEntry:
        """Return the entry that applies after an attempt, for requests with the fetch's route.

        A failure of the route, or of the crawl itself, isn't held against the site. If the site
        itself fails, its Retry-After may make the entry last longer.
        """
        access = fetched.access
        now = self._runtime.clock()
        settings = self._settings
        if access.spares_site:
            return temporary_entry(fetch.entry, access, now, settings)
        if isinstance(access, Unreachable):
            ttl = with_retry_after(settings.unreachable_ttl, access.retry_after)
            settings = settings._replace(unreachable_ttl=ttl)
        # Nothing is cached before a retry, so only the fetch knows since when it has failed.
        return next_entry(fetch.entry, fetched, now, settings, fetch.failing_since)

    def _delays(
        self, fetch: PendingFetch, policy: OriginPolicy, access: Access
    ) -> tuple[float, ...]:
        """Return the seconds to wait before each retry."""
        # Pages don't wait for retries if a stale copy is used, or if everything is allowed after a
        # very long outage.
        if not isinstance(access, Unreachable) or policy.outcome is not Outcome.UNREACHABLE:
            return ()
        # If the page names a proxy or account, a retry uses the same one, which has just failed.
        # Otherwise, the proxy was picked by a middleware, which may pick another one.
        uses_failed_route = access.spares_site and fetch.route is not None
        if uses_failed_route or access.hopeless:
            return ()
        return backoff_delays(fetch.attempts, access.retry_after, self._settings)

    def _policy_after_error(self, fetch: PendingFetch, error: Exception) -> OriginPolicy:
        """Return the policy after a fetch raised an exception.

        Nothing is allowed for now, not even by an older file, because reading it may have failed.
        """
        advice = "report it, unless a download handler or a middleware of yours is the cause"
        local = Local(error_text(error), advice, error)
        entry = temporary_entry(None, local, self._runtime.clock(), self._settings)
        policy = self._files.policy(fetch.origin, entry)
        self._report_attempt(fetch, policy, local)
        self._remember_failure(fetch, policy)
        return policy

    def _remember_failure(self, fetch: PendingFetch, policy: OriginPolicy) -> None:
        """Remember a failure that isn't held against the site, and let other workers try."""
        self.known.add_failure(fetch.origin, fetch.route, policy)
        if self.store is not None:
            self._runtime.spawn(self.store.unlock(fetch.origin))

    def _report_attempt(
        self,
        fetch: PendingFetch,
        policy: OriginPolicy,
        access: Access | None = None,
        delays: tuple[float, ...] = (),
    ) -> None:
        """Send a signal about an attempt. If it was the last one, count the origin's policy.

        Failures that aren't held against the site aren't counted.

        :param access: the result of the attempt, or `None` if the policy is from the store.
        :param delays: seconds to wait before each retry.
        """
        if not delays and (access is None or not access.spares_site):
            before = fetch.validity_before
            if fetch.changes(policy.outcome):
                self._count(stats.ORIGINS.format(outcome=policy.outcome.value))
            if policy.stale and (before is None or not before.stale):
                self._count(stats.ORIGINS_STALE)
        signals.send(
            self._crawler.signals,
            signals.robots_attempted,
            policy=policy,
            fetch=fetch,
            access=access,
            delays=delays,
        )

    # Notifying the crawl.

    async def _announce(
        self, fetch: PendingFetch, policy: OriginPolicy, access: Access | None = None
    ) -> None:
        """Notify the crawl, then wait up to ROBOTS_TIMEOUT for the signal handlers.

        The handlers run in their own task. If one of them closes the spider, this fetch is
        cancelled, but the handler must not be cancelled along with it.

        :param access: the result of the attempt, or `None` if none was made.
        """
        self._crawl.policy_changed(policy)
        if not self._has_handlers():  # most crawls don't have any, so avoid the task
            return
        self.pending.leave(fetch)  # because this may last long, and sends nothing
        sent: Waiter[None] = Waiter()
        self._runtime.spawn(self._send_signals(fetch, policy, access, sent))
        timer = self._runtime.call_later(self._settings.timeout, partial(sent.resolve, None))
        try:
            await sent
        finally:
            timer.cancel()

    def _has_handlers(self) -> bool:
        """Return whether any handlers are connected to the signals sent for a fetch."""
        has_handlers = partial(signals.has_receivers, self._crawler.signals)
        parsed = _scrapy.ROBOTS_PARSED
        return has_handlers(signals.robots_fetched) or (parsed is not None and has_handlers(parsed))

    async def _send_signals(
        self, fetch: PendingFetch, policy: OriginPolicy, access: Access | None, sent: Waiter[None]
    ) -> None:
        """Send Scrapy's signals and ours, then resolve `sent`."""
        send = self._crawler.signals.send_catch_log_async
        parsed = _scrapy.ROBOTS_PARSED
        is_successful = isinstance(access, Successful)
        is_older_copy = access is not None and not is_successful
        try:
            if parsed is not None and policy.file is not None and not is_older_copy:
                await send(parsed, robotparser=policy.file.parser, request=fetch.page)
            if access is None:  # nothing was fetched
                return
            await send(
                signals.robots_fetched,
                origin=policy.origin,
                result=access.outcome,
                status=access.status,
                body=access.body if isinstance(access, Successful) else None,
                error=None if is_successful else access.cause,
                request=fetch.page,
                policy=policy,
            )
        finally:
            sent.resolve(None)


def undecided_error(origin: Origin) -> RobotsUndecided:
    """Return the error for a request that is still undecided when the crawl ends."""
    return RobotsUndecided(f"the spider closed before {origin.robots_url} was known")
