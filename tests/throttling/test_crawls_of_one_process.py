"""Several crawls in one process, on one event loop, that set nothing for it: they keep one pace towards a site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred

from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc.cache.locks import _GROUPS
from scrapy_robots_rfc.throttling import shared
from tests.support.crawling import Crawl, at_once, crawl
from tests.support.site import HANG, MISSING, Reply, robots
from tests.support.timed_site import DELAY, PACED, Clocked, Following, fetched, gaps, urls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.site import Asked

pytestmark = pytest.mark.reactor

reactor: Any = installed  # the module stands for the reactor

#: Settings with which a crawl asks for a robots.txt of its own.
OTHER: dict[str, Any] = {"USER_AGENT": "Other/1.0"}


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert not any(crawls.origins or crawls.listening for crawls in shared._LOOPS.values())  # they went with the last
    assert _GROUPS == {}


@pytest.fixture
def site() -> Iterator[Clocked]:
    """A site that asks for the delay."""
    with Clocked({"/robots.txt": PACED}) as running:
        yield running


@pytest.fixture
def second() -> Iterator[Clocked]:
    """A second one, for crawls beside those of the first."""
    with Clocked({"/robots.txt": PACED}) as running:
        yield running


@pytest.fixture
def other() -> Iterator[Clocked]:
    """Another one, that asks for nothing."""
    with Clocked() as running:
        yield running


@ensureDeferred
async def test_one_pace(site: Clocked, second: Clocked) -> None:
    """The site sees the interval between all requests, whichever crawl sends them; and the crawls take turns."""

    async def keep(site: Clocked, settings: dict[str, Any]) -> None:
        results = await at_once(*(crawl([site.url(f"/{who}/{n}") for n in range(4)], settings) for who in "abc"))
        assert [fetched(result) for result in results] == [4, 4, 4], settings
        assert site.fetches == 1, settings
        assert min(gaps(site)) >= DELAY, settings
        pages = [target.split("/")[1] for target in site.targets if target != "/robots.txt"]
        firsts, lasts = zip(*((pages.index(who), 11 - pages[::-1].index(who)) for who in "abc"), strict=True)
        assert max(firsts) < min(lasts), settings

    await at_once(keep(site, {}), keep(second, {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "DOWNLOAD_DELAY": 0.05}))


@ensureDeferred
async def test_slow_answers_and_failures(site: Clocked) -> None:
    """The next request waits for the answer to the one before, or for its failure, whichever crawl sent it."""
    site.late = {"/0": 2 * DELAY, "/1": DELAY}
    site.replies["/2"] = Reply(reset=True)
    results = await at_once(crawl(urls(site, 4)), crawl(urls(site, 4)))
    assert [fetched(result) for result in results] == [3, 3]
    assert min(gaps(site)) >= DELAY


class Starting(Following):
    """Starts another crawl when its first page is there, and stays open until that has ended."""

    other: Any
    result: Any = None

    async def parse(self, response: Any, **_: Any) -> Any:
        """Keep the status, start it, ask for more."""
        for request in super().parse(response):
            yield request
        if self.result is None:
            self.result = Deferred.fromCoroutine(self.other())
            ended: Deferred[None] = Deferred()

            def over(result: Any) -> Any:
                ended.callback(None)
                return result

            self.result.addBoth(over)
            await maybe_deferred_to_future(ended)


@ensureDeferred
async def test_crawl_that_comes_later(site: Clocked, second: Clocked) -> None:
    """A crawl that starts while another one is at the site keeps the interval with it, from its first request on."""

    async def keep(site: Clocked, settings: dict[str, Any]) -> None:
        first, *following = map(Request, urls(site, 5))
        pages = [site.url("/x"), site.url("/y")]
        result = await crawl([first], spider=Starting, following=following, other=lambda: crawl(pages, settings))
        other = await result.spider.result
        assert (fetched(result), fetched(other)) == (5, 2), settings
        assert min(gaps(site)) >= DELAY, settings

    await at_once(keep(site, {}), keep(second, OTHER))


@ensureDeferred
async def test_file_that_is_fetched_already(site: Clocked) -> None:
    """A crawl that starts later goes by the file that another one has, as it counts here, and says where it is from."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\nDisallow: /x\nAllow: /x\n")
    pages = [site.url("/private"), site.url("/y")]
    result = await crawl([site.url("/0")], spider=Starting, other=lambda: crawl(pages))
    other = await result.spider.result
    assert isinstance(other.outcomes[pages[0]], RobotsDisallowed)
    assert other.outcomes[pages[1]] == 200
    assert (site.fetches, other.stat("cache/store_hits"), other.stat("request_count")) == (1, 1, 0)


#: Settings of a crawl, and of a later one, that have robots.txt asked for in different ways, or kept for too long.
UNLIKE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, OTHER),
    ({}, {"ROBOTSTXT_MAX_SIZE": 600_000}),
    ({}, {"ROBOTSTXT_PARSER": "scrapy.robotstxt.ProtegoRobotParser"}),
    ({}, {"ROBOTSTXT_CACHE_MAX_AGE": 0.001}),
    ({"ROBOTSTXT_CACHE_MAX_AGE": 0.001}, {}),
]


@ensureDeferred
async def test_what_is_not_alike() -> None:
    """A file that was asked for in another way, or is too old for a crawl, is asked for again by it."""

    async def ask(settings: dict[str, Any], later: dict[str, Any]) -> None:
        with Clocked({"/robots.txt": PACED}) as site:
            pages = [site.url("/1")]
            result = await crawl([site.url("/0")], settings, spider=Starting, other=lambda: crawl(pages, later))
            assert fetched(await result.spider.result) == 1, (settings, later)
        assert site.fetches == 2, (settings, later)
        assert min(gaps(site)) >= DELAY, (settings, later)

    await at_once(*(ask(settings, later) for settings, later in UNLIKE))


@ensureDeferred
async def test_other_proxy(site: Clocked, other: Clocked) -> None:
    """A file that came through a proxy is for those that use this one."""
    other.replies["http://a.example/robots.txt"] = robots("User-agent: *\nDisallow: /\n")
    direct, there = site.url("/0"), "http://a.example/"
    site.replies["http://a.example/robots.txt"] = MISSING
    one, two = ({"proxy": proxy.url("")} for proxy in (site, other))

    async def then(meta: dict[str, Any]) -> Crawl:
        return await crawl([Request(there, meta=meta)])

    result = await crawl([Request(there, meta=one)], spider=Starting, other=lambda: then(two))
    assert isinstance((await result.spider.result).outcomes[there], RobotsDisallowed)
    result = await crawl([Request(there, meta=one)], spider=Starting, other=lambda: then(one))
    assert (await result.spider.result).outcomes == {there: 200}
    assert [proxy.targets.count(f"{there}robots.txt") for proxy in (site, other)] == [2, 1]
    assert direct not in site.targets


@ensureDeferred
async def test_file_that_may_not_be_kept(site: Clocked) -> None:
    """What its site lets nobody keep is not handed on."""
    site.replies["/robots.txt"] = Reply(body=b"", headers=(("Cache-Control", "no-store"),))
    result = await crawl([site.url("/0")], spider=Starting, other=lambda: crawl([site.url("/1")]))
    await result.spider.result
    assert site.fetches == 2


@ensureDeferred
async def test_fetch_that_ends_with_its_crawl(site: Clocked) -> None:
    """What a crawl was fetching when it was closed is fetched by another one that needs it."""
    hang = iter([HANG, MISSING])
    crawlers: list[Any] = []
    later: list[Any] = []

    def close() -> None:
        if not later:
            deferred_from_coro(crawlers[0].engine.close_spider_async(reason="test"))
            later.append(Deferred.fromCoroutine(crawl([site.url("/1")])))

    def answer(_: Asked) -> Reply:
        reactor.callFromThread(close)
        return next(hang)

    site.replies["/robots.txt"] = answer
    await crawl([site.url("/0")], prepare=crawlers.append)
    [result] = [await each for each in later]
    assert result.outcomes == {site.url("/1"): 200}
    assert site.targets == ["/robots.txt", "/robots.txt", "/1"]


@ensureDeferred
async def test_store_of_one_of_them(site: Clocked, tmp_path: Path) -> None:
    """A crawl that keeps its copies in a store of its own keeps the interval with the others."""
    settings = {"ROBOTSTXT_CACHE": f"sqlite:///{tmp_path}/robots.sqlite"}
    first, *following = map(Request, urls(site, 5))
    result = await crawl([first], spider=Starting, following=following, other=lambda: crawl(urls(site, 3), settings))
    assert (fetched(result), fetched(await result.spider.result)) == (5, 3)
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_not_shared(site: Clocked) -> None:
    """Without ROBOTSTXT_CRAWL_DELAY_SHARED each crawl keeps an interval of its own."""
    settings = {"ROBOTSTXT_CRAWL_DELAY_SHARED": False}
    results = await at_once(crawl(urls(site, 6), settings), crawl(urls(site, 6), settings))
    assert [fetched(result) for result in results] == [6, 6]
    assert min(gaps(site)) < DELAY


@ensureDeferred
async def test_exceptions_are_not_shared(site: Clocked, second: Clocked, tmp_path: Path) -> None:
    """What the user excepts in one crawl holds in that one: it paces no other, nor is it paced by another."""
    (tmp_path / "local.txt").write_text("User-agent: *\nDisallow: /private\n")

    async def keep(site: Clocked, settings: dict[str, Any]) -> None:
        first, *following = map(Request, urls(site, 4))
        pages = urls(site, 20)
        result = await crawl([first], spider=Starting, following=following, other=lambda: crawl(pages, settings))
        other = await result.spider.result
        assert (fetched(result), fetched(other), other.stat("crawl_delay/sites")) == (4, 20, 0), settings
        assert len(site.targets) == 25, settings
        assert min(gaps(site)) < DELAY, settings

    await at_once(
        keep(site, {"ROBOTSTXT_EXEMPT": [site.url("")]}),
        keep(second, {"ROBOTSTXT_OVERRIDES": {second.url(""): str(tmp_path / "local.txt")}}),
    )


@ensureDeferred
async def test_override_paces_nobody_else(site: Clocked, tmp_path: Path) -> None:
    """A local file that asks for a pace in one crawl does not slow down another one."""
    site.replies["/robots.txt"] = robots("User-agent: *\nAllow: /\n")
    (tmp_path / "local.txt").write_text("User-agent: *\nCrawl-delay: 30\n")
    settings = {"ROBOTSTXT_OVERRIDES": {site.url(""): str(tmp_path / "local.txt")}}
    first = Request(site.url("/first"))
    result = await crawl([first], settings, spider=Starting, other=lambda: crawl(urls(site, 10)))
    assert (fetched(result), fetched(await result.spider.result)) == (1, 10)
