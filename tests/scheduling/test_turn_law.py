"""Every wait for a turn ends, whatever becomes of the requests that have one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from scrapy import Request, signals

from scrapy_robots_rfc.scheduling.throttle import MAX_HELD
from tests.support.paced import DAY, Paced

if TYPE_CHECKING:
    from scrapy_robots_rfc.policy.origins import Origin


class Turns(RuleBasedStateMachine):
    """A paced site with requests in the queue, in the middleware and in the downloader."""

    def __init__(self) -> None:
        super().__init__()
        self.crawl = Paced()
        self.active: set[Request] = set()
        self.crawl.downloader.active = self.active
        self.throttle = self.crawl.throttle
        self.throttle.on_turn = self.wake
        self.clock = self.crawl.clock
        self.clock.now = DAY
        self.site = self.crawl.note("a", 0.0)
        self.number = 0
        self.is_parked = False
        self.is_woken = False
        #: The requests that wait in the middleware: a coroutine, and the future that it awaits.
        self.waiting: dict[Request, tuple[Any, asyncio.Future[None]]] = {}
        #: The requests that have a turn, and those of them that have reached the downloader.
        self.begun: set[Request] = set()
        self.sent: set[Request] = set()

    def wake(self, _: Origin) -> None:
        self.is_woken = True

    def request(self) -> Request:
        self.number += 1
        request = Request(f"{self.site}/{self.number}")
        self.active.add(request)
        return request

    def go_on(self) -> None:
        """Let everything that was woken try again, in the order of a crawl."""
        for request, (coroutine, future) in list(self.waiting.items()):
            if future.done():
                self.step(request, coroutine)
        is_unparked = self.is_parked and self.is_woken
        self.is_woken = False
        if is_unparked:
            self.is_parked = False
            self.queue()

    def step(self, request: Request, coroutine: Any) -> None:
        """Run the coroutine of a request until it waits, or has a turn."""
        try:
            self.waiting[request] = coroutine, coroutine.send(None)
        except StopIteration:
            self.waiting.pop(request, None)
            self.begun.add(request)

    @rule()
    def queue(self) -> None:
        """Hand out a request, or park the site."""
        if self.is_parked:
            return
        self.is_parked = not self.throttle.due(self.site)
        if not self.is_parked:
            request = self.request()
            assert self.throttle.take(request, self.site)
            self.begun.add(request)

    @rule()
    def wait_in_middleware(self) -> None:
        request = self.request()
        self.step(request, self.throttle.wait_for_turn(request, self.site))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.waiting, key=str)))
        coroutine, future = self.waiting.pop(request)
        future.cancel()
        try:
            coroutine.throw(asyncio.CancelledError)
        except asyncio.CancelledError:
            self.active.discard(request)
        self.go_on()

    @precondition(lambda self: self.begun)
    @rule(data=st.data(), end=st.sampled_from(["reach", "answer", "release", "vanish"]))
    def request_goes_on(self, data: st.DataObject, end: str) -> None:
        request = data.draw(st.sampled_from(sorted(self.begun, key=str)))
        if end == "reach":
            signal = signals.request_reached_downloader
            self.crawl.crawler.signals.send_catch_log(signal, request=request)
            self.sent.add(request)
        else:
            self.end(request, end)

    def end(self, request: Request, end: str) -> None:
        if end == "answer":
            self.throttle.answered(request)
        elif end == "release":
            self.throttle.release(request)
        self.active.discard(request)  # so it may vanish without a signal
        self.begun.discard(request)
        self.sent.discard(request)
        self.go_on()

    @rule(delay=st.sampled_from([0, 1, 60]))
    def new_file(self, delay: int) -> None:
        self.clock.now += 0.01
        self.crawl.note("a", self.clock.now, delay)

    @rule(seconds=st.sampled_from([1, 40]))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.now += 1
            self.clock.run_timers()
            self.throttle.tick()
            self.go_on()

    def teardown(self) -> None:
        """Answer what was sent. All others are held, as by a middleware, and lose their turns."""
        held = self.begun - self.sent
        for _ in range(30):
            for request in sorted(self.begun - held, key=str):
                self.end(request, "answer")
            self.time_passes(2 * round(MAX_HELD))
        assert not self.is_parked
        assert not self.waiting


TestTurns = Turns.TestCase
TestTurns.settings = settings(
    max_examples=100, stateful_step_count=8, deadline=None,
    phases=(Phase.explicit, Phase.generate),
)  # fmt: skip
