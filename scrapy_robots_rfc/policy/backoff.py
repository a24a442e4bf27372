"""When a robots.txt that could not be reached is asked for again, before its origin is closed (RFC 9309, 2.3.1.4).

In here: seconds, from how often it was tried and from what the server asked for. Who waits meanwhile is the service's
business; what holds when the last attempt has failed is `freshness.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scrapy_robots_rfc.policy.caching import http_date

_SECONDS = re.compile(rb"[0-9]+")

# As many digits as no clock needs: of a longer number the first ones are more than any cap, too.
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Backoff:
    """How patient a crawl is.

    :param delays: seconds before the second attempt, the third, and so on; empty: there is one attempt.
    :param retry_after_max: seconds that a server may ask for at most; what is longer counts as that.
    """

    delays: tuple[float, ...]
    retry_after_max: float

    def to_come(self, attempts: int, retry_after: float | None) -> tuple[float, ...]:
        """Return the seconds before each further attempt, as far as a server does not ask for more later on.

        :param attempts: how many were made before the one that has just failed.
        :param retry_after: seconds that the server asked for.
        """
        delays = self.delays[attempts:]
        return (self.at_least(delays[0], retry_after), *delays[1:]) if delays else ()

    def at_least(self, seconds: float, retry_after: float | None) -> float:
        """Return a number of seconds, or those that the server asked for if they are more."""
        return max(seconds, min(retry_after or 0.0, self.retry_after_max))


def retry_after(value: bytes | None, date: float) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110, 10.2.3); ``None`` where there is none that can be read.

    :param value: the header as it came: seconds, or a date in any of the three forms of HTTP.
    :param date: the present, in seconds since 1970.
    """
    text = (value or b"").strip()
    if _SECONDS.fullmatch(text):
        return float(text.lstrip(b"0")[:_DIGITS] or b"0")
    then = http_date(text)
    return None if then is None else max(0.0, then - date)
