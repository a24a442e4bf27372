"""Fixtures that tests of several rooms use.

Sites, clocks, a Redis server, what came of crawls in other runtimes.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import time
from itertools import count
from typing import TYPE_CHECKING

import pytest
from scrapy.utils.asyncio import call_later

from scrapy_robots_rfc import _runtime
from scrapy_robots_rfc.cache.stores.redis import RedisStore
from tests.support.redis_server import COMMAND, RedisServer
from tests.support.runtimes import MODES, Crawls, Results
from tests.support.scheduling import FileScheduling, dear_first, group_of
from tests.support.service_crawls import Clock
from tests.support.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from xdist.remote import Producer

_numbers = count()

# So that the garbage collector comes less often: with its own number it takes a tenth of the time
# of the tests.
gc.set_threshold(20_000, 10, 10)

# A shell that runs this in the background has it ignore Ctrl-C, and with it all that it starts:
# tests send that signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes `-n auto` starts.

    Two more than cores, since tests wait for clocks and processes.
    """
    return min((os.cpu_count() or 1) + 2, 8)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling:
    """Return what deals the tests out to processes."""
    return FileScheduling(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Put first what takes long.

    Apart from that, the order is the one that pytest-randomly has given.
    """
    yield
    dear_first(items)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m reactor`, leave out the files that have no such test.

    Loading them takes longer than the tests.
    """
    if config.option.markexpr != "reactor" or not collection_path.name.startswith("test_"):
        return None
    return "mark.reactor" not in collection_path.read_text(encoding="utf-8") or None


def pytest_collection_finish() -> None:
    """Have the garbage collector leave all alone that is loaded: it stays."""
    gc.freeze()


@pytest.fixture(scope="module")
def few_to_collect() -> None:
    """The garbage collector leaves alone what earlier tests left, too.

    For files whose tests collect often.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def redis_installed() -> None:
    """A Redis server can be started; CI has to have one."""
    if COMMAND is None:
        assert os.environ.get("CI") != "true", (
            "redis-server is missing: these tests must not be skipped here"
        )
        pytest.skip("redis-server is not installed")


@pytest.fixture(scope="session")
def redis_server(redis_installed: None) -> Iterator[RedisServer]:
    """A Redis server for all tests that do not harm it: each takes a prefix of its own."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_address(redis_server: RedisServer) -> str:
    """The address of a part of that server that no other test has."""
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


@pytest.fixture(scope="session")
def _crawls() -> Iterator[Crawls]:
    crawls = Crawls()
    yield crawls
    crawls.close()


@pytest.fixture(scope="session", params=MODES)
def results(request: pytest.FixtureRequest, _crawls: Crawls) -> Results:
    """What came of every scenario under one runtime."""
    return Results(request.param, _crawls)


@pytest.fixture(autouse=True)
def _crawled_elsewhere(request: pytest.FixtureRequest) -> None:
    # The scenarios crawl in processes of their own: another reactor in this one changes nothing,
    # and they take time.
    if "results" in request.fixturenames:
        assert not request.node.get_closest_marker("reactor")
        assert group_of(request.node.nodeid) == "runtimes", (
            "RUNTIMES in tests/support/scheduling.py has to name this file"
        )


@pytest.fixture
def site() -> Iterator[Site]:
    """A site without robots.txt."""
    with Site() as running:
        yield running


@pytest.fixture
def other() -> Iterator[Site]:
    """A second site, another origin."""
    with Site() as running:
        yield running


@pytest.fixture
def proxy(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A proxy that answers for every host, and that all crawls of the test use."""
    monkeypatch.setenv("http_proxy", site.url(""))
    return site


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all crawls of a test."""
    fake = Clock()
    monkeypatch.setattr(_runtime.Runtime, "clock", lambda _: fake())
    monkeypatch.setattr(_runtime.Runtime, "date", lambda _: fake.date())
    return fake


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """All crawls of a test take a hundredth of a second for a second, but for what Scrapy itself
    waits for.
    """
    monkeypatch.setattr(_runtime, "call_later", lambda delay, *call: call_later(delay / 100, *call))
    monkeypatch.setattr(_runtime.Runtime, "clock", lambda _: time.monotonic() * 100)


@pytest.fixture(autouse=True)
def _log_everything(request: pytest.FixtureRequest) -> None:
    # Not where commands and demos are run: what these write is looked at as a user sees it.
    if not {"commands", "example", "bench"}.intersection(
        request.path.relative_to(request.config.rootpath).parts
    ):
        request.getfixturevalue("caplog").set_level(logging.DEBUG)
