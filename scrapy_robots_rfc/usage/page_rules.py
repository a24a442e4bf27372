"""Apply the rules of pages: `page_rules` for spiders, and the middleware for ROBOTS_TAG_OBEY.

No page blocks the event loop for more than about 20 milliseconds: limits bound how much of its
header lines, metas and links is read. `rules.py` parses the rules.
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
from scrapy.http import HtmlResponse, Response
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

#: The meta key under which the middleware puts the rules of a response.
RULES_KEY = "robots_tag"
#: The meta key of a page whose rules do not count, and of a request that no page's rule drops.
EXEMPT_KEY = "dont_obey_robots_tag"
# Maximum characters of a header line or a meta in the log and the report.
_LONGEST = 200
_BY_LINK = "link-nofollow"
# First word of the place of a rule -> its source, for the stats.
_SOURCES = {"X-Robots-Tag:": "header", "meta": "meta", "rel": "link"}

#: Maximum characters of a document that are read.
MAX_DOCUMENT = 1_048_576
#: Maximum characters `<`, and maximum characters `=`, that are read; 40,000 take ten milliseconds.
#: Large documents have 25,000 of each in a mebibyte.
MAX_MARKS = 40_000
#: Maximum metas and links of a document that are read, together, and characters of their tags.
MAX_TAGS, MAX_TAG_CHARACTERS = 3000, 196_608
# Longer metas and links are ignored if they have a hundred attributes, or words in one, because the
# time of lxml grows with the square of their number.
_LONG = 1000
_CROWDED = re.compile(r"(?:[^\s/=]*+[\s/=]++){100}")
# Maximum characters of links for canonicalize_url. Each link counts with its site and an eighth of
# the base URL that it is joined to. A short URL takes 0.05 ms, a thousand characters of a host
# outside ASCII take 2 ms.
_MAX_CANONICAL = 4096
_BASE_SHARE = 8
# Values of `rel` for links that the page does not endorse (HTML, 4.6.7). Scrapy's `Link.nofollow`
# knows only the first.
_UNENDORSED = frozenset({"nofollow", "ugc", "sponsored"})

# These expressions never backtrack, and a construct without an end reaches to the end of the
# document. So their time grows with the number of `<` and `=`.
# The end of a tag's name: "meta" ends in "<meta name=..." but not in "<metadata>".
_NAME_ENDS = r"(?![^\s/>])"
# The attributes of a tag, up to its ">": ' name="a>b" content=c'.
_ATTRIBUTES = r"""(?:[^>=]++|=++\s*+(?:"[^"]*+"|'[^']*+')?+)*+"""
# A comment, without its "<": "!-- a -->".
_COMMENT = r"!--(?:-?>|.*?--!?>|.*)"
# Elements whose contents do not count: "script>if (a<b)</script>". XHTML may close one at once:
# "script/>".
_OPAQUE = "|".join(
    rf"{name}{_NAME_ENDS}{_ATTRIBUTES}"
    rf"(?:(?<=/)>|>(?:[^<]++|<(?!/{name}{_NAME_ENDS}))*+(?:</{name}[^>]*+>?+)?+)?+"
    for name in ("script", "style", "noscript", "template", "title", "textarea")
)
_FLAGS = re.ASCII | re.DOTALL | re.IGNORECASE | re.VERBOSE
# One of the tags that are read with everything before it, or everything up to the end.
_READ = rf"(?:meta|body|a|area){_NAME_ENDS}"
_TAG = re.compile(
    rf"(?:[^<]++|<(?!{_READ})(?:{_COMMENT}|{_OPAQUE}|/?[a-z]{_ATTRIBUTES})?+)*+"
    rf"(?:(?P<tag><(?P<name>{_READ}){_ATTRIBUTES})|\Z)",
    _FLAGS,
)
# The contents of the head: anything else starts the body (HTML, 13.2.6.4.4).
_HEAD = re.compile(
    rf"(?:\s++|<(?:{_COMMENT}|[!?/][^>]*+|(?!textarea)(?:{_OPAQUE})"
    rf"|(?:html|head|base|link|meta){_NAME_ENDS}{_ATTRIBUTES})>?+)*+",
    _FLAGS,
)
# A link of which canonicalize_url would only sort the query: "/a", "https://a.example/b?c=1&d=2".
_USUAL_HREF = re.compile(
    r"(?P<site>https?://[a-z0-9]++(?:[.-][a-z0-9]++)*+)?+"
    r"(?P<path>/|(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)++/?+)"
    r"(?:\?(?P<query>[A-Za-z0-9._-]++=[A-Za-z0-9._-]*+(?:&[A-Za-z0-9._-]++=[A-Za-z0-9._-]*+)*+))?+"
)

_Tag: TypeAlias = re.Match[str]


class Page:
    """The tags of a page, which are scanned once, starting with the head."""

    def __init__(self, response: Response) -> None:
        text = _text_of(response)
        end = min(len(text), MAX_DOCUMENT)
        for mark in "<=":
            if text.count(mark, 0, end) > MAX_MARKS:
                end -= len(text[:end].split(mark, MAX_MARKS)[-1])
        #: Whether the page has more than is read, and whether that was counted.
        self.cut: bool = end < len(text)
        self.counted: bool = False
        matches = _TAG.finditer(text, 0, end)
        self._unread = (tag for tag in matches if tag["tag"] and not _is_crowded(tag))
        self._tags = list[_Tag]()
        self._left = MAX_TAG_CHARACTERS
        end_of_head = self._end_of_head(text)
        in_head = (tag for tag in self._tags if tag.start("tag") < end_of_head)
        #: Name and content of the metas before the `<body>` tag, or in the head without one.
        self.metas: list[tuple[str, str]] = _named_metas(in_head)
        #: The rules, once `page_rules` has parsed them.
        self.rules: PageRules | None = None
        #: Rule that is obeyed -> the first place that has it. Empty until the callback gets the
        #: page, so requests of an errback pass.
        self.places: dict[str, str] = {}
        #: URLs of the page itself, and URLs that redirected to it.
        self.own: set[str] = set()
        #: The URLs that `unendorsed` returns, if that entry is obeyed.
        self.unendorsed: set[str] = set()

    def _end_of_head(self, text: str) -> int:
        """Read tags up to the body, and return where the head ends."""
        for tag in self._read():
            if tag["name"][0] in "bB":
                return tag.start("tag")
        last = self._tags[-1].end() if self._tags else 0
        head = _HEAD.match(text, 0, last)
        return 0 if head is None else head.end()

    def _read(self) -> Iterator[_Tag]:
        """Yield the next tags, up to the limits."""
        for tag in self._unread:
            self._left -= len(tag["tag"])
            if len(self._tags) == MAX_TAGS or self._left < 0:
                self.cut = True
                return
            self._tags.append(tag)
            yield tag

    def tags(self) -> list[_Tag]:
        """Return the tags of the whole page, up to the limits."""
        for _ in self._read():
            pass
        return self._tags


def _text_of(response: Response) -> str:
    """Return the text of a document, or an empty text if it is not HTML."""
    try:
        return response.text if isinstance(response, HtmlResponse) else ""
    except Exception:  # noqa: BLE001 - decoders may raise anything for hostile bytes
        return ""


def _is_crowded(tag: _Tag) -> bool:
    """Return whether a meta or a link is ignored, because lxml would take too long for it."""
    text = tag["tag"]
    return len(text) > _LONG and tag["name"][0] not in "bB" and _CROWDED.match(text) is not None


def _elements(tags: Iterable[_Tag], initials: str, path: str) -> Any:  # noqa: ANN401 - a list of elements of lxml
    """Parse each tag whose name has one of the initials, and return the elements of an XPath."""
    # The tags lack their `>`.
    text = "".join(f"{tag['tag']}></a>" for tag in tags if tag["name"][0] in initials)
    # Some codecs produce surrogates, which cannot be encoded.
    encodable = text.encode("utf-8", "replace").decode()
    return Selector(text=encodable, type="html").root.xpath(path)


def _named_metas(tags: Iterable[_Tag]) -> list[tuple[str, str]]:
    metas = _elements(tags, "mM", "//meta[@name and @content]")
    return [(meta.get("name"), meta.get("content")) for meta in metas]


_PAGES: WeakKeyDictionary[Response, Page] = WeakKeyDictionary()


def page_of(response: Response) -> Page:
    """Return the page of a response; it has no tags if the response is not HTML."""
    page = _PAGES.get(response)
    if page is None:
        page = _PAGES[response] = Page(response)
    return page


def rules_of(response: Response, tokens: Sequence[str]) -> PageRules:
    """Return the rules in the header lines and metas of a response for product tokens."""
    page = page_of(response)
    lines = response.headers.getlist("X-Robots-Tag")
    rules = parse_rules(lines, page.metas, tokens, now=Runtime().date())
    page.cut = page.cut or rules.cut
    return rules


def count_cut(response: Response, count: Callable[[str], object]) -> None:
    """Count a response once if it has more than is read."""
    page = page_of(response)
    if page.cut and not page.counted:
        page.counted = True
        count(stats.PAGE_CUT)


def all_metas_of(response: Response) -> list[tuple[str, str]]:
    """Return name and content of all metas of a document, also of those outside the head."""
    return _named_metas(page_of(response).tags())


def unendorsed(response: Response) -> set[str]:
    """Return the URLs that the page links only with `nofollow`, `ugc` or `sponsored`."""
    marked, others = list[str](), list[str]()
    for link in _elements(page_of(response).tags(), "aA", "//*[@href]"):
        rel = link.get("rel", "").lower().replace(",", " ").split()
        hrefs = others if _UNENDORSED.isdisjoint(rel) else marked
        hrefs.append(link.get("href"))
    if not marked or not isinstance(response, HtmlResponse):
        return set()
    urls = _canonical(response, [*marked, *others])
    return {urls[href] for href in marked if href in urls} - {urls.get(href) for href in others}


def _canonical(response: HtmlResponse, hrefs: Iterable[str]) -> dict[str, str]:
    """Return link -> URL, in the form that Scrapy's duplicate filter compares.

    Links that are not URLs are left out.
    """
    base = response.url
    with suppress(Exception):  # if `<base>` is not a URL, links are relative to the page
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
        with suppress(Exception):  # hostile links may raise anything
            url = urljoin(base, strip_html5_whitespace(href))
            urls[href] = canonicalize_url(safe_url_string(url, response.encoding))
    return urls


# Apply the rules.


def page_rules(response: Response, crawler: Crawler) -> PageRules:
    """Return the rules in the `X-Robots-Tag` lines and robots metas of a response for this crawl.

    A response is parsed once.

    :param response: a response of any status and type.
    :param crawler: the crawler of the spider: ``page_rules(response, self.crawler)``.
    :raises AgentError: if the request's meta `robotstxt_user_agent` is neither a string nor a list
        of strings.
    """
    page = page_of(response)
    if page.rules is None:
        agents = UserAgents(crawler, read_row(BY_FIELD["user_agent"], crawler.settings))
        agent = agents.default() if response.request is None else agents.of(response.request)
        page.rules = rules_of(response, agent.tokens)
    return page.rules


class RfcPageRulesMiddleware(BaseSpiderMiddleware):
    """Spider middleware that drops requests and items of a callback by the rules of its page.

    Before the callback gets a response, its rules are in its meta, as `robots_tag`.

    :raises NotConfigured: if ROBOTS_TAG_OBEY is empty.
    :raises SettingError: if a setting is not accepted.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._count = stats.counter(crawler)
        self._settings = read_settings(crawler.settings)
        if not self._settings.page_rules:
            raise NotConfigured

    def process_spider_input(self, response: Response) -> None:
        """Parse the rules and put them into meta, which may have copied rules of another page."""
        page = page_of(response)
        rules = response.meta[RULES_KEY] = page_rules(response, self.crawler)
        page.places = self._places(response, rules)
        if _BY_LINK in page.places:
            page.unendorsed = unendorsed(response)
        assert response.request is not None  # Scrapy has set it
        page.own.update(response.meta.get("redirect_urls", ()))
        with suppress(ValueError):  # not a URL, so no request can be for the page itself
            urls = {response.url, response.request.url} if page.places else ()
            page.own |= {canonicalize_url(url) for url in urls}
        count_cut(response, self._count)

    def get_processed_request(self, request: Request, response: Response | None) -> Request | None:
        """Return a request of a callback, or `None` if a rule of its page drops it."""
        page = None if response is None else _PAGES.get(response)
        if response is None or page is None:
            return request
        if request is not response.request and request.meta.get(RULES_KEY) is page.rules:
            # The callback copied the meta of its response; those rules are not for this request.
            del request.meta[RULES_KEY]
        directive = _directive_of(request, page)
        is_dropped = directive is not None and self._drop(response, page.places, directive, request)
        return None if is_dropped else request

    def get_processed_item(self, item: Any, response: Response | None) -> Any:  # noqa: ANN401 - of any type
        """Return an item of a callback, or `None` if a rule of its page drops it."""
        page = None if response is None else _PAGES.get(response)
        if item is None or response is None or page is None or "noindex" not in page.places:
            return item
        return None if self._drop(response, page.places, "noindex") else item

    def _places(self, response: Response, rules: PageRules) -> dict[str, str]:
        """Return rule that is obeyed -> the first place of the page that has it."""
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
        """Count, log and signal that a rule of a page drops a request or an item.

        Return whether to drop it, which is false in a dry run.

        :param request: the request, or `None` for an item.
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
        if request is None:
            shown = response.request or Request(response.url)
        else:  # it does not reach Scrapy's middleware that sets the Referer
            shown = request.copy()
            shown.headers.setdefault("Referer", without_userinfo(response.url))
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


def _directive_of(request: Request, page: Page) -> str | None:
    """Return the rule of a page that drops a request, or `None`."""
    if not page.places or request.meta.get(EXEMPT_KEY):
        return None
    url = canonicalize_url(request.url)
    # Requesting the page itself again does not follow a link; neither does sending a form.
    if not page.own.isdisjoint((request.url, url)):
        return None
    if "nofollow" in page.places:
        return "nofollow"
    return _BY_LINK if request.method == "GET" and url in page.unendorsed else None
