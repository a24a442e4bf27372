"""What a crawl says while it runs: an INFO line from time to time while requests wait, and what waited to the end.

The line is logged at most once every LOGSTATS_INTERVAL, as Scrapy's own line of crawled pages is,
and never if that is
0. Waits of less than five seconds are not mentioned.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.core.text import many

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc._runtime import Cancellable, Runtime
    from scrapy_robots_rfc.fetching.pending import PendingFetch
    from scrapy_robots_rfc.scheduling.gate import Gate
    from scrapy_robots_rfc.scheduling.throttle import Throttle

logger: logging.Logger = logging.getLogger(__name__)

#: Seconds between two looks, and seconds from which on a wait is mentioned.
LONG = 5.0

# Paced sites that are looked at for the longest wait, so that the event loop is not stopped by very
# many.
_MOST_SITES = 10_000


class Progress:
    """Logs from time to time how many requests wait, for what, and until when.

    :param gate: has the requests that wait in the scheduler.
    :param throttle: says when turns come.
    """

    def __init__(self, crawler: Crawler, gate: Gate, throttle: Throttle, runtime: Runtime) -> None:
        self._crawler = crawler
        self._gate = gate
        self._throttle = throttle
        self._runtime = runtime
        self._interval = crawler.settings.getfloat("LOGSTATS_INTERVAL")
        self._not_before = 0.0
        self._timer: Cancellable | None = None
        #: How many requests wait in place for each fetch.
        self.in_place: dict[PendingFetch, int] = {}

    def begin(self) -> None:
        """Look from time to time, until `close`."""
        if self._interval > 0:
            self._timer = self._runtime.call_later(min(LONG, self._interval), self._look)

    def close(self) -> None:
        """Stop, and count and log what waits still."""
        if self._timer is not None:
            self._timer.cancel()
        awaited, paced = self._gate.left()
        then = self._becomes()
        if awaited:
            self._count(stats.UNDECIDED, awaited)
            text = "%s waited for a robots.txt when the spider closed: %s"
            self._log(text, many(awaited, "request"), then)
        if paced:
            self._count(stats.UNDECIDED, paced)
            text = "%s waited for the turn of their site when the spider closed: %s"
            self._log(text, many(paced, "request"), then)

    def _becomes(self) -> str:
        """Say what becomes of the requests that wait when the spider closes."""
        if not self._crawler.settings["JOBDIR"]:
            return "dropped, as all that is queued"
        then = "in JOBDIR, and decided when the crawl is resumed"
        assert self._crawler.stats is not None
        if self._crawler.stats.get_value("scheduler/unserializable"):
            then += "; what cannot be written there is dropped"
        return then

    def _count(self, key: str, number: int) -> None:
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value(key, number)

    def _log(self, text: str, *arguments: object) -> None:
        logger.info(text, *arguments, extra={"spider": self._crawler.spider})

    def _look(self) -> None:
        self.begin()
        now = self._runtime.clock()
        if now < self._not_before:
            return
        awaited, paced = self._awaited_line(now), self._paced_line()
        if awaited or paced:
            self._not_before = now + self._interval
            self._log("%s", "; ".join(filter(None, (awaited, paced))))

    def _awaited_line(self, now: float) -> str:
        """Say how many requests wait for a robots.txt; empty where none has waited for long."""
        waiting: dict[str, int] = {}
        since = now
        longest = ""
        for queued, began in self._gate.awaited():
            waiting[queued.name] = queued.size
            if began < since:
                since, longest = began, queued.name
        for fetch, count in self.in_place.items():
            name = str(fetch.origin)
            waiting[name] = waiting.get(name, 0) + count
            if fetch.since < since:
                since, longest = fetch.since, name
        if now - since < LONG:
            return ""
        requests = sum(waiting.values())
        wait = "waits" if requests == 1 else "wait"
        sites = many(len(waiting), "site")
        long = f"longest: {longest}, {now - since:.0f} s"
        return f"{many(requests, 'request')} {wait} for the robots.txt of {sites} ({long})"

    def _paced_line(self) -> str:
        """Say how many requests wait for a turn, and until when.

        Empty where none waits for long.
        """
        requests = 0
        seconds = 0.0
        slowest = ""
        for queued in islice(self._gate.paced(), _MOST_SITES):
            requests += queued.size
            last = self._throttle.next_turn(queued.name) + (
                queued.size - 1
            ) * self._throttle.interval(queued.name)
            if last > seconds:
                seconds, slowest = last, queued.name
        for name in self._throttle.in_place.values():
            requests += 1
            seconds = max(seconds, self._throttle.next_turn(name))
        if seconds < LONG:
            return ""
        at = self._runtime.at(seconds)
        due = (
            f"it is due at {at}"
            if requests == 1
            else f"the last of them is due at {at} at the latest"
        )
        longest = (
            f" (longest: {slowest}, every {self._throttle.interval(slowest):g} s)"
            if slowest
            else ""
        )
        return (
            f"{many(requests, 'request')} held back by Crawl-delay or Request-rate, {due}{longest}"
        )
