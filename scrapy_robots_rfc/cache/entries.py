"""Copies: what one out of a store is worth, and how long it is kept there. See `fetching/results.py` for the next one.

In here: the way from `policy/freshness.py` to `stores/codec.py` and back. Times are on the crawl's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scrapy_robots_rfc.policy import caching
from scrapy_robots_rfc.policy.access import PROXY_REFUSES, Outcome
from scrapy_robots_rfc.policy.caching import CachePolicy, Validity

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy_robots_rfc.cache.entry import CacheEntry
    from scrapy_robots_rfc.settings import Settings

#: Seconds for which a store remembers that a file is unreachable where it never counts as unavailable: as long as the
#: RFC's own example (RFC 9309, 2.3.1.4).
_REMEMBERED = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What a crawl makes of copies, whoever made them.

    :param limits: how long each result holds.
    :param longest_ttl: seconds that an unreachable file is left alone at most.
    :param unreachable_statuses: the statuses of the 4xx class that count as unreachable.
    """

    limits: CachePolicy
    longest_ttl: float
    unreachable_statuses: Collection[int]

    def reviewed(self, copy: CacheEntry, now: float) -> CacheEntry:
        """Return what a copy out of a store is worth here: another crawl may have had other settings."""
        if copy.status is not None and 400 <= copy.status <= 499:
            closed = copy.status in self.unreachable_statuses or copy.status == PROXY_REFUSES
            if closed is not (copy.unreachable_since is not None):
                return replace(copy, fresh_until=min(copy.fresh_until, now))
        validity = caching.review(validity_of(copy), copy.fetched, now, self.limits, self.longest_ttl)
        return _with(copy, validity)

    def keep(self, copy: CacheEntry, now: float) -> float:
        """Return the seconds after which no store needs a copy any more."""
        ends = [copy.fresh_until]
        if copy.confirmed is not None:
            ends.append(copy.confirmed + self.limits.stale_max_age)
        if copy.unreachable_since is not None:  # so that its end is not put off by a restart
            longest = self.limits.unreachable_max_age
            ends.append(now + (_REMEMBERED if longest is None else longest))
        return max(max(ends) - now, 1.0)


def rules_of(settings: Settings) -> Rules:
    """Return the rules of a crawl with these settings."""
    limits = CachePolicy(
        settings.cache_max_age,
        settings.unreachable_ttl,
        settings.stale_max_age,
        settings.unreachable_max_age,
        settings.cache_min_age,
    )
    longest_ttl = max(settings.unreachable_ttl, settings.retry_after_max)
    return Rules(limits, longest_ttl, settings.unreachable_statuses)


def validity_of(copy: CacheEntry) -> Validity:
    """Return what a copy says of its own time."""
    return Validity(copy.outcome, copy.fresh_until, copy.confirmed, copy.unreachable_since)


def _with(copy: CacheEntry, validity: Validity) -> CacheEntry:
    held = validity.outcome is Outcome.SUCCESSFUL
    return replace(
        copy,
        outcome=validity.outcome,
        fresh_until=validity.fresh_until,
        confirmed=validity.confirmed,
        unreachable_since=validity.unreachable_since,
        body=copy.body if held else None,
        validators=copy.validators if held else None,
    )
