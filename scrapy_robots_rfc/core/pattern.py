"""A path pattern: how specific it is, and which targets it matches (RFC 9309, 2.2.2, 2.2.3)."""

from __future__ import annotations

from typing import NamedTuple

from scrapy_robots_rfc.core.percent import is_normal_pattern, normal_form


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
        # Behind the leftmost occurrence is the most room for the next parts: no other one is tried.
        if self.placed:
            for number, run in enumerate(self.placed, 1):
                end = run.find(target, end, self.anchored and number == len(self.placed))
                if end < 0:
                    return False
            return True
        for part in self.parts[:-1] if self.anchored else self.parts:
            at = target.find(part, end)
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
        runs = [run for run in runs if run]
    if is_normal_pattern(pattern):  # most patterns are their own normal form
        return Pattern(head, tuple(runs), anchored)
    placed = tuple(Placed(normal_form(run), normal_form(run, in_query=True)) for run in runs)
    parts = tuple(run.in_query for run in placed)
    # Behind a `?` of the pattern, everything lies in the query.
    one_form = "?" in head or all(run.in_path == run.in_query for run in placed)
    return Pattern(normal_form(head), parts, anchored, () if one_form else placed)
