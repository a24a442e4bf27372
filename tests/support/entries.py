"""Short ways to create cache entries, policies and fetches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.settings import Settings

from scrapy_robots_rfc.cache.entry import CacheEntry, Validators
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import read_settings

if TYPE_CHECKING:
    from scrapy_robots_rfc import settings
    from scrapy_robots_rfc.core.agents import Agent
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


#: A file with a value in every field.
FILE = made(
    Outcome.SUCCESSFUL,
    200,
    "200",
    1_700_000_000.25,
    1_700_086_400.25,
    confirmed=1_700_000_000.25,
    unreachable_since=1_700_000_100.0,
    validators=Validators(
        "https://a.example/robots.txt", b'W/"5\xff"', b"Tue, 14 Nov 2023 22:13:20 GMT"
    ),
    body=b"User-agent: *\nDisallow: /x\n# \xff\n" * 20,
    lifetime=3600.0,
    cut=512_000,
    other_host=True,
)


def origin(host: str) -> Origin:
    """Return the https origin of a host."""
    return Origin("https", host, 443)


def policy(
    cause: str, host: str = "a", outcome: Outcome = Outcome.UNREACHABLE, until: float = 0.0
) -> OriginPolicy:
    """Return the policy of an origin, unreachable by default."""
    return OriginPolicy(
        origin(host), Validity(outcome, until, unreachable_since=0.0), None, cause, None, _agent
    )


def fetch(host: str = "a") -> PendingFetch:
    """Return a new fetch for an origin."""
    return PendingFetch(origin(host))


def _agent() -> Agent:
    raise NotImplementedError
