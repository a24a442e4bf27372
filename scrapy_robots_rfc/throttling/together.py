"""Together: the crawls that run in one process, on one event loop, and keep the interval of a site between them.

In here: what they share of a site, and who is told when it changes. Whose turn it is stands in `policy/pacing.py`; what
a single crawl does about it, in `pacing.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from scrapy_robots_rfc.policy.pacing import Turns

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import time

    from scrapy_robots_rfc.core.identity import Agent
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.policy.pacing import Pace
    from scrapy_robots_rfc.throttling.shared import SharedThrottle
    from scrapy_robots_rfc.throttling.slots import GatedSlots

#: Slots of crawls that wait for an answer, and since when their next request has been held back.
Waiting: TypeAlias = "dict[tuple[GatedSlots, str], float]"

# Seconds by which slots that wait for the same turn stand behind the one that has waited longest, so that none of them
# waits for ever while another one goes on.
_BEHIND = 0.001


@dataclass(slots=True, eq=False)
class Site:
    """An origin that asks for a pace, in one crawl.

    :param longest: the longest interval that the crawl keeps, in seconds.
    :param turns: one object for all crawls that keep the interval together.
    :param crawls: the origin in those crawls, this one among them.
    :param shared: the turns that it takes with the workers of other processes; ``None`` where there is no store for it.
    :param fetched: the fetch of its robots.txt that the paces are from.
    :param paces: those of the crawl's agents, where they differ: the largest interval is kept.
    """

    longest: float
    turns: Turns
    crawls: list[Site]
    shared: SharedThrottle | None = None
    fetched: float = -math.inf
    paces: dict[Agent, Pace] = field(default_factory=dict)
    waiting: Waiting = field(default_factory=dict)

    def interval(self, utc: time) -> float:
        """The largest interval that any of the crawls keeps."""
        return max(
            (
                min(bound.seconds, site.longest)
                for site in self.crawls
                for pace in site.paces.values()
                if (bound := pace.bound(utc))
            ),
            default=0.0,
        )

    def answered(self, request: object, now: float) -> Waiting:
        """The answer to a request begins to arrive. Return the slots that waited for that, whichever crawl's."""
        self.turns.answered(request, now)
        waiting: Waiting = {}
        for site in self.crawls:
            waiting |= taken(site)
        return waiting


@dataclass(slots=True, eq=False)
class Crawls:
    """The crawls of one event loop.

    :param listening: of each crawl, what is called when a site begins to be paced by any of them.
    """

    sites: dict[Origin, list[Site]] = field(default_factory=dict)
    listening: list[Callable[[], object]] = field(default_factory=list)

    def paced(self, origin: Origin, longest: float, *, alone: bool) -> Site:
        """Return an origin as one more crawl keeps its interval, together with the others that do.

        :param alone: whether it is this crawl's own business.
        """
        crawls = [] if alone else self.sites.setdefault(origin, [])
        site = Site(longest, crawls[0].turns if crawls else Turns(), crawls)
        crawls.append(site)
        for listen in self.listening:
            listen()
        return site

    def forget(self, origin: Origin, site: Site) -> None:
        """A crawl keeps the interval of an origin no longer."""
        site.crawls.remove(site)
        if not site.crawls and self.sites.get(origin) is site.crawls:
            del self.sites[origin]


#: By event loop, as long as there is a crawl.
_LOOPS: dict[object, Crawls] = {}


def join(loop: object, listen: Callable[[], object]) -> Crawls:
    """Return the crawls of an event loop, with one more among them."""
    crawls = _LOOPS.setdefault(loop, Crawls())
    crawls.listening.append(listen)
    if crawls.sites:
        listen()
    return crawls


def leave(loop: object, listen: Callable[[], object]) -> None:
    """Undo `join`."""
    crawls = _LOOPS.get(loop)
    if crawls is not None and listen in crawls.listening:
        crawls.listening.remove(listen)
        if not crawls.listening:
            del _LOOPS[loop]


class _Holder(Protocol):
    waiting: Waiting


def taken(holder: _Holder) -> Waiting:
    """Return the slots that wait for something, which are to be told of it."""
    waiting, holder.waiting = holder.waiting, {}
    return waiting


def go_on(waiting: Waiting) -> None:
    """Let slots ask again for their turn, those first that have waited longest, whichever crawl they are of."""
    behind = 0.0
    for slots, key in sorted(waiting, key=waiting.__getitem__):
        slots.go_on(key, behind)
        behind = _BEHIND
