"""Normalize URLs and path patterns, and match them (RFC 9309, 2.2.2 and 2.2.3).

Strings in this module are bytes decoded as Latin-1. A character is "bare" if it is not
percent-encoded.
"""

import re
import string
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from typing import NamedTuple

#: Unreserved characters, which are always bare in the normal form (RFC 3986, 2.3).
UNRESERVED = string.ascii_letters + string.digits + "-._~"
#: Reserved characters that are equivalent to their escapes, and are bare in the normal form. `*`
#: and `$` are not included, because they are special in patterns and always escaped elsewhere.
_EQUAL_TO_ESCAPES = "!'(),:@[]"
#: Delimiters, which are not equivalent to their escapes. `/a/b` is not the same as `/a%2Fb`, and
#: `?a=b` is not the same as `?a%3Db`.
_PATH_DELIMITERS = "/?"
_QUERY_DELIMITERS = "&=+;"
#: Characters that may be bare in the normal form.
BARE = UNRESERVED + _EQUAL_TO_ESCAPES + _PATH_DELIMITERS + _QUERY_DELIMITERS


@cache
def _table(delimiters: str) -> dict[str, str]:
    """Return a table that maps all spellings of each byte, such as `%2f`, to its normal form.

    Escaped delimiters stay escaped.
    """
    table: dict[str, str] = {}
    for byte in range(256):
        raw, escape = chr(byte), f"%{byte:02X}"
        table[raw] = raw if raw in BARE else escape
        # Each of the two digits may be in uppercase or lowercase.
        for high, low in product({escape[1], escape[1].lower()}, {escape[2], escape[2].lower()}):
            table[f"%{high}{low}"] = escape if raw in delimiters else table[raw]
    return table


# An escape, or a character that is never bare: `%2f`, ` `.
_TO_NORMALIZE = re.compile(f"%[0-9A-Fa-f]{{2}}|[^{re.escape(BARE)}]", re.DOTALL)

# An escape for a byte that is not in `BARE`: `%20`, `%C3`. Such escapes are in normal form already.
_NORMAL_ESCAPE = "%(?:[01][0-9A-F]|2[02345A]|3[CE]|5[CE]|60|7[BCDF]|[89A-F][0-9A-F])"
#: Text that is already in normal form: `/a%20b`. Nearly all URLs are already normal, so callers
#: check for this first.
NORMAL_RUN = f"[{re.escape(BARE)}]*+(?:{_NORMAL_ESCAPE}[{re.escape(BARE)}]*+)*+"

# Text with at least this many percent signs is normalized in chunks. A hostile URL may contain
# 300,000 of them.
_MANY_ESCAPES = 16

# The scheme and authority (RFC 3986, 3) before a path: `https://a.example` in
# `https://a.example/b`.
_BEFORE_PATH = re.compile(r"\A(?:[A-Za-z][A-Za-z0-9+.-]*://|//|)[^/?]*")

#: A URL or path without a fragment whose request target is already in normal form:
#: `https://a.example/b?c`. Group 1 is the target.
match_normal_url: Callable[[str], re.Match[str] | None] = re.compile(
    rf"(?:https?://[^/?#]*|(?!//))(/{NORMAL_RUN})\Z"
).match
# A pattern that is already in normal form: `/a*%20$`.
_is_normal_pattern = re.compile(
    rf"[*{re.escape(BARE)}]*(?:{_NORMAL_ESCAPE}[*{re.escape(BARE)}]*)*\$?\Z"
).match


def _normalize(text: str, table: Mapping[str, str]) -> str:
    """Normalize text with the result of `_table`."""
    if text.count("%") < _MANY_ESCAPES:
        return _TO_NORMALIZE.sub(lambda match: table[match[0]], text)
    # Long escaped text, such as Cyrillic, repeats the same escapes, so normalize each one only
    # once, together with the text up to the next `%`.
    before_first, *pieces = text.split("%")
    normalized = {
        piece: _TO_NORMALIZE.sub(lambda match: table[match[0]], f"%{piece}") for piece in {*pieces}
    }
    return _normalize(before_first, table) + "".join(map(normalized.__getitem__, pieces))


def normal_form(text: str, *, in_query: bool = False) -> str:
    """Return the normal form of a path, query or pattern (RFC 9309, 2.2.2).

    This is idempotent and never raises.

    :param text: the text, decoded as Latin-1. Everything after the first ``?`` is the query.
    :param in_query: True to treat the entire text as part of a query, where ``?`` is not a
        delimiter.
    """
    query_table = _table(_QUERY_DELIMITERS)
    if in_query:
        return _normalize(text, query_table)
    path, delimiter, query = text.partition("?")
    return _normalize(path, _table(_PATH_DELIMITERS)) + delimiter + _normalize(query, query_table)


def to_octets(text: str | bytes) -> str:
    """Decode bytes as Latin-1. A str is first encoded as UTF-8 (RFC 3986, 2.5)."""
    if isinstance(text, str):
        if text.isascii():
            return text
        text = text.encode("utf-8", "surrogatepass")
    elif not isinstance(text, (bytes, bytearray)):
        raise TypeError(f"the URL must be a str or bytes, not {text!r}")
    return text.decode("latin-1")


def request_target(url: str | bytes) -> str:
    """Return the path and query of a URL in normal form (2.2.2).

    :param url: an absolute URL, or a path and query. Percent-encoding is optional. Without a
        scheme, everything before the first ``/`` or ``?`` is the authority, as in Google's
        reference parser.
    """
    target = _BEFORE_PATH.sub("", to_octets(url).partition("#")[0])
    return normal_form(target if target[:1] == "/" else f"/{target}")


def specificity(pattern: str) -> int:
    """Return the length of a pattern in octets (2.2.2), as if non-ASCII octets were escaped."""
    # An escape is two octets longer. To count the non-ASCII octets quickly, encode the pattern as
    # UTF-8, where each of them becomes two bytes.
    return len(pattern) + 2 * (len(pattern.encode()) - len(pattern))


class PartByPlace(NamedTuple):
    """The text after a wildcard, whose normal form depends on where it matches.

    For example, `%3D` equals `=` in the path, but not in the query.

    :param in_path: the normal form if the match starts in the path, or at the `?` that ends it.
    :param in_query: the normal form if the match starts in the query.
    """

    in_path: str
    in_query: str

    def find(self, target: str, start: int, is_at_end: bool) -> int:
        """Return the end offset of the leftmost match in a target, or -1 if there is none.

        :param start: the offset to start searching from.
        :param is_at_end: True if the match must be at the end of the target.
        """
        # Search for the form for the path first, because the path is to the left of the query.
        path_length = len(target.partition("?")[0])
        # A match that starts in the path also ends there, unless the text contains a `?`. That is
        # then the target's first one, so `b?c=1` ends 4 characters after the path.
        _, question_mark, query = self.in_path.partition("?")
        last_end = path_length + len(question_mark) + len(query)
        query_start = path_length + 1
        for text, low, high in (
            (self.in_path, start, last_end),
            (self.in_query, max(start, query_start), len(target)),
        ):
            # At the end, there is only one place where the match can start.
            first = max(low, len(target) - len(text)) if is_at_end else low
            at = target.find(text, first, high)
            if at >= 0:
                return at + len(text)
        return -1


class Pattern(NamedTuple):
    """A pattern in normal form, split at its wildcards.

    :param head: the text before the first wildcard. Every matching target starts with it.
    :param parts: the text after each wildcard. Every matching target contains them in this order.
    :param anchored: True if the target must end where the pattern ends.
    :param parts_by_place: both normal forms of each part, or an empty tuple if `parts` is correct
        wherever a part matches.
    """

    head: str
    parts: tuple[str, ...]
    anchored: bool
    parts_by_place: tuple[PartByPlace, ...] = ()

    def matches(self, target: str) -> bool:
        """Return whether a target in normal form matches. Matching a part takes linear time."""
        if not target.startswith(self.head):
            return False
        if not self.parts:
            return not self.anchored or target == self.head
        end = len(self.head)  # where the previous part of the pattern ends in the target
        # For each part, trying the leftmost match is enough, because it leaves the most room for
        # the remaining parts. Only the last part of an anchored pattern has a fixed place.
        if self.parts_by_place:  # rare: a part differs between the path and the query
            for number, by_place in enumerate(self.parts_by_place, 1):
                is_at_end = self.anchored and number == len(self.parts_by_place)
                end = by_place.find(target, end, is_at_end)
                if end < 0:
                    return False
            return True
        find = target.find
        for part in self.parts[:-1] if self.anchored else self.parts:
            at = find(part, end)
            if at < 0:
                return False
            end = at + len(part)
        # The last part of an anchored pattern is at the end, without overlapping the previous part.
        return not self.anchored or target.endswith(self.parts[-1], end)


def parse_pattern(pattern: str) -> Pattern:
    """Parse a pattern, in which ``*`` matches any text and a final ``$`` matches the end (2.2.3).

    :param pattern: the pattern as written, decoded as Latin-1.
    """
    anchored = pattern.endswith("$")
    head, *parts = pattern.removesuffix("$").split("*")
    if parts:
        anchored = anchored and parts[-1] != ""  # `/a*$` means the same as `/a*`
        parts = [part for part in parts if part]  # `/a**b` means the same as `/a*b`
    if _is_normal_pattern(pattern):  # this is the most common case
        return Pattern(head, tuple(parts), anchored)
    by_place = tuple(
        PartByPlace(normal_form(part), normal_form(part, in_query=True)) for part in parts
    )
    parts_in_query = tuple(part.in_query for part in by_place)
    # `parts_in_query` is enough if all parts are in the query, or if it does not matter where they
    # are.
    if "?" in head or all(part.in_path == part.in_query for part in by_place):
        by_place = ()
    return Pattern(normal_form(head), parts_in_query, anchored, by_place)
