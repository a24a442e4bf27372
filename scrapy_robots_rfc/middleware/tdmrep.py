"""ROBOTSTXT_TDMREP: the `/.well-known/tdmrep.json` of each site, asked for once and kept as long as its robots.txt."""

from __future__ import annotations

import logging

from scrapy import Request
from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.preferences import Reservation, parse_tdmrep
from scrapy_robots_rfc.fetching.download import Downloader
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.queue import RouteWait
from scrapy_robots_rfc.policy.access import MAX_REDIRECTS, target_of
from scrapy_robots_rfc.policy.origins import Origin

logger: logging.Logger = logging.getLogger(__name__)

PATH = "/.well-known/tdmrep.json"
# Sites whose file is kept; the one that was asked for first is dropped first.
_KEPT = 10_000


class TdmFiles:
    """The files of a crawl.

    :param download: makes one exchange through Scrapy's downloader, as for a robots.txt.
    :param timeout: seconds for each exchange.
    """

    def __init__(self, download: Downloader, timeout: float, runtime: Runtime) -> None:
        self._download, self._timeout, self._runtime = download, timeout, runtime
        # Until when the entries of a site count, and the wait for them.
        self._kept: LocalCache[Origin, tuple[float, RouteWait[tuple[Reservation, ...]]]] = LocalCache(_KEPT)

    async def of(self, request: Request, robots: OriginPolicy) -> tuple[Reservation, ...]:
        """Return the entries of a site's file; none where there is no file, or it cannot be read.

        :param request: the file is fetched for it, by its route.
        :param robots: what is known of the site's robots.txt, which may forbid to ask for the file.
        """
        origin = robots.origin
        until, wait = self._kept.get(origin, (0.0, None))
        if wait is None or (wait.settled and self._runtime.clock() >= until):
            wait = RouteWait(origin)
            self._kept[origin] = robots.validity.fresh_until, wait
            entries: tuple[Reservation, ...] = ()
            try:
                entries = await self._fetch(request, robots)
            except Exception:  # whatever goes wrong says nothing about the site's reservations
                logger.debug("%s%s cannot be had", origin, PATH, exc_info=True)
            finally:
                wait.settle(entries)
                wait.tell()
        return await wait.result() or ()

    async def _fetch(self, asker: Request, robots: OriginPolicy) -> tuple[Reservation, ...]:
        first = f"{robots.origin}{PATH}"
        url: str | None = first if robots.decide(first).allowed else None
        for _ in range(MAX_REDIRECTS + 1):
            if url is None:
                break
            request = self._download.request(url, timeout=self._timeout, mark=self, asker=asker)
            response, body = await self._download.send(request)
            if response.status // 100 != 3:
                return parse_tdmrep(body) if response.status // 100 == 2 else ()
            url = target_of(url, response.headers.get(b"Location"))
        return ()
