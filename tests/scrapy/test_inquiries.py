"""Inquiries by themselves: how many attempts at once, which comes next, when the next one is made, and the end."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc._compat import Cancellable, Runtime
from scrapy_robots_rfc.flights import TICK
from scrapy_robots_rfc.inquiries import PATIENCE, Attempted, GaveWay, Inquiries, Inquiry

if TYPE_CHECKING:
    from collections.abc import Callable


class Hand(Runtime):
    """Time goes on when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Callable[[], object]] = []

    def clock(self) -> float:
        """Return the test's time."""
        return self.now

    def call_later(self, delay: float, function: Callable[[], object]) -> Cancellable:
        """Keep it."""
        assert delay == TICK
        self.timers.append(function)
        return None  # type: ignore[return-value]  # nobody cancels it

    def pass_time(self, seconds: float) -> None:
        """Let it pass, and call what is due."""
        self.now += seconds
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()


class Desk:
    """Inquiries whose attempts the test ends."""

    def __init__(self, limit: int = 10) -> None:
        self.runtime = Hand()
        self.closing = False
        self.under_way: dict[str, Callable[[Attempted[str] | GaveWay | None], object]] = {}
        self.asked: list[str] = []
        self.patience: dict[str, float] = {}
        self.told: list[tuple[str, str | None]] = []
        self.inquiries: Inquiries[str] = Inquiries(
            self.runtime, limit, closing=lambda: self.closing, attempt=self.attempt
        )

    def attempt(self, inquiry: Inquiry[str], listener: Callable[[Attempted[str] | GaveWay | None], object]) -> None:
        """Keep the attempt."""
        self.asked.append(inquiry.key)
        self.patience[inquiry.key] = inquiry.patience
        self.under_way[inquiry.key] = listener

    def ask(self, *keys: str) -> None:
        """Ask."""
        for key in keys:
            self.inquiries.ask(key, None, partial(self.tell, key))

    def tell(self, key: str, value: str | None) -> None:
        """Keep what was told."""
        self.told.append((key, value))

    def end(self, key: str, again: float | None = None) -> None:
        """End the attempt for a key."""
        self.under_way.pop(key)(Attempted(key.upper(), again))


def test_one_inquiry_for_all() -> None:
    """Whoever asks meanwhile is told the same value, once."""
    desk = Desk()
    desk.ask("a", "a")
    desk.end("a")
    assert desk.asked == ["a"]
    assert desk.told == [("a", "A"), ("a", "A")]
    assert "a" not in desk.inquiries


def test_no_more_than_the_limit() -> None:
    """The next in line is served when one ends, first come, first served."""
    desk = Desk(limit=2)
    desk.ask("a", "b", "c", "d")
    assert desk.asked == ["a", "b"]
    desk.end("b")
    assert desk.asked == ["a", "b", "c"]


def test_again_after_the_delay() -> None:
    """An attempt is made again when its time has come, not before; nobody is told until the last one."""
    desk = Desk()
    desk.ask("a")
    desk.end("a", again=5)
    desk.runtime.pass_time(4.9)
    assert desk.asked == ["a"]
    desk.runtime.pass_time(0.1)
    assert desk.asked == ["a", "a"]
    assert desk.told == []
    desk.end("a")
    assert desk.told == [("a", "A")]


def test_new_ones_go_first() -> None:
    """One that has failed stands behind those that were never tried."""
    desk = Desk(limit=1)
    desk.ask("a")
    desk.end("a", again=1)
    desk.ask("b", "c")
    desk.runtime.pass_time(1)
    desk.end("b")
    desk.end("c")
    assert desk.asked == ["a", "b", "c", "a"]


def test_who_gives_way() -> None:
    """From a quarter of the limit on, attempts have little patience, then more; one that gave way goes last."""
    desk = Desk(limit=4)
    desk.ask("a", "b", "c", "d", "e")
    assert [desk.patience[key] for key in "abcd"] == [math.inf, PATIENCE, PATIENCE, PATIENCE]
    desk.under_way.pop("b")(GaveWay())
    desk.end("a", again=1)
    desk.runtime.pass_time(1)
    assert desk.asked == ["a", "b", "c", "d", "e", "b"]
    desk.end("c")
    assert (desk.asked[-1], desk.patience["b"] > PATIENCE, desk.told) == ("a", True, [("c", "C")])


@pytest.mark.parametrize("limit", [1, 10])
def test_the_end_of_the_crawl(limit: int) -> None:
    """Whoever stands in line or waits for another attempt is told None; one timer at most looks after it, then none."""
    desk = Desk(limit=limit)
    desk.ask("a")
    desk.end("a", again=600)
    desk.ask("b", "c")
    assert len(desk.runtime.timers) == 1
    desk.closing = True
    desk.runtime.pass_time(TICK)
    for key in list(desk.under_way):
        desk.under_way.pop(key)(None)
    assert sorted(desk.told) == [("a", None), ("b", None), ("c", None)]
    assert desk.runtime.timers == []


def test_attempts_that_end_at_once() -> None:
    """Without asyncio an attempt may end while it is made: a long line of those neither recurses nor stops."""
    told: list[str | None] = []
    inquiries: Inquiries[str] = Inquiries(
        Hand(), 1, closing=lambda: False, attempt=lambda inquiry, listener: held.append(listener)
    )
    held: list[Callable[[Attempted[str] | GaveWay | None], object]] = []
    inquiries.ask("first", None, told.append)
    for number in range(5000):
        inquiries.ask(number, None, told.append)
    while held:
        held.pop()(Attempted("done"))
    assert told == ["done"] * 5001


def test_a_listener_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """One that raises keeps nobody else from being told."""
    desk = Desk()
    desk.inquiries.ask("a", None, lambda _: 1 / 0)
    desk.ask("a")
    desk.end("a")
    assert desk.told == [("a", "A")]
    assert any(record.exc_info for record in caplog.records)


def test_an_attempt_that_cannot_be_made(caplog: pytest.LogCaptureFixture) -> None:
    """When not even the attempt begins, nobody waits for ever."""

    def fail(_inquiry: object, _listener: object) -> None:
        raise RuntimeError

    told: list[str | None] = []
    inquiries: Inquiries[str] = Inquiries(Hand(), 1, closing=lambda: False, attempt=fail)
    inquiries.ask("a", None, told.append)
    assert told == [None]
    assert any(record.exc_info for record in caplog.records)
