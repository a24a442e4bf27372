"""Names of crawlers (RFC 9309, 2.2.1): in a User-Agent header, a setting, or a user-agent line.

`ruleset.py` finds the groups that a name selects.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from scrapy_robots_rfc.core.percent import to_octets

#: The request meta key and the spider attribute that name the agent.
USER_AGENT_KEY = "robotstxt_user_agent"
#: What `parse_agent` accepts, in words for the user.
ACCEPTED = "a string, or a list of strings in order of preference"

#: The value that addresses all crawlers in a user-agent line.
ANY = "*"

# A product token, or the beginning of a name (RFC 9309, 2.2): `FooBot` in `FooBot2`.
_RUN = re.compile("[A-Za-z_-]+")
# The name in a user-agent line or in a setting: `FooBot2` in `FooBot2/1.0 (beta)`.
_NAME = re.compile("[^ \t/;]*")
# A product in a User-Agent header, whose name may have more characters than a product token (RFC
# 9110, 5.6.2): `FooBot2` in `FooBot2/1.0`.
_WORD = r"[A-Za-z_][\w.!#$%&'*+^`|~-]*"
_PRODUCT = re.compile(rf"(?<![^\s;,(])({_WORD})(?=/)", re.ASCII)
# The first word of a header without a version: `FooBot` in `FooBot (+https://foo.example)`.
_FIRST_WORD = re.compile(rf"\A({_WORD})(?=[\s;,]|$)", re.ASCII)
# A comment: `(compatible; FooBot/2.1)`.
_COMMENT = re.compile(r"\(([^()]*)\)")
# A URL or a mail address: `+https://foo.example/bot`, `www.foo.example`, `bot@foo.example`.
_URL = re.compile(r"\+?(?:[A-Za-z][A-Za-z0-9+.-]*://|www\.)[^\s;,()]*|[^\s;,()@]+@[^\s;,()]+")
# A name with a version after a space: `FooBot 2.1`, `FooBot v2`.
_LOOSE_NAME = re.compile(rf"({_WORD})(?: v?[\d.]+\w*)?$", re.ASCII)
# What a single word does not contain.
_separates_words = re.compile(r"[\s/();,]").search

#: Lower-case words from browser User-Agent headers that do not identify a crawler.
BROWSER_WORDS = frozenset(
    """
    mozilla applewebkit khtml gecko like chrome chromium headlesschrome crios safari version mobile
    edg edge edga edgios opr opera presto trident msie firefox fxios seamonkey compatible
    samsungbrowser windows win wow macintosh macos mac intel ppc x linux android iphone ipad ipod
    cros ubuntu fedora debian freebsd openbsd u n i wv rv nt touch tablet build ucbrowser vivaldi
    yabrowser brave duckduckgo en de fr es us webos tizen nexus pixel sm
    """.split()  # noqa: SIM905 -- eighty words read better as text than as a list
)


def is_token(value: str) -> bool:
    """Return whether a string is a product token: ASCII letters, `_` and `-` (2.2.1)."""
    return _RUN.fullmatch(value) is not None


class GroupKey(NamedTuple):
    """Selects user-agent lines, by their token or by their whole name.

    :param text: the token or the name, in lower case.
    :param whole: whether it is a whole name.
    """

    text: str
    whole: bool = False


#: Selects the lines that address all crawlers.
ANY_KEY = GroupKey(ANY)


def _lower(text: str) -> str:
    """Return bytes, one character each, with ASCII letters in lower case."""
    if text.isascii():
        return text.lower()
    return text.encode("latin-1").lower().decode("latin-1")


def _beginning(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.match(text)
    return match[0] if match else ""


def names_in_line(value: str) -> tuple[str, str]:
    """Return the token and the whole name in a user-agent line, in lower case.

    The name ends at a blank, ``/`` or ``;``, and the token is the run of token characters with
    which it begins: ``bot`` and ``bot1`` for ``bot1/2.0``. Either may be empty.

    :param value: bytes, one character each.
    """
    if value[:1] == ANY and value[1:2] in ("", " ", "\t", "\v", "\f"):
        return ANY, ""
    name = _lower(_beginning(_NAME, value))
    return _beginning(_RUN, name), name


def line_keys(token: str, name: str) -> tuple[GroupKey, ...]:
    """Return the keys that select a user-agent line, given its token and its whole name."""
    keys = (GroupKey(token), GroupKey(name, whole=True))
    return tuple(key for key in keys if key.text)


def crawler_keys(name: str) -> tuple[tuple[str, GroupKey], ...]:
    """Return the keys that select the lines for a crawler, in order of preference.

    A product token selects lines by their token: ``bot`` also selects ``bot1`` (2.2.1). A name
    with other characters selects lines by their whole name. If there are none, the token with
    which it begins does: ``bot2`` selects ``bot2``, or else ``bot``, but never ``bot1``.

    :returns: each key, after its text as the crawler spells it.
    """
    if name == ANY:
        return ((ANY, ANY_KEY),)
    whole = _beginning(_NAME, name)
    if is_token(whole):
        return ((whole, GroupKey(whole.lower())),)
    spellings = (whole, _beginning(_RUN, whole))
    return tuple(
        (each, GroupKey(_lower(to_octets(each)), whole=True)) for each in spellings if each
    )


def _names_in_header(header: str) -> list[str]:
    """Return the names in a User-Agent header, those beside `compatible` in a comment first."""
    beside_compatible: list[str] = []
    in_comments: list[str] = []
    for comment in _COMMENT.findall(header):
        parts = [part.strip() for part in _URL.sub("", comment).split(";")]
        is_compatible = any(part.lower() == "compatible" for part in parts)
        names = beside_compatible if is_compatible else in_comments
        for part in parts:
            match = _PRODUCT.match(part)
            if match is None and is_compatible:  # `(compatible; FooBot 2.1)` has no slash
                match = _LOOSE_NAME.match(part)
            if match is not None:
                names.append(match[1])
    products = _URL.sub("", _COMMENT.sub(" ", header)).strip()
    return [
        *beside_compatible,
        *_FIRST_WORD.findall(products),
        *_PRODUCT.findall(products),
        *in_comments,
    ]


def _is_sent_by_browsers(name: str) -> bool:
    return name.lower().rstrip("0123456789._-") in BROWSER_WORDS  # `Win64`, `X11`


@lru_cache(maxsize=1024)
def product_tokens(identification: str | bytes) -> tuple[str, ...]:
    """Return the names in a crawler's identification, in order of preference.

    A single word is returned as it is. In a User-Agent header, names in product position and in
    comments count, but neither words that browsers send nor words of URLs. Names in a comment that
    says ``compatible`` come first.

    :param identification: a name, or the value of a User-Agent header; bytes are read as UTF-8.
    :returns: the names as written; empty if the string names no crawler, so that only the ``*``
        group can apply.
    """
    text = _text_of(identification)
    if text and not _separates_words(text):
        return (text,)
    spellings: dict[str, str] = {}
    for name in _names_in_header(text):
        if not _is_sent_by_browsers(name):
            spellings.setdefault(name.lower(), name)
    return tuple(spellings.values())


def _text_of(identification: str | bytes) -> str:
    if isinstance(identification, bytes):
        identification = identification.decode("utf-8", "replace")
    return identification.strip()


class Agent(NamedTuple):
    """The identity of the crawler for robots.txt.

    :param tokens: its names in order of preference; if empty, only the ``*`` group can apply.
    :param identification: the whole string, for third-party parsers.
    """

    tokens: tuple[str, ...]
    identification: str


#: The agent of a crawl that sends no User-Agent.
NO_AGENT = Agent((), "")


def parse_agent(value: object) -> Agent | None:
    """Return the agent that a user's value names, or `None` if it names none.

    :param value: a name, the value of a User-Agent header, or a list of those. ``None`` and ``""``
        name none.
    :raises TypeError: if it is something else.
    """
    if value is None:
        return None
    names = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(name, (str, bytes)) for name in names):
        raise TypeError(ACCEPTED)
    return _agent_of(names, isinstance(value, str))


@lru_cache(maxsize=1024)
def _agent_of(names: tuple[str | bytes, ...], may_be_list: bool) -> Agent | None:
    """Return the agent of some names.

    :param may_be_list: whether a single name may be a list with commas, as on the command line.
    """
    texts = [text for text in map(_text_of, names) if text]
    if may_be_list and texts:
        # A User-Agent header with commas has other separators, too.
        parts = [part.strip() for part in texts[0].split(",")]
        if not any(_separates_words(part) for part in parts):
            texts = [part for part in parts if part]
    if not texts:
        return None
    tokens = [token for text in texts for token in product_tokens(text)]
    return Agent(tuple(dict.fromkeys(tokens)), texts[0])
