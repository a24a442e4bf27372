"""Crawls of a site whose file takes long to parse: see scenarios_obeying.py.

What must come of it: test_runtimes.py.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc import RobotsTxt
from scrapy_robots_rfc._runtime import Runtime
from tests.support.crawling import Pages
from tests.support.hostile_files import hostile
from tests.support.scenarios_unreachable import short
from tests.support.site import Reply, Site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.scenarios_obeying import Run


class Ticking(Pages):
    """Has a timer of 10 ms running, and the longest processor time that the event loop took
    between two ticks.
    """

    ticks = 0
    longest = 0.0

    async def start(self) -> AsyncIterator[Any]:
        """Start the timer."""
        self.ended, self.before = False, time.thread_time()
        self.tick()
        async for request in super().start():
            yield request

    def tick(self) -> None:
        """Look at the clock of this thread."""
        now = time.thread_time()
        self.longest, self.before, self.ticks = (
            max(self.longest, now - self.before),
            now,
            self.ticks + 1,
        )
        if not self.ended:
            Runtime().call_later(0.01, self.tick)

    def closed(self, _: str) -> None:
        """Stop the timer."""
        self.ended = True


async def large(run: Run) -> dict[str, Any]:
    """Four pages of a site with 200,000 octets of rules."""
    body = hostile("escapes", 200_000) + b"Disallow: /x\n"
    began = time.thread_time()
    RobotsTxt.parse(body).prepare("*")
    takes = time.thread_time() - began
    with Site({"/robots.txt": Reply(200, body)}) as site, Site() as other:
        # The event loop's time is to be that of this file alone: a first crawl loads modules, and
        # the garbage collector leaves alone what earlier scenarios left.
        await run(Pages, {}, [other.url("/y")])
        gc.collect()
        gc.freeze()
        pages = [site.url(target) for target in ("/x", "/x/1", "/y", "/y/1")]
        result = await run(Ticking, {}, pages)
        gc.unfreeze()
        return {
            "outcomes": [short(result.outcomes[page]) for page in pages],
            "fetches": site.fetches,
            "share": result.spider.longest / takes,
            "ticks": result.spider.ticks,
        }


SCENARIOS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {"large_file": large}
