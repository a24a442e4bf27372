"""Scrapy's HTTP cache: it keeps answers for robots.txt, and gives them back in an offline replay (`replay.py`).

Policies and storages are called by their documented methods.
"""

from __future__ import annotations

import logging
from email.utils import formatdate
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy import Request

from scrapy_robots_rfc import _scrapy

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)

#: Headers that describe a transfer, and would be wrong for the decoded body that is kept.
_OF_THE_TRANSFER = (b"Content-Encoding", b"Content-Length", b"Transfer-Encoding")


class HttpCache:
    """The HTTP cache of a crawl; there is none where HTTPCACHE_ENABLED is off.

    :param crawler: its engine need not be there yet.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._failed = False

    @cached_property
    def _parts(self) -> tuple[Any, Any] | None:
        """Policy and storage; ``None`` if there is no cache."""
        return _scrapy.cache_of(self._crawler)

    def store(self, url: str, response: Response, body: bytes) -> None:
        """Keep an answer as the policy of the cache lets it.

        :param url: what was asked for.
        :param body: of the answer, without content coding.
        """
        if self._parts is None:
            return
        policy, storage = self._parts
        request = Request(url)  # the request that was sent may have credentials for a proxy, which must not be stored
        kept = response.replace(body=body, flags=[])
        for name in _OF_THE_TRANSFER:
            kept.headers.pop(name, None)
        kept.headers.setdefault(b"Date", formatdate(usegmt=True))  # as the middleware does: policies count on it
        try:
            if policy.should_cache_request(request) and policy.should_cache_response(kept, request):
                storage.store_response(self._crawler.spider, request, kept)
        except Exception:
            if not self._failed:
                logger.warning("robots.txt files cannot be kept in the HTTP cache", exc_info=True)
            self._failed = True

    def retrieve(self, url: str) -> tuple[Response, float | None] | None:
        """Return what the cache has for a URL, however old, and when it was put there, in seconds since 1970."""
        if self._parts is None:
            return None
        request = Request(url)
        try:
            response = self._parts[1].retrieve_response(self._crawler.spider, request)
        except Exception:
            logger.warning("%s cannot be read in the HTTP cache, and counts as missing there", url, exc_info=True)
            return None
        return None if response is None else (response, request.meta.get("cache_timestamp"))

    def why_passed_on(self, request: Request) -> str | None:
        """Why a request would be sent although HTTPCACHE_IGNORE_MISSING is on; ``None``: it would not be sent."""
        if self._parts is None:
            return "no HTTP cache is at work (HTTPCACHE_ENABLED)"
        if request.meta.get("dont_cache"):
            return "its meta has dont_cache"
        policy, storage = self._parts
        probe = request.copy()  # a policy writes into a request whose copy is to be confirmed
        try:
            if not policy.should_cache_request(probe):
                return "HTTPCACHE_POLICY keeps no such request"
            response = storage.retrieve_response(self._crawler.spider, probe)
            if response is None or policy.is_cached_response_fresh(response, probe):
                return None
        except Exception:  # noqa: BLE001 - HttpCacheMiddleware meets the same one, and sends nothing
            return None
        return "HTTPCACHE_POLICY would confirm the copy by asking the site"
