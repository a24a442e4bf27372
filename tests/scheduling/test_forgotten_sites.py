"""Which paced sites a broad crawl forgets, on a clock that the test sets."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.reader import FileReader
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.throttle import Throttle
from scrapy_robots_rfc.settings import read_settings

DAY = 86_400.0
AGENT = Agent(("bot",), "bot")


class Clock(Runtime):
    """A clock that the test sets."""

    now = 0.0

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def call_later(self, delay: float, function: object) -> Any:
        """Do nothing."""


def test_a_site_is_forgotten_unless_it_was_used_lately() -> None:
    """Beyond 1,000 paced sites, those without a request for a day are forgotten, unless one has the
    turn.
    """
    crawler: Any = get_crawler(Spider)
    crawler.engine = SimpleNamespace(downloader=SimpleNamespace(slots={}), _slot=None)
    clock = Clock()
    settings = read_settings(crawler.settings)
    files = FileReader(crawler, settings, lambda: AGENT)
    file = files.parse(b"User-agent: *\nCrawl-delay: 1\n", Origin("http", "a.example", 80))
    throttle = Throttle(crawler, settings, lambda url: Origin.of(url.geturl()), clock)

    def note(name: str, fetched: float) -> Origin:
        origin = Origin("https", f"{name}.example", 443)
        known = OriginPolicy(
            origin, Validity(Outcome.SUCCESSFUL, math.inf), 200, "200", file, lambda: AGENT, fetched
        )
        throttle.note(known, AGENT)
        return origin

    for number in range(999):
        note(f"done{number}", 0.0)
    clock.now = DAY
    used = []
    for name, fetched in (("old", 0.0), ("local", -math.inf)):
        used.append(note(name, fetched))
        assert throttle.take(Request(f"{used[-1]}/"), used[-1])
    used += [note(f"new{number}", clock.now) for number in range(999)]
    assert list(throttle.sites) == used


def test_an_answer_wakes_those_that_wait_for_it() -> None:
    """An answer wakes the requests that wait for it, also if the site is not paced any more."""
    crawler: Any = get_crawler(Spider)
    crawler.engine = SimpleNamespace(downloader=SimpleNamespace(slots={}), _slot=None)
    clock = Clock()
    settings = read_settings(crawler.settings)
    files = FileReader(crawler, settings, lambda: AGENT)
    origin = Origin("https", "a.example", 443)
    throttle = Throttle(crawler, settings, lambda url: Origin.of(url.geturl()), clock)
    woken: list[Origin] = []
    throttle.on_turn = woken.append

    def note(body: bytes, fetched: float) -> None:
        validity = Validity(Outcome.SUCCESSFUL, math.inf)
        file = files.parse(body, origin)
        known = OriginPolicy(origin, validity, 200, "200", file, lambda: AGENT, fetched)
        throttle.note(known, AGENT)

    note(b"User-agent: *\nCrawl-delay: 1\n", 0.0)
    clock.now = DAY
    slow = Request("https://a.example/slow")
    assert throttle.take(slow, origin)
    assert throttle.due(origin) is None
    note(b"User-agent: *\n", clock.now)
    assert throttle.take(Request("https://a.example/other"), origin)
    throttle.answered(slow)
    assert woken == [origin]
