"""Sites for the crawls, and what came of those that run under every runtime."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.utils.asyncio import call_later

from scrapy_robots_rfc import _compat
from tests.scrapy.scripted import Clock
from tests.scrapy.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

MODES = ("asyncio", "select", "none")
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def all_results() -> dict[str, dict[str, Any]]:
    """What came of every scenario, by runtime; the three processes run side by side."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    processes = {
        mode: subprocess.Popen(
            [sys.executable, str(HERE / "runtime_runner.py"), mode],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        for mode in MODES
    }
    results = {}
    for mode, process in processes.items():
        stdout, stderr = process.communicate(timeout=200)
        assert process.returncode == 0, stderr.decode()
        results[mode] = json.loads(stdout)
    return results


@pytest.fixture(params=MODES)
def results(request: pytest.FixtureRequest, all_results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What came of every scenario under one runtime."""
    # They crawl in processes of their own: another reactor in this one changes nothing, and they take their time.
    assert request.node.get_closest_marker("reactor") is None
    return all_results[request.param]


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
    monkeypatch.setattr(_compat.Runtime, "clock", lambda _: fake())
    monkeypatch.setattr(_compat.Runtime, "date", lambda _: fake.date())
    return fake


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """All crawls of a test take a hundredth of a second for a second, but for what Scrapy itself waits for."""
    monkeypatch.setattr(_compat, "call_later", lambda delay, *call: call_later(delay / 100, *call))
    monkeypatch.setattr(_compat.Runtime, "clock", lambda _: time.monotonic() * 100)


@pytest.fixture(autouse=True)
def _log_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
