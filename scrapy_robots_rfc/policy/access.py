"""Interpret a robots.txt response and decide how long to use it (RFC 9309, 2.3.1 and 2.4).

Times are seconds on a monotonic clock, unless noted otherwise. `fetching/` makes the requests.
"""

import enum
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Protocol, TypeAlias
from urllib.parse import urlsplit

from scrapy_robots_rfc.core.text import shorten
from scrapy_robots_rfc.policy.origins import SCHEMES, Origin, Scheme, join_url

#: Maximum delay from a Retry-After header, in seconds.
MAX_RETRY_AFTER = 300.0

#: A function that takes the name of a header and returns all of its lines.
HeaderLines: TypeAlias = Callable[[bytes], Sequence[bytes]]

#: Maximum number of redirects (2.3.1.2: "at least five consecutive redirects").
MAX_REDIRECTS = 5

#: The cause if a redirect is not followed because it leads to another host.
OTHER_HOST = "redirect to another host, refused by ROBOTS_REDIRECTS"
#: The text between the cause of a failure and the URL that failed, if a redirect led there.
REDIRECTED = ", after a redirect to "


class Outcome(enum.Enum):
    """The access results from RFC 9309, 2.3.1, plus `LOCAL`. The values appear in stat keys."""

    #: The rules apply (2.3.1.1).
    SUCCESSFUL = "successful"
    #: Everything is allowed (2.3.1.3).
    UNAVAILABLE = "unavailable"
    #: Nothing is allowed (2.3.1.4).
    UNREACHABLE = "unreachable"
    #: The crawl itself failed, so nothing is allowed. This result is never cached.
    LOCAL = "local"

    def explained(self, cause: str, *, stale: bool = False) -> str:
        """Return a human-readable description of the result and its effect."""
        return _EXPLAINED[None if stale else self].format(cause=cause)


# The key `None` is for a stale file.
_EXPLAINED = {
    None: "stale ({cause}), so an earlier copy is used",
    Outcome.SUCCESSFUL: "successful ({cause}), so its rules apply",
    Outcome.UNAVAILABLE: "unavailable ({cause}), so everything is allowed",
    Outcome.UNREACHABLE: "unreachable ({cause}), so nothing is allowed",
    Outcome.LOCAL: "unknown because the crawl itself failed ({cause}), so nothing is allowed",
}


# In the following classes, the field `outcome` is a constant, and so is `spares_site`, except in
# `Unreachable`. `spares_site` is true if a failure isn't held against the site, because a proxy, an
# account or the crawl itself has failed.


class Successful(NamedTuple):
    """The file was fetched (2.3.1.1)."""

    status: int
    body: bytes
    spares_site: bool = False
    outcome: Outcome = Outcome.SUCCESSFUL

    @property
    def cause(self) -> str:
        """The status as a string."""
        return str(self.status)


class Unavailable(NamedTuple):
    """The site does not have a file (2.3.1.3).

    :param status: the status of the response, or `None` if there was no response.
    :param cause: a short description of the cause.
    """

    status: int | None
    cause: str
    spares_site: bool = False
    outcome: Outcome = Outcome.UNAVAILABLE


class Unreachable(NamedTuple):
    """The file could not be fetched, so we do not know if the site has one (2.3.1.4).

    :param status: the status of the response, or `None` if there was no response.
    :param cause: a short description of the cause.
    :param retry_after: the Retry-After delay in seconds, or `None` if the server did not send one.
    :param hopeless: True if retrying right away is pointless, for example because the host does not
        exist.
    :param spares_site: True if the proxy or account failed.
    :param refused: True if ROBOTS_REDIRECTS refused a redirect, which other crawls may follow.
    """

    status: int | None
    cause: str
    retry_after: float | None = None
    hopeless: bool = False
    spares_site: bool = False
    refused: bool = False
    outcome: Outcome = Outcome.UNREACHABLE


class Local(NamedTuple):
    """The crawl itself failed rather than the site, for example because of a middleware.

    :param cause: a description of the failure.
    :param advice: what the user can do about it.
    :param error: the exception, if its traceback is useful.
    :param shortage: True if the machine ran out of file descriptors, ports, memory or connections,
        so that a later attempt may succeed.
    """

    cause: str
    advice: str
    error: Exception | None = None
    shortage: bool = False
    status: None = None
    spares_site: bool = True
    outcome: Outcome = Outcome.LOCAL


Access = Successful | Unavailable | Unreachable | Local

#: The status that proxies send if they require credentials. Sites never send it (RFC 9110, 15.5.8).
PROXY_REFUSES = 407

#: Statuses for which we follow the Location header (2.3.1.2).
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

_HTTP = SCHEMES["http"]
_WEB = {"http": _HTTP, "https": SCHEMES["https"]}


def _no_cookie(_url: str) -> bytes:
    """Send no cookie. This is the default of `FetchStep.cookie_for`."""
    return b""


class FetchStep(NamedTuple):
    """The next request in a fetch, which may involve redirects.

    :param url: the URL to request, without userinfo.
    :param seen: the URL and Cookie header of each previous request.
    :param scheme: the scheme of the first URL, which determines what a status means.
    :param cookie: the Cookie header to send, or an empty string.
    :param cookie_for: a function that returns the Cookie header for a URL, or an empty string.
    :param same_host_only: True to refuse redirects to other hosts (ROBOTS_REDIRECTS).
    """

    url: str
    seen: tuple[tuple[str, bytes], ...] = ()
    scheme: Scheme = _HTTP
    cookie: bytes = b""
    cookie_for: Callable[[str], bytes] = _no_cookie
    same_host_only: bool = False

    @property
    def has_left_host(self) -> bool:
        """True if a redirect led to another host."""
        first, *targets = [*(url for url, _ in self.seen), self.url]
        return not all(is_same_host(first, target) for target in targets)

    def with_target(self, cause: str) -> str:
        """Add the URL to the cause of a failure if a redirect led there.

        The query is left out, because it may contain secrets.
        """
        return f"{cause}{REDIRECTED}{shorten(self.url.partition('?')[0])}" if self.seen else cause

    def after_response(
        self,
        status: int,
        location: bytes | None,
        body: bytes,
        *,
        unreachable_statuses: Collection[int],
        cached: bytes | None = None,
    ) -> "FetchStep | Access":
        """Return the next request, or the result of the fetch.

        :param status: the status from the download handler.
        :param location: the Location header, if any.
        :param body: the decoded body.
        :param unreachable_statuses: the 4xx statuses in ROBOTS_UNREACHABLE_STATUSES, and 304 if
            there is a cached file, so that an unexpected 304 does not replace it.
        :param cached: the body of the cached file, if the request was conditional (RFC 9110, 13.1).
            Otherwise, a 304 is unexpected.
        """
        http_status = self.scheme.http_status(status)
        if http_status == 304 and cached is not None:
            return Successful(status, cached)  # the cached file is still valid (RFC 9111, 4.3.3)
        if http_status == PROXY_REFUSES:
            cause = "407 Proxy Authentication Required"
            return Unreachable(status, cause, hopeless=True, spares_site=True)  # the proxy failed
        if http_status in unreachable_statuses:
            return Unreachable(status, str(status))
        if http_status in _REDIRECTS:
            return self._follow(status, location)
        if 200 <= http_status <= 299:
            return Successful(status, body)
        if 300 <= http_status <= 499:  # a 3xx that leads nowhere is a failed redirect (2.3.1.2)
            return Unavailable(status, str(status))
        # Treat undefined statuses like 5xx, so that nothing is allowed when in doubt.
        return Unreachable(status, str(status))

    def _follow(self, status: int, location: bytes | None) -> "FetchStep | Access":
        """Return the request to the target of a redirect, unless it is invalid or refused."""
        target = target_of(self.url, location, self.scheme)
        if target is None:
            return Unavailable(status, f"{status} without a usable Location")
        seen = (*self.seen, (self.url, self.cookie))
        if self.same_host_only and not is_same_host(seen[0][0], target):  # compared with the first
            return Unreachable(status, OTHER_HOST, hopeless=True, refused=True)
        cookie = self.cookie_for(target)
        # The same URL may lead somewhere else with a new cookie.
        if (target, cookie) in seen:
            return Unavailable(status, "redirect loop")
        if len(seen) > MAX_REDIRECTS:
            return Unavailable(status, f"more than {MAX_REDIRECTS} redirects")
        return self._replace(url=target, seen=seen, cookie=cookie)


def is_same_host(url: str, other: str) -> bool:
    """Return whether two URLs have the same host name, ignoring a leading ``www.``.

    Their schemes and ports may differ.
    """
    host, other_host = (urlsplit(one).hostname or "" for one in (url, other))
    return host.removeprefix("www.") == other_host.removeprefix("www.")


def target_of(url: str, location: bytes | None, scheme: Scheme = _HTTP) -> str | None:
    """Return the URL from a Location header, or `None` if it is unusable.

    The userinfo and fragment are removed. A redirect cannot change the scheme, except between http
    and https.

    :param url: the requested URL.
    :param location: the Location header, if any.
    :param scheme: the definition of the requested URL's scheme, to use if it is not in `SCHEMES`.
    """
    if not location:
        return None
    name = url.partition(":")[0]
    accepted = _WEB if name in _WEB else {name: SCHEMES.get(name, scheme)}
    try:
        text = location.decode("utf-8")
    except UnicodeDecodeError:
        text = location.decode("latin-1")
    try:
        target = join_url(url, text.strip())
        parts = urlsplit(target)
    except ValueError:
        return None
    origin = Origin.of_parts(parts, accepted)
    if origin is None:
        return None
    query = f"?{parts.query}" if parts.query else ""
    return f"{origin}{parts.path or '/'}{query}"


# How long a result is valid.


class Validity(NamedTuple):
    """The result that currently applies to an origin, and for how long.

    :param outcome: the result that decisions are based on.
    :param fresh_until: the time when the result expires.
    :param confirmed: the time when the current file was last fetched or confirmed, or `None` if
        there is no file.
    :param unreachable_since: the time when the file was first found to be unreachable, or `None` if
        it was reachable at the last fetch.
    """

    outcome: Outcome
    fresh_until: float
    confirmed: float | None = None
    unreachable_since: float | None = None

    @property
    def stale(self) -> bool:
        """True if an expired file is still in use because a newer one is unreachable."""
        return self.outcome is Outcome.SUCCESSFUL and self.unreachable_since is not None


class Lifetimes(Protocol):
    """How long results apply, in seconds. `Settings` has these values."""

    @property
    def cache_max_age(self) -> float:
        """The longest and default lifetime of a result (ROBOTS_CACHE_MAX_AGE)."""

    @property
    def cache_min_age(self) -> float:
        """The shortest lifetime that response headers may set (ROBOTS_CACHE_MIN_AGE)."""

    @property
    def stale_max_age(self) -> float:
        """How long a file may be used if its refresh fails (ROBOTS_STALE_MAX_AGE)."""

    @property
    def unreachable_ttl(self) -> float:
        """The pause before a failed file is fetched again (ROBOTS_UNREACHABLE_TTL)."""

    @property
    def unreachable_max_age(self) -> float | None:
        """When an outage begins to allow everything, or never (ROBOTS_UNREACHABLE_MAX_AGE)."""

    @property
    def unreachable_backoff(self) -> tuple[float, ...]:
        """The pauses between the attempts of a fetch (ROBOTS_UNREACHABLE_BACKOFF)."""


def validity_after(
    old: Validity | None,
    outcome: Outcome,
    now: float,
    settings: Lifetimes,
    fresh_for: float | None = None,
) -> Validity:
    """Return the validity after a fetch.

    :param old: the validity before the fetch, which may have expired, or `None` for a new origin.
    :param outcome: the outcome of the fetch, except for `LOCAL` (see `temporary_entry`).
    :param fresh_for: the freshness lifetime from the response headers in seconds, or `None` if they
        do not specify one.
    """
    if outcome is not Outcome.UNREACHABLE:
        age = settings.cache_max_age
        if fresh_for is not None:
            age = min(max(fresh_for, settings.cache_min_age), age)
        confirmed = now if outcome is Outcome.SUCCESSFUL else None
        return Validity(outcome, now + age, confirmed)
    next_fetch = now + settings.unreachable_ttl
    confirmed = None if old is None else old.confirmed
    since = None if old is None else old.unreachable_since
    if since is None:
        since = now  # this is the first fetch that failed
    # If there is an earlier file, it applies until it is too old (2.3.1.4).
    if confirmed is not None and now < confirmed + settings.stale_max_age:
        next_fetch = min(next_fetch, confirmed + settings.stale_max_age)
        return Validity(Outcome.SUCCESSFUL, next_fetch, confirmed, since)
    # Without a file, nothing is allowed at first. If the site stays unreachable for too long, it is
    # treated as unavailable, so everything is allowed (2.3.1.4). A file that is too old is not used
    # any more, so `confirmed` is left out.
    if settings.unreachable_max_age is not None and now >= since + settings.unreachable_max_age:
        return Validity(Outcome.UNAVAILABLE, next_fetch, unreachable_since=since)
    return Validity(Outcome.UNREACHABLE, next_fetch, unreachable_since=since)


def limit_validity(old: Validity, fetched: float, now: float, settings: Lifetimes) -> Validity:
    """Apply this crawl's settings to a stored validity, without extending it.

    :param fetched: the time when the fetch ended.
    """
    if old.unreachable_since is None:
        return old._replace(fresh_until=min(old.fresh_until, fetched + settings.cache_max_age))
    # The last fetch failed. What applies in that case depends on the settings and on the time, for
    # example on whether an earlier file is too old, so determine it again.
    validity = validity_after(old, Outcome.UNREACHABLE, now, settings)
    if validity.outcome is not old.outcome:
        return validity._replace(fresh_until=now)  # expired, so that the file is fetched again
    # Wait no longer than this crawl would have waited after that fetch: `unreachable_ttl`, or up to
    # `MAX_RETRY_AFTER` if the site sent a Retry-After header. It is unknown whether it sent one.
    next_fetch = min(old.fresh_until, fetched + max(settings.unreachable_ttl, MAX_RETRY_AFTER))
    if validity.confirmed is not None:
        next_fetch = min(next_fetch, validity.confirmed + settings.stale_max_age)
    return validity._replace(fresh_until=next_fetch)


def backoff_delays(
    attempts: int, retry_after: float | None, settings: Lifetimes
) -> tuple[float, ...]:
    """Return the delay in seconds before each remaining attempt.

    :param attempts: the number of attempts before the one that just failed. The same number of
        delays has been used.
    :param retry_after: the Retry-After delay in seconds. It only affects the first delay.
    """
    delays = settings.unreachable_backoff[attempts:]
    if not delays:
        return ()
    return (with_retry_after(delays[0], retry_after), *delays[1:])


def with_retry_after(seconds: float, retry_after: float | None) -> float:
    """Extend a delay to match Retry-After, up to a maximum of `MAX_RETRY_AFTER`."""
    return max(seconds, min(retry_after or 0.0, MAX_RETRY_AFTER))


# Maximum number of seconds in a header. Larger numbers are capped (RFC 9111, 1.2.2).
_MAX_SECONDS = 2.0**31
# Maximum number of bytes to read from a Cache-Control header.
_MAX_CACHE_CONTROL = 8192

# An element in a comma-separated list: `max-age=60`, `no-cache="a, b"`.
_ELEMENT = re.compile(rb'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+', re.DOTALL)
# A number of seconds: `60`.
_SECONDS = re.compile(rb"[0-9]+")
# An ETag or Last-Modified that is safe to send back: `"33a64df5"`. Real values are much shorter
# than the limit.
_VALIDATOR = re.compile(rb"[\t\x20-\x7e\x80-\xff]{1,1024}")


class Freshness(NamedTuple):
    """The freshness of a response according to its headers (RFC 9111).

    :param lifetime: the freshness lifetime in seconds (4.2.1), or `None` if it is not specified.
    :param age: how long the response has been in other caches, in seconds (5.1).
    :param may_store: False if the response must not be stored (5.2.2.5).
    """

    lifetime: float | None = None
    age: float = 0.0
    may_store: bool = True


# The following functions ignore malformed values. If a header or directive is repeated, they use
# the first one (RFC 9111, 4.2.1). The exception is Cache-Control, where all lines form a single
# list.


def freshness(lines: HeaderLines, now: float) -> Freshness:
    """Return the freshness of a response.

    :param now: the current time as a Unix timestamp, to use if there is no Date header.
    """
    directives = _directives(b",".join(lines(b"Cache-Control")))
    may_store = b"no-store" not in directives
    # An Age line may be a list, in which case the first element is used (RFC 9111, 5.1).
    age = parse_seconds(_first(lines, b"Age").partition(b",")[0]) or 0.0
    # A no-cache directive with a value only applies to some headers (RFC 9111, 5.2.2.4).
    if not may_store or directives.get(b"no-cache") == b"":
        return Freshness(0.0, age, may_store=may_store)
    # The store is a shared cache, because many spiders may use it, so s-maxage applies (5.2.2.10).
    for name in (b"s-maxage", b"max-age"):
        seconds = parse_seconds(directives.get(name))
        if seconds is not None:
            return Freshness(seconds, age)
    expires = _first(lines, b"Expires")
    # Many servers send 0 or -1 instead of a date in the past (RFC 9111, 5.3).
    expiry_date = 0.0 if expires.strip() in (b"0", b"-1") else parse_http_date(expires)
    if expiry_date is None:
        return Freshness(None, age)
    # Both dates are from the server's clock, so its error does not matter (RFC 9111, 4.2.1).
    date = parse_http_date(_first(lines, b"Date"))
    lifetime = expiry_date - (now if date is None else date)
    return Freshness(min(max(0.0, lifetime), _MAX_SECONDS), age)


def _first(lines: HeaderLines, name: bytes) -> bytes:
    """Return the first line of a header, or empty bytes if it is missing."""
    return next(iter(lines(name)), b"")


def etag(lines: HeaderLines) -> bytes | None:
    """Return the ETag to send in If-None-Match (RFC 9110, 13.1.2), ignoring ``*``."""
    value = _first(lines, b"ETag")
    return value if _VALIDATOR.fullmatch(value) and value.strip() != b"*" else None


def last_modified(lines: HeaderLines) -> bytes | None:
    """Return the Last-Modified date for If-Modified-Since (RFC 9110, 13.1.3)."""
    value = _first(lines, b"Last-Modified")
    return value if _VALIDATOR.fullmatch(value) and parse_http_date(value) is not None else None


def _directives(cache_control: bytes) -> dict[bytes, bytes]:
    """Return the value of each Cache-Control directive, by lowercase name.

    The value of a directive without one is empty.
    """
    directives: dict[bytes, bytes] = {}
    for element in _ELEMENT.findall(cache_control[:_MAX_CACHE_CONTROL]):
        name, _, value = element.partition(b"=")
        value = value.strip()
        if len(value) > 1 and value.startswith(b'"') and value.endswith(b'"'):
            value = value[1:-1]
        directives.setdefault(name.strip().lower(), value)
    return directives


def retry_after(value: bytes | None, now: float) -> float | None:
    """Return the delay from a Retry-After header, in seconds (RFC 9110, 10.2.3).

    :param value: the header, which is either a number of seconds or a date.
    :param now: the current time as a Unix timestamp.
    :returns: `None` if the header is missing or malformed.
    """
    seconds = parse_seconds(value)
    if seconds is not None:
        return seconds
    date = parse_http_date(value or b"")
    return None if date is None else max(0.0, date - now)


def parse_seconds(value: bytes | None) -> float | None:
    """Parse a number of seconds (RFC 9111, 1.2.2), or return `None` if it is malformed."""
    text = (value or b"").strip()
    return min(float(text), _MAX_SECONDS) if _SECONDS.fullmatch(text) else None


def parse_http_date(value: bytes) -> float | None:
    """Parse an HTTP date (RFC 9110, 5.6.7) into a Unix timestamp, or return `None`."""
    try:
        date = parsedate_to_datetime(value.decode("latin-1"))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    # A date with the zone `-0000` has no `tzinfo`, but is in UTC.
    return date.replace(tzinfo=date.tzinfo or UTC).timestamp()
