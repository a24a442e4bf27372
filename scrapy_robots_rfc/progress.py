"""One INFO line while requests wait: for a robots.txt, or for the pace that a site asks for.

It comes at most once every LOGSTATS_INTERVAL, as Scrapy's own line of crawled pages does, and not at all where that
is 0. What has not waited for five seconds is not worth a line.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc.core.text import many

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc._compat import Cancellable, Runtime
    from scrapy_robots_rfc.pacing import Pacing
    from scrapy_robots_rfc.waiting import WaitingRoom

logger = logging.getLogger(__name__)

#: Seconds between two looks, and seconds from which on a wait is told.
LONG = 5.0


class Progress:
    """Tells, from time to time, what waits.

    :param room: has the requests that wait for a robots.txt.
    :param pacing: holds requests back; ``None``: no pace is kept.
    """

    def __init__(self, crawler: Crawler, room: WaitingRoom[Any], pacing: Pacing | None, runtime: Runtime) -> None:
        self._crawler, self._room, self._pacing, self._runtime = crawler, room, pacing, runtime
        self._interval = crawler.settings.getfloat("LOGSTATS_INTERVAL")
        self._not_before = 0.0
        self._timer: Cancellable | None = None

    def begin(self) -> None:
        """Look from time to time, until `close`."""
        if self._interval > 0:
            self._timer = self._runtime.call_later(min(LONG, self._interval), self._look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.begin()
        now = self._runtime.clock()
        if now < self._not_before:
            return
        text = self.text()
        if text:
            self._not_before = now + self._interval
            logger.info(text, extra={"spider": self._crawler.spider})

    def text(self) -> str:
        """Return the line; empty where nothing has waited for long."""
        return "; ".join(filter(None, [self._for_files(), self._for_turns()]))

    def _for_files(self) -> str:
        waits = self._room.waits()
        if waits is None or waits.seconds < LONG:
            return ""
        wait = "waits" if waits.requests == 1 else "wait"
        return (
            f"{many(waits.requests, 'request')} {wait} for the robots.txt of {many(waits.keys, 'site')} (longest: "
            f"{waits.longest}, {waits.seconds:.0f} s)"
        )

    def _for_turns(self) -> str:
        requests, seconds = (0, 0.0) if self._pacing is None else self._pacing.held()
        if not requests or seconds < LONG:
            return ""
        last = "it is due at" if requests == 1 else "the last of them is due at"
        return (
            f"{many(requests, 'request')} held back by Crawl-delay or Request-rate, {last} {self._runtime.at(seconds)}"
        )
