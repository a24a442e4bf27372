"""Product tokens (RFC 9309, 2.2.1): out of whatever a crawler calls itself, and out of user-agent lines.

In here: strings to tokens. Which group a token selects is `groups.py` and `scan.py`.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: The product token of the `*` group.
ANY = "*"

_RUN = re.compile("[A-Za-z_-]+")  # RFC 9309, 2.2: 1*( %x2D / %x41-5A / %x5F / %x61-7A )
# What may stand in a product's name is wider than a product token (RFC 9110, 5.6.2); the version may be missing.
_WORD = r"[A-Za-z_][\w.!#$%&'*+^`|~-]*"
_PRODUCT = re.compile(rf"(?<![^\s;,(])({_WORD})(?=/)", re.ASCII)
_FIRST_WORD = re.compile(rf"({_WORD})(?=[\s;,]|$)", re.ASCII)
_COMMENT = re.compile(r"\(([^()]*)\)")
_URL = re.compile(r"\+?(?:[A-Za-z][A-Za-z0-9+.-]*://|www\.)[^\s;,()]*|[^\s;,()@]+@[^\s;,()]+")
# Beside `compatible` a name may stand without a slash: `(compatible; FooBot 2.1)`.
_LOOSE_NAME = re.compile(rf"({_WORD})(?: v?[\d.]+\w*)?$", re.ASCII)

#: What browsers and libraries that pose as browsers send; never a crawler's own name. Lower case.
BROWSER_WORDS = frozenset(
    """
    mozilla applewebkit khtml gecko like chrome chromium headlesschrome crios safari version mobile
    edg edge edga edgios opr opera presto trident msie firefox fxios seamonkey compatible samsungbrowser
    windows win wow macintosh macos mac intel ppc x linux android iphone ipad ipod cros ubuntu fedora
    debian freebsd openbsd u n i wv rv nt touch tablet build ucbrowser vivaldi yabrowser brave duckduckgo
    en de fr es us webos tizen nexus pixel sm
    """.split()  # noqa: SIM905 -- eighty words read better as text than as a list
)


def is_product_token(value: str) -> bool:
    """Whether a string is a product token: one or more of ``A-Z a-z _ -`` (RFC 9309, 2.2.1)."""
    return _RUN.fullmatch(value) is not None


def invalid_reason(value: str) -> str | None:
    """Why a string is no product token, in words for the user, or ``None`` where it is one."""
    if is_product_token(value):
        return None
    if not value:
        return "it is empty"
    odd = sorted({c for c in value if not _RUN.match(c)})
    shown = ", ".join(repr(c) for c in odd[:5]) + (", ..." if len(odd) > 5 else "")
    return f"it contains {shown}; a product token has only the letters A-Z and a-z, '_' and '-' (RFC 9309, 2.2.1)"


def token_of(value: str) -> str:
    """The form in which tokens are compared, of a user-agent line's value and of a crawler's own token alike.

    The leading run of token characters in lower case; where there is none (``360Spider``), the whole value.
    """
    if value[:1] == ANY and value[1:2] in ("", " ", "\t", "\v", "\f"):
        return ANY
    run = _RUN.match(value)
    return (run[0] if run else value).lower()


def _is_own_name(name: str) -> bool:
    run = _RUN.match(name)
    return run is not None and run[0].lower() not in BROWSER_WORDS


def _names_in_comment(comment: str) -> tuple[list[str], bool]:
    """A comment's own names, and whether it says `compatible`: `compatible; FooBot/2.1; +https://...` gives FooBot."""
    parts = [part.strip() for part in _URL.sub("", comment).split(";")]
    compatible = any(part.lower() == "compatible" for part in parts)
    found = [_PRODUCT.match(part) or (_LOOSE_NAME.match(part) if compatible else None) for part in parts]
    return [match[1] for match in found if match and _is_own_name(match[1])], compatible


def _names_in_header(header: str) -> list[str]:
    """Names of a User-Agent header, the most telling first."""
    beside: list[str] = []
    in_comments: list[str] = []
    for comment in _COMMENT.findall(header):
        names, compatible = _names_in_comment(comment)
        (beside if compatible else in_comments).extend(names)
    products = _URL.sub("", _COMMENT.sub(" ", header)).strip()
    first = _FIRST_WORD.match(products)
    names = [*([first[1]] if first else []), *_PRODUCT.findall(products)]
    return [*beside, *filter(_is_own_name, names), *in_comments]


@lru_cache(maxsize=1024)
def product_tokens(identification: str | bytes) -> tuple[str, ...]:
    """Product tokens of whatever a crawler calls itself, in order of preference.

    A single word is taken as it is. Of a User-Agent header come the names in product position and in comments, without
    what browsers send and without words of URLs; a name in a comment beside ``compatible`` comes first.

    :param identification: a token, or a User-Agent header's value; bytes are read as UTF-8.
    :returns: the tokens as written; empty where the string names no crawler, so that only the ``*`` group can apply.
    """
    text = identification.decode("utf-8", "replace") if isinstance(identification, bytes) else identification
    text = text.strip()
    if text and not re.search(r"[\s/();,]", text):
        return () if text.lower() in BROWSER_WORDS else (text,)
    runs = [match[0] for match in map(_RUN.match, _names_in_header(text)) if match]
    first_spelling = {run.lower(): run for run in reversed(runs)}
    return tuple(first_spelling[key] for key in dict.fromkeys(run.lower() for run in runs))
