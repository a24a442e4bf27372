"""Crawls log the lines that the README and the documents show."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from scrapy.exceptions import IgnoreRequest

from tests.support.crawling import SETTINGS, crawl, lines
from tests.support.documents import block, plain
from tests.support.service_crawls import run
from tests.support.site import Failing, Reply, robots

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_robots_rfc import RobotsService
    from tests.support.service_crawls import Clock
    from tests.support.site import Site

DAY = 86_400.0


@pytest.mark.usefixtures("hurried")
@ensureDeferred
async def test_failing(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """docs/failing.md shows the log of a site that recovers, and of one that does not."""
    proxy.replies["http://a.example/robots.txt"] = Failing(1, Reply(503))
    proxy.replies["http://b.example/robots.txt"] = Reply(500)
    pages = [f"http://{page}" for page in ("a.example/", "a.example/1", "a.example/2")]
    pages += ["http://b.example/", "http://b.example/1"]
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [5, 15, 45], "ROBOTS_TIMEOUT": 3000}
    await crawl(pages, {**settings, "LOGSTATS_INTERVAL": 0})
    page = block("docs/failing.md", "text", "is unreachable")
    shown = [timeless(line) for line in page.splitlines()]
    logged = [timeless(line) for line in lines(caplog, logging.INFO)]
    assert sorted(logged) == sorted(shown)  # either of the two sites may fail first
    assert logged[-6:] == shown[-6:]


def timeless(line: str) -> str:
    """Return a line without times that this test shortens, or that a busy machine changes."""
    return re.sub(r"\(\d+ s at most\)|is in \d+ s", "", line)


class AllowList:
    """A middleware that drops requests for robots.txt."""

    def process_request(self, request: Request) -> None:
        if "robots.txt" in request.url:
            raise IgnoreRequest("not in the list")


@ensureDeferred
async def test_local_fault(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/failing.md shows the ERROR about a middleware that drops requests for robots.txt."""
    monkeypatch.setattr(AllowList, "__module__", "myproject")
    middlewares = {**SETTINGS["DOWNLOADER_MIDDLEWARES"], AllowList: 200}
    await crawl(["http://a.example/"], {"DOWNLOADER_MIDDLEWARES": middlewares})
    assert (
        lines(caplog, logging.ERROR)
        == block("docs/failing.md", "text", "the crawl itself failed").splitlines()
    )


@ensureDeferred
async def test_stale(proxy: Site, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """docs/caching.md shows the log of a site whose file is unreachable a day later."""
    proxy.replies["http://a.example/robots.txt"] = robots("User-agent: *\nDisallow: /x\n")

    async def script(service: RobotsService) -> None:
        await service.robots("http://a.example/")
        proxy.replies["http://a.example/robots.txt"] = Reply(503)
        clock.now += DAY

    await run(script, requests=[f"http://a.example/{page}" for page in ("", "1", "x")])
    assert lines(caplog) == block("docs/caching.md", "text", "stale").splitlines()


def asking_for(record: str, line: int) -> Reply:
    """Return a robots.txt with a record on a line."""
    return robots("User-agent: *\nDisallow: /private/\n" + "#\n" * (line - 3) + f"{record}\n")


@pytest.mark.usefixtures("hurried")
@ensureDeferred
async def test_pace(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """docs/pacing.md shows the lines about two sites with a Crawl-delay."""
    proxy.replies["http://example.com/robots.txt"] = asking_for("Crawl-delay: 10", line=4)
    proxy.replies["http://example.org/robots.txt"] = asking_for("Crawl-delay: 3600", line=4)
    await crawl(["http://example.com/", "http://example.org/"], {"ROBOTS_TIMEOUT": 3000})
    shown = plain(block("docs/pacing.md", "text", "Crawl-delay")).splitlines()
    logged = [line for line in lines(caplog, logging.INFO) if line.startswith("Crawl-delay")]
    assert sorted(logged) == sorted(shown)


@ensureDeferred
async def test_forbidden(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The README and docs/switching_on.md show the line about a dropped page."""
    proxy.replies["http://example.com/robots.txt"] = robots("User-agent: *\nDisallow: /private/\n")
    await crawl(["http://example.com/private/plan.html"])
    shown = block("README.md", "text", "Forbidden by robots.txt")
    assert lines(caplog)[:1] == plain(shown).splitlines()
    assert block("docs/switching_on.md", "text", "Forbidden by robots.txt") == shown
