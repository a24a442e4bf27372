"""What a fetch gave, and the cache entry that follows from it. When one is made, and who is told, is `service.py`."""

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

    :param freshness: what the last answer says of its own.
    :param validators: of the file, where there is one and its server gave some.
    :param confirmed: whether it is the file that was at hand (304).
    """

    access: Access
    freshness: Freshness = field(default_factory=Freshness)
    validators: Validators | None = None
    confirmed: bool = False


def following(
    old: CacheEntry | None, fetched: Fetched, now: float, limits: CachePolicy, since: float | None = None
) -> CacheEntry:
    """Return the copy that follows from a fetch.

    :param old: the one before it; its file is obeyed on where the fetch was unreachable.
    :param since: when a run of unreachable fetches began of which `old` does not know yet.
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
    """Return what governs those whose fetch says nothing about the site: an earlier file, or that nobody knows.

    It is not the copy of the origin: how long its file was unreachable, for one, must not follow from this.

    :param old: the copy of the origin.
    """
    limits = replace(limits, unreachable_max_age=None)  # nothing opens by it
    if old is not None:
        old = replace(old, validity=replace(old.validity, unreachable_since=None))
    failed = Fetched(Unreachable(access.status, access.cause))
    entry = following(old, failed, now, limits)
    if isinstance(access, Local):
        outcome = Outcome.LOCAL if entry.body is None else entry.validity.outcome
        # The next request asks again: that costs the site nothing.
        return replace(entry, validity=replace(entry.validity, outcome=outcome, fresh_until=now))
    return entry


def limits_after(access: Access, limits: CachePolicy, waits: Backoff) -> CachePolicy:
    """Return how long results hold after an answer: a server is left alone for as long as it asks."""
    if not isinstance(access, Unreachable) or access.retry_after is None:
        return limits
    return replace(limits, unreachable_ttl=waits.at_least(limits.unreachable_ttl, access.retry_after))
