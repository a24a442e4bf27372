"""A matcher so plain that it can be checked by reading: every rule is tried, each by lists of
positions.

It shares nothing with the core: no normal form, no index, no order of rules. An octet knows whether
it was written as an escape, and two octets are compared by the part of the URL in which the URL's
octet lies (RFC 9309, 2.2.2; the decisions about the normal form).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.decision import Rule, RuleKind

if TYPE_CHECKING:
    from collections.abc import Iterable

_OCTET = re.compile(rb"%([0-9A-Fa-f]{2})|(.)", re.DOTALL)

#: Octets that are not their own escapes: in the path they part segments and query, in the query
#: names and values.
_DISTINCT_IN_PATH = frozenset(b"/?")
_DISTINCT_IN_QUERY = frozenset(b"&=+;")


@dataclass(frozen=True, slots=True)
class Octet:
    """One octet of a URL or a pattern, and whether it was written as an escape."""

    value: int
    escaped: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """An octet of a URL, and where it lies."""

    octet: Octet
    in_query: bool
    is_delimiter: bool

    def equals(self, wanted: Octet) -> bool:
        """Whether a pattern's octet matches here."""
        here = self.octet
        if self.is_delimiter:
            return wanted == here
        distinct = _DISTINCT_IN_QUERY if self.in_query else _DISTINCT_IN_PATH
        return wanted.value == here.value and (
            wanted.value not in distinct or wanted.escaped == here.escaped
        )


def _octets(text: bytes) -> list[Octet]:
    return [
        Octet(int(match[1], 16), True) if match[1] is not None else Octet(match[2][0], False)
        for match in _OCTET.finditer(text)
    ]


def _placed(target: bytes) -> list[Placed]:
    found, in_query = [], False
    for octet in _octets(target):
        is_delimiter = not in_query and octet == Octet(ord("?"), escaped=False)
        found.append(Placed(octet, in_query, is_delimiter))
        in_query = in_query or is_delimiter
    return found


def matches(pattern: bytes, target: bytes) -> bool:
    """Whether a pattern matches a path with its query (RFC 9309, 2.2.3); both as written."""
    if not pattern.startswith((b"/", b"*")):
        return False
    anchored = pattern.endswith(b"$")
    places = _placed(target)
    reached = {0}
    runs = (pattern[:-1] if anchored else pattern).split(b"*")
    for number, run in enumerate(runs):
        if number:
            reached = set(range(min(reached), len(places) + 1)) if reached else set()
        for wanted in _octets(run):
            reached = {at + 1 for at in reached if at < len(places) and places[at].equals(wanted)}
    return len(places) in reached if anchored else bool(reached)


def specificity(pattern: bytes) -> int:
    """Octets of a pattern as written, one outside ASCII as its escape."""
    return sum(3 if octet > 127 else 1 for octet in pattern)


def deciding_rule(rules: Iterable[Rule], target: bytes) -> Rule | None:
    """The rule that decides.

    The most specific, of equals an allow, of these the first (RFC 9309, 2.2.2).
    """
    found = [rule for rule in rules if matches(rule.pattern.encode("utf-8"), target)]

    def rank(rule: Rule) -> tuple[int, bool, int]:
        return specificity(rule.pattern.encode("utf-8")), rule.kind is RuleKind.ALLOW, -rule.line

    return max(found, key=rank, default=None)
