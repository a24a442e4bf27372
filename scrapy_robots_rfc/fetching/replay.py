"""Offline replay: with HTTPCACHE_IGNORE_MISSING nothing is fetched, and the robots.txt files in the HTTP cache decide.

See `httpcache.py` for how that cache is asked.
"""

from __future__ import annotations

import logging
import math
import zlib
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.lines import whole_lines
from scrapy_robots_rfc.errors import DecodingError
from scrapy_robots_rfc.fetching.decoding import decode
from scrapy_robots_rfc.fetching.overrides import Overrides
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Asking, Outcome, Successful, Unavailable, Unreachable
from scrapy_robots_rfc.policy.caching import Validity, http_date

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.fetching.httpcache import HttpCache
    from scrapy_robots_rfc.fetching.parsed import ParsedRobots
    from scrapy_robots_rfc.policy.access import Access
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)

#: The setting of Scrapy's that turns it on.
IGNORE_MISSING = "HTTPCACHE_IGNORE_MISSING"


class Replay(Overrides):
    """What is known of origins while nothing may be fetched: the user's exceptions first, then the HTTP cache.

    :param cache: of the crawl.
    :param date: gives the present, in seconds since 1970.
    :raises SettingError: as `Overrides`.
    """

    def __init__(
        self,
        settings: Settings,
        parse: Callable[[bytes], ParsedRobots],
        agent: Callable[[], Agent],
        cache: HttpCache,
        date: Callable[[], float],
    ) -> None:
        super().__init__(settings, parse, agent)
        self._settings, self._parse, self._cache, self._date = settings, parse, cache, date
        self._known: dict[Origin, tuple[OriginPolicy, bytes | None]] = {}
        self._told = False

    def robots(self, origin: Origin) -> OriginPolicy:
        """Return what is known of an origin; if the cache has no robots.txt, nothing is forbidden."""
        exception = super().robots(origin)
        if exception is not None:
            return exception
        if origin not in self._known:
            if len(self._known) >= self._settings.cache_size:
                del self._known[next(iter(self._known))]
            self._known[origin] = self._replayed(origin)
        return self._known[origin][0]

    def octets(self, origin: Origin) -> bytes | None:
        """Return the file that decides for an origin, as it came; ``None`` if there is none."""
        if super().robots(origin) is not None:
            return super().octets(origin)
        packed = self._known[origin][1] if origin in self._known else None
        return None if packed is None else whole_lines(zlib.decompress(packed), self._settings.max_size)

    def why_closed(self, request: Request, origin: Origin) -> str | None:
        """Why a request would be sent, so that it is refused whatever robots.txt says; ``None``: it would not be sent.

        Requests to sites of which the user made an exception are never refused here.
        """
        if super().robots(origin) is not None:
            return None
        why = self._cache.why_passed_on(request)
        return None if why is None else f"{IGNORE_MISSING} is on, so this must not be sent, and would be: {why}"

    def _replayed(self, origin: Origin) -> tuple[OriginPolicy, bytes | None]:
        """Follow the answers in the cache, as a fetch follows those of servers; return what is known, and the file."""
        state: Asking | Access = Asking.first(origin)
        since: float | None = None
        while isinstance(state, Asking):
            found = self._cache.retrieve(state.url)
            if found is None:
                return self._missing(origin, state.url)
            response, since = found
            if since is None:
                since = http_date(response.headers.get(b"Date") or b"")
            try:
                successful = response.status // 100 == 2
                codings = response.headers.getlist(b"Content-Encoding")
                body = decode(response.body, codings, self._settings.max_size + 1) if successful else b""
                location = response.headers.get(b"Location")
                statuses = self._settings.unreachable_statuses
                state = state.answered(response.status, location, body, unreachable_statuses=statuses)
            except DecodingError as error:
                state = Unreachable(response.status, str(error))
        if isinstance(state, Successful):
            return self._parsed(origin, state, math.inf if since is None else self._date() - since)
        return self._without_file(origin, state), None

    def _parsed(self, origin: Origin, access: Successful, age: float) -> tuple[OriginPolicy, bytes | None]:
        try:
            file = self._parse(access.body)
        except Exception as error:
            logger.exception("ROBOTSTXT_PARSER failed on %s", origin.robots_url)
            cause = f"ROBOTSTXT_PARSER raised {type(error).__name__}"
            return self._without_file(origin, Unreachable(access.status, cause)), None
        stale = age > self._settings.cache_max_age
        cause = access.cause
        if stale:
            cause = f"nothing is fetched, because {IGNORE_MISSING} is on"
            old = "of unknown age" if age == math.inf else f"{age / 86_400:.1f} days old"
            logger.info("%s is obeyed as the HTTP cache has it, %s: %s", origin.robots_url, old, cause)
        validity = Validity(Outcome.SUCCESSFUL, math.inf, unreachable_since=0.0 if stale else None)
        robots = OriginPolicy(origin, validity, access.status, cause, file, self._agent)
        return robots, zlib.compress(access.body, 1)

    def _missing(self, origin: Origin, url: str) -> tuple[OriginPolicy, None]:
        if not self._told:
            logger.info(
                "%s is not in the HTTP cache, and %s is on: nothing is fetched, so the cache answers or refuses each "
                "request to %s, and to all other sites of which it has no robots.txt",
                url,
                IGNORE_MISSING,
                origin,
            )
        self._told = True
        return self._without_file(origin, Unavailable(None, "not in the HTTP cache")), None

    def _without_file(self, origin: Origin, access: Access) -> OriginPolicy:
        return OriginPolicy(origin, Validity(access.outcome, math.inf), access.status, access.cause, None, self._agent)
