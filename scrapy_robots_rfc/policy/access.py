"""Interpret a robots.txt response and decide how long the result holds (RFC 9309, 2.3.1 and 2.4).

An `FetchStep` has the URL of the next request; its `answered` returns the next `FetchStep`, or the
`Access` that ends a fetch. `renew` and `review` return the `Validity` of a result within the user's
settings, `freshness` reads the site's own headers (RFC 9111), and `pauses` is the backoff.
`fetching/` makes the requests. Times are seconds on a monotonic clock, unless a parameter says
otherwise.
"""

import enum
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from scrapy_robots_rfc.policy.origins import SCHEMES, Origin, Scheme, join_url
from scrapy_robots_rfc.settings import Settings

#: Maximum seconds that count of the Retry-After header of an unreachable file.
MAX_RETRY_AFTER = 300.0

#: Returns the lines of a header by its name, in order.
Lines: TypeAlias = Callable[[bytes], Sequence[bytes]]

#: Maximum redirects (2.3.1.2: "at least five consecutive redirects").
MAX_REDIRECTS = 5


class Outcome(enum.Enum):
    """The three access results of RFC 9309, 2.3.1, and `LOCAL`. Stat keys contain the values."""

    #: 2.3.1.1: the rules are obeyed.
    SUCCESSFUL = "successful"
    #: 2.3.1.3: everything may be accessed.
    UNAVAILABLE = "unavailable"
    #: 2.3.1.4: complete disallow.
    UNREACHABLE = "unreachable"
    #: The crawl itself failed, so nothing is known about the site: complete disallow, never cached.
    LOCAL = "local"

    def explained(self, cause: str) -> str:
        """Return the result, its cause, and what it means for pages, in words for the user."""
        return _EXPLAINED[self].format(cause=cause)


_EXPLAINED = {
    Outcome.SUCCESSFUL: "successful ({cause}): its rules decide",
    Outcome.UNAVAILABLE: "unavailable ({cause}): everything is allowed",
    Outcome.UNREACHABLE: "unreachable ({cause}): nothing is allowed",
    Outcome.LOCAL: "local ({cause}): nothing is allowed, because the crawl itself failed",
}


# The field `outcome` of each class below always has its default.


class Successful(NamedTuple):
    """The file was fetched (2.3.1.1)."""

    status: int
    body: bytes
    outcome: Outcome = Outcome.SUCCESSFUL

    @property
    def cause(self) -> str:
        """The status, as text."""
        return str(self.status)


class Unavailable(NamedTuple):
    """There is no file (2.3.1.3).

    :param status: the status of the response, or `None` if it does not follow from one response.
    :param cause: the cause, in a few words.
    """

    status: int | None
    cause: str
    outcome: Outcome = Outcome.UNAVAILABLE


class Unreachable(NamedTuple):
    """The file could not be fetched, so it is unknown whether there is one (2.3.1.4).

    :param status: the status of the response, or `None` without one.
    :param cause: the cause, in a few words.
    :param retry_after: seconds after which the server wants another request, if it says so.
    :param hopeless: whether another attempt soon is useless, as for a host that does not exist.
    :param route: whether the proxy or the account failed, which says nothing about the site.
    """

    status: int | None
    cause: str
    retry_after: float | None = None
    hopeless: bool = False
    route: bool = False
    outcome: Outcome = Outcome.UNREACHABLE


class Local(NamedTuple):
    """A part of the crawl itself failed, such as a middleware. This says nothing about the site.

    :param cause: which part failed, and how.
    :param advice: what the user can do.
    :param error: the exception, if its traceback helps to find the fault.
    :param shortage: whether the machine is short of descriptors, ports or memory, so that a later
        attempt may succeed.
    :param route: as for `Unreachable`.
    """

    cause: str
    advice: str
    error: Exception | None = None
    shortage: bool = False
    status: None = None
    route: bool = True
    outcome: Outcome = Outcome.LOCAL


Access = Successful | Unavailable | Unreachable | Local

#: The status of a proxy that wants credentials. No site sends it (RFC 9110, 15.5.8).
PROXY_REFUSES = 407

#: Statuses whose Location is followed (2.3.1.2); for 300, it is the server's preferred choice (RFC
#: 9110, 15.4.1).
_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})

_HTTP = SCHEMES["http"]
_WEB = {"http": _HTTP, "https": SCHEMES["https"]}


def _no_cookie(_url: str) -> bytes:
    return b""


class FetchStep(NamedTuple):
    """A fetch that has not ended.

    :param url: the URL to request next, without userinfo.
    :param seen: the requests that were redirected: the URL and Cookie header of each.
    :param scheme: the scheme of the first URL, which says what a status means.
    :param cookie: the Cookie header to send, or empty.
    :param cookie_for: returns the Cookie header of a request for a URL, or nothing.
    """

    url: str
    seen: tuple[tuple[str, bytes], ...] = ()
    scheme: Scheme = _HTTP
    cookie: bytes = b""
    cookie_for: Callable[[str], bytes] = _no_cookie

    def answered(
        self,
        status: int,
        location: bytes | None,
        body: bytes,
        *,
        unreachable_statuses: Collection[int],
        cached: bytes | None = None,
    ) -> "FetchStep | Access":
        """Return the next request, or the result of the fetch.

        :param status: the status code from the download handler.
        :param location: the Location header, if there was one.
        :param body: the body, without content coding.
        :param unreachable_statuses: ROBOTS_UNREACHABLE_STATUSES, 4xx statuses that count as
            unreachable.
        :param cached: the body of the cached file, if the request was conditional on it (RFC 9110,
            13.1).
        """
        meaning = self.scheme.http_status(status)
        if meaning == 304 and cached is not None:
            return Successful(status, cached)  # the copy is confirmed (RFC 9111, 4.3.3)
        if meaning == PROXY_REFUSES:
            cause = "407 Proxy Authentication Required"
            return Unreachable(status, cause, hopeless=True, route=True)
        # Without a condition, a 304 says that there is a file, but not its rules.
        if meaning == 304 or meaning in unreachable_statuses:
            return Unreachable(status, str(status))
        if meaning in _REDIRECTS:
            return self._redirected(status, location)
        if 200 <= meaning <= 299:
            return Successful(status, body)
        if 300 <= meaning <= 499:
            return Unavailable(status, str(status))
        # 5xx, and any status that does not exist: when in doubt, nothing is allowed.
        return Unreachable(status, str(status))

    def _redirected(self, status: int, location: bytes | None) -> "FetchStep | Unavailable":
        target = target_of(self.url, location, self.scheme)
        if target is None:
            return Unavailable(status, f"{status} without a usable Location")
        cookie = self.cookie_for(target)
        seen = (*self.seen, (self.url, self.cookie))
        # With a new cookie, the same URL may have another answer.
        if (target, cookie) in seen:
            return Unavailable(status, "redirect loop")
        if len(seen) > MAX_REDIRECTS:
            return Unavailable(status, f"more than {MAX_REDIRECTS} redirects")
        return self._replace(url=target, seen=seen, cookie=cookie)


def target_of(url: str, location: bytes | None, scheme: Scheme = _HTTP) -> str | None:
    """Return the URL of a Location header, without userinfo and fragment, or `None` without one.

    Only http and https redirect to each other.

    :param url: the URL that was requested.
    :param location: the header, if there was one.
    :param scheme: the scheme of the URL.
    """
    if not location:
        return None
    name = url.partition(":")[0]
    schemes = _WEB if name in _WEB else {name: SCHEMES.get(name, scheme)}
    try:
        text = location.decode("utf-8")
    except UnicodeDecodeError:
        text = location.decode("latin-1")
    try:
        target = join_url(url, text.strip())
        parts = urlsplit(target)
    except ValueError:
        return None
    origin = Origin.of(target, schemes)
    if origin is None:
        return None
    query = f"?{parts.query}" if parts.query else ""
    return f"{origin}{parts.path or '/'}{query}"


# How long a result is valid.


class Validity(NamedTuple):
    """The result that governs an origin, and its times.

    :param outcome: the result that governs the decisions.
    :param fresh_until: when the file expires.
    :param confirmed: when the file that is obeyed was last fetched or confirmed, or `None` without
        a file.
    :param unreachable_since: when the first of the consecutive unreachable fetches ended, or `None`
        if the last fetch was not unreachable.
    """

    outcome: Outcome
    fresh_until: float
    confirmed: float | None = None
    unreachable_since: float | None = None

    @property
    def stale(self) -> bool:
        """Whether an earlier file is obeyed because the last fetch was unreachable."""
        return self.outcome is Outcome.SUCCESSFUL and self.unreachable_since is not None


def renew(
    old: Validity | None,
    fetched: Outcome,
    now: float,
    limits: Settings,
    fresh_for: float | None = None,
) -> Validity:
    """Return the validity of the result of a fetch.

    :param old: the validity before the fetch, expired or not, or `None` for a new origin.
    :param fetched: the outcome of the fetch.
    :param fresh_for: seconds for which the response is fresh by its headers, or `None` if they do
        not say.
    """
    if fetched is not Outcome.UNREACHABLE:
        age = limits.cache_max_age
        if fresh_for is not None:
            age = min(max(fresh_for, limits.cache_min_age), age)
        return Validity(fetched, now + age, now if fetched is Outcome.SUCCESSFUL else None)
    since = now if old is None or old.unreachable_since is None else old.unreachable_since
    again = now + limits.unreachable_ttl
    confirmed = None if old is None else old.confirmed
    if confirmed is not None and now < confirmed + limits.stale_max_age:
        again = min(again, confirmed + limits.stale_max_age)
        return Validity(Outcome.SUCCESSFUL, again, confirmed, since)
    if limits.unreachable_max_age is not None and now >= since + limits.unreachable_max_age:
        return Validity(Outcome.UNAVAILABLE, again, unreachable_since=since)
    return Validity(Outcome.UNREACHABLE, again, unreachable_since=since)


def review(old: Validity, fetched: float, now: float, limits: Settings) -> Validity:
    """Return the validity of a stored result within our settings; it never becomes longer.

    :param fetched: when the fetch ended.
    """
    if old.unreachable_since is None:
        return old._replace(fresh_until=min(old.fresh_until, fetched + limits.cache_max_age))
    again = min(old.fresh_until, fetched + max(limits.unreachable_ttl, MAX_RETRY_AFTER))
    validity = renew(old, Outcome.UNREACHABLE, now, limits)
    if validity.confirmed is not None:
        again = min(again, validity.confirmed + limits.stale_max_age)
    return validity._replace(fresh_until=again if validity.outcome is old.outcome else now)


def backoff_delays(
    attempts: int, retry_after: float | None, settings: Settings
) -> tuple[float, ...]:
    """Return the seconds before each further attempt, or nothing if there is none.

    :param attempts: the number of attempts before the one that has just failed.
    :param retry_after: seconds that the server asked for; they lengthen the first pause only.
    """
    delays = settings.unreachable_backoff[attempts:]
    return (with_retry_after(delays[0], retry_after), *delays[1:]) if delays else ()


def with_retry_after(seconds: float, retry_after: float | None) -> float:
    """Return the seconds, or up to `MAX_RETRY_AFTER` if the server asked for more."""
    return max(seconds, min(retry_after or 0.0, MAX_RETRY_AFTER))


# Longer times count as this number of seconds (RFC 9111, 1.2.2).
_MAX_SECONDS = 2.0**31
# Maximum bytes of a Cache-Control header that are read.
_MAX_CACHE_CONTROL = 8192

# An element of a list with commas: `max-age=60`, `no-cache="a, b"`.
_ELEMENT = re.compile(rb'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+', re.DOTALL)
_SECONDS = re.compile(rb"[0-9]+")
# An ETag or a Last-Modified that is sent back: it has no control characters, and real ones are much
# shorter.
_VALIDATOR = re.compile(rb"[\t\x20-\x7e\x80-\xff]{1,1024}")


class Freshness(NamedTuple):
    """The freshness of a response by its headers (RFC 9111).

    :param lifetime: seconds for which it is fresh after its creation (4.2.1), if it says so.
    :param age: seconds that it spent in other caches (5.1).
    :param stored: whether a store may have it (5.2.2.5).
    """

    lifetime: float | None = None
    age: float = 0.0
    stored: bool = True


# Malformed values count as absent. Of several lines of a header, and of several directives with one
# name, the first one counts (RFC 9111, 4.2.1); the lines of Cache-Control are one list.


def freshness(lines: Lines, now: float) -> Freshness:
    """Return the freshness of a response.

    :param now: seconds since 1970, used instead of a missing Date header.
    """
    directives = _directives(b",".join(lines(b"Cache-Control")))
    stored = b"no-store" not in directives
    # An Age line may be a list; its first element counts (RFC 9111, 5.1).
    age = seconds_of(next(iter(lines(b"Age")), b"").partition(b",")[0]) or 0.0
    # A no-cache with a value concerns only the fields that it names (RFC 9111, 5.2.2.4).
    if not stored or directives.get(b"no-cache") == b"":
        return Freshness(0.0, age, stored=stored)
    # A store may serve many spiders: as a shared cache, it obeys s-maxage (5.2.2.10).
    for name in (b"s-maxage", b"max-age"):
        seconds = seconds_of(directives.get(name))
        if seconds is not None:
            return Freshness(seconds, age)
    expires = next(iter(lines(b"Expires")), b"")
    # 0 and -1 are not dates, but many servers send them to say "already expired" (RFC 9111, 5.3).
    then = 0.0 if expires.strip() in (b"0", b"-1") else http_date(expires)
    if then is None:
        return Freshness(None, age)
    created = http_date(next(iter(lines(b"Date")), b""))
    lifetime = then - (now if created is None else created)
    return Freshness(min(max(0.0, lifetime), _MAX_SECONDS), age)


def etag(lines: Lines) -> bytes | None:
    """Return the ETag for If-None-Match (RFC 9110, 13.1.2); never ``*``, which matches any file."""
    value = next(iter(lines(b"ETag")), b"")
    return value if _VALIDATOR.fullmatch(value) and value.strip() != b"*" else None


def last_modified(lines: Lines) -> bytes | None:
    """Return the Last-Modified date for If-Modified-Since (RFC 9110, 13.1.3)."""
    value = next(iter(lines(b"Last-Modified")), b"")
    return value if _VALIDATOR.fullmatch(value) and http_date(value) is not None else None


def _directives(cache_control: bytes) -> dict[bytes, bytes]:
    """Return the directives of Cache-Control by name."""
    directives: dict[bytes, bytes] = {}
    for element in _ELEMENT.findall(cache_control[:_MAX_CACHE_CONTROL]):
        name, _, value = element.partition(b"=")
        value = value.strip()
        if len(value) > 1 and value.startswith(b'"') and value.endswith(b'"'):
            value = value[1:-1]
        directives.setdefault(name.strip().lower(), value)
    return directives


def retry_after(value: bytes | None, now: float) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110, 10.2.3), or `None` if it has none.

    :param value: the header: a number of seconds, or a date.
    :param now: seconds since 1970.
    """
    seconds = seconds_of(value)
    if seconds is not None:
        return seconds
    then = http_date(value or b"")
    return None if then is None else max(0.0, then - now)


def seconds_of(value: bytes | None) -> float | None:
    """Return a number of seconds (RFC 9111, 1.2.2), or `None` if it is malformed."""
    text = (value or b"").strip()
    return min(float(text), _MAX_SECONDS) if _SECONDS.fullmatch(text) else None


def http_date(value: bytes) -> float | None:
    """Return the seconds since 1970 of an HTTP date (RFC 9110, 5.6.7), or `None` otherwise."""
    try:
        date = parsedate_to_datetime(value.decode("latin-1"))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date.replace(tzinfo=date.tzinfo or UTC).timestamp()
