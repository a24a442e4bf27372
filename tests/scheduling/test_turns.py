"""The turns that workers take at a site: what the site sees, and what the store is asked.

The workers and their clock are simulated, without waiting and threads. Requests to the site and to
the store take time, and workers may die. The package decides the turns.
"""

from __future__ import annotations

import datetime
import heapq
import types
from collections import Counter
from dataclasses import replace
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.core.agents import NO_AGENT
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.pacing import pace_of_number
from scrapy_robots_rfc.scheduling.paced_site import PacedSite, Turns
from scrapy_robots_rfc.scheduling.shared import EXTEND_EVERY, TURN_TIMEOUT, SharedTurns
from tests.support.entries import policy
from tests.support.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from scrapy_robots_rfc.cache.client import CacheClient

SITE = Origin("https", "example.com", 443)


class Timer:
    """A scheduled call."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function: Callable[[], object] | None = function

    def cancel(self) -> None:
        self.function = None


class World:
    """The clock and the store that all workers share, and the site.

    Its `arrivals` are the time of each request that reached the site, and the worker.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.arrivals: list[tuple[float, str]] = []
        self.store = MemoryStore(now=lambda: self.now)
        self._timers: list[tuple[float, int, Timer]] = []
        self._number = count()

    def later(self, delay: float, function: Callable[[], object]) -> Timer:
        """Call a function after a delay in seconds."""
        timer = Timer(function)
        heapq.heappush(self._timers, (self.now + delay, next(self._number), timer))
        return timer

    def run(self, until: float) -> None:
        """Advance the clock, and make the calls that are due."""
        while self._timers and self._timers[0][0] <= until:
            self.now, _, timer = heapq.heappop(self._timers)
            if timer.function is not None:
                timer.function()
        self.now = until

    def gaps(self) -> list[float]:
        """Return the seconds between successive requests that reached the site."""
        times = sorted(when for when, _ in self.arrivals)
        return [after - before for before, after in pairwise(times)]


class Worker(Runtime):
    """A crawl with endless requests to the site. It replaces the runtime and the cache client.

    :param way: seconds that a request takes to the site; the answer takes the same time.
    :param latency: seconds that a call takes to the store; the answer takes the same time.
    """

    def __init__(
        self, world: World, name: str, interval: float = 1.0, way: float = 0.1, latency: float = 0.0
    ) -> None:
        self.world, self.name = world, name
        self.interval, self.way, self.latency = interval, way, latency
        self.alive, self.works, self.left = True, True, 10**9
        self.calls: list[str] = []
        self.turns = SharedTurns(cast("CacheClient", self), self, SITE, self.go)

    # The interface of a runtime.

    def clock(self) -> float:
        return self.world.now

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        """Call a function later, unless the worker dies."""
        return self.world.later(delay, lambda: function() if self.alive else None)

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> Cancellable:
        self._go_on(coroutine)
        return Timer(lambda: None)

    def _go_on(self, coroutine: Coroutine[Any, Any, object]) -> None:
        try:
            pause = coroutine.send(None)
        except StopIteration:
            return
        self.call_later(pause, lambda: self._go_on(coroutine))

    # The interface of a cache client.

    async def take_turn(self, origin: Origin, seconds: float) -> float | None:
        wait: float | None = await self._ask(
            "take", lambda: self.world.store.take_turn(str(origin), self.name, seconds)
        )
        assert (
            wait is None or wait <= 66.0
        )  # the longest interval, and the grace period of the store
        return wait

    async def end_turn(self, origin: Origin, interval: float) -> None:
        """Tell the store that the turn has ended."""
        await self._ask("end", lambda: self.world.store.end_turn(str(origin), self.name, interval))

    async def _ask(self, call: str, function: Callable[[], Any]) -> Any:
        self.calls.append(call)
        if not self.works:
            return None
        if self.latency:
            await pause(self.latency)
        value = function()
        if self.latency:
            await pause(self.latency)
        return value

    # The requests of the crawl.

    def die(self) -> None:
        self.alive = False

    def go(self) -> None:
        """Send the next request at its turn."""
        if not self.alive or not self.left:
            return
        now = self.world.now
        turn = self.turns.wait(self.interval, now)
        if turn is None:
            return
        if turn:
            self.call_later(turn, self.go)
            return
        self.send()

    def send(self) -> None:
        request = object()
        self.left -= 1
        self.turns.start(request)
        self.world.later(self.way, lambda: self.world.arrivals.append((self.world.now, self.name)))
        self.call_later(2 * self.way, lambda: self._answered(request))

    def _answered(self, request: object) -> None:
        self.turns.answered(request, self.interval, self.world.now)
        self.go()


@types.coroutine
def pause(seconds: float) -> Generator[float, None, None]:
    """Suspend a coroutine of a worker."""
    yield seconds


# Allowed rounding error.
NEARLY = 1e-9


@pytest.fixture
def world() -> World:
    """A site without any request yet."""
    return World()


@pytest.mark.parametrize("latency", [0.0, 0.01, 0.3, 2.0])
@pytest.mark.parametrize("way", [0.001, 0.4, 7.0])
def test_interval_over_all(world: World, latency: float, way: float) -> None:
    """Requests are an interval apart at any latency, and every worker proceeds."""
    workers = [Worker(world, str(number), way=way, latency=latency) for number in range(4)]
    for worker in workers:
        worker.go()
    world.run(400)
    assert min(world.gaps()) >= 1 - NEARLY
    seen = Counter(name for _, name in world.arrivals)
    assert len(seen) == 4
    assert max(seen.values()) - min(seen.values()) <= 1 + max(seen.values()) // 4


#: Start, time to the site, time to the store, number of requests, and time of death; in seconds.
WORKERS = st.lists(
    st.tuples(
        st.floats(0, 5),
        st.floats(0.001, 10),
        st.floats(0, 1),
        st.integers(1, 20),
        st.one_of(st.none(), st.floats(0, 60)),
    ),
    min_size=2,
    max_size=5,
)


@given(WORKERS, st.sampled_from([0.01, 1.0, 5.0, 50.0]))
def test_interval_whenever_workers_die(
    workers: list[tuple[float, float, float, int, float | None]], interval: float
) -> None:
    """Requests to the site, even of dead workers, are never closer than the interval."""
    world = World()
    for number, (begin, way, latency, requests, dies) in enumerate(workers):
        worker = Worker(world, str(number), interval, way, latency)
        worker.left = requests
        world.later(begin, worker.go)
        if dies is not None:
            world.later(dies, worker.die)
    world.run(1000)
    assert world.arrivals or all(dies is not None for *_, dies in workers)
    assert min(world.gaps(), default=interval) >= interval - 1e-9


def test_unanswered_for_long(world: World) -> None:
    """A turn is kept as long as its request is unanswered."""
    slow, other = Worker(world, "slow", way=4 * TURN_TIMEOUT), Worker(world, "other")
    slow.go()
    other.go()
    world.run(8 * TURN_TIMEOUT + 0.9)
    assert world.arrivals == [(4 * TURN_TIMEOUT, "slow")]
    world.run(8 * TURN_TIMEOUT + 3)
    assert world.arrivals[1][1] == "other"


@pytest.mark.parametrize("died", [0.01, EXTEND_EVERY - 0.01, 3 * EXTEND_EVERY + 0.01])
@pytest.mark.parametrize("interval", [1.0, 50.0])
def test_worker_that_dies(world: World, died: float, interval: float) -> None:
    """The turn of a worker that dies expires, and the interval passes after its last request."""
    worker, other = Worker(world, "one", interval, way=died), Worker(world, "other", interval)
    worker.go()
    other.go()
    world.run(died)
    worker.die()
    world.run(died + TURN_TIMEOUT + interval + 2)
    assert [name for _, name in world.arrivals][:2] == ["one", "other"]
    assert min(world.gaps()) >= interval


def test_store_fails(world: World) -> None:
    """While the store fails, each worker keeps its own interval; afterwards they share one."""
    workers = [Worker(world, name, latency=0.001) for name in "ab"]
    for worker in workers:
        worker.works = False
        worker.go()
    world.run(20)
    for name in "ab":
        times = [when for when, whose in world.arrivals if whose == name]
        assert len(times) > 10
        assert min(after - before for before, after in pairwise(times)) >= 1
    for worker in workers:
        worker.works = True
    world.run(22)
    world.arrivals.clear()
    world.run(60)
    assert len(world.arrivals) > 20
    assert min(world.gaps()) >= 1 - NEARLY


def test_store_fails_while_a_turn_goes_on(world: World) -> None:
    """A worker whose turn cannot be renewed continues at its own interval."""
    worker = Worker(world, "one", way=2 * TURN_TIMEOUT, latency=0.001)
    worker.go()
    world.run(1)
    worker.works = False
    world.run(100)
    assert len(world.arrivals) == 2


def test_turn_that_no_request_uses(world: World) -> None:
    """A turn that no request uses is released."""
    idle, other = Worker(world, "idle", latency=0.01), Worker(world, "other")
    idle.go()
    idle.left = 0
    world.run(0.015)
    other.go()
    world.run(EXTEND_EVERY + 3)
    assert [name for _, name in world.arrivals][:1] == ["other"]
    assert idle.calls == ["take", "end"]
    world.run(100)
    assert idle.calls == ["take", "end"]


def test_turn_that_was_taken_too_long_ago(world: World) -> None:
    """A worker that stood still takes its unused turn again before it uses it."""
    worker = Worker(world, "one", latency=0.01)
    assert worker.turns.wait(1.0, world.now) is None
    worker.left = 0
    world.run(1)
    assert worker.turns.wait(1.0, world.now) == 0
    world.now += TURN_TIMEOUT + 1  # without a call of its timer
    assert worker.turns.wait(1.0, world.now) is None
    assert worker.calls == ["take", "take"]


def test_turn_that_was_lost(world: World) -> None:
    """A worker whose turn another worker has now does not use it."""
    one, other = Worker(world, "one"), Worker(world, "other")
    assert one.turns.wait(1.0, world.now) == 0
    one.turns.start("request")
    world.store.forget_turns()
    assert other.turns.wait(1.0, world.now) == 0
    other.turns.start("another")
    world.run(EXTEND_EVERY)
    one.turns.unused("request")
    assert one.turns.wait(1.0, world.now) != 0


def test_request_for_robots_txt(world: World) -> None:
    """The interval passes after a request that was sent before it was known."""
    one, other = Worker(world, "one"), Worker(world, "other")
    one.turns.ended_without_turn(world.now, 10)
    other.go()
    world.run(30)
    assert world.arrivals[0][0] >= 10


def test_sent_during_a_turn(world: World) -> None:
    """A request without a turn does not end a turn, and its interval passes."""
    worker, other = Worker(world, "one"), Worker(world, "other")
    assert worker.turns.wait(1.0, world.now) == 0
    worker.turns.ended_without_turn(world.now, 30.0 - world.now)
    assert worker.calls == ["take"]
    other.go()
    world.run(60)
    assert world.arrivals[0][0] >= 30


@pytest.mark.parametrize("before", [9.0, 11.0])
def test_sent_while_the_store_is_asked(world: World, before: float) -> None:
    """The interval passes after a request that is sent while a turn is being taken."""
    worker, other = Worker(world, "one", latency=0.01), Worker(world, "other")
    world.store.end_turn(str(SITE), "other", 10)
    world.now = before
    assert worker.turns.wait(1.0, world.now) is None
    worker.turns.ended_without_turn(world.now, 30.0 - world.now)
    worker.left = 0
    world.later(1, other.go)
    world.run(60)
    assert world.arrivals[0][0] >= 30


def test_answer_to_a_request_without_a_turn(world: World) -> None:
    """The end of a request without a turn does not end the turn of another request."""
    worker, other = Worker(world, "one", way=5), Worker(world, "other")
    worker.go()
    other.go()
    worker.turns.start("another")
    worker.turns.answered("another", 1.0, world.now)
    world.run(4)
    assert worker.calls == ["take"]
    fresh = Worker(World(), "fresh")
    fresh.turns.answered("another", 1.0, 0.0)
    assert fresh.world.store.take_turn(str(SITE), "somebody", TURN_TIMEOUT) > 0.9


def test_end_of_the_crawl(world: World) -> None:
    """At its end, a crawl releases its turn and stops using the store."""
    worker, other = Worker(world, "one"), Worker(world, "other", latency=0.001)
    assert worker.turns.wait(1.0, world.now) == 0
    worker.turns.close()
    worker.turns.close()
    other.go()
    world.run(0.2)
    assert [name for _, name in world.arrivals] == ["other"]
    world.run(3 * EXTEND_EVERY)
    assert worker.calls == ["take", "end"]


def test_request_waits_an_interval_from_the_last_answer() -> None:
    """A request waits for the answer to the previous one, and for the interval after that answer
    began.
    """
    turns = Turns()
    turns.last = 10.0
    assert (turns.wait(5, 12.0), turns.wait(0, 12.0), turns.outstanding) == (3.0, 0, 0)
    turns.start("a")
    assert (turns.wait(5, 99.0), turns.outstanding) == (None, 1)
    turns.answered("a", 5, 100.0)
    assert (turns.wait(5, 101.0), turns.wait(0, 101.0), turns.outstanding) == (4.0, 0, 0)
    assert turns.wait(5, 105.0) == 0
    assert Turns().wait(1e9, 0.0) == 0


@pytest.mark.parametrize("outcome", [Outcome.UNREACHABLE, Outcome.LOCAL])
def test_interval_after_a_failed_refresh(outcome: Outcome) -> None:
    """If the refresh of a robots.txt fails, the interval of the last file still applies."""
    pace = pace_of_number(10.0)
    assert pace is not None
    site = PacedSite(SITE, Turns(), paces={pace: NO_AGENT})
    site.update(replace(policy("failed", outcome=outcome), fetched=1.0))
    assert site.interval(datetime.time()) == 10
