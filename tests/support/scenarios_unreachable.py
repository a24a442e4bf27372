"""Crawls of sites whose robots.txt fails temporarily or permanently, for `test_unreachable.py`."""

from __future__ import annotations

import socket
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.exceptions import CloseSpider

from tests.support import crawling
from tests.support.crawling import Pages
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from tests.support.crawling import Run
    from tests.support.site import Asked

RULES = "User-agent: *\nDisallow: /x\n"

short = crawling.short


class Failing:
    """A robots.txt that fails a number of times, and records when it was requested.

    :param times: how often it fails.
    :param reply: the reply that it fails with.
    """

    def __init__(self, times: float, reply: Reply) -> None:
        self.times = times
        self.reply = reply
        self.arrived: list[float] = []

    def __call__(self, _: Asked) -> Reply:
        self.arrived.append(time.monotonic())
        return self.reply if len(self.arrived) <= self.times else robots(RULES)

    @property
    def gaps(self) -> list[float]:
        """The seconds between successive requests."""
        return [later - earlier for earlier, later in pairwise(self.arrived)]


async def recovers(run: Run) -> dict[str, Any]:
    """Crawl with Scrapy's retries a site whose file fails twice."""
    failing = Failing(2, Reply(503))
    with Site({"/robots.txt": failing}) as site:
        settings = {
            "ROBOTS_UNREACHABLE_BACKOFF": [0.1, 0.4],
            "RETRY_ENABLED": True,
            "CONCURRENT_REQUESTS": 2,
        }
        urls = [site.url(target) for target in ("/a", "/b", "/c", "/x")]
        result = await run(Pages, settings, urls)
        return {
            "outcomes": [short(result.outcomes[url]) for url in urls],
            "first": site.targets[:3],
            "paused": [gap >= delay for gap, delay in zip(failing.gaps, (0.1, 0.4), strict=True)],
            "soon": all(gap < 2 for gap in failing.gaps),
            "counted": [result.stat(key) for key in ("request_count", "result/unreachable")],
            "origins": [result.stat("origins/successful"), result.stat("origins/unreachable")],
        }


async def gives_up(run: Run) -> dict[str, Any]:
    """Crawl a site whose file always fails."""
    failing = Failing(float("inf"), Reply(500))
    with Site({"/robots.txt": failing}) as site:
        urls = [site.url(f"/{n}") for n in range(5)]
        # The decision counts for all requests that waited, even if it is valid for a short time.
        result = await run(
            Pages, {"ROBOTS_UNREACHABLE_BACKOFF": [0.01], "ROBOTS_UNREACHABLE_TTL": 1e-9}, urls
        )
        return {
            "outcomes": [short(outcome) for outcome in result.outcomes.values()],
            "fetches": site.fetches,
            "pages": site.pages,
            "origins": result.stat("origins/unreachable"),
        }


async def retry_after(run: Run) -> dict[str, Any]:
    """Crawl sites whose file fails once, with different Retry-After headers."""
    gaps = []
    for header, delay in (("1", 0.01), ("0", 0.5), ("x", 0.01)):
        failing = Failing(1, Reply(429, headers=(("Retry-After", header),)))
        with Site({"/robots.txt": failing}) as site:
            result = await run(Pages, {"ROBOTS_UNREACHABLE_BACKOFF": [delay]}, [site.url("/a")])
            gaps.append([failing.gaps[0], short(result.outcomes[site.url("/a")])])
    return {"gaps": gaps}


async def at_once(run: Run) -> dict[str, Any]:
    """Crawl a host that does not exist."""
    url = "http://no-such-host.invalid/"
    result = await run(Pages, {"ROBOTS_UNREACHABLE_BACKOFF": [600]}, [url])
    return {"outcome": short(result.outcomes[url]), "requests": result.stat("request_count")}


class CloseSoon(Pages):
    """Closes the spider when all pages of the good site were fetched."""

    good = ""
    expected = 0

    def parse(self, response: Any, **_: Any) -> None:
        """Record the page, and perhaps close the spider."""
        super().parse(response)
        if len(self.outcomes) == self.expected:
            raise CloseSpider("enough")


async def many_failing(run: Run) -> dict[str, Any]:
    """Crawl forty hosts that refuse connections, and one good site."""
    with Site() as site, Site() as closed:
        port = closed.port
    with Site() as site:
        CloseSoon.expected = 20
        failing = [f"http://127.0.1.{n + 1}:{port}/" for n in range(40)]
        pages = [site.url(f"/{n}") for n in range(20)]
        settings = {
            "ROBOTS_UNREACHABLE_BACKOFF": [600],
            "CONCURRENT_REQUESTS": 4,
            "LOG_LEVEL": "ERROR",
        }
        result = await run(CloseSoon, settings, failing + pages)
        return {
            "pages": len(site.pages),
            "others": sum(outcome != 200 for outcome in result.outcomes.values()),
            "undecided": result.stat("undecided") >= 40,
            "reason": result.stats["finish_reason"],
        }


async def many_hanging(run: Run) -> dict[str, Any]:
    """Three times as many hosts as are asked at once take connections and never answer.

    Another site comes last.
    """
    with (
        Site() as site,
        socket.create_server(("", 0), backlog=100) as hanging,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("scrapy_robots_rfc.fetching.pending.CUT_AFTER", 0.3)
        patch.setattr("scrapy_robots_rfc.fetching.pending.MAX_FETCHES", 8)
        CloseSoon.expected = 10
        port = hanging.getsockname()[1]
        urls = [f"http://127.0.1.{n + 1}:{port}/" for n in range(24)]
        # Enough connections for the handler without a reactor, which continues requests that were
        # cancelled.
        settings = {"LOG_LEVEL": "ERROR", "CONCURRENT_REQUESTS": 40}
        result = await run(CloseSoon, settings, [*urls, *(site.url(f"/{n}") for n in range(10))])
        return {
            "pages": len(site.pages),
            "failed": result.stat("result/unreachable"),
            "reason": result.stats["finish_reason"],
        }
