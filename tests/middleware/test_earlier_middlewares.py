"""Middlewares before ours see a request when its robots.txt has been fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from tests.support.crawling import crawl, plugged, records
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Nothing listens there, so only a proxy can reach it.
SHOP = "http://127.0.0.1:1"
RULES = robots("User-agent: *\nDisallow: /private\n")


class BlockList:
    """Drops one page, and all requests to one host, robots.txt included."""

    def process_request(self, request: Request) -> None:
        if "blocked" in request.url:
            raise IgnoreRequest("on the block list")


class Cache:
    """Answers all requests for pages."""

    def process_request(self, request: Request) -> Response | None:
        return None if request.url.endswith("/robots.txt") else Response(request.url, body=b"copy")


class ProxyByMeta:
    """Chooses the proxy of a request by a key in its meta."""

    def __init__(self, crawler: Crawler) -> None:
        self.proxy = crawler.settings["PROXY"]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ProxyByMeta:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        if "country" in request.meta:
            request.meta["proxy"] = self.proxy


@pytest.mark.parametrize("host", ["blocked.example", "shop.example"])
@ensureDeferred
async def test_block_list(proxy: Site, caplog: pytest.LogCaptureFixture, host: str) -> None:
    """A block list drops a page without an error, even if it drops robots.txt as well."""
    page = f"http://{host}/blocked"
    result = await crawl([page], plugged(BlockList, 50))
    assert str(result.outcomes[page]) == "on the block list"
    assert proxy.targets == ([] if "blocked" in host else [f"http://{host}/robots.txt"])
    assert records(caplog) == []


@ensureDeferred
async def test_cache(site: Site) -> None:
    """A page that a cache answers is not requested, but its robots.txt is."""
    site.replies["/robots.txt"] = RULES
    result = await crawl([site.url("/a"), site.url("/private")], plugged(Cache, 50))
    assert set(result.outcomes.values()) == {200}
    assert site.targets == ["/robots.txt"]


@pytest.mark.parametrize(("position", "is_fetched"), [(50, True), (150, False)])
@ensureDeferred
async def test_proxy_by_meta(site: Site, position: int, is_fetched: bool) -> None:
    """robots.txt is requested without a proxy that a middleware chooses by meta. If that fails, it
    is requested through the proxy, provided that the middleware is before ours.
    """
    site.replies[f"{SHOP}/robots.txt"] = RULES
    page = Request(f"{SHOP}/a", meta={"country": "it"})
    result = await crawl([page], plugged(ProxyByMeta, position, PROXY=site.url("")))
    assert result.verdicts() == [200 if is_fetched else "unreachable"]
    assert site.targets == ([f"{SHOP}/robots.txt", page.url] if is_fetched else [])
