"""Parse crawler names from User-Agent headers, settings and user-agent lines (RFC 9309, 2.2.1).

`groups.py` finds the groups that match a name.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from scrapy_robots_rfc.core.percent import to_octets

#: The request meta key and the spider attribute for setting the agent.
USER_AGENT_KEY = "robotstxt_user_agent"
#: Describes the values that `parse_agent` accepts, for use in error messages.
ACCEPTED = "a string, or a list of strings in order of preference"

#: The name in a user-agent line that matches all crawlers.
ANY = "*"

# A product token (RFC 9309, 2.2), or the part of a name that looks like one: `FooBot` in `FooBot2`.
_RUN = re.compile("[A-Za-z_-]+")
# The name in a user-agent line or in a setting: `FooBot2` in `FooBot2/1.0 (beta)`.
_NAME = re.compile("[^ \t/;]*")
# A product in a User-Agent header: `FooBot2` in `FooBot2/1.0`. HTTP allows more characters here
# (RFC 9110, 5.6.2) than robots.txt does in a product token.
_WORD = r"[A-Za-z_][\w.!#$%&'*+^`|~-]*"
_PRODUCT = re.compile(rf"(?<![^\s;,(])({_WORD})(?=/)", re.ASCII)
# The first word in a header if no version follows it: `FooBot` in `FooBot (+https://foo.example)`.
_FIRST_WORD = re.compile(rf"\A({_WORD})(?=[\s;,]|$)", re.ASCII)
# A comment in a header: `(compatible; FooBot/2.1)`.
_COMMENT = re.compile(r"\(([^()]*)\)")
# A URL or an email address: `+https://foo.example/bot`, `www.foo.example`, `bot@foo.example`.
_URL = re.compile(r"\+?(?:[A-Za-z][A-Za-z0-9+.-]*://|www\.)[^\s;,()]*|[^\s;,()@]+@[^\s;,()]+")
# A name, optionally followed by a space and a version: `FooBot 2.1`, `FooBot v2`.
_LOOSE_NAME = re.compile(rf"({_WORD})(?: v?[\d.]+\w*)?$", re.ASCII)
# A character that cannot be part of a name.
_has_separator = re.compile(r"[\s/();,]").search

#: Lowercase words in browser User-Agent headers that do not identify a crawler.
BROWSER_WORDS = frozenset(
    """
    mozilla applewebkit khtml gecko like chrome chromium headlesschrome crios safari version mobile
    edg edge edga edgios opr opera presto trident msie firefox fxios seamonkey compatible
    samsungbrowser windows win wow macintosh macos mac intel ppc x linux android iphone ipad ipod
    cros ubuntu fedora debian freebsd openbsd u n i wv rv nt touch tablet build ucbrowser vivaldi
    yabrowser brave duckduckgo en de fr es us webos tizen nexus pixel sm
    """.split()  # noqa: SIM905 -- eighty words are easier to read as text than as a list
)


def is_token(value: str) -> bool:
    """Return whether a string is a product token, which is made up of letters, `_` and `-`."""
    return _RUN.fullmatch(value) is not None


class GroupKey(NamedTuple):
    """A key for finding user-agent lines, either by product token or by full name.

    :param text: the token or the name, in lowercase.
    :param whole: True if `text` is a full name.
    """

    text: str
    whole: bool = False


#: The key for the group that applies to all crawlers.
ANY_KEY = GroupKey(ANY)


def _lower(text: str) -> str:
    """Lowercase only the ASCII letters in Latin-1 text."""
    if text.isascii():
        return text.lower()
    return text.encode("latin-1").lower().decode("latin-1")


def _match_start(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.match(text)
    return match[0] if match else ""


def names_in_line(value: str) -> tuple[str, str]:
    """Return the product token and the full name from a user-agent line, in lowercase.

    The name ends at a space, tab, ``/`` or ``;``. The token ends at the first character that is not
    allowed in a token. For example, ``bot1/2.0`` has the token ``bot`` and the name ``bot1``.
    Either may be empty.

    :param value: the value of the line, decoded as Latin-1.
    """
    # As in Google's reference parser, `*` may be followed by whitespace and any text.
    if value[:1] == ANY and value[1:2] in ("", " ", "\t", "\v", "\f"):
        return ANY, ""
    name = _lower(_match_start(_NAME, value))
    return _match_start(_RUN, name), name


def line_keys(token: str, name: str) -> tuple[GroupKey, ...]:
    """Return the keys that match a user-agent line with the given token and full name."""
    keys = (GroupKey(token), GroupKey(name, whole=True))
    return tuple(key for key in keys if key.text)


def crawler_keys(name: str) -> tuple[tuple[str, GroupKey], ...]:
    """Return the keys for finding a crawler's user-agent lines, in order of preference.

    A product token is compared with the token in each line, so ``bot`` also matches ``bot1``
    (2.2.1). A name that contains other characters is compared with full names first. If none of
    them match, its leading token is used instead. For example, ``bot2`` matches ``bot2`` if the
    file contains it, or else ``bot``, but never ``bot1``.

    :returns: pairs of a name and its key. Names are spelled as in `name`.
    """
    if name == ANY:
        return ((ANY, ANY_KEY),)
    full_name = _match_start(_NAME, name)
    if is_token(full_name):
        return ((full_name, GroupKey(full_name.lower())),)
    leading_token = _match_start(_RUN, full_name)  # `bot` in `bot2`
    # A full name may contain non-ASCII characters. To find it in the file, convert it to the form
    # that `names_in_line` returns, which is decoded as Latin-1.
    return tuple(
        (spelling, GroupKey(_lower(to_octets(spelling)), whole=True))
        for spelling in (full_name, leading_token)
        if spelling
    )


def _names_in_header(header: str) -> list[str]:
    """Return the names in a User-Agent header, with the most likely name of the crawler first.

    In `Mozilla/5.0 (compatible; FooBot/2.1) Chrome/99 (BarBot/1.0)`, `FooBot` is the most likely
    name, because it is next to `compatible`. Names in other comments, such as `BarBot`, come last.
    """
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
    """Return the crawler names in an identification string, in order of preference.

    A single word is returned unchanged. For a User-Agent header, this returns all products,
    including products in comments, but skips words that browsers send and anything inside a URL.
    Names from a comment that contains ``compatible`` come first.

    :param identification: a name or the value of a User-Agent header. Bytes are decoded as UTF-8.
    :returns: the names as written, or an empty tuple if there are none. In that case, only the
        ``*`` group can apply.
    """
    text = _to_text(identification)
    if text and not _has_separator(text):
        return (text,)
    spellings: dict[str, str] = {}
    for name in _names_in_header(text):
        if not _is_sent_by_browsers(name):
            spellings.setdefault(name.lower(), name)
    return tuple(spellings.values())


def _to_text(identification: str | bytes) -> str:
    if isinstance(identification, bytes):
        identification = identification.decode("utf-8", "replace")
    return identification.strip()


class Agent(NamedTuple):
    """The crawler's identity, which is matched against user-agent lines.

    :param tokens: the crawler's names, in order of preference. Without any, only the ``*`` group
        can apply.
    :param identification: the full identification string, which is passed to third-party parsers.
    """

    tokens: tuple[str, ...]
    identification: str


#: The agent to use if the crawl does not send a User-Agent.
NO_AGENT = Agent((), "")


def parse_agent(value: object) -> Agent | None:
    """Parse a user-supplied value into an agent.

    :param value: a name, the value of a User-Agent header, or a list of either.
    :returns: `None` if the value is `None` or empty.
    :raises TypeError: if the value has any other type.
    """
    if value is None:
        return None
    names = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(name, (str, bytes)) for name in names):
        raise TypeError(ACCEPTED)
    return _agent_from_names(names, split_commas=isinstance(value, str))


@lru_cache(maxsize=1024)
def _agent_from_names(names: tuple[str | bytes, ...], split_commas: bool) -> Agent | None:
    """Return an agent with the given names.

    :param split_commas: True if there is only one name, which may be a comma-separated list of
        names, as on the command line.
    """
    texts = [text for text in map(_to_text, names) if text]
    if split_commas and texts:
        # Do not split a User-Agent header that contains commas. If it was split, at least one part
        # would contain another separator, such as the space in `FooBot (Linux, x86)`.
        parts = [part.strip() for part in texts[0].split(",")]
        if not any(_has_separator(part) for part in parts):
            texts = [part for part in parts if part]
    if not texts:
        return None
    tokens = [token for text in texts for token in product_tokens(text)]
    return Agent(tuple(dict.fromkeys(tokens)), texts[0])
