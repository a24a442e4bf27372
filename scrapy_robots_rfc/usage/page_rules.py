"""Rules of a page in a crawl: `page_rules` for spiders, and what obeys ROBOTS_TAG_OBEY.

See `html.py` for what is read of a response.
"""

import logging
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware
from w3lib.url import canonicalize_url

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.middleware.enforcement import request_text
from scrapy_robots_rfc.middleware.user_agent import UserAgents
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.settings import BY_FIELD, read_row, read_settings
from scrapy_robots_rfc.usage.html import is_cut, rules_of, unendorsed
from scrapy_robots_rfc.usage.rules import PageRules

logger: logging.Logger = logging.getLogger(__name__)

#: The meta key under which the middleware puts the rules of a response.
RULES_KEY = "robots_tag"
#: The meta key of a page whose rules do not count, and of a request that no rule of a page stops.
EXEMPT_KEY = "dont_obey_robots_tag"
# Characters of a header line or a meta that the log and the report have.
_LONGEST = 200
_BY_LINK = "link-nofollow"
# First word of where a rule stands -> its source, for the stats.
_SOURCES = {"X-Robots-Tag:": "header", "meta": "meta", "rel": "link"}

# What `page_rules` has parsed: a response may be asked about often.
_PARSED: WeakKeyDictionary[Response, PageRules] = WeakKeyDictionary()


def page_rules(response: Response, crawler: Crawler) -> PageRules:
    """Return what the `X-Robots-Tag` lines and the robots metas of a response ask of this crawl.

    A response is parsed when it is first asked about.

    :param response: of any status and type.
    :param crawler: of the spider, for the product tokens of the request: ``page_rules(response,
        self.crawler)``.
    :raises AgentError: meta `robotstxt_user_agent` of the request is neither a string nor a list of
        strings.
    """
    rules = _PARSED.get(response)
    if rules is None:
        agents = UserAgents(crawler, read_row(BY_FIELD["user_agent"], crawler.settings))
        agent = agents.default() if response.request is None else agents.of(response.request)
        rules = _PARSED[response] = rules_of(response, agent.tokens)
    return rules


class _Page(NamedTuple):
    """What decides on the requests and items of a page's callback.

    :param places: what is obeyed of its rules -> the first place where that stands.
    :param own: URLs of the page itself.
    :param links: URLs that are in links with `nofollow`, `ugc` or `sponsored` only.
    """

    rules: PageRules
    places: dict[str, str]
    own: set[str]
    links: set[str]


class RfcPageRulesMiddleware(BaseSpiderMiddleware):
    """Spider middleware that drops what a page forbids of the requests and items of its callback.

    It puts the rules of each response into its meta, as `robots_tag`, before the callback gets it.

    :param crawler: the crawl.
    :raises NotConfigured: ROBOTS_TAG_OBEY is empty.
    :raises SettingError: a setting is not accepted.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._count = stats.of(crawler).inc_value
        self._settings = read_settings(crawler.settings)
        if not self._settings.page_rules:
            raise NotConfigured
        # Pages that callbacks got. Others went to an errback, whose requests and items are not
        # dropped.
        self._pages: WeakKeyDictionary[Response, _Page] = WeakKeyDictionary()

    def process_spider_input(self, response: Response) -> None:
        """Read the rules, and put them into meta.

        Those of another page may be there, because a callback copied its meta.
        """
        rules = response.meta[RULES_KEY] = page_rules(response, self.crawler)
        places = self._places(response, rules)
        links = unendorsed(response) if _BY_LINK in places else set()
        asked = response.url if response.request is None else response.request.url
        own = set[str]()
        with suppress(ValueError):  # what is no URL is no page that a request could ask for again
            own |= {canonicalize_url(url) for url in {response.url, asked} if places}
        self._pages[response] = _Page(rules, places, own, links)
        if is_cut(response):
            self._count(stats.PAGE_CUT)

    def get_processed_request(self, request: Request, response: Response | None) -> Request | None:
        """Return a request of a callback; ``None``: its page forbids it."""
        page = None if response is None else self._pages.get(response)
        if response is None or page is None:
            return request
        if request.meta.get(RULES_KEY) is page.rules:
            # The callback copied the meta of its response: they are not of this request.
            del request.meta[RULES_KEY]
        directive = _directive_of(request, page)
        is_dropped = directive is not None and self._drop(response, page.places, directive, request)
        return None if is_dropped else request

    def get_processed_item(self, item: Any, response: Response | None) -> Any:  # noqa: ANN401 - of any type
        """Return an item of a callback; ``None``: its page forbids it."""
        page = None if response is None else self._pages.get(response)
        if item is None or response is None or page is None or "noindex" not in page.places:
            return item
        return None if self._drop(response, page.places, "noindex") else item

    def _places(self, response: Response, rules: PageRules) -> dict[str, str]:
        """Return what is obeyed of the rules of a page -> the first place where that stands."""
        origin = Origin.of(response.url)
        exempt = origin is not None and any(site.covers(origin) for site in self._settings.exempt)
        if exempt or response.meta.get(EXEMPT_KEY):
            return {}
        obeyed = self._settings.page_rules
        places = {name: rules.where(name)[0] for name in obeyed & rules.directives.keys()}
        return {**places, _BY_LINK: "rel of the link"} if _BY_LINK in obeyed else places

    def _drop(
        self,
        response: Response,
        places: dict[str, str],
        directive: str,
        request: Request | None = None,
    ) -> bool:
        """Count, log and signal that a rule forbids a request, or an item if that is ``None``.

        It is dropped if this returns true, which it does not in a dry run.
        """
        source = _SOURCES[places[directive].split(maxsplit=1)[0]]
        self._count(stats.PAGE.format(directive=directive, source=source))
        why = f"{directive} of {without_userinfo(response.url)}, {places[directive][:_LONGEST]}"
        message = (
            "Forbidden by its page, let through (dry run): %s (%s)"
            if self._settings.dry_run
            else "Forbidden by its page: %s (%s)"
        )
        what = "an item" if request is None else request_text(request)
        logger.debug(message, what, printable(why), extra={"spider": self.crawler.spider})
        shown = request or response.request or Request(response.url)
        origin = Origin.of(shown.url)
        decision = Decision(False, Reason.PAGE, origin=None if origin is None else str(origin))
        self.crawler.signals.send_catch_log(
            signals.request_disallowed,
            request=shown,
            decision=decision,
            why=why,
            robots=None,
            line=None,
        )
        return not self._settings.dry_run


def _directive_of(request: Request, page: _Page) -> str | None:
    """Return the rule that forbids a request; ``None``: no rule does."""
    if not page.places or request.meta.get(EXEMPT_KEY):
        return None
    url = canonicalize_url(request.url)
    # To ask for the page itself again is to follow no link. To send a form is not, either.
    if url in page.own:
        return None
    if "nofollow" in page.places:
        return "nofollow"
    return _BY_LINK if request.method == "GET" and url in page.links else None
