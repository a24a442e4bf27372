"""scrapy-playwright and Selenium with a real Chromium, and scrapy-impersonate."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from selenium import webdriver

from tests.support.crawling import records
from tests.support.documents import block, settings
from tests.support.recipes import crawl_by, ruled, verdicts
from tests.support.site import HANG, Reply, redirect, robots

if TYPE_CHECKING:
    from tests.support.site import Site

PLAYWRIGHT = settings(block("docs/plugins.md", "python", "scrapy_playwright"))
IMPERSONATE = settings(block("docs/plugins.md", "python", "scrapy_impersonate"))
SELENIUM = settings(block("docs/plugins.md", "python", "class Selenium"))
CHROMIUM = shutil.which(os.environ.get("CHROMIUM", "chromium"))


@pytest.fixture
def chromium() -> str:
    """The path of Chromium, which CI must have."""
    if CHROMIUM is None:
        assert os.environ.get("CI") != "true", "chromium is missing in CI"
        pytest.skip("chromium is not installed")
    return CHROMIUM


@pytest.fixture
def playwright(chromium: str) -> dict[str, Any]:
    """The recipe, with the Chromium of this machine."""
    options = {"executable_path": chromium, "args": ["--no-sandbox"]}
    return {**PLAYWRIGHT, "PLAYWRIGHT_LAUNCH_OPTIONS": options}


@pytest.fixture
def selenium(chromium: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The recipe, with the Chromium of this machine."""

    class Options(webdriver.ChromeOptions):
        def __init__(self) -> None:
            super().__init__()
            self.binary_location = chromium
            self.add_argument("--no-sandbox")

    monkeypatch.setattr(webdriver, "ChromeOptions", Options)
    return SELENIUM


class EverythingByBrowser:
    """Gives every request the meta of scrapy-playwright."""

    def process_request(self, request: Request) -> None:
        request.meta["playwright"] = True


def pages(site: Site, *targets: str, **meta: Any) -> list[Request]:
    """Return requests with the same meta."""
    return [Request(site.url(target), meta=dict(meta)) for target in targets]


def header(site: Site, target: str, name: str) -> str:
    """Return a header of the request for a target; curl writes names in lower case."""
    [headers] = [asked.headers for asked in site.asked if asked.target == target]
    return {key.lower(): value for key, value in headers.items()}.get(name, "")


@ensureDeferred
async def test_playwright(playwright: dict[str, Any]) -> None:
    """Pages are judged before the browser requests them, and robots.txt is requested without it."""
    with ruled() as site:
        result = await crawl_by(playwright, pages(site, "/open", "/private", playwright=True))
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert site.targets == ["/robots.txt", "/open"]
        agent = header(site, "/robots.txt", "user-agent")
        assert agent == header(site, "/open", "user-agent")
        assert header(site, "/robots.txt", "sec-fetch-dest") == ""
        assert header(site, "/open", "sec-fetch-dest") == "document"


@pytest.mark.parametrize("plugin", ["playwright", "selenium"])
@ensureDeferred
async def test_redirects_of_browsers(plugin: str, request: pytest.FixtureRequest) -> None:
    """A page is dropped if the browser was redirected to a disallowed page."""
    recipe = request.getfixturevalue(plugin)
    with ruled() as site:
        site.replies |= {"/away": redirect("/private/x"), "/moved": redirect("/open")}
        targets = ("/away", "/moved", "/private")
        result = await crawl_by(recipe, pages(site, *targets, **{plugin: True}))
        assert verdicts(result) == {"away": "rule", "moved": "fetched", "private": "rule"}
        assert "/private/x" in site.targets
        assert "/private" not in site.targets
        assert result.stat("forbidden_redirects") == 1


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (robots("User-agent: *\nDisallow: /private"), "rule"),
        (Reply(404, b"missing"), "fetched"),
        (Reply(503, b"later"), "unreachable"),
        (Reply(reset=True), "unreachable"),
    ],
    ids=["file", "404", "503", "reset"],
)
@ensureDeferred
async def test_robots_txt_by_the_browser(
    playwright: dict[str, Any], reply: Reply, verdict: str
) -> None:
    """A robots.txt that the browser requests is read as text, and its status counts."""
    with ruled() as site:
        site.replies["/robots.txt"] = reply
        middlewares = {EverythingByBrowser: 900}
        result = await crawl_by(
            playwright, pages(site, "/private"), DOWNLOADER_MIDDLEWARES=middlewares
        )
        assert verdicts(result) == {"private": verdict}


@ensureDeferred
async def test_browser_that_does_not_start(playwright: dict[str, Any]) -> None:
    """A browser that cannot be started says nothing about the site."""
    with ruled() as site:
        result = await crawl_by(
            playwright,
            pages(site, "/open"),
            DOWNLOADER_MIDDLEWARES={EverythingByBrowser: 900},
            PLAYWRIGHT_LAUNCH_OPTIONS={"executable_path": "/nowhere"},
        )
        assert verdicts(result) == {"open": "local"}


@ensureDeferred
async def test_impersonate(caplog: pytest.LogCaptureFixture) -> None:
    """Pages look like a browser's, robots.txt is a plain request, and the setting names the
    crawler.
    """
    with ruled() as site:
        result = await crawl_by(IMPERSONATE, pages(site, "/open", "/private", impersonate="chrome"))
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert header(site, "/robots.txt", "user-agent") == ""
        assert "Chrome" in header(site, "/open", "user-agent")
    [warning] = records(caplog)
    assert "'foobot'" in warning
    assert "User-Agent header" in warning


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [(None, "rule"), (Reply(reset=True), "unreachable"), (HANG, "unreachable")],
)
@ensureDeferred
async def test_robots_txt_by_impersonate(reply: Reply | None, verdict: str) -> None:
    """With the plugin's middleware, robots.txt is requested as a browser, and failures count."""
    middlewares = {"scrapy_impersonate.RandomBrowserMiddleware": 1000}
    recipe = {**IMPERSONATE, "DOWNLOADER_MIDDLEWARES": middlewares}
    with ruled() as site:
        if reply is not None:
            site.replies["/robots.txt"] = reply
        result = await crawl_by(
            recipe, pages(site, "/private"), IMPERSONATE_BROWSERS=["chrome"], ROBOTS_TIMEOUT=2
        )
        assert verdicts(result) == {"private": verdict}
        assert "Chrome" in header(site, "/robots.txt", "user-agent")
