"""A gate without an event loop: the test says which files are known, and when turns come."""

from __future__ import annotations

import math
import types
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, cast

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.fetching import pending
from scrapy_robots_rfc.policy.origins import SCHEMES, Origin
from scrapy_robots_rfc.scheduling.gate import Gate, GateKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from scrapy import Request

    from scrapy_robots_rfc.fetching.pending import PendingFetch
    from scrapy_robots_rfc.policy.origins import Scheme


_CRAWLER = Crawler(Spider)
_CRAWLER.engine = cast("Any", SimpleNamespace(_slot=SimpleNamespace(closing=None)))


class Stepwise(Runtime):
    """Runs each task until it waits. The test lets it go on."""

    def spawn(self, coroutine: Any) -> Any:
        coroutine.send(None)
        return coroutine


@types.coroutine
def _wait() -> Generator[None, None, None]:
    yield


class Files:
    """Stands for the service: files come when the test ends their fetches.

    :param known: returns whether the file of an origin is known.
    :param most: maximum number of fetches in progress.
    """

    def __init__(
        self, known: Callable[[Origin], object] = lambda _: True, *, most: int = pending.MAX_FETCHES
    ) -> None:
        self.has_file = known
        self.routes = SimpleNamespace(of=lambda request: request.meta.get("proxy"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pending, "Runtime", Stepwise)
            patch.setattr(pending, "MAX_FETCHES", most)
            self.pending = pending.PendingFetches(_CRAWLER, 0.0, self._get, self._policy)

    def _policy(self, fetch: PendingFetch, _: object = None) -> Any:
        validity = SimpleNamespace(fresh_until=math.inf)
        return SimpleNamespace(origin=fetch.origin, for_all_routes=True, validity=validity)

    async def _get(self, fetch: PendingFetch) -> Any:
        await _wait()
        return self._policy(fetch)

    @property
    def known(self) -> Self:
        return self

    def get(self, origin: Origin, _route: object = None) -> Any:
        """Return a policy if the file is known, as the test says."""
        return self._policy(pending.PendingFetch(origin)) if self.has_file(origin) else None

    def fetch(self, origin: Origin, request: Request | None = None) -> PendingFetch:
        return self.pending.begin(origin, None, request)

    @property
    def fetches(self) -> dict[Origin, PendingFetch]:
        return self.pending.fetches

    def end(self, origin: Origin) -> None:
        task: Any = self.fetches[origin].task
        with pytest.raises(StopIteration):
            task.send(None)


class Turns:
    """Stands for the throttle, on a clock that the test sets.

    :param due: returns whether the turn of a site has come; `None` if no site is paced.
    """

    def __init__(self, due: Callable[[Origin], bool] | None = None) -> None:
        self.now = 0.0
        self.is_shared = False
        self.is_due = due or (lambda _: True)
        self.sites = {} if due is None else {Origin("https", "paced.example", 443): None}
        self.waiting: set[Origin] = set()
        self.taken: list[Origin] = []
        self.on_turn: Callable[[Origin], object] = lambda _: None

    def due(self, origin: Origin) -> bool:
        self.waiting.add(origin)
        return self.is_due(origin)

    def passes(self, seconds: float) -> None:
        """Let time pass, and wake all sites that wait for their turn."""
        self.now += seconds
        while self.waiting:
            self.on_turn(self.waiting.pop())

    def clock(self) -> float:
        return self.now

    def interval(self, origin: Origin) -> float:
        return 1.0 if origin in self.sites else 0.0

    def take(self, _request: Request, origin: Origin) -> None:
        self.taken.append(origin)


def add_gate(
    crawler: Crawler,
    *,
    files: Files | None = None,
    turns: Any = None,
    downloader: Any = None,
    schemes: Mapping[str, Scheme] = SCHEMES,
) -> Gate:
    """Give a crawler that does not run a gate and an engine."""
    add_engine(crawler, downloader)
    gate = Gate(
        crawler,
        lambda scheme, authority: Origin.of(f"{scheme}://{authority}", schemes),
        cast("Any", files or Files()),
        turns or cast("Any", Turns()),
        schemes,
    )
    keeper = GateKeeper()
    keeper.gate = gate
    cast("Any", crawler.engine).downloader.middleware.middlewares.append(keeper)
    return gate


def add_engine(crawler: Crawler, downloader: Any = None) -> None:
    """Give a crawler that does not run what the queues need of an engine."""
    if downloader is None:
        downloader = SimpleNamespace(slots={}, active=set())
    downloader.middleware = SimpleNamespace(middlewares=[])
    slot = SimpleNamespace(closing=None, nextcall=None)
    crawler.engine = cast("Any", SimpleNamespace(downloader=downloader, _slot=slot))
