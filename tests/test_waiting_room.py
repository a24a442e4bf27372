"""What a waiting room keeps for requests that it gave back: little, and not for ever."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from scrapy_robots_rfc._compat import Runtime
from scrapy_robots_rfc.waiting import _FIRST_SWEEP, PROMISED, WaitingRoom


class Clock(Runtime):
    """The clock, as told."""

    now = 0.0

    def clock(self) -> float:
        """The time that the test says it is."""
        return self.now


@dataclass
class Scheduler:
    """Where requests come from, and where they are given back."""

    queue: list[str] = field(default_factory=list)

    def put_back(self, requests: list[str]) -> None:
        """Take requests."""
        self.queue += requests

    def backwards(self, _request: str) -> bool:
        """First come, first served."""
        return False

    def keep_open(self) -> None:
        """There is nothing to keep open."""

    def let_close(self) -> None:
        """There is nothing to close."""


class Verdict:
    """What is waited for."""


Listener: TypeAlias = Callable[[Verdict | None], object]


class Room:
    """A waiting room, and who asked for what."""

    def __init__(self) -> None:
        self.clock, self.scheduler = Clock(), Scheduler()
        self.asked: dict[str, Listener] = {}
        self.kept: list[str] = []
        self.room: WaitingRoom[Verdict] = WaitingRoom(
            10_000,
            ask=lambda key, _request, listener: self.asked.update({key: listener}),
            joined=lambda: None,
            hold=self._hold,
            outside=self.scheduler,
            runtime=self.clock,
        )

    def _hold(self, key: str, _verdict: Verdict) -> Callable[[], Verdict]:
        self.kept.append(key)
        return Verdict

    def wait(self, key: str, request: str) -> None:
        """A request comes, and is set aside."""
        self.room.leave(request, self.room.join(key, request))
        assert self.room.take(request)


def test_no_verdict_is_kept_for_those_who_come_back() -> None:
    """While requests are in the scheduler's queues their verdict is held by what was asked to hold it."""
    found = Room()
    found.wait("a", "request 1")
    found.wait("a", "request 2")
    verdict = Verdict()
    gone = weakref.ref(verdict)
    found.asked.pop("a")(verdict)
    del verdict
    assert found.scheduler.queue == ["request 1", "request 2"]
    assert gone() is None
    assert [type(found.room.promised("a")) for _ in range(3)] == [Verdict, Verdict, type(None)]
    assert found.kept == ["a"]


def test_requests_that_never_come_back() -> None:
    """What was promised to requests that were dropped on the way is forgotten after its time."""
    found = Room()
    for number in range(2 * _FIRST_SWEEP):
        if number == _FIRST_SWEEP:
            found.clock.now = PROMISED
        found.wait(f"{number}", f"request {number}")
        found.asked.pop(f"{number}")(Verdict())
    assert len(found.room._promises) == _FIRST_SWEEP
    assert found.room.promised("0") is None
    assert found.room.promised(f"{_FIRST_SWEEP}") is not None
