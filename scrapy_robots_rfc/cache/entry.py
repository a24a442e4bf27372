"""CacheEntry: the cached state of an origin's robots.txt, and its form in stores.

`policy/access.py` says for how long an entry is used; this file says which entry follows from a
fetch.
"""

import json
import math
import re
import zlib
from functools import partial
from typing import Any, NamedTuple, Self

from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.access import (
    PROXY_REFUSES,
    Access,
    Freshness,
    Local,
    Outcome,
    Successful,
    Unreachable,
    Validity,
    renew,
    review,
)
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.settings import Settings

#: Seconds that a store remembers an unreachable file if ROBOTS_UNREACHABLE_MAX_AGE is None: the 30
#: days of the example in RFC 9309, 2.3.1.4.
_UNREACHABLE_KEPT = 30 * 86_400.0


class Validators(NamedTuple):
    """Headers for a conditional request that asks whether the file has changed (RFC 9110, 13.1).

    :param url: the URL of the file, after redirects; the headers are sent to no other URL.
    :param etag: the unchanged ETag header, or `None` if the server sent none.
    :param last_modified: the unchanged Last-Modified header, or `None`.
    """

    url: str
    etag: bytes | None = None
    last_modified: bytes | None = None


class CacheEntry(NamedTuple):
    """The cached state of one origin.

    In memory, times are on the clock of the crawl; in stores, they are seconds since 1970. `moved`
    converts them.

    :param validity: the outcome that decides, and until when.
    :param status: the HTTP status of the last fetch, or `None` if it got no response.
    :param cause: how the last fetch ended, in a word or two.
    :param fetched: when the last fetch ended.
    :param validators: the validators of the file that is obeyed.
    :param body: the file that is obeyed, without content coding, or `None` if there is no file.
    :param lifetime: seconds of freshness that the server gave (RFC 9111, 4.2.1), or `None` if it
        gave no time. A 304 without a time does not change it.
    :param cut: the size at which the file was cut off, which is the limit of the crawl that fetched
        it, or `None` if the file is complete.
    """

    validity: Validity
    status: int | None
    cause: str
    fetched: float
    validators: Validators | None = None
    body: bytes | None = None
    lifetime: float | None = None
    cut: int | None = None

    @property
    def for_all_routes(self) -> bool:
        """Whether it applies to every route: the site responded, or an earlier file is obeyed."""
        return self.status is not None or self.validity.outcome is not Outcome.UNREACHABLE

    def validators_for(self, url: str) -> Validators | None:
        """Return the validators if the file came from this URL; others do not know them."""
        known = self.validators
        if self.body is None or known is None or known.url != url:
            return None
        return known if known.etag or known.last_modified else None

    def shifted(self, seconds: float, latest: float = math.inf) -> Self:
        """Return the same entry on another clock.

        :param seconds: how far the other clock is ahead.
        :param latest: on the other clock, the latest time that an event in the past can have.
        """
        outcome, fresh_until, *past = self.validity
        moved = (None if time is None else min(time + seconds, latest) for time in past)
        validity = Validity(outcome, fresh_until + seconds, *moved)
        return self._replace(validity=validity, fetched=min(self.fetched + seconds, latest))

    def expiring_by(self, time: float) -> Self:
        """Return the same entry, with its freshness limited to a time."""
        until = min(self.validity.fresh_until, time)
        return self._replace(validity=self.validity._replace(fresh_until=until))

    def reviewed(self, now: float, limits: Settings) -> Self:
        """Apply the settings of this crawl to an entry that another crawl may have stored."""
        if self.cut is not None and self.cut < limits.max_size:  # this crawl reads more of the file
            return self.expiring_by(now)
        if self.status is not None and 400 <= self.status <= 499:
            # Does the status mean "unreachable": here, and in the crawl that stored it?
            here = self.status in limits.unreachable_statuses or self.status == PROXY_REFUSES
            there = self.validity.unreachable_since is not None
            if here is not there:
                return self.expiring_by(now)
        validity = review(self.validity, self.fetched, now, limits)
        if validity.outcome is Outcome.SUCCESSFUL:
            return self._replace(validity=validity)
        return self._replace(validity=validity, body=None, validators=None, cut=None)

    def stored_for(self, now: float, limits: Settings) -> float:
        """Return the seconds that a store should keep this entry."""
        validity = self.validity
        ends = [now + 1.0, validity.fresh_until]
        if validity.confirmed is not None:
            ends.append(validity.confirmed + limits.stale_max_age)
        if validity.unreachable_since is not None:  # otherwise a restart would count from zero
            ends.append(now + (limits.unreachable_max_age or _UNREACHABLE_KEPT))
        return max(ends) - now


class Fetched(NamedTuple):
    """The result of one attempt to fetch a file.

    :param freshness: how long the last response may be used, by its own headers.
    :param validators: the validators of the file, if the server sent any.
    :param confirmed: whether the site confirmed the known file (304).
    """

    access: Access
    freshness: Freshness = Freshness()
    validators: Validators | None = None
    confirmed: bool = False


def next_entry(
    old: CacheEntry | None,
    fetched: Fetched,
    now: float,
    limits: Settings,
    since: float | None = None,
) -> CacheEntry:
    """Return the entry that follows from an attempt.

    :param old: the entry before the attempt; if the file is unreachable, the old one is obeyed on.
    :param since: the time of the first of several unreachable attempts, if `old` does not have it
        yet.
    """
    validity = None if old is None else old.validity
    # If several attempts precede the first entry, the outage began with the first of them.
    if since is not None and (validity is None or validity.unreachable_since is None):
        validity = validity or Validity(Outcome.UNREACHABLE, now)
        validity = validity._replace(unreachable_since=since)
    access = fetched.access
    lifetime = fetched.freshness.lifetime
    if lifetime is None and fetched.confirmed and old is not None:
        lifetime = old.lifetime  # a 304 without a time changes none (RFC 9111, 3.2)
    fresh_for = None if lifetime is None else max(0.0, lifetime - fetched.freshness.age)
    new = renew(validity, access.outcome, now, limits, fresh_for)
    entry_of = partial(CacheEntry, new, access.status, access.cause, now)
    if isinstance(access, Successful):
        is_cut = not fetched.confirmed and len(access.body) > limits.max_size
        cut = limits.max_size if is_cut else None
        return entry_of(fetched.validators, access.body, lifetime, cut)
    if new.stale and old is not None:
        return entry_of(old.validators, old.body, old.lifetime, old.cut)
    return entry_of()


def entry_for_route(
    old: CacheEntry | None, access: Unreachable | Local, now: float, limits: Settings
) -> CacheEntry:
    """Return the entry for requests whose attempt says nothing about the site.

    It has the earlier file, if there is one. It does not become the entry of the origin, because it
    must not count towards the time that the file has been unreachable.

    :param old: the entry of the origin.
    """
    # Such a failure must never open the origin, however old it is.
    limits = limits._replace(unreachable_max_age=None)
    entry = next_entry(old, Fetched(Unreachable(access.status, access.cause)), now, limits)
    if isinstance(access, Unreachable):
        return entry
    outcome = Outcome.LOCAL if entry.body is None else entry.validity.outcome
    # It is stale at once, so that the next request tries again, which costs the site nothing.
    return entry._replace(validity=entry.validity._replace(outcome=outcome, fresh_until=now))


# In a store, an entry is a head, which is a line of JSON, followed by the file; both are compressed
# together.

#: The version of this format.
VERSION = 1
#: Larger entries are stored without compression, so `decode` never makes more bytes than this, or
#: than it was given. The event loop waits for it: about 8 ms for the worst value.
_MAX_COMPRESSED = 4 * 1024 * 1024
_MAX_HEAD = 128 * 1024
#: Maximum characters from a site. A longer URL is left out, a longer cause is cut off, and
#: `policy/access.py` ignores longer validators.
_MAX_URL = 8192
_MAX_CAUSE = 200
_HEADER = re.compile(rb"[\t\x20-\x7e\x80-\xff]{0,1024}")
#: A time in seconds that no clock shows: far beyond the year 9999, the last one of a date.
_NEVER = 1e13
#: The fields of a head in their order. All but `_TEXTS` are numbers; most may be missing.
_FIELDS = (
    "version", "outcome", "status", "cause", "fetched", "fresh_until", "confirmed",
    "unreachable_since", "lifetime", "cut", "url", "etag", "last_modified",
)  # fmt: skip
_TEXTS = {"outcome", "cause", "url", "etag", "last_modified"}


def encode(entry: CacheEntry) -> bytes:
    """Return an entry as bytes, compressed by zlib."""
    head = json.dumps(metadata_of(entry), separators=(",", ":"), allow_nan=False)
    text = b"%s\n%s" % (head.encode("ascii"), entry.body or b"")
    return zlib.compress(text, 6 if len(text) <= _MAX_COMPRESSED else 0)


def decode(value: object) -> CacheEntry:
    """Return the entry from which `encode` made a value.

    :raises ValueError: the value is damaged, or of another version. The message contains nothing
        of it.
    """
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(value, max(_MAX_COMPRESSED, len(value)))  # type: ignore[arg-type]  # see below
        if not unpacking.eof or unpacking.unused_data:
            raise ValueError("it is cut off, or followed by other data")
        end = text.index(b"\n", 0, _MAX_HEAD)
        return _entry_of(json.loads(text[:end]), text[end + 1 :])
    except Exception:  # noqa: BLE001 - a database, or a third-party store, may return anything
        raise ValueError(f"damaged, or not of version {VERSION}") from None


def metadata_of(entry: CacheEntry) -> dict[str, Any]:
    """Return all of an entry except its file, as JSON values, without absent values.

    Validators are left out, too, if their URL is too long, or must not be shown.
    """
    values = {"version": VERSION, **entry._asdict(), **entry.validity._asdict()}
    values["outcome"] = entry.validity.outcome.value
    values["cause"] = printable(entry.cause)[:_MAX_CAUSE]
    if entry.validators is not None and _may_be_shown(entry.validators.url):
        # JSON has no bytes. Latin-1 has one character for each byte, so `decode` restores them.
        values |= {
            key: value.decode("latin-1") if isinstance(value, bytes) else value
            for key, value in entry.validators._asdict().items()
        }
    return {key: values[key] for key in _FIELDS if values.get(key) is not None}


def _entry_of(head: dict[str, Any], file: bytes) -> CacheEntry:
    """Return the entry of a head from a store, and of the file after it.

    :raises Exception: a value is missing, of another type, or impossible.
    """
    head = {key: head[key] for key in _FIELDS if head.get(key) is not None}
    numbers = [value for key, value in head.items() if key not in _TEXTS]
    outcome = Outcome(head["outcome"])
    successful = outcome is Outcome.SUCCESSFUL
    cause = head["cause"]
    url = head.get("url")
    sent = [
        head[key].encode("latin-1") if key in head else None for key in ("etag", "last_modified")
    ]
    possible = (
        all(type(number) in (int, float) and abs(number) < _NEVER for number in numbers),
        head["version"] == VERSION,
        # A failure of the crawl itself says nothing about the site, so no crawl stores it.
        outcome is not Outcome.LOCAL,
        successful or not file,
        # Users read it: it must not look like another line, or control a terminal.
        cause.isprintable() and len(cause) <= _MAX_CAUSE,
        url is None or _may_be_shown(url),
        # These are sent: they must not start another header.
        all(value is None or _HEADER.fullmatch(value) for value in sent),
    )
    if not all(possible):
        raise ValueError("a value is impossible")
    return CacheEntry(
        Validity(
            outcome, head["fresh_until"], head.get("confirmed"), head.get("unreachable_since")
        ),
        head.get("status"),
        cause,
        head["fetched"],
        None if url is None else Validators(url, *sent),
        file if successful else None,  # an empty file is a file, too
        head.get("lifetime"),
        head.get("cut"),
    )


def _may_be_shown(url: str) -> bool:
    """Return whether a URL has no password and no control characters, and is short enough."""
    plain = url.isprintable() and without_userinfo(url) == url
    return plain and len(url) <= _MAX_URL
