"""RobotsService: the questions that the middleware and spiders ask about robots.txt files.

See `fetch.py` for how a file is fetched.
"""

from collections.abc import Callable, Hashable

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_robots_rfc import _scrapy, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.cache.stores.opening import explain_store_errors, open_store
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.crawl import Crawl
from scrapy_robots_rfc.fetching.download import Downloader
from scrapy_robots_rfc.fetching.fetch import Fetcher
from scrapy_robots_rfc.fetching.parsed import FileReader, OriginPolicy, ParsedRobots
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.fetching.sources import HttpCache, Source
from scrapy_robots_rfc.leaves import SOURCES, load_needed
from scrapy_robots_rfc.policy.origins import Origin, sitemap_urls
from scrapy_robots_rfc.settings import Settings

# Maximum number of Sitemap records of a file. A thousand real files have 130 at most; a file of
# 512,000 bytes (RFC 9309, 2.5) can have 40,000.
_MAX_SITEMAPS = 1_000


class RobotsService:
    """The robots.txt files of a crawl.

    :param crawler: the crawl, which may not have an engine yet.
    :param crawl: called back about fetches.
    :raises SettingError: ROBOTSTXT_PARSER, or a local file, cannot be used.
    :raises StoreError: the store of ROBOTS_CACHE cannot work.
    """

    def __init__(self, crawler: Crawler, settings: Settings, crawl: Crawl) -> None:
        self._crawler = crawler
        self._settings = settings
        self._count = stats.counter(crawler)
        self._runtime = Runtime()
        self._files = FileReader(crawler, settings, crawl.agent)
        # Local files are read before a store is opened.
        self._sources: list[Source] = [
            source(crawler, settings, self._files.parse, crawl.agent)
            for source in load_needed(SOURCES, settings)
        ]
        #: The client of the store, or `None` if nothing is stored beyond the process.
        self.store: CacheClient | None = self._open_store()
        self._fetcher = Fetcher(crawler, settings, crawl, self._files, self.store)
        #: Makes exchanges, and finds the routes of requests.
        self.download: Downloader = self._fetcher.download
        #: Scrapy's HTTP cache.
        self.cache: HttpCache = self.download.cache
        #: What the crawl remembers.
        self.memory: MemoryCache = self._fetcher.memory

    def _open_store(self) -> CacheClient | None:
        # Offline the HTTP cache may have old files, which no other crawl may get.
        if self._crawler.settings.getbool("HTTPCACHE_IGNORE_MISSING"):
            return None
        with explain_store_errors(self._settings.cache):
            found = open_store(self._settings.cache, self._crawler)
        if found is None:
            return None
        return CacheClient(*found, self._settings, runtime=self._runtime, count=self._count)

    async def robots(self, url: str) -> OriginPolicy:
        """Return what is known of the robots.txt of a URL; fetch it if it is not cached.

        It shares memory and fetches with the crawl. Await it in a spider's callback, under any
        reactor or none. If it is cancelled, the fetch continues for others.

        :param url: absolute, of a scheme that is obeyed: http, https, ftp, gemini, or one from
            ROBOTS_SCHEMES.
        :raises ValueError: another scheme, or no valid authority.
        :raises RobotsUndecided: the spider was closed first.
        """
        origin = Origin.of(url, self._settings.schemes)
        if origin is None:
            schemes = " or ".join(self._settings.schemes)
            raise ValueError(f"not an absolute URL of {schemes} with a valid authority")
        return await self.get(origin)

    async def get(self, origin: Origin) -> OriginPolicy:
        """Return what is known of an origin's robots.txt; fetch it if it is not cached.

        :raises RobotsUndecided: the spider was closed first.
        """
        robots = self.cached(origin) or await self.fetch(origin).result()
        if robots is None:
            raise undecided(origin)
        return robots

    async def sitemaps(self, url: str) -> list[str]:
        """Return the sitemaps that the robots.txt of a URL names, in its order and each once.

        They are absolute URLs of http, https or the file's own scheme; relative ones are read
        against the URL of the robots.txt. Of more than 1,000 Sitemap records the first 1,000 count.

        :param url: as for `robots`, which has the same errors.
        """
        robots = await self.robots(url)
        return sitemap_urls(robots.sitemaps[:_MAX_SITEMAPS], robots.origin.robots_url)

    def cached(
        self,
        origin: Origin,
        request: Request | None = None,
        *,
        keep: tuple[float, float] = (0.0, 0.0),
        counted: bool = True,
    ) -> OriginPolicy | None:
        """Return what is known of an origin, or `None` if its robots.txt has to be fetched.

        :param request: the request to judge; its route may have failed.
        :param keep: how long a stale file counts, in seconds: since its fetch, and beyond that.
        :param counted: whether this look-up is counted in the stats.
        """
        if self._sources and (exception := self.exception_of(origin)) is not None:
            return exception
        robots: OriginPolicy | None = self.memory.get(origin)
        known_for, late = keep
        now = self._runtime.clock() - late
        if robots is None or not robots.for_all_routes or now >= _known_until(robots, known_for):
            route = self.download.routes.of(request)
            if robots is not None and route is not None and not robots.for_all_routes:
                robots = None
            # A failure of this route counts, unless another route led to the site later.
            failed = self._fetcher.failed.get((origin, route))
            if robots is None or (failed is not None and failed.fetched >= robots.fetched):
                robots = failed
            if robots is None or now >= _known_until(robots, known_for):
                return None
        if counted:
            self._count(stats.CACHE_HITS)
        return robots

    def is_known(self, origin: Origin, request: Request | None, known_for: float) -> bool:
        """Whether a request of an origin can be judged without a fetch.

        :param request: the request, or `None` for any request, whatever its route.
        :param known_for: seconds for which a file counts as known after its fetch.
        """
        if request is not None or not self.download.routes.are_used:
            return self.cached(origin, request, keep=(known_for, 0.0), counted=False) is not None
        if self._sources and self.exception_of(origin) is not None:
            return True
        robots: OriginPolicy | None = self.memory.get(origin)
        if robots is None or not robots.for_all_routes:
            return False
        return self._runtime.clock() < _known_until(robots, known_for)

    def exception_of(self, origin: Origin) -> OriginPolicy | None:
        """Return what governs an origin if the user made an exception of it; else ``None``."""
        found = (source.robots(origin) for source in self._sources)
        return next((robots for robots in found if robots is not None), None)

    def fetching(self, origin: Origin) -> PendingFetch | None:
        """Return the fetch of an origin that is under way, or `None`."""
        return self._fetcher.pending.of(origin)

    def route_of(self, request: Request) -> Hashable:
        """Return the route of a request."""
        return self.download.routes.of(request)

    def has_room(self) -> bool:
        """Whether fewer than MAX_FETCHES fetches are under way."""
        return self._fetcher.pending.has_room()

    def join_line(self, start: Callable[[], object]) -> None:
        """Call a function when there is room for another fetch."""
        self._fetcher.pending.join_line(start)

    def fetch(self, origin: Origin, request: Request | None = None) -> PendingFetch:
        """Start, or join, the fetch of an origin's robots.txt.

        Wait for its `result`, which is `None` if the spider is closed first.

        :param request: the request that the file is fetched for, by whose route; or `None`.
        """
        exception = self.exception_of(origin)
        if exception is not None or _scrapy.is_closing(self._crawler):
            return PendingFetch(origin, is_over=True, value=exception)
        fetches = self._fetcher.pending
        pending = fetches.of(origin)
        if pending is not None:
            self._count(stats.WAITS)
            return pending
        self._count(stats.CACHE_MISSES)
        route = self.download.routes.of(request)
        return fetches.begin(origin, route, self._fetcher.get, request)

    async def fetched_for(self, origin: Origin, request: Request) -> OriginPolicy | None:
        """Fetch an origin's robots.txt for a request, or return `None` if the spider is closed."""
        route = self.download.routes.of(request)
        while True:
            fetch = self.fetch(origin, request)
            robots = await fetch.result()
            if robots is None or fetch.route == route:
                return robots
            # A failure of another route says nothing about this request.
            if robots.for_all_routes and robots is not self._fetcher.failed.get(
                (origin, fetch.route)
            ):
                return robots

    async def read_for(self, file: ParsedRobots, agent: Agent) -> None:
        """Read a large file on a thread for one more agent, unless the crawl ends first."""
        await self._files.read_for(file, agent)

    def tick(self) -> None:
        """Interrupt what takes too long, and all when the crawl ends; called every `TICK`."""
        if _scrapy.is_closing(self._crawler):
            self._files.stop()
        self._fetcher.pending.tick()

    async def close(self) -> None:
        """End all fetches, write what is left within two seconds, and close the store."""
        self._fetcher.pending.cancel_all()
        self._files.stop()
        if self.store is not None:
            await self.store.close()


def undecided(origin: Origin) -> RobotsUndecided:
    """Return the error of a request that the end of the crawl left without a verdict."""
    return RobotsUndecided(f"the spider closed before {origin.robots_url} was there")


def _known_until(robots: OriginPolicy, known_for: float) -> float:
    return max(robots.validity.fresh_until, robots.fetched + known_for)
