"""What a response says of itself: its header lines, the metas of its head, and some of its links.

No more of a page is read than takes a few milliseconds, whatever its site sent. See `rules.py` for
what rules say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

from parsel import Selector
from scrapy.http import HtmlResponse, Response
from scrapy.utils.response import get_base_url
from w3lib.html import strip_html5_whitespace
from w3lib.url import canonicalize_url, safe_url_string

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.usage.rules import PageRules, parse_rules

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
# Characters of URLs of one page that canonicalize_url looks at. A short one takes a twentieth of a
# millisecond, and a thousand characters of a host outside ASCII take two.
_MOST_CANONICAL = 4096
# To join so many characters of a base and a link takes as long as to make one canonical.
_JOINED = 32
# Words of a `rel` that are read.
_RELS = 20
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


class Page:
    """The tags of a page. They are gone through once: those of the head at first."""

    def __init__(self, response: Response) -> None:
        text = _text_of(response)
        end = min(len(text), MAX_DOCUMENT)
        for mark in "<=":
            if text.count(mark, 0, end) > MAX_MARKS:
                end -= len(text[:end].split(mark, MAX_MARKS)[-1])
        #: Whether the page has more than is read, and whether it was counted as such a page.
        self.cut: bool = end < len(text)
        self.counted: bool = False
        self._tags = _TAG.finditer(text, 0, end)
        self._left = MAX_TAGS
        self._characters_left = MAX_TAG_CHARACTERS
        self._links = list[str]()
        metas = list[re.Match[str]]()
        for tag in self._metas_and_bodies():
            if tag["name"][0] in "bB":
                break
            metas.append(tag)
        else:  # no body is written
            head = _HEAD.match(text, 0, metas[-1].end()) if metas else None
            metas = [tag for tag in metas if head is None or tag.start("tag") < head.end()]
        #: Name and content of the metas before a `<body>` that is written, else of those of the
        #: head.
        self.metas: list[tuple[str, str]] = _named(metas)

    def links(self) -> list[str]:
        """Return the tags of all links."""
        for _ in self._metas_and_bodies():
            pass
        return self._links

    def _metas_and_bodies(self) -> Iterator[re.Match[str]]:
        """Go on through the tags; links are stored."""
        for tag in self._tags:
            if tag["tag"] is None:
                return
            if _is_crowded(tag):
                continue
            self._left -= 1
            self._characters_left -= len(tag["tag"])
            if self._left < 0 or self._characters_left < 0:
                self.cut = True
                self._tags = iter(())
                return
            if tag["name"][0] in "aA":
                self._links.append(tag["tag"])
            else:
                yield tag


def _text_of(response: Response) -> str:
    """Return the text of a document; nothing where it is no HTML."""
    try:
        return response.text if isinstance(response, HtmlResponse) else ""
    except Exception:  # noqa: BLE001 - whatever a decoder raises about what a site sent
        return ""


def _is_crowded(tag: re.Match[str]) -> bool:
    """Whether a meta or a link is left out, as lxml would stop the crawl with it."""
    text = tag["tag"]
    return len(text) > _LONG and tag["name"][0] not in "bB" and _CROWDED.match(text) is not None


def _elements(tags: Iterable[str], *names: str) -> Iterator[Any]:
    """Parse tags by themselves. Each of them lacks its `>`."""
    text = "".join(f"{tag}></a>" for tag in tags)
    # Some codecs decode halves of characters, which cannot be encoded.
    encodable = text.encode("utf-8", "replace").decode()
    return Selector(text=encodable, type="html").root.iter(*names)  # type: ignore[no-any-return]


def _named(metas: Iterable[re.Match[str]]) -> list[tuple[str, str]]:
    elements = _elements((meta["tag"] for meta in metas), "meta")
    named = ((element.get("name"), element.get("content")) for element in elements)
    return [(name, content) for name, content in named if None not in (name, content)]


_PAGES: WeakKeyDictionary[Response, Page] = WeakKeyDictionary()


def page_of(response: Response) -> Page:
    """Return the tags of a response, which are none where it is no HTML."""
    page = _PAGES.get(response)
    if page is None:
        page = _PAGES[response] = Page(response)
    return page


def rules_of(response: Response, tokens: Sequence[str]) -> PageRules:
    """Return what the header lines and the metas of a response ask of some product tokens."""
    lines = response.headers.getlist("X-Robots-Tag")
    rules = parse_rules(lines, page_of(response).metas, tokens, now=Runtime().date())
    if rules.cut:
        page_of(response).cut = True
    return rules


def is_cut(response: Response) -> bool:
    """Whether a response has more than is read: true once, so that it is counted once."""
    page = page_of(response)
    found = page.cut and not page.counted
    page.counted = page.counted or found
    return found


def all_metas_of(response: Response) -> list[tuple[str, str]]:
    """Return name and content of all metas of a document, also of those that do not count."""
    tags = (tag for tag in _TAG.finditer(_text_of(response), 0, MAX_DOCUMENT) if tag["tag"])
    return _named(tag for tag in tags if tag["name"][0] in "mM" and not _is_crowded(tag))


def unendorsed(response: Response) -> set[str]:
    """Return the URLs that stand in links with such a `rel` and in no others."""
    if not isinstance(response, HtmlResponse):
        return set()
    marked, others = dict[str, None](), dict[str, None]()
    for link in _elements(page_of(response).links(), "a", "area"):
        rel = re.split(r"[\s,]+", link.get("rel", "").lower(), maxsplit=_RELS)[:_RELS]
        if link.get("href") is not None:
            (others if _UNENDORSED.isdisjoint(rel) else marked)[link.get("href")] = None
    if not marked:
        return set()
    urls = _CanonicalUrls(response)
    return urls.of(marked) - urls.of(others)


class _CanonicalUrls:
    """Makes the URLs of a page's links canonical, as Scrapy's filter of duplicates has them."""

    def __init__(self, response: HtmlResponse) -> None:
        self._response = response
        self._base = response.url
        with suppress(Exception):  # where `<base>` is no URL, links are relative to the page
            base = get_base_url(response)
            urljoin(base, "/")
            self._base = base
        self._root = urljoin(self._base, "/").removesuffix("/")
        self._characters_left = _MOST_CANONICAL

    def of(self, hrefs: Iterable[str]) -> set[str]:
        """Return the URLs of links; what is no URL is passed over."""
        return {url for href in hrefs if (url := self._usual(href) or self._other(href))}

    def _usual(self, href: str) -> str | None:
        parts = _USUAL_HREF.fullmatch(href)
        if parts is None:
            return None
        url = (parts["site"] or self._root) + parts["path"]
        pairs = (parts["query"] or "").split("&")
        query = "&".join(sorted(pairs, key=lambda pair: pair.split("=")))
        return f"{url}?{query}" if query else url

    def _other(self, href: str) -> str | None:
        if self._characters_left >= 0:  # to join a URL takes time, too
            self._characters_left -= len(href) + (len(self._base) + len(href)) // _JOINED
            with suppress(Exception):  # whatever is raised about what a site sent
                url = urljoin(self._base, strip_html5_whitespace(href))
                self._characters_left -= max(len(url) - len(href), 0)
                if self._characters_left >= 0:
                    return canonicalize_url(safe_url_string(url, self._response.encoding))
        if self._characters_left < 0:
            page_of(self._response).cut = True
        return None
