"""Single flight by itself: however the work ends, everybody who waits gets a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred, DeferredList

from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc.fetching.flights import Flight, Flights
from tests.scrapy.scripted import next_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy_robots_rfc._runtime import Cancellable

pytestmark = pytest.mark.reactor


async def join(
    flights: Flights[str], work: Callable[[Flight[str]], Coroutine[Any, Any, str]], expire: Callable[[], str]
) -> str | None:
    """Wait for the value of the key."""
    waiter: Waiter[str | None] = Waiter()
    flights.watch("key", work, expire, waiter.resolve)
    return await waiter


async def three(
    work: Callable[[Flight[str]], Coroutine[Any, Any, str]],
    *,
    expire: Callable[[], str] = lambda: "expired",
    closing: bool = False,
    limit: float = 0.05,
    then: Callable[[Flights[str]], None] = lambda _: None,
) -> list[str | None]:
    """What three get that wait for one flight."""
    flights: Flights[str] = Flights(Runtime(), limit, closing=lambda: closing, queued=tuple)
    waiting = [deferred_from_coro(join(flights, work, expire)) for _ in range(3)]
    then(flights)
    results = await DeferredList(waiting)
    assert "key" not in flights
    return [value for _, value in results]


async def never() -> str:
    """Wait for what never comes."""
    never_fired: Deferred[str] = Deferred()
    return await maybe_deferred_to_future(never_fired)


@ensureDeferred
async def test_one_piece_of_work() -> None:
    """The work is done once, and its value is everybody's."""
    done: list[int] = []

    async def work(_: Flight[str]) -> str:
        done.append(1)
        await next_turn()
        return "value"

    assert await three(work, limit=5) == ["value"] * 3
    assert done == [1]


class Counting(Runtime):
    """Keeps the timers instead of running them."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], object]] = []

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        """Keep it."""
        self.timers.append(function)
        return super().call_later(3600, lambda: None)


@ensureDeferred
async def test_one_timer() -> None:
    """However many flights come and go, one timer looks after them, and none when they are over."""
    runtime = Counting()
    flights: Flights[str] = Flights(runtime, 5, closing=lambda: False, queued=tuple)

    async def work(_: Flight[str]) -> str:
        await next_turn()
        return "value"

    for _ in range(5):
        await deferred_from_coro(join(flights, work, str))
    assert len(runtime.timers) == 1
    runtime.timers[0]()
    assert len(runtime.timers) == 1
    waiting = deferred_from_coro(join(flights, work, str))
    assert len(runtime.timers) <= 2
    await waiting
    assert len(runtime.timers) == 2


@ensureDeferred
async def test_failing_work(caplog: pytest.LogCaptureFixture) -> None:
    """Work that raises leaves a value all the same, and its traceback in the log."""

    async def work(_: Flight[str]) -> str:
        raise RuntimeError("work")

    # Without asyncio it fails while it is started, so that each of the three starts it anew.
    assert await three(work, limit=5) == ["expired"] * 3
    assert any(record.exc_info and record.name == "scrapy_robots_rfc.fetching.flights" for record in caplog.records)


@ensureDeferred
async def test_work_that_never_ends() -> None:
    """After the limit everybody gets what `expire` makes."""

    async def work(_: Flight[str]) -> str:
        return await never()

    assert await three(work) == ["expired"] * 3


@ensureDeferred
async def test_result_before_the_end() -> None:
    """A result that the work has set counts when the rest of the work takes too long."""

    async def work(flight: Flight[str]) -> str:
        flight.result = "early"
        return await never()

    assert await three(work) == ["early"] * 3


@ensureDeferred
async def test_end_of_the_crawl() -> None:
    """When the crawl ends, everybody gets None, long before the limit."""

    async def work(_: Flight[str]) -> str:
        return await never()

    assert await three(work, closing=True, limit=60) == [None] * 3


@ensureDeferred
async def test_expire_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Even when nothing can make a value, nobody waits for ever."""

    async def work(_: Flight[str]) -> str:
        return await never()

    def expire() -> str:
        raise RuntimeError("expire")

    assert await three(work, expire=expire) == [None] * 3


@ensureDeferred
async def test_work_cancelled_from_outside() -> None:
    """When somebody else cancels the task, everybody gets a value at once."""
    started: list[Flight[str]] = []

    async def work(flight: Flight[str]) -> str:
        started.append(flight)
        Runtime().call_later(0, lambda: flight.task and flight.task.cancel())
        return await never()

    assert await three(work, limit=60) == ["expired"] * 3
    assert len(started) == 1
