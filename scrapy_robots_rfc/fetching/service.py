"""RobotsService: the questions that the middleware and spiders ask about robots.txt files.

`fetch.py` says how a file is got.
"""

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_robots_rfc import _scrapy, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.cache.stores.base import errors_of, open_store
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.download import Downloader
from scrapy_robots_rfc.fetching.fetch import Fetcher
from scrapy_robots_rfc.fetching.parsed import FileReader, OriginPolicy
from scrapy_robots_rfc.fetching.pending import Crawl, PendingFetch
from scrapy_robots_rfc.fetching.sources import HttpCache, Source
from scrapy_robots_rfc.leaves import SOURCES, asked_for
from scrapy_robots_rfc.policy.origins import Origin, sitemap_urls
from scrapy_robots_rfc.settings import Settings

# Sitemap records of one robots.txt that count. Of a thousand real files, none has more than 130;
# a file of 512,000 octets (RFC 9309, 2.5) has room for more than 40,000.
_SITEMAPS = 1_000


class RobotsService:
    """The robots.txt files of a crawl.

    :param crawler: the crawl; its engine need not be there yet.
    :param crawl: what the middleware gives to call.
    :raises SettingError: ROBOTSTXT_PARSER, or a local file, cannot be used.
    :raises StoreError: the store of ROBOTS_CACHE cannot work.
    """

    def __init__(self, crawler: Crawler, settings: Settings, crawl: Crawl) -> None:
        self._crawler = crawler
        self._settings = settings
        self._count = stats.of(crawler).inc_value
        self._runtime = Runtime()
        self._files = FileReader(crawler, settings, crawl.agent)
        # Local files are read before a store is opened.
        self._sources: list[Source] = [
            source(crawler, settings, self._files.parse, crawl.agent)
            for source in asked_for(SOURCES, settings)
        ]
        #: The client of the store; ``None``: nothing is stored beyond the process.
        self.store: CacheClient | None = self._open_store()
        self._fetcher = Fetcher(crawler, settings, crawl, self._files, self.store)
        #: Makes exchanges; gives the routes of requests, for tdmrep.json, too.
        self.download: Downloader = self._fetcher.download
        #: The HTTP cache of Scrapy.
        self.cache: HttpCache = self.download.cache
        #: What the crawl remembers.
        self.memory: MemoryCache = self._fetcher.memory

    def _open_store(self) -> CacheClient | None:
        # Offline the HTTP cache may have old files, which no other crawl may get.
        if self._crawler.settings.getbool("HTTPCACHE_IGNORE_MISSING"):
            return None
        with errors_of(self._settings.cache):
            found = open_store(self._settings.cache, self._crawler)
        if found is None:
            return None
        return CacheClient(*found, self._settings, runtime=self._runtime, count=self._count)

    async def robots(self, url: str) -> OriginPolicy:
        """Return what is known of the robots.txt of a URL; fetch it if it is not cached.

        Shares memory and fetches with the crawl. Await it in a spider's callback, under any reactor
        or none. If it is cancelled, the fetch goes on for others.

        :param url: absolute, of a scheme that is obeyed: http, https, ftp, gemini, those of
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
        return sitemap_urls(robots.sitemaps[:_SITEMAPS], robots.origin.robots_url)

    def cached(
        self,
        origin: Origin,
        request: Request | None = None,
        *,
        stale_for: float = 0.0,
        counted: bool = True,
    ) -> OriginPolicy | None:
        """Return what is known of an origin, without waiting; ``None``: it has to be fetched.

        :param request: the request that is to be judged: the origin may be closed for its route
            only.
        :param stale_for: seconds for which what is stale still counts, as for a request that waited
            for it.
        :param counted: whether this look-up is counted in the stats.
        """
        if self._sources and (found := self.exception_of(origin)) is not None:
            return found
        robots: OriginPolicy | None = self.memory.get(origin)
        now = self._runtime.clock()
        if robots is None or now >= robots.validity.fresh_until or not robots.for_all:
            route = self.download.routes.of(request)
            if robots is not None and route is not None and not robots.for_all:
                robots = None
            # A failure of this route counts, unless another one led to the site later.
            failed = self._fetcher.failed.get((origin, route))
            if robots is None or (failed is not None and failed.fetched >= robots.fetched):
                robots = failed
            if robots is None or now >= robots.validity.fresh_until + stale_for:
                return None
        if counted:
            self._count(stats.CACHE_HITS)
        return robots

    def exception_of(self, origin: Origin) -> OriginPolicy | None:
        """Return what governs an origin if the user made an exception of it; else ``None``."""
        found = (source.robots(origin) for source in self._sources)
        return next((robots for robots in found if robots is not None), None)

    def fetch(self, origin: Origin, request: Request | None = None) -> PendingFetch:
        """Begin, or join, the fetch of an origin's robots.txt by the route of a request.

        Wait for its `result`, which is ``None`` if the spider is closed first. Without asyncio it
        may be over already.

        :param request: the request that the file is fetched for; ``None``: there is none.
        """
        found = self.exception_of(origin)
        if found is not None or _scrapy.is_closing(self._crawler):
            return PendingFetch(origin, over=True, value=found)
        fetches = self._fetcher.pending
        route = self.download.routes.of(request)
        pending = fetches.of(origin, route)
        self._count(stats.CACHE_MISSES if pending is None else stats.WAITS)
        return pending or fetches.begin(origin, route, self._fetcher.get, request)

    def read_for(self, robots: OriginPolicy, agent: Agent) -> PendingFetch:
        """Read a large file on the thread for one more agent, or join who has it read."""
        file = robots.file
        assert file is not None

        async def read(_: PendingFetch) -> OriginPolicy | None:
            await self._files.read_for(file, agent)
            return None if file.unread(agent) and _scrapy.is_closing(self._crawler) else robots

        fetches = self._fetcher.pending
        key = (robots, agent)
        return fetches.of(robots.origin, key) or fetches.begin(robots.origin, key, read)

    def tick(self) -> None:
        """End what takes too long, and all when the crawl ends; to be called every 0.25 s."""
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
