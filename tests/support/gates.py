"""A gate without an event loop: the test says which files are known, and when turns come."""

from __future__ import annotations

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
        self.waiting: list[Callable[[], object]] = []

    def is_known(self, origin: Origin) -> bool:
        """Return what the test says."""
        return bool(self.has_file(origin))

    def known(self, origin: Origin, _request: Request, *, counted: bool) -> object:
        """Return a value if the file is known, as the test says."""
        assert not counted
        return True if self.is_known(origin) else None

    def get(self, origin: Origin) -> PendingFetch | None:
        """Return a fetch that was started."""
        return self.fetches.get(origin)

    def has_room(self) -> bool:
        """Return whether another fetch may start."""
        return len(self.fetches) < self.most

    def when_room(self, start: Callable[[], object]) -> None:
        """Remember a function that waits for room."""
        self.waiting.append(start)

    def fetch(self, origin: Origin, request: Request | None = None) -> PendingFetch:
        """Start a fetch."""
        fetch = self.fetches[origin] = PendingFetch(origin, source=request)
        self.started.append((origin, request))
        return fetch

    def end(self, origin: Origin, gate: Gate) -> None:
        """End a fetch, as `PendingFetches` does."""
        fetch = self.fetches.pop(origin)
        fetch.has_ended = True
        while self.waiting and self.has_room():
            self.waiting.pop(0)()
        gate.fetch_ended(fetch)


class Sites(dict[Origin, None]):
    """Stands for the paced sites."""

    def interval(self, _: Origin) -> float:
        """Return the interval of a site."""
        return 1.0


class Turns:
    """Stands for the throttle, on a clock that the test sets.

    :param due: returns the seconds until the turn of a site; `None` if no site is paced.
    """

    def __init__(self, due: Callable[[Origin], float | None] | None = None) -> None:
        self.now = 0.0
        self.due: Callable[[Origin], float | None] = due or (lambda _: 0.0)
        self.sites = Sites({} if due is None else {Origin("https", "paced.example", 443): None})
        self.taken: list[Origin] = []
        self.on_turn: Callable[[Origin], object] = lambda _: None

    def clock(self) -> float:
        """Return the time."""
        return self.now

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
        lambda request: Origin.of(request.url, SCHEMES if schemes is None else schemes),
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
