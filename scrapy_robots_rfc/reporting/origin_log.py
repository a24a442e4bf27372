"""Log which robots.txt files cannot be reached, and keep what the closing summary says of them."""

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from scrapy.crawler import Crawler
from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.text import listed
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.pending import TICK, PendingFetch
from scrapy_robots_rfc.policy.access import Access, Local, Outcome, Unreachable
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

#: How many origins the summary names.
NAMED = 10

# How many causes are counted by name. A site can cause any number of them, because they may contain
# what it sends.
_MOST_CAUSES = 100

# Origins that are remembered. Of more, the first ones may have a line in the log again, and those
# that may still be reached never count.
_MOST_ORIGINS = 100_000

#: What governs an origin whose file could not be fetched -> what follows, as log lines say it.
_FOLLOWS = {
    Outcome.SUCCESSFUL: "an earlier copy is obeyed",
    Outcome.UNREACHABLE: "nothing is allowed",
    Outcome.LOCAL: "nothing is allowed",
    Outcome.UNAVAILABLE: (
        "it has been for so long that it counts as unavailable, and everything is allowed"
    ),
}


@dataclass(eq=False, repr=False)
class Names:
    """The first few names, with the last text for each of them, and how often others came.

    :param named: name -> the text that came with it last.
    :param more: how often other names came.
    """

    named: dict[str, str] = field(default_factory=dict)
    more: int = 0

    def add(self, name: str, text: str) -> None:
        """Remember the text that comes with a name, or count the name."""
        if name in self.named or len(self.named) < NAMED:
            self.named[name] = text
        else:
            self.more += 1


class OriginLog:
    """Logs what becomes of the origins of a crawl.

    :param runtime: the clock.
    """

    def __init__(
        self, crawler: Crawler, settings: Settings, runtime: Runtime | None = None
    ) -> None:
        self._settings = settings
        self._crawler = crawler
        self._runtime = runtime or Runtime()
        #: Outcome -> cause -> how many origins had this outcome because of it.
        self.causes: defaultdict[Outcome, Counter[str]] = defaultdict(Counter)
        #: Origins whose pages were forbidden because their file was unreachable.
        self.unreachable: Names = Names()
        #: Origins of which an earlier copy is obeyed.
        self.stale: Names = Names()
        # Causes of local failures that were logged.
        self._local: set[str] = set()
        # Origins that are asked again, or that a route failed to reach, and that do not count as
        # unreachable yet, with the cause.
        self._waiting: LocalCache[Origin, str] = LocalCache(_MOST_ORIGINS)
        # Hashes of the origins, with what was logged of each at INFO.
        self._logged: LocalCache[int, None] = LocalCache(_MOST_ORIGINS)
        crawler.signals.connect(self.attempted, signals.robots_attempted)

    def attempted(
        self,
        robots: OriginPolicy,
        fetch: PendingFetch,
        access: Access | None,
        delays: Sequence[float],
    ) -> None:
        """Log how an attempt ended, and count what governs the origin after the last one."""
        of_route = isinstance(access, Local | Unreachable) and access.route
        if isinstance(access, Local):
            self._local_failure(robots, access)
        elif robots.validity.unreachable_since is not None:
            self._failed(robots, fetch, delays, of_route=of_route)
        if not delays and not of_route:
            self._concluded(robots, fetch)

    def _failed(
        self,
        robots: OriginPolicy,
        fetch: PendingFetch,
        pauses: Sequence[float],
        *,
        of_route: bool,
    ) -> None:
        """Log that a file cannot be reached, at the first failure of a run and at a change.

        :param pauses: seconds before each further attempt, while which its requests wait.
        :param of_route: whether it is about the requests of one route only.
        """
        outcome = robots.outcome
        closed = outcome is Outcome.UNREACHABLE
        if closed and (pauses or of_route) and fetch.changes(outcome):
            self._waiting[robots.origin] = robots.cause
        known = fetch.last or fetch.before
        if known is not None and known.unreachable_since is not None and known.outcome is outcome:
            return
        follows = _FOLLOWS[outcome] + (" that way" if of_route and closed else "")
        url = robots.origin.robots_url
        if not pauses:
            again = _seconds(robots.validity.fresh_until - self._runtime.clock())
            message = "%s is unreachable (%s): %s; it is requested again in %s s"
            logger.warning(message, url, robots.cause, follows, again)
            return
        soonest = 1 + sum(pauses)
        most = self._settings.unreachable_max_age
        if closed and most is not None and most <= soonest:  # it is over by then
            follows = "everything is allowed"
        # A fetch notices up to two ticks late that its time is over.
        latest = soonest + len(pauses) * (self._settings.timeout + 2 * TICK)
        times = (_seconds(soonest), _seconds(latest), self._runtime.at(latest))
        message = (
            "%s is unreachable (%s): its pages wait while it is requested again after %s s; "
            "if each attempt fails, the wait ends in about %s s, in %s s at the latest (%s), and %s"
        )
        shown = listed([_seconds(delay) for delay in pauses])
        logger.warning(message, url, robots.cause, shown, *times, follows)

    def _local_failure(self, robots: OriginPolicy, access: Local) -> None:
        """Log that the crawl itself failed, once for each cause.

        The same failure may concern every origin.
        """
        if access.cause in self._local or len(self._local) >= _MOST_CAUSES:
            return
        self._local.add(access.cause)
        logger.error(
            "%s could not be requested, because the crawl itself failed (%s): %s until that is"
            " repaired; %s",
            robots.origin.robots_url,
            access.cause,
            _FOLLOWS[robots.outcome],
            access.advice,
            exc_info=access.error,
        )

    def closed(self) -> None:
        """Count as unreachable what still waited for an attempt or a route at the crawl's end."""
        key = stats.ORIGINS.format(outcome=Outcome.UNREACHABLE.value)
        for origin, cause in self._waiting.items():
            stats.of(self._crawler).inc_value(key)
            self._changes(origin, Outcome.UNREACHABLE, cause)

    def _concluded(self, robots: OriginPolicy, fetch: PendingFetch) -> None:
        """Count what governs an origin after its last attempt, and log how several ended."""
        attempts = fetch.attempts + 1
        before = fetch.before
        outcome = robots.outcome
        self._waiting.pop(robots.origin, None)
        if fetch.changes(outcome):
            self._changes(robots.origin, outcome, robots.cause)
        self._log_what_opens(robots)
        known_to_fail = before is not None and before.unreachable_since is not None
        if robots.validity.unreachable_since is None:
            if attempts > 1 or known_to_fail:  # that was logged as a warning, too
                logger.warning(
                    "%s can be reached again (%s)", robots.origin.robots_url, robots.cause
                )
        elif attempts > 1:
            message = "%s stays unreachable (%s) after %d attempts: %s"
            url = robots.origin.robots_url
            logger.info(message, url, robots.cause, attempts, _FOLLOWS[outcome])
        if robots.stale and not (before is not None and before.stale):
            self.stale.add(str(robots.origin), robots.cause)

    def _log_what_opens(self, robots: OriginPolicy) -> None:
        """Log once that an origin is open, or partly, for a reason beside its rules or a 404."""
        file = robots.file
        most = self._settings.max_size
        # A status alone says that there is no file. Any other cause is a redirect that leads
        # nowhere.
        lost = robots.outcome is Outcome.UNAVAILABLE and robots.cause != str(robots.status)
        shown: tuple[object, ...] = ()
        if lost and robots.validity.unreachable_since is None and robots.status is not None:
            message = "%s is unavailable (%s): everything is allowed"
            shown = (robots.cause,)
        elif file is not None and file.size > most:
            message = "%s is longer than ROBOTS_MAX_SIZE: only its first %d octets count"
            shown = (most,)
        elif file is not None and file.robots is not None and file.robots.is_page:
            message = (
                "%s is a web page and no robots.txt: it has no rules, so everything is allowed"
            )
        else:
            return
        key = hash((robots.origin, message, shown))
        if key not in self._logged:
            self._logged[key] = None
            logger.info(message, robots.origin.robots_url, *shown)

    def _changes(self, origin: Origin, outcome: Outcome, cause: str) -> None:
        """Count why this outcome governs an origin from now on."""
        if outcome is Outcome.UNREACHABLE:
            self.unreachable.add(str(origin), cause)
        causes = self.causes[outcome]
        known = cause in causes or len(causes) < _MOST_CAUSES
        causes[cause if known else "other"] += 1


def _seconds(number: float) -> str:
    """Return seconds as log lines show them; whole from ten on, as it may be a little less."""
    return f"{number:.0f}" if number >= 10 else f"{round(number, 2):g}"
