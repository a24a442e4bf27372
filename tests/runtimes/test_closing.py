"""Spiders that are closed while requests wait for robots.txt."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.pending import TICK
from scrapy_robots_rfc.scheduling.throttle import Throttle
from scrapy_robots_rfc.signals import robots_fetched
from tests.support.crawling import Pages, close_when, crawl, listening
from tests.support.running import in_every_runtime
from tests.support.service_crawls import run
from tests.support.site import HANG, Site, robots
from tests.support.timed_site import urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler

    from scrapy_robots_rfc import RobotsService


@in_every_runtime
async def test_closing_while_robots_txt_hangs(site: Site) -> None:
    """The spider closes at once although robots.txt hangs, and no page is fetched."""
    site.replies["/robots.txt"] = HANG

    def all_wait(crawler: Crawler) -> bool:
        return bool(site.fetches) and crawler.stats.get_value("scheduler/enqueued") == 10

    result = await crawl(urls(site, 10), prepare=close_when(all_wait))
    assert (site.pages, result.outcomes, result.stats["finish_reason"]) == ([], {}, "test")
    assert result.stats["elapsed_time_seconds"] < 5
    counted = {key: value for key, value in result.stats.items() if key.startswith("robotstxt/")}
    assert counted == {
        "robotstxt/cache/misses": 1,
        "robotstxt/request_count": 1,
        "robotstxt/undecided": 10,
    }


@in_every_runtime
async def test_robots_txt_that_arrives_as_the_spider_closes(site: Site) -> None:
    """Requests that wait when the spider begins to close are counted, even if the file arrives."""
    gate = Event()
    site.replies["/robots.txt"] = robots("User-agent: *\nAllow: /\n", gate=gate)

    def all_wait(crawler: Crawler) -> bool:
        if site.fetches and crawler.stats.get_value("scheduler/enqueued") == 5:
            gate.set()
        return gate.is_set()

    result = await crawl(urls(site, 5), prepare=close_when(all_wait))
    assert (site.pages, result.stat("undecided")) == ([], 5)


@pytest.mark.parametrize(("pace", "places"), [(0.05, 8), (0, 1)], ids=["paced", "one place"])
@in_every_runtime
async def test_closing_while_robots_txt_hangs_in_the_slot(
    site: Site, other: Site, pace: float, places: int
) -> None:
    """A robots.txt that hangs in the slot of other pages does not delay the end."""
    site.replies["/robots.txt"] = robots(f"User-agent: *\nCrawl-delay: {pace}\n")
    other.replies["/robots.txt"] = HANG
    pages = [site.url("/0"), other.url("/x"), *urls(site, 4)[1:]]
    # A page gets the only place in the slot when the timeout is over, as with Scrapy alone.
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": places, "ROBOTS_TIMEOUT": 1}
    result = await crawl(pages, settings, prepare=close_when(lambda _: other.fetches))
    assert (other.pages, result.stats["finish_reason"]) == ([], "test")
    assert result.stats["elapsed_time_seconds"] < 5


@in_every_runtime
async def test_failed_maintenance(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If a part of the periodic maintenance fails, the other parts still end the crawl in time."""
    site.replies["/robots.txt"] = HANG

    def fail(_throttle: Throttle) -> None:
        raise RuntimeError("maintenance")

    monkeypatch.setattr(Throttle, "tick", fail)
    result = await crawl([site.url("/a")], prepare=close_when(lambda _: site.fetches))
    assert result.stats["elapsed_time_seconds"] < 5
    failures = [record for record in caplog.records if "maintenance failed" in record.getMessage()]
    assert len(failures) == 1


class Bypassing(Pages):
    """Downloads a page in `start`, and closes itself while the page waits for robots.txt."""

    async def start(self) -> AsyncIterator[Any]:
        [request] = self.requests
        call_later(2 * TICK, lambda: deferred_from_coro(self.crawler.engine.close_spider_async()))
        try:
            await self.crawler.engine.download_async(request)
        except Exception as error:  # noqa: BLE001 - the test checks its class
            self.outcomes[request.url] = error
        nothing: tuple[Request, ...] = ()
        for request in nothing:
            yield request


@pytest.mark.parametrize(
    "reply", [HANG, robots("User-agent: *\nCrawl-delay: 30\n")], ids=["robots.txt", "turn"]
)
@in_every_runtime
async def test_request_outside_the_scheduler_at_the_end(site: Site, reply: Any) -> None:
    """A request that bypassed the scheduler gets an exception as soon as the spider closes."""
    site.replies["/robots.txt"] = reply
    result = await crawl([site.url("/a")], spider=Bypassing)
    assert result.verdicts(site.url("/a")) == ["RobotsUndecided"]
    assert (result.stat("undecided"), site.pages) == (1, [])
    assert result.stats["elapsed_time_seconds"] < 5


@in_every_runtime
async def test_service_at_the_end(site: Site) -> None:
    """A spider that waits for the service when it is closed gets an exception."""
    site.replies["/robots.txt"] = HANG

    async def script(service: RobotsService) -> None:
        with pytest.raises(RobotsUndecided):
            await service.robots(site.url("/a"))

    await run(script, prepare=close_when(lambda _: site.fetches))


@in_every_runtime
async def test_signal_handler_closes_the_spider(site: Site) -> None:
    """A signal handler may close the spider; then no page is fetched."""

    def prepare(crawler: Crawler) -> None:
        async def close() -> None:
            await crawler.engine.close_spider_async(reason="enough")

        listening(close, robots_fetched)(crawler)

    site.replies["/robots.txt"] = robots("")
    result = await crawl([site.url("/x")], prepare=prepare)
    assert (result.stats["finish_reason"], site.pages) == ("enough", [])
