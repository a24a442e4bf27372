"""The label `tdm`: the `/.well-known/tdmrep.json` of each site.

It is asked for once while the robots.txt of its site is fresh, and like a page: each hop of its
redirects is judged by the robots.txt of its host, waits for its turn, and is counted.
"""

from __future__ import annotations

import logging
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.labels import DECLARED_KEY
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.errors import RobotsDisallowed, RobotsUndecided
from scrapy_robots_rfc.fetching.download import Downloader
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
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
    "dont_redirect": True,
    "dont_retry": True,
    "dont_merge_cookies": True,
    "download_maxsize": MOST_TDMREP_OCTETS,
    "download_warnsize": 0,
}


class _File:
    """What is known of the file of one site.

    :param until: when it is asked for again.
    :param warned: whether it was logged that the file cannot be read.
    """

    __slots__ = ("entries", "until", "waiters", "warned")

    def __init__(self, until: float, *, warned: bool) -> None:
        self.until = until
        self.warned = warned
        #: Its entries; ``None``: they are unknown.
        self.entries: tuple[Reservation, ...] | None = None
        #: Those who wait for the fetch; ``None``: it is over.
        self.waiters: list[Waiter[None]] | None = []


class TdmFiles:
    """The files of a crawl.

    :param settings: of the crawl.
    :param download: gives the requests the way of the page.
    """

    def __init__(self, crawler: Crawler, settings: Settings, download: Downloader) -> None:
        self._crawler = crawler
        self._download = download
        self._timeout = settings.timeout
        self._pause = settings.unreachable_ttl
        self._runtime = Runtime()
        self._files: LocalCache[Origin, _File] = LocalCache(_MOST_SITES)

    async def of(self, request: Request, robots: OriginPolicy) -> tuple[Reservation, ...] | None:
        """Return the entries of a site's file, none where there is no file; ``None``: unknown.

        :param request: the page; the file is asked for by its route.
        :param robots: what is known of the site's robots.txt. The file is used for as long as that.
        """
        file = self._files.get(robots.origin)
        if file is None or (file.waiters is None and self._runtime.clock() >= file.until):
            warned = file is not None and file.warned
            file = self._files[robots.origin] = _File(robots.validity.fresh_until, warned=warned)
            await self._fill(file, request, robots.origin)
        elif file.waiters is not None:
            waiter: Waiter[None] = Waiter()
            file.waiters.append(waiter)
            await waiter
        return file.entries

    async def _fill(self, file: _File, page: Request, origin: Origin) -> None:
        """Ask for a file. Whatever goes wrong, those who wait go on."""
        try:
            file.entries = await self._fetch(page, origin)
            file.warned = False
        except RobotsUndecided:  # the spider was closed
            pass
        except RobotsDisallowed as refusal:
            if refusal.decision.reason is Reason.UNREACHABLE:
                self._ask_again(file, origin, refusal)
        except Exception as error:  # noqa: BLE001 - whatever it is, the site reserved nothing by it
            self._ask_again(file, origin, error)
        finally:
            waiters = file.waiters or []
            file.waiters = None
            for waiter in waiters:
                waiter.resolve(None)

    def _ask_again(self, file: _File, origin: Origin, error: Exception) -> None:
        """Ask for a file again after a pause, and log that at the first failure of a run."""
        file.until = min(file.until, self._runtime.clock() + self._pause)
        if file.warned:
            return
        file.warned = True
        logger.warning(
            "%s%s cannot be read (%s): whether the site reserves text and data mining is unknown, "
            "its pages go on; the file is requested again after %g s",
            origin,
            PATH,
            error_text(error),
            self._pause,
            extra={"spider": self._crawler.spider},
        )

    async def _fetch(self, page: Request, origin: Origin) -> tuple[Reservation, ...]:
        assert self._crawler.engine is not None
        url: str | None = f"{origin}{PATH}"
        for _ in range(MAX_REDIRECTS + 1):
            if url is None:
                raise ValueError("a redirect without a usable Location")
            meta = {**_META, "download_timeout": self._timeout}
            headers: dict[bytes, bytes] = {}
            self._download.inherit_route(page, url, meta, headers)
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
