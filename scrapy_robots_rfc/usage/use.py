"""Drop requests and responses if the site disallows the crawl's declared uses (ROBOTS_USE).

A request is dropped if robots.txt disallows any of its uses. A response is dropped if its headers,
its meta tags or tdmrep.json disallow any. Otherwise, the response's `robots_use` meta key contains
the permitted uses.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc.core.decision import Reason, Refusal
from scrapy_robots_rfc.core.preferences import (
    DECLARED_KEY,
    LABELS,
    TDM,
    TRAIN_AI,
    USE_ATTRIBUTE,
    Preference,
    combined,
    parse_uses,
)
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.core.uses import find_refusal, header_preferences, unknown_labels
from scrapy_robots_rfc.errors import AgentError, RobotsUndecided, SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware, running_middleware
from scrapy_robots_rfc.middleware.enforcement import STARTS_SESSION
from scrapy_robots_rfc.policy.access import (
    MAX_REDIRECTS,
    OTHER_HOST,
    PROXY_REFUSES,
    is_same_host,
    target_of,
)
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import read_settings
from scrapy_robots_rfc.usage.page_rules import count_cut, page_of, rules_of
from scrapy_robots_rfc.usage.rules import (
    MAX_TDMREP_BYTES,
    TDMREP,
    Reservation,
    find_reservation,
    page_preferences,
    parse_tdmrep,
    tdm_preferences,
)

logger: logging.Logger = logging.getLogger(__name__)

_ByLabel = Mapping[str, Preference]

#: The meta key for permitted uses. It maps each label to a bool, or to `None` if there is no
#: preference.
PERMITTED_KEY = "robots_use"
# Maximum number of unknown labels to store in meta, and maximum size of each in bytes. These limits
# exist because meta is saved in JOBDIR.
_MAX_OTHERS = 32
_MAX_LABEL = 64
# Maximum number of `tdm-reservation` header lines to read.
_MAX_RESERVATIONS = 100
# Maximum number of sites for which to cache tdmrep.json.
_MAX_SITES = 10_000
# 4xx statuses, besides ROBOTS_UNREACHABLE_STATUSES, that do not tell us whether the file exists.
# 408 is a timeout, and 407 comes from a proxy.
_UNKNOWN_STATUSES = (408, PROXY_REFUSES)
# The uses that a TDMRep reservation disallows.
_RESERVED = frozenset({TDM, TRAIN_AI})
# Requests for a tdmrep.json do not declare any uses, so that they never wait for another
# tdmrep.json.
_TDMREP_META: dict[str, Any] = {
    DECLARED_KEY: [],
    "allow_offsite": True,
    "dont_redirect": True,  # we follow redirects ourselves
    "dont_retry": True,
    "dont_merge_cookies": True,
    "download_maxsize": MAX_TDMREP_BYTES,
    "download_warnsize": 0,
    "zyte_api_session_enabled": False,  # no session should start with a tdmrep.json
}
# Maps the first word of a preference's source to its name in stat keys. All others are headers.
_SOURCES = {"meta": "meta", TDMREP: "tdmrep"}
_ACCEPTED = "a list or a comma-separated string of labels"


@dataclass(slots=True, eq=False, repr=False)
class _File:
    """A site's cached tdmrep.json.

    :param until: the time when it expires, according to `Runtime.clock`.
    :param entries: the entries, or an empty tuple if the file is missing or unreadable.
    :param waiters: the requests that are waiting for the current fetch, or `None` if there is no
        fetch.
    """

    until: float = -math.inf
    entries: tuple[Reservation, ...] = ()
    waiters: list[Waiter[None]] | None = None


class RfcUseMiddleware:
    """Downloader middleware that drops requests and responses if their uses are disallowed.

    It must come right after `RfcRobotsTxtMiddleware`.

    :raises NotConfigured: if ROBOTS_USE is not set, or ROBOTSTXT_OBEY is False.
    :raises SettingError: if a setting or the spider's `robots_use` is not accepted.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = read_settings(crawler.settings)
        if settings.use is None or not settings.obey:
            raise NotConfigured
        self._crawler = crawler
        self._count = stats.of(crawler).inc_value
        self._settings = settings
        self._files: LocalCache[Origin, _File] = LocalCache(_MAX_SITES)
        self._warned = False
        # Request -> the robots.txt that applied when the request was sent, and its preferences.
        self._sent: WeakKeyDictionary[Request, tuple[OriginPolicy, _ByLabel]] = WeakKeyDictionary()
        self._warned_of: set[str] = set()
        self._warn_of_unknown(self._uses_of_crawl())

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the middleware."""
        return cls(crawler)

    def _warn_of_unknown(self, uses: tuple[str, ...]) -> None:
        """Warn once about each unknown label."""
        for label, hint in unknown_labels(use for use in uses if use not in self._warned_of):
            self._warned_of.add(label)
            logger.warning(
                "The declared use %r is not a known label, so it also declares all known ones; %s",
                label,
                hint,
                extra={"spider": self._crawler.spider},
            )

    @cached_property
    def _robots(self) -> RfcRobotsTxtMiddleware:
        return running_middleware(self._crawler)

    def process_request(self, request: Request) -> None:
        """Check a request's uses against robots.txt.

        :raises RobotsDisallowed: if robots.txt disallows any of them.
        :raises AgentError: if `robots_declared_use` in meta is not accepted.
        """
        # A callback may have copied this from another page's meta.
        request.meta.pop(PERMITTED_KEY, None)
        self._sent.pop(request, None)  # the same object may have been sent before
        policy = self._robots.enforcement.judged_by.pop(request, None)
        if policy is None:  # robots.txt doesn't apply to the request, or its site is exempt
            return
        tokens = self._robots.user_agents.of(request).tokens
        file = policy.robots
        preferences = {} if file is None else file.preferences(request.url, tokens)
        uses = self._uses_of(request)
        self._sent[request] = policy, preferences
        request.meta[PERMITTED_KEY] = _permitted(uses, preferences)
        refusal = find_refusal(uses, preferences)
        if refusal is not None:
            refusal = refusal._replace(why=f"{policy.source} {refusal.why}")
            self._refuse(request, "robots.txt", refusal, policy)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Check a response's uses against its headers, its meta tags and tdmrep.json.

        :raises RobotsDisallowed: if any of them is disallowed.
        """
        if request not in self._sent or request.meta.get(STARTS_SESSION):
            return response
        policy, preferences = self._sent.pop(request)
        uses = self._uses_of(request)
        tdm = list[tuple[str, object]]()
        # TDMRep is only defined for HTTP.
        if not _RESERVED.isdisjoint(uses) and policy.origin.scheme in ("http", "https"):
            tdm += find_reservation(await self._entries(request, policy), request.url)
        own = response_preferences(response, self._robots.user_agents.of(request).tokens, tdm)
        count_cut(response, self._count)
        request.meta[PERMITTED_KEY] = _permitted(uses, combined(preferences, own))
        refusal = find_refusal(uses, own)
        if refusal is not None:
            where = next(
                one.source for use in uses if (one := own.get(use)) and one.allowed is False
            )
            source = _SOURCES.get(where.partition(" ")[0], "header")
            refusal = refusal._replace(by="its site" if source == "tdmrep" else "its page")
            self._refuse(request, source, refusal, policy)
        return response

    def _refuse(
        self, request: Request, source: str, refusal: Refusal, policy: OriginPolicy
    ) -> None:
        """Drop a request or its response, unless it has already been let through in a dry run."""
        enforcement = self._robots.enforcement
        if request in enforcement.let_through:
            return
        self._count(stats.USE.format(source=source))
        decision = policy.decide(request.url, self._robots.user_agents.of(request))
        decision = decision._replace(allowed=False, reason=Reason.USE, rule=None)
        self._count(stats.ALLOWED, -1)  # RfcRobotsTxtMiddleware counted it as allowed
        enforcement.drop(request, decision, refusal, policy)

    def _uses_of(self, request: Request) -> tuple[str, ...]:
        """Return the uses declared in the request meta, or else the crawl's uses."""
        value = request.meta.get(DECLARED_KEY)
        try:
            uses = parse_uses(value)
        except TypeError:
            if request not in self._robots.enforcement.let_through:
                self._count(stats.ALLOWED, -1)  # as in `_refuse`
            raise AgentError(f"{DECLARED_KEY} is {value!r}, but it must be {_ACCEPTED}") from None
        if uses is None:
            return self._uses_of_crawl()
        self._warn_of_unknown(uses)
        return uses

    def _uses_of_crawl(self) -> tuple[str, ...]:
        """Return the uses declared by the spider, or else by ROBOTS_USE."""
        value = getattr(self._crawler.spider, USE_ATTRIBUTE, None)
        try:
            uses = parse_uses(value)
        except TypeError:
            key = f"the spider's {USE_ATTRIBUTE}"
            raise SettingError(key, value, f"{_ACCEPTED}, or None") from None
        return (self._settings.use or ()) if uses is None else uses

    # Fetch a site's tdmrep.json. It is requested like a page, so robots.txt and the interval
    # between requests apply to it and its redirects.

    async def _entries(self, request: Request, policy: OriginPolicy) -> tuple[Reservation, ...]:
        """Return the entries in a site's tdmrep.json, or an empty tuple if it cannot be read.

        The file is fetched through the same proxy as the page, and expires together with
        robots.txt.
        """
        file = self._files.setdefault(policy.origin, _File())
        if file.waiters is not None:
            waiter: Waiter[None] = Waiter()
            file.waiters.append(waiter)
            await waiter
        elif Runtime().clock() >= file.until:
            file.until = policy.validity.fresh_until
            file.entries = ()
            file.waiters = waiters = list[Waiter[None]]()
            try:
                file.entries = await self._fetch(request, policy.origin)
            except Exception as error:  # noqa: BLE001 - handlers may raise anything
                self._failed(file, policy.origin, error)
            finally:
                file.waiters = None
                for waiter in waiters:
                    waiter.resolve(None)
        return file.entries

    def _failed(self, file: _File, origin: Origin, error: Exception) -> None:
        """Log a failed fetch and schedule the next one, unless the file is disallowed."""
        decision = getattr(error, "decision", None)
        is_disallowed = decision is not None and decision.reason is not Reason.UNREACHABLE
        if is_disallowed or isinstance(error, RobotsUndecided):
            return
        delay = self._settings.unreachable_ttl
        file.until = min(file.until, Runtime().clock() + delay)
        level = logging.DEBUG if self._warned else logging.WARNING
        self._warned = True
        logger.log(
            level,
            "Cannot read %s%s (%s). The site may or may not reserve text and data mining, so its "
            "pages are fetched. The next attempt is in %g s. Further failures are logged at DEBUG",
            origin,
            TDMREP,
            error_text(error),
            delay,
            extra={"spider": self._crawler.spider},
        )

    async def _fetch(self, page: Request, origin: Origin) -> tuple[Reservation, ...]:
        """Fetch and parse a site's tdmrep.json, following redirects."""
        assert self._crawler.engine is not None
        url: str | None = f"{origin}{TDMREP}"
        for _ in range(MAX_REDIRECTS + 1):
            if url is None:
                raise ValueError("a redirect without a usable Location")
            if self._settings.same_host_only and not is_same_host(str(origin), url):
                raise ValueError(OTHER_HOST)
            meta = {**_TDMREP_META, "download_timeout": self._settings.timeout}
            headers: dict[bytes, bytes] = {}
            self._robots.service.download.inherit_route(page, url, meta, headers)
            request = Request(url, callback=NO_CALLBACK, meta=meta, headers=headers)
            response = await self._crawler.engine.download_async(request)
            if response.status // 100 == 2:
                return parse_tdmrep(response.body)
            unknown_statuses = {*_UNKNOWN_STATUSES, *self._settings.unreachable_statuses}
            if response.status // 100 == 4 and response.status not in unknown_statuses:
                return ()  # the site does not have this file
            if response.status // 100 != 3:
                raise ValueError(f"status {response.status}")
            url = target_of(url, response.headers.get(b"Location"))
        raise ValueError(f"more than {MAX_REDIRECTS} redirects")


def _permitted(uses: tuple[str, ...], preferences: _ByLabel) -> dict[str, bool | None]:
    """Return the permitted uses to store in meta, with a limit on unknown labels."""
    known = {*uses, *LABELS}
    permitted: dict[str, bool | None] = dict.fromkeys(uses)
    others = 0
    for label, preference in preferences.items():
        if label not in known:
            if others == _MAX_OTHERS or len(label.encode()) > _MAX_LABEL:
                continue
            others += 1
        permitted[label] = preference.allowed
    return permitted


def response_preferences(
    response: Response, tokens: Sequence[str], tdm: Sequence[tuple[str, object]] = ()
) -> _ByLabel:
    """Return the preferences from a response's headers, meta tags and TDMRep values.

    :param tdm: the result of `find_reservation`.
    """
    get_lines = response.headers.getlist
    by_header, cut = header_preferences(get_lines("Content-Usage"), get_lines("Content-Signal"))
    lines = get_lines("tdm-reservation")
    if cut or len(lines) > _MAX_RESERVATIONS:
        page_of(response).cut = True
    headers = [
        ("header tdm-reservation", line.decode("latin-1")) for line in lines[:_MAX_RESERVATIONS]
    ]
    metas = [
        (f"meta {name.strip()}", content)
        for name, content in page_of(response).metas
        if name.strip().lower() == "tdm-reservation"
    ]
    rules = rules_of(response, tokens)
    return combined(by_header, page_preferences(rules), tdm_preferences(*tdm, *headers, *metas))
