"""A site that asks for an interval, and the turns that the workers of a fleet take at it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy_robots_rfc.policy.pacing import IntervalClock, Pace

if TYPE_CHECKING:
    from datetime import time

    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.policy.origins import Origin


class OwnTurns:
    """The turns of a crawl that shares none; `shared.py` has those that a fleet shares."""

    def wait(self, interval: float, now: float) -> float | None:  # noqa: ARG002 - it never waits
        """Return the seconds until a request may start; ``None``: the crawl is woken.

        :param interval: seconds to the request before; 0: there is nothing to wait for.
        """
        return 0.0

    def start(self, request: object) -> None:
        """Use the turn that `wait` has given for a request."""

    def unused(self, request: object) -> None:
        """Give the turn of a request to the next one: it was not sent."""

    def answered(self, request: object, interval: float, now: float) -> None:
        """End the turn of a request: its answer begins to arrive, or it has ended without one.

        :param interval: seconds until the next request.
        """

    def sent(self, until: float) -> None:
        """Let all workers wait after a request that had no turn, as one for a robots.txt.

        :param until: when its interval ends.
        """

    def close(self) -> None:
        """Let others go on: nothing is sent any more."""


@dataclass(slots=True, eq=False, repr=False)
class PacedSite:
    """A site that asks for an interval.

    :param longest: seconds; a longer interval is cut to this.
    :param turns: those that the workers of a fleet take.
    :param clock: says when the next request of this crawl may start.
    :param fetched: when the robots.txt was fetched that the paces are from.
    :param used: when a request of the site was let through last.
    :param paces: those of the crawl's agents; the largest interval counts.
    :param since: since when requests have waited for a turn; ``None``: none waits.
    """

    origin: Origin
    longest: float
    turns: OwnTurns = field(default_factory=OwnTurns)
    clock: IntervalClock = field(default_factory=IntervalClock)
    fetched: float = -math.inf
    used: float = -math.inf
    paces: dict[Agent, Pace] = field(default_factory=dict)
    since: float | None = None

    def interval(self, utc: time) -> float:
        """Return the largest interval of all paces, in seconds."""
        bounds = [pace.bound(utc) for pace in self.paces.values()]
        seconds = max((bound.seconds for bound in bounds if bound is not None), default=0.0)
        return min(seconds, self.longest)

    def wait(self, utc: time, now: float) -> float | None:
        """Return the seconds until a request may start.

        ``None``: an answer, or another worker, is waited for.
        """
        interval = self.interval(utc)
        seconds = self.clock.wait(interval, now)
        if seconds == 0:
            seconds = self.turns.wait(interval, now)
        if seconds != 0 and self.since is None:
            self.since = now
        return seconds

    def start(self, request: object, now: float) -> None:
        """Note that a request starts now."""
        self.clock.start(request, now)
        self.turns.start(request)

    def unused(self, request: object) -> None:
        """Note that a request ended before it was sent."""
        self.clock.forget(request)
        self.turns.unused(request)

    def answered(self, request: object, utc: time, now: float) -> None:
        """Note that the answer to a request begins to arrive, or that it ended without one."""
        self.turns.answered(request, self.interval(utc), now)
        self.clock.answered(request, now)
