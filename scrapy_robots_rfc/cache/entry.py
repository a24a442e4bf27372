"""CacheEntry: all that is known of an origin's robots.txt, and how it is written down for stores.

`policy/caching.py` says for how long an entry is used; this file says which entry follows from a
fetch.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy import caching
from scrapy_robots_rfc.policy.access import (
    PROXY_REFUSES,
    Access,
    Local,
    Outcome,
    Successful,
    Unreachable,
)
from scrapy_robots_rfc.policy.caching import Freshness, Validity
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.settings import Settings

#: Seconds for which a store remembers that a file is unreachable if ROBOTS_UNREACHABLE_MAX_AGE is
#: None: 30 days, the example of RFC 9309, 2.3.1.4.
_REMEMBERED = 30 * 86_400.0


class Validators(NamedTuple):
    """With these the server is asked later whether the file has changed (RFC 9110, 13.1).

    :param url: the URL that gave the file, after redirects; they are sent to no other URL.
    :param etag: the ETag header, as it came; ``None`` if there was none.
    :param last_modified: the Last-Modified header, as it came.
    """

    url: str
    etag: bytes | None = None
    last_modified: bytes | None = None


class CacheEntry(NamedTuple):
    """What is known of one origin.

    In memory, times are on the clock of the crawl, in stores since 1970: see `moved`.

    :param validity: what governs the decisions, and until when.
    :param status: the HTTP status of the last fetch; ``None`` if there was no answer.
    :param cause: how the last fetch ended, in a word or two.
    :param fetched: when it ended.
    :param validators: those of the file that is obeyed.
    :param body: the file that is obeyed, without content coding; ``None`` if there is none.
    :param lifetime: seconds for which its server called it fresh (RFC 9111, 4.2.1); ``None`` if it
        gave no time. A 304 that gives none does not change it.
    :param cut: the octets after which the file was cut off, because the crawl that fetched it reads
        no more; ``None``: it is whole.
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
    def for_all(self) -> bool:
        """Whether it governs every route: there was an answer, or an earlier file is obeyed."""
        return self.status is not None or self.validity.outcome is not Outcome.UNREACHABLE

    def known_at(self, url: str) -> Validators | None:
        """Return the validators if the file came from this URL: they mean nothing to another."""
        known = self.validators
        if self.body is None or known is None or known.url != url:
            return None
        return known if known.etag or known.last_modified else None

    def moved(self, seconds: float, latest: float = math.inf) -> CacheEntry:
        """Return the same entry on another clock.

        :param seconds: how much more the other clock shows.
        :param latest: on the other clock, no time of the past is later than this one.
        """

        def past(time: float | None) -> float | None:
            return None if time is None else min(time + seconds, latest)

        old = self.validity
        validity = Validity(
            old.outcome, old.fresh_until + seconds, past(old.confirmed), past(old.unreachable_since)
        )
        return self._replace(validity=validity, fetched=min(self.fetched + seconds, latest))

    def expiring(self, time: float) -> CacheEntry:
        """Return the same entry, fresh until this time at the latest."""
        until = min(self.validity.fresh_until, time)
        return self._replace(validity=self.validity._replace(fresh_until=until))

    def reviewed(self, now: float, limits: Settings) -> CacheEntry:
        """Return what an entry of a store is worth here: another crawl may have other settings."""
        if self.cut is not None and self.cut < limits.max_size:
            return self.expiring(now)
        if self.status is not None and 400 <= self.status <= 499:
            closed = self.status in limits.unreachable_statuses or self.status == PROXY_REFUSES
            if closed is not (self.validity.unreachable_since is not None):
                return self.expiring(now)
        validity = caching.review(self.validity, self.fetched, now, limits)
        if validity.outcome is Outcome.SUCCESSFUL:
            return self._replace(validity=validity)
        return self._replace(validity=validity, body=None, validators=None, cut=None)

    def stored_for(self, now: float, limits: Settings) -> float:
        """Return the seconds for which a store is to have this entry."""
        validity = self.validity
        ends = [now + 1.0, validity.fresh_until]
        if validity.confirmed is not None:
            ends.append(validity.confirmed + limits.stale_max_age)
        if validity.unreachable_since is not None:  # else a restart would begin to count anew
            longest = limits.unreachable_max_age
            ends.append(now + (_REMEMBERED if longest is None else longest))
        return max(ends) - now


class Fetched(NamedTuple):
    """What came of one attempt to fetch a file.

    :param freshness: how long the last answer may be used, by its own headers.
    :param validators: of the file, if there is one and its server gave some.
    :param confirmed: whether the site confirmed the file that was known (304).
    """

    access: Access
    freshness: Freshness = Freshness()
    validators: Validators | None = None
    confirmed: bool = False


def following(
    old: CacheEntry | None,
    fetched: Fetched,
    now: float,
    limits: Settings,
    since: float | None = None,
) -> CacheEntry:
    """Return the entry that follows from an attempt.

    :param old: the entry before it; if the attempt was unreachable, its file is obeyed for longer.
    :param since: when the first of several unreachable attempts was, if `old` does not have that
        yet.
    """
    validity = None if old is None else old.validity
    if since is not None and (validity is None or validity.unreachable_since is None):
        confirmed = None if validity is None else validity.confirmed
        validity = Validity(Outcome.UNREACHABLE, now, confirmed, since)
    access = fetched.access
    lifetime = fetched.freshness.lifetime
    if lifetime is None and fetched.confirmed and old is not None:
        lifetime = old.lifetime  # what a 304 leaves out stays (RFC 9111, 3.2)
    left = None if lifetime is None else max(0.0, lifetime - fetched.freshness.age)
    new = caching.renew(validity, access.outcome, now, limits, left)
    made = partial(CacheEntry, new, access.status, access.cause, now)
    if isinstance(access, Successful):
        whole = fetched.confirmed or len(access.body) <= limits.max_size
        return made(fetched.validators, access.body, lifetime, None if whole else limits.max_size)
    if new.stale and old is not None:
        return made(old.validators, old.body, old.lifetime, old.cut)
    return made()


def following_for_route(
    old: CacheEntry | None, access: Unreachable | Local, now: float, limits: Settings
) -> CacheEntry:
    """Return what governs requests whose attempt says nothing about the site.

    That is an earlier file, or nothing is known. It does not become the entry of the origin, since
    it must not count in how long the file was unreachable.

    :param old: the entry of the origin.
    """
    # However old such a failure is, it must not open the origin.
    limits = limits._replace(unreachable_max_age=None)
    if old is not None:
        old = old._replace(validity=old.validity._replace(unreachable_since=None))
    entry = following(old, Fetched(Unreachable(access.status, access.cause)), now, limits)
    if isinstance(access, Unreachable):
        return entry
    outcome = Outcome.LOCAL if entry.body is None else entry.validity.outcome
    # It is stale at once, so that the next request tries again: that costs the site nothing.
    return entry._replace(validity=entry.validity._replace(outcome=outcome, fresh_until=now))


# In a store, an entry is a head, which is a line of JSON, and the file; both are compressed
# together.

#: The version of what is written.
VERSION = 1
#: What is larger is not made smaller by zlib. So `decode` need never make more octets than this, or
#: than it was given.
_LARGEST_PACKED = 16 * 1024 * 1024
_LARGEST_HEAD = 128 * 1024
#: Characters of what comes from a site: a longer URL is left out, a longer cause is cut off, and
#: `policy/caching.py` reads no longer validator.
_LONGEST_URL = 8192
_LONGEST_VALIDATOR = 1024
_LONGEST_CAUSE = 200
_HEADER = re.compile(rf"[\t\x20-\x7e\x80-\xff]{{0,{_LONGEST_VALIDATOR}}}")
#: A time that no clock shows: ten times the largest year that a date can have, in seconds.
_NEVER = 1e13


def encode(entry: CacheEntry) -> bytes:
    """Return an entry as octets, compressed by zlib."""
    head = json.dumps(head_of(entry), separators=(",", ":"), allow_nan=False)
    text = b"%s\n%s" % (head.encode("ascii"), entry.body or b"")
    return zlib.compress(text, 6 if len(text) <= _LARGEST_PACKED else 0)


def decode(value: object) -> CacheEntry:
    """Return the entry of `encode`.

    :raises ValueError: this is none, damaged, or of an unknown version. The text has nothing of the
        value.
    """
    unpacking = zlib.decompressobj()
    head = None
    try:  # a database, or a user's own store, may give anything
        text = unpacking.decompress(value, max(_LARGEST_PACKED, len(value)))  # type: ignore[arg-type]  # as above
        end = text.find(b"\n", 0, _LARGEST_HEAD)
        if unpacking.eof and not unpacking.unused_data:
            head = json.loads(text[: max(end, 0)])
    except (zlib.error, TypeError, ValueError, RecursionError):
        pass
    if not isinstance(head, dict):
        raise ValueError("not a copy of a robots.txt")
    return _checked(head, text[end + 1 :])


def head_of(entry: CacheEntry) -> dict[str, Any]:
    """Return all of an entry but its file, as values of JSON; what is not known is left out.

    Validators are left out, too, if their URL is longer than real ones, or must not be shown.
    """
    validity = entry.validity
    head: dict[str, Any] = {
        "version": VERSION,
        "outcome": validity.outcome.value,
        "status": entry.status,
        "cause": printable(entry.cause)[:_LONGEST_CAUSE],
        "fetched": entry.fetched,
        "fresh_until": validity.fresh_until,
        "confirmed": validity.confirmed,
        "unreachable_since": validity.unreachable_since,
        "lifetime": entry.lifetime,
        "cut": entry.cut,
    }
    if entry.validators is not None:
        with contextlib.suppress(ValueError):
            head["url"] = _url(entry.validators.url)
            for key in ("etag", "last_modified"):
                value = getattr(entry.validators, key)
                # Latin-1 has a character for each octet, and an octet for each of these characters.
                head[key] = None if value is None else value.decode("latin-1")
    return {key: value for key, value in head.items() if value is not None}


def _checked(head: dict[str, Any], file: bytes) -> CacheEntry:
    """Return the entry of a head that a store gave, and of the file behind it.

    :raises ValueError: a value has a wrong type, or is not possible; the text names it.
    """
    version = head.get("version")
    if type(version) is not int or version != VERSION:
        raise ValueError(f"it is not of version {VERSION}")
    read: dict[str, Any] = {}
    for key, reader in _READERS.items():
        value = head.get(key)
        try:
            read[key] = None if value is None and key not in _NEEDED else reader(value)
        except (ValueError, TypeError):
            raise ValueError(f"damaged: {key} is not what it should be") from None
    outcome = read.pop("outcome")
    successful = outcome is Outcome.SUCCESSFUL
    if file and not successful:
        raise ValueError("damaged: it has a file, although such a result has none")
    url = read.pop("url")
    sent = (read.pop("etag"), read.pop("last_modified"))
    return CacheEntry(
        Validity(outcome, *(read.pop(key) for key in _OF_VALIDITY)),
        validators=None if url is None else Validators(url, *sent),
        body=file if successful else None,  # an empty one is a file, too
        **read,
    )


def _outcome(value: object) -> Outcome:
    outcome = Outcome(value)
    # The crawl itself failed: that says nothing about the site, so no crawl stores it.
    if outcome is Outcome.LOCAL:
        raise ValueError
    return outcome


def _number(value: float) -> float:
    if type(value) not in (int, float) or not abs(value) < _NEVER:  # it may be NaN
        raise ValueError
    return value


def _line(value: object, longest: int = _LONGEST_CAUSE) -> str:
    """Return a text for a log: it must not look like another line of it, or act on a terminal."""
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        raise ValueError
    return value


def _url(value: object) -> str:
    """Return a URL that may be shown: no password is in it."""
    url = _line(value, _LONGEST_URL)
    if without_userinfo(url) != url:
        raise ValueError
    return url


def _header(value: str) -> bytes:
    """Return a text that can be sent as the value of a header: it must not begin another header."""
    if not _HEADER.fullmatch(value):
        raise ValueError
    return value.encode("latin-1")


#: The names in a head, beside the version, and what reads their values. Other names are ignored.
_READERS: dict[str, Callable[[Any], object]] = {
    "outcome": _outcome,
    "status": _number,
    "cause": _line,
    "fetched": _number,
    "fresh_until": _number,
    "confirmed": _number,
    "unreachable_since": _number,
    "lifetime": _number,
    "cut": _number,
    "url": _url,
    "etag": _header,
    "last_modified": _header,
}
_OF_VALIDITY = ("fresh_until", "confirmed", "unreachable_since")
_NEEDED = {"outcome", "cause", "fetched", "fresh_until"}
