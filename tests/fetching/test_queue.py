"""The fetch queue by itself: how many attempts at once, which comes next, when the next one is made, and the end."""

from __future__ import annotations

import math
import types
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.fetching.queue import LATE_TICK, MOST_ROUTES, PATIENCE, TICK, Attempted, FetchQueue, RouteWait
from scrapy_robots_rfc.settings import read_settings
from tests.support.policies import origin, policy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from scrapy_robots_rfc import settings
    from scrapy_robots_rfc.fetching.fetch import Attempt
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.fetching.queue import Result

TIMEOUT = 10_000.0


def limits() -> settings.Settings:
    """Settings with time for everything."""
    return replace(read_settings(Settings()), timeout=TIMEOUT)


class Hand(Runtime):
    """Time goes on when the test says so, and so do tasks."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Callable[[], object]] = []
        self.tasks: list[Coroutine[Any, Any, None]] = []

    def clock(self) -> float:
        """Return the test's time."""
        return self.now

    def call_later(self, delay: float, function: Callable[[], object]) -> Hand:
        """Keep it."""
        assert delay == TICK
        self.timers.append(function)
        return self

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Hand:
        """Begin it at once, as without asyncio."""
        self.tasks.append(coroutine)
        coroutine.send(None)
        return self

    def cancel(self) -> None:
        """A task that is cancelled goes on: nothing may count on its end."""

    def pass_time(self, seconds: float) -> None:
        """Let it pass, and call what is due, often enough that no tick is late."""
        while seconds > 0:
            step = min(seconds, LATE_TICK)
            seconds -= step
            self.stand_still(step)

    def stand_still(self, seconds: float) -> None:
        """Let time pass at once."""
        self.now += seconds
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()


@types.coroutine
def _told() -> Generator[None, Any, Any]:
    """Wait for what the test sends."""
    return (yield)


class Desk:
    """A queue whose attempts the test ends."""

    def __init__(self, limit: int = 10) -> None:
        self.runtime = Hand()
        self.closing = False
        self.under_way: dict[str, int] = {}
        self.asked: list[str] = []
        self.patience: dict[str, float] = {}
        self.told: list[tuple[str, str | None]] = []
        self.queued: list[object] = []

        class Few(FetchQueue):
            """A queue with so many fetches at once."""

            CONCURRENT = limit

        self.queue = Few(
            self.runtime,
            limits(),
            closing=lambda: self.closing,
            work=self.work,
            late=lambda _: None,
            queued=lambda: self.queued,
            settled=lambda _: None,
        )

    async def work(self, attempt: Attempt) -> Result:
        """Begin an attempt."""
        key, route = attempt.origin.host, attempt.pending.route.name
        self.asked.append(key if route is None else f"{key} {route}")
        self.patience[key] = math.inf if attempt.limit == TIMEOUT else attempt.limit
        self.under_way[key] = len(self.runtime.tasks) - 1
        result: Result = await _told()
        return result

    def ask(self, *keys: str, route: str | None = None) -> None:
        """Ask."""
        for key in keys:
            wait = self.queue.ask(origin(key), None, route)
            wait.listen(partial(self.tell, key if route is None else f"{key} {route}"))

    def tell(self, key: str, value: OriginPolicy | None) -> None:
        """Keep what was told."""
        self.told.append((key, None if value is None else value.cause))

    def go_on(self, key: str, result: Result) -> None:
        """End the work for a key."""
        with pytest.raises(StopIteration):
            self.runtime.tasks[self.under_way.pop(key)].send(result)

    def end(self, key: str, again: float | None = None) -> None:
        """End the attempt for a key."""
        self.go_on(key, Attempted(policy(key.upper()), again))

    def fail(self, key: str, value: str, again: float | None = None) -> None:
        """End the attempt for a key: its route failed."""
        self.go_on(key, Attempted(policy(value), again, alone=True))


def test_one_fetch_for_all() -> None:
    """Whoever asks meanwhile is told the same value, once."""
    desk = Desk()
    desk.ask("a", "a")
    desk.end("a")
    assert desk.asked == ["a"]
    assert desk.told == [("a", "A"), ("a", "A")]
    assert origin("a") not in desk.queue


def test_no_more_than_the_limit() -> None:
    """The next in line is served when one ends, first come, first served."""
    desk = Desk(limit=2)
    desk.ask("a", "b", "c", "d")
    assert desk.asked == ["a", "b"]
    desk.end("b")
    assert desk.asked == ["a", "b", "c"]


def test_again_after_the_delay() -> None:
    """An attempt is made again when its time has come, not before; nobody is told until the last one."""
    desk = Desk()
    desk.ask("a")
    desk.end("a", again=5)
    desk.runtime.pass_time(4.9)
    assert desk.asked == ["a"]
    desk.runtime.pass_time(0.1)
    assert desk.asked == ["a", "a"]
    assert desk.told == []
    desk.end("a")
    assert desk.told == [("a", "A")]


def test_new_ones_go_first() -> None:
    """One that has failed stands behind those that were never tried."""
    desk = Desk(limit=1)
    desk.ask("a")
    desk.end("a", again=1)
    desk.ask("b", "c")
    desk.runtime.pass_time(1)
    desk.end("b")
    desk.end("c")
    assert desk.asked == ["a", "b", "c", "a"]


def test_long_attempts_give_way_and_go_last() -> None:
    """From a quarter of the limit on, attempts have little patience, then more; one that gave way goes last."""
    desk = Desk(limit=4)
    desk.ask("a", "b", "c", "d", "e", "f", "g")
    assert [desk.patience[key] for key in "abcd"] == [math.inf, PATIENCE, PATIENCE, PATIENCE]
    desk.end("a", again=PATIENCE)
    desk.runtime.pass_time(PATIENCE - 0.1)
    assert desk.asked == ["a", "b", "c", "d", "e"]
    desk.runtime.pass_time(0.1)
    assert desk.asked == ["a", "b", "c", "d", "e", "f", "g", "b", "c"]
    desk.end("f")
    assert (desk.asked[-1], desk.patience["b"] > PATIENCE) == ("d", True)
    desk.end("g")
    desk.end("b")
    assert (desk.asked[-2:], desk.told) == (["e", "a"], [("f", "F"), ("g", "G"), ("b", "B")])


@pytest.mark.parametrize("limit", [1, 10])
def test_the_end_of_the_crawl(limit: int) -> None:
    """Whoever stands in line, waits for another attempt or is under way is told None; one timer looks, then none."""
    desk = Desk(limit=limit)
    desk.ask("a")
    desk.end("a", again=600)
    desk.ask("b", "c")
    assert len(desk.runtime.timers) == 1
    desk.closing = True
    desk.runtime.pass_time(TICK)
    assert sorted(desk.told) == [("a", None), ("b", None), ("c", None)]
    assert desk.runtime.timers == []


def test_attempts_that_end_at_once() -> None:
    """Without asyncio an attempt may end while it is made: a long line of those neither recurses nor stops."""
    desk, done = Desk(limit=1), policy("done")
    told: list[OriginPolicy | None] = []

    async def work(_: Attempt) -> Result:
        return Attempted(done)

    desk.ask("first")
    for number in range(5000):
        desk.queue.ask(origin(str(number))).listen(told.append)
    desk.queue._work = work
    desk.runtime.spawn = _spawn_at_once  # type: ignore[method-assign]
    desk.end("first")
    assert told == [done] * 5000


def _spawn_at_once(coroutine: Coroutine[Any, Any, None]) -> Hand:
    with pytest.raises(StopIteration):
        coroutine.send(None)
    return Hand()


def test_a_listener_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """One that raises keeps nobody else from being told."""
    desk = Desk()
    desk.queue.ask(origin("a")).listen(lambda _: 1 / 0)
    desk.ask("a")
    desk.end("a")
    assert desk.told == [("a", "A")]
    assert any(record.exc_info for record in caplog.records)


def test_an_attempt_that_cannot_be_made(caplog: pytest.LogCaptureFixture) -> None:
    """When not even the attempt begins, nobody waits for ever."""

    def fail(_attempt: object) -> Any:
        raise RuntimeError

    desk = Desk(limit=1)
    desk.queue._work = fail
    desk.runtime.spawn = _spawn_at_once  # type: ignore[method-assign]
    wait = desk.queue.ask(origin("a"))
    assert (wait.settled, wait.value) == (True, None)
    assert any(record.exc_info for record in caplog.records)


def test_time_that_does_not_count() -> None:
    """What stands in a queue of the downloader, or waits for the store, has its time before it still."""
    desk = Desk()
    seen: list[Attempt] = []

    async def work(attempt: Attempt) -> Result:
        seen.append(attempt)
        return await desk.work(attempt)

    desk.queue._work = work
    desk.ask("a")
    desk.queued.append(seen[0])
    desk.runtime.pass_time(TIMEOUT)
    desk.queued.clear()
    seen[0].aside = True
    desk.runtime.pass_time(TIMEOUT)
    seen[0].aside = False
    desk.runtime.pass_time(TIMEOUT - 1)
    assert desk.told == []
    desk.runtime.pass_time(1)
    assert desk.told == [("a", None)]


def test_next_route_at_once() -> None:
    """Where a route fails, the next attempt takes that of another who waits, and its value is for all."""
    desk = Desk()
    for route in ("1", "2", "3", "2"):
        desk.ask("a", route=route)
    desk.fail("a", "dead", again=9)
    assert desk.asked == ["a 1", "a 2"]
    desk.end("a")
    assert desk.told == [("a 1", "A"), ("a 2", "A"), ("a 2", "A"), ("a 3", "A")]


def test_each_route_is_told_its_own_failure() -> None:
    """Each is told what came of its own route, when each has had its attempts; a hopeless one has no second one."""
    desk = Desk()
    for route in ("1", "2", "3"):
        desk.ask("a", route=route)
    desk.fail("a", "first", again=5)
    desk.fail("a", "second")
    desk.fail("a", "third", again=5)
    assert desk.asked == ["a 1", "a 2", "a 3"]
    desk.runtime.pass_time(5)
    desk.fail("a", "first again", again=15)
    desk.runtime.pass_time(TICK)
    desk.fail("a", "third again")
    assert desk.asked[3:] == ["a 1", "a 3"]
    desk.runtime.pass_time(15)
    desk.fail("a", "first at last")
    assert desk.told == [("a 1", "first at last"), ("a 2", "second"), ("a 3", "third again")]
    desk.runtime.pass_time(1000)
    assert len(desk.asked) == 6


def test_attempts_of_each_route() -> None:
    """A route that has no attempt left uses up none of another one, and keeps it from none."""
    desk = Desk()
    for route in ("dead", "live"):
        desk.ask("a", route=route)
    desk.fail("a", "dead", again=5)
    desk.fail("a", "busy", again=5)
    desk.runtime.pass_time(5)
    desk.fail("a", "dead")
    desk.runtime.pass_time(TICK)
    assert desk.asked == ["a dead", "a live", "a dead", "a live"]
    desk.end("a")
    assert desk.told == [("a dead", "A"), ("a live", "A")]


def test_new_route_ends_the_delay() -> None:
    """Who brings a new route while the others wait for the next attempt is asked for at once, and only once."""
    desk = Desk()
    desk.ask("a", route="1")
    desk.fail("a", "dead", again=5)
    desk.ask("a", route="2")
    assert desk.asked == ["a 1", "a 2"]
    desk.runtime.pass_time(5)
    assert desk.asked == ["a 1", "a 2"]
    desk.end("a", again=5)
    desk.ask("a", route="3")
    assert desk.asked == ["a 1", "a 2"]  # that delay is the wish of the site
    desk.runtime.pass_time(5)
    assert desk.asked == ["a 1", "a 2", "a 2"]


def test_no_more_routes_than_that() -> None:
    """However many routes there are, some are tried; who would take another one is told what came of the last."""
    desk = Desk()
    names = [str(number) for number in range(MOST_ROUTES + 3)]
    for route in names:
        desk.ask("a", route=route)
    while origin("a") in desk.queue:
        desk.fail("a", f"by {len(desk.asked)}")
    assert len(desk.asked) == MOST_ROUTES
    assert [value for _, value in desk.told] == [f"by {min(n, MOST_ROUTES)}" for n in range(1, len(names) + 1)]


def test_credentials_of_a_route() -> None:
    """What is printed of those who wait has no route: it may hold credentials."""
    assert "pass" not in repr(RouteWait("a", "http://user:pass@p.example"))


def test_time_in_which_the_process_stands_still() -> None:
    """No attempt is late because this process was suspended: the answer may be there, and is read next."""
    desk = Desk(limit=4)
    desk.ask("a", "b", "c", "d", "e")
    desk.runtime.stand_still(2 * TIMEOUT)
    assert desk.asked == ["a", "b", "c", "d"]
    desk.runtime.pass_time(PATIENCE)
    assert desk.asked == ["a", "b", "c", "d", "e", "b", "c"]
