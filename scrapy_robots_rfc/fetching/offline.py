"""OfflineReplay, for crawls that must not send anything (HTTPCACHE_IGNORE_MISSING)."""

import contextlib
import logging
import math
from collections.abc import Callable
from typing import Any

from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.http import Request

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin

logger: logging.Logger = logging.getLogger(__name__)

_ALLOWED = Validity(Outcome.UNAVAILABLE, math.inf)


class OfflineReplay:
    """The `FixedPolicies` of an offline replay.

    Responses from the HTTP cache need no robots.txt, so it allows everything.

    :param agent: returns the crawl's own agent.
    """

    def __init__(self, crawler: Crawler, agent: Callable[[], Agent]) -> None:
        self._crawler = crawler
        self._agent = agent
        logger.info(
            "HTTPCACHE_IGNORE_MISSING is on, so nothing is requested. What the HTTP cache answers"
            " needs no robots.txt",
            extra={"spider": crawler.spider},
        )

    def policy(self, origin: Origin) -> OriginPolicy:
        """Return a policy that allows everything."""
        return OriginPolicy(origin, _ALLOWED, None, "not needed offline", None, self._agent)

    def problem(self, request: Request) -> str | None:
        """Return why a request must be dropped, or `None` if the HTTP cache handles it.

        If the cache ignores the request or wants to refresh its copy, Scrapy would send it.
        """
        reason = None
        cache = self._crawler.get_downloader_middleware(HttpCacheMiddleware)
        policy: Any = getattr(cache, "policy", None)
        storage: Any = getattr(cache, "storage", None)
        if policy is None or storage is None:
            reason = "no HTTP cache is at work (HTTPCACHE_ENABLED)"
        elif request.meta.get("dont_cache"):
            reason = "its meta has dont_cache"
        else:
            probe = request.copy()  # a policy adds conditional headers to the request
            # If this raises, HttpCacheMiddleware gets the same exception, and sends nothing.
            with contextlib.suppress(Exception):
                if not policy.should_cache_request(probe):
                    reason = "HTTPCACHE_POLICY stores no such request"
                else:
                    copy = storage.retrieve_response(self._crawler.spider, probe)
                    if copy is not None and not policy.is_cached_response_fresh(copy, probe):
                        reason = "HTTPCACHE_POLICY would confirm the copy by asking the site"
        if reason is None:
            return None
        return f"HTTPCACHE_IGNORE_MISSING is on, but this would be sent, because {reason}"
