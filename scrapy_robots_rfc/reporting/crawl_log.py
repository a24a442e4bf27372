"""Log what happens to robots.txt files and to the requests that need them.

For each kind of event, the first few sites get their own log lines. Events at other sites are
logged at DEBUG, and one line per LOGSTATS_INTERVAL says how many sites there were. So a broad crawl
doesn't flood the log. `summary.py` is the end of the log.
"""

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from scrapy import Spider, signals as scrapy_signals
from scrapy.crawler import Crawler
from scrapy.http import Headers
from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc._scrapy import slot_delay
from scrapy_robots_rfc.core.agents import ANY, USER_AGENT_KEY, parse_agent
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.text import join_items, pluralize
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware
from scrapy_robots_rfc.policy.access import Access, Local, Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.pacing import Bound
from scrapy_robots_rfc.reporting.summary import Sites, Summary
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

#: Number of sites that get their own log lines for each kind of event, or are named in a line that
#: counts sites.
NAMED = 3
#: Seconds between such lines if LOGSTATS_INTERVAL is 0.
DEFAULT_INTERVAL = 60.0
#: Seconds that requests may wait before the log says so.
MIN_WAIT = 5.0

# Maximum number of paced sites to check for the longest wait, so that a huge number of them doesn't
# block the event loop.
_MAX_PACED = 10_000

# Maximum number of origins to remember. If there are more, some may be logged twice, and some that
# are still being retried when the crawl ends may not be counted.
_MAX_ORIGINS = 100_000

# Maximum number of kinds of failures of the crawl itself to log.
_MAX_FAILURES = 10


class Kind(NamedTuple):
    """A kind of event.

    :param level: the log level.
    :param text: the format string for a single event.
    :param summed: a description of the event for lines that count sites.
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
    "%s is unreachable (%s), so nothing is allowed%s; the next attempt is in %s s",
    "robots.txt is unreachable, so nothing is allowed",
)
ROUTE_FAILED = Kind(
    logging.WARNING,
    "%s is unreachable (%s), so nothing is allowed through this proxy or account%s; the next"
    " attempt is in %s s",
    "robots.txt is unreachable through a proxy or account, so nothing is allowed through it",
)
STALE = Kind(
    logging.INFO,
    "%s is unreachable (%s), so an earlier copy is used%s; the next attempt is in %s s",
    "robots.txt is unreachable, so an earlier copy is used",
)
OPENED = Kind(
    logging.WARNING,
    "%s has been unreachable (%s) for longer than ROBOTS_UNREACHABLE_MAX_AGE, so"
    " everything is allowed%s; the next attempt is in %s s",
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
    "pages are disallowed",
)
LET_THROUGH = Kind(
    logging.INFO,
    "A page on %s is disallowed (%s), but is sent in this dry run; each such request is logged at"
    " DEBUG",
    "pages are disallowed, but sent in this dry run",
)
PACED = Kind(
    logging.INFO,
    "%s applies to %s, so its requests are spaced accordingly",
    "Crawl-delay or Request-rate applies",
)
PACED_ANYWAY = Kind(
    logging.INFO,
    "%s applies to %s, but your own delay of %s s between its requests is at least as long",
    "Crawl-delay or Request-rate applies, but your own delay is at least as long",
)
PACED_LESS = Kind(
    logging.INFO,
    "%s for %s exceeds ROBOTS_CRAWL_DELAY_MAX, so its requests are only %g s apart",
    "Crawl-delay or Request-rate exceeds ROBOTS_CRAWL_DELAY_MAX",
)

# The effect on an origin's pages if its file could not be fetched, by outcome.
_CONSEQUENCE = {
    Outcome.SUCCESSFUL: "an earlier copy is used",
    Outcome.UNREACHABLE: "nothing is allowed",
    Outcome.LOCAL: "nothing is allowed",
    Outcome.UNAVAILABLE: "everything is allowed",
}
# The event to log after the last attempt, by outcome.
_GIVEN_UP = {
    Outcome.SUCCESSFUL: STALE,
    Outcome.UNREACHABLE: GIVEN_UP,
    Outcome.UNAVAILABLE: OPENED,
}

# The reasons for which another line says that a site's pages are disallowed.
_LOGGED_REASONS = (Reason.UNREACHABLE, Reason.LOCAL, Reason.PARSER)


@dataclass(slots=True)
class _Events:
    """The logging state for a kind of event.

    :param first: sites with their own log lines, and True if one was logged since they were last
        counted.
    :param others: sites whose events were only logged at DEBUG since then.
    """

    first: dict[str, bool] = field(default_factory=dict)
    others: Sites = field(default_factory=lambda: Sites(NAMED))


class CrawlLog:
    """Logs what happens to each site's robots.txt, which requests are waiting, and a summary."""

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        self._crawler = crawler
        self._settings = settings
        self._runtime = Runtime()
        self._timer: Cancellable | None = None
        self._stats_interval = crawler.settings.getfloat("LOGSTATS_INTERVAL")
        self._interval = self._stats_interval or DEFAULT_INTERVAL
        self._tick_seconds = min(MIN_WAIT, self._interval)  # between two ticks
        self._middleware: RfcRobotsTxtMiddleware | None = None
        # Kind of repeated line -> the time of the last one, and the number of sites in it.
        self._repeated: dict[str, tuple[float, int]] = {}
        # With Scrapy's default level, the log has a line about each dropped request anyway.
        self._shows_debug = str(crawler.settings["LOG_LEVEL"]) in ("DEBUG", "10")
        self._events: defaultdict[Kind, _Events] = defaultdict(_Events)
        # Failures of the crawl itself by cause. The value is `None` once a failure has been logged.
        self._local: dict[str, Local | None] = {}
        # The cause of the failure of each origin that is being retried or whose route failed, if
        # the origin isn't counted as unreachable yet, and whether its pages wait for a retry.
        self._retried: LocalCache[Origin, tuple[str, bool]] = LocalCache(_MAX_ORIGINS)
        # Hashes of the (origin, kind of event) pairs that are only logged once.
        self._logged: LocalCache[int, None] = LocalCache(_MAX_ORIGINS)
        #: Collects what is logged when the spider closes.
        self.summary: Summary = Summary()
        for handler, signal in (
            (self._opened, scrapy_signals.spider_opened),
            (self.attempted, signals.robots_attempted),
            (self.disallowed, signals.request_disallowed),
            (self._paced, signals.site_paced),
            (self._closed, scrapy_signals.spider_closed),
        ):
            crawler.signals.connect(handler, signal)

    # Start and end of the crawl.

    def _opened(self, spider: Spider) -> None:
        self._repeated["events"] = self._runtime.clock(), 0
        # Start a little later than the first fetch, so that it has waited long enough at a tick.
        self._timer = self._runtime.call_later(self._tick_seconds / 10, self._tick)
        self._middleware = self._crawler.get_downloader_middleware(RfcRobotsTxtMiddleware)
        if self._middleware is not None:
            names = " or ".join(self._middleware.user_agents.default().tokens) or ANY
            self.summary.agent = f"{names} (from {self._source(spider)})"
            self._log("Obeying robots.txt as %s", self.summary.agent)

    def _tick(self) -> None:
        """Log from time to time how many sites had events, and which requests are waiting."""
        self._timer = self._runtime.call_later(self._tick_seconds, self._tick)
        now = self._runtime.clock()
        if self._is_due("events", now):
            self.count_sites()
        if self._stats_interval > 0 and self._middleware is not None:
            self._log_fetches(self._middleware, now)
            self._log_paced(self._middleware, now)

    def _closed(self, spider: Spider) -> None:
        if self._timer is not None:
            self._timer.cancel()
        undecided = stats.of(self._crawler).get_value(stats.UNDECIDED)
        if undecided:
            rest = "The queue is dropped, because JOBDIR is not set"
            if self._crawler.settings["JOBDIR"]:
                rest = (
                    "Requests in JOBDIR will be checked when the crawl resumes; others are dropped"
                )
            requests = pluralize(undecided, "request")
            self._log("When the spider closed, %s had not been sent yet. %s", requests, rest)
        key = stats.ORIGINS.format(outcome=Outcome.UNREACHABLE.value)
        for origin, (cause, is_retried) in self._retried.items():
            stats.of(self._crawler).inc_value(key)
            self.summary.concluded(origin, Outcome.UNREACHABLE, cause, is_final=not is_retried)
        self.count_sites()
        summary = self.summary.text(stats.of(self._crawler).get_stats(), spider.name)
        if summary is not None:
            logger.info(summary, extra=self._extra())

    # Events of sites.

    def attempted(
        self,
        policy: OriginPolicy,
        fetch: PendingFetch,
        access: Access | None,
        delays: Sequence[float],
    ) -> None:
        """Log the result of an attempt. After the last attempt, count the origin's outcome."""
        of_route = access is not None and access.spares_site
        is_unreachable = policy.validity.unreachable_since is not None
        if isinstance(access, Local):
            self._local_failure(policy, access)
        elif delays:
            self._retrying(policy, fetch, delays)
        elif is_unreachable:
            self._given_up(policy, fetch, access)
        elif fetch.attempts or _was_unreachable(fetch):
            self._note(RECOVERED, policy, policy.cause)
        if policy.outcome is Outcome.UNREACHABLE and (delays or of_route):
            if fetch.changes(policy.outcome):
                self._retried[policy.origin] = policy.cause, bool(delays)
        elif not delays and not of_route:
            self._concluded(policy, fetch)

    def disallowed(
        self, decision: Decision, why: str, policy: OriginPolicy | None, line: int | None
    ) -> None:
        """Count a disallowed request. Log an origin's first one, or a failure of the crawl itself.

        A middleware that drops a robots.txt request may also drop the page requests, so this kind
        of failure is only logged if it causes a page to be dropped.
        """
        if decision.origin is None or decision.reason is Reason.PAGE:
            return
        self.summary.disallowed(decision, decision.origin, why, line)
        if policy is None:
            return
        if decision.reason is Reason.LOCAL and (access := self._local.get(_start(policy.cause))):
            self._log_local_failure(policy, access)
        if decision.reason not in _LOGGED_REASONS and not self._shows_debug:
            kind = LET_THROUGH if self._settings.dry_run else DISALLOWED
            self._note_once(kind, policy, str(policy.origin), why)

    def _retrying(self, policy: OriginPolicy, fetch: PendingFetch, delays: Sequence[float]) -> None:
        """Log the first failed attempt. The origin's pages wait until it has been retried."""
        if fetch.attempts or _was_unreachable(fetch):
            return
        soonest = 1 + sum(delays)
        latest = soonest + len(delays) * self._settings.timeout
        max_age = self._settings.unreachable_max_age
        outcome = policy.outcome
        if outcome is Outcome.UNREACHABLE and max_age is not None and max_age <= soonest:
            outcome = Outcome.UNAVAILABLE
        times = (
            join_items([_seconds(delay) for delay in delays]),
            _seconds(soonest),
            _seconds(latest),
        )
        effect = _CONSEQUENCE[outcome] + self._in_dry_run(outcome)
        self._note(RETRYING, policy, policy.cause, *times, effect)

    def _given_up(self, policy: OriginPolicy, fetch: PendingFetch, access: Access | None) -> None:
        """Log the result after the last attempt has failed, unless the fetch changed nothing."""
        if _was_unreachable(fetch) and not fetch.changes(policy.outcome):
            return
        kind = _GIVEN_UP[policy.outcome]
        if access is not None and access.spares_site and kind is GIVEN_UP:
            kind = ROUTE_FAILED
        # Without an attempt, another crawl or worker has stored the failure.
        cause = policy.cause + ", according to the robots.txt store" * (access is None)
        seconds = _seconds(policy.validity.fresh_until - self._runtime.clock())
        self._note(kind, policy, cause, self._in_dry_run(policy.outcome), seconds)

    def _in_dry_run(self, outcome: Outcome) -> str:
        """Return the end of a sentence, which says so if pages are sent in a dry run."""
        is_sent = self._settings.dry_run and outcome in (Outcome.UNREACHABLE, Outcome.LOCAL)
        return ", but pages are sent in this dry run" * is_sent

    def _local_failure(self, policy: OriginPolicy, access: Local) -> None:
        """Log a failure of the crawl itself once per kind, now or when a page is dropped."""
        start = _start(access.cause)
        if start in self._local or len(self._local) >= _MAX_FAILURES:
            return
        self._local[start] = access
        if access.shortage or policy.outcome is not Outcome.LOCAL:
            self._log_local_failure(policy, access)

    def _log_local_failure(self, policy: OriginPolicy, access: Local) -> None:
        self._local[_start(access.cause)] = None
        effect = _CONSEQUENCE[policy.outcome] + " until this is fixed"
        effect += self._in_dry_run(policy.outcome)
        if access.shortage:
            effect = "its pages are waiting"
        logger.error(
            "%s could not be requested because the crawl itself failed (%s), so %s; %s",
            policy.origin.robots_url,
            access.cause,
            effect,
            access.advice,
            exc_info=access.error,
            extra=self._extra(),
        )

    def _concluded(self, policy: OriginPolicy, fetch: PendingFetch) -> None:
        """Count an origin's outcome, and log why its rules are missing or incomplete."""
        self._retried.pop(policy.origin, None)
        if fetch.changes(policy.outcome):
            self.summary.concluded(policy.origin, policy.outcome, policy.cause)
        before = fetch.validity_before
        if policy.stale and (before is None or not before.stale):
            self.summary.stale.add(str(policy.origin), policy.cause)
        file = policy.file
        max_size = self._settings.max_size
        url = policy.origin.robots_url
        # A 404 is expected, so only the other cause, a broken redirect, is logged.
        is_lost = policy.outcome is Outcome.UNAVAILABLE and policy.cause != str(policy.status)
        if is_lost and policy.validity.unreachable_since is None and policy.status is not None:
            self._note_once(UNAVAILABLE, policy, url, policy.cause)
        elif file is not None and file.size > max_size:
            self._note_once(TOO_LONG, policy, url, max_size)
        elif file is not None and file.robots is not None and file.robots.is_page:
            self._note_once(WEB_PAGE, policy, url)

    def _paced(self, policy: OriginPolicy, bound: Bound, interval: float) -> None:
        """Log the delay that a site requests; see `signals.py`."""
        origin = policy.origin
        asked = policy.cited(bound.text)
        # Scrapy uses one slot per host, unless a request names another one.
        delay = slot_delay(self._crawler, origin.host)
        if bound.seconds <= delay:
            self._note_site(PACED_ANYWAY, str(origin), asked, origin, _seconds(delay))
        elif bound.seconds <= interval:
            self._note_site(PACED, str(origin), asked, origin)
        else:
            self._note_site(PACED_LESS, str(origin), asked, origin, interval)

    def _note(self, kind: Kind, policy: OriginPolicy, *arguments: object) -> None:
        self._note_site(kind, str(policy.origin), policy.origin.robots_url, *arguments)

    def _note_once(self, kind: Kind, policy: OriginPolicy, *arguments: object) -> None:
        key = hash((policy.origin, kind.text))
        if key not in self._logged:
            self._logged[key] = None
            self._note_site(kind, str(policy.origin), *arguments)

    def _note_site(self, kind: Kind, site: str, *arguments: object) -> None:
        """Log an event at its own level, or at DEBUG if there have been enough such lines."""
        events = self._events[kind]
        level = logging.DEBUG
        if site not in events.first and len(events.first) >= NAMED:
            events.others.add(site)
        elif not events.first.get(site):
            events.first[site] = True
            level = kind.level
        logger.log(level, kind.text, *arguments, extra=self._extra())

    def count_sites(self) -> None:
        """Log how many sites had events that were only logged at DEBUG."""
        for kind, events in self._events.items():
            others = events.others
            events.others = Sites(NAMED)
            events.first = dict.fromkeys(events.first, False)
            if len(others):
                logger.log(
                    kind.level,
                    "%s: %s (%s); each is logged at DEBUG",
                    pluralize(len(others), "more site"),
                    kind.summed,
                    others,
                    extra=self._extra(),
                )

    # Waiting requests.

    def _log_fetches(self, middleware: RfcRobotsTxtMiddleware, now: float) -> None:
        """Log how many requests are waiting for a robots.txt, unless none has waited long."""
        fetches = middleware.service.pending.fetches.values()
        slow = [each for each in fetches if now - each.since >= MIN_WAIT]
        if not slow:  # usually, so don't look at all origins
            return
        waiting = Counter(dict(middleware.gate.waiting_for_file(_MAX_ORIGINS)))
        for fetch in fetches:
            waiting[fetch.origin] += len(fetch.waiters)
        waiting = +waiting  # without those that no request is waiting for
        awaited = (fetch for fetch in slow if fetch.origin in waiting)
        oldest = min(awaited, key=lambda fetch: fetch.since, default=None)
        if oldest is not None and self._is_due("robots.txt", now, len(waiting)):
            self._log(
                "%s waiting for the robots.txt of %s (longest: %s, %.0f s)",
                pluralize(waiting.total(), "request"),
                pluralize(len(waiting), "site"),
                oldest.origin,
                now - oldest.since,
            )

    def _log_paced(self, middleware: RfcRobotsTxtMiddleware, now: float) -> None:
        """Log how many requests are waiting for a turn, and until when. Ignore short waits."""
        # Count each site's requests in the middleware, and then those in the scheduler.
        sites = middleware.throttle.sites.values()
        waiting = Counter({site.origin: len(site.waiters) for site in sites if site.waiters})
        for origin, queued in islice(middleware.gate.waiting_for_turn(), _MAX_PACED):
            waiting[origin] += queued
        interval = middleware.throttle.interval
        # A site sends one request per interval, so its last one has to wait this long.
        seconds = {origin: count * interval(origin) for origin, count in waiting.items()}
        slowest = max(seconds, key=seconds.__getitem__, default=None)
        if (
            slowest is not None
            and seconds[slowest] >= MIN_WAIT
            and self._is_due("turn", now, len(waiting))
        ):
            self._log(
                "%s waiting because of Crawl-delay or Request-rate; the last will start by %s"
                " (slowest: %s, every %g s)",
                pluralize(waiting.total(), "request"),
                self._runtime.local_time_in(seconds[slowest]),
                slowest,
                interval(slowest),
            )

    def _is_due(self, kind: str, now: float, sites: int = 0) -> bool:
        """Return whether to log a repeated line, and remember it.

        That is the case once per interval, and earlier if the number of sites has doubled.
        """
        logged, logged_sites = self._repeated.get(kind, (-math.inf, 0))
        is_due = now - logged >= self._interval or 0 < 2 * logged_sites <= sites
        if is_due:
            self._repeated[kind] = now, sites
        return is_due

    def _log(self, text: str, *arguments: object) -> None:
        logger.info(text, *arguments, extra=self._extra())

    def _extra(self) -> dict[str, object]:
        return {"spider": self._crawler.spider}

    def _source(self, spider: Spider) -> str:
        """Return the setting or spider attribute that names the crawler."""
        headers = Headers(self._crawler.settings.getdict("DEFAULT_REQUEST_HEADERS"))
        values = {
            f"the spider's {USER_AGENT_KEY}": parse_agent(getattr(spider, USER_AGENT_KEY, None)),
            "ROBOTSTXT_USER_AGENT": self._settings.user_agent,
            "DEFAULT_REQUEST_HEADERS": headers.get(b"User-Agent"),
            "the spider's user_agent": getattr(spider, "user_agent", None),
        }
        return next((name for name, value in values.items() if value), "USER_AGENT")


def _start(cause: str) -> str:
    return cause.partition(":")[0]


def _was_unreachable(fetch: PendingFetch) -> bool:
    """Return True if the file was already unreachable before the fetch."""
    before = fetch.validity_before
    return before is not None and before.unreachable_since is not None


def _seconds(number: float) -> str:
    """Format seconds for a log line, rounding to whole seconds from 10 upwards."""
    return f"{number:.0f}" if number >= 10 else f"{round(number, 2):g}"
