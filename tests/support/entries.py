"""Cache entries for tests, written on one line: the times of the validity stand beside those of the entry."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.policy.caching import Validity

if TYPE_CHECKING:
    from scrapy_robots_rfc.policy.access import Outcome

_OF_VALIDITY = {one.name for one in fields(Validity)}


def made(  # noqa: PLR0917 - a table of entries is read by columns
    outcome: Outcome,
    status: int | None,
    cause: str,
    fetched: float,
    fresh_until: float,
    confirmed: float | None = None,
    unreachable_since: float | None = None,
    **others: Any,
) -> CacheEntry:
    """Return an entry."""
    return CacheEntry(Validity(outcome, fresh_until, confirmed, unreachable_since), status, cause, fetched, **others)


def changed(entry: CacheEntry, **values: Any) -> CacheEntry:
    """Return an entry with other values; those of its validity are given by their own names, too."""
    validity = {name: values.pop(name) for name in _OF_VALIDITY & values.keys()}
    return replace(entry, validity=replace(entry.validity, **validity), **values)
