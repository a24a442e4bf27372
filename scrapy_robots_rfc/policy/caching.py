"""What the headers of an answer say of its freshness (RFC 9111), and with what it is asked for again (RFC 9110, 13.1).

In here: headers in, seconds out. Within which limits they count is `freshness.py`. A header, or a directive, that is
malformed counts as absent.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from scrapy_robots_rfc.policy.dates import http_date

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_T = TypeVar("_T")

#: The values of one header, a line each, in the order in which they came.
Lines: TypeAlias = tuple[bytes, ...]

#: Longer times count as this one (RFC 9111, 1.2.2).
_LONGEST = 2**31
#: Octets of a Cache-Control header that are read: what is longer is nobody's good will.
_READ = 8192

_ELEMENT = re.compile(rb'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+', re.DOTALL)
_SECONDS = re.compile(rb"[0-9]+")
# What may be sent back: no control octets, and nobody needs more than this.
_VALIDATOR = re.compile(rb"[\t\x20-\x7e\x80-\xff]{1,1024}")


@dataclass(frozen=True, slots=True)
class Caching:
    """The headers of an answer about caching, as they came; of several lines the first that can be read counts.

    :param cache_control: whose lines are one list.
    """

    cache_control: Lines = ()
    expires: Lines = ()
    date: Lines = ()
    age: Lines = ()
    etag: Lines = ()
    last_modified: Lines = ()

    def freshness(self, now: float) -> Freshness:
        """Return what they say of freshness.

        :param now: the present, in seconds since 1970: stands in for a Date header.
        """
        directives = _directives(b",".join(self.cache_control))
        stored = b"no-store" not in directives
        # Of a list in one line the first element counts, too (RFC 9111, 5.1).
        age = _first(_seconds, (element for line in self.age for element in line.split(b","))) or 0.0
        # With field names as its value it is about those fields only (RFC 9111, 5.2.2.4).
        if not stored or directives.get(b"no-cache") == b"":
            return Freshness(0.0, age, stored=stored)
        # This is a shared cache: what it keeps serves every spider of a fleet (5.2.2.10).
        for name in (b"s-maxage", b"max-age"):
            seconds = _seconds(directives.get(name))
            if seconds is not None:
                return Freshness(seconds, age)
        return Freshness(self._until_expiry(now), age)

    def _until_expiry(self, now: float) -> float | None:
        then = _first(_end, self.expires)
        if then is None:
            return None
        made = _first(http_date, self.date)
        return min(max(0.0, then - (now if made is None else made)), float(_LONGEST))

    @property
    def tag(self) -> bytes | None:
        """The ETag, where it can be sent back; ``*`` would stand for any file."""
        return _first(lambda value: value if value.strip() != b"*" and _VALIDATOR.fullmatch(value) else None, self.etag)

    @property
    def modified(self) -> bytes | None:
        """The Last-Modified header, where it can be sent back."""
        return _first(_date_to_send, self.last_modified)


@dataclass(frozen=True, slots=True)
class Freshness:
    """What an answer says of its own freshness.

    :param lifetime: seconds that it is fresh after it was made (RFC 9111, 4.2.1); ``None``: it says nothing.
    :param age: seconds that it had been in other caches (5.1).
    :param stored: whether it may be put into a store (5.2.2.5).
    """

    lifetime: float | None = None
    age: float = 0.0
    stored: bool = True


def _directives(cache_control: bytes) -> dict[bytes, bytes]:
    """Return the directives of a Cache-Control header: name -> value, empty where it has none; the first one counts."""
    found: dict[bytes, bytes] = {}
    for element in _ELEMENT.findall(cache_control[:_READ]):
        name, _, value = element.partition(b"=")
        name, value = name.strip().lower(), value.strip()
        if len(value) > 1 and value.startswith(b'"') and value.endswith(b'"'):
            value = value[1:-1]
        if name not in found and not (name in (b"max-age", b"s-maxage") and _seconds(value) is None):
            found[name] = value
    return found


def _first(read: Callable[[bytes], _T | None], values: Iterable[bytes]) -> _T | None:
    return next((found for found in map(read, values) if found is not None), None)


def _end(expires: bytes) -> float | None:
    # No dates, and the customary way to say "in the past" (RFC 9111, 5.3).
    return -math.inf if expires.strip() in (b"0", b"-1") else http_date(expires)


def _date_to_send(value: bytes) -> bytes | None:
    return value if _VALIDATOR.fullmatch(value) and http_date(value) is not None else None


def _seconds(value: bytes | None) -> float | None:
    """Return delta-seconds (RFC 9111, 1.2.2)."""
    text = (value or b"").strip()
    if not _SECONDS.fullmatch(text):
        return None
    digits = text.lstrip(b"0")
    return float(_LONGEST if len(digits) > 10 else min(int(digits or b"0"), _LONGEST))
