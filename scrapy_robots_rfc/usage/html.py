"""What a response says of itself: its header lines, the metas of its head, and some of its links.

No more of a page is read than takes a few milliseconds, whatever its site sent. See `rules.py` for
what rules say.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeAlias
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
        self._tags = self._read(text, end)
        self._links = list[_Tag]()
        self._metas = list[_Tag]()
        end_of_head = end
        for tag in self._tags:
            if tag["name"][0] in "bB":
                break
            self._store(tag)
        else:  # no body is written
            last = self._metas[-1].end() if self._metas else 0
            (head,) = islice(_HEAD.finditer(text, 0, last), 1)  # there is one, it may be empty
            end_of_head = head.end()
        in_head = (tag for tag in self._metas if tag.start("tag") < end_of_head)
        #: Name and content of the metas before a `<body>` that is written, else of those of the
        #: head.
        self.metas: list[tuple[str, str]] = _named(in_head)

    def _read(self, text: str, end: int) -> Iterator[_Tag]:
        """Yield the tags, as far as they are read."""
        tags = (tag for tag in _TAG.finditer(text, 0, end) if tag["tag"] and not _is_crowded(tag))
        left = MAX_TAG_CHARACTERS
        for count, tag in enumerate(tags):
            left -= len(tag["tag"])
            if count == MAX_TAGS or left < 0:
                self.cut = True
                return
            yield tag

    def _store(self, tag: _Tag) -> None:
        (self._links if tag["name"][0] in "aA" else self._metas).append(tag)

    def all(self) -> tuple[list[_Tag], list[_Tag]]:
        """Return the tags of all links, and of all metas, also of those that do not count."""
        for tag in self._tags:
            self._store(tag)
        return self._links, self._metas


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


def _elements(tags: Iterable[_Tag], path: str) -> Any:  # noqa: ANN401 - a list of elements of lxml
    """Parse tags by themselves, and return the elements of an XPath. Each tag lacks its `>`."""
    text = "".join(f"{tag['tag']}></a>" for tag in tags)
    # Some codecs decode halves of characters, which cannot be encoded.
    encodable = text.encode("utf-8", "replace").decode()
    return Selector(text=encodable, type="html").root.xpath(path)


def _named(metas: Iterable[_Tag]) -> list[tuple[str, str]]:
    elements = _elements(metas, "//meta[@name and @content]")
    return [(element.get("name"), element.get("content")) for element in elements]


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


def is_cut(response: Response) -> bool:
    """Whether a response has more than is read: true once, so that it is counted once."""
    page = page_of(response)
    found = page.cut and not page.counted
    page.counted = page.counted or found
    return found


def all_metas_of(response: Response) -> list[tuple[str, str]]:
    """Return name and content of all metas of a document, also of those that do not count."""
    return _named(page_of(response).all()[1])


def unendorsed(response: Response) -> set[str]:
    """Return the URLs that stand in links with such a `rel` and in no others."""
    marked, others = list[str](), list[str]()
    for link in _elements(page_of(response).all()[0], "//*[@href]"):
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
        urljoin(get_base_url(response), "/")
        base = get_base_url(response)
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
