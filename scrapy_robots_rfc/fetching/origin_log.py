"""OriginLog: tells users which robots.txt files cannot be reached, and counts the outcomes of origins.

The closing summary sums it up at the end of the crawl.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.text import listed
from scrapy_robots_rfc.fetching.fetch import Attempt
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.queue import MOST_ROUTES, TICK
from scrapy_robots_rfc.policy.access import Local, Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

#: What stands for the outcome in the stats of origins that began to obey a stale copy.
STALE = "stale"

#: How many names of origins are kept for the summary.
NAMED = 10

#: How many causes are counted by name. A site can cause any number of them, because they may contain what it sends.
KEPT_CAUSES = 100

# Origins of which it is remembered that their INFO line was logged. After so many others, it may be
# logged again.
_KEPT_TOLD = 10_000

#: What governs an origin whose file could not be fetched -> what follows, as log lines say it.
_FOLLOWS = {
    Outcome.SUCCESSFUL: "an earlier copy is obeyed",
    Outcome.UNREACHABLE: "none of its pages is fetched",
    Outcome.LOCAL: "none of its pages is fetched",
    Outcome.UNAVAILABLE: "it has been for so long that it counts as unavailable, and all of its pages may be fetched",
}

# The same in a dry run, where nothing is dropped.
_FETCHED = "all of its pages are forbidden, and fetched: this is a dry run"
_FOLLOWS_DRY = {**_FOLLOWS, Outcome.UNREACHABLE: _FETCHED, Outcome.LOCAL: _FETCHED}


@dataclass
class Names:
    """The first few names, with the last text for each of them, and how often others came.

    :param named: name -> how often it came, and the text that came with it last.
    :param more: how often other names came.
    """

    named: dict[str, tuple[int, str]] = field(default_factory=dict)
    more: int = 0

    def add(self, name: str, text: str) -> None:
        """Count a name, and keep the text that comes with it."""
        if name in self.named or len(self.named) < NAMED:
            self.named[name] = self.named.get(name, (0, ""))[0] + 1, text
        else:
            self.more += 1


class OriginLog:
    """Logs and counts what becomes of the origins of a crawl.

    :param count: adds one to a stat.
    :param runtime: the clock.
    """

    def __init__(self, settings: Settings, count: Callable[[str], None], runtime: Runtime) -> None:
        self._settings, self._count, self._runtime = settings, count, runtime
        self._follows = _FOLLOWS_DRY if settings.dry_run else _FOLLOWS
        #: Cause -> how many origins were unreachable because of it.
        self.causes: Counter[str] = Counter()
        #: Cause -> how many origins have no robots.txt because of it.
        self.unavailable: Counter[str] = Counter()
        #: Origins whose pages were forbidden because their file was unreachable; origins with an earlier copy obeyed.
        self.unreachable: Names = Names()
        self.stale: Names = Names()
        self._waiting: dict[Origin, str] = {}  # those that are asked again, and did not count as unreachable before
        # Hashes of the origins, with what was said of each at INFO.
        self._told: LocalCache[int, None] = LocalCache(_KEPT_TOLD)
        #: What is to be done, by the cause of a local fault.
        self.local_advice: dict[str, str] = {}

    def failed(
        self,
        robots: OriginPolicy,
        attempt: Attempt,
        to_come: Sequence[float] = (),
        *,
        other_route: bool = False,
        that_way: bool = False,
    ) -> None:
        """Say that a file cannot be reached and what follows: a warning at the first failure of a run, and at a change.

        :param to_come: seconds before each further attempt by the same route.
        :param other_route: whether the route of another request may lead there; if there is one, it is next.
        :param that_way: whether it is about the requests of one route only.
        """
        url, cause, pending = robots.origin.robots_url, robots.cause, attempt.pending
        if to_come and not that_way and attempt.changes(Outcome.UNREACHABLE):
            self._waiting[robots.origin] = cause
        if other_route and pending.untried() is not None:
            logger.warning("%s is unreachable (%s): it is asked for by the route of another request", url, cause)
            return
        known = attempt.last or attempt.before
        warned = known is not None and known.unreachable_since is not None and known.outcome is robots.outcome
        then = self._follows[robots.outcome]
        if that_way and robots.outcome is Outcome.UNREACHABLE:
            then += " that way"
        if not to_come:
            if not warned:
                again = _seconds(robots.validity.fresh_until - self._runtime.clock())
                logger.warning("%s is unreachable (%s): %s; it is asked for again in %s s", url, cause, then, again)
            return
        self._waits(robots, attempt, to_come, then, warned=warned)

    def _waits(
        self, robots: OriginPolicy, attempt: Attempt, to_come: Sequence[float], then: str, *, warned: bool
    ) -> None:
        """Say that requests wait while a file is asked for again, and until when.

        :param then: what follows if it stays unreachable.
        :param warned: whether there was a warning before.
        """
        url, cause, pending = robots.origin.robots_url, robots.cause, attempt.pending
        # The queue notices the end of a pause, and that of an attempt, up to a tick late.
        attempts = len(to_come) * min(len(pending.routes), MOST_ROUTES)
        soonest = 1 + sum(to_come)
        latest = soonest + attempts * (self._settings.timeout + 2 * TICK)
        until = self._runtime.at(latest)
        if warned:
            made = pending.route.attempts + 1
            message = (
                "%s is still unreachable (%s) after attempt %d of %d: asked again after %s s; "
                "given up in about %s s if it answers at once, in %s s at the latest (%s)"
            )
            first, left = _seconds(to_come[0]), _seconds(latest)
            logger.info(message, url, cause, made, made + len(to_come), first, _seconds(soonest), left, until)
            return
        message = (
            "%s is unreachable (%s): its requests wait while it is asked again after %s s; "
            "given up in about %s s if it answers at once, in %s s at the latest (%s), then %s"
        )
        pauses = listed([_seconds(delay) for delay in to_come])
        logger.warning(message, url, cause, pauses, _seconds(soonest), _seconds(latest), until, then)

    def routes_failed(self, robots: OriginPolicy, attempts: int) -> None:
        """Count an origin that is closed for the requests of each route that was tried.

        :param robots: what is known by the last of them.
        :param attempts: how many were made in all.
        """
        self._closes(robots.origin, robots.cause)
        if attempts > 1:
            self._gave_up(robots, attempts, f"{self._follows[Outcome.UNREACHABLE]} by the routes that were tried")

    def local(self, robots: OriginPolicy, access: Local) -> None:
        """Log that the crawl itself failed, once for each cause: the same failure may concern every origin."""
        if access.cause in self.local_advice or len(self.local_advice) >= KEPT_CAUSES:
            return
        self.local_advice[access.cause] = access.advice
        message = "%s could not be asked for, because the crawl itself failed (%s): %s until that is mended; %s"
        follows = self._follows[robots.outcome]
        logger.error(message, robots.origin.robots_url, access.cause, follows, access.advice, exc_info=access.error)

    def closed(self) -> None:
        """Count as unreachable the origins that still waited for another attempt when the crawl ended."""
        for origin, cause in list(self._waiting.items()):
            self._closes(origin, cause)

    def concluded(self, robots: OriginPolicy, attempt: Attempt) -> None:
        """Count what governs an origin after its last attempt, and log how several attempts ended."""
        origin, attempts, before = robots.origin, attempt.pending.attempts + 1, attempt.before
        reached = robots.validity.unreachable_since is None
        self._waiting.pop(origin, None)
        changed = attempt.changes(robots.outcome)
        if changed and robots.outcome is Outcome.UNREACHABLE:
            self._closes(origin, robots.cause)
        elif changed:
            self._count(stats.ORIGINS.format(outcome=robots.outcome.value))
            if robots.outcome is Outcome.UNAVAILABLE:
                _count_cause(self.unavailable, robots.cause)
        self._tell_what_opens(robots)
        known_to_fail = before is not None and before.unreachable_since is not None
        if reached and (attempts > 1 or known_to_fail):  # the log told of that at WARNING, too
            logger.warning("%s can be reached again (%s)", origin.robots_url, robots.cause)
        elif attempts > 1:
            self._gave_up(robots, attempts, self._follows[robots.outcome])
        if robots.stale and not (before is not None and before.stale):
            self._count(stats.ORIGINS.format(outcome=STALE))
            self.stale.add(str(origin), robots.cause)

    def _tell_what_opens(self, robots: OriginPolicy) -> None:
        """Say once that an origin is open, or in part, for other reasons than its rules or a 404."""
        url, cause, file = robots.origin.robots_url, robots.cause, robots.file
        # A status alone says that there is no file. Any other cause is a redirect that leads nowhere.
        lost = robots.outcome is Outcome.UNAVAILABLE and cause != str(robots.status)
        if lost and robots.validity.unreachable_since is None and robots.status is not None:
            text = f"is {robots.outcome.explained(cause)}"
        elif file is not None and file.size > self._settings.max_size:
            limit = f"{self._settings.max_size} octets"
            text = f"is longer than ROBOTS_MAX_SIZE: only its first {limit} count"
        elif file is not None and file.robots is not None and file.robots.is_page:
            text = "is a web page and no robots.txt: it has no rules, so everything is allowed"
        else:
            return
        key = hash((robots.origin, text))
        if key not in self._told:
            self._told[key] = None
            logger.info("%s %s", url, text)

    def _gave_up(self, robots: OriginPolicy, attempts: int, follows: str) -> None:
        message = "%s stays unreachable (%s) after %d attempts: %s"
        logger.info(message, robots.origin.robots_url, robots.cause, attempts, follows)

    def _closes(self, origin: Origin, cause: str) -> None:
        """Count an origin that is unreachable."""
        self._waiting.pop(origin, None)
        self.unreachable.add(str(origin), cause)
        self._count(stats.ORIGINS.format(outcome=Outcome.UNREACHABLE.value))
        _count_cause(self.causes, cause)


def _count_cause(causes: Counter[str], cause: str) -> None:
    known = cause in causes or len(causes) < KEPT_CAUSES
    causes[cause if known else "other"] += 1


def _seconds(number: float) -> str:
    """Return a number of seconds as log lines have it: whole from ten on, as it may be a little less than was set."""
    return f"{number:.0f}" if number >= 10 else f"{round(number, 2):g}"
