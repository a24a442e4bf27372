"""The fetches that are under way, and who waits for them.

An origin has at most one fetch at a time, whatever the routes of its requests. However it ends,
those who wait continue. `fetch.py` says how a file is fetched.
"""

import logging
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc._runtime import CANCELLED, Cancellable, Runtime, Waiter, descriptor_limit
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin

#: How a fetch gets its value, which is `None` if the crawl ends first.
Get: TypeAlias = Callable[["PendingFetch"], Coroutine[Any, Any, OriginPolicy | None]]

T = TypeVar("T")

logger: logging.Logger = logging.getLogger(__name__)

#: Maximum number of fetches under way. A process with few file descriptors, or with a small
#: CONCURRENT_REQUESTS, has fewer (`max_fetches`).
MAX_FETCHES = 256
_FETCHES_PER_REQUEST = 16

# Every fourth place goes to an origin that was tried before.
_TURN_OF_LATER = 4

#: Seconds between two calls of `PendingFetches.tick`.
TICK = 0.25

#: Seconds after which an attempt is cut short while other origins are in line for a fetch. The next
#: attempt has the whole ROBOTS_TIMEOUT.
CUT_AFTER = 10.0

#: Why an attempt was cut short: the origin goes to the end of the line.
CUT_SHORT = RuntimeError("other origins are in line")


@dataclass(slots=True, eq=False, repr=False)
class PendingFetch:
    """A fetch that is under way.

    :param route: the route of its source (see `download.py`), which may contain credentials.
    :param source: the request that it was started for, or `None`.
    :param since: when it started.
    :param is_over: whether it has ended.
    :param value: the result, or `None` if the crawl ended first.
    :param attempts: number of failed attempts that are followed by another one.
    :param copy: the newest copy of the file, fresh or not.
    :param before: what governed these requests before, or `None` if nothing did.
    :param last: what the last attempt gave.
    :param was_cut: whether an attempt was cut short.
    :param waits_for_lease: whether another worker was fetching the file.
    :param request: the request that is with the downloader.
    :param waits_for_turn: whether that request waits for the turn of its site.
    :param asked: when the site was last known not to have the request yet.
    :param interrupted: what its present attempt is told when it takes too long.
    """

    origin: Origin
    route: Hashable = None
    source: Request | None = None
    since: float = 0.0
    is_over: bool = False
    value: OriginPolicy | None = None
    attempts: int = 0
    copy: CacheEntry | None = None
    before: Validity | None = None
    last: Validity | None = None
    was_cut: bool = False
    waits_for_lease: bool = False
    request: Request | None = None
    waits_for_turn: bool = False
    asked: float = 0.0
    interrupted: Exception | None = None
    task: Cancellable | None = None
    waiters: list[Waiter[OriginPolicy | None]] = field(default_factory=list)

    async def result(self) -> OriginPolicy | None:
        """Wait for the value. Whoever stops waiting does not end the fetch."""
        if self.is_over:
            return self.value
        waiter: Waiter[OriginPolicy | None] = Waiter()
        self.waiters.append(waiter)
        return await waiter

    def interruption(self) -> Exception | None:
        """Return why `tick` interrupted the present attempt, or `None`."""
        return self.interrupted

    def changes(self, outcome: Outcome) -> bool:
        """Whether something else governed before, or nothing."""
        return self.before is None or self.before.outcome is not outcome


class PendingFetches:
    """The pending fetches of a crawl.

    :param over: called with each fetch that has ended, before those who wait continue.
    :param timeout: seconds that an attempt may take at its site.
    :param failed: returns the value of a fetch that raised an exception.
    """

    def __init__(
        self,
        crawler: Crawler,
        over: Callable[[PendingFetch], object],
        timeout: float,
        failed: Callable[[PendingFetch, Exception], OriginPolicy],
    ) -> None:
        self._crawler = crawler
        self._over = over
        self._timeout = timeout
        self._failed = failed
        self._runtime = Runtime()
        self._max = max_fetches(crawler)
        self._pending: dict[Origin, PendingFetch] = {}
        # The fetches that count as under way. One that sleeps before its next attempt does not.
        self._under_way: set[PendingFetch] = set()
        # Those whose site is being asked.
        self._asking: set[PendingFetch] = set()
        # What to call when there is room. Origins that were never tried come first, mostly.
        self._new: deque[Callable[[], object]] = deque()
        self._later: deque[Callable[[], object]] = deque()
        self._served = 0

    # Beginning and end.

    def of(self, origin: Origin) -> PendingFetch | None:
        """Return the fetch of an origin, or `None` if none is under way."""
        return self._pending.get(origin)

    def begin(
        self, origin: Origin, route: Hashable, get: Get, source: Request | None = None
    ) -> PendingFetch:
        """Start a fetch. It counts as under way at once, even beyond the maximum."""
        fetch = PendingFetch(origin, route, source, self._runtime.clock())
        self._pending[origin] = fetch
        self._under_way.add(fetch)
        fetch.task = self._runtime.spawn(self._run(fetch, get))
        return fetch

    async def _run(self, fetch: PendingFetch, get: Get) -> None:
        value = None
        error: Exception | None = RuntimeError("cancelled")
        try:
            value = await get(fetch)
            error = None
        except Exception as raised:  # noqa: BLE001 - `failed` logs it
            error = raised
        finally:
            if fetch.is_over:  # `tick` has ended it, but its exchange was still running
                self._under_way.discard(fetch)
            else:
                self._end(fetch, value if error is None else self._failed(fetch, error))

    def _end(self, fetch: PendingFetch, value: OriginPolicy | None) -> None:
        fetch.is_over = True
        fetch.value = value
        del self._pending[fetch.origin]
        try:
            self._over(fetch)
        finally:  # those who wait continue, whatever is raised
            for waiter in fetch.waiters:
                waiter.resolve(value)
            self.leave(fetch)

    def cancel_all(self) -> None:
        """End all fetches without a value: the crawl ends."""
        self._new.clear()
        self._later.clear()
        for fetch in list(self._pending.values()):
            if not fetch.is_over:  # the end of another one may have ended it
                self._end(fetch, None)
                if fetch.task is not None:
                    fetch.task.cancel()

    # The maximum.

    def has_room(self) -> bool:
        """Whether fewer than the maximum are under way."""
        return len(self._under_way) < self._max

    def join_line(self, start: Callable[[], object]) -> None:
        """Call a function when there is room: it starts the fetch of an origin never tried."""
        self._new.append(start)

    async def enter(self, fetch: PendingFetch) -> None:
        """Wait until a fetch that did not count as under way may count again."""
        _raise_if_over(fetch)
        if self.has_room() and not self._new and not self._later:
            self._under_way.add(fetch)
            return
        entered: Waiter[None] = Waiter()
        self._later.append(partial(self._let_in, fetch, entered))
        await entered

    def _let_in(self, fetch: PendingFetch, entered: Waiter[None]) -> None:
        if not fetch.is_over:
            self._under_way.add(fetch)
            entered.resolve(None)

    def leave(self, fetch: PendingFetch) -> None:
        """Count a fetch no longer as under way, and serve those in line."""
        self._under_way.discard(fetch)
        # Each call may start a fetch, or find that its origin needs none any more: then the next
        # one has its place. Without this loop, that place would stay empty.
        while self.has_room() and (self._new or self._later):
            self._served += 1
            # Otherwise new origins could keep those that were tried waiting for ever.
            is_turn_of_later = self._served % _TURN_OF_LATER == 0
            first, second = self._new, self._later
            if is_turn_of_later:
                first, second = second, first
            start = (first or second).popleft()
            try:
                start()
            except Exception:
                logger.exception("A fetch of a robots.txt could not be started")

    # Time.

    async def in_time(self, fetch: PendingFetch, exchange: Coroutine[Any, Any, T]) -> T | Exception:
        """Return what an exchange with the site returns or raises, or why `tick` interrupts it."""
        _raise_if_over(fetch)
        fetch.request = None
        fetch.interrupted = None
        fetch.asked = self._runtime.clock()
        self._asking.add(fetch)
        try:
            return await exchange
        except CANCELLED:
            reason = fetch.interruption()
            if reason is None:  # the crawl ends
                raise
            self._runtime.forget_cancellation()
            return reason
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is a result
            return error
        finally:
            self._asking.discard(fetch)

    def tick(self) -> None:
        """Interrupt attempts that take too long, and end all when the crawl ends.

        Called every `TICK` seconds. The time in the queue of a downloader slot, or until the turn
        of the site, does not count. Usually a download handler ends an exchange earlier.
        """
        if _scrapy.is_closing(self._crawler):
            self.cancel_all()
            return
        now = self._runtime.clock()
        in_line = len(self._new) + len(self._later)
        for fetch in list(self._asking):
            if self._is_held(fetch):
                fetch.asked = now
            elif fetch.interrupted is not None:  # a middleware holds on to the cancelled request
                self._end(fetch, self._failed(fetch, fetch.interrupted))
                self._asking.discard(fetch)
            elif now - fetch.asked >= self._timeout + TICK:
                _interrupt(fetch, TimeoutError())
            elif in_line and not fetch.was_cut and now - fetch.asked >= CUT_AFTER:
                in_line -= 1
                _interrupt(fetch, CUT_SHORT)

    def _is_held(self, fetch: PendingFetch) -> bool:
        """Whether the site cannot have the request yet."""
        request = fetch.request
        return fetch.waits_for_turn or (
            request is not None and _scrapy.is_queued(self._crawler, request)
        )


def _raise_if_over(fetch: PendingFetch) -> None:
    """Stop a fetch that was ended while a middleware held on to its cancelled request."""
    if fetch.is_over:
        raise RuntimeError("the fetch has ended")


def _interrupt(fetch: PendingFetch, error: Exception) -> None:
    fetch.interrupted = error
    if fetch.task is not None:
        fetch.task.cancel()


def max_fetches(crawler: Crawler) -> int:
    """Return the maximum number of fetches under way in a crawl."""
    concurrent_requests = crawler.settings.getint("CONCURRENT_REQUESTS")
    if concurrent_requests and _scrapy.has_small_pool(crawler):
        return max(1, min(MAX_FETCHES, 3 * concurrent_requests // 4))  # the others are for pages
    by_concurrency = _FETCHES_PER_REQUEST * concurrent_requests or MAX_FETCHES  # 0: no limit
    return max(1, min(MAX_FETCHES, by_concurrency, descriptor_limit() // 4))
