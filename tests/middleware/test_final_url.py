"""Pages of browsers and APIs that follow redirects themselves: the final URL is judged, too."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urljoin

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, Spider

from scrapy_robots_rfc import RfcRobotsTxtMiddleware, RobotsDisallowed
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.middleware import final_url
from tests.support.crawling import close_when, crawl, plugged, records
from tests.support.site import HANG, Reply, Site, redirect, robots

if TYPE_CHECKING:
    from scrapy.http import Response

RULES = robots("User-agent: *\nDisallow: /private\n")


class Browser:
    """A third-party middleware that delivers the page to which a site redirects."""

    def process_response(self, request: Request, response: Response) -> Response:
        location = response.headers.get("Location")
        if location is None:
            return response
        return response.replace(url=urljoin(response.url, location.decode()), status=200)


class Api:
    """A third-party middleware that requests pages from an API, as scrapy-splash does."""

    def process_request(self, request: Request) -> Request | None:
        if "api_url" in request.meta or request.url.endswith("/robots.txt"):
            return None
        meta = {**request.meta, "api_url": request.url, "dont_obey_robotstxt": True}
        url = urljoin(request.url, f"/api?url={quote(request.url, safe='')}")
        return request.replace(url=url, meta=meta)

    def process_response(self, request: Request, response: Response) -> Response:
        final = response.headers.get("Final-URL")
        url = request.meta.get("api_url", request.url)
        return response.replace(url=url if final is None else final.decode())


@ensureDeferred
async def test_redirect_to_a_disallowed_page(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A page is dropped if the browser was redirected to a URL that robots.txt disallows."""
    site = "http://example.com"
    proxy.replies |= {
        f"{site}/robots.txt": RULES,
        f"{site}/a": redirect("/private/a"),
        f"{site}/b": redirect("/c"),
    }
    with caplog.at_level(logging.DEBUG):
        result = await crawl([f"{site}/a", f"{site}/b"], plugged(Browser, 950))
    assert result.verdicts(f"{site}/a", f"{site}/b") == ["rule", 200]
    assert result.stat("forbidden_redirects") == result.stat("forbidden/rule") == 1
    why = f"redirected to {site}/private/a; robots.txt line 2: Disallow: /private"
    assert f"Forbidden by robots.txt: <GET {site}/a> ({why})" in records(caplog, logging.DEBUG)


@pytest.mark.parametrize("size", [0, 40_000], ids=["small file", "large file"])
@ensureDeferred
async def test_redirect_to_another_site(site: Site, other: Site, size: int) -> None:
    """The robots.txt of the final URL's own site decides, and is fetched if it is not known."""
    padding = f"\n# {'x' * 70}" * (size // 70)
    other.replies["/robots.txt"] = robots(f"User-agent: *\nDisallow: /private{padding}\n")
    site.replies |= {"/a": redirect(other.url("/private/x")), "/b": redirect(other.url("/open"))}
    pages = [site.url("/a"), site.url("/b")]
    result = await crawl(pages, plugged(Browser, 950))
    assert result.verdicts(*pages) == ["rule", 200]
    assert other.targets == ["/robots.txt"]


@pytest.mark.parametrize("reply", [Reply(503), HANG], ids=["fails", "hangs"])
@ensureDeferred
async def test_unreachable_robots_txt_of_the_final_url(
    site: Site, other: Site, reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is dropped if one attempt to fetch the robots.txt of its final URL fails, or hangs."""
    monkeypatch.setattr(final_url, "FETCH_TIME", 0.3)
    other.replies["/robots.txt"] = reply
    site.replies["/a"] = redirect(other.url("/open"))
    result = await crawl(
        [site.url("/a")], plugged(Browser, 950, ROBOTS_TIMEOUT=1, ROBOTS_UNREACHABLE_BACKOFF=[30])
    )
    assert result.verdicts() == ["unreachable"]
    assert "; robots.txt unreachable: " in str(result.outcomes[site.url("/a")])
    assert (result.stat("forbidden_redirects"), other.fetches) == (1, 1)


@pytest.mark.parametrize(
    ("meta", "settings"),
    [
        ({"dont_obey_robotstxt": True}, {}),
        ({}, {"ROBOTS_DRY_RUN": True}),
        ({}, {"ROBOTS_EXEMPT": ["127.0.0.1"]}),
    ],
    ids=["dont_obey_robotstxt", "dry run", "exempt site"],
)
@pytest.mark.parametrize("plugin", [Browser, Api])
@ensureDeferred
async def test_pages_that_the_user_lets_through(
    site: Site, plugin: type, meta: dict[str, Any], settings: dict[str, Any]
) -> None:
    """A request, or a setting, lets pages of disallowed URLs pass."""
    url = site.url("/a")
    final = site.url("/private/x")
    moved = Reply(headers=(("Final-URL", final),))
    api = f"/api?url={quote(url, safe='')}"
    site.replies |= {"/robots.txt": RULES, "/a": redirect("/private/x"), api: moved}
    result = await crawl([Request(url, meta=meta)], plugged(plugin, 950, **settings))
    assert result.outcomes.popitem()[1] == 200
    is_dry_run = "ROBOTS_DRY_RUN" in settings
    assert result.stat("dry_run") == result.stat("forbidden_redirects") == is_dry_run


@ensureDeferred
async def test_request_that_starts_a_session(site: Site) -> None:
    """A request of scrapy-zyte-api that starts a session is judged before it is sent, but not by
    its final URL or its headers.
    """
    reserved = (("Location", "/private/x"), ("Content-Usage", "train-ai=n"))
    site.replies |= {"/robots.txt": RULES, "/a": Reply(302, headers=reserved)}
    urls = [site.url("/a"), site.url("/private/a")]
    requests = [Request(url, meta={"_is_session_init_request": True}) for url in urls]
    result = await crawl(requests, plugged(Browser, 950, ROBOTS_USE=["train-ai"]))
    assert result.verdicts(*urls) == [200, "rule"]


@ensureDeferred
async def test_page_of_an_api(site: Site) -> None:
    """A page that an API fetched is judged by its final URL, not by the URL of the API."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\nDisallow: /api\n")
    api = f"/api?url={quote(site.url('/a'), safe='')}"
    site.replies[api] = Reply(headers=(("Final-URL", site.url("/private/x")),))
    result = await crawl([site.url("/a"), site.url("/b")], plugged(Api, 950))
    outcomes = {url.rpartition("%2F")[2]: outcome for url, outcome in result.outcomes.items()}
    assert isinstance(outcomes["a"], RobotsDisallowed)
    assert outcomes["b"] == 200
    assert result.stat("forbidden_redirects") == 1


class Listing(RfcRobotsTxtMiddleware):
    """A subclass of our middleware that lists responses."""

    listed: ClassVar[list[str]] = []

    def process_response(self, request: Request, response: Response) -> Response:
        self.listed.append(request.url)
        return response


class ListingWithSpider(Listing):
    """The same, with the argument of earlier Scrapy versions."""

    def process_request(self, request: Request, spider: Spider) -> Any:  # type: ignore[override]
        assert spider.name == "pages"
        return super().process_request(request)

    async def process_response(  # type: ignore[override]
        self, request: Request, response: Response, spider: Spider
    ) -> Response:
        self.listed.append(request.url)
        return response


@pytest.mark.filterwarnings("ignore:.*requires a spider argument")
@pytest.mark.parametrize("subclass", [Listing, ListingWithSpider])
@ensureDeferred
async def test_subclass_with_its_own_process_response(site: Site, subclass: type[Listing]) -> None:
    """A subclass of our middleware only gets the responses whose final URL is allowed."""
    subclass.listed.clear()
    site.replies |= {"/robots.txt": RULES, "/a": redirect("/private/a"), "/b": redirect("/c")}
    settings = plugged(Browser, 950)
    del settings["DOWNLOADER_MIDDLEWARES"]["scrapy_robots_rfc.RfcRobotsTxtMiddleware"]
    settings["DOWNLOADER_MIDDLEWARES"][subclass] = 100
    pages = [site.url("/a"), site.url("/b")]
    result = await crawl(pages, settings)
    assert result.verdicts(*pages) == ["rule", 200]
    assert subclass.listed == [site.url("/robots.txt"), site.url("/b")]


@pytest.mark.reactor
@ensureDeferred
async def test_close_does_not_wait_for_the_robots_txt_of_a_final_url(
    site: Site, other: Site
) -> None:
    """A spider closes at once, although the robots.txt of a final URL hangs."""
    other.replies["/robots.txt"] = HANG
    site.replies["/a"] = redirect(other.url("/open"))
    closed_at: list[float] = []

    def is_fetching(_: object) -> bool:
        closed_at.append(time.monotonic())
        return "/robots.txt" in other.targets

    result = await crawl([site.url("/a")], plugged(Browser, 950), prepare=close_when(is_fetching))
    assert time.monotonic() - closed_at[-1] < final_url.FETCH_TIME / 2
    assert isinstance(result.outcomes[site.url("/a")], RobotsUndecided)
    assert result.stat("undecided") == 1
