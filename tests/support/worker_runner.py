"""Crawl in this process, in one runtime, on command, and print the results as JSON."""

from __future__ import annotations

import json
import logging
import sys
from functools import partial
from typing import Any

from scrapy_robots_rfc.cache import client as fetches
from scrapy_robots_rfc.scheduling import shared
from tests.support.crawling import Pages
from tests.support.runtime_runner import one_crawl, run_in


async def work(mode: str, urls: list[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Crawl, and return outcomes and stats."""
    crawl = await one_crawl(mode, Pages, settings, urls)
    outcomes = {
        url: outcome if isinstance(outcome, int) else type(outcome).__name__
        for url, outcome in crawl.outcomes.items()
    }
    stats = {key: value for key, value in crawl.stats.items() if isinstance(value, (int, float))}
    return {"outcomes": outcomes, "stats": stats}


def main(mode: str, urls: list[str], settings: dict[str, Any], hold: float | None) -> None:
    """Wait for a line on stdin, then crawl.

    :param hold: seconds after which leases and turns of a dead worker end, or ``None`` for the
        default.
    """
    if hold is not None:
        fetches.LEASE = shared.HOLD = hold
        fetches.RENEW_INTERVAL = shared.BEAT = hold / 3
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    logging.getLogger("scrapy_robots_rfc").addHandler(handler)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(json.dumps(run_in(mode, partial(work, mode, urls, settings))) + "\n")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
