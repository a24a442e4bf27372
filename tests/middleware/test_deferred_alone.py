"""What is kept for requests that went back to the scheduler: little, and not for ever."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.fetching.queue import RouteWait
from scrapy_robots_rfc.middleware.deferred import _FIRST_SWEEP, RESERVED, WAITED, DeferredRequests
from scrapy_robots_rfc.scheduling.throttle import Throttle
from scrapy_robots_rfc.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Clock(Runtime):
    """The clock, as told."""

    now = 0.0

    def clock(self) -> float:
        """The time that the test says it is."""
        return self.now


@dataclass
class Scheduler:
    """Where requests come from, and where they are given back."""

    queue: list[Request] = field(default_factory=list)
    closing: bool = False
    on_disk: bool = False

    def put_back(self, requests: list[Request], mark: Mapping[str, str]) -> None:
        """Take requests."""
        for request in requests:
            request.meta.update(mark)
        self.queue += requests

    def backwards(self, _request: Request) -> bool:
        """First come, first served."""
        return False

    def keep_open(self, *, on: bool) -> None:
        """There is nothing to keep open, or to close."""


class Verdict:
    """What is waited for."""


class Room:
    """A waiting room, and who asked for what."""

    def __init__(self) -> None:
        self.clock, self.scheduler = Clock(), Scheduler()
        self.fetches: dict[str, RouteWait[Verdict]] = {}
        self.kept: list[str] = []
        crawler = get_crawler(Spider)
        self.throttle = Throttle(crawler, read_settings(crawler.settings), lambda _: None, self.clock)
        self.room: DeferredRequests[Verdict] = DeferredRequests(
            hold=self._hold,
            usual=lambda _: None,
            scheduler=cast("Any", self.scheduler),
            runtime=self.clock,
            throttle=self.throttle,
        )

    def _hold(self, key: str, _verdict: Verdict) -> tuple[Callable[[], Verdict], float]:
        self.kept.append(key)
        return Verdict, self.clock.now

    def wait(self, key: str) -> Request:
        """A request comes, and is set aside."""
        request = Request("data:,")
        self.room.leave(request, self.fetches.setdefault(key, RouteWait(key)))
        assert self.room.take(request)
        return request

    def end(self, key: str, verdict: Verdict | None = None) -> None:
        """The fetch ends."""
        wait = self.fetches.pop(key)
        wait.settle(verdict or Verdict())
        wait.tell()

    def back(self, key: str, request: Request) -> Verdict | None:
        """A request comes back from the scheduler."""
        return self.room.reserved(key, None, request.meta.get(WAITED))


def test_no_verdict_is_kept_for_those_who_come_back() -> None:
    """While requests are in the scheduler's queues their verdict is held by what was asked to hold it."""
    found = Room()
    requests = [found.wait("a"), found.wait("a")]
    verdict = Verdict()
    gone = weakref.ref(verdict)
    found.end("a", verdict)
    del verdict
    assert found.scheduler.queue == requests
    assert gone() is None
    assert [type(found.back("a", request)) for request in requests] == [Verdict, Verdict]
    assert not found.room._reserved
    assert found.kept == ["a"]


def test_what_waits_for_a_site() -> None:
    """The requests of a site are counted together, whatever their routes, from the first one on."""
    found = Room()
    for now, route in enumerate(("one", "two", "one")):
        found.clock.now = now
        found.room.leave(request := Request("data:,"), found.fetches.setdefault(route, RouteWait("a", route)))
        assert found.room.take(request)
    found.wait("b")
    assert found.room.waiting() == {"a": (3, 0), "b": (1, 2)}
    found.end("one")
    assert found.room.waiting() == {"a": (1, 1), "b": (1, 2)}


def test_only_those_who_waited() -> None:
    """A verdict is for those who waited for it: not for others of its site, of other sites, or of another crawl."""
    found, before = Room(), Room()
    waited, elsewhere, earlier = found.wait("a"), found.wait("b"), before.wait("a")
    for room in (found, before):
        for key in list(room.fetches):
            room.end(key)
    assert found.back("a", Request("http://a.example/2")) is None
    assert found.back("a", elsewhere) is None
    assert found.back("a", earlier) is None
    assert found.back("a", Request("http://a.example/", meta={WAITED: ["odd"]})) is None
    assert found.back("a", waited) is not None


def test_a_minute_at_most() -> None:
    """A stale verdict holds for a minute for those who waited for it, and then for nobody."""
    found = Room()
    in_time, late, later = (found.wait("a") for _ in range(3))
    found.end("a")
    found.clock.now = RESERVED - 1
    assert found.back("a", in_time) is not None
    found.clock.now = RESERVED
    assert found.back("a", late) is None
    assert found.back("a", later) is None
    assert not found.room._reserved


def test_requests_that_never_come_back() -> None:
    """What was promised to requests that were dropped on the way is forgotten after its time."""
    found = Room()
    requests = []
    for number in range(2 * _FIRST_SWEEP):
        if number == _FIRST_SWEEP:
            found.clock.now = RESERVED
        requests.append(found.wait(f"{number}"))
        found.end(f"{number}")
    assert len(found.room._reserved) == _FIRST_SWEEP
    assert found.back("0", requests[0]) is None
    assert found.back(f"{_FIRST_SWEEP}", requests[_FIRST_SWEEP]) is not None
