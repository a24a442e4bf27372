"""When an unreachable robots.txt is asked for again while requests wait for it (RFC 9309, 2.3.1.4).

`fetching/fetch.py` makes these pauses. `caching.py` says what counts when the last attempt has
failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_robots_rfc.policy.caching import MAX_RETRY_AFTER, http_date, seconds_of

if TYPE_CHECKING:
    from scrapy_robots_rfc.settings import Settings


def to_come(attempts: int, retry_after: float | None, settings: Settings) -> tuple[float, ...]:
    """Return the seconds before each further attempt; empty: no further attempt is made.

    :param attempts: how many attempts were made before the one that has just failed.
    :param retry_after: seconds that the server asked for; they lengthen the first pause only.
    """
    delays = settings.unreachable_backoff[attempts:]
    return (at_least(delays[0], retry_after), *delays[1:]) if delays else ()


def at_least(seconds: float, retry_after: float | None) -> float:
    """Return the seconds, or what the server asked for if longer, up to `MAX_RETRY_AFTER`."""
    return max(seconds, min(retry_after or 0.0, MAX_RETRY_AFTER))


def retry_after(value: bytes | None, date: float) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110, 10.2.3); ``None`` if it has none.

    :param value: the header as it came: a number of seconds, or a date.
    :param date: the present, in seconds since 1970.
    """
    seconds = seconds_of(value)
    if seconds is not None:
        return seconds
    then = http_date(value or b"")
    return None if then is None else max(0.0, then - date)
