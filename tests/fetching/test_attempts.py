"""Fetches that are under way: each has a value, and their number and time are bounded."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from scrapy import Spider
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from twisted.internet.defer import Deferred, DeferredList

from scrapy_robots_rfc._runtime import CANCELLED, Runtime
from scrapy_robots_rfc.fetching.pending import (
    ROOM_TIME,
    TICK,
    PendingFetch,
    PendingFetches,
    max_fetches,
)
from tests.support.entries import origin, policy
from tests.support.running import under_the_reactor

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.policy.origins import Origin
    from tests.support.service_crawls import Clock

    Get = Callable[[PendingFetch], Coroutine[Any, Any, OriginPolicy]]

TIMEOUT = 100.0
#: Maximum number of fetches with CONCURRENT_REQUESTS = 1.
MAX = 16


class Desk:
    """The fetches of a crawl, on a clock that the test sets."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Deferred[str]] = {}
        crawler = get_crawler(Spider, {"CONCURRENT_REQUESTS": 1})
        self.slot = SimpleNamespace(closing=None)
        crawler.engine = cast("Any", SimpleNamespace(_slot=self.slot))
        self.gets: dict[str, Get] = {}
        self.fetches = PendingFetches(crawler, TIMEOUT, self.run, self.failed)
        self.fetches.on_room = self.on_room

    def on_room(self, site: Origin) -> None:
        """Start a fetch, unless the host says that it needs none."""
        if not site.host.startswith("known"):
            self.begin(site.host)

    def wait_in_line(self, host: str) -> None:
        self.fetches.line[origin(host)] = None

    def failed(self, _: PendingFetch, error: Exception) -> OriginPolicy:
        return policy(f"failed: {type(error).__name__}")

    def begin(self, host: str = "a", get: Get | None = None) -> PendingFetch:
        self.gets[host] = get or self.get
        return self.fetches.begin(origin(host), None)

    async def run(self, fetch: PendingFetch) -> OriginPolicy:
        return await self.gets[fetch.origin.host](fetch)

    async def get(self, fetch: PendingFetch) -> OriginPolicy:
        while True:
            answer = await self.fetches.run_exchange(fetch, self.answer(fetch.origin.host))
            if answer != "redirect":
                return policy(answer if isinstance(answer, str) else type(answer).__name__)

    async def answer(self, host: str) -> str:
        self.asked.append(host)
        self.answers[host] = Deferred()
        return await maybe_deferred_to_future(self.answers[host])

    def close(self) -> None:
        self.slot.closing = object()
        self.fetches.tick()


async def turns(count: int = 8) -> None:
    """Let the tasks run."""
    for _ in range(count):
        await Runtime().sleep(0)


async def full_desk() -> Desk:
    """Return a desk where each of the first fetches has room, and no other one does."""
    desk = Desk()
    for number in range(MAX):
        desk.begin(str(number))
    await turns()
    return desk


def passes(desk: Desk, clock: Clock, seconds: float) -> None:
    """Let time pass, with as many ticks as in a crawl."""
    for _ in range(round(seconds / TICK)):
        clock.now += TICK
        desk.fetches.tick()


async def causes(*fetches: PendingFetch) -> list[str | None]:
    """Return what each of three waiters gets for each fetch."""
    waiting = [deferred_from_coro(fetch.result()) for fetch in fetches for _ in range(3)]
    results = await maybe_deferred_to_future(DeferredList(waiting))
    return [None if value is None else value.cause for _, value in results]


@pytest.mark.reactor
@under_the_reactor
async def test_task_that_is_cancelled_from_outside() -> None:
    """If another component cancels the task of a fetch, its waiters get a value."""
    fetch = Desk().begin()
    await turns()
    Runtime().call_later(0, lambda: fetch.task and fetch.task.cancel())
    assert [cause is not None for cause in await causes(fetch)] == [True] * 3


def test_credentials_of_a_route() -> None:
    """The representation of a fetch does not contain its route, which may have credentials."""
    assert "pass" not in repr(PendingFetch(origin("a"), "http://user:pass@p.example"))


@pytest.mark.reactor
@under_the_reactor
@pytest.mark.parametrize("is_closed", [True, False])
async def test_exchange_that_cannot_be_cancelled(clock: Clock, is_closed: bool) -> None:
    """The fetch of an exchange that cannot be cancelled ends without it, and does not go on."""
    desk = Desk()
    awaited: list[Deferred[None]] = []
    results: list[object] = []

    async def get(fetch: PendingFetch) -> OriginPolicy:
        results.append(await desk.fetches.run_exchange(fetch, deaf()))
        raise AssertionError

    async def deaf() -> None:
        while True:
            awaited.append(Deferred())
            with contextlib.suppress(*CANCELLED):
                return await maybe_deferred_to_future(awaited[-1])

    fetch = desk.begin(get=get)
    await turns()
    if is_closed:
        desk.close()
    else:
        passes(desk, clock, TIMEOUT + 3 * TICK)
    assert await causes(fetch) == [None if is_closed else "failed: TimeoutError"] * 3
    awaited[-1].callback(None)
    await turns()
    assert results == []


@pytest.mark.reactor
@under_the_reactor
async def test_line(clock: Clock) -> None:
    """An exchange loses its room after some time and continues. Its next one stands in line."""
    desk = Desk()
    hosts = [str(number) for number in range(MAX)]
    fetches = [desk.begin(host) for host in hosts]
    await turns()
    assert not desk.fetches.has_room()
    passes(desk, clock, ROOM_TIME - TICK)
    desk.wait_in_line("a")
    await turns()
    assert desk.asked == hosts
    passes(desk, clock, TICK)
    assert desk.fetches.has_room()
    others = [str(number) for number in range(MAX, 2 * MAX - 1)]
    for host in others:
        desk.begin(host)
    await turns()
    assert desk.asked == [*hosts, "a", *others]
    desk.answers["0"].callback("redirect")  # its next exchange needs room
    desk.answers["1"].callback("value")  # it had no room to give
    await turns()
    desk.wait_in_line("b")
    desk.answers["a"].callback("redirect")  # it still has room
    await turns()
    assert desk.asked == [*hosts, "a", *others, "a"]
    for host in ("a", others[0]):
        desk.answers[host].callback("value")
        await turns()
    assert desk.asked == [*hosts, "a", *others, "a", "0", "b"]
    assert [fetch.has_ended for fetch in fetches] == [False, True] + [False] * (MAX - 2)
    desk.close()


@pytest.mark.reactor
@under_the_reactor
async def test_no_wake_up_is_lost() -> None:
    """The room of an ended fetch is used, even if the first origins that wait need no fetch."""
    desk = await full_desk()
    for number in range(2000):
        desk.wait_in_line(f"known{number}")
    desk.wait_in_line("last")
    desk.answers["0"].callback("value")
    await turns(300)
    assert desk.asked[-1] == "last"
    desk.close()


@pytest.mark.reactor
@under_the_reactor
async def test_many_fetches_in_line_end_at_once() -> None:
    """Each of 1,000 fetches gets room, even if it ends as soon as it has some."""
    desk = await full_desk()

    async def get(fetch: PendingFetch) -> OriginPolicy:
        desk.fetches.leave(fetch)
        await Runtime().sleep(0)
        answer = await desk.fetches.run_exchange(fetch, at_once())
        return policy(str(answer))

    async def at_once() -> str:
        return "value"

    fetches = [desk.begin(f"quick{number}", get) for number in range(1000)]
    await turns()
    assert len(desk.fetches.line) == 1000
    desk.answers["0"].callback("value")
    await turns(2500)
    assert not [fetch for fetch in fetches if not fetch.has_ended]
    desk.close()


@pytest.mark.reactor
@under_the_reactor
async def test_line_of_a_spider_that_closes() -> None:
    """Origins that are still in line when the spider closes stay there, where they are counted."""
    desk = await full_desk()
    for number in range(2000):
        desk.wait_in_line(f"known{number}")
    desk.answers["0"].callback("value")
    await turns(3)
    desk.slot.closing = object()
    waiting = len(desk.fetches.line)
    assert waiting
    await turns(300)
    assert len(desk.fetches.line) == waiting
    desk.close()


@pytest.mark.parametrize(("concurrent_requests", "expected"), [(0, 256), (1, 16), (4, 64)])
def test_maximum(concurrent_requests: int, expected: int) -> None:
    """At most 256 fetches have room, or 16 for each of CONCURRENT_REQUESTS."""
    crawler = get_crawler(Spider, {"CONCURRENT_REQUESTS": concurrent_requests})
    assert max_fetches(crawler) == expected


@pytest.mark.reactor
@under_the_reactor
async def test_connections(clock: Clock) -> None:
    """Fetches use half of the file descriptors, also if they no longer have room."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
        desk = Desk()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    while desk.fetches.has_room():
        for _ in range(MAX):
            if desk.fetches.has_room():
                desk.begin(str(len(desk.gets)))
        await turns()
        passes(desk, clock, ROOM_TIME)
    assert len(desk.asked) == 100
    desk.wait_in_line("a")
    desk.answers["0"].callback("value")
    await turns()
    assert desk.asked[100:] == ["a"]
    desk.close()
