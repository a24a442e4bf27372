"""Fixtures that tests of several rooms use: sites, clocks, a Redis server, what came of crawls in other runtimes."""

from __future__ import annotations

import logging
import os
import signal
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scrapy.utils.asyncio import call_later

from scrapy_robots_rfc import _runtime, _scrapy
from scrapy_robots_rfc.cache.stores.redis import RedisStore
from tests.support.redis_server import COMMAND, RedisServer
from tests.support.runtimes import MODES, Results
from tests.support.scripted import Clock
from tests.support.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TESTS = Path(__file__).parent

_numbers = count()

#: What takes longest, as a name of a group or of a file in tests/: it begins first, so that no process goes on alone at
#: the end.
DEAR = (
    "results asyncio",
    "results select",
    "results none",
    "bench/test_interrupted.py",
    "test_wheel.py",
    "example/test_fleet.py",
    "chromium",
    "throttling/test_interval.py",
    "middleware/test_refused_at_start.py",
    "reporting/test_report_when_killed.py",
    "commands/test_stopped.py",
    "cache/test_worker_processes.py",
    "bench/test_bench.py",
    "bench/test_restart.py",
    "bench/test_faults.py",
    "cache/test_memory.py",
    "example/test_readme.py",
    "example/test_demo.py",
    "example/test_spiders.py",
    "commands/test_check.py",
)

# A shell that runs this in the background has it ignore Ctrl-C, and with it all that it starts: tests send that signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes `-n auto` starts: one more than cores, since tests wait for clocks and processes."""
    return min((os.cpu_count() or 1) + 1, 8)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Have one process run the tests of a file, or of one dear fixture, so that what they share is made once.

    The names must be there before pytest-xdist reads them; the order is made of the one that pytest-randomly gives.
    """
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    yield
    ranks = {name: rank for rank, name in enumerate(DEAR)}
    items.sort(key=lambda item: ranks.get(_group(item), len(ranks)))


def _group(item: pytest.Item) -> str:
    names = getattr(item, "fixturenames", ())
    if "chromium" in names:
        return "chromium"
    if "results" in names:
        return f"results {item.callspec.params['results']}"  # type: ignore[attr-defined]  # of a test with parameters
    return item.path.relative_to(TESTS).as_posix()


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


@pytest.fixture(scope="session", params=MODES)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What came of every scenario under one runtime."""
    folder = tmp_path_factory.getbasetemp()
    # A worker of pytest-xdist has a folder of its own in that of the run.
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "runtimes"
    folder.mkdir(exist_ok=True)
    return Results(request.param, folder)


@pytest.fixture(autouse=True)
def _crawled_elsewhere(request: pytest.FixtureRequest) -> None:
    # The scenarios crawl in processes of their own: another reactor in this one changes nothing, and they take time.
    assert not ("results" in request.fixturenames and request.node.get_closest_marker("reactor"))


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
    """All crawls of a test take a hundredth of a second for a second, but for what Scrapy itself waits for."""
    for module in (_runtime, _scrapy):
        monkeypatch.setattr(module, "call_later", lambda delay, *call: call_later(delay / 100, *call))
    monkeypatch.setattr(_runtime.Runtime, "clock", lambda _: time.monotonic() * 100)


@pytest.fixture(autouse=True)
def _log_everything(request: pytest.FixtureRequest) -> None:
    # Not where commands and demos are run: what these write is looked at as a user sees it.
    if not {"commands", "example", "bench"}.intersection(request.path.parts):
        request.getfixturevalue("caplog").set_level(logging.DEBUG)
