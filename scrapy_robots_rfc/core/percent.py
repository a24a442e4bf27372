"""One normal form for both sides of the comparison (RFC 9309, 2.2.2): what a URL asks for, what a pattern says.

Octets stand as the characters U+0000 to U+00FF everywhere in here. Which part of a URL counts is `request_target`;
how an octet compares is `normal_form`. How patterns use `*` and `$` is `pattern.py`.
"""

from __future__ import annotations

import re
import string

#: Octets that stand bare everywhere (RFC 3986, 2.3).
UNRESERVED = string.ascii_letters + string.digits + "-._~"
#: Reserved octets that compare equal in both spellings and stand bare in the normal form, in the path as in the query.
#: Not `*` and `$`: a pattern gives those a meaning, so the octets themselves are always `%2A` and `%24`.
_BARE_EITHER_WAY = "!'(),:@[]"
#: Octets whose raw and encoded forms differ: in the path a delimiter is not data, in the query `a=b` is not `a%3Db`.
_DELIMITERS_OF_PATH = "/?"
_DELIMITERS_OF_QUERY = "&=+;"
_BARE = UNRESERVED + _BARE_EITHER_WAY + _DELIMITERS_OF_PATH + _DELIMITERS_OF_QUERY

#: Escapes that mean one thing in the path and another in the query; every other escape means the same in both.
AMBIGUOUS_ESCAPE = re.compile("%(?:2[fF6bB]|3[fFdDbB])")


def _spellings(octet: int) -> set[str]:
    """All the ways to write an octet as an escape: `%2f`, `%2F`."""
    return {f"%{octet:02X}", f"%{octet:02x}", f"%{octet >> 4:X}{octet & 15:x}", f"%{octet >> 4:x}{octet & 15:X}"}


def _table(distinct: str) -> dict[str, str]:
    """Spelling -> normal form, for every octet; `distinct` are the delimiters whose escapes stay escapes."""
    table: dict[str, str] = {}
    for octet in range(256):
        raw, escape = chr(octet), f"%{octet:02X}"
        table[raw] = raw if raw in _BARE else escape
        for spelling in _spellings(octet):
            table[spelling] = escape if raw in distinct else table[raw]
    return table


_IN_PATH = _table(distinct=_DELIMITERS_OF_PATH)
_IN_QUERY = _table(distinct=_DELIMITERS_OF_QUERY)
_TO_CHANGE = re.compile(f"%[0-9A-Fa-f]{{2}}|[^{re.escape(_BARE)}]", re.DOTALL)

# Escapes that are normal wherever they stand: those of octets that are never bare. A text of these and of bare
# characters is its own normal form, which is what nearly every URL is; the hot path only asks that.
_NORMAL_ESCAPE = "%(?:[01][0-9A-F]|2[02345A]|3[CE]|5[CE]|60|7[BCDF]|[89A-F][0-9A-F])"
_NORMAL_RUN = f"[{re.escape(_BARE)}]*(?:{_NORMAL_ESCAPE}[{re.escape(_BARE)}]*)*"

_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")  # RFC 3986, 3.1

#: Matches a URL (or a path) whose request target, group 1, is in normal form already and that has no fragment.
is_normal_url = re.compile(rf"(?:https?://[^/?#]*|(?!//))(/{_NORMAL_RUN})\Z").match
#: The bare octets that a text begins with, which may be none.
BARE_RUN = re.compile(f"[{re.escape(_BARE)}]*")
#: Matches a pattern in which nothing is to be encoded or decoded: bare octets, ``*``, a last ``$``.
only_bare = re.compile(rf"[*{re.escape(_BARE)}]*\$?\Z").match


def normal_form(text: str, *, in_query: bool = False) -> str:
    """The form in which paths, queries and patterns are compared (RFC 9309, 2.2.2). Idempotent; never raises.

    :param text: octets as U+0000 to U+00FF. Up to the first ``?`` it is read as a path, from there as a query.
    :param in_query: the text lies in a query as a whole; a ``?`` in it is data.
    """
    if in_query:
        return _TO_CHANGE.sub(lambda match: _IN_QUERY[match[0]], text)
    path, delimiter, query = text.partition("?")
    path = _TO_CHANGE.sub(lambda match: _IN_PATH[match[0]], path)
    return path + delimiter + normal_form(query, in_query=True) if delimiter else path


def octets(text: str | bytes) -> str:
    """Text as octets, one character each: str is taken as UTF-8 (RFC 3986, 2.5), bytes as they are."""
    if isinstance(text, str):
        if text.isascii():
            return text
        text = text.encode("utf-8", "surrogatepass")
    return text.decode("latin-1")


def request_target(url: str | bytes) -> str:
    """Path and query of a URL in normal form, from the first octet of the path (RFC 9309, 2.2.2).

    :param url: absolute, or from the path on; any spelling. Without a scheme what stands before the first ``/`` or
        ``?`` is taken for an authority, as Google's reference parser does.
    """
    text = octets(url).partition("#")[0]
    if not text.startswith("/") or text.startswith("//"):
        scheme = _SCHEME.match(text)
        authority = scheme.end() if scheme else 2 * text.startswith("//")
        ends = [end for end in (text.find("/", authority), text.find("?", authority)) if end >= 0]
        text = text[min(ends) :] if ends else ""
    return normal_form(text if text.startswith("/") else "/" + text)
