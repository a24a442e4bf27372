"""CacheEntry: all that is known of an origin's robots.txt, and how it is written down for stores.

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

    def moved(self, seconds: float, latest: float = math.inf) -> Self:
        """Return the same entry on another clock, which shows so many seconds more.

        :param latest: on the other clock, no time of the past is later than this one.
        """
        outcome, fresh_until, *past = self.validity
        moved = (None if time is None else min(time + seconds, latest) for time in past)
        validity = Validity(outcome, fresh_until + seconds, *moved)
        return self._replace(validity=validity, fetched=min(self.fetched + seconds, latest))

    def expiring(self, time: float) -> Self:
        """Return the same entry, fresh until this time at the latest."""
        until = min(self.validity.fresh_until, time)
        return self._replace(validity=self.validity._replace(fresh_until=until))

    def reviewed(self, now: float, limits: Settings) -> Self:
        """Return what an entry of a store is worth here: another crawl may have other settings."""
        if self.cut is not None and self.cut < limits.max_size:  # this crawl reads more of it
            return self.expiring(now)
        if self.status is not None and 400 <= self.status <= 499:
            # Whether the status means that the file is unreachable: to this crawl, to the other.
            here = self.status in limits.unreachable_statuses or self.status == PROXY_REFUSES
            there = self.validity.unreachable_since is not None
            if here is not there:
                return self.expiring(now)
        validity = review(self.validity, self.fetched, now, limits)
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
            ends.append(now + (limits.unreachable_max_age or _REMEMBERED))
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
    # Of several attempts before the first entry, the outage began with the first one.
    if since is not None and (validity is None or validity.unreachable_since is None):
        validity = validity or Validity(Outcome.UNREACHABLE, now)
        validity = validity._replace(unreachable_since=since)
    access = fetched.access
    lifetime = fetched.freshness.lifetime
    if lifetime is None and fetched.confirmed and old is not None:
        lifetime = old.lifetime  # what a 304 leaves out stays (RFC 9111, 3.2)
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
#: than it was given: the event loop waits for it, some 8 ms for the worst value.
_LARGEST_PACKED = 4 * 1024 * 1024
_LARGEST_HEAD = 128 * 1024
#: Characters of what comes from a site: a longer URL is left out, a longer cause is cut off, and
#: `policy/access.py` reads no longer validator.
_LONGEST_URL = 8192
_LONGEST_CAUSE = 200
_HEADER = re.compile(rb"[\t\x20-\x7e\x80-\xff]{0,1024}")
#: A time that no clock shows, in seconds: far beyond the year 9999, the last one of a date.
_NEVER = 1e13
#: The fields of a head in their order. All are numbers, but for `_TEXTS`; most may be left out.
_FIELDS = (
    "version", "outcome", "status", "cause", "fetched", "fresh_until", "confirmed",
    "unreachable_since", "lifetime", "cut", "url", "etag", "last_modified",
)  # fmt: skip
_TEXTS = {"outcome", "cause", "url", "etag", "last_modified"}


def encode(entry: CacheEntry) -> bytes:
    """Return an entry as octets, compressed by zlib."""
    head = json.dumps(head_of(entry), separators=(",", ":"), allow_nan=False)
    text = b"%s\n%s" % (head.encode("ascii"), entry.body or b"")
    return zlib.compress(text, 6 if len(text) <= _LARGEST_PACKED else 0)


def decode(value: object) -> CacheEntry:
    """Return the entry of `encode`.

    :raises ValueError: this is none, damaged, or of another version. The text has nothing of the
        value.
    """
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(value, max(_LARGEST_PACKED, len(value)))  # type: ignore[arg-type]  # see below
        if not unpacking.eof or unpacking.unused_data:
            raise ValueError("it is cut off, or has something behind it")
        end = text.index(b"\n", 0, _LARGEST_HEAD)
        return _entry_of(json.loads(text[:end]), text[end + 1 :])
    except Exception:  # noqa: BLE001 - a database, or a user's own store, may give anything
        raise ValueError(f"damaged, or not of version {VERSION}") from None


def head_of(entry: CacheEntry) -> dict[str, Any]:
    """Return all of an entry but its file, as values of JSON; what is not known is left out.

    Validators are left out, too, if their URL is too long, or must not be shown.
    """
    values = {"version": VERSION, **entry._asdict(), **entry.validity._asdict()}
    values["outcome"] = entry.validity.outcome.value
    values["cause"] = printable(entry.cause)[:_LONGEST_CAUSE]
    if entry.validators is not None and _may_be_shown(entry.validators.url):
        # JSON has no octets. Latin-1 has one character for each, so `decode` gets them back.
        values |= {
            key: value.decode("latin-1") if isinstance(value, bytes) else value
            for key, value in entry.validators._asdict().items()
        }
    return {key: values[key] for key in _FIELDS if values.get(key) is not None}


def _entry_of(head: dict[str, Any], file: bytes) -> CacheEntry:
    """Return the entry of a head that a store gave, and of the file behind it.

    :raises Exception: a value is missing, of another type, or not possible.
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
        # The crawl itself failed: that says nothing about the site, so no crawl stores it.
        outcome is not Outcome.LOCAL,
        successful or not file,
        # It is shown to people: it must not look like another line, or act on a terminal.
        cause.isprintable() and len(cause) <= _LONGEST_CAUSE,
        url is None or _may_be_shown(url),
        # They are sent: they must not begin another header.
        all(octets is None or _HEADER.fullmatch(octets) for octets in sent),
    )
    if not all(possible):
        raise ValueError("a value is not possible")
    return CacheEntry(
        Validity(
            outcome, head["fresh_until"], head.get("confirmed"), head.get("unreachable_since")
        ),
        head.get("status"),
        cause,
        head["fetched"],
        None if url is None else Validators(url, *sent),
        file if successful else None,  # an empty one is a file, too
        head.get("lifetime"),
        head.get("cut"),
    )


def _may_be_shown(url: str) -> bool:
    """Whether a URL has no password, and nothing that a terminal would act on."""
    plain = url.isprintable() and without_userinfo(url) == url
    return plain and len(url) <= _LONGEST_URL
