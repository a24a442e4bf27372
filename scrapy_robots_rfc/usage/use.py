"""What a crawl is for (ROBOTS_USE), and what follows where a site refuses that use.

A request is not sent if robots.txt refuses all that it is for. A response is dropped if its headers
or metas refuse all of it. Otherwise the response carries what is permitted, in its meta as
`robots_use`. See `core/preferences.py` for what sites say.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from typing import Self
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.core.agents import Agent
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
from scrapy_robots_rfc.errors import AgentError, SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.middleware.downloader import STALE_FOR, RfcRobotsTxtMiddleware, at_work
from scrapy_robots_rfc.settings import read_settings
from scrapy_robots_rfc.usage.html import is_cut, page_of, rules_of
from scrapy_robots_rfc.usage.reservations import of_page, of_tdm, reservation_of
from scrapy_robots_rfc.usage.tdmrep import PATH, TdmFiles

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
# First word of what refuses a response -> its source, for the stats. All others are header lines.
_SOURCES = {"meta": "meta", PATH: "tdmrep"}
_ACCEPTED = "a list of labels, or a string with commas"


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
        assert crawler.stats is not None
        self._crawler = crawler
        self._count = crawler.stats.inc_value
        self._settings = settings
        self._files = TdmFiles(crawler, settings)
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
            found = reservation_of(await self._files.of(request, robots) or (), request.url)
            tdm += [] if found is None else [(f"{PATH} {found.location}", found.reservation)]
        own = _of_response(response, self._robots.user_agents.of(request), tdm)
        preferences = combined(preferences, own)
        if is_cut(response):
            self._count(stats.PAGE_CUT)
        request.meta[PERMITTED_KEY] = _permitted(uses, preferences)
        refusal = refused_by(uses, preferences) if own else None
        if refusal is not None:
            where = next((own[use].source for use in uses if use in own), "")
            source = _SOURCES.get(where.partition(" ")[0], "header")
            by = "its site" if source == "tdmrep" else "its page"
            self._refuse(request, source, refusal._replace(by=by), robots)
        return response

    def _refuse(
        self, request: Request, source: str, refusal: Refusal, robots: OriginPolicy
    ) -> None:
        """Refuse a request or its response, unless a dry run did so before."""
        enforcement = self._robots.enforcement
        if request in enforcement.let_through:
            return
        self._count(stats.USE.format(source=source))
        judged = robots.decide(request.url, self._robots.user_agents.of(request))
        decision = judged._replace(allowed=False, reason=Reason.USE, rule=None)
        self._count(stats.ALLOWED, -1)  # RfcRobotsTxtMiddleware has counted it
        enforcement.refuse(request, decision, refusal, robots)

    def _of(self, request: Request) -> tuple[str, ...]:
        """Return what a request is for: by its meta, else by the spider, else by the setting."""
        if DECLARED_KEY in request.meta:
            try:
                return uses_of(request.meta[DECLARED_KEY]) or ()
            except TypeError:
                wrong = request.meta[DECLARED_KEY]
                text = f"{DECLARED_KEY} is {wrong!r}; it must be {_ACCEPTED}"
                raise AgentError(text) from None
        return self._of_crawl()

    def _of_crawl(self) -> tuple[str, ...]:
        """Return what the spider declares, else what the setting does."""
        value = getattr(self._crawler.spider, USE_ATTRIBUTE, None)
        try:
            uses = uses_of(value)
        except TypeError:
            raise SettingError(
                f"the spider's {USE_ATTRIBUTE}", value, f"{_ACCEPTED}, or None"
            ) from None
        return (self._settings.use or ()) if uses is None else uses


def _of_response(response: Response, agent: Agent, tdm: list[tuple[str, object]]) -> _ByLabel:
    """Return what a response says, and `tdm`: where its tdmrep.json says something, and what."""
    get_lines = response.headers.getlist
    reservations = get_lines("tdm-reservation")
    stated, cut = of_headers(get_lines("Content-Usage"), get_lines("Content-Signal"))
    if cut or len(reservations) > _MOST_RESERVATIONS:
        page_of(response).cut = True
    lines = (value.decode("latin-1") for value in reservations[:_MOST_RESERVATIONS])
    found = [("header tdm-reservation", value) for value in lines]
    for name, content in page_of(response).metas:
        if name.strip().lower() == "tdm-reservation":
            found.append((f"meta {name.strip()}", content))
    rules = rules_of(response, agent.tokens)
    return combined(stated, of_page(rules), of_tdm(*tdm, *found))


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
