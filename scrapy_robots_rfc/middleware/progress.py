"""What a crawl says while it runs: an INFO line from time to time while requests wait.

The line says how many requests wait for a robots.txt, or for a Crawl-delay.
It is logged at most once every LOGSTATS_INTERVAL, as Scrapy's own line of crawled pages is, and never if that is 0.
Waits of less than five seconds are not mentioned.
"""

from __future__ import annotations

import logging
from typing import Any

from scrapy.crawler import Crawler

from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.core.text import many
from scrapy_robots_rfc.middleware.deferred import DeferredRequests
from scrapy_robots_rfc.scheduling.throttle import Throttle

logger: logging.Logger = logging.getLogger(__name__)

#: Seconds between two checks, and seconds from which on a wait is mentioned.
LONG = 5.0


class Progress:
    """Logs from time to time how many requests wait.

    :param deferred: has the requests that wait for a robots.txt.
    :param throttle: holds requests back.
    """

    def __init__(
        self,
        crawler: Crawler,
        deferred: DeferredRequests[Any],
        throttle: Throttle,
        runtime: Runtime,
    ) -> None:
        self._crawler, self._deferred, self._throttle, self._runtime = crawler, deferred, throttle, runtime
        self._interval = crawler.settings.getfloat("LOGSTATS_INTERVAL")
        self._not_before = 0.0
        self._timer: Cancellable | None = None

    def begin(self) -> None:
        """Check from time to time, until `close`."""
        if self._interval > 0:
            self._timer = self._runtime.call_later(min(LONG, self._interval), self._look)

    def close(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.begin()
        now = self._runtime.clock()
        text = self.text() if now >= self._not_before else ""
        if text:
            self._not_before = now + self._interval
            logger.info(text, extra={"spider": self._crawler.spider})

    def text(self) -> str:
        """Return the line; empty where nothing has waited for long."""
        parts = []
        waiting = self._deferred.waiting()
        first = min(waiting, key=lambda origin: waiting[origin][1], default=None)
        seconds = 0.0 if first is None else self._runtime.clock() - waiting[first][1]
        if seconds >= LONG:
            requests = sum(count for count, _ in waiting.values())
            wait = f"{many(requests, 'request')} {'waits' if requests == 1 else 'wait'}"
            longest = f"longest: {first}, {seconds:.0f} s"
            parts.append(f"{wait} for the robots.txt of {many(len(waiting), 'site')} ({longest})")
        sites = self._throttle.held()
        held, seconds = sum(site.requests for site in sites), max((site.last for site in sites), default=0.0)
        if seconds >= LONG:
            due = f"{'it' if held == 1 else 'the last of them'} is due at {self._runtime.at(seconds)}"
            parts.append(f"{many(held, 'request')} held back by Crawl-delay or Request-rate, {due}")
        return "; ".join(parts)
