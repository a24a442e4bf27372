"""Sites for the crawls, and what came of those that run under every runtime."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

import pytest
from scrapy.utils.asyncio import call_later

from scrapy_robots_rfc import _runtime, _scrapy
from tests.scrapy.runtimes import MODES, Results
from tests.scrapy.scripted import Clock
from tests.scrapy.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator


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
def _log_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
