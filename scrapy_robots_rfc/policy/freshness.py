"""For how long what is known of a file may be used: RFC 9309, 2.4 and 2.3.1.4.

In here: the term of one result, given the one before it. Times are seconds on a clock that never goes back;
`now` is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

from scrapy_robots_rfc.policy.access import Outcome


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each result holds, in seconds.

    :param max_age: a file, or the knowledge that there is none (2.4: at most 24 hours).
    :param unreachable_ttl: an unreachable file is asked for again after this long.
    :param stale_max_age: a file whose refresh is unreachable is obeyed until it was last confirmed this long ago (2.4).
    :param unreachable_max_age: a file unreachable for this long counts as unavailable (2.3.1.4); ``None``: never.
    """

    max_age: float
    unreachable_ttl: float
    stale_max_age: float
    unreachable_max_age: float | None


@dataclass(frozen=True, slots=True)
class Term:
    """What holds for an origin, and until when.

    :param outcome: what governs the decisions.
    :param fresh_until: from then on the file is asked for again.
    :param confirmed: when the file that is obeyed was last fetched; ``None`` where there is none.
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


def renew(old: Term | None, fetched: Outcome, now: float, limits: Limits) -> Term:
    """Return the term that follows a fetch.

    :param old: the term before it, also one that has run out; ``None`` for an origin never asked.
    :param fetched: what the fetch gave.
    """
    if fetched is Outcome.SUCCESSFUL:
        return Term(fetched, now + limits.max_age, confirmed=now)
    if fetched is Outcome.UNAVAILABLE:
        return Term(fetched, now + limits.max_age)
    return _unreachable(old, now, limits)


def _unreachable(old: Term | None, now: float, limits: Limits) -> Term:
    since = now if old is None or old.unreachable_since is None else old.unreachable_since
    again = now + limits.unreachable_ttl
    confirmed = None if old is None else old.confirmed
    if confirmed is not None and now < confirmed + limits.stale_max_age:
        return Term(Outcome.SUCCESSFUL, min(again, confirmed + limits.stale_max_age), confirmed, since)
    if limits.unreachable_max_age is not None and now >= since + limits.unreachable_max_age:
        return Term(Outcome.UNAVAILABLE, again, unreachable_since=since)
    return Term(Outcome.UNREACHABLE, again, unreachable_since=since)
