"""One fetch: a robots.txt is asked for, its redirects are followed, and the result is a `Fetched`.

`download.py` makes each exchange, `policy/access.py` says what an answer means, and `results.py` what follows from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from scrapy.exceptions import IgnoreRequest

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import LATE
from scrapy_robots_rfc.cache.entry import Validators
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.faults import UNKNOWN_HOST, fault_of
from scrapy_robots_rfc.fetching.parsed import governs_all
from scrapy_robots_rfc.fetching.results import Fetched
from scrapy_robots_rfc.policy import backoff
from scrapy_robots_rfc.policy.access import Access, Asking, Local, Outcome, Successful, Unreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.cache.entry import CacheEntry
    from scrapy_robots_rfc.fetching.download import Answer, Downloader, Sent
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.fetching.queue import Attempt, PendingFetch
    from scrapy_robots_rfc.policy.caching import Validity
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.settings import Settings

_T = TypeVar("_T")

# Seconds; longer than the queue takes to notice that an attempt has used up its time.
_GRACE = 1.0


@dataclass(slots=True, eq=False)
class Fetch:
    """One attempt to find out what governs an origin.

    :param before: what governed in this crawl until now; ``None``: nothing did.
    :param held: the newest cache entry that is known, fresh or not.
    :param sent: the request that the file is fetched for, and the proxy of the transfer.
    :param began: when the site was asked for the file.
    """

    attempt: Attempt[OriginPolicy]
    before: Validity | None
    held: CacheEntry | None
    sent: Sent
    began: float = math.inf

    @property
    def pending(self) -> PendingFetch[OriginPolicy]:
        """The pending fetch that this attempt belongs to."""
        return self.attempt.pending

    @property
    def origin(self) -> Origin:
        """The origin of the file."""
        origin: Origin = self.pending.key
        return origin

    @property
    def last(self) -> OriginPolicy | None:
        """What the attempt before this one gave."""
        return self.pending.last or self.pending.route.last

    @property
    def known(self) -> Validity | None:
        """What was known before this attempt, also from the attempt before it."""
        return self.before if self.last is None else self.last.validity

    def changes(self, outcome: Outcome) -> bool:
        """Whether something else governed before, or nothing."""
        return self.before is None or self.before.outcome is not outcome

    def suits(self, entry: CacheEntry) -> bool:
        """Whether a fresh entry governs the requests of the route that this attempt takes."""
        return self.pending.route.name is None or governs_all(entry.status, entry.validity.outcome)

    async def aside(self, work: Awaitable[_T]) -> _T:
        """Wait for the store; that time does not count against the limit of the attempt.

        :raises RobotsUndecided: it took too long, and nobody waits for the file any more.
        """
        self.attempt.aside = True
        try:
            result = await work
        finally:
            self.attempt.aside = False
        if self.attempt.over:
            raise RobotsUndecided("too late: nobody waits for this file any more")
        return result


class Fetcher:
    """Makes the fetches of a crawl.

    :param settings: of the crawl.
    :param download: makes one exchange.
    :param runtime: the clock.
    :param count: adds one to a stat.
    """

    def __init__(
        self, settings: Settings, download: Downloader, runtime: Runtime, count: Callable[[str], None]
    ) -> None:
        self._settings, self._download, self._runtime, self._count = settings, download, runtime, count

    async def fetch(self, fetch: Fetch) -> Fetched:
        """Ask for a file, and follow redirects. Whatever the network does, there is a result.

        :raises RobotsUndecided: it took too long, and nobody waits for the file any more.
        """
        self._count(stats.REQUEST_COUNT)
        attempt, held, sent = fetch.attempt, fetch.held, fetch.sent
        state = Asking.first(fetch.origin)
        while True:
            # An attempt that is to give way to others ends before Scrapy's timeout, which would make it a failure.
            left = max(min(attempt.limit + _GRACE, self._settings.timeout) - attempt.spent, 0.1)
            known = _known_at(state.url, held)
            try:
                answer = await self._download(state.url, timeout=left, mark=attempt, sent=sent, known=known)
            except Exception as error:
                if attempt.over:
                    raise
                return Fetched(self._failed(error, sent))
            if attempt.over:
                raise RobotsUndecided("too late: nobody waits for this answer any more")
            access = state.answered(
                answer.status,
                answer.location,
                answer.body,
                unreachable_statuses=self._settings.unreachable_statuses,
                held=held.body if held is not None and known is not None else None,
            )
            if not isinstance(access, Asking):
                break
            self._count(stats.REDIRECT_COUNT)
            state = access
        if isinstance(access, Unreachable) and access.route:
            access = through(access, sent)
        return self._concluded(state.url, answer, access, known)

    def _concluded(self, url: str, answer: Answer, access: Access, known: Validators | None) -> Fetched:
        self._count(stats.RESPONSE_COUNT)
        self._count(stats.RESPONSE_STATUS_COUNT.format(status=answer.status))
        date = self._runtime.date()
        if isinstance(access, Unreachable):
            return Fetched(replace(access, retry_after=backoff.retry_after(answer.retry_after, date)))
        freshness = answer.caching.freshness(date)
        if not isinstance(access, Successful):
            return Fetched(access, freshness)
        validators = self._validators(url, answer, access, known)
        if access.status != 304:
            return Fetched(access, freshness, validators)
        self._count(stats.CACHE_REVALIDATED)
        return Fetched(access, freshness, validators, confirmed=True)

    def _validators(self, url: str, answer: Answer, access: Successful, known: Validators | None) -> Validators | None:
        if len(access.body) > self._settings.max_size:
            return None  # it is a part of the file: a crawl with a larger limit must not be answered 304
        tag, modified = answer.caching.tag, answer.caching.modified
        if access.status == 304 and known is not None:  # what a 304 leaves out stays (RFC 9111, 3.2)
            return Validators(url, tag or known.etag, modified or known.last_modified)
        return Validators(url, tag, modified) if tag or modified else None

    def _failed(self, error: Exception, sent: Sent) -> Unreachable | Local:
        if not isinstance(error, IgnoreRequest):
            self._count(stats.EXCEPTION_COUNT.format(exception=type(error)))
        fault = fault_of(error)
        if fault.part is not None:
            return Local(fault.cause, fault.advice, None if fault.expected else error)
        cause = cause_of(error, self._settings.timeout)
        hopeless = fault.refused or fault.cause == UNKNOWN_HOST
        return through(Unreachable(None, cause, hopeless=hopeless, route=fault.refused), sent)


def through(access: Unreachable, sent: Sent) -> Unreachable:
    """Return a failure with the name of its proxy, if it has one: it says nothing about the site then."""
    proxy = sent.proxy()
    return access if proxy is None else replace(access, cause=f"{access.cause}, through proxy {proxy}", route=True)


def cause_of(error: Exception, timeout: float) -> str:
    """Return why a download failed, in words.

    :param timeout: seconds for the whole fetch.
    """
    fault = fault_of(error)
    return no_answer(timeout) if fault.part is None and isinstance(error, LATE) else fault.cause


def no_answer(timeout: float) -> str:
    """Return the cause of a fetch that had no answer in so many seconds."""
    return f"no answer in {timeout:g} s"


def _known_at(url: str, held: CacheEntry | None) -> Validators | None:
    """Return the validators of an entry, if its file came from this URL: they mean nothing to another one."""
    if held is None or held.body is None or held.validators is None or held.validators.url != url:
        return None
    known = held.validators
    return known if known.etag is not None or known.last_modified is not None else None
