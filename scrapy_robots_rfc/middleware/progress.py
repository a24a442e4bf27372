"""Log which requests are waiting, periodically during a crawl and once at its end.

During a crawl, they are logged at most once every LOGSTATS_INTERVAL, like Scrapy's own log stats,
and not at all if that setting is 0. Waits of less than five seconds are ignored.
"""

import logging
from collections import Counter
from itertools import islice

from scrapy import Request
from scrapy.crawler import Crawler

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.text import pluralize
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.gate import Gate
from scrapy_robots_rfc.scheduling.throttle import Throttle

logger: logging.Logger = logging.getLogger(__name__)

#: Seconds between checks. Shorter waits aren't logged.
MIN_WAIT = 5.0

# Maximum number of paced sites to check for the longest wait, so that a huge number of them doesn't
# block the event loop.
_MAX_SITES = 10_000


class Progress:
    """Logs how many requests are waiting, why, and for how long.

    :param gate: provides the requests that are waiting in the scheduler.
    :param throttle: provides the times when turns come.
    """

    def __init__(self, crawler: Crawler, gate: Gate, throttle: Throttle, runtime: Runtime) -> None:
        self._crawler = crawler
        self._gate = gate
        self._throttle = throttle
        self._runtime = runtime
        self._interval = crawler.settings.getfloat("LOGSTATS_INTERVAL")
        self._next_check = 0.0  # when `log_waiting` should look again
        #: The origins of requests that are waiting in the middleware for their robots.txt.
        self.waiting: dict[Request, Origin] = {}

    def close(self) -> None:
        """Count and log the requests that are still waiting."""
        self._gate.count_waiting()  # sets `waiting_at_close`, unless it is already set
        waiting = self._gate.waiting_at_close
        if not waiting:
            return
        stats.of(self._crawler).inc_value(stats.UNDECIDED, waiting)
        if self._crawler.settings["JOBDIR"]:
            text = (
                "When the spider closed, %s had not been sent yet. Those in JOBDIR will be checked"
                " when the crawl resumes, and the others are dropped"
            )
        else:
            text = (
                "When the spider closed, %s had not been sent yet, so they are dropped like the"
                " rest of the queue"
            )
        self._log(text, pluralize(waiting, "request"))

    def _log(self, text: str, *arguments: object) -> None:
        logger.info(text, *arguments, extra={"spider": self._crawler.spider})

    def log_waiting(self) -> None:
        """Log which requests are waiting, if it is time to do so."""
        now = self._runtime.clock()
        if self._interval <= 0 or now < self._next_check:
            return
        # If there is nothing to log now, check again soon.
        self._next_check = now + min(MIN_WAIT, self._interval)
        has_logged_fetches = self._log_fetches(now)
        has_logged_paced = self._log_paced()
        if has_logged_fetches or has_logged_paced:
            self._next_check = now + self._interval

    def _log_fetches(self, now: float) -> bool:
        """Log how many requests are waiting for a robots.txt, unless none has waited long.

        :returns: True if a line was logged.
        """
        # Count each site's requests in the middleware, and then those in the scheduler.
        waiting = Counter(self.waiting.values())
        for origin, queued in self._gate.fetching():
            waiting[origin] += queued
        fetches = filter(None, map(self._gate.fetch_of, waiting))
        oldest = min(fetches, key=lambda fetch: fetch.since, default=None)
        if oldest is None or now - oldest.since < MIN_WAIT:
            return False
        self._log(
            "%s waiting for the robots.txt of %s (longest: %s, %.0f s)",
            pluralize(waiting.total(), "request"),
            pluralize(len(waiting), "site"),
            oldest.origin,
            now - oldest.since,
        )
        return True

    def _log_paced(self) -> bool:
        """Log how many requests are waiting for a turn, and until when. Ignore short waits.

        :returns: True if a line was logged.
        """
        # Count each site's requests in the middleware, and then those in the scheduler.
        waiting = Counter(self._throttle.waiting.values())
        for origin, queued in islice(self._gate.paced(), _MAX_SITES):
            waiting[origin] += queued
        interval = self._throttle.sites.interval
        # A site sends one request per interval, so its last one has to wait this long.
        seconds = {origin: count * interval(origin) for origin, count in waiting.items()}
        slowest = max(seconds, key=seconds.__getitem__, default=None)
        if slowest is None or seconds[slowest] < MIN_WAIT:
            return False
        self._log(
            "%s waiting for their Crawl-delay or Request-rate; the last will start by %s"
            " (slowest: %s, every %g s)",
            pluralize(waiting.total(), "request"),
            self._runtime.local_time_in(seconds[slowest]),
            slowest,
            interval(slowest),
        )
        return True
