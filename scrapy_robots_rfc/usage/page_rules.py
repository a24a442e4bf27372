"""Rules of a page in a crawl: `page_rules` for spiders, and what obeys ROBOTS_TAG_OBEY.

No page stops the crawl for more than about 20 milliseconds, whatever its site sent: no more of its
header lines, of the metas of its head, and of its links is read than that takes. See `rules.py` for
what rules say.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
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
#: The meta key of a page whose rules do not count, and of a request that no rule of a page stops.
EXEMPT_KEY = "dont_obey_robots_tag"
# Characters of a header line or a meta that the log and the report have.
_LONGEST = 200
_BY_LINK = "link-nofollow"
# First word of where a rule stands -> its source, for the stats.
_SOURCES = {"X-Robots-Tag:": "header", "meta": "meta", "rel": "link"}

#: Characters of a document that are looked at.
MAX_DOCUMENT = 1_048_576
#: Characters `<`, and characters `=`, that are looked at: so many take ten milliseconds. Large
#: documents have 25,000 of each in a mebibyte.
MAX_MARKS = 40_000
#: Metas and links of a document that are read, together, and the characters of their tags.
MAX_TAGS, MAX_TAG_CHARACTERS = 3000, 196_608
# Metas and links of more characters are left out if they have a hundred attributes, or words in
# one: the time of lxml grows with the square of their number.
_LONG = 1000
_CROWDED = re.compile(r"(?:[^\s/=]*+[\s/=]++){100}")
# Characters of links that canonicalize_url looks at, each with those of its site, and an eighth of
# those of the base that it is joined to. A short URL takes a twentieth of a millisecond, and a
# thousand characters of a host outside ASCII take two.
_MOST_CANONICAL = 4096
_JOINED = 8
# What `rel` says of a link that its page does not vouch for (HTML, 4.6.7). Scrapy's `Link.nofollow`
# knows one of them.
_UNENDORSED = frozenset({"nofollow", "ugc", "sponsored"})

# No part of these expressions gives back what it has matched, and what has no end reaches to the
# end of the document. So their time grows with the number of `<` and `=`.
_NAME_ENDS = r"(?![^\s/>])"
_ATTRIBUTES = r"""(?:[^>=]++|=++\s*+(?:"[^"]*+"|'[^']*+')?+)*+"""
_COMMENT = r"!--(?:-?>|.*?--!?>|.*)"
# Elements in which no tag counts. XHTML may close one at once.
_OPAQUE = "|".join(
    rf"{name}{_NAME_ENDS}{_ATTRIBUTES}"
    rf"(?:(?<=/)>|>(?:[^<]++|<(?!/{name}{_NAME_ENDS}))*+(?:</{name}[^>]*+>?+)?+)?+"
    for name in ("script", "style", "noscript", "template", "title", "textarea")
)
_FLAGS = re.ASCII | re.DOTALL | re.IGNORECASE | re.VERBOSE
# One of the tags that are read, and all that stands before it; or all up to the end.
_READ = rf"(?:meta|body|a|area){_NAME_ENDS}"
_TAG = re.compile(
    rf"(?:[^<]++|<(?!{_READ})(?:{_COMMENT}|{_OPAQUE}|/?[a-z]{_ATTRIBUTES})?+)*+"
    rf"(?:(?P<tag><(?P<name>{_READ}){_ATTRIBUTES})|\Z)",
    _FLAGS,
)
# What may stand in the head, so that what follows it begins the body (HTML, 13.2.6.4.4).
_HEAD = re.compile(
    rf"(?:\s++|<(?:{_COMMENT}|[!?/][^>]*+|(?!textarea)(?:{_OPAQUE})"
    rf"|(?:html|head|base|link|meta){_NAME_ENDS}{_ATTRIBUTES})>?+)*+",
    _FLAGS,
)
# An absolute path, perhaps of another site and with a query, of which canonicalize_url would only
# sort the parameters.
_USUAL_HREF = re.compile(
    r"(?P<site>https?://[a-z0-9]++(?:[.-][a-z0-9]++)*+)?+"
    r"(?P<path>/|(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)++/?+)"
    r"(?:\?(?P<query>[A-Za-z0-9._-]++=[A-Za-z0-9._-]*+(?:&[A-Za-z0-9._-]++=[A-Za-z0-9._-]*+)*+))?+"
)

_Tag: TypeAlias = re.Match[str]


class Page:
    """What is known of a page. Its tags are gone through once: those of the head at first."""

    def __init__(self, response: Response) -> None:
        text = _text_of(response)
        end = min(len(text), MAX_DOCUMENT)
        for mark in "<=":
            if text.count(mark, 0, end) > MAX_MARKS:
                end -= len(text[:end].split(mark, MAX_MARKS)[-1])
        #: Whether the page has more than is read, and whether it was counted as such a page.
        self.cut: bool = end < len(text)
        self.counted: bool = False
        found = _TAG.finditer(text, 0, end)
        self._unread = (tag for tag in found if tag["tag"] and not _is_crowded(tag))
        self._tags = list[_Tag]()
        self._left = MAX_TAG_CHARACTERS
        end_of_head = end
        for tag in self._read():
            if tag["name"][0] in "bB":
                break
        else:  # no body is written
            last = self._tags[-1].end() if self._tags else 0
            (head,) = islice(_HEAD.finditer(text, 0, last), 1)  # there is one, it may be empty
            end_of_head = head.end()
        in_head = (tag for tag in self._tags if tag.start("tag") < end_of_head)
        #: Name and content of the metas before a `<body>` that is written, else of those of the
        #: head.
        self.metas: list[tuple[str, str]] = _named(in_head)
        #: What `page_rules` has parsed.
        self.rules: PageRules | None = None
        #: What is obeyed of the rules -> the first place where that stands. Empty until the
        #: callback gets the page, so what an errback yields passes.
        self.places: dict[str, str] = {}
        #: URLs of the page itself, and those that led to it as they were asked for; and those of
        #: `unendorsed`.
        self.own: set[str] = set()
        self.unendorsed: set[str] = set()

    def _read(self) -> Iterator[_Tag]:
        """Go on through the tags, as far as they are read."""
        for tag in self._unread:
            self._left -= len(tag["tag"])
            if len(self._tags) == MAX_TAGS or self._left < 0:
                self.cut = True
                return
            self._tags.append(tag)
            yield tag

    def tags(self) -> list[_Tag]:
        """Return those of the whole page."""
        for _ in self._read():
            pass
        return self._tags


def _text_of(response: Response) -> str:
    """Return the text of a document; nothing where it is no HTML."""
    try:
        return response.text if isinstance(response, HtmlResponse) else ""
    except Exception:  # noqa: BLE001 - whatever a decoder raises about what a site sent
        return ""


def _is_crowded(tag: _Tag) -> bool:
    """Whether a meta or a link is left out, as lxml would stop the crawl with it."""
    text = tag["tag"]
    return len(text) > _LONG and tag["name"][0] not in "bB" and _CROWDED.match(text) is not None


def _elements(tags: Iterable[_Tag], initials: str, path: str) -> Any:  # noqa: ANN401 - a list of elements of lxml
    """Parse tags whose names begin so, each by itself, and return the elements of an XPath."""
    # Each tag lacks its `>`.
    text = "".join(f"{tag['tag']}></a>" for tag in tags if tag["name"][0] in initials)
    # Some codecs decode halves of characters, which cannot be encoded.
    encodable = text.encode("utf-8", "replace").decode()
    return Selector(text=encodable, type="html").root.xpath(path)


def _named(tags: Iterable[_Tag]) -> list[tuple[str, str]]:
    metas = _elements(tags, "mM", "//meta[@name and @content]")
    return [(meta.get("name"), meta.get("content")) for meta in metas]


_PAGES: WeakKeyDictionary[Response, Page] = WeakKeyDictionary()


def page_of(response: Response) -> Page:
    """Return the tags of a response, which are none where it is no HTML."""
    page = _PAGES.get(response)
    if page is None:
        page = _PAGES[response] = Page(response)
    return page


def rules_of(response: Response, tokens: Sequence[str]) -> PageRules:
    """Return what the header lines and the metas of a response ask of some product tokens."""
    page = page_of(response)
    lines = response.headers.getlist("X-Robots-Tag")
    rules = parse_rules(lines, page.metas, tokens, now=Runtime().date())
    page.cut = page.cut or rules.cut
    return rules


def count_cut(response: Response, count: Callable[[str], object]) -> None:
    """Count a response that has more than is read, once."""
    page = page_of(response)
    if page.cut and not page.counted:
        page.counted = True
        count(stats.PAGE_CUT)


def all_metas_of(response: Response) -> list[tuple[str, str]]:
    """Return name and content of all metas of a document, also of those that do not count."""
    return _named(page_of(response).tags())


def unendorsed(response: Response) -> set[str]:
    """Return the URLs that stand in links with such a `rel` and in no others."""
    marked, others = list[str](), list[str]()
    for link in _elements(page_of(response).tags(), "aA", "//*[@href]"):
        rel = link.get("rel", "").lower().replace(",", " ").split()
        (others if _UNENDORSED.isdisjoint(rel) else marked).append(link.get("href"))
    if not marked or not isinstance(response, HtmlResponse):
        return set()
    urls = _canonical(response, [*marked, *others])
    return {urls[href] for href in marked if href in urls} - {urls.get(href) for href in others}


def _canonical(response: HtmlResponse, hrefs: Iterable[str]) -> dict[str, str]:
    """Return the URLs of a page's links as Scrapy's filter of duplicates has them.

    What is no URL is left out.
    """
    base = response.url
    with suppress(Exception):  # where `<base>` is no URL, links are relative to the page
        named = get_base_url(response)
        urljoin(named, "/")
        base = named
    root = urljoin(base, "/").removesuffix("/")
    left = _MOST_CANONICAL
    urls = dict[str, str]()
    for href in dict.fromkeys(hrefs):
        usual = _USUAL_HREF.fullmatch(href)
        if usual is not None:
            urls[href] = (usual["site"] or root) + usual["path"]
            if usual["query"]:
                pairs = sorted(usual["query"].split("&"), key=lambda pair: pair.split("="))
                urls[href] += "?" + "&".join(pairs)
            continue
        left -= len(root) + len(href) + len(base) // _JOINED
        if left < 0:
            page_of(response).cut = True
            continue
        with suppress(Exception):  # whatever is raised about what a site sent
            url = urljoin(base, strip_html5_whitespace(href))
            urls[href] = canonicalize_url(safe_url_string(url, response.encoding))
    return urls


# What is obeyed.


def page_rules(response: Response, crawler: Crawler) -> PageRules:
    """Return what the `X-Robots-Tag` lines and the robots metas of a response ask of this crawl.

    A response is parsed when it is first asked about.

    :param response: of any status and type.
    :param crawler: of the spider, for the product tokens of the request: ``page_rules(response,
        self.crawler)``.
    :raises AgentError: meta `robotstxt_user_agent` of the request is neither a string nor a list of
        strings.
    """
    page = page_of(response)
    if page.rules is None:
        agents = UserAgents(crawler, read_row(BY_FIELD["user_agent"], crawler.settings))
        agent = agents.default() if response.request is None else agents.of(response.request)
        page.rules = rules_of(response, agent.tokens)
    return page.rules


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

    def process_spider_input(self, response: Response) -> None:
        """Read the rules, and put them into meta.

        Those of another page may be there, because a callback copied its meta.
        """
        page = page_of(response)
        rules = response.meta[RULES_KEY] = page_rules(response, self.crawler)
        page.places = self._places(response, rules)
        if _BY_LINK in page.places:
            page.unendorsed = unendorsed(response)
        assert response.request is not None  # Scrapy has set it
        page.own.update(response.meta.get("redirect_urls", ()))
        with suppress(ValueError):  # what is no URL is no page that a request could ask for again
            urls = {response.url, response.request.url} if page.places else ()
            page.own |= {canonicalize_url(url) for url in urls}
        count_cut(response, self._count)

    def get_processed_request(self, request: Request, response: Response | None) -> Request | None:
        """Return a request of a callback; ``None``: its page forbids it."""
        page = None if response is None else _PAGES.get(response)
        if response is None or page is None:
            return request
        if request is not response.request and request.meta.get(RULES_KEY) is page.rules:
            # The callback copied the meta of its response: they are not of this request.
            del request.meta[RULES_KEY]
        directive = _directive_of(request, page)
        is_dropped = directive is not None and self._drop(response, page.places, directive, request)
        return None if is_dropped else request

    def get_processed_item(self, item: Any, response: Response | None) -> Any:  # noqa: ANN401 - of any type
        """Return an item of a callback; ``None``: its page forbids it."""
        page = None if response is None else _PAGES.get(response)
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
        if request is None:
            shown = response.request or Request(response.url)
        else:  # it does not get to Scrapy's middleware that sets this header
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
    """Return the rule that forbids a request; ``None``: no rule does."""
    if not page.places or request.meta.get(EXEMPT_KEY):
        return None
    url = canonicalize_url(request.url)
    # To ask for the page itself again is to follow no link. To send a form is not, either.
    if not page.own.isdisjoint((request.url, url)):
        return None
    if "nofollow" in page.places:
        return "nofollow"
    return _BY_LINK if request.method == "GET" and url in page.unendorsed else None
