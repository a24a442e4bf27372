"""PendingFetch: a fetch under way, and the wait for it. `PendingFetches` has all of a crawl.

An origin has one at a time for each route: a proxy, an account of FTP, or neither. However it ends,
those who wait are released. `fetch.py` says how a file is got.
"""

from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc._runtime import Cancellable, Runtime, Waiter
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.fetching.download import Downloader
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin

#: What a fetch does to have its value; ``None``: the crawl ended first.
Way: TypeAlias = Callable[["PendingFetch"], Coroutine[Any, Any, OriginPolicy | None]]

T = TypeVar("T")

#: Fetches that ask their sites at once; the others stand in line.
MOST_AT_ONCE = 100
#: Seconds between two calls of `PendingFetches.tick`.
TICK = 0.25
# At most so many seconds between two ticks count: if the process stood still, the sites had no time
# to answer.
_LATE_TICK = 1.0
#: Seconds after which a fetch makes room if others stand in line; each time after it has longer.
PATIENCE = 5.0
_LONGER = 4

#: What `in_time` returns where a fetch gives its place to others.
PREEMPTED = RuntimeError("others come first now")


@dataclass(slots=True, eq=False, repr=False)
class PendingFetch:
    """A fetch that is under way, and the wait for its value.

    :param route: of the requests that it is for (see `download.py`), which may contain credentials;
        or the file and the agent for which that is read on the thread.
    :param source: the request for which it began.
    :param value: what is known when it is over; ``None``: the crawl ended first.
    :param attempts: how many have failed that are followed by another one.
    :param copy: the newest copy of the file, fresh or not.
    :param before: what governed these requests before; ``None``: nothing did.
    :param last: what the last attempt gave.
    :param paused: whether its request waits for the turn of its site.
    :param preempted: how often it gave its place to others.
    :param spent: seconds that count against ROBOTS_TIMEOUT; `looked`: when they were counted last.
    """

    origin: Origin
    route: Hashable = None
    source: Request | None = None
    since: float = 0.0
    over: bool = False
    value: OriginPolicy | None = None
    attempts: int = 0
    copy: CacheEntry | None = None
    before: Validity | None = None
    last: Validity | None = None
    paused: bool = False
    preempted: int = 0
    spent: float = 0.0
    looked: float = 0.0
    task: Cancellable | None = None
    waiters: list[Waiter[OriginPolicy | None]] = field(default_factory=list)

    async def result(self) -> OriginPolicy | None:
        """Wait for the value."""
        return await self.waiter()

    def waiter(self) -> Waiter[OriginPolicy | None]:
        """Return what gets the value when the fetch is over; to give it up does not end that."""
        waiter: Waiter[OriginPolicy | None] = Waiter()
        if self.over:
            waiter.resolve(self.value)
        self.waiters.append(waiter)
        return waiter

    def suits(self, copy: CacheEntry) -> bool:
        """Whether a copy decides for the requests of this fetch: one of another route may not."""
        return self.route is None or copy.for_all

    def changes(self, outcome: Outcome) -> bool:
        """Whether something else governed before, or nothing."""
        return self.before is None or self.before.outcome is not outcome


class Crawl(Protocol):
    """What the middleware gives this room to call."""

    def agent(self) -> Agent:
        """Return the agent of requests that bring none; may raise what the spider raises."""

    def sent(self, request: Request) -> None:
        """Note that a request of ours was sent, and is answered, or not waited for any more."""

    def found(self, robots: OriginPolicy) -> None:
        """Note what governs an origin from now on, or paces the request for its next file."""

    def over(self, fetch: PendingFetch) -> None:
        """Note that a fetch has ended, just before those who wait go on."""


class PendingFetches:
    """The pending fetches of a crawl.

    :param timeout: seconds that a fetch may wait for its site.
    :param failed: makes the value of a fetch that raised an exception.
    """

    def __init__(
        self,
        crawler: Crawler,
        crawl: Crawl,
        download: Downloader,
        timeout: float,
        failed: Callable[[PendingFetch, Exception], OriginPolicy],
    ) -> None:
        self._crawler = crawler
        self._crawl = crawl
        self._download = download
        self._timeout = timeout
        self._failed = failed
        self._runtime = Runtime()
        self._pending: dict[Origin, dict[Hashable, PendingFetch]] = {}
        self._places: set[PendingFetch] = set()
        self._first: deque[tuple[PendingFetch, Waiter[None]]] = deque()
        self._later: deque[tuple[PendingFetch, Waiter[None]]] = deque()
        self._serving = False
        self._bounded: dict[PendingFetch, Waiter[Any]] = {}  # those whose time runs

    # Beginning and end.

    def of(self, origin: Origin, route: Hashable) -> PendingFetch | None:
        """Return the one of an origin and a route; ``None``: there is none."""
        return self._pending.get(origin, {}).get(route)

    def begin(
        self, origin: Origin, route: Hashable, way: Way, source: Request | None = None
    ) -> PendingFetch:
        """Begin one. Without asyncio it may be over already, if it had to wait for nothing."""
        fetch = PendingFetch(origin, route, source, self._runtime.clock())
        self._pending.setdefault(origin, {})[route] = fetch
        fetch.task = self._runtime.spawn(self._run(fetch, way))
        return fetch

    async def _run(self, fetch: PendingFetch, way: Way) -> None:
        value = None
        error: Exception | None = RuntimeError("cancelled")
        try:
            value = await way(fetch)
            error = None
        except Exception as raised:  # noqa: BLE001 - `failed` logs it
            error = raised
        finally:
            if not fetch.over:
                self._end(fetch, value if error is None else self._failed(fetch, error))

    def _end(self, fetch: PendingFetch, value: OriginPolicy | None) -> None:
        """Take a fetch out, and release those who wait, whatever is raised meanwhile."""
        fetch.over = True
        fetch.value = value
        of_origin = self._pending[fetch.origin]
        del of_origin[fetch.route]
        if not of_origin:
            del self._pending[fetch.origin]
        try:
            self.free_place(fetch)
            self._crawl.over(fetch)
        finally:
            for waiter in fetch.waiters:
                waiter.resolve(value)

    def cancel(
        self, origin: Origin, value: OriginPolicy | None, but: PendingFetch | None = None
    ) -> None:
        """End those of an origin with a value, whatever their routes; one of them may go on."""
        for fetch in list(self._pending.get(origin, {}).values()):
            if fetch is not but and not fetch.over:  # the end of another one may have ended it
                self._end(fetch, value)
                if fetch.task is not None:
                    fetch.task.cancel()

    def cancel_all(self) -> None:
        """End all, without a value: the crawl ends."""
        for origin in list(self._pending):
            self.cancel(origin, None)

    # Places. First attempts come first, then those that were preempted, and further attempts.

    async def place(self, fetch: PendingFetch) -> None:
        """Stand in line for a place."""
        if len(self._places) < MOST_AT_ONCE and not self._serving:
            self._places.add(fetch)
            return
        served: Waiter[None] = Waiter()
        line = self._later if fetch.attempts or fetch.preempted else self._first
        line.append((fetch, served))
        await served

    def free_place(self, fetch: PendingFetch) -> None:
        """Give up the place of a fetch, if it has one, and have the next one in line take it."""
        self._places.discard(fetch)
        # Without asyncio a fetch may end while it is served: the loop that runs then goes on.
        if self._serving:
            return
        self._serving = True
        while (line := self._first or self._later) and len(self._places) < MOST_AT_ONCE:
            following, served = line.popleft()
            if not following.over:
                self._places.add(following)
                served.resolve(None)
        self._serving = False

    # Time.

    async def in_time(
        self, fetch: PendingFetch, work: Coroutine[Any, Any, T], *, cancels: bool = True
    ) -> T | Exception:
        """Return what some work gives or raises, or what `tick` answers in its place.

        The work has a task of its own: what cannot be cancelled goes on alone.

        :param cancels: whether work that is not waited for any more is cancelled.
        """
        answer: Waiter[T | Exception] = Waiter()
        fetch.looked = self._runtime.clock()
        self._bounded[fetch] = answer
        task = self._runtime.spawn(_into(answer, work))
        try:
            return await answer
        finally:
            del self._bounded[fetch]
            if cancels:
                task.cancel()

    def tick(self) -> None:
        """End what takes too long, and all when the crawl ends. To be called every `TICK` seconds.

        Time in a queue of the downloader, or until the turn of the site, does not count. Usually a
        download handler ends a transfer before.
        """
        if _scrapy.is_closing(self._crawler):
            self.cancel_all()
            return
        queued = self._download.queued() if self._bounded else ()
        now = self._runtime.clock()
        in_line = len(self._first) + len(self._later)
        for fetch, answer in list(self._bounded.items()):
            if fetch not in queued and not fetch.paused:
                fetch.spent += min(now - fetch.looked, _LATE_TICK)
            fetch.looked = now
            impatient = fetch.spent >= PATIENCE * _LONGER**fetch.preempted
            if fetch.spent >= self._timeout + TICK:
                answer.resolve(TimeoutError())
            elif in_line and impatient and fetch in self._places:
                in_line -= 1
                answer.resolve(PREEMPTED)


async def _into(answer: Waiter[T | Exception], work: Coroutine[Any, Any, T]) -> None:
    """Hand over what some work gives or raises."""
    result: T | Exception = TimeoutError()  # where it is cancelled from outside
    try:
        result = await work
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is a result
        result = error
    finally:
        answer.resolve(result)
