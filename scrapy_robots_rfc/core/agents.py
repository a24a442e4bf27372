"""Product tokens (RFC 9309, 2.2.1): of a User-Agent header, a setting, or a user-agent line.

`ruleset.py` finds the groups that a token selects.
"""

import re
from functools import lru_cache
from typing import NamedTuple

#: The name of the request meta key and of the spider attribute that name the agent.
USER_AGENT_KEY = "robotstxt_user_agent"
#: What `agent_of` takes, in words for the user.
ACCEPTED = "a string, or a list of strings in order of preference"

#: The value that stands for all crawlers in a user-agent line.
ANY = "*"

_RUN = re.compile("[A-Za-z_-]+")  # RFC 9309, 2.2
# The name of a product in a User-Agent header may have more characters than a product token (RFC
# 9110, 5.6.2).
_WORD = r"[A-Za-z_][\w.!#$%&'*+^`|~-]*"
_PRODUCT = re.compile(rf"(?<![^\s;,(])({_WORD})(?=/)", re.ASCII)
_FIRST_WORD = re.compile(rf"\A({_WORD})(?=[\s;,]|$)", re.ASCII)
_COMMENT = re.compile(r"\(([^()]*)\)")
_URL = re.compile(r"\+?(?:[A-Za-z][A-Za-z0-9+.-]*://|www\.)[^\s;,()]*|[^\s;,()@]+@[^\s;,()]+")
_LOOSE_NAME = re.compile(rf"({_WORD})(?: v?[\d.]+\w*)?$", re.ASCII)

#: Words in the User-Agent headers of browsers, in lower case; they are not a crawler's own name.
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
    """Return whether a string is a product token: letters of ASCII, `_` and `-` (2.2.1)."""
    return _RUN.fullmatch(value) is not None


def token_of(value: str) -> str:
    """Return the form in which tokens are compared (2.2.1): its token characters, in lower case.

    A value that begins with another character, such as ``360Spider``, is compared whole. The
    function serves the values of user-agent lines and the tokens of crawlers.
    """
    if value[:1] == ANY and value[1:2] in ("", " ", "\t", "\v", "\f"):
        return ANY
    run = _RUN.match(value)
    return (run[0] if run else value).lower()


def _names_in_header(header: str) -> list[str]:
    """Return the names in a User-Agent header, those in a comment that says `compatible` first."""
    beside: list[str] = []
    in_comments: list[str] = []
    for comment in _COMMENT.findall(header):
        parts = [part.strip() for part in _URL.sub("", comment).split(";")]
        compatible = any(part.lower() == "compatible" for part in parts)
        # In such a comment, a name may have no slash: `(compatible; FooBot 2.1)`.
        found = [_PRODUCT.match(part) or (compatible and _LOOSE_NAME.match(part)) for part in parts]
        (beside if compatible else in_comments).extend(match[1] for match in found if match)
    products = _URL.sub("", _COMMENT.sub(" ", header)).strip()
    return [*beside, *_FIRST_WORD.findall(products), *_PRODUCT.findall(products), *in_comments]


@lru_cache(maxsize=1024)
def product_tokens(identification: str | bytes) -> tuple[str, ...]:
    """Return the product tokens in a crawler's identification, in order of preference.

    A single word is returned as it is. In a User-Agent header, names in product position and in
    comments count, but neither what browsers send nor words of URLs. Names in a comment that says
    ``compatible`` come first.

    :param identification: a token, or the value of a User-Agent header; bytes are read as UTF-8.
    :returns: the tokens as written; empty where the string names no crawler, so that only the ``*``
        group can apply.
    """
    text = _text_of(identification)
    if text and not re.search(r"[\s/();,]", text):
        return () if text.lower() in BROWSER_WORDS else (text,)
    spellings: dict[str, str] = {}
    for name in _names_in_header(text):
        token = token_of(name)  # its beginning
        spellings.setdefault(token, name[: len(token)])
    return tuple(run for token, run in spellings.items() if token not in BROWSER_WORDS)


def _text_of(identification: str | bytes) -> str:
    if isinstance(identification, bytes):
        identification = identification.decode("utf-8", "replace")
    return identification.strip()


class Agent(NamedTuple):
    """Who the crawler is, to robots.txt.

    :param tokens: product tokens in order of preference; empty: only the ``*`` group can apply.
    :param identification: the whole string, for parsers other than ours.
    """

    tokens: tuple[str, ...]
    identification: str


#: A crawl that sends no User-Agent at all.
NOBODY = Agent((), "")


def agent_of(value: object) -> Agent | None:
    """Return the agent that a user's value names; ``None``: it names none, as ``None`` and ``""``.

    :param value: a product token, a User-Agent header's value, or a list of those.
    :raises TypeError: it is something else.
    """
    if value is None:
        return None
    names = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(name, (str, bytes)) for name in names):
        raise TypeError(ACCEPTED)
    return _agent_of(names, isinstance(value, str))


@lru_cache(maxsize=1024)
def _agent_of(names: tuple[str | bytes, ...], by_comma: bool) -> Agent | None:
    texts = [text for text in map(_text_of, names) if text]
    if by_comma and texts:
        # `foobot-news,foobot` is a list on the command line; a User-Agent header is one text.
        tokens = [token.strip() for token in texts[0].split(",")]
        texts = tokens if all(map(_RUN.fullmatch, tokens)) else texts
    if not texts:
        return None
    tokens = [token for text in texts for token in product_tokens(text)]
    return Agent(tuple(dict.fromkeys(tokens)), texts[0])
