"""The interval of a site in several crawls that share a store, in real crawls."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import signals

from scrapy_robots_rfc.scheduling.scheduler import scheduler_around
from tests.support.crawling import Crawl, at_once, close_when, crawl, records
from tests.support.site import Site
from tests.support.stores import ONE_STORE, OneStore
from tests.support.timed_site import DELAY, PACED, fetched, gaps, urls

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.crawler import Crawler

#: Scrapy's own scheduler and queue, as the add-on sets them.
AROUND: dict[str, Any] = {
    "SCHEDULER": scheduler_around("scrapy.core.scheduler.Scheduler"),
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
}


@pytest.fixture(autouse=True)
def store() -> OneStore:
    """The store of all crawls of a test."""
    OneStore.store = OneStore()
    return OneStore.store


async def crawls(*requests: list[Any], settings: dict[str, Any] | None = None) -> list[Crawl]:
    """Run crawls side by side."""
    return await at_once(*(crawl(items, {**ONE_STORE, **(settings or {})}) for items in requests))


@pytest.mark.reactor
@ensureDeferred
async def test_several_crawls() -> None:
    """All requests of several crawls, including robots.txt, are an interval apart."""

    async def crawl_paced(settings: dict[str, Any]) -> None:
        with Site({"/robots.txt": PACED}) as site:
            results = await crawls(
                *([site.url(f"/{who}/{n}") for n in range(3)] for who in "abc"), settings=settings
            )
        assert [fetched(result) for result in results] == [3, 3, 3], settings
        assert (site.targets[0], site.fetches) == ("/robots.txt", 1), settings
        assert min(gaps(site)) >= DELAY, settings
        pages = [target.split("/")[1] for target in site.targets[1:]]
        assert len(pages) == 9, settings
        changes = sum(one != next_one for one, next_one in pairwise(pages))
        assert changes > 2, settings  # they take turns

    jitter = {"DOWNLOAD_DELAY": 0.1, "DOWNLOAD_DELAY_JITTER": 1.0}
    # Each crawl has another site; the store is shared.
    await at_once(
        crawl_paced({}), crawl_paced(jitter), crawl_paced({"CONCURRENT_REQUESTS_PER_DOMAIN": 1})
    )


@ensureDeferred
async def test_slow_answers(paced: Site) -> None:
    """The next request waits for the last answer, whichever crawl gets it."""
    paced.late = {"/0": 2 * DELAY, "/1": DELAY}
    assert sum(map(fetched, await crawls(urls(paced, 3), urls(paced, 3)))) == 6
    assert min(gaps(paced)) >= DELAY


@ensureDeferred
async def test_file_that_is_asked_for_again(paced: Site) -> None:
    """A crawl that refreshes a file that another crawl has stored takes turns from the start."""
    paced.replies["/robots.txt"] = replace(PACED, headers=(("Cache-Control", "max-age=0"),))
    results = await crawls(urls(paced, 3), urls(paced, 3), settings={"ROBOTS_CACHE_MIN_AGE": 0})
    assert [fetched(result) for result in results] == [3, 3]
    assert paced.fetches >= 2
    assert min(gaps(paced)) >= DELAY


class NoTurns(OneStore):
    """A store that fails when a turn is taken."""

    def take_turn(self, key: str, owner: str, seconds: float) -> float:
        raise OSError("no turns")

    def end_turn(self, key: str, owner: str, interval: float) -> None:
        raise OSError("no turns")


@ensureDeferred
async def test_store_without_turns(paced: Site, caplog: pytest.LogCaptureFixture) -> None:
    """If turns cannot be taken, the crawl keeps its own interval, which the log says once."""
    OneStore.store = NoTurns()
    result = await crawl(urls(paced, 4), ONE_STORE)
    assert fetched(result) == 4
    assert min(gaps(paced)) >= DELAY
    assert result.stat("cache/store_errors") >= 1
    assert len([line for line in records(caplog) if "no turns" in line]) == 1


@ensureDeferred
async def test_closing_while_a_robots_txt_waits_for_its_turn(
    paced: Site, store: OneStore, tmp_path: Path
) -> None:
    """Pages stay in JOBDIR if their robots.txt waits for the turn of another worker, which is not a
    failure.
    """
    settings = {**ONE_STORE, "ROBOTS_CACHE_MAX_AGE": 0.01}
    await crawl([paced.url("/first")], settings)
    key = paced.url("").rstrip("/")
    store.forget_turns()  # or the next one would begin an interval after /first
    assert store.take_turn(key, "somebody", 1000) == 0

    def robots_txt_waits(crawler: Crawler) -> object:
        active = crawler.engine.downloader.active
        return any(request.url == paced.url("/robots.txt") for request in active)

    in_jobdir = {**settings, "JOBDIR": str(tmp_path)}
    result = await crawl(urls(paced, 3), in_jobdir, prepare=close_when(robots_txt_waits))
    assert result.outcomes == {}
    # Each is counted once at most; one that never left the scheduler's queue may be counted as any
    # that is queued.
    assert 2 <= result.stat("undecided") <= 3
    assert result.stat("result/unreachable") == 0
    assert paced.targets == ["/robots.txt", "/first"]
    store.forget_turns()
    assert fetched(await crawl([], in_jobdir)) == 3


class Slow(OneStore):
    """A store whose turns come when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = threading.Event(), threading.Event()

    def take_turn(self, key: str, owner: str, seconds: float) -> float:
        self.asked.set()
        self.go_on.wait(5)
        return super().take_turn(key, owner, seconds)


@pytest.mark.reactor
@ensureDeferred
async def test_turn_that_comes_when_the_spider_is_closed(paced: Site) -> None:
    """A turn that comes after the spider was closed is released."""
    store = OneStore.store = Slow()

    def prepare(crawler: Crawler) -> None:
        close_when(lambda _: store.asked.is_set())(crawler)
        crawler.signals.connect(store.go_on.set, signals.spider_closed, weak=False)

    result = await crawl(urls(paced, 3), ONE_STORE, prepare=prepare)
    assert result.outcomes == {}
    assert store.owner_of_turn(paced.url("").rstrip("/")) is None


@pytest.mark.parametrize("settings", [{}, AROUND], ids=["ours", "around"])
@pytest.mark.parametrize("stored", [True, False])
@ensureDeferred
async def test_closing_while_another_has_the_turn(
    paced: Site,
    stored: bool,
    settings: dict[str, Any],
    store: OneStore,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A closing spider does not wait for the turn of another worker. Its requests stay in JOBDIR,
    or are counted and logged.
    """
    key = paced.url("").rstrip("/")
    assert store.take_turn(key, "somebody", 1000) == 0
    settings = {**ONE_STORE, **settings, "JOBDIR": str(tmp_path) if stored else None}
    all_queued = close_when(lambda it: paced.targets and not it.engine.downloader.active)
    result = await crawl(urls(paced, 4), settings, prepare=all_queued)
    assert paced.targets == ["/robots.txt"]
    assert result.outcomes == {}
    assert result.stat("undecided") == 4
    assert any(
        text.startswith("When the spider closed, 4 requests had not been sent yet")
        for text in records(caplog, logging.INFO)
    )
    store.end_turn(key, "somebody", 0)
    resumed = await crawl([], settings)
    assert fetched(resumed) == (4 if stored else 0)
    assert sorted(paced.targets[1:]) == (["/0", "/1", "/2", "/3"] if stored else [])
