"""Read the values of Crawl-delay, Request-rate and Visit-time, which RFC 9309 does not define.

`policy/pacing.py` says what a crawl does with them.
"""

import re
from datetime import time
from typing import NamedTuple

_NUMBER = r"(\d+(?:[.,]\d*)?|[.,]\d+|inf(?:inity|inite)?)"
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
# Few files have such values, so these are compiled on first use. A delay is `10`, `2.5 s` or `inf`;
# a rate `30/1m` or `1/5 0600-0845`; a window `0600-0845`.
_FLAGS = re.IGNORECASE | re.ASCII
_DELAY = rf"([+-]?)\s*{_NUMBER}\s*{_UNIT}\.?"
_ANY_NUMBER = r"\d+(?:[.,]\d+)?(?:e\+?\d+)?|\binf(?:inity|inite)?\b"
_RATE = rf"(\d{{1,9}})\s*/\s*{_NUMBER}\s*{_UNIT}(?![\w.,/])(?:\s+(.*))?"
_WINDOW = r"(\d\d):?(\d\d)\s*-\s*(\d\d):?(\d\d)(?!\d)"


class VisitTime(NamedTuple):
    """The time of day in which a site wants to be crawled.

    :param start: in UTC.
    :param end: in UTC; before `start` if midnight is between them.
    """

    start: time
    end: time


class RequestRate(NamedTuple):
    """The number of requests that a site accepts in a number of seconds.

    :param requests: a positive number.
    :param seconds: the period, above 0.
    :param window: when the rate counts, or `None` if it always does.
    """

    requests: int
    seconds: float
    window: VisitTime | None = None

    @property
    def interval(self) -> float:
        """Seconds between two requests."""
        return self.seconds / self.requests


def _seconds(number: str, unit: str = "") -> float:
    # float() reads `inf`, and reads a thousand digits as infinity; it raises for neither.
    number = "inf" if number[:1] in "iI" else number.replace(",", ".")
    return float(number) * _UNITS[unit.lower()]


def plain_delay(value: str) -> float | None:
    """Return the seconds of a Crawl-delay such as ``10``, ``10 min.`` or ``inf``.

    :returns: `None` for a negative number and for any other value.
    """
    match = re.fullmatch(_DELAY, value, _FLAGS)
    return _seconds(match[2], match[3]) if match and match[1] != "-" else None


def parse_delay(value: str) -> float | None:
    """Return the seconds of a Crawl-delay; if it contains other text, the largest number.

    :returns: `None` for a negative number and for a value without a number.
    """
    if re.fullmatch(_DELAY, value, _FLAGS):
        return plain_delay(value)
    return max(map(_seconds, re.findall(_ANY_NUMBER, value, _FLAGS)), default=None)


def parse_window(value: str) -> VisitTime | None:
    """Return a Visit-time such as ``0600-0845``, or `None` for any other value."""
    match = re.search(_WINDOW, value, _FLAGS)
    if match is None:
        return None
    start_hour, start_minute, end_hour, end_minute = map(int, match.groups())
    if max(start_hour, end_hour) > 24 or max(start_minute, end_minute) > 59:
        return None
    return VisitTime(time(start_hour % 24, start_minute), time(end_hour % 24, end_minute))


def parse_rate(value: str) -> RequestRate | None:
    """Return a Request-rate such as ``30/1m`` or ``1/5 0600-0845``, or `None` for another value."""
    match = re.match(_RATE, value, _FLAGS)
    if match is None:
        return None
    requests, seconds = int(match[1]), _seconds(match[2], match[3])
    if not requests or not seconds:
        return None
    return RequestRate(requests, seconds, parse_window(match[4] or ""))
