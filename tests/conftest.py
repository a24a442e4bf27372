"""Fixtures for all tests. Fixtures that only crawls need are in `tests/scrapy/conftest.py`."""

from __future__ import annotations

import os
import signal
from itertools import count
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.cache.stores.redis import RedisStore
from tests.redis_server import COMMAND, RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_numbers = count()

#: Fixtures that take seconds: a browser, crawls in processes of their own, what a demo prints, a wheel.
DEAR = {"chromium", "crawls", "all_outputs", "demo", "wheel"}

# A shell that runs this in the background has it ignore Ctrl-C, and with it all that it starts: tests send that signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes `-n auto` starts: one more than cores, since tests wait for clocks and processes."""
    return min((os.cpu_count() or 1) + 1, 8)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep in one process the tests that go by the same dear thing, so that it is made once."""
    for item in items:
        for name in DEAR.intersection(getattr(item, "fixturenames", ())):
            # There is one browser for all; the other fixtures are of one file each.
            item.add_marker(pytest.mark.xdist_group(name if name == "chromium" else f"{name} {item.path.stem}"))


@pytest.fixture(scope="session")
def redis_installed() -> None:
    """A Redis server can be started; CI has to have one."""
    if COMMAND is None:
        assert os.environ.get("CI") != "true", "redis-server is missing: these tests must not be skipped here"
        pytest.skip("redis-server is not installed")


@pytest.fixture(scope="session")
def redis_server(redis_installed: None) -> Iterator[RedisServer]:
    """A Redis server for all tests that do not harm it: each takes a prefix of its own."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_address(redis_server: RedisServer) -> str:
    """The address of a part of that server that nobody else has."""
    return f"{redis_server.url}?prefix=test{next(_numbers)}:"


@pytest.fixture
def open_redis(request: pytest.FixtureRequest) -> Iterator[Callable[..., RedisStore]]:
    """Opens stores, of that address or another one, and closes them."""
    made = []

    def opened(address: str | None = None) -> RedisStore:
        store = RedisStore(address or request.getfixturevalue("redis_address"))
        made.append(store)
        store.open()
        return store

    yield opened
    for store in made:
        store.close()
