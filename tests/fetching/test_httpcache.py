"""Offline replay: with HTTPCACHE_IGNORE_MISSING nothing is sent, and the HTTP cache decides."""

from __future__ import annotations

import gzip
import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.extensions import httpcache

from scrapy_robots_rfc import RobotsDisallowed
from tests.support.crawling import Crawl, crawl, records, short
from tests.support.site import PAGE, Reply, Site, redirect, robots

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy import Spider
    from scrapy.http import Response

RULES = "User-agent: *\nDisallow: /x\n"
RFC2616 = {"HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy"}
DATED = (("Cache-Control", "max-age=3600"), ("Last-Modified", "Sat, 01 Nov 2025 00:00:00 GMT"))
STORAGES = ("FilesystemCacheStorage", "DbmCacheStorage")


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
        asked = len(self.site.asked)
        offline = {**self.settings, "HTTPCACHE_IGNORE_MISSING": True, **settings}
        self.last = await crawl(self.requests(*targets), offline)
        assert len(self.site.asked) == asked  # nothing has left the machine
        urls = [
            request if isinstance(request, str) else request.url
            for request in self.requests(*targets)
        ]
        return [what(self.last.outcomes[url]) for url in urls]


def what(outcome: int | BaseException) -> Any:
    """Return the outcome of a page."""
    if isinstance(outcome, IgnoreRequest) and not isinstance(outcome, RobotsDisallowed):
        return "not in the cache"
    return short(outcome)


@pytest.fixture
def cached(site: Site, tmp_path: Path) -> Cached:
    """A site with rules, and an empty HTTP cache."""
    site.replies["/robots.txt"] = robots(RULES)
    return Cached(site, tmp_path / "httpcache")


@pytest.mark.parametrize("storage", STORAGES)
@ensureDeferred
async def test_replay_obeys_the_robots_txt_in_the_http_cache(
    cached: Cached, storage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A crawl stores robots.txt in the HTTP cache, which decides offline."""
    cached.settings["HTTPCACHE_STORAGE"] = f"scrapy.extensions.httpcache.{storage}"
    await cached.online("/a")
    assert await cached.offline("/a", "/b", "/x") == [200, "not in the cache", "rule"]
    assert [text for text in records(caplog, logging.INFO) if "HTTPCACHE" in text] == []


class Dated(httpcache.FilesystemCacheStorage):
    """A storage whose copies are of 2001."""

    def retrieve_response(self, spider: Spider, request: Request) -> Response | None:
        response = super().retrieve_response(spider, request)
        request.meta["cache_timestamp"] = 1e9
        return response


@pytest.mark.parametrize(
    ("storage", "logged"), [(Dated, 1), (httpcache.FilesystemCacheStorage, 0)], ids=["old", "new"]
)
@ensureDeferred
async def test_a_replay_says_when_an_old_file_was_stored(
    cached: Cached, storage: type, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the first robots.txt that is older than ROBOTS_CACHE_MAX_AGE, once."""
    cached.settings["HTTPCACHE_STORAGE"] = storage
    await cached.online("/a")
    assert await cached.offline("/a", "/x") == [200, "rule"]
    texts = [text for text in records(caplog, logging.INFO) if "was stored on" in text]
    assert [text.split(" in ")[0] for text in texts] == [cached.site.url("/robots.txt")] * logged
    assert all("stored on 2001-09-09T01:46:40" in text for text in texts)


@ensureDeferred
async def test_not_answered_from_the_cache(cached: Cached) -> None:
    """Online, the HTTP cache answers pages but not robots.txt."""
    await cached.online("/a")
    cached.site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /a\n")
    result = await cached.online("/a")
    assert short(result.outcomes[cached.site.url("/a")]) == "rule"
    assert (cached.site.fetches, cached.site.pages) == (2, ["/a"])


@pytest.mark.parametrize(
    "reply",
    [
        redirect("/moved"),
        Reply(body=gzip.compress(RULES.encode()), headers=(("Content-Encoding", "gzip"),)),
        Reply(chunks=(RULES.encode(), b"#" * 600_000)),
    ],
    ids=["redirect", "gzip", "too long"],
)
@ensureDeferred
async def test_every_kind_of_answer(cached: Cached, reply: Reply) -> None:
    """Redirects, compressed and cut files are obeyed from the HTTP cache as online."""
    cached.site.replies |= {"/robots.txt": reply, "/moved": robots(RULES)}
    await cached.online("/a")
    assert await cached.offline("/a", "/x") == [200, "rule"]


@ensureDeferred
async def test_what_scrapy_itself_put_there(cached: Cached) -> None:
    """A robots.txt that Scrapy's own middleware stored decides as well."""
    body = gzip.compress(RULES.encode())
    cached.site.replies["/robots.txt"] = Reply(body=body, headers=(("Content-Encoding", "gzip"),))
    await cached.online("/a", DOWNLOADER_MIDDLEWARES={})
    assert await cached.offline("/a", "/x") == [200, "rule"]


@ensureDeferred
async def test_404_in_the_http_cache_allows_everything(cached: Cached) -> None:
    """A stored 404 allows everything; an answer without rules does not replace rules."""
    del cached.site.replies["/robots.txt"]
    await cached.online("/a")
    assert await cached.offline("/a") == [200]
    cached.site.replies["/robots.txt"] = robots(RULES)
    await cached.online("/a")
    cached.site.replies["/robots.txt"] = Reply(503)
    await cached.online("/a")
    assert await cached.offline("/a", "/x") == [200, "rule"]


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


@ensureDeferred
async def test_none_in_the_cache(cached: Cached, caplog: pytest.LogCaptureFixture) -> None:
    """Without a stored robots.txt, requests go to the HTTP cache, with one log line."""
    await cached.online("/a", ROBOTSTXT_OBEY=False)
    assert await cached.offline("/a", "/x", Request(cached.site.url("/b", "localhost"))) == [
        200,
        "not in the cache",
        "not in the cache",
    ]
    [line] = [text for text in records(caplog, logging.INFO) if "HTTPCACHE" in text]
    assert (
        line == f"{cached.site.url('/robots.txt')} is not in the HTTP cache, and"
        " cannot be fetched because HTTPCACHE_IGNORE_MISSING is on, so requests to such sites are"
        " answered from the cache or dropped"
    )


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
    await cached.online("/a", ROBOTSTXT_OBEY=obeyed)
    for target in ("/a", "/robots.txt") if obeyed else ("/a",):
        request = Request(cached.site.url(target), meta=meta)
        assert await cached.offline(request, **settings) == ["unreachable"]
        error = cached.last.outcomes[request.url]
        assert str(error).endswith(
            f"HTTPCACHE_IGNORE_MISSING is on, so this must not be sent, and would be: {why})"
        )


@ensureDeferred
async def test_replay_counts_a_robots_txt_once_in_a_dry_run(cached: Cached) -> None:
    """In a dry run, a request for robots.txt that would be sent counts once."""
    request = Request(cached.site.url("/robots.txt"), meta={"dont_cache": True})
    offline = {**cached.settings, "HTTPCACHE_IGNORE_MISSING": True, "ROBOTS_DRY_RUN": True}
    result = await crawl([request], offline)
    assert (result.stat("forbidden"), result.stat("dry_run"), result.stat("allowed")) == (1, 1, 0)


@ensureDeferred
async def test_policy_of_rfc_2616(cached: Cached) -> None:
    """With the RFC 2616 policy, a robots.txt decides if the policy stores it."""
    cached.site.replies["/a"] = Reply(body=PAGE.body, headers=DATED)
    await cached.online("/a", **RFC2616)
    assert await cached.offline("/a", "/x", **RFC2616) == [200, "not in the cache"]
    cached.site.replies["/robots.txt"] = Reply(body=RULES.encode(), headers=DATED)
    await cached.online("/a", **RFC2616)
    assert await cached.offline("/a", "/x", **RFC2616) == [200, "rule"]


@ensureDeferred
async def test_exceptions_of_the_user(cached: Cached, tmp_path: Path) -> None:
    """Exempt sites and local files have precedence over the HTTP cache, which fills no store."""
    await cached.online("/a", "/x", ROBOTSTXT_OBEY=False)
    assert await cached.offline("/a", "/x", ROBOTS_EXEMPT=["127.0.0.1"]) == [200, 200]
    (tmp_path / "own.txt").write_text("User-agent: *\nDisallow: /a\n")
    overrides = {cached.site.url(""): str(tmp_path / "own.txt")}
    assert await cached.offline("/a", "/x", ROBOTS_OVERRIDES=overrides) == ["rule", 200]
    store = tmp_path / "robots.sqlite"
    assert await cached.offline("/a", ROBOTS_CACHE=f"sqlite:///{store}") == [200]
    assert not store.exists()


@ensureDeferred
async def test_a_cache_that_fails(cached: Cached, caplog: pytest.LogCaptureFixture) -> None:
    """A storage that raises causes a warning, and no other verdict."""
    cached.settings["HTTPCACHE_STORAGE"] = Failing
    result = await crawl(cached.requests("/x"), cached.settings)
    assert short(result.outcomes[cached.site.url("/x")]) == "rule"
    stored = cached.site.url("/robots.txt")
    assert records(caplog) == [f"Cannot store {stored} in the HTTP cache"]


class Failing(httpcache.FilesystemCacheStorage):
    """A storage that fails."""

    def store_response(self, *_: Any) -> None:
        raise OSError("disk full")
