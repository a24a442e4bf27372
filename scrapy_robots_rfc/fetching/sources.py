"""Sources for a robots.txt other than its site.

`leaves.py` defines which setting loads which source. Scrapy's HTTP cache stores robots.txt
responses and returns them in offline replays (HTTPCACHE_IGNORE_MISSING), where nothing is sent.
"""

import contextlib
import logging
from email.utils import formatdate
from functools import cached_property
from typing import Any, Protocol

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.text import utc_text
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import PROXY_REFUSES
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

# Headers that describe the transfer, so they don't match the decoded body that is stored.
_TRANSFER_HEADERS = (b"Content-Encoding", b"Content-Length", b"Transfer-Encoding")
# Headers to keep from a stored response.
_FILE_HEADERS = ("Content-Encoding", "Location")


class Source(Protocol):
    """A source that doesn't need a request, such as the user's exceptions."""

    def robots(self, origin: Origin) -> OriginPolicy | None:
        """Return the policy for an origin, or `None` to fetch the file from its site."""


class HttpCache:
    """A crawl's HTTP cache, which is off unless HTTPCACHE_ENABLED is set.

    :param crawler: its engine doesn't have to exist yet.
    """

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        self._crawler = crawler
        self._settings = settings
        #: True if no requests may be sent.
        self.offline: bool = crawler.settings.getbool("HTTPCACHE_IGNORE_MISSING")
        self._runtime = Runtime()
        # Whether we have logged that a file is missing, old, or couldn't be stored. Each is only
        # logged once, because it may affect all sites.
        self._logged_missing = False
        self._logged_old = False
        self._logged_failure = False

    @cached_property
    def _policy_and_storage(self) -> tuple[Any, Any] | None:
        """The cache's policy and storage, or `None` if there is no cache."""
        return _scrapy.cache_of(self._crawler)

    def store(self, url: str, response: Response, body: bytes) -> None:
        """Store a response with rules, or one that means there are none, if the policy allows it.

        :param url: the URL that was requested.
        :param body: the decoded body of the response.
        """
        status = self._settings.schemes[url.partition(":")[0]].http_status(response.status)
        # These statuses, and 5xx, don't tell whether the site has a file.
        tells_nothing = status in (304, PROXY_REFUSES, *self._settings.unreachable_statuses)
        if self._policy_and_storage is None or tells_nothing or not 200 <= status < 500:
            return
        policy, storage = self._policy_and_storage
        # The request that was sent may contain proxy credentials, which must not be stored.
        request = Request(url)
        stored = response.replace(body=body, flags=[])
        for name in _TRANSFER_HEADERS:
            stored.headers.pop(name, None)
        # Like HttpCacheMiddleware, add this header, because policies need it.
        stored.headers.setdefault(b"Date", formatdate(usegmt=True))
        try:
            cacheable = policy.should_cache_response(stored, request)
            if cacheable and policy.should_cache_request(request):
                storage.store_response(self._crawler.spider, request, stored)
        except Exception:
            if not self._logged_failure:
                self._logged_failure = True
                logger.warning("Cannot store %s in the HTTP cache", url, exc_info=True)

    def stored_response(self, url: str) -> Response | None:
        """Return the stored response for a URL, however old, or `None` if there is none.

        Used in offline replays, where nothing can be fetched (HTTPCACHE_IGNORE_MISSING).
        """
        request = Request(url)
        response: Response | None = None
        try:
            if self._policy_and_storage is not None:
                storage = self._policy_and_storage[1]
                response = storage.retrieve_response(self._crawler.spider, request)
        except Exception:
            text = "Cannot read %s from the HTTP cache, so it counts as missing"
            logger.warning(text, url, exc_info=True)
        if response is None:
            self._log_missing(url)
            return None
        stored_at = request.meta.get("cache_timestamp")  # set by the storage
        self._note_age(url, stored_at)
        # Drop the headers about its age, which would trigger another fetch.
        headers = {name: response.headers.getlist(name) for name in _FILE_HEADERS}
        return response.replace(headers=headers)

    def _log_missing(self, url: str) -> None:
        """Log once that a robots.txt is not in the HTTP cache."""
        if self._logged_missing:
            return
        self._logged_missing = True
        logger.info(
            "%s is not in the HTTP cache, and cannot be fetched because"
            " HTTPCACHE_IGNORE_MISSING is on, so requests to such sites are answered from"
            " the cache or dropped",
            url,
        )

    def _note_age(self, url: str, stored_at: float | None) -> None:
        """Log once if a stored robots.txt is older than a crawl would normally accept.

        :param stored_at: when it was stored, as a Unix timestamp, or `None` before Scrapy 2.19.
        """
        if stored_at is None or self._logged_old:
            return
        if self._runtime.date() - stored_at > self._settings.cache_max_age:
            self._logged_old = True
            logger.info(
                "%s in the HTTP cache was stored on %s. It is used regardless of its age, because"
                " this is an offline replay; set HTTPCACHE_EXPIRATION_SECS to limit its age",
                url,
                utc_text(stored_at),
            )

    def offline_problem(self, request: Request) -> str | None:
        """Return why an offline request must be dropped, or `None` if the HTTP cache handles it.

        If the cache ignores the request or wants to refresh its copy, Scrapy would send it, even
        though robots.txt can't be fetched in an offline replay.
        """
        reason = None
        if self._policy_and_storage is None:
            reason = "no HTTP cache is at work (HTTPCACHE_ENABLED)"
        elif request.meta.get("dont_cache"):
            reason = "its meta has dont_cache"
        else:
            policy, storage = self._policy_and_storage
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
        return f"HTTPCACHE_IGNORE_MISSING is on, so this must not be sent, and would be: {reason}"
