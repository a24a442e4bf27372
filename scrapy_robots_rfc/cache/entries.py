"""Copies and what a fetch makes of them: the next copy, what one out of a store is worth, how long it is kept there.

In here: the way from `policy/caching.py` to `stores/codec.py` and back. Times are on the crawl's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.fetching.fetch import Fetched
from scrapy_robots_rfc.policy import caching
from scrapy_robots_rfc.policy.access import PROXY_REFUSES, Local, Outcome, Successful, Unreachable
from scrapy_robots_rfc.policy.caching import CachePolicy, Validity

if TYPE_CHECKING:
    from collections.abc import Collection

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


def following(
    old: CacheEntry | None, fetched: Fetched, now: float, limits: CachePolicy, since: float | None = None
) -> CacheEntry:
    """Return the copy that follows from a fetch.

    :param old: the one before it; its file is obeyed on where the fetch was unreachable.
    :param since: when a run of unreachable fetches began of which `old` does not know yet.
    """
    validity = None if old is None else validity_of(old)
    if since is not None and (validity is None or validity.unreachable_since is None):
        validity = Validity(Outcome.UNREACHABLE, now, None if old is None else old.confirmed, since)
    access, said = fetched.access, fetched.freshness
    lifetime = said.lifetime
    if lifetime is None and fetched.confirmed and old is not None:
        lifetime = old.lifetime  # what a 304 leaves out stays (RFC 9111, 3.2)
    left = None if lifetime is None else max(0.0, lifetime - said.age)
    new = caching.renew(validity, access.outcome, now, limits, left)
    copy = CacheEntry(new.outcome, access.status, access.cause, now, new.fresh_until)
    if isinstance(access, Successful):
        copy = replace(copy, validators=fetched.validators, body=access.body, lifetime=lifetime)
    elif new.stale and old is not None:
        copy = replace(copy, validators=old.validators, body=old.body, lifetime=old.lifetime)
    return _with(copy, new)


def set_aside(old: CacheEntry | None, access: Unreachable | Local, now: float, limits: CachePolicy) -> CacheEntry:
    """Return what governs those whose fetch says nothing about the site: an earlier file, or that nobody knows.

    It is not the copy of the origin: how long its file was unreachable, for one, must not follow from this.

    :param old: the copy of the origin.
    """
    limits = replace(limits, unreachable_max_age=None)  # nothing opens by it
    if old is not None:
        old = replace(old, unreachable_since=None)
    failed = Fetched(Unreachable(access.status, access.cause))
    copy = following(old, failed, now, limits)
    if isinstance(access, Local):
        copy = replace(copy, fresh_until=now)  # the next one asks again: that costs the site nothing
        return copy if copy.body is not None else replace(copy, outcome=Outcome.LOCAL)
    return copy


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
