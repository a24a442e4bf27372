"""A site that asks for an interval, and the turns that the workers of a fleet take at it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from scrapy_robots_rfc.policy.pacing import IntervalClock, Pace

if TYPE_CHECKING:
    from datetime import time

    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.policy.origins import Origin


class SharedTurns(Protocol):
    """The turns that the workers of a fleet take at one site, see `shared.py`."""

    def wait(self, interval: float, now: float) -> float | None:
        """Return the seconds until a request may start; ``None``: the crawl is woken."""

    def start(self, request: object) -> None:
        """Use the turn for a request."""

    def unused(self, request: object) -> None:
        """Give up the turn of a request: it was not sent."""

    def answered(self, request: object, interval: float, now: float) -> None:
        """End the turn of a request; the next one is an interval later."""

    def sent(self, until: float) -> None:
        """Let all workers wait until then, after a request that had no turn."""

    def close(self) -> None:
        """Let others go on."""


@dataclass(slots=True, eq=False, repr=False)
class PacedSite:
    """A site that asks for an interval.

    :param longest: seconds; a longer interval is cut to this.
    :param shared: the turns of a fleet; ``None``: this crawl shares none.
    :param clock: says when the next request may start.
    :param fetched: when the robots.txt was fetched that the paces are from.
    :param used: when a request of the site was let through last.
    :param paces: those of the crawl's agents; the largest interval counts.
    :param since: since when requests have waited for a turn; ``None``: none waits.
    """

    origin: Origin
    longest: float
    shared: SharedTurns | None
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
        if seconds == 0 and self.shared is not None:
            seconds = self.shared.wait(interval, now)
        if seconds != 0 and self.since is None:
            self.since = now
        return seconds

    def start(self, request: object, now: float) -> None:
        """Note that a request starts now."""
        self.clock.start(request, now)
        if self.shared is not None:
            self.shared.start(request)

    def unused(self, request: object) -> None:
        """Note that a request ended before it was sent."""
        self.clock.forget(request)
        if self.shared is not None:
            self.shared.unused(request)

    def answered(self, request: object, utc: time, now: float) -> None:
        """Note that the answer to a request begins to arrive, or that it ended without one."""
        if self.shared is not None:
            self.shared.answered(request, self.interval(utc), now)
        self.clock.answered(request, now)

    def sent(self, until: float) -> None:
        """Let the other workers wait until then, after the request for its robots.txt."""
        if self.shared is not None:
            self.shared.sent(until)
