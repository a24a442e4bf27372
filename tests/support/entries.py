"""Short ways to create cache entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.settings import Settings

from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.policy.access import Validity
from scrapy_robots_rfc.settings import read_settings

if TYPE_CHECKING:
    from scrapy_robots_rfc import settings
    from scrapy_robots_rfc.policy.access import Outcome

_VALIDITY_FIELDS = {*Validity._fields}


def made(
    outcome: Outcome,
    status: int | None,
    cause: str,
    fetched: float,
    fresh_until: float,
    confirmed: float | None = None,
    unreachable_since: float | None = None,
    **others: Any,
) -> CacheEntry:
    """Return an entry; the times of its validity are parameters, too."""
    return CacheEntry(
        Validity(outcome, fresh_until, confirmed, unreachable_since),
        status,
        cause,
        fetched,
        **others,
    )


def changed(entry: CacheEntry, **values: Any) -> CacheEntry:
    """Return an entry with other values, also for the fields of its validity."""
    validity = {name: values.pop(name) for name in _VALIDITY_FIELDS & values.keys()}
    return entry._replace(validity=entry.validity._replace(**validity), **values)


def limits(
    max_age: float,
    unreachable_ttl: float,
    stale_max_age: float,
    unreachable_max_age: float | None,
    **others: Any,
) -> settings.Settings:
    """Return settings with these limits in seconds, and others by field name."""
    return read_settings(Settings())._replace(
        cache_max_age=max_age,
        unreachable_ttl=unreachable_ttl,
        stale_max_age=stale_max_age,
        unreachable_max_age=unreachable_max_age,
        **{"cache_min_age": 0.0, **others},
    )
