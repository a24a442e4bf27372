"""A pending fetch by itself.

However it ends, all that wait get a value, and places are given in order.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Spider
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from twisted.internet.defer import Deferred, DeferredList

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc._runtime import CANCELLED, Runtime
from scrapy_robots_rfc.fetching import pending
from scrapy_robots_rfc.fetching.pending import (
    PATIENCE,
    PREEMPTED,
    TICK,
    PendingFetch,
    PendingFetches,
)
from tests.support.policies import origin, policy
from tests.support.running import under_the_reactor
from tests.support.service_crawls import next_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from tests.support.service_crawls import Clock

pytestmark = pytest.mark.reactor

TIMEOUT = 100.0


class Desk:
    """The fetches of a crawl, on the clock of the test; what they ask is answered by the test."""

    def __init__(self) -> None:
        self.over_: list[PendingFetch] = []
        self.queued_: set[PendingFetch] = set()
        self.asked: list[str] = []
        self.answers: dict[str, Deferred[str]] = {}
        crawler = get_crawler(Spider)
        self.fetches = PendingFetches(crawler, self, self, TIMEOUT, self.failed)  # type: ignore[arg-type]  # a fake

    def over(self, fetch: PendingFetch) -> None:
        """See `Crawl`."""
        self.over_.append(fetch)

    def queued(self) -> set[PendingFetch]:
        """See `Downloader`."""
        return self.queued_

    def failed(self, fetch: PendingFetch, error: Exception) -> OriginPolicy:
        """Make a value."""
        return policy(f"failed: {type(error).__name__}")

    def begin(
        self,
        host: str = "a",
        route: str | None = None,
        way: Callable[[PendingFetch], Coroutine[Any, Any, OriginPolicy]] | None = None,
    ) -> PendingFetch:
        """Begin a fetch."""
        return self.fetches.begin(origin(host), route, way or self.way)

    async def way(self, fetch: PendingFetch) -> OriginPolicy:
        """Ask, and again after others."""
        while True:
            await self.fetches.place(fetch)
            self.asked.append(fetch.origin.host)
            fetch.spent = 0.0
            answer = await self.fetches.in_time(fetch, self.answer(fetch.origin.host))
            self.fetches.free_place(fetch)
            if answer is not PREEMPTED:
                return policy(answer if isinstance(answer, str) else type(answer).__name__)
            fetch.preempted += 1

    async def answer(self, host: str) -> str:
        """Wait for the test."""
        self.answers[host] = Deferred()
        return await maybe_deferred_to_future(self.answers[host])


def passes(desk: Desk, at: Clock, seconds: float) -> None:
    """Let time pass, with a tick as often as in a crawl."""
    for _ in range(round(seconds / TICK)):
        at.now += TICK
        desk.fetches.tick()


async def causes(*fetches: PendingFetch) -> list[str | None]:
    """What those get who wait for fetches, each three times."""
    waiting = [deferred_from_coro(fetch.result()) for fetch in fetches for _ in range(3)]
    results = await maybe_deferred_to_future(DeferredList(waiting))
    return [None if value is None else value.cause for _, value in results]


@under_the_reactor
async def test_one_value_for_all_who_wait() -> None:
    """All that wait get the same value.

    The crawl hears once that it is there, and nothing is pending then.
    """
    desk = Desk()
    fetch = desk.begin()
    assert desk.fetches.of(origin("a"), None) in (fetch, None)
    await next_turn()
    desk.answers["a"].callback("value")
    assert await causes(fetch) == ["value"] * 3
    assert (desk.asked, desk.over_, desk.fetches.of(origin("a"), None)) == (["a"], [fetch], None)
    assert await fetch.result() is fetch.value


@under_the_reactor
async def test_wait_that_is_given_up() -> None:
    """Who gives up waiting gets nothing, and the fetch goes on for the others."""
    desk = Desk()
    fetch = desk.begin()
    waiter = fetch.waiter()
    waiter.resolve(None)
    assert await waiter is None
    await next_turn()
    assert not fetch.over
    desk.answers["a"].callback("value")
    assert await causes(fetch) == ["value"] * 3


@under_the_reactor
async def test_work_that_raises_leaves_a_value() -> None:
    """Work that raises leaves a value all the same."""

    async def way(_: PendingFetch) -> OriginPolicy:
        raise OSError("work")

    assert await causes(Desk().begin(way=way)) == ["failed: OSError"] * 3


@under_the_reactor
async def test_task_that_is_cancelled_from_outside() -> None:
    """When another part cancels the task, all that wait get a value at once."""
    fetch = Desk().begin()
    await next_turn()
    Runtime().call_later(0, lambda: fetch.task and fetch.task.cancel())
    assert [cause is not None for cause in await causes(fetch)] == [True] * 3


@under_the_reactor
async def test_end_of_the_crawl(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the crawl ends, all get None.

    So do those in line, and those that never began.
    """
    monkeypatch.setattr(pending, "MOST_AT_ONCE", 1)
    desk = Desk()
    fetches = [desk.begin("a"), desk.begin("b")]
    await next_turn()
    fetches.append(desk.begin("c"))
    monkeypatch.setattr(_scrapy, "is_closing", lambda _: True)
    desk.fetches.tick()
    assert await causes(*fetches) == [None] * 9
    assert desk.over_ == fetches


@under_the_reactor
async def test_other_routes_go_on_with_a_value_for_all() -> None:
    """What one route has brought ends the fetches of the same origin by others, and of no other
    origin.
    """
    desk = Desk()
    one, two, other = desk.begin("a", "1"), desk.begin("a", "2"), desk.begin("b")
    await next_turn()
    desk.fetches.cancel(origin("a"), policy("value"), but=one)
    assert (one.over, other.over) == (False, False)
    assert await causes(two) == ["value"] * 3


def test_credentials_of_a_route() -> None:
    """What is printed of a fetch has no route: it may hold credentials."""
    assert "pass" not in repr(PendingFetch(origin("a"), "http://user:pass@p.example"))


@pytest.fixture
def at(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the test; the spider is open."""
    monkeypatch.setattr(_scrapy, "is_closing", lambda _: False)
    return clock


@under_the_reactor
async def test_time_is_over(at: Clock) -> None:
    """Work that never ends is given up after its time.

    That in a queue of the downloader does not count.
    """
    desk = Desk()
    fetch = desk.begin()
    await next_turn()
    desk.queued_.add(fetch)
    passes(desk, at, TIMEOUT)
    desk.queued_.clear()
    passes(desk, at, TIMEOUT)
    await next_turn()
    assert not fetch.over
    passes(desk, at, TICK)
    assert await causes(fetch) == ["TimeoutError"] * 3


@under_the_reactor
@pytest.mark.parametrize("ended", [True, False], ids=["crawl ended", "time over"])
async def test_work_that_cannot_be_cancelled(at: Clock, ended: bool) -> None:
    """Work that goes on when it is cancelled is left alone.

    Its fetch goes on in time, unless it was ended.
    """
    desk = Desk()
    results: list[object] = []

    async def way(fetch: PendingFetch) -> OriginPolicy:
        for _ in range(2):
            results.append(await desk.fetches.in_time(fetch, deaf()))
            fetch.spent = 0.0
        return policy("done")

    async def deaf() -> None:
        while True:
            with contextlib.suppress(*CANCELLED):
                await maybe_deferred_to_future(Deferred())

    fetch = desk.begin(way=way)
    await next_turn()
    for _ in range(2):
        if ended:
            desk.fetches.cancel_all()
        else:
            passes(desk, at, TIMEOUT + TICK)
        await next_turn()
        await next_turn()
    assert await causes(fetch) == [None if ended else "done"] * 3
    assert list(map(type, results)) == ([] if ended else [TimeoutError] * 2)


@under_the_reactor
async def test_line(at: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """First attempts come first.

    Those that take long make room for as many as stand in line, and come later.
    """
    monkeypatch.setattr(pending, "MOST_AT_ONCE", 2)
    desk = Desk()
    for host in "abc":
        desk.begin(host)
    await next_turn()
    assert desk.asked == ["a", "b"]
    passes(desk, at, PATIENCE - TICK)
    await next_turn()
    assert desk.asked == ["a", "b"]
    passes(desk, at, TICK)
    for _ in range(5):
        await next_turn()
    assert desk.asked == ["a", "b", "c"]
    desk.begin("d")
    await next_turn()
    desk.answers["c"].callback("value")
    for _ in range(5):
        await next_turn()
    assert desk.asked == ["a", "b", "c", "d"]  # before the one that made room
    desk.answers["d"].callback("value")
    for _ in range(5):
        await next_turn()
    assert desk.asked == ["a", "b", "c", "d", "a"]
    desk.fetches.cancel_all()


@under_the_reactor
async def test_long_line_that_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without asyncio a fetch may end while it is begun.

    A long line of those neither recurses nor stops.
    """
    monkeypatch.setattr(pending, "MOST_AT_ONCE", 1)
    desk = Desk()
    first = desk.begin("first")
    await next_turn()

    async def way(fetch: PendingFetch) -> OriginPolicy:
        await desk.fetches.place(fetch)
        return policy("done")

    fetches = [desk.begin(str(number), way=way) for number in range(2000)]
    await next_turn()
    desk.answers["first"].callback("value")
    assert set(await causes(first, *fetches)) == {"value", "done"}
