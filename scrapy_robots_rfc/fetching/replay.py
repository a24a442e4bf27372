"""Scrapy's HTTP cache: answers for robots.txt are kept there, and decide in an offline replay.

With HTTPCACHE_IGNORE_MISSING nothing is fetched, and the robots.txt files in the cache decide.
Policies and storages are called by their documented methods.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from email.utils import formatdate
from functools import cached_property, lru_cache
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import DecodingError
from scrapy_robots_rfc.fetching.decoding import without_codings
from scrapy_robots_rfc.fetching.parsed import FileParser, OriginPolicy
from scrapy_robots_rfc.fetching.sources import Source, first_of
from scrapy_robots_rfc.policy.access import (
    PROXY_REFUSES,
    Access,
    Asking,
    Successful,
    Unavailable,
    Unreachable,
)
from scrapy_robots_rfc.policy.caching import Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

#: The setting of Scrapy's that turns a replay on.
IGNORE_MISSING = "HTTPCACHE_IGNORE_MISSING"

# Headers that describe a transfer, and would be wrong for the decoded body that is kept.
_OF_THE_TRANSFER = (b"Content-Encoding", b"Content-Length", b"Transfer-Encoding")


class HttpCache:
    """The HTTP cache of a crawl; there is none where HTTPCACHE_ENABLED is off.

    :param crawler: its engine need not be there yet.
    :param settings: of the crawl.
    """

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        self._crawler, self._settings = crawler, settings
        self._failed = False

    @cached_property
    def _parts(self) -> tuple[Any, Any] | None:
        """Policy and storage; ``None`` if there is no cache."""
        return _scrapy.cache_of(self._crawler)

    def store(self, url: str, response: Response, body: bytes) -> None:
        """Keep an answer as the policy of the cache lets it, unless it says nothing about rules, and may replace some.

        :param url: what was asked for.
        :param body: of the answer, without content coding.
        """
        scheme = self._settings.schemes.get(url.partition(":")[0])
        status = response.status if scheme is None else scheme.http_status(response.status)
        says_nothing = status in (304, PROXY_REFUSES, *self._settings.unreachable_statuses)
        if self._parts is None or says_nothing or not 200 <= status < 500:
            return
        policy, storage = self._parts
        request = Request(
            url
        )  # the request that was sent may have credentials for a proxy, which must not be stored
        kept = response.replace(body=body, flags=[])
        for name in _OF_THE_TRANSFER:
            kept.headers.pop(name, None)
        kept.headers.setdefault(
            b"Date", formatdate(usegmt=True)
        )  # as the middleware does: policies count on it
        try:
            if policy.should_cache_request(request) and policy.should_cache_response(kept, request):
                storage.store_response(self._crawler.spider, request, kept)
        except Exception:
            if not self._failed:
                logger.warning("robots.txt files cannot be kept in the HTTP cache", exc_info=True)
            self._failed = True

    def retrieve(self, url: str) -> Response | None:
        """Return what the cache has for a URL, however old; ``None``: nothing."""
        try:
            if self._parts is not None:
                response: Response | None = self._parts[1].retrieve_response(
                    self._crawler.spider, Request(url)
                )
                return response
        except Exception:
            logger.warning(
                "%s cannot be read in the HTTP cache, and counts as missing there",
                url,
                exc_info=True,
            )
        return None

    def why_passed_on(self, request: Request) -> str | None:
        """Why a request would be sent although HTTPCACHE_IGNORE_MISSING is on.

        ``None``: it would not be sent.
        """
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


class Replay:
    """What is known of origins while nothing may be fetched: other sources first, then the HTTP cache. A `Source`.

    :param sources: the others: the user's exceptions.
    :param cache: of the crawl.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        settings: Settings,
        parse: FileParser,
        agent: Callable[[], Agent],
        cache: HttpCache,
    ) -> None:
        self._sources, self._agent = sources, agent
        self._settings, self._parse, self._cache = settings, parse, cache
        self._known = lru_cache(settings.cache_size)(self._in_cache)
        self._logged = False

    def robots(self, origin: Origin) -> OriginPolicy:
        """Return what is known of an origin. Whatever the cache has is used, however old it is."""
        return first_of(self._sources, origin) or self._known(origin)

    def why_closed(self, request: Request, origin: Origin) -> str | None:
        """Why a request would be sent, so that it is refused whatever robots.txt says; ``None``: it would not be sent.

        Requests to sites of which the user made an exception are never refused here.
        """
        if first_of(self._sources, origin) is not None:
            return None
        why = self._cache.why_passed_on(request)
        return (
            None
            if why is None
            else f"{IGNORE_MISSING} is on, so this must not be sent, and would be: {why}"
        )

    def _in_cache(self, origin: Origin) -> OriginPolicy:
        access = self._access(
            Asking(origin.robots_url, scheme=self._settings.schemes[origin.scheme])
        )
        file = self._parse.tried(origin, access.body) if isinstance(access, Successful) else None
        if isinstance(file, str):  # why it cannot be parsed
            access, file = Unreachable(access.status, file), None
        return OriginPolicy(
            origin,
            Validity(access.outcome, math.inf),
            access.status,
            access.cause,
            file,
            self._agent,
        )

    def _access(self, state: Asking | Access) -> Access:
        """Follow the answers in the cache, as a fetch follows those of servers."""
        while isinstance(state, Asking):
            response = self._cache.retrieve(state.url)
            if response is None:
                self._log_missing(state.url)
                return Unavailable(None, "not in the HTTP cache")
            headers = response.headers
            try:
                successful = state.scheme.http_status(response.status) // 100 == 2
                codings = headers.getlist(b"Content-Encoding")
                body = (
                    without_codings(response.body, codings, self._settings.max_size + 1)
                    if successful
                    else b""
                )
                statuses = self._settings.unreachable_statuses
                state = state.answered(
                    response.status, headers.get(b"Location"), body, unreachable_statuses=statuses
                )
            except DecodingError as error:
                return Unreachable(response.status, str(error))
        return state

    def _log_missing(self, url: str) -> None:
        if not self._logged:
            self._logged = True
            text = (
                "%s is not in the HTTP cache, and %s is on: nothing is fetched, so the cache answers or refuses "
                "each request to sites of which it has no robots.txt"
            )
            logger.info(text, url, IGNORE_MISSING)
