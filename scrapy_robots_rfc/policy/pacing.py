"""Determine the interval between requests from Crawl-delay and Request-rate records.

Times of day are in UTC, and all other times are seconds on a monotonic clock.
"""

import enum
import math
from collections.abc import Iterable
from datetime import time
from typing import NamedTuple

from scrapy_robots_rfc.core.extensions import VisitTime, parse_delay, parse_rate
from scrapy_robots_rfc.core.lines import Record

#: The keys of records that `pace_of` supports.
KEYS = ("crawl-delay", "request-rate")
#: Maximum number of these records to read for a group. A hostile file may contain 30,000.
MAX_RECORDS = 1_000

# Maximum number of time windows per file, because every request checks all of them. Real files
# contain one or two.
_MAX_WINDOWS = 16


class CrawlDelayOver(enum.Enum):
    """How to handle sites that ask for an interval longer than ROBOTS_CRAWL_DELAY_MAX."""

    #: Use the maximum instead.
    CLAMP = "clamp"
    #: Do not fetch any pages from the site.
    FORBID = "forbid"


class Bound(NamedTuple):
    """The minimum interval between requests, as specified by one record.

    :param seconds: the interval in seconds, above 0 and possibly infinite.
    :param text: a human-readable description, such as ``Crawl-delay 10 s (robots.txt line 4)``.
    :param window: the time of day when it applies, or `None` if it always does.
    """

    seconds: float
    text: str
    window: VisitTime | None = None

    def applies_at(self, utc: time) -> bool:
        """Return whether the bound applies at the given time of day."""
        return self.window is None or inside(self.window, utc)


class Pace(NamedTuple):
    """All intervals requested by a site.

    :param bounds: the intervals, which may differ by time of day.
    """

    bounds: tuple[Bound, ...]

    def bound(self, utc: time) -> Bound | None:
        """Return the largest bound that applies at a time of day, or `None` if there is none."""
        bounds = [bound for bound in self.bounds if bound.applies_at(utc)]
        return max(bounds, key=lambda bound: bound.seconds, default=None)


def inside(window: VisitTime, utc: time) -> bool:
    """Return whether a time of day falls within a window.

    A window may extend past midnight. If the start and end times are the same, it covers the entire
    day.
    """
    start, end = window.start, window.end
    if start < end:
        return start <= utc < end
    return utc >= start or utc < end


def pace_of(records: Iterable[Record]) -> Pace | None:
    """Return the pace requested by a group's records, or `None` if there is none.

    :param records: the group's records with a key in `KEYS`.
    """
    return _pace_from(filter(None, map(_bound_of, records)))


def _bound_of(record: Record) -> Bound | None:
    """Return the bound in a record, or `None` if the record is malformed or its interval is 0."""
    place = f"(robots.txt line {record.line})"
    if record.key == "crawl-delay":
        delay = parse_delay(record.value)
        return Bound(delay, f"Crawl-delay {delay:.15g} s {place}") if delay else None
    rate = parse_rate(record.value)
    if rate is None or not rate.interval:  # tiny numbers may round to 0
        return None
    window = rate.window
    hours = "" if window is None else f" {window.start:%H%M}-{window.end:%H%M}"
    value = f"{rate.requests}/{rate.seconds:g} s{hours}"
    return Bound(rate.interval, f"Request-rate {value} {place}", window)


def _pace_from(bounds: Iterable[Bound]) -> Pace | None:
    """Return a pace with only the largest bound for each window, or `None` if there are no bounds.

    If there are too many windows, bounds with further windows apply all day.
    """
    largest: dict[VisitTime | None, Bound] = {}
    for bound in bounds:
        window = bound.window
        if window not in largest and len(largest) >= _MAX_WINDOWS:
            window = None  # all day
        known = largest.get(window)
        if known is None or known.seconds < bound.seconds:
            largest[window] = bound._replace(window=window)
    return Pace(tuple(largest.values())) if largest else None


def pace_of_number(delay: object) -> Pace | None:
    """Return the pace for a Crawl-delay from a third-party parser.

    :returns: `None` if the delay is not a number above 0.
    """
    if not isinstance(delay, (int, float)) or not delay > 0:  # `delay <= 0` would accept NaN
        return None
    seconds = float(delay) if delay < 1e300 else math.inf  # float() fails for very large integers
    return Pace((Bound(seconds, f"Crawl-delay {seconds:g} s"),))
