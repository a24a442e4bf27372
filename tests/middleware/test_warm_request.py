"""What a request costs whose robots.txt is in memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc import RfcRobotsTxtMiddleware, RobotsService
from tests.support.service_crawls import run
from tests.support.site import robots

if TYPE_CHECKING:
    from types import FrameType

    import pytest

    from tests.support.site import Site

#: The clock, and the origin as a key of the memory.
LEAVES = {"_runtime", "policy.origins"}
WAY = {
    "middleware.downloader",
    "middleware.user_agent",
    "fetching.service",
    "cache.memory",
    "middleware.enforcement",
    "scheduling.throttle",
    "fetching.parsed",
    "core.robotstxt",
    "core.ruleset",
}


@ensureDeferred
async def test_modules_that_a_request_passes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose file is in memory passes nine modules, besides the clock and the hash of
    its origin.
    """
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /x\n")
    decide = RfcRobotsTxtMiddleware.process_request
    passed: list[set[str]] = []

    def watched(self: RfcRobotsTxtMiddleware, request: Request) -> Any:
        names: set[str] = set()

        def note(frame: FrameType, event: str, _arg: object) -> None:
            if event == "call":
                names.add(frame.f_globals.get("__name__", ""))

        sys.setprofile(note)
        try:
            return decide(self, request)
        finally:
            sys.setprofile(None)
            if "dont_obey_robotstxt" not in request.meta:
                passed.append(
                    {
                        name.partition(".")[2]
                        for name in names
                        if name.startswith("scrapy_robots_rfc.")
                    }
                )

    monkeypatch.setattr(RfcRobotsTxtMiddleware, "process_request", watched)

    async def script(service: RobotsService) -> None:
        await service.robots(site.url("/"))

    result = await run(script, requests=[site.url(f"/{n}") for n in range(5)])
    assert result.stat("allowed") == 5
    assert passed[-1] - LEAVES == WAY
