"""One path pattern (RFC 9309, 2.2.2 and 2.2.3).

How specific it is, and which targets it matches.
"""

from __future__ import annotations

from typing import NamedTuple

from scrapy_robots_rfc.core.percent import is_normal_pattern, normal_form


def specificity(pattern: str) -> int:
    """Return how many octets a pattern has (2.2.2).

    One outside ASCII counts three, as its escape.
    """
    return len(pattern) + 2 * (len(pattern.encode()) - len(pattern))


class Literal(NamedTuple):
    """A run of octets between wildcards whose normal form depends on where it lies in a target.

    :param in_path: its normal form in the path; ``None`` where it cannot lie there.
    :param at_query: its normal form where its first ``?`` begins the query; ``None`` without one.
    :param in_query: its normal form in the query.
    """

    in_path: str | None
    at_query: str | None
    in_query: str

    def find(self, target: str, start: int, last: bool) -> int:
        """Return where its leftmost occurrence in a target ends; -1 without one.

        :param start: where it begins, or later.
        :param last: whether the target must end with it.
        """
        query = len(target.partition("?")[0])
        crossing = start if self.at_query is None else query - self.at_query.index("?")
        for run, low, high in (
            (self.in_path, start, query),
            (self.at_query, crossing, crossing + len(self.at_query or "")),
            (self.in_query, max(start, query + 1), len(target)),
        ):
            if run is not None and low >= start:
                at = target.find(run, max(low, len(target) - len(run)) if last else low, high)
                if at >= 0:
                    return at + len(run)
        return -1


class Pattern(NamedTuple):
    """A pattern in normal form, split at its wildcards.

    :param head: what a target must begin with.
    :param parts: what must follow in this order, each anywhere behind the one before.
    :param anchored: whether the target must end with the last part (with the head, without parts).
    :param literals: stand in place of `parts` where the normal form of one depends on its place.
    """

    head: str
    parts: tuple[str, ...]
    anchored: bool
    literals: tuple[Literal, ...] = ()

    def matches(self, target: str) -> bool:
        """Return whether a target in normal form matches; time is linear in it for each part."""
        if not target.startswith(self.head):
            return False
        if self.literals:
            return self._matches_by_place(target)
        if not self.parts:
            return not self.anchored or target == self.head
        end = len(self.head)
        # The leftmost occurrence leaves the most room for the next parts: no other one is tried.
        for part in self.parts[:-1] if self.anchored else self.parts:
            at = target.find(part, end)
            if at < 0:
                return False
            end = at + len(part)
        return not self.anchored or target.endswith(self.parts[-1], end)

    def _matches_by_place(self, target: str) -> bool:
        end, count = len(self.head), len(self.literals)
        for number, literal in enumerate(self.literals, 1):
            end = literal.find(target, end, self.anchored and number == count)
            if end < 0:
                return False
        return True


def parse_pattern(pattern: str) -> Pattern:
    """Parse a pattern (RFC 9309, 2.2.3): ``*`` matches any run of octets, a last ``$`` the end of the target.

    :param pattern: as the file writes it; octets, one character each.
    """
    anchored = pattern.endswith("$")
    head, *runs = (pattern[:-1] if anchored else pattern).split("*")
    if runs:
        # An empty run requires nothing. A last one before `$` lifts the anchor: anything may stand
        # before the end.
        anchored = anchored and bool(runs[-1])
        runs = [run for run in runs if run]
    if is_normal_pattern(pattern):  # like most patterns, it is its own normal form
        return Pattern(head, tuple(runs), anchored)
    return _normalized(head, runs, anchored)


def _normalized(head: str, runs: list[str], anchored: bool) -> Pattern:
    """Return a pattern with its runs in normal form.

    Behind a `?` of it, a run lies in the query.
    """
    literals, in_query = list[Literal](), "?" in head
    for run in runs:
        above = None if in_query else normal_form(run)
        inside = normal_form(run, in_query=True)
        crosses = "?" in run
        literals.append(Literal(None, above, inside) if crosses else Literal(above, None, inside))
        in_query = in_query or crosses
    head = normal_form(head)
    if all((one.in_path or one.at_query or one.in_query) == one.in_query for one in literals):
        return Pattern(head, tuple(one.in_query for one in literals), anchored)
    return Pattern(head, (), anchored, tuple(literals))
