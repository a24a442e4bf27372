"""Where a robots.txt comes from, if not from its site as a page does.

`leaves.py` says what loads which source. Scrapy's HTTP cache stores answers about robots.txt, and
gives them in an offline replay: with HTTPCACHE_IGNORE_MISSING nothing is sent.
"""

import contextlib
import logging
from email.utils import formatdate
from functools import cached_property
from typing import Any, Protocol

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import PROXY_REFUSES
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

# Headers that describe a transfer, and would be wrong for the decoded body that is stored.
_OF_THE_TRANSFER = (b"Content-Encoding", b"Content-Length", b"Transfer-Encoding")
# Those of a stored answer that count: one about its age would have it read again.
_OF_THE_FILE = ("Content-Encoding", "Location")


class Source(Protocol):
    """What is known of origins without a request, such as the user's exceptions."""

    def robots(self, origin: Origin) -> OriginPolicy | None:
        """Return what governs an origin; ``None``: its site is asked."""


class HttpCache:
    """The HTTP cache of a crawl; there is none where HTTPCACHE_ENABLED is off.

    :param crawler: its engine need not be there yet.
    """

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        self._crawler = crawler
        self._settings = settings
        #: Whether nothing may be sent.
        self.offline: bool = crawler.settings.getbool("HTTPCACHE_IGNORE_MISSING")
        self._misses = False  # whether anything was missing
        self._failed = False  # whether anything could not be stored

    @cached_property
    def _parts(self) -> tuple[Any, Any] | None:
        """Policy and storage; ``None`` if there is no cache."""
        return _scrapy.cache_of(self._crawler)

    def store(self, url: str, response: Response, body: bytes) -> None:
        """Store an answer as the policy of the cache lets it, unless it says nothing about rules.

        :param url: what was asked for.
        :param body: of the answer, without content coding.
        """
        status = self._settings.schemes[url.partition(":")[0]].http_status(response.status)
        says_nothing = status in (304, PROXY_REFUSES, *self._settings.unreachable_statuses)
        if self._parts is None or says_nothing or not 200 <= status < 500:
            return
        policy, storage = self._parts
        # The request that was sent may have credentials for a proxy, which must not be stored.
        request = Request(url)
        stored = response.replace(body=body, flags=[])
        for name in _OF_THE_TRANSFER:
            stored.headers.pop(name, None)
        # The middleware of the cache adds it, too: policies count on it.
        stored.headers.setdefault(b"Date", formatdate(usegmt=True))
        try:
            cacheable = policy.should_cache_response(stored, request)
            if cacheable and policy.should_cache_request(request):
                storage.store_response(self._crawler.spider, request, stored)
        except Exception:
            if not self._failed:  # it would fail for each file
                self._failed = True
                logger.warning("Cannot store %s in the HTTP cache", url, exc_info=True)

    def answer(self, url: str) -> Response | None:
        """Return what the cache has for a URL, however old it is; ``None``: nothing."""
        response: Response | None = None
        try:
            if self._parts is not None:
                storage = self._parts[1]
                response = storage.retrieve_response(self._crawler.spider, Request(url))
        except Exception:
            text = "Cannot read %s from the HTTP cache, so it counts as missing"
            logger.warning(text, url, exc_info=True)
        if response is None:
            if not self._misses:
                self._misses = True
                logger.info(
                    "%s is not in the HTTP cache, and HTTPCACHE_IGNORE_MISSING is on: nothing is"
                    " fetched, so requests to such sites are answered from the cache or dropped",
                    url,
                )
            return None
        headers = {name: response.headers.getlist(name) for name in _OF_THE_FILE}
        return response.replace(headers=headers)

    def why_closed(self, request: Request) -> str | None:
        """Why a request is refused offline whatever robots.txt says; ``None``: it is not sent."""
        why = None
        if self._parts is None:
            why = "no HTTP cache is at work (HTTPCACHE_ENABLED)"
        elif request.meta.get("dont_cache"):
            why = "its meta has dont_cache"
        else:
            policy, storage = self._parts
            probe = request.copy()  # a policy writes into a request whose copy is to be confirmed
            # HttpCacheMiddleware meets the same exception, and sends nothing.
            with contextlib.suppress(Exception):
                if not policy.should_cache_request(probe):
                    why = "HTTPCACHE_POLICY stores no such request"
                else:
                    copy = storage.retrieve_response(self._crawler.spider, probe)
                    if copy is not None and not policy.is_cached_response_fresh(copy, probe):
                        why = "HTTPCACHE_POLICY would confirm the copy by asking the site"
        if why is None:
            return None
        return f"HTTPCACHE_IGNORE_MISSING is on, so this must not be sent, and would be: {why}"
