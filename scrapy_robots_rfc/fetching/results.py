"""What a fetch gave, and the cache entry that follows from it. `service.py` keeps that, and tells those who wait."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.policy import caching
from scrapy_robots_rfc.policy.access import Access, Local, Outcome, Successful, Unreachable
from scrapy_robots_rfc.policy.caching import CachePolicy, Freshness, Validity

if TYPE_CHECKING:
    from scrapy_robots_rfc.cache.entry import Validators
    from scrapy_robots_rfc.policy.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Fetched:
    """What an attempt gave.

    :param freshness: how long the last answer may be used, by its own headers.
    :param validators: of the file, if there is one and its server gave some.
    :param confirmed: whether the file that was at hand still holds (304).
    """

    access: Access
    freshness: Freshness = field(default_factory=Freshness)
    validators: Validators | None = None
    confirmed: bool = False


def following(
    old: CacheEntry | None, fetched: Fetched, now: float, limits: CachePolicy, since: float | None = None
) -> CacheEntry:
    """Return the cache entry that follows from a fetch.

    :param old: the entry before it; if the fetch was unreachable, its file is obeyed for longer.
    :param since: when the first of several unreachable attempts was, if `old` does not have that yet.
    """
    validity = None if old is None else old.validity
    if since is not None and (validity is None or validity.unreachable_since is None):
        validity = Validity(Outcome.UNREACHABLE, now, None if validity is None else validity.confirmed, since)
    access, said = fetched.access, fetched.freshness
    lifetime = said.lifetime
    if lifetime is None and fetched.confirmed and old is not None:
        lifetime = old.lifetime  # what a 304 leaves out stays (RFC 9111, 3.2)
    left = None if lifetime is None else max(0.0, lifetime - said.age)
    new = caching.renew(validity, access.outcome, now, limits, left)
    entry = CacheEntry(new, access.status, access.cause, now)
    if isinstance(access, Successful):
        return replace(entry, validators=fetched.validators, body=access.body, lifetime=lifetime)
    if new.stale and old is not None:
        return replace(entry, validators=old.validators, body=old.body, lifetime=old.lifetime)
    return entry


def set_aside(old: CacheEntry | None, access: Unreachable | Local, now: float, limits: CachePolicy) -> CacheEntry:
    """Return what governs requests whose fetch says nothing about the site: an earlier file, or nothing is known.

    It does not become the cache entry of the origin, since it must not count in how long the file was unreachable.

    :param old: the cache entry of the origin.
    """
    limits = replace(limits, unreachable_max_age=None)  # such a failure must not open the origin, however old it is
    if old is not None:
        old = replace(old, validity=replace(old.validity, unreachable_since=None))
    failed = Fetched(Unreachable(access.status, access.cause))
    entry = following(old, failed, now, limits)
    if isinstance(access, Local):
        outcome = Outcome.LOCAL if entry.body is None else entry.validity.outcome
        # It is stale at once, so that the next request tries again: that costs the site nothing.
        return replace(entry, validity=replace(entry.validity, outcome=outcome, fresh_until=now))
    return entry


def limits_after(access: Access, limits: CachePolicy, waits: Backoff) -> CachePolicy:
    """Return how long results hold after an answer: after a Retry-After, for at least as long as it says."""
    if not isinstance(access, Unreachable) or access.retry_after is None:
        return limits
    return replace(limits, unreachable_ttl=waits.at_least(limits.unreachable_ttl, access.retry_after))
