"""Sites whose robots.txt fails temporarily or permanently."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.fetching import pending
from tests.support.crawling import Pages, close_when, crawl, listening
from tests.support.running import in_every_runtime
from tests.support.site import HANG, PAGE, Reply, Site, failing
from tests.support.timed_site import gaps, urls

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from tests.support.site import Asked


@in_every_runtime
async def test_retries(site: Site) -> None:
    """A failed file is requested again after each delay of the backoff, while its pages wait."""
    site.replies["/robots.txt"] = failing(2, Reply(503))
    settings = {
        "ROBOTS_UNREACHABLE_BACKOFF": [0.1, 0.4],
        "RETRY_ENABLED": True,
        "CONCURRENT_REQUESTS": 2,
    }
    pages = [site.url(target) for target in ("/a", "/b", "/c", "/x")]
    result = await crawl(pages, settings)
    assert result.verdicts(*pages) == [200, 200, 200, "rule"]
    assert site.targets[:3] == ["/robots.txt"] * 3
    first, second, *_ = gaps(site)
    assert 0.1 <= first < 2
    assert 0.4 <= second < 2
    counted = ("request_count", "result/unreachable", "origins/successful", "origins/unreachable")
    assert [result.stat(key) for key in counted] == [3, 2, 1, 0]


@in_every_runtime
async def test_retry_after_makes_a_delay_longer(site: Site) -> None:
    """Retry-After makes a delay longer."""
    reply = Reply(429, headers=(("Retry-After", "1"),))
    site.replies["/robots.txt"] = failing(1, reply)
    result = await crawl([site.url("/a")], {"ROBOTS_UNREACHABLE_BACKOFF": [0.01]})
    assert 1 <= gaps(site)[0] < 2
    assert result.outcomes == {site.url("/a"): 200}


@in_every_runtime
async def test_unknown_host_is_disallowed_at_once() -> None:
    """The pages of a host that does not resolve are dropped at once."""
    page = "http://no-such-host.invalid/"
    result = await crawl([page], {"ROBOTS_UNREACHABLE_BACKOFF": [600]})
    assert result.verdicts() == ["unreachable"]
    assert result.stat("request_count") == 1


@in_every_runtime
async def test_pages_of_an_unreachable_host_need_no_room(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages of a host that is known to be unreachable are dropped while no fetch may start."""
    monkeypatch.setattr(pending, "MAX_FETCHES", 1)
    site.replies["/robots.txt"] = HANG
    with Site() as closed:
        dead = urls(closed, 5)

    def all_dropped(crawler: Crawler) -> bool:
        return bool(site.fetches) and crawler.stats.get_value("robotstxt/forbidden") == 5

    pages = [dead[0], site.url("/a"), *dead[1:]]
    backoff: dict[str, Any] = {"ROBOTS_UNREACHABLE_BACKOFF": []}
    result = await crawl(pages, backoff, prepare=close_when(all_dropped))
    assert result.verdicts(*dead) == ["unreachable"] * 5
    assert result.stats["elapsed_time_seconds"] < 5


class CloseSoon(Pages):
    """Closes the spider when the expected number of pages were fetched."""

    expected: int

    def parse(self, response: Any, **_: Any) -> None:
        super().parse(response)
        if len(self.outcomes) == self.expected:
            raise CloseSpider("enough")


@in_every_runtime
async def test_many_failing_hosts_delay_no_other(site: Site) -> None:
    """Forty failing hosts delay no other site."""
    with Site() as closed:
        port = closed.port
    failing = [f"http://127.0.1.{number + 1}:{port}/" for number in range(40)]
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [600], "CONCURRENT_REQUESTS": 4}
    pages = urls(site, 20)
    result = await crawl([*failing, *pages], settings, spider=CloseSoon, expected=20)
    assert result.outcomes == dict.fromkeys(pages, 200)
    assert result.stat("undecided") >= 40


def downloading(requests: list[Request], outcomes: list[object]) -> Callable[[Crawler], None]:
    """Return a `prepare` function for `crawl` that downloads pages outside the scheduler."""

    async def download(spider: Spider, request: Request) -> None:
        assert spider.crawler.engine is not None
        try:
            outcomes.append((await spider.crawler.engine.download_async(request)).status)
        except IgnoreRequest as error:
            outcomes.append(type(error).__name__)

    def download_all(spider: Spider) -> None:
        for request in requests:
            Runtime().spawn(download(spider, request))

    return listening(download_all, signals.spider_opened)


SMALL_POOL = {"CONCURRENT_REQUESTS": 4, "ROBOTS_UNREACHABLE_BACKOFF": []}


@in_every_runtime
async def test_wait_for_a_connection_is_no_timeout(site: Site) -> None:
    """A robots.txt request that waits for a connection until its timeout is repeated."""

    def slow(_: Asked) -> Reply:
        threading.Event().wait(2)
        return PAGE

    site.replies.update({f"/slow/{number}": slow for number in range(4)})
    outcomes: list[object] = []
    with Site() as other:
        exempt = {"dont_obey_robotstxt": True}
        requests = [Request(site.url(f"/slow/{number}"), meta=exempt) for number in range(4)]
        prepare = downloading([*requests, Request(other.url("/a"))], outcomes)
        await crawl([], {**SMALL_POOL, "ROBOTS_TIMEOUT": 1}, prepare=prepare)
    assert outcomes == [200] * 5


@in_every_runtime
async def test_hanging_site_while_all_connections_are_used(site: Site) -> None:
    """A site that never answers is unreachable in the end, even if no connection may be free."""
    site.replies["/robots.txt"] = HANG
    errors: list[object] = []
    prepare = downloading([Request(url) for url in urls(site, 6)], errors)
    await crawl([], {**SMALL_POOL, "ROBOTS_TIMEOUT": 0.5}, prepare=prepare)
    assert errors == ["RobotsDisallowed"] * 6


@in_every_runtime
async def test_hanging_hosts_give_way_to_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many hanging hosts delay no other site, and do not fail sooner because of that."""
    monkeypatch.setattr(pending, "ROOM_TIME", 0.3)
    monkeypatch.setattr(pending, "MAX_FETCHES", 8)
    with socket.create_server(("", 0), backlog=100) as hanging:
        port = hanging.getsockname()[1]
        pages = [f"http://127.0.1.{number + 1}:{port}/" for number in range(24)]
        pages += urls(site, 10)
        # Enough connections for the handler without a reactor, which continues requests that were
        # cancelled.
        settings = {"CONCURRENT_REQUESTS": 40}
        result = await crawl(pages, settings, spider=CloseSoon, expected=10)
    assert result.outcomes == dict.fromkeys(pages[24:], 200)
    assert result.stat("result/unreachable") == 0
