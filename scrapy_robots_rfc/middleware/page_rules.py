"""Rules of a page in a crawl: `page_rules` for spiders, and RfcPageRulesMiddleware, which obeys ROBOTS_TAG_OBEY.

See `core/page_rules.py` for how the header lines and metas are read that are taken out of a response here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any, Self
from weakref import WeakKeyDictionary, WeakSet

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
from scrapy_robots_rfc.middleware.enforcement import request_text
from scrapy_robots_rfc.middleware.user_agent import UserAgents
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.settings import BY_FIELD, read_row, read_settings

logger: logging.Logger = logging.getLogger(__name__)

#: The meta key under which the middleware puts the rules of a response.
RULES_KEY = "robots_tag"
#: The meta key of a page whose rules do not count, and of a request that no rule of a page stops.
EXEMPT_KEY = "dont_obey_robots_tag"
#: Characters of a document that are looked at.
MAX_DOCUMENT = 1_048_576
#: Characters of its head that are parsed, without scripts, styles and comments; tags and comments of it; names and
#: contents of its metas. Real heads have a tenth of that.
MAX_HEAD, MAX_TAGS, MAX_METAS = 65_536, 3000, 500
#: Links of a document that are looked at, characters of their tags, and how many that say nofollow count.
MAX_LINKS, MAX_LINK_TAGS, MAX_UNENDORSED = 3000, 196_608, 1000
# Tags, comments, scripts and what stands between them, of one document: for its links, and for its
# metas where those of the head cannot be told from others. What stands between two links is a piece,
# too. For metas there are fewer, since the head was looked through before.
_MOST_PIECES, _MOST_META_PIECES = 8000, 4000
# URLs that canonicalize_url has to look at, for one page, and their characters: a URL takes a tenth
# of a millisecond, and a thousand characters of a host outside ASCII take two.
_MOST_CANONICAL, _MOST_CANONICAL_CHARACTERS = 100, 4096
# Characters of a header line or a meta that the log and the report have.
_LONGEST = 200
# What `rel` says of a link that its page does not vouch for (HTML, 4.6.7). Scrapy's `Link.nofollow` knows one of them.
_UNENDORSED = frozenset({"nofollow", "ugc", "sponsored"})

# Comments and elements in which no tag counts; the begin of the body; every other tag, in whose attributes neither
# counts; `<` that begin nothing, all that stand in a row. No part gives back what it has matched, and each `<` that
# begins one is matched, also where its end is missing: else all of them would look for it to the end of the document.
# So time is linear in its length.
# Both begin with the one octet that they are looked for by.
_ATTRIBUTES = r"""(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+){0,1000}+[^>]*+"""
_SKIPPED_NAMES = "script|style|noscript|template|title|textarea"
_SKIPPED = rf"""(?P<skipped>!--(?:-?>|.*?--!?>|.*)
    |(?P<name>{_SKIPPED_NAMES})\b{_ATTRIBUTES}(?:(?<=/)>|>(?:.*?</(?P=name)\b[^>]*+>?+|.*)|))"""
_FLAGS = re.IGNORECASE | re.DOTALL | re.VERBOSE


def _tokens(tag: str, read: str) -> re.Pattern[str]:
    """Return what finds some tags, what is skipped, and in one piece what stands between them.

    :param tag: expression of the tags, behind the `<`.
    :param read: expression of how they begin, and whatever is skipped.
    """
    between = rf"(?P<junk>(?!{read})[^<]*+(?:<(?!{read})[^<]*+){{0,15}}+)"
    return re.compile(rf"<(?:{_SKIPPED}|{tag}|{between})", _FLAGS)


_TOKEN = _tokens(rf"(?P<body>body\b)|/?[a-z]{_ATTRIBUTES}", "/?[a-z]|!--")
_LINK = _tokens(rf"(?P<tag>a(?:rea)?[\s/]{_ATTRIBUTES})", rf"a(?:rea)?[\s/]|(?:{_SKIPPED_NAMES})\b|!--")
_META = _tokens(rf"(?P<tag>meta[\s/]{_ATTRIBUTES})", rf"meta[\s/]|(?:{_SKIPPED_NAMES})\b|!--")

# A tag of more characters, with more attributes (or words in one), is left out: the time of lxml for a tag grows
# with the square of its attributes. Real tags have a few dozen.
_LONG_TAG, _ATTRIBUTES_READ = 1000, 100

# Elements that may stand within each other: lxml finds nothing below some 2,040 of them.
_DEEPEST = 2000

# Words of a `rel` that are read.
_RELS = 20
# An absolute path, perhaps of another site and with a query, of which canonicalize_url would only
# sort the parameters.
_USUAL_HREF = re.compile(
    r"(?P<site>https?://[a-z0-9]++(?:[.-][a-z0-9]++)*+)?+"
    r"(?P<path>/|(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)++/?+)"
    r"(?:\?(?P<query>(?:[A-Za-z0-9._-]++=[A-Za-z0-9._-]*+(?:&|\Z))*+))?+"
)

# What `page_rules` has parsed: a response may be asked about often.
_PARSED: WeakKeyDictionary[Response, PageRules] = WeakKeyDictionary()
# The metas that count: a declared use asks for them before the callback's middleware does.
_METAS: WeakKeyDictionary[Response, list[tuple[str, str]]] = WeakKeyDictionary()
# Responses of which not all is read -> whether they were counted.
_CUT: WeakKeyDictionary[Response, bool] = WeakKeyDictionary()


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
    rules = combine(headers, parse_metas(head_metas(response), tokens, now=now))
    if rules.cut:
        note_cut(response)
    return rules


def note_cut(response: Response) -> None:
    """Note that a response has more than is read."""
    _CUT.setdefault(response, False)


def is_cut(response: Response) -> bool:
    """Whether a response has more than is read. True once a response, so that it is counted once."""
    found = _CUT.get(response) is False
    if found:
        _CUT[response] = True
    return found


def head_metas(response: Response) -> list[tuple[str, str]]:
    """Return what `metas_of` returns of the head, which is parsed once a response."""
    metas = _METAS.get(response)
    if metas is None:
        metas = _METAS[response] = metas_of(response)
    return metas


def metas_of(response: Response, *, head: bool = True) -> list[tuple[str, str]]:
    """Return name and content of the metas in a document; none where it is no HTML, or cannot be parsed.

    :param head: whether those alone that count: in the head of the parser's tree, or before a `<body>` that is written,
        as far as `MAX_HEAD`, `MAX_TAGS` and `MAX_METAS` go.
    """
    if not isinstance(response, HtmlResponse):
        return []
    try:
        if not head:
            return _metas_in(_TOKEN.sub(_kept, response.text[:MAX_DOCUMENT]), "//meta")
        text, path, cut = _head(response.text)
        metas = _metas_in(text, path)
        if cut or len(metas) > MAX_METAS:
            note_cut(response)
        return metas[:MAX_METAS]
    except Exception:  # whatever a decoder or a parser raises about what a site sent
        logger.debug("Robots metas of %s cannot be read", without_userinfo(response.url), exc_info=True)
        return []


def _metas_in(text: str, path: str) -> list[tuple[str, str]]:
    # Without parsel's selector of each element, which takes ten times as long.
    found = Selector(text=text, type="html").root.xpath(f"({path})[@name and @content]")
    return [(meta.get("name"), meta.get("content")) for meta in found]


def _head(text: str) -> tuple[str, str, bool]:
    """Return what of a document may have metas that count, the XPath of those, and whether there is more."""
    kept = list[str]()  # text and tags in turn
    at, left = 0, MAX_HEAD
    cut = len(text) > MAX_DOCUMENT
    for number, token in enumerate(_TOKEN.finditer(text, 0, MAX_DOCUMENT)):
        if left <= 0 or number == MAX_TAGS:
            cut = True
            break
        kept.append(text[at : min(token.start(), at + left)])
        at = token.end()
        if token["body"]:
            return _all_metas(text) if _is_deep(kept[1::2]) else ("".join(kept), "//meta", False)
        kept.append("" if token["skipped"] else _kept(token)[:left])
        left -= len(kept[-1]) + len(kept[-2])
    if _is_deep(kept[1::2]):
        return _all_metas(text)
    return "".join([*kept, text[at : at + max(left, 0)]]), "/html/head//meta | /html/meta", cut


def _is_deep(tags: list[str]) -> bool:
    """Whether a document nests too deep for the parser. Nobody knows then which metas are in the head: all count."""
    depth = deepest = 0
    for tag in tags if len(tags) > _DEEPEST else ():
        depth += -1 if tag.startswith("</") else 1
        deepest = max(deepest, depth)
    return deepest > _DEEPEST


def _all_metas(text: str) -> tuple[str, str, bool]:
    tags, cut = _tags(_META, text, _MOST_META_PIECES)
    metas = "".join(f"{tag}>" for tag in tags)
    return metas[:MAX_HEAD], "//meta", cut or len(metas) > MAX_HEAD


def _tags(pattern: re.Pattern[str], text: str, most: int) -> tuple[list[str], bool]:
    """Return some tags of a document, without their last `>`, and whether not all is looked at.

    :param most: how many pieces of it are: tags, what is skipped, and what stands between them.
    """
    pieces = pattern.finditer(text, 0, MAX_DOCUMENT)
    tags = [_kept(piece) for piece in islice(pieces, most) if piece["tag"]]
    return tags, next(pieces, None) is not None or len(text) > MAX_DOCUMENT


def _kept(token: re.Match[str]) -> str:
    """Return a tag without its last `>`; only its name, if lxml would stop the crawl with it."""
    tag = token[0]
    if len(tag) <= _LONG_TAG or token["skipped"] or token["junk"]:
        return tag
    # Attributes are separated by white space or slashes.
    words = len(tag.split(None, _ATTRIBUTES_READ))
    crowded = words > _ATTRIBUTES_READ or any(tag.count(one) > _ATTRIBUTES_READ for one in "=/")
    return re.split(r"[\s/]", tag, maxsplit=1)[0] if crowded else tag


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
        self._obeyed, self._dry_run, self._exempt = settings.page_rules, settings.dry_run, settings.exempt
        # Responses that callbacks got. Others went to an errback, whose requests and items are not dropped.
        self._given: WeakSet[Response] = WeakSet()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        return cls(crawler)

    def process_spider_input(self, response: Response) -> None:
        """Put the rules into meta; those of another page may be there, because a callback copied its meta."""
        self._given.add(response)
        response.meta[RULES_KEY] = page_rules(response, self._crawler)

    def process_spider_output(self, response: Response, result: Iterable[Any]) -> Iterator[Any]:
        """Leave out what is dropped."""
        drops = self._judge(response)
        for item in result:
            if not drops(item):
                yield item

    async def process_spider_output_async(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
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
                del item.meta[RULES_KEY]  # the callback copied the meta of its response; they are not of this request
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


def unendorsed(response: Response) -> set[str]:
    """Return the URLs that stand in links with such a `rel` and in no others; none where links cannot be read.

    `MAX_LINKS` are looked at, and `MAX_UNENDORSED` of those with such a `rel` count.
    """
    if not isinstance(response, HtmlResponse):
        return set()
    try:
        marked, others = _hrefs(response)
        if not marked:
            return set()
        urls = _CanonicalUrls(response)
        found = set(urls.of(marked[:MAX_UNENDORSED])) - set(urls.of(others))
        if urls.cut or len(marked) > MAX_UNENDORSED:
            note_cut(response)
        return found
    except Exception:  # as in `metas_of`
        logger.debug("Links of %s cannot be read", without_userinfo(response.url), exc_info=True)
        return set()


def _hrefs(response: HtmlResponse) -> tuple[list[str], list[str]]:
    """Return where the links of a document lead: those with such a `rel`, and the others; each once."""
    tags, cut = _tags(_LINK, response.text, _MOST_PIECES)
    text = "".join(f"{tag}></a>" for tag in tags[:MAX_LINKS])
    if cut or len(tags) > MAX_LINKS or len(text) > MAX_LINK_TAGS:
        note_cut(response)
    text = text[:MAX_LINK_TAGS]
    hrefs: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for link in Selector(text=text, type="html").root.iter("a", "area") if text else ():
        href = link.get("href")
        if href is not None:
            rel = re.split(r"[\s,]+", link.get("rel", "").lower(), maxsplit=_RELS)[:_RELS]
            hrefs[_UNENDORSED.isdisjoint(rel)][href] = None
    return list(hrefs[False]), list(hrefs[True])


class _CanonicalUrls:
    """Makes the URLs of links canonical, as Scrapy's filter of duplicates has them.

    :param response: their page.
    """

    def __init__(self, response: HtmlResponse) -> None:
        self._response = response
        self._root = response.urljoin("/").removesuffix("/")
        self._urls, self._characters = _MOST_CANONICAL, _MOST_CANONICAL_CHARACTERS
        #: Whether there are more than are read.
        self.cut: bool = False

    def of(self, hrefs: Iterable[str]) -> Iterator[str]:
        """Yield the URLs of links; what is no URL is passed over."""
        for href in hrefs:
            usual = _USUAL_HREF.fullmatch(href)
            if usual is not None:
                pairs = sorted(pair.partition("=") for pair in (usual["query"] or "").split("&") if pair)
                query = "&".join(map("".join, pairs))
                yield f"{usual['site'] or self._root}{usual['path']}{'?' if query else ''}{query}"
                continue
            yield from self._canonical(href)

    def _canonical(self, href: str) -> Iterator[str]:
        if self._urls <= 0:  # to join a URL takes time, too
            self.cut = True
            return
        with suppress(ValueError):
            url = self._response.urljoin(strip_html5_whitespace(href))
            self._urls -= 1
            self._characters -= len(url)
            if self._characters < 0:
                self.cut = True
            else:
                yield canonicalize_url(safe_url_string(url, self._response.encoding))
