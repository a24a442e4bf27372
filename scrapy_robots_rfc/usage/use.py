"""What a crawl is for (ROBOTS_USE), and what follows where a site refuses that use.

A request is not sent if robots.txt refuses all that it is for. A response is dropped if robots.txt,
its headers, its metas and tdmrep.json together refuse all of it. Otherwise the response carries
what is permitted, in its meta as `robots_use`. See `core/preferences.py` for what robots.txt and
headers say.
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
    of_headers,
    refused_by,
    unknown_labels,
    uses_of,
)
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.errors import AgentError, RobotsUndecided, SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.middleware.downloader import STALE_FOR, RfcRobotsTxtMiddleware, at_work
from scrapy_robots_rfc.policy.access import MAX_REDIRECTS, PROXY_REFUSES, target_of
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import read_settings
from scrapy_robots_rfc.usage.page_rules import count_cut, page_of, rules_of
from scrapy_robots_rfc.usage.rules import (
    MOST_TDMREP_OCTETS,
    TDMREP,
    Reservation,
    of_page,
    of_tdm,
    parse_tdmrep,
    reservation_of,
)

logger: logging.Logger = logging.getLogger(__name__)

_ByLabel = Mapping[str, Preference]

#: The meta key of what is permitted: label -> bool, or ``None`` if it is not known.
PERMITTED_KEY = "robots_use"
# How many labels of a page are in its meta that no draft has and the crawl does not declare. With
# these two bounds, thirty requests with that meta take less than 100 KB of JOBDIR.
_MOST_OTHERS = 32
# How many octets such a label has at most.
_LONGEST_LABEL = 64
# Header lines tdm-reservation that are read.
_MOST_RESERVATIONS = 100
# Sites whose tdmrep.json is stored; the one that was asked for first is dropped first.
_MOST_SITES = 10_000
# Statuses 4xx that say nothing about a file, beside ROBOTS_UNREACHABLE_STATUSES: the request did
# not arrive as a whole (408), or a proxy refused it (407).
_SAYS_NOTHING = (408, PROXY_REFUSES)
# A hop declares no use, so that robots.txt alone decides, and two sites never wait for each other's
# file.
_TDMREP_META: dict[str, Any] = {
    DECLARED_KEY: [],
    "allow_offsite": True,
    "dont_redirect": True,  # a spider may want redirects for itself
    "dont_retry": True,
    "dont_merge_cookies": True,
    "download_maxsize": MOST_TDMREP_OCTETS,
    "download_warnsize": 0,
}
# First word of what refuses a response -> its source, for the stats. All others are header lines.
_SOURCES = {"meta": "meta", TDMREP: "tdmrep"}
_ACCEPTED = "a list of labels, or a string with commas"


@dataclass(slots=True, eq=False, repr=False)
class _File:
    """What is known of the tdmrep.json of a site, until it is requested again.

    :param entries: none where there is no file, or they are unknown.
    :param waiters: requests that wait for a fetch; ``None``: no fetch is under way.
    """

    until: float = -math.inf
    entries: tuple[Reservation, ...] = ()
    waiters: list[Waiter[None]] | None = None
    warned: bool = False


class RfcUseMiddleware:
    """Downloader middleware that obeys what sites say of the uses that a crawl declares.

    It stands directly behind `RfcRobotsTxtMiddleware`, and looks at requests that robots.txt
    allows.

    :param crawler: the crawl.
    :raises NotConfigured: ROBOTS_USE is not set, or ROBOTSTXT_OBEY is off.
    :raises SettingError: a setting, or the spider's `robots_use`, is not accepted.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = read_settings(crawler.settings)
        if settings.use is None or not settings.obey:
            raise NotConfigured
        self._crawler = crawler
        self._count = stats.of(crawler).inc_value
        self._settings = settings
        self._files: LocalCache[Origin, _File] = LocalCache(_MOST_SITES)
        # What was known of robots.txt when a request was sent, and its preferences: they count, not
        # those of a later robots.txt.
        self._sent: WeakKeyDictionary[Request, tuple[OriginPolicy, _ByLabel]] = WeakKeyDictionary()
        # A typo refuses nothing.
        for label, near in unknown_labels(self._of_crawl()):
            logger.warning(
                "Declared use %r is not a known label: only a site that names it can refuse it; "
                "the nearest known label is %r",
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
        """Let a request through, unless robots.txt refuses all that it is for.

        :raises RobotsDisallowed: it does.
        :raises AgentError: meta `robots_declared_use` is not accepted.
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
        robots = service.cached(origin, request, stale_for=STALE_FOR, counted=False)
        robots = robots or await service.get(origin)
        if robots.exempt is not None:
            return
        tokens = self._robots.user_agents.of(request).tokens
        file = robots.robots
        preferences = {} if file is None else file.preferences(request.url, tokens)
        uses = self._of(request)
        self._sent[request] = robots, preferences
        request.meta[PERMITTED_KEY] = _permitted(uses, preferences)
        refusal = refused_by(uses, preferences)
        if refusal is not None:
            refusal = refusal._replace(why=f"{robots.source} {refusal.why}")
            self._refuse(request, "robots.txt", refusal, robots)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Let a response through, unless with its headers, metas and tdmrep.json all is refused.

        :raises RobotsDisallowed: it is.
        """
        if request not in self._sent:
            return response
        robots, preferences = self._sent.pop(request)
        uses = self._of(request)
        tdm = list[tuple[str, object]]()
        if TDM in uses and robots.origin.scheme in ("http", "https"):  # others have no such file
            tdm += reservation_of(await self._entries(request, robots), request.url)
        own = _of_response(response, self._robots.user_agents.of(request).tokens, tdm)
        preferences = combined(preferences, own)
        count_cut(response, self._count)
        request.meta[PERMITTED_KEY] = _permitted(uses, preferences)
        refusal = refused_by(uses, preferences) if own else None
        if refusal is not None:
            where = next((own[use].source for use in uses if use in own), "")
            source = _SOURCES.get(where.partition(" ")[0], "header")
            refusal = refusal._replace(by="its site" if source == "tdmrep" else "its page")
            self._refuse(request, source, refusal, robots)
        return response

    def _refuse(
        self, request: Request, source: str, refusal: Refusal, robots: OriginPolicy
    ) -> None:
        """Refuse a request or its response, unless a dry run did so before."""
        enforcement = self._robots.enforcement
        if request in enforcement.let_through:
            return
        self._count(stats.USE.format(source=source))
        decision = robots.decide(request.url, self._robots.user_agents.of(request))
        decision = decision._replace(allowed=False, reason=Reason.USE, rule=None)
        self._count(stats.ALLOWED, -1)  # RfcRobotsTxtMiddleware has counted it
        enforcement.refuse(request, decision, refusal, robots)

    def _of(self, request: Request) -> tuple[str, ...]:
        """Return what a request is for: by its meta, else by the spider, else by the setting."""
        if DECLARED_KEY not in request.meta:
            return self._of_crawl()
        value = request.meta[DECLARED_KEY]
        try:
            return uses_of(value) or ()
        except TypeError:
            raise AgentError(f"{DECLARED_KEY} is {value!r}; it must be {_ACCEPTED}") from None

    def _of_crawl(self) -> tuple[str, ...]:
        """Return what the spider declares, else what the setting does."""
        value = getattr(self._crawler.spider, USE_ATTRIBUTE, None)
        try:
            uses = uses_of(value)
        except TypeError:
            key = f"the spider's {USE_ATTRIBUTE}"
            raise SettingError(key, value, f"{_ACCEPTED}, or None") from None
        return (self._settings.use or ()) if uses is None else uses

    # The tdmrep.json of a site. It is requested like a page: each hop of its redirects is judged by
    # the robots.txt of its host, waits for its turn, and is counted.

    async def _entries(self, request: Request, robots: OriginPolicy) -> tuple[Reservation, ...]:
        """Return the entries of the file of a page's site; none where they are unknown.

        The file is requested by the route of its page, and used for as long as its robots.txt.
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
            except Exception as error:  # noqa: BLE001 - the site reserved nothing by it
                self._failed(file, robots.origin, error)
            finally:
                file.waiters = None
                for waiter in waiters:
                    waiter.resolve(None)
        return file.entries

    def _failed(self, file: _File, origin: Origin, error: Exception) -> None:
        """Have a file requested again, unless a rule forbids it or the spider was closed."""
        decision = getattr(error, "decision", None)
        forbidden = decision is not None and decision.reason is not Reason.UNREACHABLE
        if forbidden or isinstance(error, RobotsUndecided):
            return
        pause = self._settings.unreachable_ttl
        file.until = min(file.until, Runtime().clock() + pause)
        if not file.warned:
            file.warned = True
            logger.warning(
                "%s%s cannot be read (%s): whether the site reserves text and data mining is "
                "unknown, its pages go on; the file is requested again after %g s",
                origin,
                TDMREP,
                error_text(error),
                pause,
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
                return ()  # that is an answer: there is no file
            if response.status // 100 != 3:
                raise ValueError(f"status {response.status}")
            url = target_of(url, response.headers.get(b"Location"))
        raise ValueError(f"more than {MAX_REDIRECTS} redirects")


def _permitted(uses: tuple[str, ...], preferences: _ByLabel) -> dict[str, bool | None]:
    """Return what is permitted, for meta; it is bounded, since meta may be stored in JOBDIR."""
    known = {*uses, *LABELS}
    others = (
        label
        for label in preferences
        if label not in known and len(label.encode()) <= _LONGEST_LABEL
    )
    shown = [*(label for label in preferences if label in known), *islice(others, _MOST_OTHERS)]
    return {**dict.fromkeys(uses), **{label: preferences[label].allowed for label in shown}}


def _of_response(
    response: Response, tokens: Sequence[str], tdm: list[tuple[str, object]]
) -> _ByLabel:
    """Return what a response says, and `tdm`: where its tdmrep.json says something, and what."""
    get_lines = response.headers.getlist
    stated, cut = of_headers(get_lines("Content-Usage"), get_lines("Content-Signal"))
    lines = get_lines("tdm-reservation")
    if cut or len(lines) > _MOST_RESERVATIONS:
        page_of(response).cut = True
    headers = [
        ("header tdm-reservation", line.decode("latin-1")) for line in lines[:_MOST_RESERVATIONS]
    ]
    metas = [
        (f"meta {name.strip()}", content)
        for name, content in page_of(response).metas
        if name.strip().lower() == "tdm-reservation"
    ]
    rules = rules_of(response, tokens)
    return combined(stated, of_page(rules), of_tdm(*tdm, *headers, *metas))
