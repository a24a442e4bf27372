"""The line that says what waits: when it comes, and what it says of one request and of many."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.middleware.progress import Progress
from tests.middleware.test_deferred_alone import Clock, Room
from tests.support.crawling import make_crawler
from tests.support.documents import block

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class Timers(Clock):
    """A clock whose timers fire when it is told to go on."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], object]]] = []

    def call_later(self, delay: float, function: Callable[[], object]) -> Timers:
        """Keep it."""
        self.timers.append((self.now + delay, function))
        return self

    def cancel(self) -> None:
        """Forget them."""
        self.timers = []

    def go_on(self, until: float) -> None:
        """Let time go by."""
        while self.timers and self.timers[0][0] <= until:
            self.now, function = self.timers.pop(0)
            function()
        self.now = until


def begun(room: Room, clock: Timers, interval: float) -> Progress:
    """The line of a crawl that has begun."""
    room.room._runtime = clock
    crawler = make_crawler(settings={"LOGSTATS_INTERVAL": interval})
    progress = Progress(crawler, room.room, room.throttle, clock)
    progress.begin()
    return progress


def test_once_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    """The line comes when something has waited for five seconds, and then once every LOGSTATS_INTERVAL."""
    caplog.set_level(logging.INFO)
    room, clock = Room(), Timers()
    caplog.clear()  # Scrapy has told of its settings
    progress = begun(room, clock, 60)
    clock.go_on(7)
    room.wait("a")
    clock.go_on(11)
    assert caplog.messages == []
    room.wait("b")
    clock.go_on(74)
    assert caplog.messages == ["2 requests wait for the robots.txt of 2 sites (longest: a, 8 s)"]
    clock.go_on(75)
    assert caplog.messages[1:] == ["2 requests wait for the robots.txt of 2 sites (longest: a, 68 s)"]
    for key in ("a", "b"):
        room.end(key)
    clock.go_on(1000)
    assert len(caplog.messages) == 2
    progress.close()
    assert not clock.timers


def test_one_request() -> None:
    """One request waits for one site."""
    room, clock = Room(), Timers()
    progress = begun(room, clock, 60)
    room.wait("a")
    clock.now = 5
    assert progress.text() == "1 request waits for the robots.txt of 1 site (longest: a, 5 s)"


def test_as_documented() -> None:
    """Many requests wait for several sites, as the page on slow files has it."""
    room, clock = Room(), Timers()
    progress = begun(room, clock, 60)
    for number in range(12):
        room.wait(f"http://{'abc'[number % 3]}.example")
    clock.now = 42
    assert progress.text() == block("docs/failing.md", "text", "held back").partition("; ")[0]


def test_turned_off() -> None:
    """Where LOGSTATS_INTERVAL is 0, nothing is told."""
    room, clock = Room(), Timers()
    begun(room, clock, 0).close()
    assert not clock.timers


class Morning(Runtime):
    """It is 05:26:33 on a day in November, wherever this is."""

    def date(self) -> float:
        """That time."""
        return time.mktime((2026, 11, 22, 5, 26, 33, 0, 0, -1))


def test_times_ahead() -> None:
    """A time of day is as log lines have it; on another day it has its date; too far ahead there is none to miss."""
    assert Morning().at(65) == "05:27:38"
    assert Morning().at(24 * 3600) == "2026-11-23 05:26:33"
    assert Morning().at(1e300) == Morning().at(1e9)
