"""The cache client of a crawl: clocks, threads, failures, and the end of the crawl."""

from __future__ import annotations

import math
import threading
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.cache.entry import decode, encode
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.entries import FILE, changed, limits, made
from tests.support.running import under_the_reactor
from tests.support.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_robots_rfc._runtime import Cancellable

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
    """A runtime whose timers are faster or slower, as the test says."""

    factor = 0.01

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        return super().call_later(delay * self.factor, function)


class Breakable(MemoryStore):
    """A store that fails where the test says so, or hangs until `go_on`."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[str, Exception] = {}
        self.hangs: set[str] = set()
        self.go_on = threading.Event()
        self.hanging = threading.Event()
        self.closed = threading.Event()
        self.calls: list[str] = []
        self.by: set[int] = set()

    def _tried(self, call: str) -> None:
        self.calls.append(call)
        self.by.add(threading.get_ident())
        if call in self.hangs:
            self.hanging.set()
            self.go_on.wait(60)
        if call in self.broken:
            raise self.broken[call]

    def get(self, key: str) -> bytes | None:
        self._tried("get")
        return super().get(key)

    def put(self, key: str, value: bytes, seconds: float) -> None:
        self._tried("put")
        super().put(key, value, seconds)

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        self._tried("lease")
        return super().lease(key, owner, seconds)

    def take_turn(self, key: str, owner: str, seconds: float) -> float:
        self._tried("take_turn")
        return super().take_turn(key, owner, seconds)

    def close(self) -> None:
        self._tried("close")
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


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log says about the store."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("scrapy_robots_rfc")
    ]


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
    ahead, crawl = (
        Crawl(store, Clocks(0, 1_700_000_000 + seconds)),
        Crawl(store, Clocks(100, 1_700_000_000)),
    )
    await ahead.client.save(
        A, changed(FILE, fetched=0, fresh_until=600, confirmed=0, unreachable_since=0)
    )
    loaded = await crawl.client.load(A)
    assert loaded is not None
    assert (loaded.fetched, loaded.validity.confirmed, loaded.validity.unreachable_since) == (
        100,
        100,
        100,
    )
    assert loaded.validity.fresh_until == fresh_until
    await ahead.client.close()
    await crawl.client.close()


async def turns(runtime: Runtime, count: int) -> None:
    """Wait for some turns of the event loop."""
    for _ in range(count):
        turn: Waiter[None] = Waiter()
        runtime.call_later(0, lambda turn=turn: turn.resolve(None))  # type: ignore[misc]  # mypy cannot infer it
        await turn


@pytest.mark.reactor
@under_the_reactor
async def test_a_store_that_hangs(store: Breakable, caplog: pytest.LogCaptureFixture) -> None:
    """A call that hangs is given up, and the end of the crawl does not wait for it."""
    store.hangs.add("get")
    crawl = Crawl(store, Hurried())
    assert await crawl.client.load(A) is None
    assert "TimeoutError: no answer in 5 s" in said(caplog)[0]
    await crawl.client.close()
    assert "close" not in store.calls
    assert crawl.counted == ["robotstxt/cache/store_errors"] * 2
    assert len(said(caplog)) == 1


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
    assert said(caplog) == [begins + "tries the store again every 5 s"]
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
    assert len(said(caplog)) == lines
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
    await turns(crawl.runtime, 1)
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
    assert len(said(caplog)) == min(unreadable, 1)
    assert all("has an unreadable copy of https://a.example (" in line for line in said(caplog))
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
    assert len(said(caplog)) == 1
    await crawl.client.close()


@under_the_reactor
async def test_no_credentials_in_the_log(
    store: Breakable, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of a driver is logged without credentials, on one line."""
    crawl = Crawl(store)
    store.broken = {"get": OSError("redis://me:p@ss/w@host/0?password=secret&db=1\nrefused\x1b")}
    await crawl.client.load(A)
    assert "OSError: redis://host/0?password=***&db=1 refused\\x1b)" in said(caplog)[0]
    await crawl.client.close()


@pytest.mark.reactor
@pytest.mark.parametrize("threads", [1, 2, 8])
@under_the_reactor
async def test_a_call_that_ends_late_closes_the_store(store: Breakable, threads: int) -> None:
    """If a call ends after the crawl, the store is closed after that call."""
    store.threads = threads  # type: ignore[misc]  # only for this store
    store.hangs.add("put")
    crawl = Crawl(store, Hurried())
    crawl.runtime.spawn(crawl.client.save(A, FILE))
    await crawl.runtime.sleep(0)
    assert store.hanging.wait(60)
    await crawl.client.close()
    assert not store.closed.is_set()
    store.go_on.set()
    assert store.closed.wait(20)
