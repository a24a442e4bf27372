"""Scrapy's HTTP cache: answers for robots.txt are kept there, and decide in an offline replay.

With HTTPCACHE_IGNORE_MISSING nothing is fetched, and the robots.txt files in the cache decide. Policies and storages
are called by their documented methods.
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
from scrapy_robots_rfc.policy.access import PROXY_REFUSES, Access, Asking, Successful, Unavailable, Unreachable
from scrapy_robots_rfc.policy.caching import Validity, http_date
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
        """Return what the cache has for a URL, however old, and when it was made, in seconds since 1970."""
        request, response = Request(url), None
        try:
            if self._parts is not None:
                response = self._parts[1].retrieve_response(self._crawler.spider, request)
        except Exception:
            logger.warning("%s cannot be read in the HTTP cache, and counts as missing there", url, exc_info=True)
        if response is None:
            return None
        made = request.meta.get("cache_timestamp")
        return response, http_date(response.headers.get(b"Date") or b"") if made is None else made

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


class Replay:
    """What is known of origins while nothing may be fetched: other sources first, then the HTTP cache. A `Source`.

    :param sources: the others: the user's exceptions.
    :param cache: of the crawl.
    :param date: gives the present, in seconds since 1970.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        settings: Settings,
        parse: FileParser,
        agent: Callable[[], Agent],
        cache: HttpCache,
        date: Callable[[], float],
    ) -> None:
        self._sources, self._agent = sources, agent
        self._settings, self._parse, self._cache, self._date = settings, parse, cache, date
        self._known = lru_cache(settings.cache_size)(self._replayed)
        self._told = False

    def robots(self, origin: Origin) -> OriginPolicy:
        """Return what is known of an origin; if the cache has no robots.txt, nothing is forbidden."""
        return first_of(self._sources, origin) or self._known(origin)

    def why_closed(self, request: Request, origin: Origin) -> str | None:
        """Why a request would be sent, so that it is refused whatever robots.txt says; ``None``: it would not be sent.

        Requests to sites of which the user made an exception are never refused here.
        """
        if first_of(self._sources, origin) is not None:
            return None
        why = self._cache.why_passed_on(request)
        return None if why is None else f"{IGNORE_MISSING} is on, so this must not be sent, and would be: {why}"

    def _replayed(self, origin: Origin) -> OriginPolicy:
        """Follow the answers in the cache, as a fetch follows those of servers; return what is known."""
        state: Asking | Access = Asking(origin.robots_url, scheme=self._settings.schemes[origin.scheme])
        made: float | None = None
        while isinstance(state, Asking):
            found = self._cache.retrieve(state.url)
            if found is None:
                if not self._told:
                    text = (
                        "%s is not in the HTTP cache, and %s is on: nothing is fetched, so the cache answers or "
                        "refuses each request to %s, and to all other sites of which it has no robots.txt"
                    )
                    logger.info(text, state.url, IGNORE_MISSING, origin)
                self._told, state = True, Unavailable(None, "not in the HTTP cache")
                break
            response, made = found
            location, codings = response.headers.get(b"Location"), response.headers.getlist(b"Content-Encoding")
            statuses = self._settings.unreachable_statuses
            try:
                successful = state.scheme.http_status(response.status) // 100 == 2
                body = without_codings(response.body, codings, self._settings.max_size + 1) if successful else b""
                state = state.answered(response.status, location, body, unreachable_statuses=statuses)
            except DecodingError as error:
                state = Unreachable(response.status, str(error))
        file = self._parse.tried(origin, state.body) if isinstance(state, Successful) else None
        if isinstance(file, str):
            state, file = Unreachable(state.status, file), None
        cause, since = state.cause, None
        age = math.inf if made is None else self._date() - made
        if isinstance(state, Successful) and age > self._settings.cache_max_age:
            cause, since = f"nothing is fetched, because {IGNORE_MISSING} is on", 0.0  # so that it counts as stale
            old = "of unknown age" if age == math.inf else f"{age / 86_400:.1f} days old"
            logger.info("%s is obeyed as the HTTP cache has it, %s: %s", origin.robots_url, old, cause)
        validity = Validity(state.outcome, math.inf, unreachable_since=since)
        return OriginPolicy(origin, validity, state.status, cause, file, self._agent)
