"""When things happened, in a number of buckets that does not grow: they get wider instead.

In here: counting, and how widths and times are said. How it is drawn is `report_plots.py`.
"""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass

_HOUR, _DAY = 3600, 86_400
#: Seconds of a bucket: each is a multiple of the one before, so that buckets can be put together.
WIDTHS = (1, 2, 10, 30, 60, 120, 600, 1800, _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY)
#: Buckets at most; a bar for each fits the narrowest screen.
MOST = 120

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_UNITS = ((7 * _DAY, "week"), (_DAY, "day"), (_HOUR, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True, slots=True)
class Bucket:
    """A span of time.

    :param start: its begin, in seconds since 1970.
    :param counts: reason -> how many requests.
    """

    start: int
    counts: Counter[str]


class Timeline:
    """Counts requests by time and reason."""

    def __init__(self) -> None:
        self.width = WIDTHS[0]
        self._buckets: dict[int, Counter[str]] = {}
        self._first = self._last = 0

    def add(self, time: float, reason: str, count: int) -> None:
        """Count requests.

        :param time: seconds since 1970.
        """
        index = int(time) // self.width
        if not self._buckets:
            self._first = self._last = index
        self._first, self._last = min(self._first, index), max(self._last, index)
        while self._last - self._first >= MOST:
            self._widen()
            index = int(time) // self.width
        self._buckets.setdefault(index, Counter())[reason] += count

    def _widen(self) -> None:
        at = WIDTHS.index(self.width) + 1 if self.width in WIDTHS else len(WIDTHS)
        wider = WIDTHS[at] if at < len(WIDTHS) else self.width * 10
        factor = wider // self.width
        together: dict[int, Counter[str]] = {}
        for index, counts in self._buckets.items():
            together.setdefault(index // factor, Counter()).update(counts)
        self.width, self._buckets = wider, together
        self._first, self._last = self._first // factor, self._last // factor

    def buckets(self) -> list[Bucket]:
        """Return all buckets from the first request to the last, the empty ones too."""
        if not self._buckets:
            return []
        span = range(self._first, self._last + 1)
        return [Bucket(index * self.width, self._buckets.get(index, Counter())) for index in span]


def date(time: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC, to the second: ``2026-11-21T22:40:01Z``."""
    if time is None:
        return None
    return f"{_EPOCH + datetime.timedelta(seconds=int(time)):%Y-%m-%dT%H:%M:%SZ}"


def said(time: float) -> str:
    """Return a time for people, in UTC: ``2026-11-21 22:40:01``."""
    return f"{_EPOCH + datetime.timedelta(seconds=int(time)):%Y-%m-%d %H:%M:%S}"


def between(first: float, last: float) -> str:
    """Return a span of time for people: the date once, where it is one."""
    begin, end = said(first), said(last)
    if begin == end:
        return f"at {begin} UTC"
    return f"from {begin} to {end[11:] if begin[:10] == end[:10] else end} UTC"


def width(seconds: int) -> str:
    """Return the width of a bucket for people: ``10 minutes``."""
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size:,} {unit}{'' if seconds == size else 's'}"
    return f"{seconds:,} seconds"
