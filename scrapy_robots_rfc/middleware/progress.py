"""INFO lines about requests that wait: from time to time during a crawl, and at its end.

During a crawl they come at most once every LOGSTATS_INTERVAL, as Scrapy's own line of crawled pages
does, and never if that is 0. Waits of less than five seconds are not mentioned.
"""

import logging
from collections import Counter
from itertools import islice

from scrapy.crawler import Crawler

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.text import many
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
    """Logs how many requests wait, for what, and until when.

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
        #: For each request that waits in place, its fetch.
        self.in_place: list[PendingFetch] = []

    def close(self) -> None:
        """Count and log what waits still."""
        self._gate.note_closing()
        waiting = self._gate.left
        if not waiting:
            return
        stats.of(self._crawler).inc_value(stats.UNDECIDED, waiting)
        becomes = "dropped, as all that is queued"
        if self._crawler.settings["JOBDIR"]:
            becomes = (
                "in JOBDIR, and decided when the crawl is resumed; what cannot be written there is"
                " dropped"
            )
        text = "%s waited for a robots.txt or a turn when the spider closed: %s"
        self._log(text, many(waiting, "request"), becomes)

    def _log(self, text: str, *arguments: object) -> None:
        logger.info(text, *arguments, extra={"spider": self._crawler.spider})

    def look(self) -> None:
        """Log what waits, if it is time to; to be called more often than that."""
        now = self._runtime.clock()
        if self._interval <= 0 or now < self._not_before:
            return
        self._not_before = now + min(LONG, self._interval)
        logged = [self._log_awaited(now), self._log_paced()]
        if any(logged):
            self._not_before = now + self._interval

    def _log_awaited(self, now: float) -> bool:
        """Log how many requests wait for a robots.txt, unless none has waited for long."""
        waiting = Counter(self.in_place)
        for requests, fetch in self._gate.awaited():
            waiting[fetch] += requests
        first = min(waiting, key=lambda fetch: fetch.since, default=None)
        if first is None or now - first.since < LONG:
            return False
        self._log(
            "%s waiting for the robots.txt of %s (longest: %s, %.0f s)",
            many(waiting.total(), "request"),
            many(len({fetch.origin for fetch in waiting}), "site"),
            first.origin,
            now - first.since,
        )
        return True

    def _log_paced(self) -> bool:
        """Log how many requests wait for a turn, and until when, unless none waits for long."""
        waiting = Counter(self._throttle.in_place.values())
        for origin, queued in islice(self._gate.paced(), _MOST_SITES):
            waiting[origin] += queued.size
        last = {site: count * self._throttle.interval(site) for site, count in waiting.items()}
        slowest = max(last, key=last.__getitem__, default=None)
        if slowest is None or last[slowest] < LONG:
            return False
        self._log(
            "%s waiting for a turn (Crawl-delay, Request-rate), the last one until %s at the latest"
            " (longest: %s, every %g s)",
            many(waiting.total(), "request"),
            self._runtime.at(last[slowest]),
            slowest,
            self._throttle.interval(slowest),
        )
        return True
