"""Log events for each site without flooding the log in a broad crawl.

For each kind of event, the first few sites get their own log lines. Later events are logged at
DEBUG and summed up in one line at regular intervals.
"""

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

from scrapy.crawler import Crawler

from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.core.text import pluralize, shorten

logger: logging.Logger = logging.getLogger(__name__)

#: Number of sites that get their own log lines for each kind of event.
FULL = 3
#: Maximum number of sites named in a summary line.
NAMED = 3
#: Seconds between summary lines when LOGSTATS_INTERVAL is 0.
DEFAULT_INTERVAL = 60.0


class Kind(NamedTuple):
    """A kind of event.

    :param level: the log level.
    :param text: the format string for a single event.
    :param summed: a description of the event for summary lines.
    """

    level: int
    text: str
    summed: str


RETRYING = Kind(
    logging.INFO,
    "%s is unreachable (%s) and will be retried after %s s while its pages wait. If every attempt"
    " fails, the crawl gives up after about %s s (%s s at most), and %s",
    "robots.txt is unreachable and will be retried",
)
GIVEN_UP = Kind(
    logging.WARNING,
    "%s is unreachable (%s), so nothing is allowed; the next attempt is in %s s",
    "robots.txt is unreachable, so nothing is allowed",
)
ROUTE_FAILED = Kind(
    logging.WARNING,
    "%s is unreachable (%s), so nothing is allowed through this proxy or account; the next"
    " attempt is in %s s",
    "robots.txt is unreachable through a proxy or account, so nothing is allowed through it",
)
STALE = Kind(
    logging.INFO,
    "%s is unreachable (%s), so an earlier copy is used; the next attempt is in %s s",
    "robots.txt is unreachable, so an earlier copy is used",
)
OPENED = Kind(
    logging.WARNING,
    "%s has been unreachable (%s) for longer than ROBOTS_UNREACHABLE_MAX_AGE, so"
    " everything is allowed; the next attempt is in %s s",
    "robots.txt has been unreachable for longer than ROBOTS_UNREACHABLE_MAX_AGE, so everything is"
    " allowed",
)
RECOVERED = Kind(
    logging.INFO,
    "%s is reachable again (%s)",
    "robots.txt is reachable again",
)
UNAVAILABLE = Kind(
    logging.INFO,
    "%s is unavailable (%s), so everything is allowed",
    "robots.txt is unavailable because of its redirects, so everything is allowed",
)
TOO_LONG = Kind(
    logging.INFO,
    "%s is longer than ROBOTS_MAX_SIZE, so only its first %d bytes are read",
    "robots.txt is longer than ROBOTS_MAX_SIZE",
)
WEB_PAGE = Kind(
    logging.INFO,
    "%s is a web page instead of a robots.txt file, so everything is allowed",
    "robots.txt is a web page, so everything is allowed",
)
DISALLOWED = Kind(
    logging.INFO,
    "A page on %s is disallowed (%s); each dropped request is logged at DEBUG",
    "a site disallows pages",
)
PACED = Kind(
    logging.INFO,
    "%s applies to %s, so its requests are spaced accordingly",
    "a site requests a delay between requests",
)
PACED_LESS = Kind(
    logging.INFO,
    "%s for %s exceeds ROBOTS_CRAWL_DELAY_MAX, so its requests are only %g s apart",
    "a site requests a longer delay than ROBOTS_CRAWL_DELAY_MAX",
)
CRAWL_FAILED = Kind(
    logging.ERROR,
    "%s could not be requested because the crawl itself failed (%s), so %s until this is fixed; %s",
    "robots.txt could not be requested because the crawl itself failed",
)
SHORTAGE = Kind(
    logging.ERROR,
    "%s cannot be requested now (%s), so its pages are waiting; %s",
    "robots.txt cannot be requested now because the machine is low on resources",
)


@dataclass(slots=True)
class _Events:
    """The logging state for a kind of event.

    :param first: sites with their own log lines, and True if one was logged since the last summary.
    :param named: sites to name in the next summary.
    :param count: number of events logged only at DEBUG since the last summary.
    """

    first: dict[str, bool] = field(default_factory=dict)
    named: dict[str, None] = field(default_factory=dict)
    count: int = 0


class SiteLog:
    """Logs events for each site during a crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._interval = crawler.settings.getfloat("LOGSTATS_INTERVAL") or DEFAULT_INTERVAL
        self._runtime = Runtime()
        self._timer: Cancellable | None = None
        self._events: dict[Kind, _Events] = {}

    def note(
        self, kind: Kind, site: str, *arguments: object, error: Exception | None = None
    ) -> None:
        """Log an event at its own level, or at DEBUG and count it for the next summary.

        :param error: an exception to log with its traceback.
        """
        events = self._events.setdefault(kind, _Events())
        level = kind.level
        has_line = site in events.first or len(events.first) < FULL
        if has_line and not events.first.get(site):
            events.first[site] = True
        else:
            level = logging.DEBUG
            events.count += 1
            if len(events.named) < NAMED:
                events.named[site] = None
        if self._timer is None:
            self._timer = self._runtime.call_later(self._interval, self._sum_up)
        logger.log(level, kind.text, *arguments, exc_info=error, extra=self._extra())

    def close(self) -> None:
        """Log a final summary."""
        if self._timer is not None:
            self._timer.cancel()
            self._sum_up()

    def _sum_up(self) -> None:
        self._timer = None
        for kind, events in self._events.items():
            events.first = dict.fromkeys(events.first, False)
            if not events.count:
                continue
            names = ", ".join(map(shorten, events.named))
            if events.count > len(events.named):
                names += ", ..."
            more = pluralize(events.count, "more time")
            logger.log(
                kind.level,
                "%s: %s (%s); each is logged at DEBUG",
                more,
                kind.summed,
                names,
                extra=self._extra(),
            )
            events.count = 0
            events.named.clear()

    def _extra(self) -> dict[str, object]:
        return {"spider": self._crawler.spider}
