"""An attempt of the fetch queue by itself: however its work ends, everybody who waits gets a value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from pytest_twisted import ensureDeferred
from scrapy.settings import Settings
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred, DeferredList

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.fetching.queue import Attempted, FetchQueue
from scrapy_robots_rfc.settings import read_settings
from tests.support.policies import origin, policy
from tests.support.service_crawls import next_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy_robots_rfc._runtime import Cancellable
    from scrapy_robots_rfc.fetching.fetch import Attempt

pytestmark = pytest.mark.reactor

OneWork: TypeAlias = "Callable[[Attempt], Coroutine[Any, Any, str]]"


def queue_of(
    work: OneWork, *, expire: Callable[[], str] = str, closing: bool = False, limit: float = 5, runtime: Runtime
) -> FetchQueue:
    """Return a queue with one kind of work."""

    async def attempted(attempt: Attempt) -> Attempted:
        return Attempted(policy(await work(attempt)))

    return FetchQueue(
        runtime,
        replace(read_settings(Settings()), timeout=limit),
        closing=lambda: closing,
        work=attempted,
        late=lambda _: Attempted(policy(expire())),
        queued=list,
        settled=lambda _: None,
    )


async def three(
    work: OneWork,
    *,
    expire: Callable[[], str] = lambda: "expired",
    closing: bool = False,
    limit: float = 0.05,
) -> list[str | None]:
    """What three get that wait for one fetch."""
    queue = queue_of(work, expire=expire, closing=closing, limit=limit, runtime=Runtime())
    results = await DeferredList([deferred_from_coro(queue.ask(origin("key")).result()) for _ in range(3)])
    assert origin("key") not in queue
    return [None if value is None else value.cause for _, value in results]


async def never() -> str:
    """Wait for what never comes."""
    never_fired: Deferred[str] = Deferred()
    return await maybe_deferred_to_future(never_fired)


@ensureDeferred
async def test_one_piece_of_work() -> None:
    """The work is done once, and its value is everybody's."""
    done: list[int] = []

    async def work(_: Attempt) -> str:
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
async def test_all_fetches_share_one_timer() -> None:
    """However many fetches come and go, one timer looks after them, and none when they are over."""

    async def work(_: Attempt) -> str:
        await next_turn()
        return "value"

    runtime = Counting()
    queue = queue_of(work, runtime=runtime)
    for _ in range(5):
        await deferred_from_coro(queue.ask(origin("key")).result())
    assert len(runtime.timers) == 1
    runtime.timers[0]()
    assert len(runtime.timers) == 1
    waiting = deferred_from_coro(queue.ask(origin("key")).result())
    assert len(runtime.timers) <= 2
    await waiting
    assert len(runtime.timers) == 2


@ensureDeferred
async def test_work_that_raises_leaves_a_value(caplog: pytest.LogCaptureFixture) -> None:
    """Work that raises leaves a value all the same, and its traceback in the log."""

    async def work(_: Attempt) -> str:
        raise RuntimeError("work")

    # Without asyncio it fails while it is started, so that each of the three starts it anew.
    assert await three(work, limit=5) == ["expired"] * 3
    assert any(record.exc_info and record.name == "scrapy_robots_rfc.fetching.queue" for record in caplog.records)


@ensureDeferred
async def test_work_that_never_ends() -> None:
    """After the limit everybody gets what `expire` makes."""

    async def work(_: Attempt) -> str:
        return await never()

    assert await three(work) == ["expired"] * 3


@ensureDeferred
async def test_result_before_the_end() -> None:
    """A result that the work has set counts when the rest of the work takes too long."""

    async def work(attempt: Attempt) -> str:
        attempt.result = Attempted(policy("early"))
        return await never()

    assert await three(work) == ["early"] * 3


@ensureDeferred
async def test_end_of_the_crawl() -> None:
    """When the crawl ends, everybody gets None, long before the limit."""

    async def work(_: Attempt) -> str:
        return await never()

    assert await three(work, closing=True, limit=60) == [None] * 3


@ensureDeferred
async def test_nobody_waits_when_no_result_can_be_made(caplog: pytest.LogCaptureFixture) -> None:
    """Even when nothing can make a value, nobody waits for ever."""

    async def work(_: Attempt) -> str:
        return await never()

    def expire() -> str:
        raise RuntimeError("expire")

    assert await three(work, expire=expire) == [None] * 3


@ensureDeferred
async def test_work_cancelled_from_outside() -> None:
    """When somebody else cancels the task, everybody gets a value at once."""
    started: list[Attempt] = []

    async def work(attempt: Attempt) -> str:
        started.append(attempt)
        Runtime().call_later(0, lambda: attempt.task and attempt.task.cancel())
        return await never()

    assert await three(work, limit=60) == ["expired"] * 3
    assert len(started) == 1
