"""A gate without an event loop: the test says which files are known, and when turns come."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.policy.origins import SCHEMES, Origin
from scrapy_robots_rfc.scheduling.gate import Gate, GateKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc.policy.origins import Scheme


def policy_for(origin: Origin) -> Any:
    """Return the parts of a policy that the gate uses."""
    return SimpleNamespace(origin=origin, for_all_routes=True, fresh_until=math.inf)


class Files:
    """Stands for the service and its fetches: files come when the test ends their fetches.

    :param known: returns whether the file of an origin is known.
    :param most: maximum number of fetches under way.
    """

    def __init__(
        self, known: Callable[[Origin], object] = lambda _: True, *, most: int = 1000
    ) -> None:
        self.has_file = known
        self.most = most
        self.fetches: dict[Origin, PendingFetch] = {}
        self.pending = self
        self.routes = SimpleNamespace(of=lambda request: request.meta.get("proxy"))
        self.started: list[tuple[Origin, Request | None]] = []
        self.line: list[Origin] = []
        self.reserved: set[Origin] = set()
        self.on_room: Callable[[Origin], bool] = lambda _: False

    def cached(self, origin: Origin, _request: Request | None = None) -> Any:
        """Return a policy if the file is known, as the test says."""
        return policy_for(origin) if self.has_file(origin) else None

    def get(self, origin: Origin) -> PendingFetch | None:
        """Return a fetch that was started."""
        return self.fetches.get(origin)

    def has_room(self, origin: Origin) -> bool:
        """Return whether another fetch may start."""
        return origin in self.reserved or self.is_free()

    def is_free(self) -> bool:
        """Return whether there is room that is not reserved."""
        return len(self.fetches) + len(self.reserved) < self.most

    def wait_in_line(self, origin: Origin) -> None:
        """Remember an origin that waits for room."""
        self.line.append(origin)

    def pass_on(self, origin: Origin) -> None:
        """Give the room of an origin to the next one, unless it is used."""
        if origin in self.reserved:
            self.reserved.remove(origin)
            self.give_rooms()

    def give_rooms(self) -> None:
        """Wake those who wait."""
        while self.line and self.is_free():
            origin = self.line.pop(0)
            self.reserved.add(origin)
            if not self.on_room(origin):
                self.reserved.discard(origin)

    def fetch(self, origin: Origin, request: Request | None = None) -> PendingFetch:
        """Start a fetch."""
        self.reserved.discard(origin)
        fetch = self.fetches[origin] = PendingFetch(origin, source=request)
        self.started.append((origin, request))
        return fetch

    def end(self, origin: Origin, gate: Gate) -> None:
        """End a fetch, as `PendingFetches` does."""
        fetch = self.fetches.pop(origin)
        fetch.has_ended = True
        fetch.policy = policy_for(origin)
        gate.fetch_ended(fetch)
        self.give_rooms()


class Turns:
    """Stands for the throttle, on a clock that the test sets.

    :param due: returns the seconds until the turn of a site; `None` if no site is paced.
    """

    def __init__(self, due: Callable[[Origin], float | None] | None = None) -> None:
        self.now = 0.0
        self.due: Callable[[Origin], float | None] = due or (lambda _: 0.0)
        self.sites = {} if due is None else {Origin("https", "paced.example", 443): None}
        self.taken: list[Origin] = []
        self.on_turn: Callable[[Origin], object] = lambda _: None

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def interval(self, origin: Origin) -> float:
        """Return the interval of a site."""
        return 1.0 if origin in self.sites else 0.0

    def wake_in(self, seconds: float) -> None:
        """Do nothing: the test asks again by itself."""
        assert seconds >= 0

    def take(self, _request: Request, origin: Origin) -> None:
        """Note whose turn was taken."""
        self.taken.append(origin)


def add_gate(
    crawler: Crawler,
    *,
    files: Files | None = None,
    turns: Any = None,
    downloader: Any = None,
    schemes: Mapping[str, Scheme] | None = None,
) -> Gate:
    """Give a crawler that does not run a gate, and what the queues need of an engine."""
    gate = Gate(
        crawler,
        lambda url: Origin.of(url.geturl(), SCHEMES if schemes is None else schemes),
        cast("Any", files or Files()),
        turns or cast("Any", Turns()),
        SCHEMES if schemes is None else schemes,
    )
    keeper = GateKeeper()
    keeper.gate = gate
    if downloader is None:
        downloader = SimpleNamespace(slots={}, active=set())
    downloader.middleware = SimpleNamespace(middlewares=[keeper])
    crawler.engine = cast("Any", SimpleNamespace(downloader=downloader, _slot=None))
    return gate
