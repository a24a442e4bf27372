"""The robots.txt fetches in progress.

Each origin has at most one fetch at a time, even if its requests use different routes. Everything
that is waiting for a fetch continues when it ends, for whatever reason. The steps of a fetch are in
`service.py`.
"""

from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
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

#: Maximum number of fetches that have room. It is lower if CONCURRENT_REQUESTS is small. More would
#: time out while they wait for host names, because Twisted looks up only ten at a time by default.
MAX_FETCHES = 256
# The same as a multiple of CONCURRENT_REQUESTS. A fetch mostly waits for its site, so it needs far
# fewer resources than a page.
_ROOMS_PER_PAGE = 16
# Maximum number of places in the line to look at in one iteration of the event loop.
_MAX_LOOKS = 20

#: Seconds after which an exchange loses its room. It continues, but another fetch may start, so
#: sites that hang don't keep the others waiting for long.
ROOM_TIME = 10.0

#: Seconds between calls to `PendingFetches.tick`.
TICK = 0.25


@dataclass(slots=True, eq=False, repr=False)
class PendingFetch:
    """A fetch, which is in progress until it `has_ended`.

    :param page: the request that it was started for, or `None`.
    :param route: the route of that request (see `routes.py`), which may contain credentials.
    :param since: when it started.
    :param policy: the result, or `None` if the crawl ended first.
    :param attempts: number of failed attempts so far that are followed by a retry.
    :param entry: the newest entry of the origin, fresh or not.
    :param validity_before: the validity of the policy before the fetch, or `None` if there was
        none.
    :param failing_since: when the file was first found to be unreachable, if this fetch has failed
        before.
    :param request: the robots.txt request that is in the downloader, which `Downloader` sets.
    :param waits_for_turn: True while that request waits for its site's turn.
    :param timed_from: when the timeout for the current exchange started.
    :param is_late: True if `tick` has cancelled the current exchange.
    :param doubtful_timeouts: number of timeouts that may have been waits for a connection.
    """

    origin: Origin
    route: Route = None
    page: Request | None = None
    since: float = 0.0
    has_ended: bool = False
    policy: OriginPolicy | None = None
    attempts: int = 0
    entry: CacheEntry | None = None
    validity_before: Validity | None = None
    failing_since: float | None = None
    request: Request | None = None
    waits_for_turn: bool = False
    timed_from: float = 0.0
    is_late: bool = False
    doubtful_timeouts: int = 0
    task: Cancellable | None = None
    waiters: list[Waiter[OriginPolicy | None]] = field(default_factory=list)

    async def result(self) -> OriginPolicy | None:
        """Wait for the policy. The fetch continues if the caller is cancelled."""
        if self.has_ended:
            return self.policy
        waiter: Waiter[OriginPolicy | None] = Waiter()
        self.waiters.append(waiter)
        return await waiter

    def can_use(self, entry: CacheEntry) -> bool:
        """Return whether an entry applies to the fetch's route.

        One that isn't for all routes is a failure of requests without a route.
        """
        return self.route is None or entry.for_all_routes

    def changes(self, outcome: Outcome) -> bool:
        """Return whether an outcome differs from the one before the fetch.

        If so, the stats and the summary count it.
        """
        before = self.validity_before
        return before is None or before.outcome is not outcome


class PendingFetches:
    """A crawl's fetches in progress.

    Each fetch is in one of these stages, which may repeat:

    - It starts, or looks in the store: with room at first, and without room after a sleep.
    - It is in line for its next exchange: in `line`, without room.
    - Its request has been sent: exchanging and connected, with room for up to `ROOM_TIME`.
    - Its request waits in a slot's queue, or for its site's turn: exchanging, without room.
    - It sleeps before another attempt, or while another worker has the file's lock, or waits for
      signal handlers: without room.
    - It has ended, and is not in any of the sets.

    :param timeout: maximum seconds that a site may take per exchange.
    :param get: runs a fetch.
    :param on_error: returns the policy for a fetch that raised an exception. Must not raise.
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
        self._max_connections = max_connections(crawler)
        #: The fetches in progress.
        self.fetches: dict[Origin, PendingFetch] = {}
        # The fetches that have room.
        self._with_room: set[PendingFetch] = set()
        # The fetches with an exchange in progress, and those of them that may have a connection,
        # because they aren't known to wait for a turn or in a slot's queue.
        self._exchanging: set[PendingFetch] = set()
        self._connected: set[PendingFetch] = set()
        #: The line for room. An origin's value is `None` if its fetch hasn't started, so `on_room`
        #: will be called. Otherwise, the fetch waits for room for its next exchange.
        self.line: OrderedDict[Origin, Waiter[None] | None] = OrderedDict()
        #: Starts a fetch for an origin that was in line, if it still needs one.
        self.on_room: Callable[[Origin], object] = lambda _: None

    # Starting and ending fetches.

    def begin(self, origin: Origin, route: Route, page: Request | None = None) -> PendingFetch:
        """Start a fetch, even if that exceeds the maximum.

        The scheduler checks `has_room` first. Requests in the middleware, and spiders, don't wait
        for room.
        """
        fetch = PendingFetch(origin, route, page, self._runtime.clock())
        self.fetches[origin] = fetch
        self.line.pop(origin, None)
        self._with_room.add(fetch)
        fetch.task = self._runtime.spawn(self._run(fetch))
        return fetch

    async def _run(self, fetch: PendingFetch) -> None:
        """Run a fetch, and end it with the resulting policy, even if the task is cancelled."""
        policy = None
        # Stays if something else cancels the task, because asyncio's CancelledError isn't an
        # Exception.
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
        self.line.pop(fetch.origin, None)
        self._exchanging.discard(fetch)
        self._connected.discard(fetch)
        try:
            # First, because it may count the requests that are waiting for the fetch. Those that it
            # wakes leave the queue in a later iteration.
            self.on_end(fetch)
        finally:
            del self.fetches[fetch.origin]
            for waiter in fetch.waiters:
                waiter.resolve(policy)
            self.leave(fetch)

    def cancel_all(self) -> None:
        """End all fetches without a policy, because the crawl is ending."""
        self._max = 0  # so that nothing in the line starts
        for fetch in list(self.fetches.values()):
            if not fetch.has_ended:  # ending another fetch may have ended this one
                self._end(fetch, None)
                if fetch.task is not None:
                    fetch.task.cancel()

    # Room.

    def has_room(self) -> bool:
        """Return whether a fetch may start."""
        if len(self._with_room) >= self._max:
            return False
        # Exchanges that have lost their room still have a connection.
        return len(self._with_room | self._connected) < self._max_connections

    def get_in_line(self, origin: Origin, *, first: bool) -> None:
        """Put an origin in line for its fetch.

        :param first: True to put it first, because other workers take its turn if it waits long.
        """
        self.line[origin] = None
        self.line.move_to_end(origin, last=not first)

    async def _enter(self, fetch: PendingFetch) -> None:
        """Wait until there is room for a fetch's next exchange, unless the fetch still has room."""
        if fetch in self._with_room:
            return
        if self.has_room():
            self._with_room.add(fetch)
            return
        room: Waiter[None] = Waiter()
        self.line[fetch.origin] = room
        await room  # `_give_rooms` resolves it

    def leave(self, fetch: PendingFetch) -> None:
        """Give a fetch's room to the next in line."""
        self._with_room.discard(fetch)
        self._give_rooms()

    def _give_rooms(self) -> None:
        """Let those in line start, as long as there is room.

        An origin may need no fetch any more, so this may take many steps. After `_MAX_LOOKS`, it
        continues in the next iteration. When the spider closes, those in line stay there, because
        `Gate.count_waiting` counts them.
        """
        for _ in range(_MAX_LOOKS):
            if not self.line or not self.has_room() or _scrapy.is_closing(self._crawler):
                return
            origin, room = self.line.popitem(last=False)
            if room is None:
                self.on_room(origin)
            else:
                self._with_room.add(self.fetches[origin])
                # Not in this call, because the fetch may call `leave`, and so this method again.
                self._runtime.call_later(0, partial(room.resolve, None))
        self._runtime.call_later(0, self._give_rooms)

    # Timeouts.

    async def run_exchange(
        self, fetch: PendingFetch, exchange: Coroutine[Any, Any, T]
    ) -> T | Exception:
        """Return an exchange's result or error, or a `TimeoutError` if `tick` cancels it.

        If this raises, the fetch has ended, or something else has cancelled its task.
        """
        fetch.is_late = False
        result: T | Exception
        try:
            await self._enter(fetch)
            fetch.timed_from = self._runtime.clock()
            self._exchanging.add(fetch)
            self._connected.add(fetch)
            result = await exchange
        except CANCELLED:
            if not fetch.is_late:  # the crawl is ending
                raise
            self._runtime.forget_cancellation()  # only this exchange was cancelled
            result = TimeoutError()
        except Exception as error:  # noqa: BLE001 - errors are returned
            if isinstance(error, RobotsUndecided):  # the spider closed while it waited for a turn
                self.cancel_all()  # as in `tick`, so that this one isn't taken for a failure
            result = error
        finally:
            exchange.close()  # if it hasn't started
            self._exchanging.discard(fetch)
            self._connected.discard(fetch)  # `leave` follows when the fetch sleeps or ends
            fetch.request = None  # avoid a cycle, because its meta refers to the fetch
        # `tick` or `cancel_all` ended it while a middleware ignored the cancellation.
        if fetch.has_ended:
            raise RuntimeError("the fetch has ended")  # `_run` ignores it
        return result

    def tick(self) -> None:
        """Cancel exchanges that take too long, and end all fetches when the crawl ends.

        Called every `TICK` seconds. While a request waits for its site's turn, or in a downloader
        slot's queue, its timeout doesn't run, and its fetch needs no room. Usually the download
        handler times out first.
        """
        if _scrapy.is_closing(self._crawler):
            self.cancel_all()
            return
        now = self._runtime.clock()
        requests = [fetch.request for fetch in self._exchanging if fetch.request is not None]
        queued = _scrapy.queued_requests(self._crawler, requests)
        for fetch in list(self._exchanging):
            if fetch not in self._exchanging:  # without asyncio, this loop may have ended it
                continue
            if fetch.waits_for_turn or fetch.request in queued:
                fetch.timed_from = now
                self._connected.discard(fetch)
                self.leave(fetch)
                continue
            self._connected.add(fetch)
            seconds = now - fetch.timed_from
            if seconds >= ROOM_TIME:  # also in later ticks, which is harmless
                self.leave(fetch)
            if seconds < self._timeout + TICK:  # later than the handler's own timeout
                continue
            if fetch.is_late:
                # A middleware ignores the cancellation. So don't wait for the task any longer.
                self._end(fetch, self._on_error(fetch, TimeoutError()))
            else:
                fetch.is_late = True
                if fetch.task is not None:
                    fetch.task.cancel()


def max_fetches(crawler: Crawler) -> int:
    """Return the maximum number of fetches that have room in a crawl."""
    concurrent_requests = crawler.settings.getint("CONCURRENT_REQUESTS")  # 0 means no limit
    return min(MAX_FETCHES, _ROOMS_PER_PAGE * concurrent_requests or MAX_FETCHES)


def max_connections(crawler: Crawler) -> int:
    """Return the maximum number of connections for fetches, with or without room.

    If pages and robots.txt files share a pool of CONCURRENT_REQUESTS connections, a quarter of it
    is reserved for pages. Otherwise, fetches may use half of the file descriptors.
    """
    pool_size = _scrapy.small_pool_size(crawler)
    return max(1, 3 * pool_size // 4 if pool_size else descriptor_limit() // 2)
