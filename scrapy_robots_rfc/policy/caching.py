"""What the headers of an answer say of its freshness (RFC 9111), and with what it is asked for again (RFC 9110, 13.1).

In here: headers in, seconds out. Within which limits they count is `freshness.py`. A header, or a directive, that is
malformed counts as absent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scrapy_robots_rfc.policy.dates import http_date

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
    """The headers of an answer that are about caching, as they came; ``None`` where one did not.

    :param cache_control: all lines of it, joined by commas.
    """

    cache_control: bytes | None = None
    expires: bytes | None = None
    date: bytes | None = None
    age: bytes | None = None
    etag: bytes | None = None
    last_modified: bytes | None = None

    def freshness(self, now: float) -> Freshness:
        """Return what they say of freshness.

        :param now: the present, in seconds since 1970: stands in for a Date header.
        """
        directives = _directives(self.cache_control or b"")
        stored = b"no-store" not in directives
        age = _seconds(self.age) or 0.0
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
        expires = (self.expires or b"").strip()
        if expires in (b"0", b"-1"):  # no dates, and the customary way to say "in the past" (5.3)
            return 0.0
        then = http_date(expires)
        if then is None:
            return None
        made = http_date(self.date or b"")
        return min(max(0.0, then - (now if made is None else made)), float(_LONGEST))

    @property
    def tag(self) -> bytes | None:
        """The ETag, where it can be sent back; ``*`` would stand for any file."""
        return self.etag if self.etag and self.etag.strip() != b"*" and _VALIDATOR.fullmatch(self.etag) else None

    @property
    def modified(self) -> bytes | None:
        """The Last-Modified header, where it can be sent back."""
        value = self.last_modified
        return value if value and _VALIDATOR.fullmatch(value) and http_date(value) is not None else None


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


def _seconds(value: bytes | None) -> float | None:
    """Return delta-seconds (RFC 9111, 1.2.2)."""
    text = (value or b"").strip()
    if not _SECONDS.fullmatch(text):
        return None
    digits = text.lstrip(b"0")
    return float(_LONGEST if len(digits) > 10 else min(int(digits or b"0"), _LONGEST))
