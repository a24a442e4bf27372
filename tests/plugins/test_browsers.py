"""scrapy-playwright with a real Chromium, and scrapy-impersonate."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from tests.support.crawling import records
from tests.support.documents import block, settings
from tests.support.recipes import crawl_by, ruled, verdicts
from tests.support.site import HANG, Reply, redirect

if TYPE_CHECKING:
    from tests.support.site import Site

PLAYWRIGHT = settings(block("docs/plugins.md", "python", "scrapy_playwright"))
IMPERSONATE = settings(block("docs/plugins.md", "python", "scrapy_impersonate"))
CHROMIUM = shutil.which(os.environ.get("CHROMIUM", "chromium"))


@pytest.fixture
def playwright() -> dict[str, Any]:
    """The recipe, with the Chromium of this machine; CI has to have one."""
    if CHROMIUM is None:
        assert os.environ.get("CI") != "true", (
            "chromium is missing: these tests must not be skipped here"
        )
        pytest.skip("chromium is not installed")
    return {
        **PLAYWRIGHT,
        "PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": CHROMIUM, "args": ["--no-sandbox"]},
    }


class ByBrowser:
    """Has everything fetched by the browser, robots.txt as well."""

    def process_request(self, request: Request) -> None:
        """Mark a request."""
        request.meta["playwright"] = True


def pages(site: Site, *targets: str, **meta: Any) -> list[Request]:
    """Requests with some meta each."""
    return [Request(site.url(target), meta=dict(meta)) for target in targets]


def headers(site: Site, name: str) -> dict[str, str]:
    """What was asked for -> a header of it."""
    return {asked.target: asked.headers.get(name, "") for asked in site.asked}


@ensureDeferred
async def test_playwright_never_sees_what_is_forbidden(playwright: dict[str, Any]) -> None:
    """Pages are judged before the browser has them; robots.txt is asked for without it."""
    with ruled() as site:
        result = await crawl_by(playwright, pages(site, "/open", "/private", playwright=True))
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert site.targets == ["/robots.txt", "/open"]
        agents = headers(site, "User-Agent")
        assert agents["/robots.txt"] == agents["/open"]
        dest = headers(site, "Sec-Fetch-Dest")
        assert (dest["/robots.txt"], dest["/open"]) == ("", "document"), site.asked
        assert result.stats["playwright/request_count"] == 1


@pytest.mark.parametrize("kind", ["text/plain", "text/html", "application/octet-stream"])
@ensureDeferred
async def test_robots_txt_by_the_browser(playwright: dict[str, Any], kind: str) -> None:
    """Where a middleware has everything fetched by the browser, the page that it shows is read
    as the text.
    """
    with ruled() as site:
        middlewares = {ByBrowser: 900}
        site.replies["/robots.txt"] = Reply(
            body=b"User-agent: *\nDisallow: /private", headers=(("Content-Type", kind),)
        )
        result = await crawl_by(
            playwright, pages(site, "/open", "/private"), DOWNLOADER_MIDDLEWARES=middlewares
        )
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert site.pages == ["/open"]
        assert result.stats["playwright/request_count"] == 2


@ensureDeferred
async def test_missing_robots_txt_by_the_browser(playwright: dict[str, Any]) -> None:
    """The browser gives the status.

    A missing file allows everything, and a server error nothing.
    """
    with ruled() as site:
        middlewares = {ByBrowser: 900}
        site.replies["/robots.txt"] = Reply(404, b"missing")
        result = await crawl_by(
            playwright, pages(site, "/private"), DOWNLOADER_MIDDLEWARES=middlewares
        )
        assert verdicts(result) == {"private": "fetched"}
        site.replies["/robots.txt"] = Reply(503, b"later")
        result = await crawl_by(
            playwright, pages(site, "/private"), DOWNLOADER_MIDDLEWARES=middlewares
        )
        assert verdicts(result) == {"private": "unreachable"}


@ensureDeferred
async def test_browser_that_cannot_be_started(playwright: dict[str, Any]) -> None:
    """A browser that is not there is a fault of the crawl.

    One that finds no server says something about the site.
    """
    everything = {**playwright, "DOWNLOADER_MIDDLEWARES": {ByBrowser: 900}}
    with ruled() as site:
        nowhere = {"executable_path": "/nowhere"}
        result = await crawl_by(everything, pages(site, "/open"), PLAYWRIGHT_LAUNCH_OPTIONS=nowhere)
        assert verdicts(result) == {"open": "local"}
        site.replies["/robots.txt"] = Reply(reset=True)
        result = await crawl_by(everything, pages(site, "/open"))
        assert verdicts(result) == {"open": "unreachable"}


@ensureDeferred
async def test_playwright_follows_redirects(playwright: dict[str, Any]) -> None:
    """The browser follows a redirect to a disallowed page, which is dropped."""
    with ruled() as site:
        site.replies |= {"/away": redirect("/private"), "/moved": redirect("/open")}
        result = await crawl_by(playwright, pages(site, "/away", "/moved", playwright=True))
        assert verdicts(result) == {"away": "rule", "moved": "fetched"}
        assert "/private" in site.targets
        assert result.stat("forbidden_redirects") == 1


@ensureDeferred
async def test_impersonate(caplog: pytest.LogCaptureFixture) -> None:
    """Pages look like a browser's, robots.txt is a plain request.

    The token is judged, and warned of.
    """
    with ruled() as site:
        result = await crawl_by(IMPERSONATE, pages(site, "/open", "/private", impersonate="chrome"))
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        agents = headers(site, "User-Agent")
        assert agents["/robots.txt"] == ""
        assert "Chrome" in agents["/open"]
    [warning] = records(caplog)
    assert warning.startswith("'foobot' is not in the User-Agent header ''")


@ensureDeferred
async def test_impersonate_everything() -> None:
    """With the plugin's own middleware a browser asks for robots.txt, too, and its statuses
    count.
    """
    recipe = {
        **IMPERSONATE,
        "DOWNLOADER_MIDDLEWARES": {"scrapy_impersonate.RandomBrowserMiddleware": 1000},
        "IMPERSONATE_BROWSERS": ["chrome"],
    }
    with ruled() as site:
        result = await crawl_by(recipe, pages(site, "/open", "/private"))
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert "Chrome" in headers(site, "User-Agent")["/robots.txt"]
        for reply in (Reply(reset=True), HANG):
            site.replies["/robots.txt"] = reply
            result = await crawl_by(recipe, pages(site, "/open"), ROBOTS_TIMEOUT=1)
            assert verdicts(result) == {"open": "unreachable"}
