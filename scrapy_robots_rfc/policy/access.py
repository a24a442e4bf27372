"""What to request next, and what an answer means: RFC 9309, 2.3.1, as a state machine over one fetch.

In here: states and the tables that lead from one to the next. Who asks, and how, is the service's business; for how
long a result may be used is `freshness.py`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urljoin, urlsplit

from scrapy_robots_rfc.policy.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Collection

#: Redirects that are followed (2.3.1.2: "at least five consecutive redirects").
MAX_REDIRECTS = 5


class Outcome(enum.Enum):
    """The three access results of RFC 9309, 2.3.1, and that there was none; the values stand in stat keys."""

    #: 2.3.1.1: the rules are obeyed.
    SUCCESSFUL = "successful"
    #: 2.3.1.3: everything may be accessed.
    UNAVAILABLE = "unavailable"
    #: 2.3.1.4: complete disallow.
    UNREACHABLE = "unreachable"
    #: The crawl itself failed, so that nothing was learned about the site. Its pages cannot be judged: disallow.
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Successful:
    """The file is here (2.3.1.1)."""

    outcome: ClassVar[Outcome] = Outcome.SUCCESSFUL
    status: int
    body: bytes = field(repr=False)

    @property
    def cause(self) -> str:
        """What happened, in a word or two."""
        return str(self.status)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """There is no file (2.3.1.3). `status` is ``None`` where no single answer says so."""

    outcome: ClassVar[Outcome] = Outcome.UNAVAILABLE
    status: int | None
    cause: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Nobody knows whether there is a file (2.3.1.4). `status` is ``None`` where there was no answer.

    :param retry_after: seconds that the server wants to be left alone; ``None``: it said nothing.
    :param hopeless: whether asking again soon is of no use, as for a host that does not exist.
    :param route: whether the way to the site failed, a proxy that is: this says nothing about the site.
    """

    outcome: ClassVar[Outcome] = Outcome.UNREACHABLE
    status: int | None
    cause: str
    retry_after: float | None = None
    hopeless: bool = False
    route: bool = False


@dataclass(frozen=True, slots=True)
class Local:
    """The crawl itself failed: a middleware, a download handler. This says nothing about the site.

    :param cause: which part failed, and how.
    :param advice: what to do about it.
    :param error: the exception, where its traceback is of use.
    """

    outcome: ClassVar[Outcome] = Outcome.LOCAL
    status: ClassVar[None] = None
    cause: str
    advice: str
    error: Exception | None = field(default=None, repr=False, compare=False)


Access = Successful | Unavailable | Unreachable | Local

#: The answer of a proxy that wants credentials. No site sends it (RFC 9110, 15.5.8).
PROXY_REFUSES = 407


class _Meaning(enum.Enum):
    SUCCESSFUL = enum.auto()
    REDIRECT = enum.auto()
    UNAVAILABLE = enum.auto()
    UNREACHABLE = enum.auto()


#: Status class -> meaning (2.3.1.1 to 2.3.1.4). All else is unreachable: nothing opens by accident.
_BY_CLASS = {
    2: _Meaning.SUCCESSFUL,
    3: _Meaning.UNAVAILABLE,  # a redirect that leads nowhere, as one without a usable Location
    4: _Meaning.UNAVAILABLE,
    5: _Meaning.UNREACHABLE,
}

#: Statuses that mean something else than their class does.
_BY_STATUS = {
    300: _Meaning.REDIRECT,  # RFC 9110, 15.4.1: Location is the server's preferred choice
    301: _Meaning.REDIRECT,
    302: _Meaning.REDIRECT,
    303: _Meaning.REDIRECT,
    304: _Meaning.UNREACHABLE,  # speaks of a copy that nobody asked about: there is a file, and it stays unseen
    307: _Meaning.REDIRECT,
    308: _Meaning.REDIRECT,
}


@dataclass(frozen=True, slots=True)
class Asking:
    """A fetch under way: `url` is what to request next.

    :param url: the next URL, http or https, without userinfo.
    :param seen: the URLs that already redirected, oldest first.
    """

    url: str
    seen: tuple[str, ...] = ()

    @classmethod
    def first(cls, origin: Origin) -> Asking:
        """Return the state in which every fetch begins."""
        return cls(origin.robots_url)

    def answered(
        self,
        status: int,
        location: bytes | None,
        body: bytes,
        *,
        unreachable_statuses: Collection[int],
        held: bytes | None = None,
    ) -> Asking | Access:
        """Return what follows from an answer.

        :param status: the HTTP status code.
        :param location: the Location header as it came, if one did.
        :param body: the octets of the body, decoded from any content coding.
        :param unreachable_statuses: the statuses of the 4xx class that count as unreachable.
        :param held: the file that the request was made conditional on, if it was (RFC 9110, 13.1).
        """
        if status == 304 and held is not None:  # RFC 9111, 4.3.3: it still is what there is
            return Successful(status, held)
        if status == PROXY_REFUSES:
            return Unreachable(status, "407 Proxy Authentication Required", hopeless=True, route=True)
        if status in unreachable_statuses:
            return Unreachable(status, str(status))
        match _BY_STATUS.get(status, _BY_CLASS.get(status // 100, _Meaning.UNREACHABLE)):
            case _Meaning.SUCCESSFUL:
                return Successful(status, body)
            case _Meaning.REDIRECT:
                return self._redirected(status, location)
            case _Meaning.UNAVAILABLE:
                return Unavailable(status, str(status))
            case _Meaning.UNREACHABLE:
                return Unreachable(status, str(status))

    def _redirected(self, status: int, location: bytes | None) -> Asking | Unavailable:
        target = target_of(self.url, location)
        seen = (*self.seen, self.url)
        if target is None:
            return Unavailable(status, f"{status} without a usable Location")
        if target in seen:
            return Unavailable(status, "redirect loop")
        if len(seen) > MAX_REDIRECTS:
            return Unavailable(status, f"more than {MAX_REDIRECTS} redirects")
        return Asking(target, seen)


def target_of(url: str, location: bytes | None) -> str | None:
    """Return where a Location leads, without userinfo and fragment; ``None`` where it may not be followed.

    :param url: the URL whose answer it stood in.
    :param location: the header as it came, if one did.
    """
    if not location:
        return None
    try:
        text = location.decode("utf-8")
    except UnicodeDecodeError:
        text = location.decode("latin-1")
    try:
        joined = urljoin(url, text.strip())
        parts = urlsplit(joined)
    except ValueError:
        return None
    origin = Origin.of(joined)
    if origin is None:
        return None
    query = f"?{parts.query}" if parts.query else ""
    return f"{origin}{parts.path or '/'}{query}"
