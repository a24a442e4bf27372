"""Rules of a page in a crawl: `page_rules` for spiders, and RfcPageRulesMiddleware, which obeys ROBOTS_TAG_OBEY.

See `html.py` for what is read of a response.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import cache
from typing import Any, Self
from weakref import WeakKeyDictionary, WeakSet

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
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

# What `page_rules` has parsed: a response may be asked about often.
_PARSED: WeakKeyDictionary[Response, PageRules] = WeakKeyDictionary()


def page_rules(response: Response, crawler: Crawler) -> PageRules:
    """Return what the `X-Robots-Tag` lines and the robots metas of a response ask of this crawl.

    A response is parsed when it is first asked about. Metas count in HTML and XHTML, within the
    first 1,048,576 characters; what cannot be parsed has none.

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


class RfcPageRulesMiddleware:
    """Spider middleware that drops requests and items against which a page has a rule that ROBOTS_TAG_OBEY names.

    It puts the rules of each response into its meta, as `robots_tag`, before the callback gets it.

    :param crawler: the crawl.
    :raises NotConfigured: ROBOTS_TAG_OBEY is empty.
    :raises SettingError: a setting is not accepted.
    """

    def __init__(self, crawler: Crawler) -> None:
        assert crawler.stats is not None
        self._crawler, self._count = crawler, crawler.stats.inc_value
        settings = read_settings(crawler.settings)
        if not settings.page_rules:
            raise NotConfigured
        self._obeyed, self._dry_run, self._exempt = (
            settings.page_rules,
            settings.dry_run,
            settings.exempt,
        )
        # Responses that callbacks got. Others went to an errback, whose requests and items are not
        # dropped.
        self._given: WeakSet[Response] = WeakSet()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        return cls(crawler)

    def process_spider_input(self, response: Response) -> None:
        """Put the rules into meta.

        Those of another page may be there, because a callback copied its meta.
        """
        self._given.add(response)
        response.meta[RULES_KEY] = page_rules(response, self._crawler)

    def process_spider_output(self, response: Response, result: Iterable[Any]) -> Iterator[Any]:
        """Leave out what is dropped."""
        drops = self._judge(response)
        for item in result:
            if not drops(item):
                yield item

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Do the same for a callback that is an asynchronous generator."""
        drops = self._judge(response)
        async for item in result:
            if not drops(item):
                yield item

    def _judge(self, response: Response) -> Callable[[object], bool]:
        """Return what says of anything that the callback of a response yields whether it is dropped."""
        if response not in self._given:
            return lambda _: False
        rules, drops = page_rules(response, self._crawler), self._drops(response)
        if is_cut(response):
            self._count(stats.PAGE_CUT)

        def judged(item: object) -> bool:
            if isinstance(item, Request) and item.meta.get(RULES_KEY) is rules:
                del item.meta[
                    RULES_KEY
                ]  # the callback copied the meta of its response; they are not of this request
            return drops(item)

        return judged

    def _drops(self, response: Response) -> Callable[[object], bool]:
        origin, rules = Origin.of(response.url), page_rules(response, self._crawler)
        # Directive that is obeyed -> the first place where it stands.
        stands = {name: rules.where(name)[0] for name in self._obeyed & rules.directives.keys()}
        exempt = response.meta.get(EXEMPT_KEY) or (
            origin is not None and any(site.covers(origin) for site in self._exempt)
        )
        by_link = "link-nofollow" in self._obeyed
        if exempt or not (stands or by_link):
            return lambda _: False
        # To ask for the page itself again is to follow no link.
        own = {
            canonicalize_url(url)
            for url in (response.url, *([response.request.url] if response.request else []))
        }
        links = cache(lambda: unendorsed(response))

        def drops(item: object) -> bool:
            if not isinstance(item, Request):
                drops_items = item is not None and "noindex" in stands
                return drops_items and self._drop(response, None, "noindex", stands["noindex"])
            if item.meta.get(EXEMPT_KEY) or (url := canonicalize_url(item.url)) in own:
                return False
            if "nofollow" in stands:
                return self._drop(response, item, "nofollow", stands["nofollow"])
            # To send a form is to follow no link, either.
            found = by_link and item.method == "GET" and url in links()
            return found and self._drop(response, item, "link-nofollow", "rel of the link")

        return drops

    def _drop(
        self, response: Response, request: Request | None, directive: str, where: str
    ) -> bool:
        """Count, log and signal what a rule forbids; return whether it is dropped, which it is not in a dry run.

        :param request: ``None``: it is an item.
        """
        source = (
            "header"
            if where.startswith("X-Robots-Tag")
            else "meta"
            if where.startswith("meta")
            else "link"
        )
        self._count(stats.PAGE.format(directive=directive, source=source))
        page = response.request or Request(response.url)
        why = f"{directive} of {without_userinfo(response.url)}, {where[:_LONGEST]}"
        let_through = ", let through (dry run)" if self._dry_run else ""
        what = "an item" if request is None else request_text(request)
        message = "Forbidden by its page%s: %s (%s)"
        logger.debug(
            message, let_through, what, printable(why), extra={"spider": self._crawler.spider}
        )
        origin = Origin.of((request or page).url)
        decision = Decision(False, Reason.PAGE, origin=None if origin is None else str(origin))
        # A request that is dropped here does not get to the middleware that sets this header.
        shown = page if request is None else request.copy()
        shown.headers.setdefault("Referer", without_userinfo(response.url))
        self._crawler.signals.send_catch_log(
            signals.request_disallowed,
            request=shown,
            decision=decision,
            why=why,
            robots=None,
            line=None,
        )
        return not self._dry_run
