"""The label `tdm`: the `/.well-known/tdmrep.json` of each site.

It is requested once while the robots.txt of its site is fresh, and like a page: Scrapy follows its
redirects, and each hop is judged by the robots.txt of its host, waits for its turn, and is counted.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.preferences import DECLARED_KEY
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.middleware.downloader import at_work
from scrapy_robots_rfc.policy.access import MAX_REDIRECTS, target_of
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings
from scrapy_robots_rfc.usage.reservations import MOST_TDMREP_OCTETS, Reservation, parse_tdmrep

logger: logging.Logger = logging.getLogger(__name__)

PATH = "/.well-known/tdmrep.json"
# Sites whose file is stored; the one that was asked for first is dropped first.
_MOST_SITES = 10_000
# A hop declares no use, so that robots.txt alone decides, and two sites never wait for each other's
# file.
_META: dict[str, Any] = {
    DECLARED_KEY: [],
    "allow_offsite": True,
    "dont_redirect": True,  # a spider may want redirects for itself
    "dont_retry": True,
    "dont_merge_cookies": True,
    "download_maxsize": MOST_TDMREP_OCTETS,
    "download_warnsize": 0,
}


@dataclass(slots=True, eq=False, repr=False)
class _File:
    """What is known of the file of one site, until it is requested again."""

    until: float = -math.inf
    warned: bool = False
    #: ``None``: they are unknown.
    entries: tuple[Reservation, ...] | None = None
    #: Requests that wait for a fetch; ``None``: no fetch is under way.
    waiters: list[Waiter[None]] | None = None


class TdmFiles:
    """The files of a crawl."""

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        self._crawler = crawler
        self._settings = settings
        self._runtime = Runtime()
        self._files: LocalCache[Origin, _File] = LocalCache(_MOST_SITES)

    async def of(self, request: Request, robots: OriginPolicy) -> tuple[Reservation, ...] | None:
        """Return the entries of a site's file, none where there is no file; ``None``: unknown.

        The file is requested by the route of its page, and used for as long as its robots.txt.
        """
        file = self._files.get(robots.origin)
        if file is None:
            file = self._files[robots.origin] = _File()
        if file.waiters is not None:
            waiter: Waiter[None] = Waiter()
            file.waiters.append(waiter)
            await waiter
        elif self._runtime.clock() >= file.until:
            file.until = robots.validity.fresh_until
            await self._fill(file, request, robots.origin)
        return file.entries

    async def _fill(self, file: _File, page: Request, origin: Origin) -> None:
        """Request a file. Whatever goes wrong, those who wait go on."""
        file.entries = None
        file.waiters = []
        try:
            file.entries = await self._fetch(page, origin)
        except RobotsUndecided:  # the spider was closed
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the site reserved nothing by it
            # Where a rule forbids the file, another request would change nothing.
            decision = getattr(error, "decision", None)
            if decision is None or decision.reason is Reason.UNREACHABLE:
                pause = self._settings.unreachable_ttl
                file.until = min(file.until, self._runtime.clock() + pause)
                if not file.warned:
                    self._warn(origin, error, pause)
                file.warned = True
        finally:
            waiters = file.waiters
            file.waiters = None
            for waiter in waiters:
                waiter.resolve(None)

    def _warn(self, origin: Origin, error: Exception, pause: float) -> None:
        logger.warning(
            "%s%s cannot be read (%s): whether the site reserves text and data mining is unknown, "
            "its pages go on; the file is requested again after %g s",
            origin,
            PATH,
            error_text(error),
            pause,
            extra={"spider": self._crawler.spider},
        )

    async def _fetch(self, page: Request, origin: Origin) -> tuple[Reservation, ...]:
        assert self._crawler.engine is not None
        url: str | None = f"{origin}{PATH}"
        for _ in range(MAX_REDIRECTS + 1):
            if url is None:
                raise ValueError("a redirect without a usable Location")
            meta = {**_META, "download_timeout": self._settings.timeout}
            headers: dict[bytes, bytes] = {}
            at_work(self._crawler).service.download.inherit_route(page, url, meta, headers)
            request = Request(url, callback=NO_CALLBACK, meta=meta, headers=headers)
            response = await self._crawler.engine.download_async(request)
            if response.status // 100 == 2:
                return parse_tdmrep(response.body)
            if response.status // 100 == 4:
                return ()  # that is an answer: there is no file
            if response.status // 100 != 3:
                raise ValueError(f"status {response.status}")
            url = target_of(url, response.headers.get(b"Location"))
        raise ValueError(f"more than {MAX_REDIRECTS} redirects")
