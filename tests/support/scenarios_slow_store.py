"""A crawl whose store takes its time: see scenarios_obeying.py.

What must come of it: test_runtimes.py.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request

from tests.support.crawling import Pages
from tests.support.memory_store import MemoryStore
from tests.support.scenarios_unreachable import short
from tests.support.site import PAGE, Asked, Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.scenarios_obeying import Run

RULES = robots("User-agent: *\nDisallow: /x\n")


class Slow(MemoryStore):
    """Has no answer before something else happens in the crawl."""

    happened: ClassVar[threading.Event]
    in_time: ClassVar[list[bool]]

    def get(self, key: str) -> bytes | None:
        """Wait for it."""
        self.in_time.append(self.happened.wait(60))
        return super().get(key)


async def slow(run: Run) -> dict[str, Any]:
    """A store takes its time; meanwhile the crawl fetches a page that needs no robots.txt."""
    Slow.happened, Slow.in_time = threading.Event(), []

    def answer(_: Asked) -> Reply:
        Slow.happened.set()
        return PAGE

    with Site({"/robots.txt": RULES, "/exempt": answer}) as site:
        exempt = Request(site.url("/exempt"), meta={"dont_obey_robotstxt": True})
        settings = {"ROBOTS_CACHE": "tests.support.scenarios_slow_store.Slow"}
        result = await run(Pages, settings, [site.url("/y"), exempt])
        outcomes = [short(result.outcomes[site.url(target)]) for target in ("/y", "/exempt")]
        return {
            "outcomes": outcomes,
            "in_time": all(Slow.in_time),
            "errors": result.stat("cache/store_errors"),
        }


SCENARIOS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {"slow_store": slow}
