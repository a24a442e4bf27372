"""Outages of a store: counted one by one, told once, and what fails is not asked again at once.

In here: when a call may be tried, and what the log says. The calls are `keeper.py`'s.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.core.text import printable, without_credentials

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

#: Seconds for which a call that failed is not tried again.
PAUSE = 5.0
#: An outage whose first call is not made any more is over when nothing has failed for so many seconds.
QUIET = 60.0


class CircuitBreaker:
    """What of a store does not work just now.

    Each kind of call counts for itself: a full disk can still be read, and reading it says nothing about writing.

    :param name: the store, for people.
    :param limit: seconds after which a call fails by itself.
    """

    def __init__(self, name: str, limit: float, *, clock: Callable[[], float], count: Callable[[str], None]) -> None:
        self._name, self._limit, self._clock, self._count = name, limit, clock, count
        self._not_before: dict[str, float] = {}
        # When the call that goes ahead of others of its kind was made.
        self._ahead: dict[str, float] = {}
        self._began: tuple[str, float] | None = None
        self._failed_last = 0.0

    def may_try(self, call: str) -> bool:
        """Whether a call is to be made; after a pause one goes ahead, and the others wait for what comes of it."""
        now = self._clock()
        if now < self._not_before.get(call, now):
            return False
        if call in self._not_before:
            self._not_before[call] = now + self._limit + PAUSE
            self._ahead[call] = now
        return True

    def failed(self, call: str, error: Exception) -> None:
        """Count a failure; say so where it begins an outage."""
        self._count(stats.STORE_ERRORS)
        now = self._failed_last = self._clock()
        self._not_before[call] = now + PAUSE
        self._ahead.pop(call, None)
        if self._began is None:
            self._began = call, now
            logger.warning(
                "The store of robots.txt files %s fails (%s: %s); the crawl goes on with its memory, and tries the "
                "store again every %g s",
                self._name, call, said(error), PAUSE,
            )  # fmt: skip

    def worked(self, call: str, since: float) -> None:
        """Note a success; say so where it ends an outage.

        :param since: when the call was made: one from before the last failure tells nothing about what came after.
        """
        if not self._not_before:
            return
        ahead = self._ahead.get(call)
        if since < self._failed_last:
            if ahead is not None and since >= ahead:  # nothing came of it: the next one may go ahead
                self._not_before[call] = self._clock()
            return
        self._not_before.pop(call, None)
        self._ahead.pop(call, None)
        if self._began is not None:
            first, began = self._began
            now = self._clock()
            if call == first or now >= self._failed_last + QUIET:
                self._began = None
                logger.info("The store of robots.txt files %s works again, after %.0f s", self._name, now - began)


def said(error: Exception) -> str:
    """What an error says, on one short line without credentials: a driver's text may hold the address it was given."""
    text = without_credentials(" ".join(str(error).split()))
    return f"{type(error).__name__}: {printable(text)[:200]}".removesuffix(": ")
