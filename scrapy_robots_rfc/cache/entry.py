"""The cached state of an origin's robots.txt, and its serialization for stores."""

import json
import math
import re
import zlib
from typing import Any, NamedTuple, Self

from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.access import (
    PROXY_REFUSES,
    Access,
    Freshness,
    Outcome,
    Successful,
    Unreachable,
    Validity,
    limit_validity,
    validity_after,
)
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.settings import Settings

#: Seconds to keep an entry for an unreachable file if ROBOTS_UNREACHABLE_MAX_AGE is None. This is
#: the 30 days that RFC 9309, 2.3.1.4 gives as an example.
_UNREACHABLE_KEPT = 30 * 86_400.0


class Validators(NamedTuple):
    """Response headers to use for a conditional request (RFC 9110, 13.1).

    :param url: the URL of the file after redirects. Only requests for this URL are conditional.
    :param etag: the ETag header, or `None` if the server did not send one.
    :param last_modified: the Last-Modified header, or `None` if the server did not send one.
    """

    url: str
    etag: bytes | None = None
    last_modified: bytes | None = None


class CacheEntry(NamedTuple):
    """The cached state of an origin.

    In memory, times are on the crawl's own clock. In stores, they are Unix timestamps. `shifted`
    converts between them.

    :param validity: the outcome that applies, and when it expires. It is successful as long as a
        stale file is used.
    :param status: the HTTP status of the last fetch, or `None` if there was no response.
    :param cause: a short description of the last fetch's result.
    :param fetched: the time when the last fetch ended.
    :param validators: the file's validators.
    :param body: the decoded file, or `None` if there is none.
    :param lifetime: the freshness lifetime in seconds (RFC 9111, 4.2.1), or `None` if the server
        did not specify it.
    :param cut: the size limit at which the file was truncated, or `None` if it is complete.
    :param other_host: True if a redirect led to another host. See ROBOTS_REDIRECTS.
    """

    validity: Validity
    status: int | None
    cause: str
    fetched: float
    validators: Validators | None = None
    body: bytes | None = None
    lifetime: float | None = None
    cut: int | None = None
    other_host: bool = False

    @property
    def for_all_routes(self) -> bool:
        """True if nothing is disallowed by a failure, or if the site has answered with an error.

        Otherwise, another route may work, which is a proxy or an FTP account. A 407 is the proxy's
        answer. A stale file is used for all routes.
        """
        is_failure = self.validity.outcome in (Outcome.UNREACHABLE, Outcome.LOCAL)
        return not is_failure or self.status not in (None, PROXY_REFUSES)

    def validators_for(self, url: str) -> Validators | None:
        """Return the validators to send with a request, or `None` if they are for another URL."""
        validators = self.validators
        if self.body is None or validators is None or validators.url != url:
            return None
        return validators if validators.etag or validators.last_modified else None

    def shifted(self, seconds: float, latest: float = math.inf) -> Self:
        """Convert the entry's times to another clock.

        :param seconds: the seconds to add to each time.
        :param latest: an upper limit for times that should be in the past, on the other clock.
        """

        def shift(time: float | None) -> float | None:
            return None if time is None else min(time + seconds, latest)

        validity = self.validity._replace(
            fresh_until=self.validity.fresh_until + seconds,  # may be in the future
            confirmed=shift(self.validity.confirmed),
            unreachable_since=shift(self.validity.unreachable_since),
        )
        return self._replace(validity=validity, fetched=min(self.fetched + seconds, latest))

    def expiring_by(self, time: float) -> Self:
        """Return a copy of the entry that expires no later than the given time."""
        until = min(self.validity.fresh_until, time)
        return self._replace(validity=self.validity._replace(fresh_until=until))

    def with_settings(self, now: float, settings: Settings) -> Self:
        """Apply this crawl's settings to an entry that another crawl may have stored."""
        # If the copy was cut at a lower limit, this crawl needs more of the file.
        if self.cut is not None and self.cut < settings.max_size:
            return self.expiring_by(now)
        # ROBOTS_UNREACHABLE_STATUSES decides what a 4xx status means. If the other crawl has a
        # different value, fetch the file again. (A 407 is always unreachable, but never stored.)
        if self.status is not None and 400 <= self.status <= 499:
            was_unreachable = self.validity.unreachable_since is not None
            if (self.status in settings.unreachable_statuses) is not was_unreachable:
                return self.expiring_by(now)
        validity = limit_validity(self.validity, self.fetched, now, settings)
        if validity.outcome is Outcome.SUCCESSFUL:
            return self._replace(validity=validity)
        # The entry may still contain a stale file. Drop it, because it is too old for this crawl
        # (ROBOTS_STALE_MAX_AGE).
        return self._replace(validity=validity, body=None, validators=None, cut=None)

    def stored_for(self, now: float, settings: Settings) -> float:
        """Return the number of seconds for which a store should keep the entry."""
        validity = self.validity
        seconds = [1.0, validity.fresh_until - now]  # a store only accepts times above 0
        if validity.confirmed is not None:  # if the file becomes unreachable, use the stale copy
            seconds.append(validity.confirmed + settings.stale_max_age - now)
        if validity.unreachable_since is not None:
            # From now, so that the entry outlasts the limit. If it were gone, the next fetch would
            # begin a new outage.
            seconds.append(settings.unreachable_max_age or _UNREACHABLE_KEPT)
        return max(seconds)


class Fetched(NamedTuple):
    """The result of a single attempt to fetch a file.

    :param access: the outcome of the attempt.
    :param freshness: the response's freshness, according to its headers.
    :param validators: the file's validators, which a 304 may leave unchanged. `None` if there are
        none, or if the file was truncated.
    :param is_confirmed: True if the cached file is still valid (304).
    :param other_host: True if a redirect led to another host.
    """

    access: Access
    freshness: Freshness = Freshness()
    validators: Validators | None = None
    is_confirmed: bool = False
    other_host: bool = False


def next_entry(
    old: CacheEntry | None,
    fetched: Fetched,
    now: float,
    settings: Settings,
    since: float | None = None,
) -> CacheEntry:
    """Return the new entry after an attempt to fetch a file.

    :param old: the previous entry. Its file is kept if the new one is unreachable.
    :param since: the time when an earlier attempt of the same fetch found the file unreachable, or
        `None` if there was no such attempt.
    """
    validity = None if old is None else old.validity
    is_known_outage = validity is not None and validity.unreachable_since is not None
    if since is not None and not is_known_outage:
        # The outage began with that attempt, which did not create an entry. `validity_after` only
        # uses this time if the current attempt has failed as well.
        validity = validity or Validity(Outcome.UNREACHABLE, now)  # for a new origin
        validity = validity._replace(unreachable_since=since)
    access = fetched.access
    lifetime = fetched.freshness.lifetime
    if lifetime is None and fetched.is_confirmed and old is not None:
        lifetime = old.lifetime  # a 304 without a lifetime leaves it unchanged (RFC 9111, 3.2)
    # Other caches may have kept the response for a while before we got it.
    fresh_for = None if lifetime is None else max(0.0, lifetime - fetched.freshness.age)
    new = validity_after(validity, access.outcome, now, settings, fresh_for)
    entry = CacheEntry(new, access.status, access.cause, now, other_host=fetched.other_host)
    if isinstance(access, Successful):
        # If the body exceeds the limit, reading stopped there. But a copy confirmed by a 304 is
        # complete, because truncated copies have no validators.
        is_cut = not fetched.is_confirmed and len(access.body) > settings.max_size
        cut = settings.max_size if is_cut else None
        return entry._replace(
            validators=fetched.validators, body=access.body, lifetime=lifetime, cut=cut
        )
    if new.stale and old is not None:  # keep using the previous file
        return old._replace(validity=new, status=access.status, cause=access.cause, fetched=now)
    return entry  # without a file


def temporary_entry(
    old: CacheEntry | None, access: Access, now: float, settings: Settings
) -> CacheEntry:
    """Return a temporary entry after an attempt that failed because of a proxy or the crawl itself.

    It contains the previous file, if there is one. It does not become the origin's entry, so it
    does not start the clock for ROBOTS_UNREACHABLE_MAX_AGE.

    :param old: the origin's entry.
    :param access: `Unreachable` if the proxy failed, or `Local` if the crawl itself failed.
    """
    # Never allow everything because of such a failure, however long it lasts.
    settings = settings._replace(unreachable_max_age=None)
    entry = next_entry(old, Fetched(Unreachable(access.status, access.cause)), now, settings)
    if isinstance(access, Unreachable):  # the proxy failed
        return entry
    # The crawl itself failed. Don't blame the site, and expire the entry immediately, because
    # another attempt does not put any load on the site.
    outcome = Outcome.LOCAL if entry.body is None else entry.validity.outcome
    return entry._replace(validity=entry.validity._replace(outcome=outcome, fresh_until=now))


# A serialized entry is a line of JSON metadata followed by the file, compressed together.

#: The format version.
VERSION = 1
#: Larger entries are not compressed. This limits the amount of data that `decode` decompresses,
#: which blocks the event loop for up to 8 ms.
_MAX_COMPRESSED = 4 * 1024 * 1024
_MAX_METADATA = 128 * 1024
#: Maximum lengths for text from a site. A longer URL is omitted, and a longer cause is truncated.
_MAX_URL = 8192
_MAX_CAUSE = 200
# An ETag or Last-Modified header: `"33a64df5"`.
_HEADER = re.compile(rb"[\t\x20-\x7e\x80-\xff]{0,1024}")
#: A limit for timestamps, far beyond the year 9999.
_MAX_TIME = 1e13
#: The metadata fields, in order. Most fields are optional.
_FIELDS = (
    "version", "outcome", "status", "cause", "fetched", "fresh_until", "confirmed",
    "unreachable_since", "lifetime", "cut", "other_host", "url", "etag", "last_modified",
)  # fmt: skip
_NOT_NUMBERS = {"outcome", "cause", "other_host", "url", "etag", "last_modified"}


def encode(entry: CacheEntry) -> bytes:
    """Serialize an entry, using zlib compression."""
    metadata = json.dumps(metadata_of(entry), separators=(",", ":"), allow_nan=False)
    text = b"%s\n%s" % (metadata.encode("ascii"), entry.body or b"")
    level = 6 if len(text) <= _MAX_COMPRESSED else 0  # level 0 only adds the header and checksum
    return zlib.compress(text, level)


def decode(value: Any) -> CacheEntry:  # noqa: ANN401 - a store may return anything
    """Deserialize an entry.

    :raises ValueError: if the value is damaged or has a different version. The error message does
        not contain any part of the value.
    """
    decompressor = zlib.decompressobj()
    try:
        # A larger entry was stored with level 0, so its text is not longer than the value.
        max_decompressed = max(_MAX_COMPRESSED, len(value))
        text = decompressor.decompress(value, max_decompressed)
        is_whole = decompressor.eof and not decompressor.unused_data
        if not is_whole:
            raise ValueError
        end = text.index(b"\n", 0, _MAX_METADATA)
        return _entry_from(json.loads(text[:end]), text[end + 1 :])
    except Exception:  # noqa: BLE001 - hostile metadata may raise anything
        raise ValueError(f"damaged, or not version {VERSION}") from None


def metadata_of(entry: CacheEntry) -> dict[str, Any]:
    """Return everything except the file as JSON values, omitting fields that are `None`.

    `other_host` is also omitted if it is False, and validators if `_is_storable` rejects their URL.
    """
    values = {"version": VERSION, **entry._asdict(), **entry.validity._asdict()}
    values["outcome"] = entry.validity.outcome.value
    values["other_host"] = entry.other_host or None
    values["cause"] = printable(entry.cause)[:_MAX_CAUSE]
    if entry.validators is not None and _is_storable(entry.validators.url):
        # JSON does not support bytes, but any bytes can be converted to Latin-1 text and back.
        values |= {
            key: value.decode("latin-1") if isinstance(value, bytes) else value
            for key, value in entry.validators._asdict().items()
        }
    return {key: values[key] for key in _FIELDS if values.get(key) is not None}


def _entry_from(fields: dict[str, Any], file: bytes) -> CacheEntry:
    """Validate metadata and a file from a store, and create an entry from them.

    :raises Exception: if a value is missing or invalid.
    """
    # Ignore unknown fields, and treat null like a missing field.
    fields = {key: fields[key] for key in _FIELDS if fields.get(key) is not None}
    numbers = [value for key, value in fields.items() if key not in _NOT_NUMBERS]
    outcome = Outcome(fields["outcome"])
    successful = outcome is Outcome.SUCCESSFUL
    cause = fields["cause"]
    url = fields.get("url")
    headers = [
        fields[key].encode("latin-1") if key in fields else None
        for key in ("etag", "last_modified")
    ]
    checks = (
        all(type(number) in (int, float) and abs(number) < _MAX_TIME for number in numbers),
        fields["version"] == VERSION,
        # Crawls never store their own failures.
        outcome is not Outcome.LOCAL,
        # Otherwise, there is no file. A stale one is still successful.
        successful or not file,
        # The cause is logged, so it must not contain newlines or control characters.
        cause.isprintable() and len(cause) <= _MAX_CAUSE,
        url is None or _is_storable(url),
        # Both headers are sent to the site, so they must not contain newlines either.
        all(value is None or _HEADER.fullmatch(value) for value in headers),
    )
    if not all(checks):
        raise ValueError("invalid metadata")
    return CacheEntry(
        Validity(
            outcome, fields["fresh_until"], fields.get("confirmed"), fields.get("unreachable_since")
        ),
        fields.get("status"),
        cause,
        fetched=fields["fetched"],
        validators=None if url is None else Validators(url, *headers),
        body=file if successful else None,  # it may be empty
        lifetime=fields.get("lifetime"),
        cut=fields.get("cut"),
        other_host=bool(fields.get("other_host")),
    )


def _is_storable(url: str) -> bool:
    """Return whether a URL is short and contains neither a password nor control characters."""
    return len(url) <= _MAX_URL and url.isprintable() and without_userinfo(url) == url
