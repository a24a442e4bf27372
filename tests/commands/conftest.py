"""The command line as Scrapy runs it, and a store of each kind for it to look into."""

from __future__ import annotations

import io
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.cmdline import execute
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.spiders import Spider

from scrapy_robots_rfc.cache.stores.opening import store_of
from scrapy_robots_rfc.commands import cache_store
from tests.commands.browser import CHROMIUM, DRIVER, Browser
from tests.commands.copies import NOW, Done
from tests.commands.own import Kept
from tests.commands.pages import made
from tests.commands.reports import crawl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrapy_robots_rfc.cache.stores.base import Store


@pytest.fixture
def robots(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Run ``scrapy robots``."""

    def run(*arguments: str, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        monkeypatch.setattr(cache_store, "time", SimpleNamespace(time=lambda: NOW))  # when the copies below were made
        with pytest.raises(SystemExit) as end:
            execute(["scrapy", "robots", *arguments])
        out, err = capsys.readouterr()
        return Done(int(end.value.code or 0), out, err)

    return run


@pytest.fixture(params=["sqlite", "redis", "own"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, of each kind."""
    if request.param == "redis":
        return str(request.getfixturevalue("redis_address"))
    if request.param == "own":
        Kept.places.clear()
        return "tests.commands.own.Kept"
    return f"sqlite:///{tmp_path / 'robots.sqlite'}"


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    """The store itself."""
    made = store_of(address, Crawler(Spider, Settings()))
    assert made is not None
    made[0].open()
    yield made[0]
    made[0].close()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests; CI has to have one."""
    if CHROMIUM is None or DRIVER is None:
        assert os.environ.get("CI") != "true", (
            "chromium or chromedriver is missing: these tests must not be skipped here"
        )
        pytest.skip("chromium and chromedriver are not installed")
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser, with a wide screen, whatever it had before."""
    chromium.screen(1440)
    return chromium


@pytest.fixture(scope="session")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A page of a usual crawl, and its numbers."""
    folder = tmp_path_factory.mktemp("usual")
    return folder / "report.html", made(folder, crawl())


@pytest.fixture
def shown(browser: Browser, usual: tuple[Path, dict[str, Any]]) -> tuple[Browser, dict[str, Any]]:
    """The page of a usual crawl, opened on a wide screen."""
    browser.open(usual[0])
    return browser, usual[1]
