"""The interval between requests that Crawl-delay and Request-rate ask for.

`pace_of` reads these records, `IntervalClock` says when the next request may start, and
`scheduling/` waits for it. Times of day are in UTC; other times are seconds on a monotonic clock.
"""

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import time
from typing import NamedTuple

from scrapy_robots_rfc.core.agents import GroupKey
from scrapy_robots_rfc.core.extensions import VisitTime, parse_delay, parse_rate
from scrapy_robots_rfc.core.lines import Record

#: The keys of the records that `pace_of` reads.
KEYS = ("crawl-delay", "request-rate")

# Maximum windows of a file. Real files have one or two; each costs time at each request.
_MAX_WINDOWS = 16


class CrawlDelayOver(enum.Enum):
    """How to treat a site that asks for a longer interval than ROBOTS_CRAWL_DELAY_MAX."""

    #: The maximum is used.
    CLAMP = "clamp"
    #: No page of the site is fetched.
    FORBID = "forbid"


class Bound(NamedTuple):
    """A lower bound on the interval between two requests.

    :param seconds: above 0, may be infinite.
    :param text: its record, in words for the user: ``Crawl-delay 10 s (robots.txt line 4)``.
    :param window: the time of day when it counts, or `None` if it always does.
    """

    seconds: float
    text: str
    window: VisitTime | None = None


class Pace(NamedTuple):
    """The intervals that a site asks for.

    :param bounds: of the bounds for a time of day, the largest counts.
    """

    bounds: tuple[Bound, ...]

    def merged_with(self, other: "Pace") -> "Pace":
        """Return the bounds of both."""
        return _largest((*self.bounds, *other.bounds)) or self

    def bound(self, utc: time) -> Bound | None:
        """Return the largest bound for a time of day, or `None` if there is none."""
        bounds = [each for each in self.bounds if each.window is None or inside(each.window, utc)]
        return max(bounds, key=lambda bound: bound.seconds, default=None)


def inside(window: VisitTime, utc: time) -> bool:
    """Return whether a time of day is in a window; one that ends when it starts is all day."""
    start, end = window.start, window.end
    return start <= utc < end if start < end else utc >= start or utc < end


def pace_of(records: Iterable[Record]) -> Pace | None:
    """Return the pace that records ask for, or `None` if they ask for nothing.

    :param records: the records of the group that applies with a key of `KEYS`; malformed records
        are ignored.
    """
    bounds = []
    for record in records:
        place = f"(robots.txt line {record.line})"
        if record.key == "crawl-delay":
            delay = parse_delay(record.value)
            if delay:
                bounds.append(Bound(delay, f"Crawl-delay {delay:.15g} s {place}"))
            continue
        rate = parse_rate(record.value)
        if rate is not None and rate.interval:
            window = rate.window
            hours = "" if window is None else f" {window.start:%H%M}-{window.end:%H%M}"
            asked = f"{rate.requests}/{rate.seconds:g} s{hours}"
            bounds.append(Bound(rate.interval, f"Request-rate {asked} {place}", window))
    return _largest(bounds)


def paces_of(
    groups: Iterable[tuple[Iterable[GroupKey], Iterable[Record]]],
) -> dict[GroupKey, Pace]:
    """Return, for each key, the pace that its groups ask for together (2.2.1).

    :param groups: the keys that select each group, and its records, as `pace_of` reads them.
    """
    paces: dict[GroupKey, Pace] = {}
    for keys, records in groups:
        pace = pace_of(records)
        if pace is None:
            continue
        for key in keys:
            known = paces.get(key)
            paces[key] = pace if known is None else known.merged_with(pace)
    return paces


def _largest(bounds: Iterable[Bound]) -> Pace | None:
    """Return the largest bound of each window. With too many windows, bounds count all day."""
    largest: dict[VisitTime | None, Bound] = {}
    for bound in bounds:
        window = bound.window
        if window not in largest and len(largest) >= _MAX_WINDOWS:
            window = None
        known = largest.get(window)
        if known is None or known.seconds < bound.seconds:
            largest[window] = bound._replace(window=window)
    return Pace(tuple(largest.values())) if largest else None


def pace_of_number(delay: object) -> Pace | None:
    """Return the pace for the Crawl-delay of a third-party parser.

    :returns: `None` if it is not a number above 0.
    """
    if not isinstance(delay, (int, float)) or not delay > 0:  # `delay <= 0` would let NaN through
        return None
    seconds = float(delay) if delay < 1e300 else math.inf  # float() raises for a longer int
    return Pace((Bound(seconds, f"Crawl-delay {seconds:g} s"),))


@dataclass(slots=True, eq=False, repr=False)
class IntervalClock:
    """A clock for the interval between the requests to a site, as its server sees them.

    A request reaches the server at an unknown time between its start and the beginning of its
    response. So the interval is counted from the beginning of the response.

    :param last: when the last response began to arrive, or a request ended without one.
    :param outstanding: the requests that have started and have no response. A request that ends
        before it is sent is removed from it.
    """

    last: float = -math.inf
    outstanding: set[object] = field(default_factory=set)

    def answered(self, request: object, now: float) -> None:
        """Note that a response begins to arrive, or that its request ended without one."""
        if request in self.outstanding:
            self.outstanding.remove(request)
            self.last = max(self.last, now)

    def wait(self, interval: float, now: float) -> float | None:
        """Return the seconds until a request may start, or `None` until a response arrives.

        :param interval: the interval in seconds; 0 means that there is none.
        """
        if not interval:
            return 0.0
        if self.outstanding:
            return None
        return max(0.0, self.last + interval - now)
