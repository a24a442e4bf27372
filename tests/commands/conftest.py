"""The command line as Scrapy runs it, and a store of each kind."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.spiders import Spider

from scrapy_robots_rfc.cache.stores.opening import make_store
from tests.support.browser import CHROMIUM, DRIVER, Browser
from tests.support.command_line import Done, run
from tests.support.reports import crawl, exported, made
from tests.support.stores import NamedStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_robots_rfc.cache.stores.base import Store
    from tests.support.reports import Printed, Report, Sums


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    """Call the tests of this folder outside of the reactor, because commands wait for it."""
    pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
    return True


@pytest.fixture(params=["sqlite", "redis", "own"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty store, of each kind."""
    if request.param == "redis":
        return str(request.getfixturevalue("redis_address"))
    if request.param == "own":
        NamedStore.places.clear()
        return "tests.support.stores.NamedStore"
    return f"sqlite:///{tmp_path / 'robots.sqlite'}"


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    """Return that store, opened."""
    made = make_store(address, Crawler(Spider, Settings()))
    assert made is not None
    made[0].open()
    made[0].get("")  # a file of SQLite is empty before the first call
    yield made[0]
    made[0].close()


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Return a function that sums up records, or bytes, with some options."""

    def run_report(records: list[dict[str, Any]] | bytes, *arguments: str) -> Done:
        octets = records if isinstance(records, bytes) else exported(records)
        (tmp_path / "r.jsonl").write_bytes(octets)
        return run("report", "r.jsonl", *arguments, folder=tmp_path)

    return run_report


@pytest.fixture
def printed(report: Report) -> Printed:
    """Return a function that does so with nothing on stderr, and returns the lines."""

    def lines(*arguments: Any) -> list[str]:
        done = report(*arguments)
        assert (done.code, done.err) == (0, "")
        return done.lines

    return lines


@pytest.fixture
def sums(printed: Printed) -> Sums:
    """Return a function that returns the sums, from the JSON."""

    def as_json(*arguments: Any) -> dict[str, Any]:
        [line] = printed(*arguments, "--json")
        found: dict[str, Any] = json.loads(line)
        return found

    return as_json


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start one browser for all tests. CI must have one."""
    if CHROMIUM is None or DRIVER is None:
        assert os.environ.get("CI") != "true", (
            "chromium or chromedriver is missing: these tests must not be skipped here"
        )
        pytest.skip("chromium and chromedriver are not installed")
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """Return the browser with a wide screen."""
    chromium.screen(1440)
    return chromium


@pytest.fixture(scope="session")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the page of an ordinary crawl, and its numbers."""
    folder = tmp_path_factory.mktemp("usual")
    return folder / "report.html", made(folder, crawl())


@pytest.fixture
def shown(browser: Browser, usual: tuple[Path, dict[str, Any]]) -> tuple[Browser, dict[str, Any]]:
    """Return that page in the browser."""
    browser.open(usual[0])
    return browser, usual[1]
