"""Rules of a page in a crawl: `page_rules` for spiders, and RfcPageRulesMiddleware, which obeys ROBOTSTAG_OBEY.

See `core/page_rules.py` for how the header lines and metas are read that are taken out of a response here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from weakref import WeakKeyDictionary

from parsel import Selector
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import HtmlResponse, Response
from w3lib.html import strip_html5_whitespace
from w3lib.url import canonicalize_url, safe_url_string

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.page_rules import PageRules, combine, parse_headers, parse_metas
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.middleware.early import OutputFilter
from scrapy_robots_rfc.middleware.enforcement import request_text
from scrapy_robots_rfc.middleware.user_agent import UserAgents
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.settings import BY_FIELD, read_row, read_settings

logger = logging.getLogger(__name__)

#: The meta key under which the middleware puts the rules of a response.
RULES_KEY = "robots_tag"
#: The meta key of a page whose rules do not count, and of a request that no rule of a page stops.
EXEMPT_KEY = "dont_obey_robots_tag"
#: Characters of a document that are read.
MAX_DOCUMENT = 1_048_576
# Characters of a header line or a meta that the log and the report have.
_LONGEST = 200
# What `rel` says of a link that its page does not vouch for (HTML, 4.6.7). Scrapy's `Link.nofollow` knows one of them.
_UNENDORSED = frozenset({"nofollow", "ugc", "sponsored"})

# Comments and elements in which no tag counts; the begin of the body; every other tag, in whose attributes neither
# counts. No part gives back what it has matched, so that time is linear in the length of the document.
_ATTRIBUTES = r"""(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+"""
_TOKEN = re.compile(
    rf"""(?P<skipped><!--(?:-?>|.*?--!?>|.*)
    |<(?P<name>script|style|noscript|template|title|textarea)\b{_ATTRIBUTES}(?<!/)>(?:.*?</(?P=name)\b[^>]*+>|.*))
    |(?P<body><body\b)|</?[a-z]{_ATTRIBUTES}""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)

# A tag of more characters, with more attributes (or words in one), is left out: the time of lxml for a tag grows
# with the square of its attributes. Real tags have a few dozen.
_LONG_TAG, _ATTRIBUTES_READ = 1000, 500

# Elements that may stand within each other: lxml finds nothing below some 2,040 of them.
_DEEPEST = 2000

# What `page_rules` has parsed: a response may be asked about often.
_PARSED: WeakKeyDictionary[Response, PageRules] = WeakKeyDictionary()
# The metas that count: a declared use asks for them before the callback's middleware does.
_METAS: WeakKeyDictionary[Response, list[tuple[str, str]]] = WeakKeyDictionary()


def page_rules(response: Response, crawler: Crawler) -> PageRules:
    """Return what the `X-Robots-Tag` lines and the robots metas of a response ask of this crawl.

    A response is parsed when it is first asked about. Metas count in HTML and XHTML, within the first `MAX_DOCUMENT`
    characters; what cannot be parsed has none.

    :param response: of any status and type.
    :param crawler: of the spider, for the product tokens of the request: ``page_rules(response, self.crawler)``.
    :raises AgentError: meta `robotstxt_user_agent` of the request is neither a string nor a list of strings.
    """
    rules = _PARSED.get(response)
    if rules is None:
        agents = UserAgents(crawler, read_row(BY_FIELD["user_agent"], crawler.settings))
        agent = agents.default() if response.request is None else agents.of(response.request)
        rules = _PARSED[response] = rules_of(response, agent.tokens)
    return rules


def rules_of(response: Response, tokens: Sequence[str]) -> PageRules:
    """Return what the header lines of a response, and the metas in its head, ask of some product tokens."""
    now = Runtime().date()
    headers = parse_headers(response.headers.getlist("X-Robots-Tag"), tokens, now=now)
    return combine(headers, parse_metas(head_metas(response), tokens, now=now))


def head_metas(response: Response) -> list[tuple[str, str]]:
    """Return what `metas_of` returns of the head, which is parsed once a response."""
    metas = _METAS.get(response)
    if metas is None:
        metas = _METAS[response] = metas_of(response)
    return metas


def metas_of(response: Response, *, head: bool = True) -> list[tuple[str, str]]:
    """Return name and content of the metas in a document; none where it is no HTML, or cannot be parsed.

    :param head: whether those alone that count: in the head of the parser's tree, or before a `<body>` that is written.
    """
    if not isinstance(response, HtmlResponse):
        return []
    try:
        text, path = response.text[:MAX_DOCUMENT], "//meta"
        text, path = _head(text) if head else (_TOKEN.sub(_kept, text), path)
        found = Selector(text=text, type="html").xpath(f"({path})[@name and @content]")
        return [(meta.root.get("name"), meta.root.get("content")) for meta in found]
    except Exception:  # whatever a decoder or a parser raises about what a site sent
        logger.debug("Robots metas of %s cannot be read", without_userinfo(response.url), exc_info=True)
        return []


def _head(text: str) -> tuple[str, str]:
    """Return what of a document may have metas that count, and the XPath of those."""
    kept, at = list[str](), 0
    for token in _TOKEN.finditer(text):
        kept.append(text[at : token.start()])
        at = token.end()
        if token["body"]:
            return _metas_alone(kept[1::2]) or "".join(kept), "//meta"
        kept.append("" if token["skipped"] else _kept(token))
    if metas := _metas_alone(kept[1::2]):
        return metas, "//meta"
    return "".join([*kept, text[at:]]), "/html/head//meta | /html/meta"


def _metas_alone(tags: list[str]) -> str:
    """Return the metas alone of a document that nests too deep for the parser; empty where it does not.

    Nobody knows then which of them are in the head, so all of them count.

    :param tags: all that count, without their last `>`.
    """
    depth = deepest = 0
    for tag in tags if len(tags) > _DEEPEST else ():
        depth += -1 if tag.startswith("</") else 1
        deepest = max(deepest, depth)
    return "".join(f"{tag}>" for tag in tags if tag[:5].lower() == "<meta") if deepest > _DEEPEST else ""


def _kept(token: re.Match[str]) -> str:
    """Return a tag without its last `>`; only its name, if lxml would stop the crawl with it."""
    tag = token[0]
    crowded = len(tag) > _LONG_TAG and (tag.count("=") > _ATTRIBUTES_READ or len(tag.split()) > _ATTRIBUTES_READ)
    return tag.split(None, 1)[0] if crowded and not token["skipped"] else tag


class RfcPageRulesMiddleware(OutputFilter):
    """Spider middleware that drops requests and items against which a page has a rule that ROBOTSTAG_OBEY names.

    It puts the rules of each response into its meta, as `robots_tag`, before the callback gets it.

    :param crawler: the crawl.
    :raises NotConfigured: ROBOTSTAG_OBEY is empty.
    :raises SettingError: a setting is not accepted.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        settings = read_settings(crawler.settings)
        if not settings.page_rules:
            raise NotConfigured
        self._obeyed, self._dry_run, self._exempt = settings.page_rules, settings.dry_run, settings.exempt

    def process_spider_input(self, response: Response) -> None:
        """Put the rules into meta; those of another page may be there, because a callback copied its meta."""
        response.meta[RULES_KEY] = page_rules(response, self._crawler)

    def _judge(self, response: Response) -> Callable[[object], bool]:
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
        own = {canonicalize_url(url) for url in (response.url, *([response.request.url] if response.request else []))}
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

    def _drop(self, response: Response, request: Request | None, directive: str, where: str) -> bool:
        """Count, log and signal what a rule forbids; return whether it is dropped, which it is not in a dry run.

        :param request: ``None``: it is an item.
        """
        source = "header" if where.startswith("X-Robots-Tag") else "meta" if where.startswith("meta") else "link"
        self._count(stats.PAGE.format(directive=directive, source=source))
        page = response.request or Request(response.url)
        why = f"{directive} of {without_userinfo(response.url)}, {where[:_LONGEST]}"
        let_through = ", let through (dry run)" if self._dry_run else ""
        what = "an item" if request is None else request_text(request)
        message = "Forbidden by its page%s: %s (%s)"
        logger.debug(message, let_through, what, printable(why), extra={"spider": self._crawler.spider})
        origin = Origin.of((request or page).url)
        decision = Decision(False, Reason.PAGE, origin=None if origin is None else str(origin))
        self._crawler.signals.send_catch_log(
            signals.request_disallowed,
            request=request or page,
            decision=decision,
            why=why,
            robots=None,
            line=None,
        )
        return not self._dry_run


def unendorsed(response: Response) -> set[str]:
    """Return the URLs that stand in links with such a `rel` and in no others; none where links cannot be read."""
    if not isinstance(response, HtmlResponse):
        return set()
    try:
        text = response.text
        kept = _TOKEN.sub(_kept, text[:MAX_DOCUMENT])
        document = response if kept == text else Selector(text=kept, type="html")  # a selector of its own takes time
        hrefs: dict[bool, set[str]] = {True: set(), False: set()}
        for link in document.xpath("(//a | //area)[@href]"):
            rel = re.split(r"[\s,]+", link.root.get("rel", "").lower())
            hrefs[_UNENDORSED.isdisjoint(rel)].add(link.root.get("href"))
        marked = set(_urls(response, hrefs[False]))
        return marked.difference(_urls(response, hrefs[True])) if marked else marked
    except Exception:  # as in `metas_of`
        logger.debug("Links of %s cannot be read", without_userinfo(response.url), exc_info=True)
        return set()


def _urls(response: HtmlResponse, hrefs: Iterable[str]) -> Iterator[str]:
    """Yield the URLs of links, canonical as Scrapy's filter of duplicates has them."""
    for href in hrefs:
        with suppress(ValueError):  # it is no URL
            url = response.urljoin(strip_html5_whitespace(href))
            yield canonicalize_url(safe_url_string(url, response.encoding))
