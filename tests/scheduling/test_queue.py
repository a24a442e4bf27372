"""The order in which the queue of the scheduler hands out requests, and what it costs where very many sites wait."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.pqueues import DownloaderInterface

from scrapy_robots_rfc.scheduling.queue import WaitingLine, _Sites, _slot
from tests.support.crawling import crawl

if TYPE_CHECKING:
    from tests.support.site import Site

SITES = 150


@pytest.mark.reactor
@ensureDeferred
async def test_cost_of_a_request_does_not_grow_with_the_slots_that_wait(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 150 slots with a page each, only those are looked at that have pages under way."""
    looks: Counter[str] = Counter()
    plain = DownloaderInterface._active_downloads

    def counted(interface: DownloaderInterface, slot: str) -> int:
        looks[slot] += 1
        return plain(interface, slot)

    monkeypatch.setattr(DownloaderInterface, "_active_downloads", counted)
    metas = [{"dont_obey_robotstxt": True, "download_slot": str(number)} for number in range(SITES)]
    pages = [Request(site.url(f"/{number}"), meta=meta) for number, meta in enumerate(metas)]
    result = await crawl(pages, {"CONCURRENT_REQUESTS": 2})
    assert list(result.outcomes.values()) == [200] * SITES
    assert len(looks) == SITES
    assert looks.total() <= SITES * (2 + 1)


def sites(awake: dict[str, list[int]]) -> _Sites[list[int]]:
    """Queues of sites, none of which asks for an interval."""
    return _Sites(cast("Any", SimpleNamespace(due=lambda _: 0)), awake)


def push(queues: _Sites[list[int]], awake: dict[str, list[int]], key: str) -> None:
    """Queue a request."""
    if key not in awake:
        awake[key] = []
        queues.add(key)
    awake[key].append(0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1), st.data())
def test_fewest_under_way(pushed: list[tuple[int, int]], data: st.DataObject) -> None:
    """A request comes from a site of which no other one has fewer requests under way, and none is left out."""
    awake: dict[str, list[int]] = {}
    queues = sites(awake)
    active = {f"slot{key}": count for key, count in pushed}
    left = [f"slot{key} site{key}" for key, _ in pushed]
    handed_out = Counter[str]()
    while left or awake:
        if left and (not awake or data.draw(st.booleans())):
            push(queues, awake, left[0])
            del left[0]
            continue
        key = queues.first(active.__getitem__)
        assert key is not None
        assert active[_slot(key)] == min(active[_slot(each)] for each in awake)
        handed_out[key] += 1
        awake[key].pop()
        if not awake[key]:
            del awake[key]
        queues.gone()
    assert handed_out == Counter(f"slot{key} site{key}" for key, _ in pushed)
    assert queues.first(active.__getitem__) is None


class Interval:
    """A throttle for one site, and a clock that goes on a little whenever somebody looks at it."""

    def __init__(self) -> None:
        self.now, self.next = 0.0, 0.0
        self.queues: list[WaitingLine] = []

    def clock(self) -> float:
        """Seconds."""
        self.now += 1e-6
        return self.now

    def due(self, _name: str) -> float:
        """Seconds until the turn."""
        return max(0.0, self.next - self.clock())

    def interval(self, _name: str) -> float:
        """Seconds that the site asks for."""
        return 1.0

    def wake_in(self, seconds: float) -> None:
        """Nobody is woken: the test asks."""
        assert seconds >= 0

    def name(self, _request: Request) -> str:
        """All requests are for the site."""
        return "site"

    def take(self, _request: Request) -> None:
        """A request leaves; the next one has to wait."""
        self.next = self.now + 1


def test_slots_of_a_paced_site_take_turns() -> None:
    """Of two slots with pages of a site that asks for an interval, each has every second turn."""
    throttle = Interval()
    awake = {"a site": [0] * 4, "b site": [0] * 4}
    queues = _Sites(cast("Any", throttle), awake)
    told: list[str] = []
    while len(told) < 6:
        key = queues.first(lambda _: 0)
        if key is not None:
            told.append(key[0])
            awake[key].pop()
            throttle.next = throttle.now + 1
        queues.gone()
        throttle.now += 0.3
    assert told == ["a", "b"] * 3
    assert throttle.now >= 5


def test_a_site_that_asks_for_less_is_soon_asked_again() -> None:
    """What sleeps for an interval that the site does not ask for any more goes on after five seconds."""
    throttle = Interval()
    throttle.next = 100.0
    queues = _Sites(cast("Any", throttle), {"slot site": [1]})
    assert queues.first(lambda _: 0) is None
    throttle.next = 0.0
    throttle.now += 4
    assert queues.first(lambda _: 0) is None
    throttle.now += 2
    assert queues.first(lambda _: 0) == "slot site"


def test_a_line_that_was_emptied_goes_on() -> None:
    """What waits for its turn when the spider closes is given back; what comes later waits as before."""
    throttle = Interval()
    line = WaitingLine(cast("Any", throttle))
    first, second, third = (Request(f"http://example.com/{number}") for number in range(3))
    for request in (first, second):
        line.push(request)
    assert line.pop() is first
    assert line.pop() is None
    assert line.clear() == [second]
    throttle.now += 2
    assert line.pop() is None
    line.push(third)
    assert line.waiting() == {"site": 1}
    assert line.pop() is third


class Fickle(Interval):
    """A throttle that says whatever a test wants of half of the sites, and in the end that they may go.

    :param says: what it says, the last first.
    """

    names = frozenset({"site0", "site1", "site2"})

    def __init__(self, says: list[float | None]) -> None:
        super().__init__()
        self.says, self.said = says, dict[str, float | None]()

    def due(self, name: str) -> float | None:  # type: ignore[override]  # the real one returns both
        """Seconds, ``None`` for nobody knows."""
        if name not in self.said:
            self.said[name] = self.says.pop() if self.says and name in self.names else 0.0
        return self.said[name]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=1, max_size=20),
    st.lists(st.sampled_from([None, 0.5, 100.0, 0.0]), max_size=40),
)
def test_nothing_is_lost(pushed: list[tuple[int, int]], says: list[float | None]) -> None:
    """Each request is handed out once, when its site may have one, however its queue slept and several share a slot."""
    throttle, awake = Fickle(says), dict[str, list[int]]()
    queues = _Sites(cast("Any", throttle), awake)
    handed_out = Counter[str]()
    for site, slot in pushed:
        key = f"slot{slot} site{site}"
        push(queues, awake, key)
    for _ in range(200):
        throttle.said.clear()
        found = queues.first(lambda _: 1)
        if found is not None:
            assert throttle.said.get(found.partition(" ")[2], 0) == 0
            handed_out[found] += 1
            awake[found].pop()
            if not awake[found]:
                del awake[found]
        queues.gone()
        throttle.now += 1
    assert handed_out == Counter(f"slot{slot} site{site}" for site, slot in pushed)
    assert not queues.asleep


def test_sites_take_turns() -> None:
    """Of sites that have as many requests under way each has one, then each has another one; a new one comes last."""
    awake = {"s a": [1, 2], "s b": [1, 2]}
    queues = sites(awake)
    told = []
    for _ in range(5):
        key = queues.first(lambda _: 0)
        assert key is not None
        told.append(key)
        awake[key].pop()
        if not awake[key]:
            del awake[key]
        queues.gone()
        if len(told) == 1:
            push(queues, awake, "s c")
    assert told == ["s a", "s b", "s a", "s c", "s b"]
