"""ROBOTSTXT_TDMREP: the `/.well-known/tdmrep.json` of each site, asked for once and kept as long as its robots.txt."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.preferences import parse_tdmrep
from scrapy_robots_rfc.fetching.queue import RouteWait
from scrapy_robots_rfc.policy.access import MAX_REDIRECTS, target_of

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.core.preferences import Reservation
    from scrapy_robots_rfc.fetching.download import Downloader
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
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
        self._kept: OrderedDict[Origin, tuple[float, tuple[Reservation, ...]]] = OrderedDict()
        self._waiting: dict[Origin, RouteWait[tuple[Reservation, ...]]] = {}

    async def of(self, request: Request, robots: OriginPolicy) -> tuple[Reservation, ...]:
        """Return the entries of a site's file; none where there is no file, or it cannot be read.

        :param request: the file is fetched for it, by its route.
        :param robots: what is known of the site's robots.txt, which may forbid to ask for the file.
        """
        origin = robots.origin
        kept = self._kept.get(origin)
        if kept is not None and self._runtime.clock() < kept[0]:
            return kept[1]
        if origin in self._waiting:
            return await self._waiting[origin].result() or ()
        wait = self._waiting[origin] = RouteWait(origin)
        entries: tuple[Reservation, ...] = ()
        try:
            entries = await self._fetch(request, robots)
        except Exception:  # whatever goes wrong says nothing about the site's reservations
            logger.debug("%s%s cannot be had", origin, PATH, exc_info=True)
        finally:
            del self._waiting[origin]
            self._kept[origin] = robots.validity.fresh_until, entries
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            wait.settle(entries)
            wait.tell()
        return entries

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
