"""The dates of HTTP (RFC 9110, 5.6.7), in seconds since 1970.

In here: how one is read. What follows from it is for who asks.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_tz


def http_date(value: bytes) -> float | None:
    """Return the time of a header in any of the three forms of HTTP; ``None`` where it is in none."""
    try:
        parsed = parsedate_tz(value.decode("latin-1"))
        if parsed is None:
            return None
        return datetime(*parsed[:6], tzinfo=UTC).timestamp() - (parsed[9] or 0)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
