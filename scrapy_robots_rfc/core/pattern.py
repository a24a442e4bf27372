"""One path pattern (RFC 9309, 2.2.2 and 2.2.3): how specific it is, and which request targets it matches.

`ruleset.py` finds the rule that decides among many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy_robots_rfc.core.percent import AMBIGUOUS_ESCAPE, BARE_RUN, is_normal_pattern, normal_form

if TYPE_CHECKING:
    from collections.abc import Callable

WILDCARD = "*"
END = "$"


def specificity(pattern: str) -> int:
    """Return the number of octets of a pattern as written; an octet outside ASCII counts three, as its escape (2.2.2).

    :param pattern: octets, one character each.
    """
    return len(pattern) if pattern.isascii() else len(pattern) + 2 * sum(octet > "\x7f" for octet in pattern)


def precedence(allow: bool, pattern: str) -> int:
    """Return a number that is larger for the rule that wins: the more specific one, else the allow (RFC 9309, 2.2.2).

    :param allow: whether the rule allows.
    :param pattern: octets, one character each.
    """
    return specificity(pattern) << 1 | allow


#: Matches a pattern that is its own normal form and has no wildcard: a target matches if it begins with it.
is_plain: Callable[[str], re.Match[str] | None] = re.compile(rf"{BARE_RUN.pattern}\Z").match


@dataclass(frozen=True, slots=True)
class Literal:
    """A run of octets between wildcards whose normal form depends on where it lies in a request target.

    :param in_path: its normal form in the path; ``None`` where it cannot lie there.
    :param at_query: its normal form where its first ``?`` begins the query; ``None`` where it has none.
    :param in_query: its normal form in the query.
    """

    in_path: str | None
    at_query: str | None
    in_query: str

    def find(self, target: str, start: int, query: int) -> int | None:
        """Return where its leftmost occurrence in a target ends that begins at `start` or later; ``None`` without one.

        :param query: the index of the target's first ``?``, or its length.
        """
        if self.in_path is not None and (at := target.find(self.in_path, start, query)) >= 0:
            return at + len(self.in_path)
        if self.at_query is not None:
            at = query - self.at_query.index("?")
            if at >= start and target.startswith(self.at_query, at):
                return at + len(self.at_query)
        at = target.find(self.in_query, max(start, query + 1))
        return None if at < 0 else at + len(self.in_query)

    def ends(self, target: str, start: int, query: int) -> bool:
        """Return whether a target ends with it, and it begins at `start` or later. Parameters as in `find`."""
        if query == len(target):
            return self.in_path is not None and target.endswith(self.in_path, start)
        if self.at_query is not None:
            at = query - self.at_query.index("?")
            if at >= start and target[at:] == self.at_query:
                return True
        return target.endswith(self.in_query, max(start, query + 1))


class Pattern(NamedTuple):
    """A pattern in normal form, split at its wildcards.

    :param head: what a target must begin with.
    :param parts: what must follow in this order, each anywhere behind the one before.
    :param anchored: whether the target must end with the last part (with the head, where there are no parts).
    :param needles: runs of octets that every matching target contains.
    :param literals: stand in place of `parts` where the normal form of one depends on where it lies.
    """

    head: str
    parts: tuple[str, ...]
    anchored: bool
    needles: tuple[str, ...]
    literals: tuple[Literal, ...] = ()

    def matches(self, target: str) -> bool:
        """Return whether a request target in normal form matches, in time linear in its length for each part."""
        if not target.startswith(self.head):
            return False
        if self.literals:
            return self._matches_by_place(target)
        if not self.parts:
            return not self.anchored or target == self.head
        end = len(self.head)
        # The leftmost occurrence leaves the most room for the next parts, so no other one has to be tried.
        for part in self.parts[:-1] if self.anchored else self.parts:
            at = target.find(part, end)
            if at < 0:
                return False
            end = at + len(part)
        return not self.anchored or (len(target) - end >= len(self.parts[-1]) and target.endswith(self.parts[-1]))

    def _matches_by_place(self, target: str) -> bool:
        query = target.find("?")
        query = len(target) if query < 0 else query
        end = len(self.head)
        for literal in self.literals[:-1] if self.anchored else self.literals:
            found = literal.find(target, end, query)
            if found is None:
                return False
            end = found
        return not self.anchored or self.literals[-1].ends(target, end, query)


def _literal(text: str, after_query: bool) -> Literal:
    """Return a run behind a wildcard; it can lie in the path unless a `?` of the pattern stands before it."""
    in_query = normal_form(text, in_query=True)
    if after_query:
        return Literal(None, None, in_query)
    if "?" in text:
        return Literal(None, normal_form(text), in_query)
    return Literal(normal_form(text), None, in_query)


def parse_pattern(pattern: str) -> Pattern:
    """Parse a pattern (RFC 9309, 2.2.3): ``*`` matches any run of octets, a last ``$`` the end of the target.

    :param pattern: as the file writes it; octets, one character each.
    """
    anchored = pattern.endswith(END)
    head, *runs = (pattern[:-1] if anchored else pattern).split(WILDCARD)
    if runs:
        # An empty run requires nothing. A last one before `$` lifts the anchor: anything may stand before the end.
        anchored = anchored and bool(runs[-1])
        runs = [run for run in runs if run]
    if is_normal_pattern(pattern):  # like most patterns, it is its own normal form
        return Pattern(head, tuple(runs), anchored, (head, *runs))
    return _normalized(head, runs, anchored)


def _normalized(head: str, runs: list[str], anchored: bool) -> Pattern:
    """Return a pattern with its runs in normal form; a run lies in the query where a `?` stands before it."""
    queries, after_query = [], "?" in head
    for run in runs:
        queries.append(after_query)
        after_query = after_query or "?" in run
    ambiguous = any(not after and AMBIGUOUS_ESCAPE.search(run) for run, after in zip(runs, queries, strict=True))
    head = normal_form(head)
    if not ambiguous:
        parts = tuple(normal_form(run, in_query=after) for run, after in zip(runs, queries, strict=True))
        return Pattern(head, parts, anchored, (head, *parts))
    # What stands between ambiguous escapes has the same normal form in path and query.
    pieces = [normal_form(piece, in_query=True) for run in runs for piece in AMBIGUOUS_ESCAPE.split(run)]
    return Pattern(head, (), anchored, (head, *pieces), tuple(map(_literal, runs, queries)))
