"""Apply robots meta tags, X-Robots-Tag headers and link attributes from pages.

Several limits ensure that a hostile page cannot block the event loop for more than about 20 ms.
`rules.py` parses the rules.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

from parsel import Selector
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import HtmlResponse, Response, XmlResponse
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware
from scrapy.utils.response import get_base_url
from w3lib.html import strip_html5_whitespace
from w3lib.url import canonicalize_url, safe_url_string

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.middleware.enforcement import request_text
from scrapy_robots_rfc.middleware.user_agent import UserAgents
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.settings import BY_FIELD, read_row, read_settings
from scrapy_robots_rfc.usage.rules import PageRules, parse_rules

logger: logging.Logger = logging.getLogger(__name__)

#: The meta key on a response that contains the rules from its page.
RULES_KEY = "robots_tag"
#: The meta key that exempts a request from the rules on the page it comes from, and disables the
#: rules on the page it fetches.
EXEMPT_KEY = "dont_obey_robots_tag"
# Maximum number of characters to show from a header or meta tag in the log and the report.
_MAX_SHOWN = 200
_BY_LINK = "link-nofollow"
# First word of the place where a rule was found -> the source in stat keys.
_SOURCES = {"X-Robots-Tag:": "header", "meta": "meta", "rel": "link"}

#: Maximum number of characters to read from a document.
MAX_DOCUMENT = 1_048_576
#: Maximum number of `<` characters, and of `=` characters. Reading 40,000 takes 10 ms. A typical 1
#: MiB document contains 25,000 of each.
MAX_MARKS = 40_000
#: Maximum number of meta tags and links to read from a document, and their maximum total length.
MAX_TAGS, MAX_TAG_CHARACTERS = 3000, 196_608
# Tags longer than this are ignored if they have about a hundred attributes or more, because lxml
# needs quadratic time to parse them.
_LONG_TAG = 1000
_CROWDED = re.compile(r"(?:[^\s/=]*+[\s/=]++){100}")
# Maximum number of characters to pass to canonicalize_url. For each link, the site and an eighth of
# the base URL also count. A short URL takes 0.05 ms, and a non-ASCII host with 1,000 characters
# takes 2 ms.
_MAX_CANONICAL = 4096
_BASE_SHARE = 8
# The root element of an XML document is within this number of bytes, after a DOCTYPE.
_XHTML_START = 1024
# `rel` values for links that the page does not endorse (HTML, 4.6.7). Scrapy's `Link.nofollow` only
# supports the first one.
_UNENDORSED = frozenset({"nofollow", "ugc", "sponsored"})

# The following expressions never backtrack. Because an unclosed tag extends to the end of the
# document, they run in linear time in the number of `<` and `=`.
# The end of a tag name: after "meta" in "<meta name=...", but not in "<metadata>".
_NAME_ENDS = r"(?![^\s/>])"
# A tag's attributes, up to its ">": ' name="a>b" content=c'.
_ATTRIBUTES = r"""(?:[^>=]++|=++\s*+(?:"[^"]*+"|'[^']*+')?+)*+"""
# A comment without its "<": "!-- a -->".
_COMMENT = r"!--(?:-?>|.*?--!?>|.*)"
# An element whose content we ignore: "script>if (a<b)</script>", or "script/>" in XHTML.
_OPAQUE = "|".join(
    rf"{name}{_NAME_ENDS}{_ATTRIBUTES}"
    rf"(?:(?<=/)>|>(?:[^<]++|<(?!/{name}{_NAME_ENDS}))*+(?:</{name}[^>]*+>?+)?+)?+"
    for name in ("script", "style", "noscript", "noframes", "template", "title", "textarea")
)
_FLAGS = re.ASCII | re.DOTALL | re.IGNORECASE | re.VERBOSE
# The name of a tag that we need: "meta".
_READ = rf"(?:meta|body|a|area){_NAME_ENDS}"
# The next tag that we need, and everything before it: "<p>b <a href=c".
_TAG = re.compile(
    rf"(?:[^<]++|<(?!{_READ})(?:{_COMMENT}|{_OPAQUE}|/?[a-z]{_ATTRIBUTES})?+)*+"
    rf"(?:(?P<tag><(?P<name>{_READ}){_ATTRIBUTES})|\Z)",
    _FLAGS,
)
# The content of the head: "<title>a</title> <link rel=b>". Anything else starts the body (HTML,
# 13.2.6.4.4).
_HEAD = re.compile(
    rf"(?:\s++|<(?:{_COMMENT}|[!?/][^>]*+|(?!textarea)(?:{_OPAQUE})"
    rf"|(?:html|head|base|basefont|bgsound|link|meta){_NAME_ENDS}{_ATTRIBUTES})>?+)*+",
    _FLAGS,
)
# A link where canonicalize_url would only sort the query: "/a", "https://a.example/b?c=1&d=2".
_USUAL_HREF = re.compile(
    r"(?P<site>https?://[a-z0-9]++(?:[.-][a-z0-9]++)*+)?+"
    r"(?P<path>/|(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)++/?+)"
    r"(?:\?(?P<query>[A-Za-z0-9._-]++=[A-Za-z0-9._-]*+(?:&[A-Za-z0-9._-]++=[A-Za-z0-9._-]*+)*+))?+"
)

_Tag: TypeAlias = re.Match[str]


class Page:
    """The tags on a page. We scan the head first, and the rest only when it is needed."""

    def __init__(self, response: Response) -> None:
        text = _text_of(response)
        end = min(len(text), MAX_DOCUMENT)
        for mark in "<=":
            if text.count(mark, 0, end) > MAX_MARKS:
                end -= len(text[:end].split(mark, MAX_MARKS)[-1])
        #: True if part of the page is ignored because it exceeds a limit.
        self.cut: bool = end < len(text)
        #: True if this has been counted in the stats.
        self.counted: bool = False
        matches = _TAG.finditer(text, 0, end)
        self._unread = (tag for tag in matches if tag["tag"] and not _is_crowded(tag))
        self._tags = list[_Tag]()
        self._left = MAX_TAG_CHARACTERS
        end_of_head = self._end_of_head(text)
        in_head = (tag for tag in self._tags if tag.start("tag") < end_of_head)
        #: The name and content of each meta tag in the head.
        self.metas: list[tuple[str, str]] = _named_metas(in_head)
        #: The rules, or `None` until `page_rules` has parsed them.
        self.rules: PageRules | None = None
        #: Rule to obey -> the first place where it appears. This stays empty until just before the
        #: callback, so that the rules do not apply to errbacks.
        self.places: dict[str, str] = {}
        #: The URLs of the page itself, including URLs that redirected to it.
        self.own: set[str] = set()
        #: The result of `unendorsed`, if `link-nofollow` is obeyed.
        self.unendorsed: set[str] = set()

    def _end_of_head(self, text: str) -> int:
        """Read all tags before the body, and return the offset where the head ends."""
        for tag in self._read():
            if tag["name"][0] in "bB":
                return tag.start("tag")
        last = self._tags[-1].end() if self._tags else 0
        head = _HEAD.match(text, 0, last)
        return 0 if head is None else head.end()

    def _read(self) -> Iterator[_Tag]:
        """Yield the remaining tags, up to the limits."""
        for tag in self._unread:
            self._left -= len(tag["tag"])
            if len(self._tags) == MAX_TAGS or self._left < 0:
                self.cut = True
                return
            self._tags.append(tag)
            yield tag

    def tags(self) -> list[_Tag]:
        """Return all tags on the page, up to the limits."""
        for _ in self._read():
            pass
        return self._tags


def _text_of(response: Response) -> str:
    """Return the text of an HTML or XHTML response, or an empty string for anything else."""
    # XHTML may have a content type of XML.
    is_xhtml = isinstance(response, XmlResponse) and b"<html" in response.body[:_XHTML_START]
    try:
        return response.text if is_xhtml or isinstance(response, HtmlResponse) else ""
    except Exception:  # noqa: BLE001 - some decoders fail on hostile bytes
        return ""


def _is_crowded(tag: _Tag) -> bool:
    """Return whether to ignore a meta tag or link, because lxml would take too long to parse it."""
    if len(tag["tag"]) <= _LONG_TAG or tag["name"].lower() == "body":
        return False
    return _CROWDED.match(tag["tag"]) is not None


def _elements(tags: Iterable[_Tag], initials: str, path: str) -> list[Any]:
    """Parse tags whose name starts with one of the initials, and return the elements that match.

    :param path: an XPath expression.
    """
    # The matches do not include the `>`.
    text = "".join(f"{tag['tag']}></a>" for tag in tags if tag["name"][0] in initials)
    # Replace surrogates, which some codecs produce, because they cannot be encoded.
    encodable = text.encode("utf-8", "replace").decode()
    elements: list[Any] = Selector(text=encodable, type="html").root.xpath(path)
    return elements


def _named_metas(tags: Iterable[_Tag]) -> list[tuple[str, str]]:
    metas = _elements(tags, "mM", "//meta[@name and @content]")
    return [(meta.get("name"), meta.get("content")) for meta in metas]


_PAGES: WeakKeyDictionary[Response, Page] = WeakKeyDictionary()


def page_of(response: Response) -> Page:
    """Return the page for a response. If the response is not HTML, the page has no tags."""
    page = _PAGES.get(response)
    if page is None:
        page = _PAGES[response] = Page(response)
    return page


def rules_of(response: Response, tokens: Sequence[str]) -> PageRules:
    """Return the rules in a response's headers and meta tags that apply to a crawler.

    :param tokens: the crawler's product tokens.
    """
    page = page_of(response)
    lines = response.headers.getlist("X-Robots-Tag")
    rules = parse_rules(lines, page.metas, tokens, now=Runtime().date())
    page.cut = page.cut or rules.cut
    return rules


def count_cut(response: Response, count: Callable[[str], object]) -> None:
    """Count a response that exceeds a limit, unless it has already been counted."""
    page = page_of(response)
    if page.cut and not page.counted:
        page.counted = True
        count(stats.PAGE_CUT)


def all_metas_of(response: Response) -> list[tuple[str, str]]:
    """Return the name and content of all meta tags, even if they are outside the head."""
    return _named_metas(page_of(response).tags())


def unendorsed(response: Response) -> set[str]:
    """Return URLs for which every link on the page is `nofollow`, `ugc` or `sponsored`."""
    marked, others = list[str](), list[str]()
    for link in _elements(page_of(response).tags(), "aA", "//*[@href]"):
        rel = link.get("rel", "").lower().replace(",", " ").split()
        hrefs = others if _UNENDORSED.isdisjoint(rel) else marked
        hrefs.append(link.get("href"))
    if not marked or not isinstance(response, HtmlResponse):
        return set()
    urls = _canonicalize(response, [*marked, *others])
    return {urls[href] for href in marked if href in urls} - {urls.get(href) for href in others}


def _canonicalize(response: HtmlResponse, hrefs: Iterable[str]) -> dict[str, str]:
    """Return the canonical URL for each link, as used by Scrapy's duplicate filter.

    Links that are not URLs are omitted.
    """
    base = response.url
    with suppress(Exception):  # ignore a malformed `<base>`
        declared_base = get_base_url(response)
        urljoin(declared_base, "/")
        base = declared_base
    root = urljoin(base, "/").removesuffix("/")
    left = _MAX_CANONICAL
    urls = dict[str, str]()
    for href in dict.fromkeys(hrefs):
        usual = _USUAL_HREF.fullmatch(href)
        if usual is not None:
            urls[href] = (usual["site"] or root) + usual["path"]
            if usual["query"]:
                pairs = sorted(pair.split("=") for pair in usual["query"].split("&"))
                urls[href] += "?" + "&".join(map("=".join, pairs))
            continue
        left -= len(root) + len(href) + len(base) // _BASE_SHARE
        if left < 0:
            page_of(response).cut = True
            continue
        with suppress(Exception):  # malformed links may raise various errors
            url = urljoin(base, strip_html5_whitespace(href))
            urls[href] = canonicalize_url(safe_url_string(url, response.encoding))
    return urls


# Apply the rules.


def page_rules(response: Response, crawler: Crawler) -> PageRules:
    """Return the rules from a response's X-Robots-Tag headers and robots meta tags.

    The result is cached.

    :param response: a response with any status and of any type.
    :param crawler: the spider's crawler, as in ``page_rules(response, self.crawler)``.
    :raises AgentError: if `robotstxt_user_agent` in the request meta is neither a string nor a list
        of strings.
    """
    page = page_of(response)
    if page.rules is None:
        agents = UserAgents(crawler, read_row(BY_FIELD["user_agent"], crawler.settings))
        agent = agents.default() if response.request is None else agents.of(response.request)
        page.rules = rules_of(response, agent.tokens)
    return page.rules


class RfcPageRulesMiddleware(BaseSpiderMiddleware):
    """Spider middleware that drops requests and items if the page they come from disallows them.

    Before the callback, it also stores the rules in the response's `robots_tag` meta key.

    :raises NotConfigured: if ROBOTS_TAG_OBEY is empty.
    :raises SettingError: if a setting is not accepted.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._count = stats.of(crawler).inc_value
        self._settings = read_settings(crawler.settings)
        if not self._settings.page_rules:
            raise NotConfigured

    def process_spider_input(self, response: Response) -> None:
        """Parse the rules and store them in meta, replacing rules copied from another page."""
        page = page_of(response)
        rules = response.meta[RULES_KEY] = page_rules(response, self.crawler)
        page.places = self._places(response, rules)
        if _BY_LINK in page.places:
            page.unendorsed = unendorsed(response)
        assert response.request is not None  # Scrapy always sets it
        page.own.update(response.meta.get("redirect_urls", ()))
        with suppress(ValueError):  # no request can have a malformed URL
            urls = {response.url, response.request.url} if page.places else ()
            page.own |= {canonicalize_url(url) for url in urls}
        count_cut(response, self._count)

    def get_processed_request(self, request: Request, response: Response | None) -> Request | None:
        """Return a request from a callback, or `None` to drop it because its page disallows it."""
        page = None if response is None else _PAGES.get(response)
        if response is None or page is None:
            return request
        if request is not response.request and request.meta.get(RULES_KEY) is page.rules:
            # The callback copied meta from its response, but those rules do not belong to this
            # request.
            del request.meta[RULES_KEY]
        directive = _directive_of(request, page)
        is_dropped = directive is not None and self._drop(response, page.places, directive, request)
        return None if is_dropped else request

    def get_processed_item(self, item: Any, response: Response | None) -> Any:  # noqa: ANN401
        """Return an item from a callback, or `None` to drop it because its page disallows it."""
        page = None if response is None else _PAGES.get(response)
        if item is None or response is None or page is None or "noindex" not in page.places:
            return item
        return None if self._drop(response, page.places, "noindex") else item

    def _places(self, response: Response, rules: PageRules) -> dict[str, str]:
        """Return the rules to obey, each with the first place where it appears on the page."""
        origin = Origin.of(response.url, self._settings.schemes)
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
        """Count and log a request or item that a page's rule disallows, and send a signal.

        :param request: the request, or `None` if it is an item.
        :returns: False in a dry run, where nothing is dropped.
        """
        source = _SOURCES[places[directive].split(maxsplit=1)[0]]
        self._count(stats.PAGE.format(directive=directive, source=source))
        why = f"{directive} of {without_userinfo(response.url)}, {places[directive][:_MAX_SHOWN]}"
        message = "Forbidden by its page: %s (%s)"
        if self._settings.dry_run:
            message = "Forbidden by its page, let through (dry run): %s (%s)"
        if request is None:
            dropped = "an item"
            reported = response.request or Request(response.url)
        else:
            dropped = request_text(request)
            reported = request.copy()
            # A dropped request does not reach Scrapy's RefererMiddleware.
            reported.headers.setdefault("Referer", without_userinfo(response.url))
        logger.debug(message, dropped, printable(why), extra={"spider": self.crawler.spider})
        origin = Origin.of(reported.url, self._settings.schemes)
        decision = Decision(False, Reason.PAGE, origin=None if origin is None else str(origin))
        self.crawler.signals.send_catch_log(
            signals.request_disallowed,
            request=reported,
            decision=decision,
            why=why,
            policy=None,
            line=None,
        )
        return not self._settings.dry_run


def _directive_of(request: Request, page: Page) -> str | None:
    """Return the page's rule that disallows a request, or `None` if none does."""
    if not page.places or request.meta.get(EXEMPT_KEY):
        return None
    url = canonicalize_url(request.url)
    # A request for the same page does not follow a link.
    if not page.own.isdisjoint((request.url, url)):
        return None
    if "nofollow" in page.places:
        return "nofollow"
    # Nor does submitting a form with another method.
    return _BY_LINK if request.method == "GET" and url in page.unendorsed else None
