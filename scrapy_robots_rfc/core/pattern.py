"""One path pattern (RFC 9309, 2.2.2 and 2.2.3): how specific it is, and what it matches, in linear time.

In here: a single pattern against a single request target. Which of many rules wins is `ruleset.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from scrapy_robots_rfc.core.percent import AMBIGUOUS_ESCAPE, normal_form, only_bare

WILDCARD = "*"
END = "$"


def specificity(pattern: str) -> int:
    """Octets of a pattern as written; one outside ASCII counts as its three-octet escape (RFC 9309, 2.2.2).

    :param pattern: octets, one character each.
    """
    return len(pattern) if pattern.isascii() else len(pattern) + 2 * sum(octet > "\x7f" for octet in pattern)


def precedence(allow: bool, pattern: str) -> int:
    """A number that is larger for the rule that wins: the more specific one, of equals the allow (RFC 9309, 2.2.2).

    :param allow: the rule's kind.
    :param pattern: octets, one character each.
    """
    return specificity(pattern) << 1 | allow


@dataclass(frozen=True, slots=True)
class Literal:
    """A run of octets between wildcards, in normal form.

    :param in_path: how it reads where it lies in the path; ``None`` where it cannot.
    :param at_query: how it reads where its first ``?`` is the one that begins the query; ``None`` without one.
    :param in_query: how it reads where it lies in the query.
    """

    in_path: str | None
    at_query: str | None
    in_query: str

    def find(self, target: str, start: int, query: int) -> int | None:
        """Where its leftmost place in a target at or after `start` ends.

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
        """Whether a target ends with it, at or after `start`. Arguments as in `find`."""
        if query == len(target):
            return self.in_path is not None and target.endswith(self.in_path, start)
        if self.at_query is not None:
            at = query - self.at_query.index("?")
            if at >= start and target[at:] == self.at_query:
                return True
        return target.endswith(self.in_query, max(start, query + 1))


class Pattern(NamedTuple):
    """A pattern, taken apart at its wildcards, in normal form.

    :param head: what a target must begin with.
    :param parts: what must follow, each anywhere after the one before.
    :param anchored: the last part (the head, where there is none) must end the target.
    :param needle: a run that every target contains that matches.
    :param literals: in place of `parts`, where an escape in one of them means different things in path and query.
    """

    head: str
    parts: tuple[str, ...]
    anchored: bool
    needle: str
    literals: tuple[Literal, ...] = ()

    def matches(self, target: str) -> bool:
        """Whether a request target in normal form matches; time is linear in the target's length for each part."""
        if not target.startswith(self.head):
            return False
        if self.literals:
            return self._matches_by_place(target)
        if not self.parts:
            return not self.anchored or target == self.head
        end = len(self.head)
        # Leftmost places leave the most room for what follows, so no other place ever needs a try.
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
    """A run after a wildcard; it may lie in the path unless the pattern's `?` stands before it."""
    in_query = normal_form(text, in_query=True)
    if after_query:
        return Literal(None, None, in_query)
    if "?" in text:
        return Literal(None, normal_form(text), in_query)
    return Literal(normal_form(text), None, in_query)


def parse_pattern(pattern: str) -> Pattern:
    """Take a pattern apart (RFC 9309, 2.2.3): ``*`` is any run of octets, ``$`` the end where it is the last octet.

    :param pattern: as written; octets, one character each.
    """
    anchored = pattern.endswith(END)
    head, *runs = (pattern[:-1] if anchored else pattern).split(WILDCARD)
    if runs:
        # An empty run says nothing, but for a last one before `$`: that lets anything stand before the end.
        anchored = anchored and bool(runs[-1])
        runs = [run for run in runs if run]
    if only_bare(pattern):  # nothing in it to encode or to decode, which is the rule
        return Pattern(head, tuple(runs), anchored, max((*runs, head), key=len))
    return _normalized(head, runs, anchored)


def _normalized(head: str, runs: list[str], anchored: bool) -> Pattern:
    """A pattern with its runs in normal form; whether one lies in the query depends on where the first `?` stands."""
    queries, after_query = [], "?" in head
    for run in runs:
        queries.append(after_query)
        after_query = after_query or "?" in run
    ambiguous = any(not after and AMBIGUOUS_ESCAPE.search(run) for run, after in zip(runs, queries, strict=True))
    head = normal_form(head)
    if not ambiguous:
        parts = tuple(normal_form(run, in_query=after) for run, after in zip(runs, queries, strict=True))
        return Pattern(head, parts, anchored, max((*parts, head), key=len))
    # What stands between ambiguous escapes reads the same wherever it lies.
    pieces = [normal_form(piece, in_query=True) for run in runs for piece in AMBIGUOUS_ESCAPE.split(run)]
    return Pattern(head, (), anchored, max(pieces, key=len), tuple(map(_literal, runs, queries)))
