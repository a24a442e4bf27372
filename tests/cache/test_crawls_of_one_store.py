"""Crawls that share a store: each file is fetched once, whatever happens to the store."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import Reason
from scrapy_robots_rfc._scrapy import ROBOTS_PARSED
from scrapy_robots_rfc.cache.entry import encode
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.signals import robots_fetched
from tests.support.crawling import at_once, close_when, crawl, records
from tests.support.entries import made
from tests.support.parsers import FailsToParse
from tests.support.service_crawls import run
from tests.support.site import HANG, Reply, Site, robots
from tests.support.stores import ONE_STORE, OneStore

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.crawler import Crawler

    from scrapy_robots_rfc import RobotsService
    from tests.support.service_crawls import Clock
    from tests.support.site import Asked

FORBID = robots("User-agent: *\nDisallow: /x\n")


@pytest.fixture(autouse=True)
def store() -> OneStore:
    """The store of all crawls of a test."""
    OneStore.store = OneStore()
    return OneStore.store


@ensureDeferred
async def test_next_crawl_fetches_nothing_that_is_fresh(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A crawl uses fresh entries of an earlier one: a file, a missing, and an unreachable file.

    The log says that the last one comes from the store.
    """
    with Site() as third:
        site.replies["/robots.txt"] = FORBID
        third.replies["/robots.txt"] = Reply(503)
        pages = [site.url("/x"), site.url("/y"), other.url("/"), third.url("/")]
        first = await crawl(pages, ONE_STORE)
        caplog.clear()
        second = await crawl(pages, ONE_STORE)
        assert [one.fetches for one in (site, other, third)] == [1, 1, 1]
        verdicts = ["rule", 200, 200, "unreachable"]
        assert first.verdicts(*pages) == second.verdicts(*pages) == verdicts
        assert (second.stat("cache/store_hits"), second.stat("request_count")) == (3, 0)
    [line] = records(caplog)
    cause = "(503, according to the robots.txt store), so nothing is allowed; the next attempt is"
    assert f"{third.url('/robots.txt')} is unreachable {cause}" in line


@ensureDeferred
async def test_file_that_another_crawl_cut(site: Site) -> None:
    """A crawl with a larger limit fetches a file again that another crawl cut."""
    rules = "User-agent: *\n" + "Disallow: /nothing\n" * 30_000 + "Disallow: /late\n"
    site.replies["/robots.txt"] = robots(rules)
    sizes = (512_000, 2_000_000, 512_000, 2_000_000)
    found = [
        await crawl([site.url("/late")], {**ONE_STORE, "ROBOTS_MAX_SIZE": size}) for size in sizes
    ]
    assert [one.verdicts() for one in found] == [[200], ["rule"]] * 2
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
    """Waiting for another crawl does not count as an attempt, nor against ROBOTS_TIMEOUT."""
    answers = iter([Reply(503), FORBID])
    site.replies["/robots.txt"] = lambda _: next(answers)
    OneStore.store = Taken(1.0)
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [0.1], "ROBOTS_TIMEOUT": 0.5}
    result = await crawl([site.url("/y")], {**ONE_STORE, **settings})
    assert result.outcomes == {site.url("/y"): 200}
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
        decision = result.dropped(site.url("/x")).decision
        assert (decision.reason, decision.stale) == (Reason.RULE, False)
    assert (site.fetches, result.stat("request_count")) == (2, 0)


@ensureDeferred
async def test_file_that_may_not_be_stored(site: Site) -> None:
    """RFC 9111, 5.2.2.5: a file with no-store is not stored, and the file that it replaced is not
    used any more.
    """
    site.replies["/robots.txt"] = robots("User-agent: *\nAllow: /\n")
    once = {**ONE_STORE, "ROBOTS_CACHE_MIN_AGE": 0, "ROBOTS_CACHE_MAX_AGE": 1e-3}
    await crawl([site.url("/x")], once)
    site.replies["/robots.txt"] = Reply(body=FORBID.body, headers=(("Cache-Control", "no-store"),))
    await crawl([site.url("/x")], once)
    site.replies["/robots.txt"] = Reply(503)
    result = await crawl([site.url("/x")], ONE_STORE)
    assert result.verdicts() == ["unreachable"]


@pytest.mark.reactor
@ensureDeferred
async def test_backoff_is_shared(site: Site) -> None:
    """While a crawl retries a file, the others wait, and get the same result."""
    answers = iter([Reply(503), Reply(503), FORBID])
    site.replies["/robots.txt"] = lambda _: next(answers)
    settings = {**ONE_STORE, "ROBOTS_UNREACHABLE_BACKOFF": [0.3, 0.3]}
    both = await at_once(*(crawl([site.url("/x")], settings) for _ in range(2)))
    assert site.fetches == 3
    assert [result.verdicts() for result in both] == [["rule"]] * 2
    assert sorted(result.stat("cache/lease_waits") for result in both) == [0, 1]


@pytest.mark.parametrize("reply", [HANG, Reply(503)], ids=["fetch", "backoff"])
@ensureDeferred
async def test_crawl_that_ends_gives_its_lease_back(
    site: Site, store: OneStore, reply: Reply
) -> None:
    """A crawl that is closed during a fetch releases its lease at once."""
    site.replies["/robots.txt"] = reply
    settings = {**ONE_STORE, "ROBOTS_UNREACHABLE_BACKOFF": [60]}

    def is_fetching(crawler: Crawler) -> object:
        has_failed = crawler.stats.get_value("robotstxt/response_status_count/503")
        return has_failed if reply.status == 503 else site.fetches

    result = await crawl([site.url("/y")], settings, prepare=close_when(is_fetching))
    assert (site.fetches, result.stat("undecided")) == (1, 1)
    assert store.lease(site.url(""), "next", 1)


@ensureDeferred
async def test_crawl_that_ends_waits_for_no_other(site: Site, store: OneStore) -> None:
    """A crawl that is closed does not wait for another crawl, which keeps its lease."""
    store.lease(site.url(""), "other", 600)

    waits = close_when(lambda crawler: crawler.stats.get_value("robotstxt/cache/lease_waits"))
    result = await crawl([site.url("/y")], ONE_STORE, prepare=waits)
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
    """The failure of a third-party parser is not stored for other crawls. If a parser fails for a
    file from the store, nothing is allowed, as after a fetch.
    """
    site.replies["/robots.txt"] = FORBID
    failing = {**ONE_STORE, "ROBOTSTXT_PARSER": FailsToParse}
    found = [await crawl([site.url("/y")], each) for each in (failing, ONE_STORE, failing)]
    assert [result.verdicts() for result in found] == [["unreachable"], [200], ["unreachable"]]
    assert site.fetches == 2


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
async def test_evicted_origins_come_back_from_the_store() -> None:
    """With memory for one origin and a store, each robots.txt is fetched once."""
    with ExitStack() as stack:
        sites = [stack.enter_context(Site({"/robots.txt": FORBID})) for _ in range(5)]

        async def script(service: RobotsService) -> None:
            for path in ("/x", "/y") * 4:
                for site in sites:
                    url = site.url(path)
                    assert (await service.robots(url)).decide(url).allowed is (path == "/y")

        result = await run(script, {**ONE_STORE, "ROBOTS_CACHE_SIZE": 1})
        assert [site.fetches for site in sites] == [1] * 5
    assert result.stat("cache/evictions") == 39
    assert result.stat("cache/store_hits") == 35


# Entries that survive a crawl, on a clock that the test sets.

DAY = 86_400.0
FILE = Reply(
    200, b"User-agent: *\nDisallow: /x\n", (("ETag", '"1"'), ("Cache-Control", "max-age=3600"))
)


async def outcome(site: Site, settings: dict[str, Any] = ONE_STORE) -> tuple[Any, bool]:
    """Return the outcome of a disallowed page in a separate crawl, and whether a stale copy
    decided.
    """
    result = await crawl([site.url("/x")], settings)
    [verdict] = result.verdicts()
    return verdict, verdict != 200 and result.dropped(site.url("/x")).decision.stale


def conditions(site: Site) -> list[str | None]:
    """Return the entity tags of the requests for robots.txt."""
    return [
        asked.headers.get("If-None-Match") for asked in site.asked if asked.target == "/robots.txt"
    ]


@ensureDeferred
async def test_term_and_tag_outlive_a_crawl(site: Site, clock: Clock, tmp_path: Path) -> None:
    """2.4, RFC 9111: a resumed crawl uses a copy until it expires, and then refreshes it."""
    site.replies["/robots.txt"] = FILE
    settings = {"JOBDIR": str(tmp_path)}
    assert await outcome(site, settings) == ("rule", False)
    clock.now += 3599
    assert await outcome(site, settings) == ("rule", False)
    assert conditions(site) == [None]
    site.replies["/robots.txt"] = Reply(304)
    for _ in range(2):
        clock.now += 3600
        assert await outcome(site, settings) == ("rule", False)
    assert conditions(site) == [None, '"1"', '"1"']


@ensureDeferred
async def test_stale_copy_outlives_a_crawl(site: Site, clock: Clock) -> None:
    """2.3.1.4: a stale copy is used for 30 days, however many crawls there are."""
    site.replies["/robots.txt"] = FILE
    await outcome(site)
    site.replies["/robots.txt"] = Reply(503)
    seen = []
    for day in (1, 20, 29, 31):
        clock.now = 1000.0 + day * DAY
        seen.append(await outcome(site))
    assert seen == [("rule", True), ("rule", True), ("rule", True), (200, False)]
    assert conditions(site) == [None, '"1"', '"1"', '"1"', None]


@ensureDeferred
async def test_being_unreachable_outlives_a_crawl(site: Site, clock: Clock) -> None:
    """2.3.1.4: a restart does not extend the 30 days of an unreachable file."""
    site.replies["/robots.txt"] = Reply(503)
    seen = []
    for day in (0, 15, 29, 30):
        clock.now = 1000.0 + day * DAY
        seen.append((await outcome(site))[0])
    assert seen == [*["unreachable"] * 3, 200]
    assert site.fetches == 4


@pytest.mark.parametrize("seconds", [-2 * DAY, 60.0, 2 * DAY], ids=["days back", "on", "days on"])
@ensureDeferred
async def test_clock_that_was_set(
    site: Site, clock: Clock, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """2.4: a copy from the future or from long ago is fetched again; a minute is tolerated."""
    site.replies["/robots.txt"] = FILE
    await outcome(site)
    clock.ahead += seconds
    assert await outcome(site) == ("rule", False)
    asked_again = [None] if abs(seconds) <= 60 else [None, '"1"']
    assert conditions(site) == asked_again
    clock.now += 3660
    assert await outcome(site) == ("rule", False)
    assert conditions(site) == [*asked_again, '"1"']
