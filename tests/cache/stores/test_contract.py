"""The contract of stores, for all stores of the package and a third-party store."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from scrapy_robots_rfc.cache.stores.base import SharedStore
from scrapy_robots_rfc.cache.stores.redis import RedisStore
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.support import own_store
from tests.support.redis_server import pass_by
from tests.support.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrapy_robots_rfc.cache.stores.base import Store

KEY, OTHER = "https://a.example", "http://[2001:db8::1]:8080"
LONG, SHORT = 10_000.0, 0.2


#: The kinds of places; those that are shared have leases and turns.
SHARED = ("memory", "redis")
KINDS = (*SHARED, "sqlite", "own")


class Place:
    """A place for values. Stores at one place share them.

    :param make: creates a store there, which is not open yet.
    :param later: lets time pass, which ends the validity of values.
    """

    def __init__(self, make: Callable[[], Store], later: Callable[[float], object]) -> None:
        self._make, self.later = make, later
        self._opened: list[Store] = []

    def store(self) -> Store:
        store = self._make()
        self._opened.append(store)
        store.open()
        return store

    def leave(self) -> None:
        for store in self._opened:
            store.close()


def place_of(kind: str, request: pytest.FixtureRequest) -> Place:
    """Return an empty place; its clock is set by the test, except that of a Redis server."""
    if kind == "redis":
        address: str = request.getfixturevalue("redis_address")
        client = Redis.from_url(address.partition("?")[0], socket_timeout=None)
        return Place(lambda: RedisStore(address), partial(pass_by, client))
    clock = [time.time()]

    def now() -> float:
        return clock[0]

    def later(seconds: float) -> None:
        clock[0] += seconds

    folder: Path = request.getfixturevalue("tmp_path")
    if kind == "own":
        patch = request.getfixturevalue("monkeypatch")
        patch.setattr(own_store, "time", SimpleNamespace(time=now))
        return Place(lambda: own_store.FolderStore(str(folder)), later)
    in_memory = MemoryStore(now)
    if kind == "memory":
        return Place(lambda: in_memory, later)
    return Place(lambda: SqliteStore(folder / "robots.sqlite", now), later)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """An empty place of each kind."""
    made = place_of(request.param, request)
    yield made
    made.leave()


@pytest.fixture(params=SHARED)
def shared_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """An empty place of each kind with leases and turns."""
    made = place_of(request.param, request)
    yield made
    made.leave()


@pytest.fixture
def store(place: Place) -> Store:
    """A store at the place."""
    return place.store()


@pytest.fixture
def shared(shared_place: Place) -> SharedStore:
    """A store with leases and turns."""
    store = shared_place.store()
    assert isinstance(store, SharedStore)
    return store


def test_an_empty_store(store: Store) -> None:
    """A value that was never put does not exist."""
    assert store.get(KEY) is None
    assert list(store.keys()) == []
    assert store.delete(KEY) is False


@pytest.mark.parametrize(
    "value", [b"", b"\x00\xff\r\n'\"", b"x" * 1_000_000], ids=["empty", "octets", "large"]
)
def test_values_come_back(store: Store, value: bytes) -> None:
    """Any bytes that were put are returned, for their key only."""
    store.put(KEY, value, LONG)
    assert store.get(KEY) == value
    assert store.get(OTHER) is None
    assert store.get(KEY + "x") is None


def test_the_last_value_counts(store: Store) -> None:
    """A value replaces the previous one."""
    store.put(KEY, b"one", LONG)
    store.put(OTHER, b"other", LONG)
    store.put(KEY, b"two", LONG)
    assert (store.get(KEY), store.get(OTHER)) == (b"two", b"other")
    assert sorted(store.keys()) == [OTHER, KEY]


def test_deleted_values_are_gone(store: Store) -> None:
    """A deleted value is gone, and its key can be used again."""
    store.put(KEY, b"one", LONG)
    store.put(OTHER, b"other", LONG)
    assert store.delete(KEY) is True
    assert store.delete(KEY) is False
    assert store.get(KEY) is None
    assert list(store.keys()) == [OTHER]
    store.put(KEY, b"two", LONG)
    assert store.get(KEY) == b"two"


def test_values_end_with_their_time(place: Place, store: Store) -> None:
    """A value is gone after its time; others remain."""
    store.put(KEY, b"one", SHORT)
    store.put(OTHER, b"other", LONG)
    place.later(SHORT * 2)
    assert store.get(KEY) is None
    assert list(store.keys()) == [OTHER]
    assert store.delete(KEY) is False
    assert store.get(OTHER) == b"other"


def test_a_new_value_has_its_own_end(place: Place, store: Store) -> None:
    """Each `put` sets a new time."""
    store.put(KEY, b"one", SHORT)
    store.put(KEY, b"two", LONG)
    store.put(OTHER, b"other", LONG)
    store.put(OTHER, b"other", SHORT)
    place.later(SHORT * 2)
    assert (store.get(KEY), store.get(OTHER)) == (b"two", None)


def test_others_see_it(place: Place, store: Store) -> None:
    """A value is visible in other stores at the same place."""
    another = place.store()
    store.put(KEY, b"one", LONG)
    assert another.get(KEY) == b"one"
    another.put(KEY, b"two", LONG)
    assert store.get(KEY) == b"two"
    assert another.delete(KEY)
    assert store.get(KEY) is None


def test_it_is_there_afterwards(place: Place, store: Store) -> None:
    """A value is still there after the store was closed and opened again."""
    store.put(KEY, b"one", LONG)
    store.close()
    assert place.store().get(KEY) == b"one"


def test_all_keys_are_listed_once(store: Store) -> None:
    """Each key is listed once, even if keys are deleted during the listing."""
    # Redis returns 1,000 at once.
    count = 1200 if isinstance(store, RedisStore) else 120
    wanted = {f"https://{number}.example" for number in range(count)}
    for key in wanted:
        store.put(key, key.encode(), LONG)
    assert sorted(store.keys()) == sorted(wanted)
    seen = []
    for key in store.keys():  # noqa: SIM118 - no mapping
        seen.append(key)
        store.delete(key)
    assert set(seen) == wanted
    assert list(store.keys()) == []


def test_as_many_threads_as_it_says(store: Store) -> None:
    """With as many threads as the store allows, calls have the same results as one by one."""

    def put_and_get(number: int) -> bool:
        key, value = f"https://{number % 20}.example", b"%d" % (number % 20)
        store.put(key, value, LONG)
        return store.get(key) == value

    with ThreadPoolExecutor(type(store).threads) as pool:
        assert all(pool.map(put_and_get, range(200)))


def test_one_owner_at_a_time(shared: SharedStore) -> None:
    """A lease has one owner, who may renew and release it."""
    assert shared.lease(KEY, "one", LONG) is True
    assert shared.lease(KEY, "one", LONG) is True
    assert shared.lease(KEY, "two", LONG) is False
    assert shared.lease(OTHER, "two", LONG) is True
    shared.release(KEY, "two")
    assert shared.lease(KEY, "two", LONG) is False
    shared.release(KEY, "one")
    assert shared.lease(KEY, "two", LONG) is True
    shared.release(KEY, "one")
    assert shared.lease(KEY, "one", LONG) is False


def test_leases_end_by_themselves(shared_place: Place, shared: SharedStore) -> None:
    """A lease that is not renewed ends after its last term."""
    assert shared.lease(KEY, "one", SHORT)
    assert shared.lease(OTHER, "one", SHORT)
    assert shared.lease(OTHER, "one", LONG)
    shared_place.later(SHORT * 2)
    assert shared.lease(KEY, "two", LONG) is True
    assert shared.lease(OTHER, "two", LONG) is False


def test_a_lease_is_no_value(shared: SharedStore) -> None:
    """Leases and turns are not values, and not keys."""
    shared.lease(KEY, "one", LONG)
    shared.take_turn(KEY, "one", LONG)
    assert shared.get(KEY) is None
    assert list(shared.keys()) == []
    shared.put(KEY, b"one", LONG)
    assert shared.lease(KEY, "two", LONG) is False


def test_one_turn_at_a_time(shared: SharedStore) -> None:
    """A turn has one owner; other workers get the time to wait."""
    assert shared.take_turn(KEY, "one", LONG) == 0
    assert shared.take_turn(KEY, "one", LONG) == 0
    assert 0 < shared.take_turn(KEY, "two", LONG) <= LONG
    assert shared.take_turn(OTHER, "two", LONG) == 0
    shared.end_turn(KEY, "two", 0)
    assert shared.take_turn(KEY, "two", LONG) > 0


def test_turns_keep_an_interval(shared_place: Place, shared: SharedStore) -> None:
    """After a turn, no worker gets the next one before the interval is over."""
    assert shared.take_turn(OTHER, "one", LONG) == 0
    shared.end_turn(OTHER, "one", LONG)
    assert 0 < shared.take_turn(OTHER, "one", LONG) <= LONG
    assert 0 < shared.take_turn(OTHER, "two", LONG) <= LONG
    assert shared.take_turn(KEY, "one", LONG) == 0
    shared.end_turn(KEY, "one", SHORT)
    shared_place.later(SHORT * 2)
    assert shared.take_turn(KEY, "two", LONG) == 0


def test_longest_waiter_is_first(shared: SharedStore) -> None:
    """A free turn goes to the worker that asked first."""
    for owner in ("one", "two", "three"):
        shared.take_turn(KEY, owner, LONG)
    assert shared.take_turn(KEY, "two", LONG) > 0
    shared.end_turn(KEY, "one", 0)
    assert 0 < shared.take_turn(KEY, "one", LONG) <= SHORT
    assert 0 < shared.take_turn(KEY, "three", LONG) <= SHORT
    assert shared.take_turn(KEY, "two", LONG) == 0
    shared.end_turn(KEY, "two", 0)
    assert shared.take_turn(KEY, "one", LONG) > 0
    assert shared.take_turn(KEY, "three", LONG) == 0


def test_late_worker_keeps_its_place(shared_place: Place, shared: SharedStore) -> None:
    """A worker that is a second late keeps its place in line."""
    assert shared.take_turn(KEY, "one", LONG) == 0
    pause = shared.take_turn(KEY, "two", LONG)
    shared.end_turn(KEY, "one", 0)
    shared_place.later(pause + 1)
    assert 0 < shared.take_turn(KEY, "three", LONG) <= SHORT
    assert shared.take_turn(KEY, "two", LONG) == 0


def test_turns_end_by_themselves(shared_place: Place, shared: SharedStore) -> None:
    """A turn of a dead worker ends after its time."""
    assert shared.take_turn(KEY, "one", SHORT) == 0
    assert shared.take_turn(KEY, "two", LONG) > 0
    shared_place.later(SHORT * 2)
    assert shared.take_turn(KEY, "two", LONG) == 0
