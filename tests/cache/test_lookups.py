"""Look-ups before and after a fetch, with a real store and without a network."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.entries import limits, made
from tests.support.running import under_the_reactor
from tests.support.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy_robots_rfc.cache.entry import CacheEntry

ORIGIN = Origin("http", "a.example", 80)
LIMITS = limits(100, 10, 1000, 500)
NOW = 5000.0


class Standing(Runtime):
    """A runtime whose clocks stand still."""

    def clock(self) -> float:
        return NOW

    def date(self) -> float:
        return 1_700_000_000.0


def file(body: bytes, fetched: float, fresh_until: float) -> CacheEntry:
    """Return a file with times relative to now."""
    times = (NOW + fetched, NOW + fresh_until, NOW + fetched)
    return made(Outcome.SUCCESSFUL, 200, "200", *times, body=body)


class Worker:
    """A crawl that uses a store."""

    def __init__(self, store: MemoryStore) -> None:
        self.runtime = Standing()
        self.client = CacheClient(
            store, "the store", LIMITS, runtime=self.runtime, count=lambda _: None
        )


def with_workers(
    test: Callable[[MemoryStore, Worker, Worker], Awaitable[None]],
) -> Callable[[], object]:
    """Run a test with two crawls on one store."""

    async def run() -> None:
        store = MemoryStore()
        one, two = Worker(store), Worker(store)
        try:
            await test(store, one, two)
        finally:
            await one.client.close()
            await two.client.close()

    run.__doc__, run.__name__ = test.__doc__, test.__name__
    wrapped: Callable[[], object] = under_the_reactor(run)
    return wrapped


async def until(true: Callable[[], bool]) -> None:
    """Wait for background work."""
    for _ in range(2000):
        if true():
            return
        waiter: Waiter[None] = Waiter()
        Runtime().call_later(0.005, partial(waiter.resolve, None))
        await waiter
    pytest.fail("it never comes")


@with_workers
async def test_the_newest_copy_counts(store: MemoryStore, one: Worker, two: Worker) -> None:
    """An older copy in the store does not replace the copy in memory."""
    await two.client.save(ORIGIN, file(b"old", -50, 50))
    known = file(b"new", -20, -10)
    assert await one.client.find_entry(ORIGIN, known) == (known, False, True)
    older = file(b"oldest", -90, -10)
    found, fresh, ours = await one.client.find_entry(ORIGIN, older)
    assert found is not None
    assert (found.body, fresh, ours) == (b"old", True, False)


class Finishing(MemoryStore):
    """A store in which the file of another crawl appears just before its lease ends."""

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        if owner != "other":
            self.finish()
        return super().lease(key, owner, seconds)

    finish: Callable[[], None]


@under_the_reactor
async def test_new_owner_of_a_lease_looks_again() -> None:
    """A crawl that gets the lease looks again for a file, and then releases the lease."""
    plain, store = MemoryStore(), Finishing()
    writer, one = Worker(plain), Worker(store)
    await writer.client.save(ORIGIN, file(b"file", -1, 50))
    value = plain.get(str(ORIGIN))
    assert value is not None
    store.finish = lambda: store.put(str(ORIGIN), value, 1000)
    found, fresh, _ = await one.client.find_entry(ORIGIN, None)
    assert found is not None
    assert (found.body, fresh) == (b"file", True)
    await until(lambda: store.lease(str(ORIGIN), "other", 1))
    await one.client.close()
    await writer.client.close()


class Recording(MemoryStore):
    """A store that records the order of calls, and writes slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.released = threading.Event()

    def put(self, key: str, value: bytes, seconds: float) -> None:
        self.released.wait(0.1)
        super().put(key, value, seconds)
        self.done.append("put")

    def release(self, key: str, owner: str) -> None:
        super().release(key, owner)
        self.done.append("release")
        self.released.set()


@pytest.mark.reactor
@under_the_reactor
async def test_no_other_fetches_before_a_file_is_written() -> None:
    """Even at the end of a crawl, a file is stored before its lease is released."""
    store = Recording()
    one = Worker(store)
    await one.client.find_entry(ORIGIN, None)
    one.runtime.spawn(one.client.publish(ORIGIN, file(b"file", 0, 100), may_store=True))
    await one.client.close()
    assert store.done == ["put", "release"]
