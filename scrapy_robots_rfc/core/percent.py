"""How a URL is compared with a path pattern: their normal form, and `*` and `$` (RFC 9309, 2.2.2).

A str in this module contains octets, one character each (U+0000 to U+00FF). An octet is bare where
it stands for itself and is not percent-encoded.
"""

import re
import string
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from typing import NamedTuple

#: Unreserved octets, which are always bare in the normal form (RFC 3986, 2.3).
UNRESERVED = string.ascii_letters + string.digits + "-._~"
#: Reserved octets that compare equal bare and percent-encoded; they are bare in the normal form of
#: path and query. `*` and `$` are not among them: patterns give them a meaning, so the octets
#: themselves are always `%2A` and `%24`.
_BARE_EITHER_WAY = "!'(),:@[]"
#: Delimiters, which differ from their percent-encoded form: `/a/b` is not `/a%2Fb`, and `?a=b` is
#: not `?a%3Db`.
_DELIMITERS_OF_PATH = "/?"
_DELIMITERS_OF_QUERY = "&=+;"
#: Octets that stand for themselves in the normal form.
BARE = UNRESERVED + _BARE_EITHER_WAY + _DELIMITERS_OF_PATH + _DELIMITERS_OF_QUERY


@cache
def _table(distinct: str) -> dict[str, str]:
    """Return the normal form of every spelling of every octet, such as `%2f` and `%2F`.

    Escapes of the octets in `distinct` stay escapes.
    """
    table: dict[str, str] = {}
    for octet in range(256):
        raw, escape = chr(octet), f"%{octet:02X}"
        table[raw] = raw if raw in BARE else escape
        for high, low in product({escape[1], escape[1].lower()}, {escape[2], escape[2].lower()}):
            table[f"%{high}{low}"] = escape if raw in distinct else table[raw]
    return table


_TO_CHANGE = re.compile(f"%[0-9A-Fa-f]{{2}}|[^{re.escape(BARE)}]", re.DOTALL)

# Escapes of octets that are never bare are normal in the path and in the query. A text of such
# escapes and of bare octets is its own normal form. Nearly every URL is like that, so this is
# checked before anything is converted.
_NORMAL_ESCAPE = "%(?:[01][0-9A-F]|2[02345A]|3[CE]|5[CE]|60|7[BCDF]|[89A-F][0-9A-F])"
#: As an expression, all the octets from a place on that are their own normal form.
NORMAL_RUN = f"[{re.escape(BARE)}]*+(?:{_NORMAL_ESCAPE}[{re.escape(BARE)}]*+)*+"

# With so many percent signs, a text is changed in pieces: a hostile URL may have 300,000.
_MANY = 16

# Matches a scheme (RFC 3986, 3.1) and an authority, where they stand before a path.
_before_path = re.compile("(?:[A-Za-z][A-Za-z0-9+.-]*://|//|)[^/?]*").match

#: Matches a URL (or a path) without a fragment whose request target, group 1, is in normal form
#: already.
is_normal_url: Callable[[str], re.Match[str] | None] = re.compile(
    rf"(?:https?://[^/?#]*|(?!//))(/{NORMAL_RUN})\Z"
).match
# Matches a pattern that is its own normal form.
_is_normal_pattern = re.compile(
    rf"[*{re.escape(BARE)}]*(?:{_NORMAL_ESCAPE}[*{re.escape(BARE)}]*)*\$?\Z"
).match


def _changed(text: str, table: Mapping[str, str]) -> str:
    """Return a text with all that is to be encoded or decoded as a table has it."""
    if text.count("%") < _MANY:
        return _TO_CHANGE.sub(lambda octet: table[octet[0]], text)
    # Many pieces between two percent signs are equal, as in a text of another script: each is
    # changed once.
    first, *pieces = text.split("%")
    changed = {
        piece: _TO_CHANGE.sub(lambda octet: table[octet[0]], f"%{piece}") for piece in {*pieces}
    }
    return _changed(first, table) + "".join(map(changed.__getitem__, pieces))


def normal_form(text: str, *, in_query: bool = False) -> str:
    """Return the form in which paths, queries and patterns are compared (RFC 9309, 2.2.2).

    Idempotent; never raises.

    :param text: octets, one character each. What follows the first ``?`` is read as a query.
    :param in_query: whether the whole text lies in a query, so that a ``?`` in it is no delimiter.
    """
    of_query = _table(_DELIMITERS_OF_QUERY)
    if in_query:
        return _changed(text, of_query)
    path, delimiter, query = text.partition("?")
    return _changed(path, _table(_DELIMITERS_OF_PATH)) + delimiter + _changed(query, of_query)


def to_octets(text: str | bytes) -> str:
    """Return octets, one character each; a str is encoded as UTF-8 (RFC 3986, 2.5)."""
    if isinstance(text, str):
        if text.isascii():
            return text
        text = text.encode("utf-8", "surrogatepass")
    return text.decode("latin-1")


def request_target(url: str | bytes) -> str:
    """Return path and query of a URL in normal form, from the first octet of the path (2.2.2).

    :param url: absolute, or from the path on; in any spelling. Without a scheme, everything before
        the first ``/`` or ``?`` is read as an authority, as Google's reference parser does.
    """
    text = to_octets(url).partition("#")[0]
    before = _before_path(text)
    target = text[before.end() :] if before else text
    return normal_form(target if target[:1] == "/" else f"/{target}")


def specificity(pattern: str) -> int:
    """Return the octets of a pattern (2.2.2); one outside ASCII counts three, as its escape."""
    return len(pattern) + 2 * (len(pattern.encode()) - len(pattern))


class Placed(NamedTuple):
    """A run of octets between wildcards whose normal form depends on its place in a target.

    :param in_path: its normal form where it begins in the path.
    :param in_query: its normal form where it begins in the query.
    """

    in_path: str
    in_query: str

    def find(self, target: str, start: int, last: bool) -> int:
        """Return where its leftmost occurrence in a target ends; -1 without one.

        :param start: where it begins, or later.
        :param last: whether the target must end with it.
        """
        query = len(target.partition("?")[0])
        # The first `?` of a run that begins in the path is the one that begins the query.
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

    :param head: what a target must begin with.
    :param parts: what must follow in this order, each anywhere behind the one before.
    :param anchored: whether the target must end with the last part (with the head, without parts).
    :param placed: the parts, where the normal form of one depends on its place; else empty.
    """

    head: str
    parts: tuple[str, ...]
    anchored: bool
    placed: tuple[Placed, ...] = ()

    def matches(self, target: str) -> bool:
        """Return whether a target in normal form matches; time is linear in it for each part."""
        if not target.startswith(self.head):
            return False
        if not self.parts:
            return not self.anchored or target == self.head
        end = len(self.head)
        if len(self.parts) > len(target) - end:  # each part takes an octet
            return False
        # Behind the leftmost occurrence is the most room for the next parts: no other one is tried.
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
    """Parse a pattern: ``*`` matches any octets, a last ``$`` the end of the target (2.2.3).

    :param pattern: as the file writes it; octets, one character each.
    """
    anchored = pattern.endswith("$")
    head, *runs = (pattern[:-1] if anchored else pattern).split("*")
    if runs:
        # Behind a last `*`, anything may stand before the end.
        anchored = anchored and bool(runs[-1])
        runs = list(filter(None, runs))
    if _is_normal_pattern(pattern):  # most patterns are their own normal form
        return Pattern(head, tuple(runs), anchored)
    placed = tuple(Placed(normal_form(run), normal_form(run, in_query=True)) for run in runs)
    parts = tuple(run.in_query for run in placed)
    # Behind a `?` of the pattern, everything lies in the query.
    one_form = "?" in head or all(run.in_path == run.in_query for run in placed)
    return Pattern(normal_form(head), parts, anchored, () if one_form else placed)
