"""What a crawl says of its origins: that a robots.txt fails and what follows, and how that ended.

In here: words, and which origins failed, and why. What governs is decided elsewhere; what is said at the end of a crawl
is `closing.py`.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.core.text import listed
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.reporting.topk import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_robots_rfc.policy.access import Local
    from scrapy_robots_rfc.policy.origins import Origin

logger = logging.getLogger(__name__)

#: What follows from an unreachable file, by what governs then.
FOLLOWS = {
    Outcome.SUCCESSFUL: "an earlier copy is obeyed",
    Outcome.UNREACHABLE: "none of its pages is fetched",
    Outcome.LOCAL: "none of its pages is fetched",
    Outcome.UNAVAILABLE: "it has been for so long that it counts as unavailable, and all of its pages may be fetched",
}

#: The same where nothing is dropped.
_DRY = "all of its pages are forbidden, and fetched: this is a dry run"
FOLLOWS_DRY = {**FOLLOWS, Outcome.UNREACHABLE: _DRY, Outcome.LOCAL: _DRY}

#: Causes that are counted by name: what a site sends can be part of one.
KEPT_CAUSES = 100


class Troubles:
    """Says, and counts, what becomes of origins.

    :param count: adds one to a stat.
    :param dry_run: whether nothing is dropped.
    """

    def __init__(self, count: Callable[[str], None], *, dry_run: bool = False) -> None:
        self._count = count
        self._follows = FOLLOWS_DRY if dry_run else FOLLOWS
        #: Why origins were unreachable -> how many.
        self.causes: Counter[str] = Counter()
        #: Origins whose pages were forbidden because nobody knew the rules, and those that obeyed an earlier copy.
        self.unreachable, self.stale = Names(), Names()
        self._waiting: dict[Origin, str] = {}
        self._local: set[str] = set()

    def failed(self, origin: Origin, cause: str, outcome: Outcome, again: float, *, alone: bool = False) -> None:
        """Warn that a file cannot be reached.

        :param outcome: what governs.
        :param again: in how many seconds it is asked for again.
        :param alone: whether it is closed for the requests of one route only.
        """
        message = "%s is unreachable (%s): %s; it is asked for again in %s s"
        logger.warning(message, origin.robots_url, cause, self._then(outcome, alone=alone), _seconds(again))

    def _then(self, outcome: Outcome, *, alone: bool) -> str:
        return f"{self._follows[outcome]}{' that way' if alone and outcome is Outcome.UNREACHABLE else ''}"

    def begins(self, origin: Origin, cause: str, delays: Sequence[float], until: str, *, alone: bool = False) -> None:
        """Warn that a file cannot be reached, and that its requests wait.

        :param delays: seconds before each further attempt.
        :param until: when the last one of them is over at the latest.
        :param alone: whether it is about the requests of one route only.
        """
        message = (
            "%s is unreachable (%s): its requests wait while it is asked again after %s s; given up at %s at the "
            "latest, then %s"
        )
        after = listed([_seconds(delay) for delay in delays])
        logger.warning(message, origin.robots_url, cause, after, until, self._then(Outcome.UNREACHABLE, alone=alone))

    def goes_on(self, origin: Origin, cause: str, made: int, delays: Sequence[float], until: str) -> None:
        """Say that a further attempt has failed, and is not the last one.

        :param made: how many were made.
        :param delays: seconds before each further attempt.
        :param until: when the last one of them is over at the latest.
        """
        message = (
            "%s is still unreachable (%s) after attempt %d of %d: asked again after %s s; given up at %s at the latest"
        )
        attempts = made + len(delays)
        logger.info(message, origin.robots_url, cause, made, attempts, _seconds(delays[0]), until)

    def other_route(self, origin: Origin, cause: str) -> None:
        """Warn that a file cannot be reached by the route of one request, and is asked for by that of another."""
        message = "%s is unreachable (%s): it is asked for by the route of another request"
        logger.warning(message, origin.robots_url, cause)

    def routes_failed(self, origin: Origin, cause: str, attempts: int) -> None:
        """Count an origin that is closed for the requests of each route that was tried.

        :param cause: why it could not be reached by the last one.
        :param attempts: how many there were, by all routes.
        """
        self._waiting.pop(origin, None)
        self._unreachable(origin, cause)
        if attempts > 1:
            message = "%s stays unreachable (%s) after %d attempts: %s by the routes that were tried"
            follows = self._follows[Outcome.UNREACHABLE]
            logger.info(message, origin.robots_url, cause, attempts, follows)

    def local(self, origin: Origin, access: Local, outcome: Outcome) -> None:
        """Say that the crawl itself failed: once for each part and text, as every origin may meet with it.

        :param outcome: what governs.
        """
        if access.cause in self._local or len(self._local) >= KEPT_CAUSES:
            return
        self._local.add(access.cause)
        message = "%s could not be asked for, because the crawl itself failed (%s): %s until that is mended; %s"
        follows = self._follows[outcome]
        logger.error(message, origin.robots_url, access.cause, follows, access.advice, exc_info=access.error)

    def again(self, origin: Origin, cause: str) -> None:
        """An attempt has failed, and another one is to come; before, the origin did not count as unreachable."""
        self._waiting[origin] = cause

    def closed(self) -> None:
        """Count the origins that the end of the crawl found waiting for another attempt: they were unreachable."""
        for origin, cause in self._waiting.items():
            self._unreachable(origin, cause)
        self._waiting.clear()

    def concluded(
        self, origin: Origin, cause: str, outcome: Outcome, *, changed: bool, reached: bool, attempts: int
    ) -> None:
        """Count what governs an origin, and say how several attempts ended.

        :param changed: whether something else governed before, or nothing.
        :param reached: whether the last attempt had an answer; what is old enough governs without one, too.
        :param attempts: how many there were.
        """
        self._waiting.pop(origin, None)
        if changed and outcome is Outcome.UNREACHABLE:
            self._unreachable(origin, cause)
        elif changed:
            self._count(stats.ORIGINS.format(outcome=outcome.value))
        if attempts < 2:
            return
        if reached:
            self._count(stats.RECOVERED)
            logger.info("%s can be reached again (%s)", origin.robots_url, cause)
            return
        message = "%s stays unreachable (%s) after %d attempts: %s"
        logger.info(message, origin.robots_url, cause, attempts, self._follows[outcome])

    def began_stale(self, origin: Origin, cause: str) -> None:
        """Count an origin that begins to obey an earlier copy.

        :param cause: why its refresh failed.
        """
        self._count(stats.CACHE_STALE_ORIGINS)
        self.stale.add(str(origin), cause)

    def _unreachable(self, origin: Origin, cause: str) -> None:
        self.unreachable.add(str(origin), cause)
        self._count(stats.ORIGINS.format(outcome=Outcome.UNREACHABLE.value))
        known = cause in self.causes or len(self.causes) < KEPT_CAUSES
        self.causes[cause if known else "other"] += 1


def _seconds(number: float) -> str:
    """Return a number of seconds as log lines have it: whole from ten on, as it may be a little less than was set."""
    return f"{number:.0f}" if number >= 10 else f"{round(number, 2):g}"
