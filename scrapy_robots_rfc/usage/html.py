"""The rules and links of a response: header lines, the metas of its head, and the links that it does not vouch for.

No more of a page is read than takes a few milliseconds, whatever its site sent. See `rules.py` for
what rules say.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from weakref import WeakKeyDictionary

from parsel import Selector
from scrapy.http import HtmlResponse, Response
from w3lib.html import strip_html5_whitespace
from w3lib.url import canonicalize_url, safe_url_string

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.usage.rules import PageRules, combine, parse_headers, parse_metas

logger: logging.Logger = logging.getLogger(__name__)

#: Characters of a document that are looked at.
MAX_DOCUMENT = 1_048_576
#: Characters of its head that are parsed, without scripts, styles and comments; tags and comments
#: of it; names and contents of its metas. Real heads have a tenth of that.
MAX_HEAD, MAX_TAGS, MAX_METAS = 65_536, 3000, 500
#: Links of a document that are looked at, characters of their tags, and how many that say nofollow
#: count.
MAX_LINKS, MAX_LINK_TAGS, MAX_UNENDORSED = 3000, 196_608, 1000
# Tags, comments, scripts and what stands between them, of one document: for its links, and for its
# metas where those of the head cannot be told from others. What stands between two links is a
# piece, too. For metas there are fewer, since the head was looked through before.
_MOST_PIECES, _MOST_META_PIECES = 8000, 4000
# URLs that canonicalize_url has to look at, for one page, and their characters: a URL takes a tenth
# of a millisecond, and a thousand characters of a host outside ASCII take two.
_MOST_CANONICAL, _MOST_CANONICAL_CHARACTERS = 100, 4096
# What `rel` says of a link that its page does not vouch for (HTML, 4.6.7). Scrapy's `Link.nofollow`
# knows one of them.
_UNENDORSED = frozenset({"nofollow", "ugc", "sponsored"})

# Comments and elements in which no tag counts; the begin of the body; every other tag, in whose
# attributes neither counts; `<` that begin nothing, all that stand in a row. No part gives back
# what it has matched, and each `<` that begins one is matched, also where its end is missing: else
# all of them would look for it to the end of the document. So time is linear in its length. Both
# begin with the one octet that they are looked for by.
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
_LINK = _tokens(
    rf"(?P<tag>a(?:rea)?[\s/]{_ATTRIBUTES})", rf"a(?:rea)?[\s/]|(?:{_SKIPPED_NAMES})\b|!--"
)
_META = _tokens(rf"(?P<tag>meta[\s/]{_ATTRIBUTES})", rf"meta[\s/]|(?:{_SKIPPED_NAMES})\b|!--")

# A tag of more characters, with more attributes (or words in one), is left out: the time of lxml
# for a tag grows with the square of its attributes. Real tags have a few dozen.
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

# The metas that count: a declared use asks for them before the callback's middleware does.
_METAS: WeakKeyDictionary[Response, list[tuple[str, str]]] = WeakKeyDictionary()
# Responses of which not all is read -> whether they were counted.
_CUT: WeakKeyDictionary[Response, bool] = WeakKeyDictionary()


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
    """Whether a response has more than is read.

    True once a response, so that it is counted once.
    """
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

    :param head: whether those alone that count: in the head of the parser's tree, or before a
        `<body>` that is written, as far as `MAX_HEAD`, `MAX_TAGS` and `MAX_METAS` go.
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
        logger.debug(
            "Robots metas of %s cannot be read", without_userinfo(response.url), exc_info=True
        )
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
    """Whether a document nests too deep for the parser.

    Nobody knows then which metas are in the head: all count.
    """
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
    """Return where the links of a document lead: those with such a `rel`, and the others.

    Each once.
    """
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
                pairs = sorted(
                    pair.partition("=") for pair in (usual["query"] or "").split("&") if pair
                )
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
