"""Requests that a file in memory forbids are dropped before they are queued, and nothing else changes: real crawls."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from scrapy_robots_rfc import RobotsDisallowed, robots_service
from scrapy_robots_rfc.errors import AgentError
from tests.support.crawling import records
from tests.support.early_crawls import EARLY, FORBID, AsyncLinked, Linked, Starts, compared, run
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from scrapy.http import Response


@pytest.mark.parametrize("spider", [Linked, AsyncLinked])
@ensureDeferred
async def test_links_of_a_callback_are_judged_at_once(
    site: Site, caplog: pytest.LogCaptureFixture, spider: Any
) -> None:
    """What a callback of either kind yields is judged at once: only the scheduler sees less; each has its log line."""
    site.replies["/robots.txt"] = robots(FORBID)
    targets = ("/", "/a", "/private/1", "/b", "/private/2")
    await compared(site, lambda: [site.url(target) for target in targets], spider=spider, early=2)
    lines = [line for line in records(caplog, logging.DEBUG) if line.startswith("Forbidden")]
    expected = [
        f"Forbidden by robots.txt: <GET {site.url(f'/private/{n}')}> (robots.txt line 2: Disallow: /private)"
        for n in (1, 2)
    ]
    assert sorted(lines) == sorted(expected * 2)


@ensureDeferred
async def test_start_requests_are_judged_at_once(site: Site, tmp_path: Path) -> None:
    """What a spider starts with is judged, too, where the file is there already: a local one is from the start on."""
    file = tmp_path / "robots.txt"
    file.write_text(FORBID, encoding="utf-8")
    settings = {"ROBOTSTXT_OVERRIDES": {site.url(""): str(file)}}
    requests = [site.url("/private/1"), site.url("/a"), site.url("/private/2")]
    result = await compared(site, lambda: requests, settings, Starts, early=2)
    assert result.stat("overridden") == 3


@ensureDeferred
async def test_before_the_file_is_there(site: Site) -> None:
    """Nothing waits for a file here: what is yielded before it is there is queued, and dropped as ever."""
    site.replies["/robots.txt"] = robots(FORBID)
    result, _ = await run([site.url("/private/1"), site.url("/private/2")], EARLY, Starts)
    assert (result.stat("early"), result.stat("forbidden"), site.fetches) == (0, 2, 1)


def page(*targets: str) -> Reply:
    """A page with links."""
    links = "".join(f'<a href="{target}">x</a>' for target in targets)
    return Reply(body=f"<html><body>{links}".encode(), headers=(("Content-Type", "text/html"),))


class Follows(CrawlSpider):
    """Follows all links."""

    name = "follows"
    rules = (Rule(LinkExtractor(), callback="keep", follow=True),)

    def __init__(self, urls: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = urls
        self.came: list[str] = []
        self.failures: list[Any] = []

    def keep(self, response: Response) -> None:
        """Keep it."""
        self.came.append(response.url)

    def failed(self, failure: Any) -> None:
        """Keep what an errback is told."""
        self.failures.append(failure.value)


def fill(site: Site) -> None:
    """Give a site pages that all link to the same forbidden ones."""
    site.replies["/robots.txt"] = robots(FORBID)
    everywhere = ("/private/1", "/private/2?b=1&a=2", "/private/2?a=2&b=1")
    for n in range(5):
        site.replies[f"/{n}"] = page(f"/{n + 1}", f"/private/of/{n}", *everywhere)


@ensureDeferred
async def test_link_on_many_pages_is_refused_once(site: Site) -> None:
    """A link that stands on many pages is refused once, and the others count as the duplicates that they are."""
    fill(site)
    result = await compared(site, lambda: [site.url("/0")], spider=Follows, early=7)
    assert result.stat("forbidden/rule") == 7
    assert result.stats["dupefilter/filtered"] == 5 + 4 + 4


class Asks(Follows):
    """Has an errback in its rule."""

    rules = (Rule(LinkExtractor(), callback="keep", follow=True, errback="failed"),)


class Overrides(Follows):
    """Has an errback of its own in the place of Scrapy's."""

    def _errback(self, failure: Any) -> Iterable[Any]:
        self.failed(failure)
        return ()


@pytest.mark.parametrize("spider", [Asks, Overrides])
@ensureDeferred
async def test_crawl_spider_that_is_told(site: Site, spider: Any) -> None:
    """Where a rule has an errback, or the spider one for all, it is told of every request that is dropped."""
    fill(site)
    result = await compared(site, lambda: [site.url("/0")], spider=spider, early=0)
    assert [type(failure) for failure in result.spider.failures] == [RobotsDisallowed] * 7


@ensureDeferred
async def test_request_with_an_errback_goes_on(site: Site) -> None:
    """A request with an errback goes the way that leads there."""
    site.replies["/robots.txt"] = robots(FORBID)

    class Tells(Linked):
        def first(self, response: Response) -> Iterable[Any]:
            for request in super().first(response):
                yield request.replace(errback=self.failed) if isinstance(request, Request) else request

    requests = [site.url("/"), site.url("/private")]
    result = await compared(site, lambda: requests, spider=Tells, early=0)
    [failure] = result.spider.failures
    assert failure.decision.rule.line == 2


@ensureDeferred
async def test_duplicates_on_purpose(site: Site) -> None:
    """Requests with `dont_filter` are no duplicates: each is refused."""
    site.replies["/robots.txt"] = robots(FORBID)
    links = [Request(site.url("/private"), dont_filter=True)] * 3
    await compared(site, lambda: [site.url("/"), *links, *links[:1]], early=4)


@ensureDeferred
async def test_what_no_rule_in_memory_forbids_goes_on(site: Site, other: Site) -> None:
    """What is not forbidden by a rule of a file in memory goes on: other sites, exceptions, robots.txt, other names."""
    site.replies["/robots.txt"] = robots(FORBID)
    other.replies["/robots.txt"] = Reply(503)
    named = {"robotstxt_user_agent": "other"}
    requests = [
        site.url("/"),
        site.url("/robots.txt"),
        Request(site.url("/private/passes"), meta={"dont_obey_robotstxt": True}),
        Request(site.url("/private/other"), meta=named),
        Request(site.url("/open"), meta=named),  # this one is forbidden
        Request(site.url("/open"), headers={"User-Agent": "other/1.0"}, dont_filter=True),  # and this one
        "data:,private",
        "http://in valid/private",
        other.url("/private"),
    ]
    result = await compared(site, lambda: requests, early=2)
    assert result.stat("exempted") == 2
    assert site.url("/private/passes") in result.spider.came
    assert result.stat("forbidden/unreachable") == 2


@pytest.mark.parametrize("status", [404, 503])
@ensureDeferred
async def test_known_absence_of_a_file_drops_nothing(site: Site, other: Site, status: int) -> None:
    """Where it is known that there is no file, nothing is dropped: when to ask again is decided elsewhere."""
    other.replies["/robots.txt"] = Reply(status)

    class Knows(Linked):
        async def first(self, response: Response) -> Any:
            await robots_service(self.crawler).robots(other.url("/"))
            for item in super().first(response):
                yield item

    result = await compared(site, lambda: [site.url("/"), other.url("/private")], spider=Knows, early=0)
    assert result.stat("forbidden/unreachable") == (status == 503)


@ensureDeferred
async def test_wrong_name_in_meta_fails_its_request_only(site: Site) -> None:
    """A wrong name in meta fails its request where it always did, and holds up nothing that comes after it."""
    site.replies["/robots.txt"] = robots(FORBID)

    class Tells(Linked):
        def first(self, response: Response) -> Iterable[Any]:
            yield self.requests[1].replace(errback=self.failed)
            yield self.requests[1].replace(dont_filter=True)
            yield from self.requests[2:]

    def requests() -> list[Any]:
        wrong = Request(site.url("/private/1"), meta={"robotstxt_user_agent": 5})
        return [site.url("/"), wrong, site.url("/private/2"), site.url("/a")]

    result = await compared(site, requests, spider=Tells, early=1)
    [failure] = result.spider.failures
    assert type(failure) is AgentError
    assert site.pages == ["/", "/a"]


@ensureDeferred
async def test_dry_run_drops_nothing_early(site: Site) -> None:
    """In a dry run nothing is dropped, and nothing is counted before its turn."""
    site.replies["/robots.txt"] = robots(FORBID)
    requests = [site.url("/"), site.url("/private")]
    result = await compared(site, lambda: requests, {"ROBOTSTXT_DRY_RUN": True}, early=0)
    assert result.stat("dry_run") == 1
    assert site.pages == ["/", "/private"]


@ensureDeferred
async def test_exempt_requests_go_on_and_count_once(site: Site) -> None:
    """Requests to an exempt site go on, and are counted once."""
    site.replies["/robots.txt"] = robots(FORBID)
    requests = [site.url("/"), site.url("/private")]
    result = await compared(site, lambda: requests, {"ROBOTSTXT_EXEMPT": [site.url("")]}, early=0)
    assert result.stat("exempted") == 2


@ensureDeferred
async def test_interval_that_is_too_long(site: Site) -> None:
    """A page that is left out because of its site's Crawl-delay is no matter of rules: its turn decides."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\nCrawl-delay: 100\n")
    settings = {"ROBOTSTXT_CRAWL_DELAY_OVER": "forbid"}

    class Answered(Linked):
        async def start(self) -> AsyncIterator[Any]:
            yield Request(site.url("/robots.txt"), self.first, meta={"robotstxt_reuse": True})

    requests = ["http://unused.example", site.url("/a"), site.url("/private")]
    result = await compared(site, lambda: requests, settings, Answered, early=1)
    assert (result.stat("forbidden/crawl_delay"), result.stat("forbidden/rule")) == (1, 1)


@ensureDeferred
async def test_looks_ahead_are_not_counted(site: Site) -> None:
    """Looks ahead are not counted as look-ups: each request that is queued has one."""
    site.replies["/robots.txt"] = robots(FORBID)
    result, _ = await run([site.url("/"), site.url("/a"), site.url("/private")], EARLY)
    assert [result.stat(f"cache/{key}") for key in ("misses", "hits")] == [1, 1]


@ensureDeferred
async def test_a_crawl_that_does_not_obey_needs_no_middleware(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Where robots.txt is not obeyed, nothing comes of the setting: the crawl is told so, and goes on."""
    settings = {"ROBOTSTXT_OBEY": False, "ROBOTSTXT_EARLY": True}
    result, _ = await run([site.url("/a")], settings, Starts)
    assert result.spider.came == [site.url("/a")]
    assert "ROBOTSTXT_EARLY: nothing comes of it, because ROBOTSTXT_OBEY is not True" in records(caplog)
