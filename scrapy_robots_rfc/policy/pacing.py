"""The pace that Crawl-delay and Request-rate ask for.

`pace_of` reads these records, `IntervalClock` says when the next request may start, `scheduling/`
has requests wait for it. Times of day are UTC; other times are seconds on a clock that never goes
back.
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

# How many windows of a file count. Real files have one or two; each costs time at each request.
_MOST_WINDOWS = 16


class Over(enum.Enum):
    """What is done with a site that asks for a longer interval than ROBOTS_CRAWL_DELAY_MAX."""

    #: The maximum is used.
    CLAMP = "clamp"
    #: No page of the site is fetched.
    FORBID = "forbid"


class Bound(NamedTuple):
    """A lower bound on the interval between two requests.

    :param seconds: above 0, may be infinite.
    :param text: the record that asks for it, for people: ``Crawl-delay 10 s (robots.txt line 4)``.
    :param window: the time of day when it counts; ``None``: always.
    """

    seconds: float
    text: str
    window: VisitTime | None = None


class Pace(NamedTuple):
    """How fast a site asks to be crawled.

    :param bounds: at a time of day, the largest of those for that time counts.
    """

    bounds: tuple[Bound, ...]

    def joined(self, other: "Pace") -> "Pace":
        """Return what both ask for together."""
        return _largest((*self.bounds, *other.bounds)) or self

    def bound(self, utc: time) -> Bound | None:
        """The largest bound for a time of day; ``None`` where there is none."""
        found = (each for each in self.bounds if each.window is None or inside(each.window, utc))
        return max(found, key=lambda bound: bound.seconds, default=None)


def inside(window: VisitTime, utc: time) -> bool:
    """Whether a time of day is in a window; one that ends as it starts is all day."""
    start, end = window.start, window.end
    return start <= utc < end if start < end else utc >= start or utc < end


def pace_of(records: Iterable[Record]) -> Pace | None:
    """Return the pace that records ask for; ``None`` where they ask for nothing.

    :param records: those of `KEYS` in the group that applies; malformed ones are ignored.
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
    """Return the interval that all groups of each key ask for together (2.2.1).

    :param groups: the keys that select each group, and its records, as `pace_of` reads them.
    """
    paces: dict[GroupKey, Pace] = {}
    for keys, records in groups:
        pace = pace_of(records)
        if pace is None:
            continue
        for key in keys:
            known = paces.get(key)
            paces[key] = pace if known is None else known.joined(pace)
    return paces


def _largest(bounds: Iterable[Bound]) -> Pace | None:
    """Return the largest bound of each window; with too many windows, for all day."""
    found: dict[VisitTime | None, Bound] = {}
    for bound in bounds:
        full = len(found) >= _MOST_WINDOWS
        window = None if full and bound.window not in found else bound.window
        known = found.get(window)
        if known is None or known.seconds < bound.seconds:
            found[window] = bound._replace(window=window)
    return Pace(tuple(found.values())) if found else None


def pace_of_number(delay: object) -> Pace | None:
    """Return the pace for the Crawl-delay that a user's parser gave.

    ``None``: it is not a number above 0.
    """
    if not isinstance(delay, (int, float)) or not delay > 0:  # `delay <= 0` would let NaN through
        return None
    seconds = float(delay) if delay < 1e300 else math.inf  # float() raises for a longer int
    return Pace((Bound(seconds, f"Crawl-delay {seconds:g} s"),))


@dataclass(slots=True, eq=False, repr=False)
class IntervalClock:
    """Says when the next request to a server may start, so that it sees the interval it asked for.

    A request reaches the server at an unknown time after its start, but before its answer begins to
    arrive. So the interval is counted from the beginning of the answer.

    :param last: when the last answer began to arrive, or a request ended without one.
    :param outstanding: the requests that have started and are not answered. A request is put into
        it as it starts, and taken out if it ends before it was sent.
    """

    last: float = -math.inf
    outstanding: set[object] = field(default_factory=set)

    def answered(self, request: object, now: float) -> None:
        """Note that the answer to a request begins to arrive, or that the request ended without."""
        if request in self.outstanding:
            self.outstanding.remove(request)
            self.last = max(self.last, now)

    def wait(self, interval: float, now: float) -> float | None:
        """Return the seconds until a request may start; ``None`` while it waits for an answer.

        :param interval: seconds; 0: there is nothing to wait for.
        """
        if not interval:
            return 0.0
        if self.outstanding:
            return None
        return max(0.0, self.last + interval - now)
