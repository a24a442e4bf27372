"""RobotsService, which provides robots.txt files to the middleware and to spiders."""

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_robots_rfc import _scrapy, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.cache.stores.opening import explain_store_errors, open_store
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.crawl import Crawl
from scrapy_robots_rfc.fetching.download import Downloader
from scrapy_robots_rfc.fetching.fetch import Fetcher
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.pending import PendingFetch, PendingFetches
from scrapy_robots_rfc.fetching.reader import FileReader
from scrapy_robots_rfc.fetching.routes import Routes
from scrapy_robots_rfc.fetching.sources import OfflineReplay, Source
from scrapy_robots_rfc.leaves import SOURCES, load_needed
from scrapy_robots_rfc.policy.origins import Origin, sitemap_urls
from scrapy_robots_rfc.settings import Settings


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
        self._count = stats.counter(crawler)
        self._runtime = Runtime()
        #: Parses files.
        self.files: FileReader = FileReader(crawler, settings, crawl.default_agent)
        # Read local files before opening a store, which would stay open if one can't be read.
        self._sources: list[Source] = [
            source(crawler, settings, self.files.parse, crawl.default_agent)
            for source in load_needed(SOURCES, settings)
        ]
        #: `None` unless this is an offline replay.
        self.offline: OfflineReplay | None = None
        if crawler.settings.getbool("HTTPCACHE_IGNORE_MISSING"):
            self.offline = OfflineReplay(crawler, crawl.default_agent)
            self._sources.append(self.offline)
        #: The store's client, or `None` if files are only kept in memory.
        self.store: CacheClient | None = self._open_store()
        self._fetcher = Fetcher(crawler, settings, crawl, self.files, self.store)
        #: The fetches in progress.
        self.pending: PendingFetches = self._fetcher.pending
        #: Sends robots.txt requests.
        self.download: Downloader = self._fetcher.download
        #: Finds the routes of requests.
        self.routes: Routes = self.download.routes
        #: The cached files of this crawl.
        self.memory: MemoryCache = self._fetcher.memory

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

    async def get(self, origin: Origin) -> OriginPolicy:
        """Return an origin's policy, fetching its robots.txt if it isn't cached.

        :raises RobotsUndecided: the spider was closed first.
        """
        robots = self.cached(origin) or await self.fetch(origin).result()
        if robots is None:
            raise undecided_error(origin)
        return robots

    async def sitemaps(self, url: str) -> list[str]:
        """Return the sitemaps listed in the robots.txt for a URL, in order and without duplicates.

        They are absolute URLs with http, https or the file's own scheme. Relative ones are resolved
        against the robots.txt URL. Only the first 1,000 Sitemap records are used.

        :param url: same as for `robots`, which raises the same errors.
        """
        robots = await self.robots(url)
        return sitemap_urls(robots.sitemaps, robots.origin.robots_url, self._settings.schemes)

    def cached(self, origin: Origin) -> OriginPolicy | None:
        """Return an origin's policy if its robots.txt is in memory and fresh, or `None`."""
        robots = self.known(origin)
        if robots is None or self._runtime.clock() >= robots.validity.fresh_until:
            return None
        return robots

    def known(
        self,
        origin: Origin,
        request: Request | None = None,
        *,
        stale_for: float = 0.0,
        counted: bool = True,
    ) -> OriginPolicy | None:
        """Return an origin's policy, or `None` if its robots.txt has to be fetched first.

        A file is known while it is fresh, and for `Crawl.known_for` seconds after its fetch.

        :param request: the request to judge, because its route may have failed.
        :param stale_for: accept a file that was known this many seconds ago.
        :param counted: whether to count this lookup in the stats.
        """
        if self._sources:  # most crawls have none
            user_policy = self.user_policy_of(origin)
            if user_policy is not None:
                return user_policy
        time = self._runtime.clock() - stale_for
        robots: OriginPolicy | None = self.memory.get(origin)
        # While a policy for all routes is known, the request's route doesn't matter.
        if robots is None or not robots.for_all_routes or self._is_expired(robots, time):
            robots = self._policy_by_route(origin, robots, request)
            if robots is None or self._is_expired(robots, time):
                return None
        if counted:
            self._count(stats.CACHE_HITS)
        return robots

    def is_known(self, origin: Origin) -> bool:
        """Return whether any request for an origin can be judged without a fetch."""
        robots = self.known(origin, counted=False)
        return robots is not None and (robots.for_all_routes or not self.routes.are_used)

    def _is_expired(self, robots: OriginPolicy, time: float) -> bool:
        """Return whether a policy isn't known anymore at the given time (see `known`)."""
        if time < robots.validity.fresh_until:
            return False
        return time >= robots.fetched + self._crawl.known_for(robots.origin)

    def _policy_by_route(
        self, origin: Origin, robots: OriginPolicy | None, request: Request | None
    ) -> OriginPolicy | None:
        """Return an origin's policy, or the failure of a request's route if that is newer.

        A file is the same for all routes, but a failure only applies to the route that failed.

        :param robots: the origin's policy in memory, or `None` if there is none.
        :returns: `None` if robots.txt has to be fetched using this route.
        """
        route = self.routes.of(request)
        failure = self._fetcher.failed_routes.get((origin, route))
        # A policy in memory that isn't for all routes is a failure of requests without a route. A
        # proxy may still get an answer.
        if robots is None or (route is not None and not robots.for_all_routes):
            return failure
        if failure is not None and failure.fetched >= robots.fetched:
            return failure
        return robots

    def user_policy_of(self, origin: Origin) -> OriginPolicy | None:
        """Return an origin's policy if no fetch is needed, as with ROBOTS_EXEMPT, or `None`."""
        for source in self._sources:
            robots = source.robots(origin)
            if robots is not None:
                return robots
        return None

    def fetch(self, origin: Origin, request: Request | None = None) -> PendingFetch:
        """Start fetching an origin's robots.txt, or join a fetch in progress.

        Await its `result`, which is `None` if the spider is closed first.

        :param request: the request that needs the file. Its route is used. May be `None`.
        """
        user_policy = self.user_policy_of(origin)
        # Fetch nothing if the user has set a policy, or if the crawl is closing.
        if user_policy is not None or _scrapy.is_closing(self._crawler):
            return PendingFetch(origin, has_ended=True, policy=user_policy)
        fetch = self.pending.get(origin)
        if fetch is not None:
            self._count(stats.WAITS)
            return fetch
        self._count(stats.CACHE_MISSES)
        return self.pending.begin(origin, self.routes.of(request), self._fetcher.get, request)

    async def fetch_for(self, origin: Origin, request: Request) -> OriginPolicy | None:
        """Fetch an origin's robots.txt for a request, or return `None` if the spider is closed.

        The request may join a fetch that uses another route. If that fetch fails because of its own
        route, another fetch is needed.
        """
        route = self.routes.of(request)
        while True:
            fetch = self.fetch(origin, request)
            robots = await fetch.result()
            if robots is None or fetch.route == route:
                return robots
            is_route_failure = robots is self._fetcher.failed_routes.get((origin, fetch.route))
            is_direct_failure = not robots.for_all_routes  # it got no answer without a proxy
            if not is_route_failure and not is_direct_failure:
                return robots

    def tick(self) -> None:
        """Interrupt attempts that take too long, or all of them when the crawl ends."""
        self.pending.tick()

    async def close(self) -> None:
        """Cancel all fetches, and close the store after waiting up to a second for its calls."""
        self.pending.cancel_all()
        if self.store is not None:
            await self.store.close()


def undecided_error(origin: Origin) -> RobotsUndecided:
    """Return the error for a request that is still undecided when the crawl ends."""
    return RobotsUndecided(f"the spider closed before {origin.robots_url} was known")
