"""One attempt to fetch a robots.txt: it is asked for, its redirects are followed, and a cache entry follows from it.

`download.py` makes each exchange, and `policy/access.py` says what an answer means. See `queue.py` for when an attempt
is made, and `service.py` for what is done with what it gave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from scrapy.exceptions import IgnoreRequest

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.cache.entry import CacheEntry, Validators
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.fetching.parsed import governs_all
from scrapy_robots_rfc.fetching.routes import has_account, proxy_of
from scrapy_robots_rfc.policy import backoff, caching
from scrapy_robots_rfc.policy.access import Access, Asking, Local, Outcome, Successful, Unreachable
from scrapy_robots_rfc.policy.caching import Freshness, Validity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_robots_rfc._runtime import Cancellable, Runtime
    from scrapy_robots_rfc.fetching.download import Downloader
    from scrapy_robots_rfc.fetching.queue import PendingFetch, Result
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.settings import Settings

_T = TypeVar("_T")

# Seconds; longer than the queue takes to notice that an attempt has used up its time.
_GRACE = 1.0


@dataclass(eq=False, slots=True)
class Attempt:
    """One attempt to find out what governs an origin, under way.

    :param limit: seconds that it may take.
    :param held: the newest cache entry that is known, fresh or not.
    :param before: what governed in this crawl until now; ``None``: nothing did.
    :param request: the last request that was sent for the file.
    :param began: when the site was asked for the file.
    :param result: what counts if the work does not end in time; the work may set it before it is done.
    :param over: whether it has ended; what its work gives afterwards is not used.
    :param aside: whether it waits for the store, or for the thread that reads large files: that time does not count.
    :param spent: seconds that count against the limit, up to `looked_at`.
    """

    pending: PendingFetch
    limit: float
    looked_at: float
    held: CacheEntry | None = None
    before: Validity | None = None
    request: Request | None = None
    began: float = math.inf
    result: Result = None
    over: bool = False
    aside: bool = False
    spent: float = 0.0
    task: Cancellable | None = None

    @property
    def origin(self) -> Origin:
        """The origin of the file."""
        return self.pending.origin

    @property
    def last(self) -> Validity | None:
        """What the attempt before this one gave."""
        last = self.pending.last or self.pending.route.last
        return None if last is None else last.validity

    def changes(self, outcome: Outcome) -> bool:
        """Whether something else governed before, or nothing."""
        return self.before is None or self.before.outcome is not outcome

    def suits(self, entry: CacheEntry) -> bool:
        """Whether a fresh entry governs the requests of the route that this attempt takes."""
        return self.pending.route.name is None or governs_all(entry.status, entry.validity.outcome)

    async def wait_aside(self, work: Awaitable[_T]) -> _T:
        """Wait for the store, or for the thread that reads large files; that time does not count against the limit.

        :raises RobotsUndecided: the attempt is over, see `in_time`.
        """
        self.aside = True
        try:
            return self.in_time(await work)
        finally:
            self.aside = False

    def in_time(self, value: _T) -> _T:
        """Return what was waited for.

        :raises RobotsUndecided: the attempt is over: its time was up, it gave way to others, or the crawl ended.
        """
        if self.over:
            raise RobotsUndecided("too late: this attempt is over")
        return value


class Fetched(NamedTuple):
    """What an attempt gave.

    :param freshness: how long the last answer may be used, by its own headers.
    :param validators: of the file, if there is one and its server gave some.
    :param confirmed: whether the file that was at hand still holds (304).
    """

    access: Access
    freshness: Freshness = Freshness()
    validators: Validators | None = None
    confirmed: bool = False


class Fetcher:
    """Asks sites for their files.

    :param settings: of the crawl.
    :param download: makes one exchange.
    :param runtime: the clock.
    :param count: adds one to a stat.
    """

    def __init__(
        self, settings: Settings, download: Downloader, runtime: Runtime, count: Callable[[str], None]
    ) -> None:
        self._settings, self._download, self._runtime, self._count = settings, download, runtime, count

    async def fetch(self, attempt: Attempt) -> Fetched:
        """Ask for a file, and follow redirects. Whatever the network does, there is a result.

        :raises RobotsUndecided: the attempt is over, see `Attempt.in_time`.
        """
        self._count(stats.REQUEST_COUNT)
        origin, held = attempt.origin, attempt.held
        state = Asking(origin.robots_url, scheme=self._settings.schemes[origin.scheme])
        while True:
            # An attempt that is to give way to others ends before Scrapy's timeout, which would make it a failure.
            left = max(min(attempt.limit + _GRACE, self._settings.timeout) - attempt.spent, 0.1)
            known = _known_at(state.url, held)
            retry = not self._settings.unreachable_backoff  # retries on top of a backoff would multiply with it
            try:
                request = attempt.request = self._download.request(
                    state.url, timeout=left, mark=attempt, retry=retry, asker=attempt.pending.route.asker, known=known
                )
                response, body = await self._download.send(request)
            except Exception as error:  # noqa: BLE001 - whatever goes wrong is a result
                if not isinstance(attempt.in_time(error), IgnoreRequest):
                    self._count(stats.EXCEPTION_COUNT.format(exception=type(error)))
                return Fetched(through(access_after(error, self._settings.timeout), attempt.request))
            attempt.in_time(None)
            access = state.answered(
                response.status,
                response.headers.get(b"Location"),
                body,
                unreachable_statuses=self._settings.unreachable_statuses,
                held=held.body if held is not None and known is not None else None,
            )
            if not isinstance(access, Asking):
                return self._answered(request, response, access, state.url, known)
            state = access

    def _answered(
        self, request: Request, response: Response, access: Access, url: str, known: Validators | None
    ) -> Fetched:
        self._count(stats.RESPONSE_COUNT)
        self._count(stats.RESPONSE_STATUS_COUNT.format(status=response.status))
        headers, date = response.headers, self._runtime.date()
        if isinstance(access, Unreachable):
            access = replace(access, retry_after=backoff.retry_after(headers.get(b"Retry-After"), date))
            return Fetched(through(access, request) if access.route else access)
        freshness = caching.freshness(headers.getlist, date)
        if not isinstance(access, Successful):
            return Fetched(access, freshness)
        confirmed = access.status == 304
        if len(access.body) > self._settings.max_size:
            # It is a part of the file: a crawl with a larger limit must not be answered 304.
            return Fetched(access, freshness, None, confirmed)
        tag, modified = caching.etag(headers.getlist), caching.last_modified(headers.getlist)
        if confirmed and known is not None:  # what a 304 leaves out stays (RFC 9111, 3.2)
            tag, modified = tag or known.etag, modified or known.last_modified
        return Fetched(access, freshness, Validators(url, tag, modified) if tag or modified else None, confirmed)


def through(access: Unreachable | Local, request: Request | None) -> Unreachable | Local:
    """Return a failure with the name of its proxy, if the request had one: it says nothing about the site then.

    Nor does one of a request with an account of its own.
    """
    proxy = proxy_of(request)
    if request is None or isinstance(access, Local):
        return access
    if proxy is None:
        return replace(access, route=True) if has_account(request) else access
    return replace(access, cause=f"{access.cause}, through proxy {proxy}", route=True)


def _known_at(url: str, held: CacheEntry | None) -> Validators | None:
    """Return the validators of an entry, if its file came from this URL: they mean nothing to another one."""
    known = None if held is None or held.body is None else held.validators
    return known if known is not None and known.url == url and (known.etag or known.last_modified) else None


def following(
    old: CacheEntry | None, fetched: Fetched, now: float, limits: Settings, since: float | None = None
) -> CacheEntry:
    """Return the cache entry that follows from a fetch.

    :param old: the entry before it; if the fetch was unreachable, its file is obeyed for longer.
    :param since: when the first of several unreachable attempts was, if `old` does not have that yet.
    """
    validity = None if old is None else old.validity
    if since is not None and (validity is None or validity.unreachable_since is None):
        validity = Validity(Outcome.UNREACHABLE, now, None if validity is None else validity.confirmed, since)
    access, said = fetched.access, fetched.freshness
    lifetime = said.lifetime
    if lifetime is None and fetched.confirmed and old is not None:
        lifetime = old.lifetime  # what a 304 leaves out stays (RFC 9111, 3.2)
    left = None if lifetime is None else max(0.0, lifetime - said.age)
    new = caching.renew(validity, access.outcome, now, limits, left)
    made = partial(CacheEntry, new, access.status, access.cause, now)
    if isinstance(access, Successful):
        whole = fetched.confirmed or len(access.body) <= limits.max_size
        return made(fetched.validators, access.body, lifetime, None if whole else limits.max_size)
    return made(old.validators, old.body, old.lifetime, old.cut) if new.stale and old is not None else made()


def governing_meanwhile(old: CacheEntry | None, access: Access, now: float, limits: Settings) -> CacheEntry:
    """Return what governs requests whose fetch says nothing about the site: an earlier file, or nothing is known.

    It does not become the cache entry of the origin, since it must not count in how long the file was unreachable.

    :param old: the cache entry of the origin.
    """
    limits = replace(limits, unreachable_max_age=None)  # such a failure must not open the origin, however old it is
    if old is not None:
        old = replace(old, validity=replace(old.validity, unreachable_since=None))
    failed = Fetched(Unreachable(access.status, access.cause))
    entry = following(old, failed, now, limits)
    if isinstance(access, Local):
        outcome = Outcome.LOCAL if entry.body is None else entry.validity.outcome
        # It is stale at once, so that the next request tries again: that costs the site nothing.
        return replace(entry, validity=replace(entry.validity, outcome=outcome, fresh_until=now))
    return entry
