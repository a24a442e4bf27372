"""Leases last as long as they are needed. The test controls the timers and the clock."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_robots_rfc._runtime import Cancellable, Runtime, Waiter
from scrapy_robots_rfc.cache.client import LEASE, LEASE_PATIENCE, RENEW_INTERVAL, CacheClient
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.entries import limits
from tests.support.running import under_the_reactor
from tests.support.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

ORIGIN = Origin("http", "a.example", 80)
OTHER = Origin("http", "b.example", 80)
LIMITS = limits(100, 10, 1000, 500)


class Timer:
    """A timer that the test fires."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function: Callable[[], object] | None = function

    def cancel(self) -> None:
        self.function = None


class Slow(Runtime):
    """A runtime whose timers for renewals fire when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []
        self.tasks: list[Waiter[None]] = []

    def clock(self) -> float:
        return self.now

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        if isinstance(function, partial):
            return super().call_later(delay, function)
        assert delay == RENEW_INTERVAL
        self.timers.append(Timer(function))
        return self.timers[-1]

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Cancellable:
        end: Waiter[None] = Waiter()
        self.tasks.append(end)

        async def run() -> None:
            await coroutine
            end.resolve(None)

        return super().spawn(run())

    async def go_on(self, seconds: float) -> None:
        self.now += seconds
        timers, self.timers = self.timers, []
        for timer in timers:
            if timer.function is not None:
                timer.function()
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            await task


def worker(store: MemoryStore, runtime: Slow) -> CacheClient:
    """Return a crawl that takes leases."""
    return CacheClient(store, "the store", LIMITS, runtime=runtime, count=lambda _: None)


@pytest.mark.reactor
@under_the_reactor
async def test_lease_is_renewed() -> None:
    """During a long fetch, no other worker may fetch the file; afterwards, the next one may at
    once.
    """
    runtime = Slow()
    store = MemoryStore(now=lambda: runtime.now)
    one, two = worker(store, runtime), worker(store, runtime)
    assert await one.lock(ORIGIN)
    for _ in range(10):
        await runtime.go_on(RENEW_INTERVAL)
        assert not await two.lock(ORIGIN)
    await one.unlock(ORIGIN)
    assert await two.lock(ORIGIN)
    await one.close()
    await two.close()
    assert store.lease(str(ORIGIN), "third", 1)


@under_the_reactor
async def test_lease_of_a_dead_worker_ends() -> None:
    """A lease that is not renewed ends, and its late owner takes nothing from the next one."""
    runtime, dead = Slow(), Slow()
    store = MemoryStore(now=lambda: runtime.now)
    one, two = worker(store, dead), worker(store, runtime)
    assert await one.lock(ORIGIN)
    runtime.now += LEASE
    assert await two.lock(ORIGIN)
    await dead.go_on(RENEW_INTERVAL)  # it was only suspended
    await dead.go_on(RENEW_INTERVAL)
    assert not store.lease(str(ORIGIN), "third", 1)
    await one.unlock(ORIGIN)
    assert not store.lease(str(ORIGIN), "third", 1)
    await one.close()
    await two.close()


@pytest.mark.reactor
@under_the_reactor
async def test_nothing_is_renewed_at_the_end() -> None:
    """After the end of a crawl, no timer fires."""
    runtime = Slow()
    store = MemoryStore(now=lambda: runtime.now)
    one = worker(store, runtime)
    assert await one.lock(ORIGIN)
    await one.close()
    assert [timer.function for timer in runtime.timers] == [None]
    await runtime.go_on(RENEW_INTERVAL)
    assert store.lease(str(ORIGIN), "next", 1)
    assert (runtime.timers, runtime.tasks) == ([], [])


@under_the_reactor
async def test_lease_that_never_ends(caplog: pytest.LogCaptureFixture) -> None:
    """After a minute, a crawl fetches a file although another worker has the lease, with one
    warning. It waits again for the next file.
    """
    runtime = Slow()
    store = MemoryStore(now=lambda: runtime.now)
    crawl = worker(store, runtime)
    for origin in (ORIGIN, OTHER):
        store.lease(str(origin), "gone", math.inf)
        assert not await crawl.lock(origin)
        runtime.now += LEASE_PATIENCE - 1
        assert not await crawl.lock(origin)
        runtime.now += 1
        assert await crawl.lock(origin)
        assert await crawl.lock(origin)  # another attempt
        await crawl.unlock(origin)
        assert not await crawl.lock(origin)  # a later fetch
    assert len(caplog.records) == 1
    await crawl.close()
