"""Large files are parsed on a thread, with the same verdicts as small ones."""

from __future__ import annotations

import sys
import threading
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.cache.memory import LARGE, MAX_PARSED
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.fetching.parsed import ParsedRobots
from tests.support.crawling import close_when, crawl
from tests.support.policies import origin, policy
from tests.support.service_crawls import run
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from types import FrameType

    from scrapy.crawler import Crawler

    from scrapy_robots_rfc import RobotsService
    from tests.support.service_crawls import Clock

RULES = "User-agent: *\n" + "Disallow: /other\n" * (LARGE // 17) + "Disallow: /x\n"
DAY = 86_400.0


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each file was read on another thread than the event loop."""
    found: list[bool] = []
    prepare, here = RobotsTxt.prepare, threading.get_ident()

    def noted(robots: RobotsTxt, tokens: Any) -> None:
        found.append(threading.get_ident() != here)
        prepare(robots, tokens)

    monkeypatch.setattr(RobotsTxt, "prepare", noted)
    return found


async def verdicts(service: RobotsService, site: Site) -> list[bool]:
    """Return the verdicts for some pages."""
    return [
        (await service.robots(site.url(page))).decide(site.url(page)).allowed
        for page in ("/x", "/y", "/x/1")
    ]


@pytest.mark.reactor
@ensureDeferred
async def test_large_file_is_parsed_on_a_thread(site: Site, elsewhere: list[bool]) -> None:
    """A large file is read on a thread before its first verdict."""
    site.replies["/robots.txt"] = robots(RULES)

    async def script(service: RobotsService) -> None:
        assert await verdicts(service, site) == [False, True, False]

    await run(script)
    assert elsewhere == [True]


@ensureDeferred
async def test_small_file_is_parsed_at_once(site: Site, elsewhere: list[bool]) -> None:
    """A small file is read at once, since a thread would take longer."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /x\n")

    async def script(service: RobotsService) -> None:
        assert await verdicts(service, site) == [False, True, False]

    await run(script)
    assert elsewhere == []


@ensureDeferred
async def test_large_file_that_is_parsed_again(site: Site, elsewhere: list[bool]) -> None:
    """A large file is parsed again on a thread, without another fetch."""
    site.replies["/robots.txt"] = robots(RULES)
    known = policy("503")
    entry = CacheEntry(known.validity, 503, "503", 0.0)

    async def script(service: RobotsService) -> None:
        for _ in range(2):
            assert await verdicts(service, site) == [False, True, False]
            for number in range(MAX_PARSED):  # no other file stays parsed
                service.memory.put(origin(f"{number}.example"), known, entry)

    await run(script)
    assert site.fetches == 1
    assert elsewhere == [True] * 2


@ensureDeferred
async def test_large_file_whose_refresh_fails(
    site: Site, clock: Clock, elsewhere: list[bool]
) -> None:
    """After a failed refresh, the earlier copy is parsed on a thread, too (2.4)."""
    site.replies["/robots.txt"] = robots(RULES)

    async def script(service: RobotsService) -> None:
        await verdicts(service, site)
        site.replies["/robots.txt"] = Reply(500)
        clock.now += DAY
        assert await verdicts(service, site) == [False, True, False]
        assert (await service.robots(site.url("/x"))).stale

    await run(script)
    assert elsewhere == [True] * 2


def by(agent: str, url: str) -> Request:
    """Return a request with its own product token."""
    return Request(url, meta={"robotstxt_user_agent": agent})


def short(outcomes: dict[str, int | BaseException]) -> dict[str, object]:
    """Return the status, or the name of the exception, by path."""
    found = {url.rpartition("/")[2]: outcome for url, outcome in outcomes.items()}
    return {
        path: what if isinstance(what, int) else type(what).__name__ for path, what in found.items()
    }


GROUPS = "".join(f"User-agent: bot{name}\nDisallow: /{name}\n" for name in "abc") + RULES


@ensureDeferred
async def test_each_product_token_has_it_read_on_the_thread(
    site: Site, elsewhere: list[bool]
) -> None:
    """The pages of a new product token wait for the thread, which reads the file once for it."""
    site.replies["/robots.txt"] = robots(GROUPS)
    requests = [
        by(f"bot{name}", site.url(f"/{path}{name}")) for name in "abc" for path in ("a", "b", "c")
    ]
    result = await crawl(requests)
    expected = {
        path + name: "RobotsDisallowed" if path == name else 200 for name in "abc" for path in "abc"
    }
    assert short(result.outcomes) == expected
    assert site.fetches == 1
    assert elsewhere == [True] * 4  # the crawl's own token has it read first


@pytest.mark.reactor
@ensureDeferred
async def test_spider_that_is_closed_during_parsing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the spider closes, the thread reads no further file, and waiting requests go back to the
    scheduler.
    """
    site.replies["/robots.txt"] = robots(GROUPS)
    begun, closing, prepare = threading.Event(), threading.Event(), RobotsTxt.prepare
    read: list[RobotsTxt] = []

    def slow(robots: RobotsTxt, tokens: Any) -> None:
        if read:  # the file is read for the agent of the crawl when it is fetched
            begun.set()
            assert closing.wait(60)
        read.append(robots)
        prepare(robots, tokens)

    def is_begun(_: Crawler) -> bool:
        if begun.is_set():
            Runtime().call_later(0, closing.set)  # once `close_when` has closed the spider
        return begun.is_set()

    monkeypatch.setattr(RobotsTxt, "prepare", slow)
    result = await crawl(
        [by(f"bot{name}", site.url(f"/x{name}")) for name in "abc"], prepare=close_when(is_begun)
    )
    assert [*result.outcomes.values()] == [200]  # the page whose file was being read
    assert (result.stat("undecided"), result.stat("allowed"), len(site.pages)) == (2, 1, 1)


def test_unread_until_all_is_read() -> None:
    """While the thread reads a file, no page is judged on the event loop."""
    rules = "".join(f"Disallow: /*{'*'.join(letters)}\n" for letters in permutations("abcdefg"))
    body = f"User-agent: *\nCrawl-delay: 1\n{rules}".encode()
    file = ParsedRobots(None, RobotsTxt.parse(body), size=len(body), large=True)
    agent = Agent(("abot",), "abot")
    steps: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "scrapy_robots_rfc" in frame.f_code.co_filename:
            steps.append(frame.f_code.co_name)
            assert file.needs_thread(agent)

    sys.setprofile(look)
    try:
        file.prepare(agent)
    finally:
        sys.setprofile(None)
    assert not file.needs_thread(agent)
    assert "records_by_group" in steps
    assert len(steps) > 5000  # its rules were read, too
