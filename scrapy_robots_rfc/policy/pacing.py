"""When the next request may go: Crawl-delay, Request-rate, Visit-time, which RFC 9309, 2.2.4 leaves to us.

In here: from a file's records to an interval, and the turns of requests that keep one. Times of day are UTC; other
times are seconds on a clock that never goes back. Which requests there are, and who holds them back, stands elsewhere.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scrapy_robots_rfc.core.extensions import VisitTime, parse_delay, parse_rate, parse_window

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import time

    from scrapy_robots_rfc.core.groups import Record

CRAWL_DELAY, REQUEST_RATE, VISIT_TIME = "crawl-delay", "request-rate", "visit-time"

#: The records that this is about.
KEYS = (CRAWL_DELAY, REQUEST_RATE, VISIT_TIME)

# Windows of a file that are told apart. Real files have one or two; each costs memory, and time for each request.
_MOST_WINDOWS = 16


class Over(enum.Enum):
    """What becomes of a site that asks for a longer interval than the user's maximum."""

    #: The maximum is kept.
    CLAMP = "clamp"
    #: None of its pages is fetched.
    FORBID = "forbid"


@dataclass(frozen=True, slots=True)
class Limit:
    """The longest interval that is kept.

    :param longest: seconds.
    :param over: what becomes of longer ones.
    """

    longest: float
    over: Over = Over.CLAMP


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound on the interval between two requests.

    :param seconds: above 0, may be infinite.
    :param text: where it comes from, for people: ``Crawl-delay 10 s (robots.txt line 4)``.
    :param window: when it holds; ``None`` for always.
    """

    seconds: float
    text: str
    window: VisitTime | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """A Visit-time: when a site wants to be crawled.

    :param window: every day.
    :param text: where it comes from, for people.
    """

    window: VisitTime
    text: str


@dataclass(frozen=True, slots=True)
class Pace:
    """What a file asks of a crawler's pace.

    :param bounds: all of them; the largest that holds at a time decides.
    :param visits: a time of day inside any of them is welcome.
    """

    bounds: tuple[Bound, ...] = ()
    visits: tuple[Visit, ...] = ()

    def bound(self, utc: time) -> Bound | None:
        """The largest bound that holds at a time of day; ``None`` where none does."""
        found = (bound for bound in self.bounds if bound.window is None or inside(bound.window, utc))
        return max(found, key=lambda bound: bound.seconds, default=None)

    def unwelcome(self, utc: time) -> Visit | None:
        """The Visit-time that a time of day is outside of; ``None`` where the crawler is welcome."""
        if any(inside(visit.window, utc) for visit in self.visits):
            return None
        return self.visits[0] if self.visits else None


def inside(window: VisitTime, utc: time) -> bool:
    """Whether a time of day is in a window: its start is, its end is not. One that ends where it starts is all day."""
    start, end = window.start, window.end
    return start <= utc < end if start < end else utc >= start or utc < end


def pace_of(records: Iterable[Record]) -> Pace | None:
    """Return the pace that records ask for; ``None`` where they ask for nothing.

    :param records: those of `KEYS` in the group that applies; what none of them means is passed over.
    """
    bounds: dict[VisitTime | None, Bound] = {}
    visits: list[Visit] = []
    for record in records:
        place = f"(robots.txt line {record.line})"
        if record.key == CRAWL_DELAY:
            delay = parse_delay(record.value)
            if delay:
                _keep(bounds, Bound(delay, f"Crawl-delay {delay:.15g} s {place}"))
        elif record.key == REQUEST_RATE:
            rate = parse_rate(record.value)
            if rate is not None and rate.interval:
                text = f"Request-rate {rate.requests}/{rate.seconds:g} s{_when(rate.window)} {place}"
                _keep(bounds, Bound(rate.interval, text, rate.window))
        elif record.key == VISIT_TIME:
            window = parse_window(record.value)
            if window is not None and len(visits) < _MOST_WINDOWS:
                visits.append(Visit(window, f"Visit-time{_when(window)} {place}"))
    return Pace(tuple(bounds.values()), tuple(visits)) if bounds or visits else None


def _keep(bounds: dict[VisitTime | None, Bound], bound: Bound) -> None:
    """Keep a bound if it is the largest of its window; where a file has too many windows, it holds always."""
    if bound.window not in bounds and len(bounds) >= _MOST_WINDOWS:
        bound = replace(bound, window=None)
    known = bounds.get(bound.window)
    if known is None or known.seconds < bound.seconds:
        bounds[bound.window] = bound


def pace_of_number(delay: object) -> Pace | None:
    """Return the pace that a parser's bare number asks for; ``None`` for what is no number above 0."""
    if not isinstance(delay, (int, float)) or not delay > 0:  # not: it may be no number
        return None
    try:
        seconds = float(delay)
    except OverflowError:  # a whole number of hundreds of digits
        seconds = math.inf
    return Pace((Bound(seconds, f"Crawl-delay {seconds:g} s"),))


def _when(window: VisitTime | None) -> str:
    return "" if window is None else f" {window.start:%H%M}-{window.end:%H%M}"


@dataclass(slots=True, eq=False)
class Turns:
    """The turns of requests that keep an interval, by the clock of the server that they go to.

    A request may reach the server any time after it started (a connection has to be made first), but not after its
    answer began to arrive: the interval is counted from there. So whatever a way costs, the server sees no shorter one.

    :param last: when the last answer began to arrive, or its request ended without one.
    """

    last: float = -math.inf
    _unanswered: dict[object, float] = field(default_factory=dict)

    def start(self, request: object, now: float) -> None:
        """A request starts now."""
        self._unanswered[request] = now

    def answered(self, request: object, now: float) -> None:
        """Its answer begins to arrive, or it has ended without one."""
        if request in self._unanswered:
            del self._unanswered[request]
            self.last = max(self.last, now)

    def wait(self, request: object, interval: float, now: float, *, patient: bool = True) -> float | None:
        """Seconds until a request may start; ``None`` while nobody can tell, because an answer is outstanding.

        :param interval: seconds; 0 for none, then nothing is waited for.
        :param patient: whether the server has to see the interval, and so an answer is waited for as long as it takes;
            else a request that is not answered within the interval counts from its start.
        """
        if not interval:
            return 0.0
        others = [started for other, started in self._unanswered.items() if other is not request]
        if others and patient:
            return None
        return max(0.0, max([self.last, *others]) + interval - now)

    @property
    def idle(self) -> bool:
        """Whether no answer is outstanding."""
        return not self._unanswered
