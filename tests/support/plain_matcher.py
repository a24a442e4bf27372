"""A simple matcher that can be checked by reading. It tries every rule.

It shares nothing with the core: no normal form, no index, no order of rules. Whether an octet
equals its escape depends on the part of the URL (RFC 9309, 2.2.2, and the decisions about the
normal form in docs/rfc9309.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.decision import Rule, RuleKind

if TYPE_CHECKING:
    from collections.abc import Iterable

_OCTET = re.compile(rb"%([0-9A-Fa-f]{2})|(.)", re.DOTALL)

#: Octets that differ from their escapes, because they are delimiters.
_DISTINCT_IN_PATH = frozenset(b"/?")
_DISTINCT_IN_QUERY = frozenset(b"&=+;")


@dataclass(frozen=True, slots=True)
class Octet:
    """An octet of a URL or a pattern, and whether it is written as an escape."""

    value: int
    escaped: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """An octet of a URL, and the part of the URL that it is in."""

    octet: Octet
    in_query: bool
    is_delimiter: bool

    def equals(self, wanted: Octet) -> bool:
        """Return whether an octet of a pattern matches here."""
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
    """Return whether a pattern matches a path with its query (RFC 9309, 2.2.3)."""
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
    """Return the number of octets of a pattern, with those outside ASCII as escapes."""
    return sum(3 if octet > 127 else 1 for octet in pattern)


def deciding_rule(rules: Iterable[Rule], target: bytes) -> Rule | None:
    """Return the rule that decides: the most specific, Allow before Disallow (RFC 9309, 2.2.2)."""
    matching = [rule for rule in rules if matches(rule.pattern.encode("utf-8"), target)]

    def rank(rule: Rule) -> tuple[int, bool, int]:
        return specificity(rule.pattern.encode("utf-8")), rule.kind is RuleKind.ALLOW, -rule.line

    return max(matching, key=rank, default=None)
