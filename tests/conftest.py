"""Fixtures that the tests of several folders use."""

from __future__ import annotations

import gc
import logging
import os
import signal
import time
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from scrapy.utils.asyncio import call_later

from scrapy_robots_rfc import _runtime
from scrapy_robots_rfc.cache.stores.redis import RedisStore
from tests.support.redis_server import COMMAND, RedisServer
from tests.support.scheduling import FileScheduling, slow_first
from tests.support.service_crawls import Clock
from tests.support.site import Site
from tests.support.timed_site import PACED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from xdist.remote import Producer

_numbers = count()

# No randomness in a test, and half as many examples: most laws are simple.
settings.register_profile("short", settings.get_profile("ci"), max_examples=50)

# Run the garbage collector less often; by default, it takes a tenth of the time of the tests.
gc.set_threshold(20_000, 10, 10)

# A background job of a shell ignores SIGINT, and so do its children. Tests need that signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processes for `-n auto`.

    It is more than the number of cores, because tests wait for clocks and processes.
    """
    return min((os.cpu_count() or 1) + 6, 10)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    """Return the scheduler that assigns tests to workers."""
    return FileScheduling(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Move slow tests to the front, in the order of pytest-randomly."""
    yield
    slow_first(items)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m reactor`, ignore files without such a test, because importing them takes long."""
    if config.option.markexpr != "reactor" or not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    return not ("mark.reactor" in text or "in_every_runtime" in text) or None


def pytest_collection_finish() -> None:
    """Exclude everything that is loaded from garbage collection."""
    gc.freeze()


@pytest.fixture(scope="module")
def few_to_collect() -> None:
    """Exclude what earlier tests left from garbage collection, for tests that collect often."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def redis_installed() -> None:
    """Skip the test without redis-server, but fail in CI."""
    if COMMAND is None:
        assert os.environ.get("CI") != "true", (
            "redis-server is missing: these tests must not be skipped here"
        )
        pytest.skip("redis-server is not installed")


@pytest.fixture(scope="session")
def redis_server(redis_installed: None) -> Iterator[RedisServer]:
    """A Redis server that tests share; each uses its own prefix."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_address(redis_server: RedisServer) -> str:
    """The address of that server with a prefix for one test."""
    return f"{redis_server.url}?prefix=test{next(_numbers)}:"


@pytest.fixture
def open_redis(request: pytest.FixtureRequest) -> Iterator[Callable[..., RedisStore]]:
    """Return a function that opens stores, by default at that address; they are closed later."""
    stores = []

    def open_store(address: str | None = None) -> RedisStore:
        store = RedisStore(address or request.getfixturevalue("redis_address"))
        stores.append(store)
        store.open()
        return store

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def site() -> Iterator[Site]:
    """A site without robots.txt."""
    with Site() as running:
        yield running


@pytest.fixture
def other() -> Iterator[Site]:
    """A second site."""
    with Site() as running:
        yield running


@pytest.fixture
def paced() -> Iterator[Site]:
    """A site with a Crawl-delay."""
    with Site({"/robots.txt": PACED}) as running:
        yield running


@pytest.fixture
def proxy(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A proxy for all crawls of the test. It answers for every host."""
    monkeypatch.setenv("http_proxy", site.url(""))
    return site


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all crawls of the test."""
    fake = Clock()
    monkeypatch.setattr(_runtime.Runtime, "clock", lambda _: fake())
    monkeypatch.setattr(_runtime.Runtime, "date", lambda _: fake.date())
    return fake


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the time of the package, not of Scrapy, run 100 times as fast."""
    monkeypatch.setattr(_runtime, "call_later", lambda delay, *call: call_later(delay / 100, *call))
    monkeypatch.setattr(_runtime.Runtime, "clock", lambda _: time.monotonic() * 100)


@pytest.fixture(autouse=True)
def _log_everything(request: pytest.FixtureRequest) -> None:
    # Commands and demos use the log level that their users see.
    if not {"commands", "example", "bench"}.intersection(
        request.path.relative_to(request.config.rootpath).parts
    ):
        request.getfixturevalue("caplog").set_level(logging.DEBUG)
