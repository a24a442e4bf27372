"""The robots.txt fetches in progress.

Each origin has at most one fetch at a time, even if its requests use different routes. Everything
that is waiting for a fetch continues when it ends, for whatever reason. The steps of a fetch are in
`service.py`.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc._runtime import CANCELLED, Cancellable, Runtime, Waiter, descriptor_limit
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.routes import Route
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin

#: Runs a fetch and returns its policy.
Get: TypeAlias = Callable[["PendingFetch"], Coroutine[Any, Any, OriginPolicy]]

T = TypeVar("T")

#: Maximum number of concurrent fetches. It is lower if there are few file descriptors or
#: CONCURRENT_REQUESTS is small (see `max_fetches`).
MAX_FETCHES = 256
# Maximum number of concurrent fetches as a multiple of CONCURRENT_REQUESTS.
_FETCHES_PER_REQUEST = 16

# Every fourth room is for a further attempt.
_RETRY_EVERY = 4
# Maximum number of origins and fetches that get room in one iteration of the event loop.
_MAX_GIVEN = 20

#: Seconds between calls to `PendingFetches.tick`.
TICK = 0.25

#: Seconds that an exchange may take before its attempt is cut short, if other origins are in line.
#: The next attempt gets the full ROBOTS_TIMEOUT for each exchange.
CUT_AFTER = 10.0

#: Interrupts an attempt to make room for another origin. The fetch continues later.
CUT_SHORT = RuntimeError("other origins wait for room")


@dataclass(slots=True, eq=False, repr=False)
class PendingFetch:
    """A fetch in progress.

    :param route: the route of its source (see `routes.py`), which may contain credentials.
    :param source: the request that it was started for, or `None`.
    :param since: when it started.
    :param policy: the result, or `None` if the crawl ended first.
    :param attempts: number of failed attempts so far that are followed by a retry.
    :param copy: the newest copy of the file, fresh or not.
    :param validity_before: the validity of the policy before the fetch, or `None` if there was
        none.
    :param failing_since: when the file was first found to be unreachable, if this fetch has failed
        before.
    :param was_cut: True if an attempt was cut short.
    :param request: the robots.txt request that is in the downloader.
    :param timed_from: when the timeout for the current exchange started.
    :param interruption: why `tick` interrupted the current attempt, or `None`.
    """

    origin: Origin
    route: Route = None
    source: Request | None = None
    since: float = 0.0
    has_ended: bool = False
    policy: OriginPolicy | None = None
    attempts: int = 0
    copy: CacheEntry | None = None
    validity_before: Validity | None = None
    failing_since: float | None = None
    was_cut: bool = False
    request: Request | None = None
    timed_from: float = 0.0
    interruption: Exception | None = None
    task: Cancellable | None = None
    waiters: list[Waiter[OriginPolicy | None]] = field(default_factory=list)

    async def result(self) -> OriginPolicy | None:
        """Wait for the policy. The fetch continues if the caller is cancelled."""
        if self.has_ended:
            return self.policy
        waiter: Waiter[OriginPolicy | None] = Waiter()
        self.waiters.append(waiter)
        return await waiter

    def can_use(self, copy: CacheEntry) -> bool:
        """Return whether a copy applies to the fetch's route.

        A copy that isn't for all routes is a failure of requests without a route.
        """
        return self.route is None or copy.for_all_routes

    def changes(self, outcome: Outcome) -> bool:
        """Return whether an outcome differs from the one before the fetch.

        If so, the stats and the summary count it.
        """
        before = self.validity_before
        return before is None or before.outcome is not outcome

    def interrupt(self, error: Exception) -> None:
        """Cancel the current attempt, so that `run_exchange` returns the given error."""
        self.interruption = error
        if self.task is not None:
            self.task.cancel()


class PendingFetches:
    """A crawl's fetches in progress.

    :param timeout: maximum seconds that a site may take per exchange.
    :param get: runs a fetch.
    :param on_error: returns the policy for a fetch that raised an exception.
    """

    def __init__(
        self,
        crawler: Crawler,
        timeout: float,
        get: Get,
        on_error: Callable[[PendingFetch, Exception], OriginPolicy],
    ) -> None:
        self._crawler = crawler
        self._timeout = timeout
        self._get = get
        self._on_error = on_error
        #: Called with each finished fetch, before everything waiting for it continues.
        self.on_end: Callable[[PendingFetch], object] = lambda _: None
        self._runtime = Runtime()
        self._max = max_fetches(crawler)
        #: The fetches in progress.
        self.fetches: dict[Origin, PendingFetch] = {}
        # The fetches that count towards the maximum. Those waiting for their next attempt don't.
        self._counted: set[PendingFetch] = set()
        # The fetches that are currently sending a request to their site.
        self._exchanging: set[PendingFetch] = set()
        #: Origins in line for their first fetch, as keys. `on_room` is called when there is room.
        self.line: OrderedDict[Origin, None] = OrderedDict()
        # Fetches in line for a further attempt.
        self._retries: deque[tuple[PendingFetch, Waiter[None]]] = deque()
        # Number of times that room was given so far. Every fourth time, it is for a retry.
        self._rooms_given = 0
        #: Starts a fetch for the first origin in line, if it still needs one.
        self.on_room: Callable[[Origin], object] = lambda _: None

    # Starting and ending fetches.

    def begin(self, origin: Origin, route: Route, source: Request | None = None) -> PendingFetch:
        """Start a fetch, even if that exceeds the maximum.

        The scheduler checks `has_room` first. A spider that needs a file never waits for room.
        """
        fetch = PendingFetch(origin, route, source, self._runtime.clock())
        self.fetches[origin] = fetch
        self.line.pop(origin, None)
        self.take_room(fetch)
        fetch.task = self._runtime.spawn(self._run(fetch))
        return fetch

    async def _run(self, fetch: PendingFetch) -> None:
        """Run a fetch, and end it with the resulting policy, even if the task is cancelled."""
        policy = None
        # Only kept if the task is cancelled, because asyncio's CancelledError isn't an Exception.
        error: Exception | None = RuntimeError("cancelled")
        try:
            policy = await self._get(fetch)
            error = None
        except Exception as raised:  # noqa: BLE001 - `on_error` logs it
            error = raised
        finally:
            if not fetch.has_ended:  # otherwise, `tick` or `cancel_all` ended it
                self._end(fetch, policy if error is None else self._on_error(fetch, error))

    def _end(self, fetch: PendingFetch, policy: OriginPolicy | None) -> None:
        """End a fetch and resume everything that is waiting for it, even if `on_end` raises."""
        fetch.has_ended = True
        fetch.policy = policy
        try:
            self.on_end(fetch)  # first, because it may count the requests that are waiting for it
        finally:
            del self.fetches[fetch.origin]
            for waiter in fetch.waiters:
                waiter.resolve(policy)
            self.leave(fetch)

    def cancel_all(self) -> None:
        """End all fetches without a policy, because the crawl is ending."""
        self._max = 0  # so that no other fetch starts
        for fetch in list(self.fetches.values()):
            if not fetch.has_ended:  # ending another fetch may have ended this one
                self._end(fetch, None)
                if fetch.task is not None:
                    fetch.task.cancel()

    # The maximum.

    def has_room(self) -> bool:
        """Return whether a fetch may start."""
        return len(self._counted) < self._max

    def take_room(self, fetch: PendingFetch) -> None:
        """Count a fetch, even if that exceeds the maximum, because its request can't wait."""
        if not fetch.has_ended:
            self._counted.add(fetch)

    async def enter(self, fetch: PendingFetch) -> None:
        """Wait until there is room for a fetch's next attempt, then count the fetch again."""
        _raise_if_ended(fetch)
        if self.has_room():
            self._counted.add(fetch)
            return
        entered: Waiter[None] = Waiter()
        self._retries.append((fetch, entered))
        await entered

    def leave(self, fetch: PendingFetch) -> None:
        """Stop counting a fetch, and give its room to the next in line."""
        self._counted.discard(fetch)
        if (self.line or self._retries) and not _scrapy.is_closing(self._crawler):
            self._give_rooms()

    def _give_rooms(self) -> None:
        """Let those in line start, as long as there is room.

        First attempts come before further ones, but every fourth room is for a further one.
        Otherwise new origins could keep these waiting forever. An origin may need no fetch any
        more, so this may take many steps. After `_MAX_GIVEN`, it continues in the next iteration.
        """
        for _ in range(_MAX_GIVEN):
            if not self.has_room() or not (self.line or self._retries):
                return
            self._rooms_given += 1
            is_for_retry = bool(self._retries) and self._rooms_given % _RETRY_EVERY == 0
            if self.line and not is_for_retry:
                origin, _ = self.line.popitem(last=False)
                self.on_room(origin)
            else:
                fetch, entered = self._retries.popleft()
                self.take_room(fetch)  # unless it has ended, because its task was cancelled
                entered.resolve(None)
        self._runtime.call_later(0, self._give_rooms)

    # Timeouts.

    async def run_exchange(
        self, fetch: PendingFetch, exchange: Coroutine[Any, Any, T]
    ) -> T | Exception:
        """Return an exchange's result or error, or the error that `tick` interrupts it with."""
        _raise_if_ended(fetch)
        self._start_clock(fetch)
        try:
            return await exchange
        except CANCELLED:
            if fetch.interruption is None:  # the crawl is ending
                raise
            self._runtime.forget_cancellation()  # only this attempt was interrupted
            return fetch.interruption
        except RobotsUndecided:  # the spider is closing, so it isn't the site's fault
            self.cancel_all()
            raise  # replaced below, because this fetch has ended now
        except Exception as error:  # noqa: BLE001 - errors are returned
            return error
        finally:
            self._exchanging.discard(fetch)
            fetch.request = None  # avoid a cycle, because its meta refers to the fetch
            _raise_if_ended(fetch)  # `tick` or `cancel_all` has ended it, so drop this result

    def _start_clock(self, fetch: PendingFetch) -> None:
        """Start the timeout for an exchange, which `tick` may interrupt from now on."""
        fetch.interruption = None
        fetch.timed_from = self._runtime.clock()
        self._exchanging.add(fetch)

    def tick(self) -> None:
        """Interrupt attempts that take too long, and end all fetches when the crawl ends.

        For each origin in line, cut a slow attempt short, but only once per fetch, so that a slow
        site gets the full timeout in the end.

        Called every `TICK` seconds. Time spent in a downloader slot's queue, or waiting for the
        site's turn, doesn't count. Usually the download handler times out first.
        """
        if _scrapy.is_closing(self._crawler):
            self.cancel_all()
            return
        now = self._runtime.clock()
        in_line = len(self.line)
        for fetch in list(self._exchanging):
            if self._is_unsent(fetch):
                fetch.timed_from = now
                continue
            seconds = now - fetch.timed_from
            is_late = seconds >= self._timeout + TICK
            if fetch.interruption is None:
                if is_late:
                    fetch.interrupt(TimeoutError())
                elif in_line and not fetch.was_cut and seconds >= CUT_AFTER:
                    in_line -= 1
                    fetch.interrupt(CUT_SHORT)
            elif fetch.interruption is not CUT_SHORT or is_late:  # after a cut, it may clean up
                # It was interrupted in an earlier call, but a middleware ignores the cancellation.
                # So don't wait for its task any longer.
                self._exchanging.discard(fetch)
                self._end(fetch, self._on_error(fetch, fetch.interruption))

    def _is_unsent(self, fetch: PendingFetch) -> bool:
        """Return whether the request can't have reached the site yet."""
        if fetch not in self._counted:  # it gave up its room to wait for its site's turn
            return True
        return fetch.request is not None and _scrapy.is_queued(self._crawler, fetch.request)


def _raise_if_ended(fetch: PendingFetch) -> None:
    """Stop a task if its fetch was ended while a middleware ignored the cancellation."""
    if fetch.has_ended:
        raise RuntimeError("the fetch has ended")


def max_fetches(crawler: Crawler) -> int:
    """Return the maximum number of concurrent fetches for a crawl.

    If pages and robots.txt files share connections, a quarter of them are reserved for pages.
    Otherwise, each fetch opens its own connection. These may use a quarter of the file descriptors.
    """
    concurrent_requests = crawler.settings.getint("CONCURRENT_REQUESTS")  # 0 means no limit
    limits = [MAX_FETCHES]
    if concurrent_requests:
        limits.append(_FETCHES_PER_REQUEST * concurrent_requests)
    if concurrent_requests and _scrapy.has_small_pool(crawler):
        limits.append(3 * concurrent_requests // 4)
    else:
        limits.append(descriptor_limit() // 4)
    return max(1, min(limits))
