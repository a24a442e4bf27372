"""The order in which the queue hands out requests, its cost with many sites, and peeking."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st
from pytest_twisted import ensureDeferred
from scrapy import Request, Spider
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.squeues import FifoMemoryQueue, LifoMemoryQueue
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc import OriginPriorityQueue
from scrapy_robots_rfc._scrapy import peek
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.gate import Permit
from tests.support.crawling import crawl
from tests.support.disk_queues import crawler as gated, queue
from tests.support.gates import Files, Turns, add_engine, add_gate
from tests.support.proxies import Proxy

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_robots_rfc.fetching.pending import PendingFetch
    from tests.support.site import Site

SITES = 150


class Slots(dict[str, Any]):
    """The slots of a downloader, with their pages under way; it counts look-ups."""

    def __init__(self, pages: dict[str, int]) -> None:
        super().__init__(
            {key: SimpleNamespace(active=range(count)) for key, count in pages.items()}
        )
        self.looks = Counter[str]()

    def get(self, key: str, default: Any = None) -> Any:
        self.looks[key] += 1
        return super().get(key, default)


def queue_of(turns: Turns, slots: Slots | None = None) -> OriginPriorityQueue:
    """Return a queue in memory for a crawl that knows every robots.txt."""
    crawler = get_crawler(Spider)
    downloader = SimpleNamespace(slots=Slots({}) if slots is None else slots, active=set())
    add_gate(crawler, turns=turns, downloader=downloader)
    return OriginPriorityQueue(crawler, FifoMemoryQueue, "")


def page(site: object, slot: object, number: int = 0) -> Request:
    """Return a page of a site, in a slot."""
    return Request(f"http://site{site}.example/{number}", meta={"download_slot": str(slot)})


def slots_of(queue: OriginPriorityQueue, count: int) -> list[str]:
    """Return the slots of the next requests."""
    return [request.meta["download_slot"] for _ in range(count) if (request := queue.pop())]


def test_cost_of_a_request_does_not_grow_with_the_slots_that_wait() -> None:
    """Of 150 slots with a page each, `pop` checks only slots with pages under way, and one more."""
    slots = Slots({str(number): 1 for number in range(2)})
    queue = queue_of(Turns(lambda _: True), slots)
    for number in range(SITES):
        queue.push(page(number, number))
    assert len(slots_of(queue, SITES)) == SITES
    assert slots.looks.total() <= SITES * (2 + 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1), st.data())
def test_fewest_under_way(pushed: list[tuple[int, int]], data: st.DataObject) -> None:
    """A request comes from a slot with the fewest requests under way, and every slot is used."""
    active = {str(key): count for key, count in pushed}
    queue = queue_of(Turns(lambda _: True), Slots(active))
    to_push = [str(key) for key, _ in pushed]
    queued = Counter[str]()
    while to_push or queued.total():
        if to_push and (not queued.total() or data.draw(st.booleans())):
            slot = to_push.pop()
            queue.push(page(slot, slot))
            queued[slot] += 1
            continue
        [slot] = slots_of(queue, 1)
        assert active[slot] == min(active[each] for each, count in queued.items() if count)
        queued[slot] -= 1
    assert min(queued.values()) == 0
    assert queue.pop() is None
    assert len(queue) == 0


def test_slots_of_a_paced_site_take_turns() -> None:
    """Two slots with pages of a paced site alternate."""
    throttle = Turns(lambda _: len(throttle.taken) <= throttle.now)
    queue = queue_of(throttle)
    for slot in "aaaabbbb":
        queue.push(page(1, slot))
    found: list[str] = []
    while len(found) < 6:
        found += slots_of(queue, 1)
        throttle.passes(0.3)
    assert found in (["a", "b"] * 3, ["b", "a"] * 3)
    assert throttle.now >= 5


def test_sites_take_turns() -> None:
    """Sites in one slot alternate; a new site is last."""
    queue = queue_of(Turns(lambda _: True))
    for site in "aabb":
        queue.push(page(site, "slot"))
    found: list[str] = []
    while (request := queue.pop()) is not None:
        found.append(request.url[len("http://site")])
        if len(found) == 1:
            queue.push(page("c", "slot"))
    assert found == ["a", "b", "a", "c", "b"]


def test_fetch_outside_the_scheduler_of_an_origin_without_room() -> None:
    """An origin that waits for room is woken when a request outside the scheduler fetches its file.

    The next origin then uses the room.
    """
    known: set[str] = set()
    files = Files(lambda origin: origin.host in known, most=1)
    crawler = get_crawler(Spider)
    add_gate(crawler, files=files)
    queue = OriginPriorityQueue(crawler, FifoMemoryQueue, "")
    for site in (1, 2, 3):
        queue.push(page(site, site))
    assert queue.pop() is None
    [first] = files.fetches
    without_room = Origin.of("http://site2.example/")
    assert without_room is not None
    files.fetch(without_room)
    known.add(without_room.host)
    files.end(without_room)
    request = queue.pop()
    assert request is not None
    assert request.url == "http://site2.example/0"
    files.end(first)
    assert queue.pop() is not None  # for the first site
    assert queue.pop() is None
    assert [origin.host for origin in files.fetches] == ["site3.example"]


def test_paced_site_is_first_in_line() -> None:
    """A site that has its turn waits for room before all others, so that it keeps the turn."""
    files, turns = Files(lambda _: False, most=1), Turns(lambda _: True)
    crawler = get_crawler(Spider)
    add_gate(crawler, files=files, turns=turns)
    queue = OriginPriorityQueue(crawler, FifoMemoryQueue, "")
    for site in (1, 2, 3):
        queue.push(page(site, site))
    turns.sites = {Origin("http", "site3.example", 80): None}
    turns.is_shared = True
    assert queue.pop() is None
    [first] = files.fetches
    files.end(first)
    assert [origin.host for origin in files.fetches] == ["site3.example"]


@pytest.mark.parametrize(("is_shared", "seconds"), [(False, 61), (True, 160)])
def test_file_that_expires_while_a_request_waits_for_its_turn(
    is_shared: bool, seconds: int
) -> None:
    """A file is used for a minute and an interval more, or 100 intervals with other workers."""
    files, turns = Files(lambda _: False), Turns(lambda _: True)
    turns.is_shared = is_shared
    crawler = get_crawler(Spider)
    gate = add_gate(crawler, files=files, turns=turns)
    origin = Origin("https", "paced.example", 443)
    policy: Any = SimpleNamespace(
        origin=origin, for_all_routes=True, validity=SimpleNamespace(fresh_until=0.0)
    )
    request = Request(f"{origin}/")
    permit = Permit(policy)
    turns.now = seconds - 0.1
    assert gate.policy_for(request, origin, permit) is policy
    turns.now = seconds
    assert gate.policy_for(request, origin, permit) is None


class Failing(Files):
    """Stands for a service whose fetches of one site fail, each for its own route only."""

    def _policy(self, fetch: PendingFetch, _: object = None) -> Any:
        policy = super()._policy(fetch)
        policy.for_all_routes = fetch.route is None
        return policy

    def fetch(self, origin: Origin, request: Request | None = None) -> PendingFetch:
        return self.pending.begin(origin, self.routes.of(request), request)


@pytest.mark.parametrize("slots", ["aab", "abb", "aaabbb"])
def test_failed_routes_of_a_site_while_others_are_in_line(slots: str) -> None:
    """Each failed fetch serves a request with its route, whichever slot comes first."""
    files = Failing(lambda _: False, most=1)
    crawler = get_crawler(Spider)
    add_gate(crawler, files=files)
    queue = OriginPriorityQueue(crawler, FifoMemoryQueue, "")
    for number in range(3):
        queue.push(page(number, number))
    for proxy in slots:
        meta = {"download_slot": proxy, "proxy": proxy}
        queue.push(Request("http://failing.example/", meta=meta))
    served = Counter[str]()
    fetched = Counter[str]()
    for number in range(3, 60):  # others are always in line
        queue.push(page(number, number))
        for _ in range(5):
            if (request := queue.pop()) is not None and "proxy" in request.meta:
                served[request.meta["proxy"]] += 1
        [fetch] = files.fetches.values()
        if fetch.route is not None:
            fetched[fetch.route] += 1
        files.end(fetch.origin)
    assert served == fetched == Counter(slots)


def test_file_that_expires_while_many_requests_wait() -> None:
    """A file that expires while 5,000 requests wait is fetched once."""
    known: set[Origin] = set()
    files = Files(known.__contains__)
    crawler = get_crawler(Spider)
    add_gate(crawler, files=files)
    queue = OriginPriorityQueue(crawler, FifoMemoryQueue, "")
    for number in range(5000):
        queue.push(page(1, number % 7, number))
    origin = Origin("http", "site1.example", 80)
    for _ in range(2):
        assert [queue.pop() for _ in range(100)] == [None] * 100
        assert list(files.fetches) == [origin]
        known.add(origin)
        files.end(origin)
        assert len(slots_of(queue, 1000)) == 1000
        known.clear()
    assert files.fetches == {}


@given(
    st.sampled_from([FifoMemoryQueue, LifoMemoryQueue]),
    st.sampled_from([FifoMemoryQueue, LifoMemoryQueue, None]),
    # Push (priority, start request or not), or pop.
    st.lists(st.one_of(st.tuples(st.integers(0, 2), st.booleans()), st.none()), max_size=30),
)
def test_peek(kind: type[Any], start_kind: type[Any] | None, steps: list[Any]) -> None:
    """Peeking shows the request that `pop` returns, and removes nothing."""
    queue = ScrapyPriorityQueue(gated(), kind, "", start_queue_cls=start_kind)
    pushed: list[str] = []
    popped: list[str] = []
    for number, step in enumerate([*steps, *(None for _ in steps)]):
        peeked = peek(queue)
        if step is not None:
            priority, start = step
            pushed.append(f"data:,{number}")
            queue.push(Request(pushed[-1], priority=priority, meta={"is_start_request": start}))
        elif (request := queue.pop()) is not None:
            assert peeked is not None
            assert peeked.url == request.url
            popped.append(request.url)
    assert sorted(popped) == sorted(pushed)


class Unpeekable(list[Request]):
    """A third-party queue without `peek`, which is optional."""

    push = list.append

    @classmethod
    def from_crawler(cls, *_: object) -> Unpeekable:
        return cls()

    def close(self) -> None:
        """Do nothing."""


def test_queue_without_peek() -> None:
    """A queue that has no `peek` gives `None`, and still has its request."""
    queue = ScrapyPriorityQueue(gated(), Unpeekable, "", start_queue_cls=None)
    queue.push(Request("data:,"))
    assert peek(queue) is None
    assert len(queue) == 1


@ensureDeferred
async def test_proxy_of_a_request_that_cannot_be_peeked_at(site: Site) -> None:
    """Each robots.txt is requested with the proxy of a page, even if the queue has no `peek`."""
    with Proxy() as proxy:
        meta = {"proxy": f"http://{proxy.netloc}"}
        pages = [Request(site.url(f"/{number}"), meta=meta) for number in range(3)]
        result = await crawl(pages, {"SCHEDULER_MEMORY_QUEUE": Unpeekable})
        assert result.verdicts() == [200] * 3
        assert site.fetches == 1
        assert len(proxy.asked) == len(site.asked)


def test_requests_in_memory_are_stored_without_robots_txt(tmp_path: Path) -> None:
    """Requests in memory are stored when a crawl ends, even if it does not obey robots.txt."""
    crawler = get_crawler(Spider)
    add_engine(crawler)
    folder = tmp_path / "requests.queue"
    in_memory = OriginPriorityQueue(crawler, FifoMemoryQueue, "")
    on_disk = queue(folder, crawler=crawler)
    in_memory.push(Request("http://site.example/"))
    on_disk.close()
    assert len(queue(folder)) == 1
