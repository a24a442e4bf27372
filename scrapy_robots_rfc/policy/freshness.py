"""For how long what is known of a file may be used: RFC 9309, 2.4 and 2.3.1.4.

In here: the term of one result, given the one before it. What the site's own headers ask for is `caching.py`. Times are
seconds on a clock that never goes back; `now` is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scrapy_robots_rfc.policy.access import Outcome


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """How long each result holds, in seconds.

    :param max_age: a file, or that there is none, at most (2.4: 24 hours), and where its site says nothing.
    :param unreachable_ttl: an unreachable file is asked for again after this long.
    :param stale_max_age: a file whose refresh is unreachable is obeyed until it was last confirmed this long ago (2.4).
    :param unreachable_max_age: a file unreachable for this long counts as unavailable (2.3.1.4); ``None``: never.
    :param min_age: a file, or that there is none, at least, whatever its site says; `max_age` wins.
    """

    max_age: float
    unreachable_ttl: float
    stale_max_age: float
    unreachable_max_age: float | None
    min_age: float = 0.0


@dataclass(frozen=True, slots=True)
class Validity:
    """What holds for an origin, and until when.

    :param outcome: what governs the decisions.
    :param fresh_until: from then on the file is asked for again.
    :param confirmed: when the file that is obeyed was last fetched, or found unchanged; ``None`` where there is none.
    :param unreachable_since: when the run of unreachable fetches began; ``None`` outside of one.
    """

    outcome: Outcome
    fresh_until: float
    confirmed: float | None = None
    unreachable_since: float | None = None

    @property
    def stale(self) -> bool:
        """Whether an earlier file is obeyed because the last fetch was unreachable."""
        return self.outcome is Outcome.SUCCESSFUL and self.unreachable_since is not None


def renew(
    old: Validity | None, fetched: Outcome, now: float, limits: CachePolicy, fresh_for: float | None = None
) -> Validity:
    """Return the term that follows a fetch.

    :param old: the term before it, also one that has run out; ``None`` for an origin never asked.
    :param fetched: what the fetch gave.
    :param fresh_for: seconds that the site wants it to hold; ``None``: it said nothing.
    """
    if fetched is Outcome.UNREACHABLE:
        return _unreachable(old, now, limits)
    age = limits.max_age if fresh_for is None else min(max(fresh_for, limits.min_age), limits.max_age)
    return Validity(fetched, now + age, confirmed=now if fetched is Outcome.SUCCESSFUL else None)


def review(old: Validity, fetched: float, now: float, limits: CachePolicy, longest_ttl: float) -> Validity:
    """Return what a term that somebody else made is worth under limits of our own: never more than it says.

    :param fetched: when the fetch that it follows from ended.
    :param longest_ttl: seconds that an unreachable file is left alone at most.
    """
    if old.unreachable_since is None:
        return replace(old, fresh_until=min(old.fresh_until, fetched + limits.max_age))
    again = min(old.fresh_until, fetched + longest_ttl)
    validity = _unreachable(old, now, limits)
    if validity.confirmed is not None:
        again = min(again, validity.confirmed + limits.stale_max_age)
    return replace(validity, fresh_until=again if validity.outcome is old.outcome else now)


def _unreachable(old: Validity | None, now: float, limits: CachePolicy) -> Validity:
    since = now if old is None or old.unreachable_since is None else old.unreachable_since
    again = now + limits.unreachable_ttl
    confirmed = None if old is None else old.confirmed
    if confirmed is not None and now < confirmed + limits.stale_max_age:
        return Validity(Outcome.SUCCESSFUL, min(again, confirmed + limits.stale_max_age), confirmed, since)
    if limits.unreachable_max_age is not None and now >= since + limits.unreachable_max_age:
        return Validity(Outcome.UNAVAILABLE, again, unreachable_since=since)
    return Validity(Outcome.UNREACHABLE, again, unreachable_since=since)
