"""What surrounds ROBOTSTXT_EARLY: when it is at work, whose parser, filter of duplicates and queue it meets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.dupefilters import RFPDupeFilter
from scrapy.spiders import CrawlSpider

from scrapy_robots_rfc import RfcEarlyMiddleware
from scrapy_robots_rfc.errors import SettingError
from tests.support.crawling import SETTINGS, crawl, make_crawler, records
from tests.support.early_crawls import EARLY, FORBID, SPIDER_MIDDLEWARES, Linked, compared, run
from tests.support.redis_server import RedisServer
from tests.support.shared_stores import KEPT, Kept
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scrapy.http import Response

    from tests.support.service_crawls import Clock

pytestmark = pytest.mark.reactor

DAY = 86_400.0


class Subclass(RfcEarlyMiddleware):
    """A user's own."""


@pytest.mark.parametrize("middlewares", [{}, {"scrapy_robots_rfc.RfcEarlyMiddleware": None}])
@ensureDeferred
async def test_setting_without_the_middleware_stops_the_crawl(site: Site, middlewares: dict[str, Any]) -> None:
    """ROBOTSTXT_EARLY without the spider middleware stops the crawl at start, and says what to add."""
    with pytest.raises(SettingError) as caught:
        await crawl([site.url("/")], {"ROBOTSTXT_EARLY": True, "SPIDER_MIDDLEWARES": middlewares})
    assert str(caught.value) == (
        "ROBOTSTXT_EARLY = True is not accepted; it must be False, or SPIDER_MIDDLEWARES must have "
        "'scrapy_robots_rfc.RfcEarlyMiddleware': 10"
    )
    assert site.targets == []


@pytest.mark.parametrize("key", [Subclass, RfcEarlyMiddleware, "scrapy_robots_rfc.middleware.early.RfcEarlyMiddleware"])
@ensureDeferred
async def test_by_another_name(site: Site, key: Any) -> None:
    """A class, its full path and a subclass are the middleware as well."""
    site.replies["/robots.txt"] = robots(FORBID)
    settings = {"ROBOTSTXT_EARLY": True, "SPIDER_MIDDLEWARES": {key: 10}}
    result, _ = await run([site.url("/"), site.url("/private")], settings)
    assert result.stat("early") == 1


@pytest.mark.parametrize("settings", [{"ROBOTSTXT_EARLY": False}, {"ROBOTSTXT_EARLY": True, "ROBOTSTXT_OBEY": False}])
@ensureDeferred
async def test_nothing_is_said_where_the_setting_is_off(
    site: Site, caplog: pytest.LogCaptureFixture, settings: dict[str, Any]
) -> None:
    """Without the setting, or where robots.txt is not obeyed, there is no such middleware, and no word of it."""
    site.replies["/robots.txt"] = robots(FORBID)
    requests = [site.url("/"), site.url("/private")]
    result, _ = await run(requests, {**settings, "SPIDER_MIDDLEWARES": SPIDER_MIDDLEWARES})
    assert result.crawler.get_spider_middleware(RfcEarlyMiddleware) is None
    assert result.stat("early") == 0
    assert not [record for record in caplog.records if "RfcEarly" in record.getMessage()]


@ensureDeferred
async def test_middleware_alone_does_nothing_and_says_so(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Beside Scrapy's own downloader middleware it does nothing, and says so."""
    stock = {"DOWNLOADER_MIDDLEWARES": {"scrapy_robots_rfc.RfcRobotsTxtMiddleware": None}}
    result, _ = await run([site.url("/"), site.url("/private")], {**EARLY, **stock})
    assert result.stat("early") == 0
    assert records(caplog) == ["ROBOTSTXT_EARLY does nothing: RfcRobotsTxtMiddleware is not at work"]


@ensureDeferred
async def test_addon_needs_one_setting(site: Site) -> None:
    """With the add-on one setting is all that it takes."""
    site.replies["/robots.txt"] = robots(FORBID)
    crawler = make_crawler(Linked, {"ADDONS": {"scrapy_robots_rfc.Addon": 500}, "ROBOTSTXT_EARLY": True})
    await crawler.crawl([site.url("/"), site.url("/private")])
    assert crawler.stats.get_value("robotstxt/early") == 1


class Legacy:
    """A spider middleware from before there was `process_start`."""

    def process_start_requests(self, start: Iterable[Any], spider: Any) -> Iterable[Any]:
        """Change nothing."""
        yield from start


class LegacyStarts(Linked):
    """A spider for those."""

    def start_requests(self) -> Iterable[Any]:
        """Ask for all."""
        yield from self.requests


@pytest.mark.skipif(not hasattr(CrawlSpider, "start_requests"), reason="this Scrapy has done away with it")
@pytest.mark.filterwarnings("ignore:The following enabled spider middlewares")  # Scrapy deprecates them
@ensureDeferred
async def test_legacy_middleware_can_stay(site: Site, tmp_path: Path) -> None:
    """A middleware that knows only `process_start_requests` can stay: ours has both."""
    file = tmp_path / "robots.txt"
    file.write_text(FORBID, encoding="utf-8")
    settings = {**EARLY, "SPIDER_MIDDLEWARES": {**SPIDER_MIDDLEWARES, Legacy: 5}}
    overrides = {"ROBOTSTXT_OVERRIDES": {site.url(""): str(file)}}
    result, _ = await run([site.url("/private"), site.url("/a")], {**settings, **overrides}, LegacyStarts)
    assert site.targets == ["/a"]
    assert result.stat("early") == 1


class Protective:
    """A parser of the user's, with rules of its own; one of them breaks it."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    @classmethod
    def from_crawler(cls, _crawler: Any, robotstxt_body: bytes) -> Protective:
        """Make it."""
        return cls(robotstxt_body)

    def allowed(self, url: str, _user_agent: str) -> bool:
        """Say so."""
        if "broken" in url:
            raise ValueError(url)
        return "private" not in url and not url.endswith("/robots.txt")


@ensureDeferred
async def test_parser_of_the_users(site: Site) -> None:
    """The verdict of another parser is as good, its exceptions too; robots.txt itself it is not asked about."""
    site.replies["/robots.txt"] = robots(FORBID)
    requests = [site.url(target) for target in ("/", "/a", "/private", "/broken", "/robots.txt")]
    settings = {"ROBOTSTXT_PARSER": "tests.middleware.test_early_around.Protective"}
    result = await compared(site, lambda: requests, settings, early=2)
    assert (result.stat("forbidden/parser"), result.stat("parser_errors")) == (2, 1)


@ensureDeferred
async def test_stale_file_decides_early_too(site: Site, clock: Clock) -> None:
    """A stale copy decides as ever, and is counted as such."""
    requests = [site.url("/"), site.url("/private")]
    counts = []
    for settings in ({}, EARLY):
        Kept.store = Kept()
        site.replies["/robots.txt"] = robots(FORBID)
        await run([site.url("/")], KEPT)
        clock.now += 2 * DAY
        site.replies["/robots.txt"] = Reply(503)
        result, told = await run(requests, {**KEPT, **settings})
        counts.append([result.stat("cache/stale_decisions"), result.stat("forbidden/rule"), result.stat("early")])
        assert [decision.stale for *_, decision in told.disallowed] == [True]
    assert counts == [[2, 1, 0], [2, 1, 1]]


@ensureDeferred
async def test_file_that_is_not_fresh(site: Site, clock: Clock) -> None:
    """A file whose time is over decides nothing ahead: it may say something else by now."""

    class Later(Linked):
        def first(self, response: Response) -> Iterable[Any]:
            clock.now += 2 * DAY
            site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /a\n")
            yield from super().first(response)

    site.replies["/robots.txt"] = robots(FORBID)
    result, _ = await run([site.url("/"), site.url("/private"), site.url("/a")], EARLY, Later)
    assert (result.stat("early"), result.stat("forbidden"), site.fetches) == (0, 1, 2)
    assert site.pages == ["/", "/private"]


@ensureDeferred
async def test_offsite_requests_are_dropped_as_offsite(site: Site, tmp_path: Path) -> None:
    """A request that leaves the allowed domains is dropped for that, as ever; `dont_filter` lets it stay."""
    file = tmp_path / "robots.txt"
    file.write_text(FORBID, encoding="utf-8")

    class Stays(Linked):
        allowed_domains = ("127.0.0.1",)

    def requests() -> list[Any]:
        away = [Request("http://a.example/private", dont_filter=stays) for stays in (False, True)]
        welcome = Request("http://a.example/private/welcome", meta={"allow_offsite": True})
        return [site.url("/"), *away, welcome]

    settings = {"ROBOTSTXT_OVERRIDES": {"http://a.example": str(file)}}
    result = await compared(site, requests, settings, Stays, early=2)
    assert result.stats["offsite/filtered"] == 1


@ensureDeferred
async def test_resumed_crawl_counts_no_drop_again(site: Site, tmp_path: Path) -> None:
    """With JOBDIR what was dropped stays known to the filter of duplicates: the resumed crawl counts it no more."""
    site.replies["/robots.txt"] = robots(FORBID)
    requests = [Request(site.url("/"), dont_filter=True), site.url("/private")]
    settings = {**EARLY, "JOBDIR": str(tmp_path)}
    counts = [(await run(requests, settings))[0].stat("forbidden") for _ in range(2)]
    assert counts == [1, 0]


class Shaky(RFPDupeFilter):
    """A filter of duplicates that fails the first time that it is asked about some URLs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.failed: set[str] = set()

    def request_seen(self, request: Request) -> bool:
        """Fail, or answer."""
        if "shaky" in request.url and request.url not in self.failed:
            self.failed.add(request.url)
            raise OSError("the filter is gone")
        return super().request_seen(request)


@ensureDeferred
async def test_failing_filter_of_duplicates_holds_up_nothing(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Where the filter of duplicates fails, the request goes on as it is, and so does all that comes after it."""
    site.replies["/robots.txt"] = robots(FORBID)
    secret = site.url("/private/shaky").replace("http://", "http://me:se-cret@")
    requests = [site.url("/"), secret, site.url("/private")]
    settings = {**EARLY, "DUPEFILTER_CLASS": "tests.middleware.test_early_around.Shaky"}
    result, _ = await run(requests, settings)
    assert (result.stat("early"), result.stat("forbidden")) == (1, 2)
    assert [line for line in records(caplog, logging.DEBUG) if line.startswith("Not judged")] == [
        f"Not judged before it is queued: <GET {site.url('/private/shaky')}>"
    ]


@ensureDeferred
async def test_scheduler_of_the_users(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """With a scheduler that shows no filter of Scrapy's kind it does nothing, and says so; duplicates are known."""
    site.replies["/robots.txt"] = robots(FORBID)
    requests = [site.url("/"), *[site.url("/private")] * 3]
    settings = {"SCHEDULER": "tests.support.schedulers.Own"}
    counts = []
    for early in ({}, EARLY):
        result, told = await run(requests, {**settings, **early})
        counts.append((result.stat("early"), result.stat("forbidden"), told.dropped))
    assert counts == [(0, 1, [site.url("/private")] * 2)] * 2
    [warning] = records(caplog)
    assert "ROBOTSTXT_EARLY leaves all requests to the downloader middleware: Own has no `df`" in warning


@pytest.mark.filterwarnings("ignore:Passing a 'spider' argument")  # scrapy-redis does
@pytest.mark.usefixtures("redis_installed")
@ensureDeferred
async def test_fleet_counts_a_dropped_link_once(site: Site) -> None:
    """A fleet's queue and filter of duplicates in Redis: a link that one worker has dropped no other one counts."""
    site.replies["/robots.txt"] = robots(FORBID)
    with RedisServer() as server:
        settings = {
            **EARLY,
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "SCHEDULER_PERSIST": True,
            "REDIS_URL": f"redis://127.0.0.1:{server.port}",
        }
        requests = [Request(site.url("/"), dont_filter=True), site.url("/private"), site.url("/private")]
        counts = []
        for _ in range(2):
            result, _ = await run(requests, settings)
            counts.append((result.stat("early"), result.stats["scheduler/enqueued/redis"]))
    assert counts == [(1, 2), (0, 2)]  # the page, and once more when it was set aside
    assert site.pages == ["/", "/"]


def test_nothing_by_default() -> None:
    """The settings of these tests turn it on; those that all tests share do not."""
    assert "ROBOTSTXT_EARLY" not in SETTINGS
