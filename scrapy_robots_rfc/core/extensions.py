"""Parse Crawl-delay, Request-rate and Visit-time values, which RFC 9309 does not define."""

import re
from datetime import time
from typing import NamedTuple

_NUMBER = r"(\d+(?:[.,]\d*)?|[.,]\d+)"
_UNITS = {
    "": 1,
    "ms": 0.001,
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hr", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86_400),
    **dict.fromkeys(("w", "week"), 604_800),
}
_UNIT = rf"({'|'.join(_UNITS)})s?"
# Few files contain these records, so the patterns are compiled on first use.
_FLAGS = re.IGNORECASE | re.ASCII
# A Crawl-delay: `10`, `2.5 s`.
_DELAY = rf"([+-]?)\s*{_NUMBER}\s*{_UNIT}\.?"
# A number anywhere in a value: `10` in `about 10`.
_ANY_NUMBER = r"\d+(?:[.,]\d+)?(?:e\+?\d+)?"
# A Request-rate: `30/1m`, `1/5 0600-0845`. The lookahead makes the unit end there. Otherwise, `1m`
# would be read as `1`, because the unit may be empty.
_RATE = rf"(\d{{1,9}})\s*/\s*{_NUMBER}\s*{_UNIT}(?![\w.,/])(?:\s+(.*))?"
# A Visit-time, or the end of a Request-rate: `0600-0845`.
_WINDOW = r"(\d\d):?(\d\d)\s*-\s*(\d\d):?(\d\d)(?!\d)"


class VisitTime(NamedTuple):
    """The time of day when a site wants to be crawled.

    :param start: the start, in UTC.
    :param end: the end, in UTC. It is before `start` if the window spans midnight.
    """

    start: time
    end: time


class RequestRate(NamedTuple):
    """The number of requests that a site accepts per period.

    :param requests: the number of requests, at least 1.
    :param seconds: the length of the period, above 0.
    :param window: the time of day when the rate applies, or `None` if it always does.
    """

    requests: int
    seconds: float
    window: VisitTime | None = None

    @property
    def interval(self) -> float:
        """The minimum number of seconds between requests."""
        return self.seconds / self.requests


def _seconds(number: str, unit: str = "") -> float:
    """Convert a number in a unit of `_UNITS` to seconds, or to infinity if it is too large."""
    return float(number.replace(",", ".")) * _UNITS[unit.lower()]


def plain_delay(value: str) -> float | None:
    """Parse a well-formed Crawl-delay such as ``10`` or ``10 min.``.

    :returns: the delay in seconds, or `None` if it is negative or malformed.
    """
    match = re.fullmatch(_DELAY, value, _FLAGS)
    return _seconds(match[2], match[3]) if match and match[1] != "-" else None


def parse_delay(value: str) -> float | None:
    """Parse a Crawl-delay. If the value is malformed, use the largest number in it, to be safe.

    :returns: the delay in seconds, or `None` if it is negative or contains no number.
    """
    if re.fullmatch(_DELAY, value, _FLAGS):
        return plain_delay(value)  # `None` if it is negative, so `-5` is not read as 5
    return max(map(_seconds, re.findall(_ANY_NUMBER, value, _FLAGS)), default=None)


def parse_window(value: str) -> VisitTime | None:
    """Parse a Visit-time such as ``0600-0845``, or return `None` if it is malformed."""
    match = re.search(_WINDOW, value, _FLAGS)
    if match is None:
        return None
    start_hour, start_minute, end_hour, end_minute = map(int, match.groups())
    if max(start_hour, end_hour) > 24 or max(start_minute, end_minute) > 59:
        return None
    # Midnight may be written as 2400, but `time` only accepts hours up to 23.
    return VisitTime(time(start_hour % 24, start_minute), time(end_hour % 24, end_minute))


def parse_rate(value: str) -> RequestRate | None:
    """Parse a Request-rate such as ``30/1m 0600-0845``, or return `None` if it is malformed.

    If only its window is malformed, the rate always applies.
    """
    match = re.match(_RATE, value, _FLAGS)
    if match is None:
        return None
    count, number, unit, window = match.groups()
    requests, seconds = int(count), _seconds(number, unit)
    if not requests or not seconds:
        return None
    return RequestRate(requests, seconds, parse_window(window) if window else None)
