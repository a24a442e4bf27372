"""Crawls that use a store: see scenarios_obeying.py.

What must come of them: test_crawls_of_one_store.py.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.crawling import Pages
from tests.support.scenarios_unreachable import short
from tests.support.service_crawls import gather
from tests.support.shared_stores import ONE_STORE, OneStore
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.scenarios_obeying import Run
    from tests.support.site import Asked

RULES = "User-agent: *\nDisallow: /x\n"


async def resumed(run: Run) -> dict[str, Any]:
    """A job is resumed; then once more, with a file that is asked for again each time."""
    with tempfile.TemporaryDirectory() as folder, Site({"/robots.txt": robots(RULES)}) as site:
        settings: dict[str, Any] = {"JOBDIR": str(Path(folder) / "job")}
        urls = [site.url("/x"), site.url("/y")]
        results = [await run(Pages, settings, urls) for _ in range(3)]
        return {
            "outcomes": [
                [short(outcome) for _, outcome in sorted(r.outcomes.items())] for r in results
            ],
            "fetches": site.fetches,
            "hits": [r.stat("cache/store_hits") for r in results],
        }


async def confirmed(run: Run) -> dict[str, Any]:
    """A file that is used once, and confirmed by its server from then on."""

    def answer(asked: Asked) -> Reply:
        known = asked.headers.get("If-None-Match") == '"1"'
        return (
            Reply(304)
            if known
            else Reply(200, RULES.encode(), (("ETag", '"1"'), ("Cache-Control", "no-cache")))
        )

    OneStore.store = OneStore()
    with Site({"/robots.txt": answer}) as site:
        settings = {**ONE_STORE, "ROBOTS_CACHE_MIN_AGE": 0}
        results = [await run(Pages, settings, [site.url("/x")]) for _ in range(2)]
        return {
            "outcomes": [short(outcome) for r in results for outcome in r.outcomes.values()],
            "statuses": [
                r.stat(f"response_status_count/{status}")
                for r, status in zip(results, (200, 304), strict=True)
            ],
        }


class _Opening(OneStore):
    """Opens the gate of robots.txt when somebody has found that it is being fetched."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self._gate = gate

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """See `SharedStore`."""
        ours = super().lease(key, owner, seconds)
        if not ours:
            self._gate.set()
        return ours


async def side_by_side(run: Run) -> dict[str, Any]:
    """Three crawls need a file at once."""
    gate = threading.Event()
    OneStore.store = _Opening(gate)
    with Site({"/robots.txt": robots(RULES, gate=gate)}) as site:
        results = await gather(
            *(run(Pages, ONE_STORE, [site.url("/x"), site.url("/y")]) for _ in range(3))
        )
        return {
            "outcomes": [
                [short(outcome) for _, outcome in sorted(r.outcomes.items())] for r in results
            ],
            "fetches": site.fetches,
            "waits": sum(r.stat("cache/lease_waits") for r in results),
        }


SCENARIOS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {
    function.__name__: function for function in (resumed, confirmed, side_by_side)
}
