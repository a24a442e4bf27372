"""PacedSite, a site that requests an interval between requests, and its turns in this crawl.

`policy/pacing.py` reads intervals from robots.txt files. `throttle.py` enforces them.
"""

import math
from dataclasses import dataclass, field
from datetime import time

from scrapy_robots_rfc._runtime import Cancellable, Waiter
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.pacing import Pace


class Turns:
    """The turns that this crawl takes at a site. See `shared.py` for turns shared by workers.

    We cannot tell exactly when a request reaches the server, so the interval starts when its
    response begins to arrive.
    """

    def __init__(self) -> None:
        #: When the last response began to arrive, or the last request failed.
        self.last: float = -math.inf
        #: Number of requests that have a turn.
        self.outstanding: int = 0

    def wait(self, interval: float, now: float) -> float | None:
        """Return the seconds until a request may start, or `None` if that isn't known.

        In that case, the crawl is woken when a turn ends, or by `on_turn` of shared turns.

        :param interval: seconds to leave after the previous request, or 0 for none.
        """
        if not interval:
            return 0.0
        if self.outstanding:
            return None
        return max(0.0, self.last + interval - now)

    def start(self, request: object) -> None:  # noqa: ARG002 - only shared turns use it
        """Use the turn granted by `wait` for a request."""
        self.outstanding += 1

    def unused(self, request: object) -> None:  # noqa: ARG002 - only shared turns use it
        """Pass the turn on to the next request, because this request was not sent."""
        self.outstanding -= 1

    def answered(
        self,
        request: object,  # noqa: ARG002 - only shared turns use it
        interval: float,  # noqa: ARG002 - only shared turns use it
        now: float,
    ) -> None:
        """End a request's turn, because its response is arriving or it ended without one.

        :param interval: seconds until the next request.
        """
        self.outstanding -= 1
        self.last = now

    def ended_without_turn(
        self,
        at: float,
        interval: float,  # noqa: ARG002 - only shared turns use it
    ) -> None:
        """Leave an interval after a request that had no turn, such as one for robots.txt.

        :param at: when its response arrived.
        """
        self.last = max(self.last, at)

    def close(self) -> None:
        """Release any shared turns, because this crawl won't send any more requests."""


@dataclass(slots=True, eq=False, repr=False)
class PacedSite:
    """A site that requests an interval.

    :param turns: the turns, which may be shared with other workers.
    :param fetched: when the robots.txt with these paces was fetched.
    :param paces: the paces for the crawl's agents, each with one agent that it applies to. The
        largest interval is used.
    :param waiting_since: when a request began to wait for its turn, or `None` if none has waited
        since the last one took it.
    :param waiters: the requests that are waiting in the middleware.
    :param timer: wakes the site's requests, or `None` if no time is set.
    """

    origin: Origin
    turns: Turns
    fetched: float = -math.inf
    paces: dict[Pace, Agent] = field(default_factory=dict)
    waiting_since: float | None = None
    waiters: list[Waiter[None]] = field(default_factory=list)
    timer: Cancellable | None = None

    def update(self, policy: OriginPolicy) -> None:
        """Replace the paces with the ones in a new robots.txt."""
        if policy.fetched <= self.fetched:  # `Throttle.note` calls this for each request
            return
        if policy.outcome in (Outcome.UNREACHABLE, Outcome.LOCAL):
            # The refresh failed, so nothing is known about the interval. Keep the old one.
            return
        self.fetched = policy.fetched
        # Look up the pace of each agent in the new file, which may no longer have one. Other agents
        # with the same pace are added again by their next request.
        agents = list(self.paces.values())
        self.paces = {}
        for agent in agents:
            pace = policy.pace(agent)
            if pace is not None:
                self.paces[pace] = agent

    def interval(self, utc: time) -> float:
        """Return the largest interval at a time of day, in seconds, or 0 for none."""
        bounds = [pace.bound(utc) for pace in self.paces]
        return max((bound.seconds for bound in bounds if bound is not None), default=0.0)
