"""A throttle without a crawl, on a clock that the test sets."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from scrapy import Request, Spider
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.reader import FileReader
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.throttle import Throttle
from scrapy_robots_rfc.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = 86_400.0
AGENT = Agent(("bot",), "bot")


class Clock(Runtime):
    """A clock that the test sets."""

    now = 0.0

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], object]]] = []
        self.running: list[tuple[float, Callable[[], object]]] = []

    def clock(self) -> float:
        return self.now

    def call_later(self, delay: float, function: Callable[[], object]) -> Any:
        self.timers.append((delay, function))
        timer = self.now + delay, function
        self.running.append(timer)
        return SimpleNamespace(cancel=lambda: self.cancel(timer))

    def cancel(self, timer: tuple[float, Callable[[], object]]) -> None:
        if timer in self.running:
            self.running.remove(timer)

    def run_timers(self) -> None:
        """Run the timers whose time has come."""
        for timer in [timer for timer in self.running if timer[0] <= self.now]:
            if timer in self.running:  # an earlier one may have cancelled it
                self.running.remove(timer)
                timer[1]()


class Paced:
    """The throttle of a crawl, on that clock."""

    def __init__(self) -> None:
        crawler = self.crawler = cast("Any", get_crawler(Spider))
        self.downloader = SimpleNamespace(slots={})
        slot = SimpleNamespace(closing=None)
        crawler.engine = SimpleNamespace(downloader=self.downloader, _slot=slot)
        self.clock = Clock()
        settings = read_settings(crawler.settings)
        self.files = FileReader(crawler, settings, lambda: AGENT)
        self.throttle = Throttle(crawler, settings, lambda page: Origin.of(page.url), self.clock)

    def note(self, name: str, fetched: float, delay: int = 1) -> Origin:
        """Let a site have a Crawl-delay."""
        origin = Origin("https", f"{name}.example", 443)
        file = self.files.parse(f"User-agent: *\nCrawl-delay: {delay}\n".encode(), origin)
        validity = Validity(Outcome.SUCCESSFUL, math.inf)
        policy = OriginPolicy(origin, validity, 200, "200", file, lambda: AGENT, fetched)
        self.throttle.note(policy, AGENT)
        return origin

    async def cancelled_wait(self, origin: Origin) -> None:
        """Cancel a request while it waits for its turn in the middleware."""
        waiting = deferred_from_coro(self.throttle.wait_for_turn(Request(f"{origin}/a"), origin))
        await Runtime().sleep(0)
        waiting.addErrback(lambda _: None)
        waiting.cancel()
        await Runtime().sleep(0)
