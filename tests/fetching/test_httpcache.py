"""Offline replay: with HTTPCACHE_IGNORE_MISSING nothing is sent, and no robots.txt is needed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from tests.support.crawling import Crawl, crawl, records
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from pathlib import Path


RULES = "User-agent: *\nDisallow: /x\n"
RFC2616 = {"HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy"}


class Cached:
    """Crawls that share an HTTP cache."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.settings: dict[str, Any] = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(folder)}

    def requests(self, *targets: str | Request) -> list[str | Request]:
        return [self.site.url(target) if isinstance(target, str) else target for target in targets]

    async def online(self, *targets: str, **settings: Any) -> Crawl:
        return await crawl(self.requests(*targets), {**self.settings, **settings})

    async def offline(self, *targets: str | Request, **settings: Any) -> list[Any]:
        asked, pages = len(self.site.asked), self.requests(*targets)
        offline = {**self.settings, "HTTPCACHE_IGNORE_MISSING": True, **settings}
        self.last = await crawl(pages, offline)
        assert len(self.site.asked) == asked  # nothing has left the machine
        return self.last.verdicts(*pages)


@pytest.fixture
def cached(site: Site, tmp_path: Path) -> Cached:
    """A site with rules, and an empty HTTP cache."""
    site.replies["/robots.txt"] = robots(RULES)
    return Cached(site, tmp_path / "httpcache")


@pytest.mark.parametrize("storage", ["FilesystemCacheStorage", "DbmCacheStorage"])
@ensureDeferred
async def test_replay_needs_no_robots_txt(
    cached: Cached, storage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Offline, pages come from the HTTP cache without a robots.txt, and one log line says so."""
    cached.settings["HTTPCACHE_STORAGE"] = f"scrapy.extensions.httpcache.{storage}"
    await cached.online("/a", "/x", ROBOTSTXT_OBEY=False)
    other = Request(cached.site.url("/b", "localhost"))
    # Scrapy's HTTP cache ignores what it does not have.
    ignored = "IgnoreRequest"
    assert await cached.offline("/a", "/b", "/x", other) == [200, ignored, 200, ignored]
    [line] = [text for text in records(caplog, logging.INFO) if "HTTPCACHE" in text]
    assert line == (
        "HTTPCACHE_IGNORE_MISSING is on, so nothing is requested. What the HTTP cache answers needs"
        " no robots.txt"
    )


@ensureDeferred
async def test_not_answered_from_the_cache(cached: Cached) -> None:
    """Online, the HTTP cache answers pages but not robots.txt."""
    await cached.online("/a")
    cached.site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /a\n")
    result = await cached.online("/a")
    assert result.verdicts() == ["rule"]
    assert (cached.site.fetches, cached.site.pages) == (2, ["/a"])


@ensureDeferred
async def test_tdmrep_comes_from_the_http_cache(cached: Cached) -> None:
    """Offline, a stored tdmrep.json decides, and without one nothing is sent."""
    use = {"ROBOTS_USE": ["tdm"]}
    await cached.online("/a")
    assert await cached.offline("/a", **use) == [200]
    reserved = b'[{"location": "/*", "tdm-reservation": 1}]'
    cached.site.replies["/.well-known/tdmrep.json"] = Reply(body=reserved)
    await cached.online("/a", **use)
    assert await cached.offline("/a", **use) == ["use"]


@pytest.mark.parametrize("obeyed", [True, False])
@pytest.mark.parametrize(
    ("settings", "meta", "why"),
    [
        ({"HTTPCACHE_ENABLED": False}, {}, "no HTTP cache is at work (HTTPCACHE_ENABLED)"),
        ({}, {"dont_cache": True}, "its meta has dont_cache"),
        ({"HTTPCACHE_IGNORE_SCHEMES": ["http"]}, {}, "HTTPCACHE_POLICY stores no such request"),
        (RFC2616, {}, "HTTPCACHE_POLICY would confirm the copy by asking the site"),
    ],
    ids=["off", "dont_cache", "scheme", "policy"],
)
@ensureDeferred
async def test_what_would_be_sent(
    cached: Cached, settings: dict[str, Any], meta: dict[str, Any], why: str, obeyed: bool
) -> None:
    """A request that the HTTP cache would send is dropped."""
    await cached.online("/a", "/robots.txt", ROBOTSTXT_OBEY=obeyed)
    for target in ("/a", "/robots.txt") if obeyed else ("/a",):
        request = Request(cached.site.url(target), meta=meta)
        assert await cached.offline(request, **settings) == ["unreachable"]
        error = cached.last.outcomes[request.url]
        assert str(error).endswith(
            f"HTTPCACHE_IGNORE_MISSING is on, but this would be sent, because {why})"
        )


@ensureDeferred
async def test_replay_counts_a_robots_txt_once_in_a_dry_run(cached: Cached) -> None:
    """In a dry run, a request for robots.txt that would be sent counts once."""
    request = Request(cached.site.url("/robots.txt"), meta={"dont_cache": True})
    offline = {**cached.settings, "HTTPCACHE_IGNORE_MISSING": True, "ROBOTS_DRY_RUN": True}
    result = await crawl([request], offline)
    assert (result.stat("forbidden"), result.stat("dry_run"), result.stat("allowed")) == (1, 1, 0)


@ensureDeferred
async def test_exceptions_of_the_user(cached: Cached, tmp_path: Path) -> None:
    """Exempt sites and local files have their own rules offline, and no store is filled."""
    await cached.online("/a", "/x", ROBOTSTXT_OBEY=False)
    assert await cached.offline("/a", "/x", ROBOTS_EXEMPT=["127.0.0.1"]) == [200, 200]
    (tmp_path / "own.txt").write_text("User-agent: *\nDisallow: /a\n")
    overrides = {cached.site.url(""): str(tmp_path / "own.txt")}
    assert await cached.offline("/a", "/x", ROBOTS_OVERRIDES=overrides) == ["rule", 200]
    store = tmp_path / "robots.sqlite"
    assert await cached.offline("/a", ROBOTS_CACHE=f"sqlite:///{store}") == [200]
    assert not store.exists()
