"""Drop requests and responses whose site refuses the declared uses of a crawl (ROBOTS_USE).

A request is not sent if robots.txt refuses all its uses. A response is dropped if robots.txt, its
headers, its metas and tdmrep.json together refuse all of them. Otherwise the meta key `robots_use`
of the response says which uses are permitted. `core/preferences.py` reads robots.txt and headers.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
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
from scrapy_robots_rfc.core.percent import request_target
from scrapy_robots_rfc.core.preferences import (
    DECLARED_KEY,
    LABELS,
    TDM,
    USE_ATTRIBUTE,
    Preference,
    combined,
    find_refusal,
    header_preferences,
    parse_uses,
    unknown_labels,
)
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.errors import AgentError, RobotsUndecided, SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware, at_work
from scrapy_robots_rfc.policy.access import MAX_REDIRECTS, PROXY_REFUSES, target_of
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

#: The meta key for permitted uses: label -> bool, or `None` if the site does not say.
PERMITTED_KEY = "robots_use"
# Maximum labels in meta that no draft has and the crawl does not declare, and their maximum size
# in bytes. Thirty requests with such meta take less than 100 KB of JOBDIR.
_MAX_OTHERS = 32
_MAX_LABEL = 64
# Maximum number of `tdm-reservation` header lines to read.
_MAX_RESERVATIONS = 100
# Maximum sites whose tdmrep.json is kept; the oldest is dropped first.
_MAX_SITES = 10_000
# Statuses 4xx that say nothing about the file, besides ROBOTS_UNREACHABLE_STATUSES: the request was
# incomplete (408), or a proxy refused it (407).
_SAYS_NOTHING = (408, PROXY_REFUSES)
# Requests for the file declare no use. So robots.txt alone decides about them, and two sites never
# wait for each other's file.
_TDMREP_META: dict[str, Any] = {
    DECLARED_KEY: [],
    "allow_offsite": True,
    "dont_redirect": True,  # a spider may want redirects for itself
    "dont_retry": True,
    "dont_merge_cookies": True,
    "download_maxsize": MAX_TDMREP_BYTES,
    "download_warnsize": 0,
}
# First word of the place that refuses a response -> its source, for the stats. Other places are
# header lines.
_SOURCES = {"meta": "meta", TDMREP: "tdmrep"}
_ACCEPTED = "a list of labels, or a string with commas"


@dataclass(slots=True, eq=False, repr=False)
class _File:
    """The cached tdmrep.json of a site.

    :param until: when to fetch it again, on `Runtime.clock`.
    :param entries: its entries, empty if the site has none or they could not be read.
    :param waiters: requests that wait for the current fetch, or `None` without one.
    """

    until: float = -math.inf
    entries: tuple[Reservation, ...] = ()
    waiters: list[Waiter[None]] | None = None


class RfcUseMiddleware:
    """Downloader middleware that obeys what sites say about the declared uses of a crawl.

    Its place is directly after `RfcRobotsTxtMiddleware`; it handles requests that robots.txt
    allows.

    :raises NotConfigured: if ROBOTS_USE is not set, or ROBOTSTXT_OBEY is off.
    :raises SettingError: if a setting, or the spider's `robots_use`, is not accepted.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = read_settings(crawler.settings)
        if settings.use is None or not settings.obey:
            raise NotConfigured
        self._crawler = crawler
        self._count = stats.counter(crawler)
        self._settings = settings
        self._files: LocalCache[Origin, _File] = LocalCache(_MAX_SITES)
        self._warned = False
        # Request -> the robots.txt and its preferences when the request was sent. A later
        # robots.txt does not count for it.
        self._sent: WeakKeyDictionary[Request, tuple[OriginPolicy, _ByLabel]] = WeakKeyDictionary()
        # No site refuses a misspelled use.
        for label, near in unknown_labels(self._of_crawl()):
            logger.warning(
                "The declared use %r is not a known label, so only sites that name it can refuse "
                "it; did you mean %r?",
                label,
                near,
                extra={"spider": crawler.spider},
            )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        return cls(crawler)

    @cached_property
    def _robots(self) -> RfcRobotsTxtMiddleware:
        return at_work(self._crawler)

    async def process_request(self, request: Request) -> None:
        """Check the uses of a request against robots.txt.

        :raises RobotsDisallowed: if robots.txt refuses all of them.
        :raises AgentError: if meta `robots_declared_use` is not accepted.
        """
        # A callback may have copied the meta of another page.
        request.meta.pop(PERMITTED_KEY, None)
        origin = self._robots.origin_of(request)
        # A robots.txt may always be fetched (RFC 9309, 2.2.2).
        own = request_target(request.url) == ROBOTS_TXT
        if origin is None or own or request.meta.get("dont_obey_robotstxt"):
            return
        service = self._robots.service
        # It may have been judged by a file that is not fresh any more.
        robots = self._robots.known(origin, request, counted=False)
        robots = robots or await service.get(origin)
        if robots.exempt is not None:
            return
        tokens = self._robots.user_agents.of(request).tokens
        file = robots.robots
        preferences = {} if file is None else file.preferences(request.url, tokens)
        uses = self._of(request)
        self._sent[request] = robots, preferences
        request.meta[PERMITTED_KEY] = _permitted(uses, preferences)
        refusal = find_refusal(uses, preferences)
        if refusal is not None:
            refusal = refusal._replace(why=f"{robots.source} {refusal.why}")
            self._refuse(request, "robots.txt", refusal, robots)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Check the uses of a response, also against its headers, metas and tdmrep.json.

        :raises RobotsDisallowed: if all of them are refused.
        """
        if request not in self._sent:
            return response
        robots, preferences = self._sent.pop(request)
        uses = self._of(request)
        tdm = list[tuple[str, object]]()
        # Sites of other schemes do not have the file.
        if TDM in uses and robots.origin.scheme in ("http", "https"):
            tdm += find_reservation(await self._entries(request, robots), request.url)
        own = _of_response(response, self._robots.user_agents.of(request).tokens, tdm)
        preferences = combined(preferences, own)
        count_cut(response, self._count)
        request.meta[PERMITTED_KEY] = _permitted(uses, preferences)
        refusal = find_refusal(uses, preferences) if own else None
        if refusal is not None:
            where = next((own[use].source for use in uses if use in own), "")
            source = _SOURCES.get(where.partition(" ")[0], "header")
            refusal = refusal._replace(by="its site" if source == "tdmrep" else "its page")
            self._refuse(request, source, refusal, robots)
        return response

    def _refuse(
        self, request: Request, source: str, refusal: Refusal, robots: OriginPolicy
    ) -> None:
        """Drop a request or its response, unless a dry run has already let it through."""
        enforcement = self._robots.enforcement
        if request in enforcement.let_through:
            return
        self._count(stats.USE.format(source=source))
        decision = robots.decide(request.url, self._robots.user_agents.of(request))
        decision = decision._replace(allowed=False, reason=Reason.USE, rule=None)
        self._count(stats.ALLOWED, -1)  # RfcRobotsTxtMiddleware has counted it as allowed
        enforcement.drop(request, decision, refusal, robots)

    def _of(self, request: Request) -> tuple[str, ...]:
        """Return the uses declared in the request's meta, or the uses of the crawl."""
        if DECLARED_KEY not in request.meta:
            return self._of_crawl()
        value = request.meta[DECLARED_KEY]
        try:
            return parse_uses(value) or ()
        except TypeError:
            raise AgentError(f"{DECLARED_KEY} is {value!r}; it must be {_ACCEPTED}") from None

    def _of_crawl(self) -> tuple[str, ...]:
        """Return the uses that the spider declares, or else the setting."""
        value = getattr(self._crawler.spider, USE_ATTRIBUTE, None)
        try:
            uses = parse_uses(value)
        except TypeError:
            key = f"the spider's {USE_ATTRIBUTE}"
            raise SettingError(key, value, f"{_ACCEPTED}, or None") from None
        return (self._settings.use or ()) if uses is None else uses

    # The tdmrep.json of a site. It is requested like a page: robots.txt applies to each hop of its
    # redirects, and each waits for its site's turn and is counted.

    async def _entries(self, request: Request, robots: OriginPolicy) -> tuple[Reservation, ...]:
        """Return the entries of the file of a page's site, or none if it cannot be read.

        The file is fetched through the proxy of its page, and expires with the site's robots.txt.
        """
        file = self._files.setdefault(robots.origin, _File())
        if file.waiters is not None:
            waiter: Waiter[None] = Waiter()
            file.waiters.append(waiter)
            await waiter
        elif Runtime().clock() >= file.until:
            file.until = robots.validity.fresh_until
            file.entries = ()
            file.waiters = waiters = list[Waiter[None]]()
            try:
                file.entries = await self._fetch(request, robots.origin)
            except Exception as error:  # noqa: BLE001 - then the reservation is unknown
                self._failed(file, robots.origin, error)
            finally:
                file.waiters = None
                for waiter in waiters:
                    waiter.resolve(None)
        return file.entries

    def _failed(self, file: _File, origin: Origin, error: Exception) -> None:
        """Schedule another fetch, unless a rule disallows it or the spider was closed."""
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
            "Cannot read %s%s (%s): it is unknown whether the site reserves text and data mining, "
            "so its pages are fetched. Next attempt in %g s. Further failures are logged at DEBUG",
            origin,
            TDMREP,
            error_text(error),
            delay,
            extra={"spider": self._crawler.spider},
        )

    async def _fetch(self, page: Request, origin: Origin) -> tuple[Reservation, ...]:
        assert self._crawler.engine is not None
        url: str | None = f"{origin}{TDMREP}"
        for _ in range(MAX_REDIRECTS + 1):
            if url is None:
                raise ValueError("a redirect without a usable Location")
            meta = {**_TDMREP_META, "download_timeout": self._settings.timeout}
            headers: dict[bytes, bytes] = {}
            self._robots.service.download.inherit_route(page, url, meta, headers)
            request = Request(url, callback=NO_CALLBACK, meta=meta, headers=headers)
            response = await self._crawler.engine.download_async(request)
            if response.status // 100 == 2:
                return parse_tdmrep(response.body)
            says_nothing = {*_SAYS_NOTHING, *self._settings.unreachable_statuses}
            if response.status // 100 == 4 and response.status not in says_nothing:
                return ()  # the site has no such file
            if response.status // 100 != 3:
                raise ValueError(f"status {response.status}")
            url = target_of(url, response.headers.get(b"Location"))
        raise ValueError(f"more than {MAX_REDIRECTS} redirects")


def _permitted(uses: tuple[str, ...], preferences: _ByLabel) -> dict[str, bool | None]:
    """Return the permitted uses for meta. Their number is bounded, because JOBDIR stores meta."""
    known = {*uses, *LABELS}
    others = (
        label for label in preferences if label not in known and len(label.encode()) <= _MAX_LABEL
    )
    shown = [*(label for label in preferences if label in known), *islice(others, _MAX_OTHERS)]
    return {**dict.fromkeys(uses), **{label: preferences[label].allowed for label in shown}}


def _of_response(
    response: Response, tokens: Sequence[str], tdm: list[tuple[str, object]]
) -> _ByLabel:
    """Return the preferences of a response.

    :param tdm: places and values of its tdmrep.json.
    """
    get_lines = response.headers.getlist
    stated, cut = header_preferences(get_lines("Content-Usage"), get_lines("Content-Signal"))
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
    return combined(stated, page_preferences(rules), tdm_preferences(*tdm, *headers, *metas))
