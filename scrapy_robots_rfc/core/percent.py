"""Compare URLs with path patterns: their normal form, and `*` and `$` (RFC 9309, 2.2.2).

A str in this module contains bytes, one character each (U+0000 to U+00FF). A character is bare if
it is not percent-encoded.
"""

import re
import string
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from typing import NamedTuple

#: Unreserved characters, which are always bare in the normal form (RFC 3986, 2.3).
UNRESERVED = string.ascii_letters + string.digits + "-._~"
#: Reserved characters that equal their escapes; they are bare in the normal form of path and query.
#: `*` and `$` are not among them: patterns give them a meaning, so the characters themselves are
#: always `%2A` and `%24`.
_BARE_EITHER_WAY = "!'(),:@[]"
#: Delimiters, which differ from their escapes: `/a/b` is not `/a%2Fb`, and `?a=b` is
#: not `?a%3Db`.
_DELIMITERS_OF_PATH = "/?"
_DELIMITERS_OF_QUERY = "&=+;"
#: Characters that are bare in the normal form.
BARE = UNRESERVED + _BARE_EITHER_WAY + _DELIMITERS_OF_PATH + _DELIMITERS_OF_QUERY


@cache
def _table(distinct: str) -> dict[str, str]:
    """Return the normal form of every spelling of every byte, such as `%2f` and `%2F`.

    Escapes of the characters in `distinct` stay escapes.
    """
    table: dict[str, str] = {}
    for byte in range(256):
        raw, escape = chr(byte), f"%{byte:02X}"
        table[raw] = raw if raw in BARE else escape
        for high, low in product({escape[1], escape[1].lower()}, {escape[2], escape[2].lower()}):
            table[f"%{high}{low}"] = escape if raw in distinct else table[raw]
    return table


# An escape, or a character that is never bare: `%2f`, ` `.
_TO_CHANGE = re.compile(f"%[0-9A-Fa-f]{{2}}|[^{re.escape(BARE)}]", re.DOTALL)

# Escapes of characters that are never bare are normal in the path and in the query: `%20`, `%C3`. A
# text of such escapes and of bare characters is its own normal form. Nearly every URL is, so this
# is checked before anything is converted.
_NORMAL_ESCAPE = "%(?:[01][0-9A-F]|2[02345A]|3[CE]|5[CE]|60|7[BCDF]|[89A-F][0-9A-F])"
#: A regular expression for a run of characters that is its own normal form: `/a%20b`.
NORMAL_RUN = f"[{re.escape(BARE)}]*+(?:{_NORMAL_ESCAPE}[{re.escape(BARE)}]*+)*+"

# With this many percent signs, a text is changed in pieces: a hostile URL may have 300,000.
_MANY = 16

# The scheme (RFC 3986, 3.1) and the authority before a path: `https://a.example` in
# `https://a.example/b`.
_before_path = re.compile("(?:[A-Za-z][A-Za-z0-9+.-]*://|//|)[^/?]*").match

#: A URL (or a path) without a fragment whose request target, group 1, is its own normal form:
#: `https://a.example/b?c`.
is_normal_url: Callable[[str], re.Match[str] | None] = re.compile(
    rf"(?:https?://[^/?#]*|(?!//))(/{NORMAL_RUN})\Z"
).match
# A pattern that is its own normal form: `/a*%20$`.
_is_normal_pattern = re.compile(
    rf"[*{re.escape(BARE)}]*(?:{_NORMAL_ESCAPE}[*{re.escape(BARE)}]*)*\$?\Z"
).match


def _changed(text: str, table: Mapping[str, str]) -> str:
    """Return a text in which a table replaces each escape and each character that is not bare."""
    if text.count("%") < _MANY:
        return _TO_CHANGE.sub(lambda match: table[match[0]], text)
    # Many pieces between two percent signs are equal, as in Cyrillic text: each is changed once.
    first, *pieces = text.split("%")
    changed = {
        piece: _TO_CHANGE.sub(lambda match: table[match[0]], f"%{piece}") for piece in {*pieces}
    }
    return _changed(first, table) + "".join(map(changed.__getitem__, pieces))


def normal_form(text: str, *, in_query: bool = False) -> str:
    """Return the form in which paths, queries and patterns are compared (RFC 9309, 2.2.2).

    Idempotent; never raises.

    :param text: bytes, one character each. The text after the first ``?`` is a query.
    :param in_query: whether the whole text is in a query, so that a ``?`` in it is not a delimiter.
    """
    of_query = _table(_DELIMITERS_OF_QUERY)
    if in_query:
        return _changed(text, of_query)
    path, delimiter, query = text.partition("?")
    return _changed(path, _table(_DELIMITERS_OF_PATH)) + delimiter + _changed(query, of_query)


def to_octets(text: str | bytes) -> str:
    """Return bytes, one character each; a str is encoded as UTF-8 (RFC 3986, 2.5)."""
    if isinstance(text, str):
        if text.isascii():
            return text
        text = text.encode("utf-8", "surrogatepass")
    return text.decode("latin-1")


def request_target(url: str | bytes) -> str:
    """Return path and query of a URL in normal form (2.2.2).

    :param url: an absolute URL, or a path and query; in any spelling. Without a scheme, everything
        before the first ``/`` or ``?`` is the authority, as in Google's reference parser.
    """
    text = to_octets(url).partition("#")[0]
    before = _before_path(text)
    target = text[before.end() :] if before else text
    return normal_form(target if target[:1] == "/" else f"/{target}")


def specificity(pattern: str) -> int:
    """Return the octets of a pattern (2.2.2); one outside ASCII counts as its escape, three."""
    return len(pattern) + 2 * (len(pattern.encode()) - len(pattern))


class LiteralRun(NamedTuple):
    """A literal run between wildcards; its normal form depends on its position in the target.

    :param in_path: its normal form if it begins in the path.
    :param in_query: its normal form if it begins in the query.
    """

    in_path: str
    in_query: str

    def find(self, target: str, start: int, last: bool) -> int:
        """Return the end of its leftmost occurrence in a target, or -1 without one.

        :param start: the first place where it may begin.
        :param last: whether the target must end with it.
        """
        query = len(target.partition("?")[0])
        # The first `?` of a run that begins in the path begins the query.
        before = len(self.in_path.partition("?")[0])
        path_end = query + len(self.in_path) - before
        for run, low, high in (
            (self.in_path, start, path_end),
            (self.in_query, max(start, query + 1), len(target)),
        ):
            at = target.find(run, max(low, len(target) - len(run)) if last else low, high)
            if at >= 0:
                return at + len(run)
        return -1


class Pattern(NamedTuple):
    """A pattern in normal form, split at its wildcards.

    :param head: the beginning of every target.
    :param parts: the parts that follow in this order, each anywhere after the previous one.
    :param anchored: whether the target must end with the last part (with the head, without parts).
    :param placed: the parts, if the normal form of one depends on its place; otherwise empty.
    """

    head: str
    parts: tuple[str, ...]
    anchored: bool
    placed: tuple[LiteralRun, ...] = ()

    def matches(self, target: str) -> bool:
        """Return whether a target in normal form matches, in linear time for each part."""
        if not target.startswith(self.head):
            return False
        if not self.parts:
            return not self.anchored or target == self.head
        end = len(self.head)
        if len(self.parts) > len(target) - end:  # each part has a character
            return False
        # The leftmost occurrence leaves the most room for the next parts: no other one is tried.
        if self.placed:
            for number, run in enumerate(self.placed, 1):
                end = run.find(target, end, self.anchored and number == len(self.placed))
                if end < 0:
                    return False
            return True
        find = target.find
        for part in self.parts[:-1] if self.anchored else self.parts:
            at = find(part, end)
            if at < 0:
                return False
            end = at + len(part)
        return not self.anchored or target.endswith(self.parts[-1], end)


def parse_pattern(pattern: str) -> Pattern:
    """Parse a pattern: ``*`` matches anything, a last ``$`` the end of the target (2.2.3).

    :param pattern: as the file writes it; bytes, one character each.
    """
    anchored = pattern.endswith("$")
    head, *runs = (pattern[:-1] if anchored else pattern).split("*")
    if runs:
        # After a last `*`, anything may come before the end.
        anchored = anchored and bool(runs[-1])
        runs = list(filter(None, runs))
    if _is_normal_pattern(pattern):  # most patterns are their own normal form
        return Pattern(head, tuple(runs), anchored)
    placed = tuple(LiteralRun(normal_form(run), normal_form(run, in_query=True)) for run in runs)
    parts = tuple(run.in_query for run in placed)
    # After a `?` of the pattern, everything is in the query.
    one_form = "?" in head or all(run.in_path == run.in_query for run in placed)
    return Pattern(normal_form(head), parts, anchored, () if one_form else placed)
