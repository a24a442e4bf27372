"""Crawls that share a store: each file is fetched once, whatever happens to the store."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pytest_twisted import ensureDeferred
from twisted.internet.defer import Deferred, DeferredList

from scrapy_robots_rfc import Reason, RobotsDisallowed
from scrapy_robots_rfc._scrapy import ROBOTS_PARSED
from scrapy_robots_rfc.cache.entry import encode
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.signals import robots_fetched
from tests.support.crawling import Crawl, close_when, crawl, records
from tests.support.entries import made
from tests.support.site import HANG, Reply, Site, robots
from tests.support.stores import ONE_STORE, OneStore

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.crawler import Crawler

    from tests.support.site import Asked

FORBID = robots("User-agent: *\nDisallow: /x\n")


@pytest.fixture(autouse=True)
def store() -> OneStore:
    """The store of all crawls of a test."""
    OneStore.store = OneStore()
    return OneStore.store


async def crawls(*requests: list[str], settings: dict[str, Any]) -> list[Crawl]:
    """Run crawls side by side."""
    together = [Deferred.fromCoroutine(crawl(urls, settings)) for urls in requests]
    return [result for _, result in await DeferredList(together, consumeErrors=True)]


@ensureDeferred
async def test_next_crawl_fetches_nothing_that_is_fresh(site: Site, other: Site) -> None:
    """A crawl uses fresh entries of an earlier one: a file, a missing, and an unreachable file."""
    with Site() as third:
        site.replies["/robots.txt"] = FORBID
        third.replies["/robots.txt"] = Reply(503)
        pages = [site.url("/x"), site.url("/y"), other.url("/"), third.url("/")]
        first = await crawl(pages, ONE_STORE)
        second = await crawl(pages, ONE_STORE)
        assert [one.fetches for one in (site, other, third)] == [1, 1, 1]
        said = [{url: str(outcome) for url, outcome in c.outcomes.items()} for c in (first, second)]
        assert said[0] == said[1]
        assert isinstance(second.outcomes[site.url("/x")], RobotsDisallowed)
        assert (second.stat("cache/store_hits"), second.stat("request_count")) == (3, 0)


@ensureDeferred
async def test_file_that_another_crawl_cut(site: Site) -> None:
    """A crawl with a larger limit fetches a file again that another crawl cut."""
    rules = "User-agent: *\n" + "Disallow: /nothing\n" * 30_000 + "Disallow: /late\n"
    site.replies["/robots.txt"] = robots(rules)
    sizes = (512_000, 2_000_000, 512_000, 2_000_000)
    found = [
        await crawl([site.url("/late")], {**ONE_STORE, "ROBOTS_MAX_SIZE": size}) for size in sizes
    ]
    dropped = [isinstance(one.outcomes[site.url("/late")], RobotsDisallowed) for one in found]
    assert dropped == [False, True, False, True]
    assert site.fetches == 2


class Taken(OneStore):
    """A store in which a dead crawl has every lease.

    :param seconds: how long the leases last.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._left = [seconds]

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        if self._left:
            super().lease(key, "dead", self._left.pop())
        return super().lease(key, owner, seconds)


@ensureDeferred
async def test_waiting_is_no_attempt(site: Site) -> None:
    """Waiting for another crawl does not count as an attempt."""
    answers = iter([Reply(503), FORBID])
    site.replies["/robots.txt"] = lambda _: next(answers)
    OneStore.store = Taken(0.5)
    result = await crawl([site.url("/y")], {**ONE_STORE, "ROBOTS_UNREACHABLE_BACKOFF": [0.1]})
    assert result.outcomes == {site.url("/y"): 200}
    assert site.fetches == 2


@ensureDeferred
async def test_file_that_may_not_be_stored(site: Site) -> None:
    """RFC 9111, 5.2.2.5: a file with no-store is used only by the crawl that fetched it."""
    site.replies["/robots.txt"] = Reply(body=b"", headers=(("Cache-Control", "no-store"),))
    await crawl([site.url("/x"), site.url("/y")], ONE_STORE)
    assert site.fetches == 1
    await crawl([site.url("/x")], ONE_STORE)
    assert site.fetches == 2


@ensureDeferred
async def test_file_that_came_while_this_one_failed(site: Site, store: OneStore) -> None:
    """A crawl whose fetch fails uses the file that another crawl fetched in the meantime."""

    def overtaken(_: Asked) -> Reply:
        now = time.time()
        newer = made(Outcome.SUCCESSFUL, 200, "200", now, now + 1000, now, body=FORBID.body)
        store.put(site.url(""), encode(newer), 1000)
        return Reply(503)

    site.replies["/robots.txt"] = robots("User-agent: *\nAllow: /\n")
    await crawl(
        [site.url("/x")], {**ONE_STORE, "ROBOTS_CACHE_MIN_AGE": 0, "ROBOTS_CACHE_MAX_AGE": 1e-3}
    )
    site.replies["/robots.txt"] = overtaken
    for _ in range(2):
        result = await crawl([site.url("/x")], ONE_STORE)
        outcome = result.outcomes[site.url("/x")]
        assert isinstance(outcome, RobotsDisallowed)
        assert (outcome.decision.reason, outcome.decision.stale) == (Reason.RULE, False)
    assert (site.fetches, result.stat("request_count")) == (2, 0)


@ensureDeferred
async def test_file_from_before_one_that_may_not_be_stored(site: Site) -> None:
    """A file that was replaced by one with no-store is not used any more."""
    site.replies["/robots.txt"] = robots("User-agent: *\nAllow: /\n")
    once = {**ONE_STORE, "ROBOTS_CACHE_MIN_AGE": 0, "ROBOTS_CACHE_MAX_AGE": 1e-3}
    await crawl([site.url("/x")], once)
    site.replies["/robots.txt"] = Reply(body=FORBID.body, headers=(("Cache-Control", "no-store"),))
    await crawl([site.url("/x")], once)
    site.replies["/robots.txt"] = Reply(503)
    result = await crawl([site.url("/x")], ONE_STORE)
    outcome = result.outcomes[site.url("/x")]
    assert isinstance(outcome, RobotsDisallowed)
    assert outcome.decision.reason is Reason.UNREACHABLE


@ensureDeferred
async def test_job_without_a_store(site: Site, tmp_path: Path) -> None:
    """ROBOTS_CACHE has priority over JOBDIR."""
    file = tmp_path / "robots.sqlite"
    settings = {"JOBDIR": str(tmp_path), "ROBOTS_CACHE": "memory:"}
    for _ in range(2):
        await crawl([site.url("/x")], settings)
    assert site.fetches == 2
    assert not file.exists()


@ensureDeferred
async def test_waiting_for_another_crawl_takes_no_time_of_the_fetch(site: Site) -> None:
    """The wait for another crawl's fetch does not count against ROBOTS_TIMEOUT."""
    OneStore.store = Taken(1.0)
    result = await crawl([site.url("/y")], {**ONE_STORE, "ROBOTS_TIMEOUT": 0.5})
    assert result.outcomes == {site.url("/y"): 200}


@pytest.mark.reactor
@ensureDeferred
async def test_backoff_is_shared(site: Site) -> None:
    """While a crawl retries a file, the others wait, and get the same result."""
    answers = iter([Reply(503), Reply(503), FORBID])
    site.replies["/robots.txt"] = lambda _: next(answers)
    settings = {**ONE_STORE, "ROBOTS_UNREACHABLE_BACKOFF": [0.3, 0.3]}
    both = await crawls([site.url("/x")], [site.url("/x")], settings=settings)
    assert site.fetches == 3
    for result in both:
        outcome = result.outcomes[site.url("/x")]
        assert isinstance(outcome, RobotsDisallowed)
        assert outcome.decision.reason is Reason.RULE


@pytest.mark.parametrize("reply", [HANG, Reply(503)], ids=["fetch", "backoff"])
@ensureDeferred
async def test_crawl_that_ends_gives_its_lease_back(
    site: Site, store: OneStore, reply: Reply
) -> None:
    """A crawl that is closed during a fetch releases its lease at once."""
    site.replies["/robots.txt"] = reply
    settings = {**ONE_STORE, "ROBOTS_UNREACHABLE_BACKOFF": [60]}

    def is_fetching(crawler: Crawler) -> object:
        assert crawler.stats is not None
        has_failed = crawler.stats.get_value("robotstxt/response_status_count/503")
        return has_failed if reply.status == 503 else site.fetches

    result = await crawl([site.url("/y")], settings, prepare=close_when(is_fetching))
    assert (site.fetches, result.stat("undecided")) == (1, 1)
    assert store.lease(site.url(""), "next", 1)


@ensureDeferred
async def test_crawl_that_ends_waits_for_no_other(site: Site, store: OneStore) -> None:
    """A crawl that is closed does not wait for another crawl, which keeps its lease."""
    store.lease(site.url(""), "other", 600)

    def is_waiting(crawler: Crawler) -> object:
        assert crawler.stats is not None
        return crawler.stats.get_value("robotstxt/cache/lease_waits")

    result = await crawl([site.url("/y")], ONE_STORE, prepare=close_when(is_waiting))
    assert (site.fetches, result.stat("undecided")) == (0, 1)
    assert not store.lease(site.url(""), "next", 1)


class Hanging(OneStore):
    """A store that does not answer during the test."""

    asked: ClassVar[threading.Event]
    over: ClassVar[threading.Event]

    def get(self, key: str) -> bytes | None:
        self.asked.set()
        self.over.wait()
        return None


@pytest.mark.reactor
@ensureDeferred
async def test_crawl_that_ends_waits_for_no_store(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A crawl that is closed while its store hangs ends, and fetches nothing."""
    OneStore.store, Hanging.asked, Hanging.over = Hanging(), threading.Event(), threading.Event()
    stop = close_when(lambda _: Hanging.asked.is_set())
    try:
        result = await crawl([site.url("/y")], ONE_STORE, prepare=stop)
    finally:
        Hanging.over.set()
    assert (site.targets, result.stat("request_count"), result.stat("undecided")) == ([], 0, 1)
    assert not any("CancelledError" in line for line in records(caplog))


@ensureDeferred
async def test_fault_of_a_parser_is_not_shared(site: Site) -> None:
    """The failure of a third-party parser is not stored for other crawls."""
    site.replies["/robots.txt"] = FORBID
    await crawl(
        [site.url("/y")], {**ONE_STORE, "ROBOTSTXT_PARSER": "tests.support.parsers.FailsToParse"}
    )
    result = await crawl([site.url("/y")], ONE_STORE)
    assert result.outcomes == {site.url("/y"): 200}


@ensureDeferred
async def test_parser_that_fails_on_what_is_stored(site: Site) -> None:
    """If a parser fails for a file from the store, nothing is allowed, as after a fetch."""
    site.replies["/robots.txt"] = FORBID
    await crawl([site.url("/y")], ONE_STORE)
    result = await crawl(
        [site.url("/y")], {**ONE_STORE, "ROBOTSTXT_PARSER": "tests.support.parsers.FailsToParse"}
    )
    [outcome] = result.outcomes.values()
    assert isinstance(outcome, RobotsDisallowed)


@pytest.mark.skipif(ROBOTS_PARSED is None, reason="this Scrapy does not have the signal yet")
@ensureDeferred
async def test_what_is_heard_of_a_file_out_of_the_store(site: Site) -> None:
    """For a file from the store, `robots_parsed` is sent, and `robots_fetched` is not."""
    site.replies["/robots.txt"] = robots("Crawl-delay: 0\n")
    heard: list[str] = []

    def connect(crawler: Crawler) -> None:
        for name, signal in (("fetched", robots_fetched), ("parsed", ROBOTS_PARSED)):
            crawler.signals.connect(lambda name=name: heard.append(name), signal, weak=False)

    for _ in range(2):
        await crawl([site.url("/y")], ONE_STORE, prepare=connect)
    assert heard == ["parsed", "fetched", "parsed"]


@ensureDeferred
async def test_failure_that_is_stored_is_logged(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A crawl that uses a stored failure logs it, and how long it is valid."""
    site.replies["/robots.txt"] = Reply(503)
    await crawl([site.url("/y")], ONE_STORE)
    caplog.clear()
    await crawl([site.url("/y")], ONE_STORE)
    [line] = records(caplog)
    assert "is unreachable (503), so nothing is allowed" in line
