"""The throttle, on a clock that the test sets: which sites it forgets, and how turns end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scrapy import Request, signals

from scrapy_robots_rfc.scheduling.paced_site import Turns
from scrapy_robots_rfc.scheduling.throttle import MAX_HELD
from tests.support.paced import DAY, Paced
from tests.support.running import under_the_reactor

if TYPE_CHECKING:
    from scrapy_robots_rfc.policy.origins import Origin


def test_a_site_is_forgotten_unless_it_was_used_lately() -> None:
    """Beyond 1,000 paced sites, those without a request for a day are forgotten, unless one has the
    turn.
    """
    crawl = Paced()
    for number in range(999):
        crawl.note(f"done{number}", 0.0)
    crawl.clock.now = DAY
    used = []
    for name, fetched in (("old", 0.0), ("local", -math.inf)):
        used.append(crawl.note(name, fetched))
        assert crawl.throttle.take(Request(f"{used[-1]}/"), used[-1])
    used += [crawl.note(f"new{number}", crawl.clock.now) for number in range(999)]
    assert list(crawl.throttle.sites) == used


class Asking(Turns):
    """Turns for which a store is asked."""

    def wait(self, interval: float, now: float) -> float | None:
        return None


def test_a_site_that_waits_for_a_shared_turn_is_remembered() -> None:
    """A site is not forgotten while a store is asked for its turn."""
    crawl = Paced()
    origin = crawl.note("a", 0.0)
    crawl.throttle.sites[origin].turns = Asking()
    crawl.clock.now = DAY
    assert not crawl.throttle.due(origin)
    for number in range(1000):
        crawl.note(f"new{number}", DAY)
    assert origin in crawl.throttle.sites


def test_an_answer_wakes_those_that_wait_for_it() -> None:
    """An answer wakes the requests that wait for it, also if the site is not paced any more."""
    crawl = Paced()
    woken: list[Origin] = []
    crawl.throttle.on_turn = woken.append
    origin = crawl.note("a", 0.0)
    crawl.clock.now = DAY
    slow = Request(f"{origin}/slow")
    assert crawl.throttle.take(slow, origin)
    assert not crawl.throttle.due(origin)
    crawl.note("a", crawl.clock.now, delay=0)
    assert crawl.throttle.take(Request(f"{origin}/other"), origin)
    crawl.throttle.answered(slow)
    assert woken == [origin]


def test_a_site_that_waits_long_is_asked_again() -> None:
    """A site is asked again after five seconds, because its interval may have become shorter."""
    crawl = Paced()
    woken: list[Origin] = []
    crawl.throttle.on_turn = woken.append
    origin = crawl.note("a", 0.0, delay=60)
    assert not crawl.throttle.due(origin)
    [(delay, wake)] = crawl.clock.timers
    assert delay == 5
    wake()
    assert woken == [origin]
    assert not crawl.throttle.due(origin)
    assert [delay for delay, _ in crawl.clock.timers] == [5, 5]


def test_an_older_file_changes_no_interval() -> None:
    """A request that is judged by an older file does not bring back its interval."""
    crawl = Paced()
    for fetched, delay in ((0.0, 60), (1.0, 0), (0.0, 60)):
        origin = crawl.note("a", fetched, delay)
    assert crawl.throttle.interval(origin) == 0


def test_request_that_is_sent_again_and_held() -> None:
    """A middleware that holds a request loses its turn, even if the same object was sent before."""
    crawl = Paced()
    origin = crawl.note("a", 0.0)
    page = Request(f"{origin}/")
    crawl.clock.now = DAY
    assert crawl.throttle.take(page, origin)
    crawl.crawler.signals.send_catch_log(signals.request_reached_downloader, request=page)
    crawl.throttle.answered(page)
    crawl.clock.now += DAY
    assert crawl.throttle.take(page, origin)
    assert not crawl.throttle.due(origin)
    crawl.clock.now += MAX_HELD
    crawl.throttle.tick()
    assert crawl.throttle.due(origin)


@under_the_reactor
async def test_cancelled_wait_is_not_counted() -> None:
    """A request that was cancelled while it waited for its turn does not count as a delay."""
    crawl = Paced()
    origin = crawl.note("a", 0.0, delay=60)
    await crawl.cancelled_wait(origin)
    crawl.clock.now = DAY
    assert crawl.throttle.take(Request(f"{origin}/b"), origin)
    assert crawl.crawler.stats.get_value("robotstxt/crawl_delay/added_seconds") is None


@under_the_reactor
async def test_cancelled_wait_for_a_held_turn() -> None:
    """If a request that waits for a turn is cancelled, a middleware still loses that turn."""
    crawl = Paced()
    origin = crawl.note("a", 0.0)
    crawl.throttle.on_turn = crawl.throttle.due  # as the queue does
    crawl.clock.now = DAY
    assert crawl.throttle.take(Request(f"{origin}/held"), origin)
    assert not crawl.throttle.due(origin)
    await crawl.cancelled_wait(origin)
    crawl.clock.now += MAX_HELD
    crawl.throttle.tick()
    assert crawl.throttle.due(origin)
