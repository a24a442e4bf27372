"""What the answer to a request for robots.txt means (RFC 9309, 2.3.1).

An `Asking` names the URL to request next; its `answered` returns the next `Asking`, or the `Access`
that ends a fetch. `fetching/` makes the requests; `caching.py` says for how long a result may be
used.
"""

import enum
from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import urlsplit

from scrapy_robots_rfc.policy.origins import SCHEMES, Origin, Scheme, joined

#: Redirects that are followed (2.3.1.2: "at least five consecutive redirects").
MAX_REDIRECTS = 5


class Outcome(enum.Enum):
    """The three access results of RFC 9309, 2.3.1, and a fourth one. Stat keys have the values."""

    #: 2.3.1.1: the rules are obeyed.
    SUCCESSFUL = "successful"
    #: 2.3.1.3: everything may be accessed.
    UNAVAILABLE = "unavailable"
    #: 2.3.1.4: complete disallow.
    UNREACHABLE = "unreachable"
    #: The crawl itself failed, so nothing is known about the site: complete disallow, never cached.
    LOCAL = "local"

    def explained(self, cause: str) -> str:
        """Return this result, how the fetch ended, and what it means for pages, for people."""
        return _EXPLAINED[self].format(cause=cause)


_EXPLAINED = {
    Outcome.SUCCESSFUL: "successful ({cause}): its rules decide",
    Outcome.UNAVAILABLE: "unavailable ({cause}): everything is allowed",
    Outcome.UNREACHABLE: "unreachable ({cause}): nothing is allowed",
    Outcome.LOCAL: "local ({cause}): nothing is allowed, as the crawl itself failed",
}


# The outcome of each always has its default.


class Successful(NamedTuple):
    """The file was fetched (2.3.1.1)."""

    status: int
    body: bytes
    outcome: Outcome = Outcome.SUCCESSFUL

    @property
    def cause(self) -> str:
        """What happened, in a word or two."""
        return str(self.status)


class Unavailable(NamedTuple):
    """There is no file (2.3.1.3).

    :param status: that of the answer; ``None`` if it does not follow from one answer.
    :param cause: what happened, in a few words.
    """

    status: int | None
    cause: str
    outcome: Outcome = Outcome.UNAVAILABLE


class Unreachable(NamedTuple):
    """The file could not be fetched, so it is unknown whether there is one (2.3.1.4).

    :param status: of the answer; ``None`` where there was none.
    :param cause: what happened, in a few words.
    :param retry_after: the seconds after which the server wants to be asked again, if it says so.
    :param hopeless: whether it is of no use to ask again soon, as for a host that does not exist.
    :param route: whether the proxy, or the account, failed, which says nothing about the site.
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
    :param advice: what to do about it.
    :param error: the exception, where its traceback helps to find the fault.
    :param route: as for `Unreachable`.
    """

    cause: str
    advice: str
    error: Exception | None = None
    status: None = None
    route: bool = True
    outcome: Outcome = Outcome.LOCAL


Access = Successful | Unavailable | Unreachable | Local

#: The status of a proxy that wants credentials. No site sends it (RFC 9110, 15.5.8).
PROXY_REFUSES = 407

#: Statuses whose Location is followed (2.3.1.2); that of a 300 is the server's preferred choice
#: (RFC 9110, 15.4.1).
_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})

_HTTP = SCHEMES["http"]
_WEB = {"http": _HTTP, "https": SCHEMES["https"]}


class Asking(NamedTuple):
    """A fetch that is not over.

    :param url: the URL to request next, without userinfo.
    :param seen: the URLs that redirected, the first one first.
    :param scheme: of the first URL, says what an answer means.
    """

    url: str
    seen: tuple[str, ...] = ()
    scheme: Scheme = _HTTP

    def answered(
        self,
        status: int,
        location: bytes | None,
        body: bytes,
        *,
        unreachable_statuses: Collection[int],
        cached: bytes | None = None,
    ) -> "Asking | Access":
        """Return what follows from an answer.

        :param status: the status code, as the download handler gives it.
        :param location: the Location header as it came, if there was one.
        :param body: the octets of the body, decoded from any content coding.
        :param unreachable_statuses: ROBOTS_UNREACHABLE_STATUSES, statuses of the 4xx class that
            count as unreachable and not as unavailable.
        :param cached: the body of the cached file that the request was conditional on, if it was
            (RFC 9110, 13.1).
        """
        meaning = self.scheme.http_status(status)
        if meaning == 304 and cached is not None:
            return Successful(status, cached)  # the file is confirmed (RFC 9111, 4.3.3)
        if meaning == PROXY_REFUSES:
            cause = "407 Proxy Authentication Required"
            return Unreachable(status, cause, hopeless=True, route=True)
        # Without a condition, a 304 says that there is a file, but not what is in it.
        if meaning == 304 or meaning in unreachable_statuses:
            return Unreachable(status, str(status))
        if meaning in _REDIRECTS:
            return self._redirected(status, location)
        if 200 <= meaning <= 299:
            return Successful(status, body)
        if 300 <= meaning <= 499:
            return Unavailable(status, str(status))
        # 5xx, and any status that does not exist: nothing opens by accident.
        return Unreachable(status, str(status))

    def _redirected(self, status: int, location: bytes | None) -> "Asking | Unavailable":
        target = target_of(self.url, location, self.scheme)
        seen = (*self.seen, self.url)
        if target is None:
            return Unavailable(status, f"{status} without a usable Location")
        if target in seen:
            return Unavailable(status, "redirect loop")
        if len(seen) > MAX_REDIRECTS:
            return Unavailable(status, f"more than {MAX_REDIRECTS} redirects")
        return Asking(target, seen, self.scheme)


def target_of(url: str, location: bytes | None, scheme: Scheme = _HTTP) -> str | None:
    """Return the URL that a Location names, without userinfo and fragment; ``None``: it names none.

    Only between http and https does a redirect lead from one scheme to another.

    :param url: the URL that answered with it.
    :param location: the header as it came, if there was one.
    :param scheme: that of the URL.
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
        target = joined(url, text.strip())
        parts = urlsplit(target)
    except ValueError:
        return None
    origin = Origin.of(target, schemes)
    if origin is None:
        return None
    query = f"?{parts.query}" if parts.query else ""
    return f"{origin}{parts.path or '/'}{query}"
