"""Services that fetch pages for a crawl: Zyte API, Splash, gateways that take a URL."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from tenacity import AsyncRetrying, stop_after_attempt

from tests.support.documents import block, executed, settings
from tests.support.gateways import Splash, ZyteApi
from tests.support.recipes import RULES, crawl_by, ruled, verdicts
from tests.support.site import PAGE, Site, robots

if TYPE_CHECKING:
    from collections.abc import Iterator

ZYTE_API = settings(block("docs/plugins.md", "python", "scrapy_zyte_api.Addon"))
DIRECT = settings(block("docs/plugins.md", "python", "zyte_api_automap"))
SPLASH = block("docs/plugins.md", "python", "scrapy_splash")
GATEWAY = block("docs/plugins.md", "python", "class Gateway")

SHOP = "http://shop.example"
TEXT = "User-agent: foobot\nDisallow: /private\n"


@pytest.fixture
def api() -> Iterator[ZyteApi]:
    """The API, and a shop behind it."""
    with ZyteApi({f"{SHOP}/robots.txt": (200, TEXT)}) as running:
        yield running


async def bought(api: ZyteApi, **more: Any) -> dict[str, str]:
    """Crawl two pages of the shop."""
    crawl = await crawl_by(
        ZYTE_API, [f"{SHOP}/open", f"{SHOP}/private"], ZYTE_API_URL=f"{api.url}/v1/", **more
    )
    return verdicts(crawl)


@ensureDeferred
async def test_zyte_api(api: ZyteApi) -> None:
    """In transparent mode robots.txt goes through the API, without Scrapy's header.

    The first request succeeds.
    """
    assert await bought(api) == {"open": "fetched", "private": "rule"}
    plain = {"httpResponseBody": True, "httpResponseHeaders": True}
    assert api.asked == [{"url": f"{SHOP}/robots.txt", **plain}, {"url": f"{SHOP}/open", **plain}]


@ensureDeferred
async def test_zyte_api_with_a_browser(api: ZyteApi) -> None:
    """Where all requests want a browser, what it shows of robots.txt is read as the text."""
    found = await bought(api, ZYTE_API_AUTOMAP_PARAMS={"browserHtml": True})
    assert found == {"open": "fetched", "private": "rule"}
    assert all(asked["browserHtml"] for asked in api.asked)


@ensureDeferred
async def test_zyte_api_with_sessions(api: ZyteApi) -> None:
    """The first session of a site is begun with the URL of its robots.txt."""
    found = await bought(api, ZYTE_API_SESSION_ENABLED=True, ZYTE_API_SESSION_POOL_SIZE=1)
    assert found == {"open": "fetched", "private": "rule"}
    first, second, *_ = api.asked
    assert first["url"] == second["url"] == f"{SHOP}/robots.txt"
    assert first["session"] == second["session"]
    assert f"{SHOP}/private" not in api.urls


@pytest.mark.parametrize(("status", "verdict"), [(404, "fetched"), (503, "unreachable")])
@ensureDeferred
async def test_zyte_api_tells_the_status(api: ZyteApi, status: int, verdict: str) -> None:
    """The status of the site counts, not that of the API."""
    api.pages[f"{SHOP}/robots.txt"] = (status, "no")
    assert set((await bought(api)).values()) == {verdict}


@pytest.mark.parametrize(
    ("status", "kind", "verdict"),
    [
        (451, "/download/domain-forbidden", "local"),
        (400, "/request/invalid", "local"),
        (521, "/download/internal-error", "unreachable"),
    ],
)
@ensureDeferred
async def test_zyte_api_refuses(api: ZyteApi, status: int, kind: str, verdict: str) -> None:
    """What the API refuses says nothing about the site; what it could not fetch does."""
    api.refusal = (status, kind)
    once = AsyncRetrying(stop=stop_after_attempt(1), reraise=True)
    assert set((await bought(api, ZYTE_API_RETRY_POLICY=once)).values()) == {verdict}


@ensureDeferred
async def test_robots_txt_without_the_api(api: ZyteApi) -> None:
    """With the middleware of the page, robots.txt is asked for from this machine, and pages
    through the API.
    """
    with Site({"/robots.txt": robots(TEXT)}) as site:
        result = await crawl_by(
            {**ZYTE_API, **DIRECT},
            [site.url("/open"), site.url("/private")],
            ZYTE_API_URL=f"{api.url}/v1/",
        )
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert site.targets == ["/robots.txt"]
        assert api.urls == [site.url("/open")]


def test_splash_needs_repairs() -> None:
    """scrapy-splash cannot be imported with this version of Scrapy.

    Once it can, its recipe gets shorter.
    """
    found = subprocess.run(
        [sys.executable, "-c", "import scrapy_splash"], capture_output=True, text=True, check=False
    )
    assert "cannot import name 'canonicalize_url'" in found.stderr


@ensureDeferred
async def test_splash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's own URL is judged; robots.txt goes to the site, and pages go to Splash."""
    monkeypatch.setattr(
        "scrapy.utils.url.canonicalize_url", None, raising=False
    )  # undone after the test
    with ruled() as site, Splash() as splash:
        meta = [{"splash": {"endpoint": "render.html", "args": {"wait": 0}}} for _ in range(2)]
        pages = [
            Request(site.url(target), meta=one)
            for target, one in zip(("/open", "/private"), meta, strict=True)
        ]
        result = await crawl_by(settings(SPLASH), pages, SPLASH_URL=splash.url)
        assert result.stat("forbidden/rule") == 1
        assert result.stat("exempted") == 1
        assert site.targets == ["/robots.txt"]
        assert splash.urls == [site.url("/open")]


async def through_gateway(position: int) -> tuple[Site, Site, list[str]]:
    """Crawl two pages through a gateway whose middleware stands at a position.

    Return site, gateway, verdicts.
    """
    with ruled() as site, Site({"/robots.txt": RULES}) as gateway:
        for target in ("/open", "/private"):
            gateway.replies[f"/?url={quote(site.url(target), safe='')}"] = PAGE
        names = executed(GATEWAY)
        names["GATEWAY"] = gateway.url("")  # the class of the block looks it up there
        recipe = {
            key: value
            for key, value in names.items()
            if key in {"ADDONS", "DOWNLOADER_MIDDLEWARES"}
        }
        if position != 750:
            recipe["DOWNLOADER_MIDDLEWARES"] = {names["Gateway"]: position}
        result = await crawl_by(recipe, [site.url("/open"), site.url("/private")])
        return site, gateway, sorted(verdicts(result).values())


@ensureDeferred
async def test_gateway() -> None:
    """Behind this middleware, the page's own URL is judged, and the gateway is not."""
    site, gateway, found = await through_gateway(750)
    assert found == ["fetched", "rule"]
    assert site.targets == ["/robots.txt"]
    assert gateway.targets == [f"/?url={quote(site.url('/open'), safe='')}"]


@ensureDeferred
async def test_gateway_at_the_wrong_place() -> None:
    """Before this middleware, a gateway's middleware hides the page.

    The site's robots.txt is never asked for.
    """
    site, gateway, found = await through_gateway(50)
    assert found == ["fetched", "fetched"]
    assert site.targets == []
    assert len(gateway.targets) == 2
