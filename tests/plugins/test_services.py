"""Services that fetch pages for a crawl: Zyte API, Splash, and gateways that take a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from pytest_twisted import ensureDeferred
from scrapy.core.downloader import Downloader
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
    """The API, which can reach a shop."""
    with ZyteApi({f"{SHOP}/robots.txt": (200, TEXT)}) as running:
        yield running


async def fetched(api: ZyteApi, *targets: str, **more: Any) -> dict[str, str]:
    """Crawl pages of the shop, and return their verdicts."""
    urls = [f"{SHOP}{target}" for target in targets or ("/open", "/private")]
    return verdicts(await crawl_by(ZYTE_API, urls, ZYTE_API_URL=f"{api.url}/v1/", **more))


@ensureDeferred
async def test_zyte_api(api: ZyteApi) -> None:
    """The API requests robots.txt, too, and a disallowed page is not requested."""
    assert await fetched(api) == {"open": "fetched", "private": "rule"}
    assert api.urls == [f"{SHOP}/robots.txt", f"{SHOP}/open"]


@ensureDeferred
async def test_zyte_api_leaves_redirects_to_scrapy(api: ZyteApi) -> None:
    """With the recipe, Scrapy follows redirects, so a disallowed page is not requested."""
    api.redirects[f"{SHOP}/away"] = f"{SHOP}/private"
    found = await fetched(api, "/away")
    assert found == {"private": "rule"}
    assert f"{SHOP}/private" not in api.urls


@ensureDeferred
async def test_zyte_api_follows_redirects_with_a_browser(api: ZyteApi) -> None:
    """The browser's text of robots.txt is read, and a page is dropped if the browser was
    redirected to a disallowed page.
    """
    api.redirects[f"{SHOP}/away"] = f"{SHOP}/private"
    browser = {"browserHtml": True}
    found = await fetched(api, "/open", "/away", ZYTE_API_AUTOMAP_PARAMS=browser)
    assert found == {"open": "fetched", "away": "rule"}
    assert all(asked["browserHtml"] for asked in api.asked)


@pytest.mark.parametrize("start", [f"{SHOP}/open", f"{SHOP}/start"])
@ensureDeferred
async def test_zyte_api_with_sessions(api: ZyteApi, start: str) -> None:
    """A site's robots.txt needs no session, and sessions start with a page that it allows."""
    found = await fetched(
        api,
        ZYTE_API_SESSION_ENABLED=True,
        ZYTE_API_SESSION_POOL_SIZE=1,
        ZYTE_API_SESSION_PARAMS={"url": start, "browserHtml": True},
    )
    assert found == {"open": "fetched", "private": "rule"}
    assert api.urls == [f"{SHOP}/robots.txt", start, f"{SHOP}/open"]
    assert "session" not in api.asked[0]


@pytest.mark.parametrize(
    ("params", "dropped"), [({"followRedirect": False}, "private"), ({"browserHtml": True}, "away")]
)
@ensureDeferred
async def test_zyte_api_starts_a_session_with_a_redirect(
    api: ZyteApi, params: dict[str, Any], dropped: str
) -> None:
    """If the page that starts a session redirects to a disallowed one, the session starts, and only
    the page itself is dropped.
    """
    api.redirects[f"{SHOP}/away"] = f"{SHOP}/private"
    found = await fetched(
        api,
        "/away",
        ZYTE_API_AUTOMAP_PARAMS=params,
        ZYTE_API_SESSION_ENABLED=True,
        ZYTE_API_SESSION_POOL_SIZE=1,
    )
    assert found == {dropped: "rule"}
    assert api.urls == [f"{SHOP}/robots.txt", f"{SHOP}/away", f"{SHOP}/away"]


@pytest.mark.parametrize(("status", "verdict"), [(404, "fetched"), (503, "unreachable")])
@ensureDeferred
async def test_status_behind_zyte_api(api: ZyteApi, status: int, verdict: str) -> None:
    """The site's status counts, not the API's."""
    api.pages[f"{SHOP}/robots.txt"] = (status, "no")
    assert await fetched(api, "/private") == {"private": verdict}


@pytest.mark.parametrize(
    ("status", "kind", "verdict"),
    [
        (451, "/download/domain-forbidden", "local"),
        (521, "/download/internal-error", "unreachable"),
    ],
)
@ensureDeferred
async def test_errors_of_zyte_api(api: ZyteApi, status: int, kind: str, verdict: str) -> None:
    """An error of the API says nothing about the site, unless the API could not fetch the page."""
    api.refusal = (status, kind)
    once = AsyncRetrying(stop=stop_after_attempt(1), reraise=True)
    assert await fetched(api, "/open", ZYTE_API_RETRY_POLICY=once) == {"open": verdict}


@ensureDeferred
async def test_robots_txt_without_zyte_api(api: ZyteApi) -> None:
    """With the middleware of the recipe, robots.txt is requested without the API."""
    with Site({"/robots.txt": robots(TEXT)}) as site:
        pages = [site.url("/open"), site.url("/private")]
        result = await crawl_by({**ZYTE_API, **DIRECT}, pages, ZYTE_API_URL=f"{api.url}/v1/")
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert site.targets == ["/robots.txt"]
        assert api.urls == [site.url("/open")]


@ensureDeferred
async def test_splash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The URLs of `SplashRequest` are judged, and their redirects, too, if Splash reports them;
    robots.txt is requested without Splash.
    """
    # The recipe sets both; this undoes it after the test.
    monkeypatch.setattr("scrapy.utils.url.canonicalize_url", None, raising=False)
    monkeypatch.setattr(Downloader, "_get_slot_key", None, raising=False)
    recipe = settings(SPLASH)
    from scrapy_splash import SplashRequest  # noqa: PLC0415 - the recipe makes it importable

    with ruled() as site, Splash() as splash:
        splash.redirects[site.url("/away")] = site.url("/private/x")
        splash.redirects[site.url("/unreported")] = site.url("/private/x")
        pages = [
            *(
                SplashRequest(site.url(target), endpoint="render.json", args={"html": 1})
                for target in ("/open", "/private", "/away")
            ),
            SplashRequest(site.url("/unreported")),
        ]
        result = await crawl_by(recipe, pages, SPLASH_URL=splash.url)
        assert result.outcomes[f"{splash.url}/render.html"] == 200
        assert result.stat("forbidden/rule") == 2
        assert result.stat("forbidden_redirects") == 1
        assert result.stat("exempted") == 3
        assert site.targets == ["/robots.txt"]
        assert sorted(splash.urls) == [
            site.url(f"/{name}") for name in ("away", "open", "unreported")
        ]


@pytest.mark.parametrize(("position", "verdict"), [(750, "rule"), (50, "fetched")])
@ensureDeferred
async def test_gateway(position: int, verdict: str) -> None:
    """After our middleware, the page's own URL is judged; before it, the page is not judged."""
    names = executed(GATEWAY)
    middlewares = {names["Gateway"]: position}
    with ruled() as site, Site({"/robots.txt": RULES}) as gateway:
        names["GATEWAY"] = gateway.url("")  # the class reads it there
        pages = [site.url("/open"), site.url("/private")]
        for page in pages:
            gateway.replies[f"/?url={quote(page, safe='')}"] = PAGE
        recipe = {"ADDONS": names["ADDONS"], "DOWNLOADER_MIDDLEWARES": middlewares}
        result = await crawl_by(recipe, pages)
        assert sorted(verdicts(result).values()) == ["fetched", verdict]
        assert site.targets == ["/robots.txt"]
