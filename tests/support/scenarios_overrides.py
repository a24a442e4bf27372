"""A crawl with every exception that a user can make.

What must come of it is in `test_runtimes.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.crawling import Pages
from tests.support.scenarios_unreachable import short
from tests.support.site import Site, robots
from tests.support.timed_site import DELAY, Clocked, gaps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.scenarios_obeying import Run

CLOSED = robots(f"User-agent: *\nDisallow: /\nCrawl-delay: {DELAY}\n")


async def exceptions(run: Run) -> dict[str, Any]:
    """Crawl a site with a local file, an exempt one and one that is closed.

    The same again as a dry run.
    """
    with (
        tempfile.NamedTemporaryFile(suffix=".txt") as file,
        Site({"/robots.txt": CLOSED}) as overridden,
        Site({"/robots.txt": CLOSED}) as exempt,
        Clocked({"/robots.txt": CLOSED}) as closed,
    ):
        Path(file.name).write_text("User-agent: *\nDisallow: /x\n", encoding="utf-8")  # noqa: ASYNC240 - short
        pages = [overridden.url("/x"), overridden.url("/y"), exempt.url("/x"), closed.url("/x")]
        settings = {
            "ROBOTS_OVERRIDES": {overridden.url(""): file.name},
            "ROBOTS_EXEMPT": [exempt.url("")],
        }
        real = await run(Pages, settings, pages)
        sites = (overridden, exempt, closed)
        asked = [[target for target in site.targets if target == "/robots.txt"] for site in sites]
        closed.arrivals.clear()
        dry = await run(Pages, {**settings, "ROBOTS_DRY_RUN": True}, pages)
        keys = ("forbidden", "dry_run", f"exempted/{exempt.url('')}", "overridden")
        return {
            "real": [short(real.outcomes[page]) for page in pages],
            "asked": asked,
            "dry": [short(dry.outcomes[page]) for page in pages],
            "paced": len(closed.arrivals) == 2 and min(gaps(closed)) >= DELAY,
            "counted": [dry.stat(key) for key in keys],
        }


SCENARIOS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {"exceptions": exceptions}
