"""The cache client of a crawl: clocks, threads, failures, look-ups, and leases."""

from __future__ import annotations

import math
import threading
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc.cache import client
from scrapy_robots_rfc.cache.client import LEASE, LEASE_PATIENCE, RENEW_INTERVAL, CacheClient
from scrapy_robots_rfc.cache.entry import decode, encode
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.crawling import records
from tests.support.entries import FILE, changed, limits, made
from tests.support.running import under_the_reactor
from tests.support.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from scrapy_robots_rfc._runtime import Cancellable
    from scrapy_robots_rfc.cache.entry import CacheEntry

A = Origin("https", "a.example", 443)
B = Origin("http", "b.example", 8080)
LIMITS = limits(86_400, 300, 86_400, None)


class Clocks(Runtime):
    """A runtime with clocks that the test sets."""

    def __init__(self, clock: float = 1000.0, date: float = 1_700_000_000.0) -> None:
        self.times = [clock, date]

    def clock(self) -> float:
        return self.times[0]

    def date(self) -> float:
        return self.times[1]

    def pass_by(self, seconds: float) -> None:
        self.times = [time + seconds for time in self.times]


class Hurried(Clocks):
    """A runtime whose timers are faster, and which adds up the seconds that were waited for."""

    waited = 0.0

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        def ended() -> None:
            self.waited += delay
            function()

        return super().call_later(delay / 100, ended)


def watched(name: str) -> Any:
    """Return a method of `Breakable`, which is recorded, and fails or hangs as the test says."""
    method = getattr(MemoryStore, name)

    def call(store: Breakable, *arguments: Any) -> Any:
        store.calls.append(name)
        if name in store.hangs:
            store.hanging.set()
            store.go_on.wait(60)
        if name in store.broken:
            raise store.broken[name]
        return method(store, *arguments)

    return call


class Breakable(MemoryStore):
    """A store that fails where the test says so, or hangs until `go_on`."""

    get, put, lease, take_turn = map(watched, ("get", "put", "lease", "take_turn"))

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[str, Exception] = {}
        self.hangs: set[str] = set()
        self.go_on = threading.Event()
        self.hanging = threading.Event()
        self.closed = threading.Event()
        self.calls: list[str] = []

    def close(self) -> None:
        self.calls.append("close")
        self.closed.set()


@pytest.fixture
def store() -> Iterator[Breakable]:
    """A store; calls that hang end with the test."""
    made = Breakable()
    yield made
    made.go_on.set()


class Crawl:
    """A client and its stats."""

    def __init__(self, store: Any, runtime: Runtime | None = None) -> None:
        self.counted: list[str] = []
        self.runtime = Clocks() if runtime is None else runtime
        self.client = CacheClient(
            store, "a store", LIMITS, runtime=self.runtime, count=self.counted.append
        )


@under_the_reactor
async def test_entries_are_moved_to_the_clock_of_the_crawl(store: Breakable) -> None:
    """An entry from another crawl is moved to the clock of this crawl."""
    one, two = Crawl(store, Clocks(1000, 1_700_000_000)), Crawl(store, Clocks(5, 1_700_000_060))
    copy = changed(FILE, fetched=990, fresh_until=1090, confirmed=980, unreachable_since=970)
    await one.client.save(A, copy)
    dated = decode(store.get("https://a.example") or b"")
    assert (dated.fetched, dated.validity.fresh_until) == (1_699_999_990, 1_700_000_090)
    assert await one.client.load(A) == copy
    assert await two.client.load(A) == copy.shifted(5 - 1060)
    assert await two.client.load(B) is None
    await one.client.close()
    await two.client.close()


@pytest.mark.parametrize(("seconds", "fresh_until"), [(60, 700), (61, 100), (3600, 100)])
@under_the_reactor
async def test_entries_from_the_future(
    store: Breakable, seconds: float, fresh_until: float
) -> None:
    """An entry from a clock that is a little ahead counts as fetched now; from one far ahead, it
    has expired.
    """
    ahead = Crawl(store, Clocks(0, 1_700_000_000 + seconds))
    crawl = Crawl(store, Clocks(100, 1_700_000_000))
    copy = changed(FILE, fetched=0, fresh_until=600, confirmed=0, unreachable_since=0)
    await ahead.client.save(A, copy)
    expected = {"confirmed": 100, "unreachable_since": 100, "fresh_until": fresh_until}
    assert await crawl.client.load(A) == changed(copy, fetched=100, **expected)
    await ahead.client.close()
    await crawl.client.close()


@pytest.mark.reactor
@under_the_reactor
async def test_a_store_that_hangs(store: Breakable, caplog: pytest.LogCaptureFixture) -> None:
    """A call that hangs is given up, and the end of the crawl waits for it for a second."""
    store.hangs.add("get")
    runtime = Hurried()
    crawl = Crawl(store, runtime)
    assert await crawl.client.load(A) is None
    assert "TimeoutError: no answer in 5 s" in records(caplog, 0)[0]
    runtime.waited = 0.0
    await crawl.client.close()
    assert runtime.waited <= 1
    assert "close" not in store.calls
    assert crawl.counted == ["robotstxt/cache/store_errors"] * 2
    assert len(records(caplog, 0)) == 1


@under_the_reactor
async def test_a_store_that_fails_is_logged_once_and_tried_later(
    store: Breakable, caplog: pytest.LogCaptureFixture
) -> None:
    """A failing store is counted, logged once, and tried again later."""
    clocks = Clocks()
    crawl = Crawl(store, clocks)
    await crawl.client.save(A, FILE)
    store.broken = {call: OSError("gone") for call in ("get", "put", "lease", "take_turn")}
    for _ in range(3):
        assert await crawl.client.load(A) is None
        await crawl.client.save(B, FILE)
        assert await crawl.client.lock(A) is True
        assert await crawl.client.take_turn(A, 60) is None
    assert store.calls == ["put", "get", "put", "lease", "take_turn"]
    clocks.pass_by(6)
    assert await crawl.client.load(A) is None
    assert crawl.counted == ["robotstxt/cache/store_errors"] * 5
    begins = (
        "The robots.txt store a store failed (get: OSError: gone). The crawl continues with the"
        " files in memory, and "
    )
    assert records(caplog, 0) == [begins + "tries the store again every 5 s"]
    store.broken.clear()
    clocks.pass_by(6)
    for _ in range(2):
        assert await crawl.client.load(A) is not None
        await crawl.client.save(B, FILE)
        assert await crawl.client.lock(A) is True
        assert await crawl.client.take_turn(A, 60) == 0
    assert store.calls[-8:] == ["get", "put", "lease", "take_turn"] * 2
    await crawl.client.close()


@pytest.mark.parametrize(("quiet", "lines"), [(50, 1), (60, 2)])
@under_the_reactor
async def test_a_later_outage_is_logged_anew(
    store: Breakable, caplog: pytest.LogCaptureFixture, quiet: float, lines: int
) -> None:
    """A failure is logged if there was no other one for a minute."""
    clocks = Clocks()
    crawl = Crawl(store, clocks)
    store.broken = {"get": OSError("gone")}
    await crawl.client.load(A)
    clocks.pass_by(50)
    await crawl.client.load(A)
    clocks.pass_by(quiet)
    await crawl.client.load(A)
    assert len(records(caplog, 0)) == lines
    await crawl.client.close()


@under_the_reactor
async def test_one_goes_ahead(store: Breakable) -> None:
    """After a pause, one call is made, and others wait for its result."""
    clocks = Clocks()
    crawl = Crawl(store, clocks)
    store.broken = {"get": OSError("gone")}
    await crawl.client.load(A)
    clocks.pass_by(6)
    store.hangs.add("get")
    done: Waiter[None] = Waiter()

    async def probe() -> None:
        await crawl.client.load(A)
        done.resolve(None)

    crawl.runtime.spawn(probe())
    await Runtime().sleep(0)
    assert await crawl.client.load(B) is None
    store.go_on.set()
    await done
    assert store.calls.count("get") == 2
    await crawl.client.close()


#: A value that a later version may write.
OTHER_VERSION = zlib.compress(b'{"version":2}\n')
#: A local failure, which must not disallow pages for other crawls.
LOCAL = encode(made(Outcome.LOCAL, None, "unavailable", 1.0, 1e12))


@under_the_reactor
@pytest.mark.parametrize("value", [b"damaged", OTHER_VERSION, LOCAL, b"", None, "text"])
async def test_unreadable_values_count_as_none(
    store: Breakable, caplog: pytest.LogCaptureFixture, value: Any
) -> None:
    """An unreadable value counts as missing, is logged once, and is overwritten."""
    for key in (str(A), str(B)):
        store.put(key, value, 60)
    crawl = Crawl(store)
    assert await crawl.client.load(A) is None
    assert await crawl.client.load(B) is None
    unreadable = 0 if value is None else 2
    assert crawl.counted == ["robotstxt/cache/store_errors"] * unreadable
    assert len(records(caplog, 0)) == min(unreadable, 1)
    assert all(
        "has an unreadable copy of https://a.example (" in line for line in records(caplog, 0)
    )
    await crawl.client.save(A, FILE)
    assert await crawl.client.load(A) is not None
    await crawl.client.close()


class Odd(MemoryStore):
    """A store that returns odd waiting times for turns."""

    said: object = 0.0

    def take_turn(self, key: str, owner: str, seconds: float) -> float:
        return self.said  # type: ignore[return-value]  # the mistake that is tested


@pytest.mark.parametrize("said_of_it", [66.1, 3600.0, math.inf, math.nan, -1.0, None, "soon"])
@under_the_reactor
async def test_turn_that_cannot_be(said_of_it: object, caplog: pytest.LogCaptureFixture) -> None:
    """An impossible waiting time for a turn is a failure of the store."""
    store = Odd()
    crawl = Crawl(store)
    store.said = 66.0  # the longest interval, and the grace period of the store
    assert await crawl.client.take_turn(A, 60) == 66
    store.said = said_of_it
    assert await crawl.client.take_turn(A, 60) is None
    assert crawl.counted == ["robotstxt/cache/store_errors"]
    assert len(records(caplog, 0)) == 1
    await crawl.client.close()


@under_the_reactor
async def test_no_credentials_in_the_log(
    store: Breakable, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of a driver is logged without credentials, on one line."""
    crawl = Crawl(store)
    store.broken = {"get": OSError("redis://me:p@ss/w@host/0?password=secret&db=1\nrefused\x1b")}
    await crawl.client.load(A)
    assert "OSError: redis://host/0?password=***&db=1 refused\\x1b)" in records(caplog, 0)[0]
    await crawl.client.close()


@pytest.mark.reactor
@pytest.mark.parametrize("threads", [1, 2, 8])
@under_the_reactor
async def test_a_call_that_ends_late_closes_the_store(
    store: Breakable,
    threads: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a call ends after the crawl, the store is closed after that call, which is logged."""
    monkeypatch.setattr(client, "CALL_TIMEOUT", 1e6)  # on a busy machine, it would end first
    store.threads = threads  # type: ignore[misc]  # only for this store
    store.hangs.add("put")
    crawl = Crawl(store, Hurried())
    crawl.runtime.spawn(crawl.client.save(A, FILE))
    await crawl.runtime.sleep(0)
    assert store.hanging.wait(60)
    await crawl.client.close()
    assert not store.closed.is_set()
    assert crawl.counted == ["robotstxt/cache/store_errors"]
    assert records(caplog, 0)[0].startswith("Closing the robots.txt store a store failed (")
    store.go_on.set()
    assert store.closed.wait(20)


# Look-ups before and after a fetch.

NOW = Clocks().clock()


def file(body: bytes, fetched: float, fresh_until: float) -> CacheEntry:
    """Return a file with times relative to now."""
    times = (NOW + fetched, NOW + fresh_until, NOW + fetched)
    return made(Outcome.SUCCESSFUL, 200, "200", *times, body=body)


@under_the_reactor
async def test_the_newest_copy_counts() -> None:
    """An older copy in the store does not replace the copy in memory."""
    store = MemoryStore()
    one, two = Crawl(store), Crawl(store)
    await two.client.save(A, file(b"old", -50, 50))
    known = file(b"new", -20, -10)
    assert await one.client.find_entry(A, known) == (known, False, True)
    older = file(b"oldest", -90, -10)
    found, fresh, ours = await one.client.find_entry(A, older)
    assert found is not None
    assert (found.body, fresh, ours) == (b"old", True, False)
    await one.client.close()
    await two.client.close()


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
    writer, one = Crawl(plain), Crawl(store)
    await writer.client.save(A, file(b"file", -1, 50))
    value = plain.get(str(A))
    assert value is not None
    store.finish = lambda: store.put(str(A), value, 1000)
    found, fresh, _ = await one.client.find_entry(A, None)
    assert found is not None
    assert (found.body, fresh) == (b"file", True)
    while not store.lease(str(A), "other", 1):
        await one.runtime.sleep(0.005)
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
    one = Crawl(store)
    await one.client.find_entry(A, None)
    one.runtime.spawn(one.client.publish(A, file(b"file", 0, 100), may_store=True))
    await one.client.close()
    assert store.done == ["put", "release"]


# Leases last as long as they are needed.


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

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> Cancellable:
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
    return Crawl(store, runtime).client


@pytest.mark.reactor
@under_the_reactor
async def test_lease_is_renewed() -> None:
    """During a long fetch, no other worker may fetch the file; afterwards, the next one may at
    once.
    """
    runtime = Slow()
    store = MemoryStore(now=lambda: runtime.now)
    one, two = worker(store, runtime), worker(store, runtime)
    assert await one.lock(A)
    for _ in range(10):
        await runtime.go_on(RENEW_INTERVAL)
        assert not await two.lock(A)
    await one.unlock(A)
    assert await two.lock(A)
    await one.close()
    await two.close()
    assert store.lease(str(A), "third", 1)


@under_the_reactor
async def test_lease_of_a_dead_worker_ends() -> None:
    """A lease that is not renewed ends, and its late owner takes nothing from the next one."""
    runtime, dead = Slow(), Slow()
    store = MemoryStore(now=lambda: runtime.now)
    one, two = worker(store, dead), worker(store, runtime)
    assert await one.lock(A)
    runtime.now += LEASE
    assert await two.lock(A)
    await dead.go_on(RENEW_INTERVAL)  # it was only suspended
    await dead.go_on(RENEW_INTERVAL)
    assert not store.lease(str(A), "third", 1)
    await one.unlock(A)
    assert not store.lease(str(A), "third", 1)
    await one.close()
    await two.close()


@pytest.mark.reactor
@under_the_reactor
async def test_nothing_is_renewed_at_the_end() -> None:
    """After the end of a crawl, no timer fires."""
    runtime = Slow()
    store = MemoryStore(now=lambda: runtime.now)
    one = worker(store, runtime)
    assert await one.lock(A)
    await one.close()
    assert [timer.function for timer in runtime.timers] == [None]
    await runtime.go_on(RENEW_INTERVAL)
    assert store.lease(str(A), "next", 1)
    assert (runtime.timers, runtime.tasks) == ([], [])


@under_the_reactor
async def test_lease_that_never_ends(caplog: pytest.LogCaptureFixture) -> None:
    """After a minute, a crawl fetches a file although another worker has the lease, with one
    warning. It waits again for the next file.
    """
    runtime = Slow()
    store = MemoryStore(now=lambda: runtime.now)
    crawl = worker(store, runtime)
    for origin in (A, B):
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
