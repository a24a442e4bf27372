"""Log which robots.txt files are unreachable, and count them for the closing summary."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from scrapy.crawler import Crawler
from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.text import join_items
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.fetching.routes import is_route_failure
from scrapy_robots_rfc.policy.access import Access, Local, Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.pacing import Bound
from scrapy_robots_rfc.reporting import site_log
from scrapy_robots_rfc.reporting.site_log import Kind, SiteLog
from scrapy_robots_rfc.settings import Settings

#: Maximum number of sites named in the summary.
NAMED = 10

# Maximum number of causes to count separately. Sites can produce any number of them.
_MAX_CAUSES = 100

# Maximum number of origins to remember. If there are more, some may be logged twice, and some that
# are still being retried when the crawl ends may not be counted.
_MAX_ORIGINS = 100_000

#: The effect on an origin's pages if its file could not be fetched, by outcome.
_CONSEQUENCE = {
    Outcome.SUCCESSFUL: "an earlier copy is used",
    Outcome.UNREACHABLE: "nothing is allowed",
    Outcome.LOCAL: "nothing is allowed",
    Outcome.UNAVAILABLE: "everything is allowed",
}
#: The event to log after the last attempt, by outcome.
_GIVEN_UP = {
    Outcome.SUCCESSFUL: site_log.STALE,
    Outcome.UNREACHABLE: site_log.GIVEN_UP,
    Outcome.UNAVAILABLE: site_log.OPENED,
}


@dataclass(eq=False, repr=False)
class Names:
    """The first few names, each with its latest text, and a count of the rest.

    :param named: the latest text for each name.
    :param more: the number of times any other name was added.
    """

    named: dict[str, str] = field(default_factory=dict)
    more: int = 0

    def add(self, name: str, text: str) -> None:
        """Store the text for a name, or just count the name if there are already too many."""
        if name in self.named or len(self.named) < NAMED:
            self.named[name] = text
        else:
            self.more += 1


class OriginLog:
    """Logs what happens to each origin's robots.txt during a crawl."""

    def __init__(self, crawler: Crawler, settings: Settings, sites: SiteLog) -> None:
        self._crawler = crawler
        self._settings = settings
        self._sites = sites
        self._runtime = Runtime()
        #: Number of origins for each outcome and cause.
        self.causes: defaultdict[Outcome, Counter[str]] = defaultdict(Counter)
        #: Origins whose pages were disallowed because robots.txt was unreachable.
        self.unreachable: Names = Names()
        #: Origins for which an earlier copy was used.
        self.stale: Names = Names()
        # Failures of the crawl itself, by the start of their causes, which is usually the name of
        # an exception class. The value is `None` once a failure has been logged.
        self._local: dict[str, Local | None] = {}
        # The cause for each origin that is being retried or whose route failed, if the origin
        # isn't counted as unreachable yet.
        self._waiting: LocalCache[Origin, str] = LocalCache(_MAX_ORIGINS)
        # Hashes of the (origin, kind of event) pairs that have been logged.
        self._logged: LocalCache[int, None] = LocalCache(_MAX_ORIGINS)
        crawler.signals.connect(self.attempted, signals.robots_attempted)
        crawler.signals.connect(self._paced, signals.site_paced)

    def attempted(
        self,
        robots: OriginPolicy,
        fetch: PendingFetch,
        access: Access | None,
        delays: Sequence[float],
    ) -> None:
        """Log the result of an attempt. After the last attempt, count the origin's outcome."""
        of_route = is_route_failure(access)
        is_unreachable = robots.validity.unreachable_since is not None
        if isinstance(access, Local):
            self._local_failure(robots, access)
        elif delays:
            self._retrying(robots, fetch, delays)
        elif is_unreachable:
            self._given_up(robots, fetch, of_route=of_route)
        elif fetch.attempts or _was_unreachable(fetch):
            self._note(site_log.RECOVERED, robots, robots.cause)
        if robots.outcome is Outcome.UNREACHABLE and (delays or of_route):
            if fetch.changes(robots.outcome):
                self._waiting[robots.origin] = robots.cause
        elif not delays and not of_route:
            self._concluded(robots, fetch)

    def disallowed(self, decision: Decision, why: str, robots: OriginPolicy) -> None:
        """Log an origin's first disallowed page, or a failure of the crawl itself.

        A middleware that drops a robots.txt request may also drop the page requests, so this kind
        of failure is only logged if it causes a page to be dropped.
        """
        if decision.reason is Reason.LOCAL and (access := self._local.get(_start(robots.cause))):
            self._log_local_failure(robots, access)
        # An unreachable robots.txt has already been logged.
        if decision.reason is not Reason.UNREACHABLE:
            self._note_once(site_log.DISALLOWED, robots, str(robots.origin), why)

    def closed(self) -> None:
        """Count origins still waiting at the end of the crawl as unreachable."""
        key = stats.ORIGINS.format(outcome=Outcome.UNREACHABLE.value)
        for origin, cause in self._waiting.items():
            stats.of(self._crawler).inc_value(key)
            self._count(origin, Outcome.UNREACHABLE, cause)

    def _retrying(self, robots: OriginPolicy, fetch: PendingFetch, delays: Sequence[float]) -> None:
        """Log the first failed attempt. The origin's pages wait until it has been retried."""
        if fetch.last_validity is not None or _was_unreachable(fetch):
            return
        soonest = 1 + sum(delays)
        latest = soonest + len(delays) * self._settings.timeout
        max_age = self._settings.unreachable_max_age
        outcome = robots.outcome
        if outcome is Outcome.UNREACHABLE and max_age is not None and max_age <= soonest:
            outcome = Outcome.UNAVAILABLE
        times = (
            join_items([_seconds(delay) for delay in delays]),
            _seconds(soonest),
            _seconds(latest),
        )
        self._note(site_log.RETRYING, robots, robots.cause, *times, _CONSEQUENCE[outcome])

    def _given_up(self, robots: OriginPolicy, fetch: PendingFetch, *, of_route: bool) -> None:
        """Log the result after the last attempt has failed, unless the fetch changed nothing."""
        if _was_unreachable(fetch) and not fetch.changes(robots.outcome):
            return
        kind = _GIVEN_UP[robots.outcome]
        if of_route and kind is site_log.GIVEN_UP:
            kind = site_log.ROUTE_FAILED
        seconds = _seconds(robots.validity.fresh_until - self._runtime.clock())
        self._note(kind, robots, robots.cause, seconds)

    def _local_failure(self, robots: OriginPolicy, access: Local) -> None:
        """Log a failure of the crawl itself once per kind, now or when a page is dropped."""
        start = _start(access.cause)
        if start in self._local or len(self._local) >= _MAX_CAUSES:
            return
        self._local[start] = access
        if access.shortage or robots.outcome is not Outcome.LOCAL:
            self._log_local_failure(robots, access)

    def _log_local_failure(self, robots: OriginPolicy, access: Local) -> None:
        self._local[_start(access.cause)] = None
        url = robots.origin.robots_url
        kind = site_log.CRAWL_FAILED
        arguments = [url, access.cause, _CONSEQUENCE[robots.outcome], access.advice]
        if access.shortage:
            kind = site_log.SHORTAGE
            arguments = [url, access.cause, access.advice]
        self._sites.note(kind, access.cause, *arguments, error=access.error)

    def _concluded(self, robots: OriginPolicy, fetch: PendingFetch) -> None:
        """Count an origin's outcome, and log why its rules are missing or incomplete."""
        self._waiting.pop(robots.origin, None)
        if fetch.changes(robots.outcome):
            self._count(robots.origin, robots.outcome, robots.cause)
        before = fetch.validity_before
        if robots.stale and (before is None or not before.stale):
            self.stale.add(str(robots.origin), robots.cause)
        file = robots.file
        max_size = self._settings.max_size
        url = robots.origin.robots_url
        # A 404 is expected, so only the other cause, a broken redirect, is logged.
        is_lost = robots.outcome is Outcome.UNAVAILABLE and robots.cause != str(robots.status)
        if is_lost and robots.validity.unreachable_since is None and robots.status is not None:
            self._note_once(site_log.UNAVAILABLE, robots, url, robots.cause)
        elif file is not None and file.size > max_size:
            self._note_once(site_log.TOO_LONG, robots, url, max_size)
        elif file is not None and file.robots is not None and file.robots.is_page:
            self._note_once(site_log.WEB_PAGE, robots, url)

    def _paced(self, robots: OriginPolicy, bound: Bound, interval: float) -> None:
        """Log the delay that a site requests; see `signals.py`."""
        origin = robots.origin
        asked = robots.cited(bound.text)
        if bound.seconds <= interval:
            self._sites.note(site_log.PACED, str(origin), asked, origin)
        else:
            self._sites.note(site_log.PACED_LESS, str(origin), asked, origin, interval)

    def _note(self, kind: Kind, robots: OriginPolicy, *arguments: object) -> None:
        self._sites.note(kind, str(robots.origin), robots.origin.robots_url, *arguments)

    def _note_once(self, kind: Kind, robots: OriginPolicy, *arguments: object) -> None:
        key = hash((robots.origin, kind.text))
        if key not in self._logged:
            self._logged[key] = None
            self._sites.note(kind, str(robots.origin), *arguments)

    def _count(self, origin: Origin, outcome: Outcome, cause: str) -> None:
        """Count an origin's outcome and its cause."""
        if outcome is Outcome.UNREACHABLE:
            self.unreachable.add(str(origin), cause)
        causes = self.causes[outcome]
        is_known = cause in causes or len(causes) < _MAX_CAUSES
        causes[cause if is_known else "other"] += 1


def _start(cause: str) -> str:
    return cause.partition(":")[0]


def _was_unreachable(fetch: PendingFetch) -> bool:
    """Return True if the file was already unreachable before the fetch."""
    before = fetch.validity_before
    return before is not None and before.unreachable_since is not None


def _seconds(number: float) -> str:
    """Format seconds for a log line, rounding to whole seconds from 10 upwards."""
    return f"{number:.0f}" if number >= 10 else f"{round(number, 2):g}"
