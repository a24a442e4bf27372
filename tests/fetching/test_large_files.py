"""Large files have the same verdicts as small ones, and are read once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.agents import NO_AGENT, Agent
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.ruleset import RuleIndex
from scrapy_robots_rfc.fetching.parsed import ParsedRobots
from scrapy_robots_rfc.fetching.reader import LARGE, FileReader
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.settings import read_settings
from tests.support.crawling import crawl
from tests.support.entries import made, origin
from tests.support.hostile_files import LINES, hostile
from tests.support.running import under_the_reactor
from tests.support.service_crawls import run
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from types import FrameType

    from scrapy_robots_rfc import RobotsService
    from tests.support.service_crawls import Clock

RULES = "User-agent: *\n" + "Disallow: /other\n" * (LARGE // 17) + "Disallow: /x\n"
DAY = 86_400.0
AGENT = Agent(("abot",), "abot")


async def verdicts(service: RobotsService, site: Site) -> list[bool]:
    """Return the verdicts for some pages."""
    return [
        (await service.robots(site.url(page))).decide(site.url(page)).allowed
        for page in ("/x", "/y", "/x/1")
    ]


@ensureDeferred
async def test_verdicts_of_a_large_file(site: Site, clock: Clock) -> None:
    """A large file is obeyed, and after a failed refresh the earlier copy is (2.4)."""
    site.replies["/robots.txt"] = robots(RULES)

    async def script(service: RobotsService) -> None:
        assert await verdicts(service, site) == [False, True, False]
        site.replies["/robots.txt"] = Reply(500)
        clock.now += DAY
        assert await verdicts(service, site) == [False, True, False]
        assert (await service.robots(site.url("/x"))).stale

    await run(script)


@ensureDeferred
async def test_each_product_token_has_its_own_rules(site: Site) -> None:
    """The pages of each product token are judged by its own group of a large file."""
    groups = "".join(f"User-agent: bot{name}\nDisallow: /{name}\n" for name in "abc") + RULES
    site.replies["/robots.txt"] = robots(groups)
    pages = {(path, name): site.url(f"/{path}{name}") for name in "abc" for path in "abc"}
    result = await crawl(
        Request(page, meta={"robotstxt_user_agent": f"bot{name}"})
        for (_, name), page in pages.items()
    )
    dropped = {key for key, page in pages.items() if result.outcomes[page] != 200}
    assert dropped == {(name, name) for name in "abc"}
    assert site.fetches == 1


@pytest.mark.reactor
@under_the_reactor
async def test_event_loop_runs_between_two_large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several large files that arrive together, the event loop reads one at a time."""
    runtime, turn, turns, build = Runtime(), 0, list[int](), RuleIndex._build

    def count() -> None:
        nonlocal turn
        turn += 1
        timer = runtime.call_later(0, count)
        if len(turns) == 3:
            timer.cancel()

    def noted(index: RuleIndex) -> list[str]:
        turns.append(turn)
        return build(index)

    monkeypatch.setattr(RuleIndex, "_build", noted)
    crawler = get_crawler()
    reader = FileReader(crawler, read_settings(crawler.settings), lambda: NO_AGENT)
    entry = made(Outcome.SUCCESSFUL, 200, "200", 0.0, DAY, 0.0, body=RULES.encode())

    async def read(host: str) -> None:
        await reader.read(origin(host), entry)

    count()
    for host in ("a", "b"):
        runtime.spawn(read(host))
    await reader.read(origin("c"), entry)
    while len(turns) < 3:
        await runtime.sleep(0)
    assert len(set(turns)) == 3


def calls_during(file: ParsedRobots, url: str) -> int:
    """Return the number of functions called for a verdict and the interval."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        file.decide(url, AGENT)
        file.pace(AGENT)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", LINES)
def test_hostile_file_is_read_once(kind: str) -> None:
    """Reading a hostile file takes a few steps for each line, and later verdicts take few steps."""
    body = hostile(kind, 511_000)
    file = ParsedRobots(None, RobotsTxt.parse(body), size=len(body))
    assert calls_during(file, "https://a.example/aaa") < 20 * body.count(b"\n") + 20_000
    for url in ("/aab", "/b" * 1_000, "/?a=%26b", "/x"):
        assert calls_during(file, f"https://a.example{url}") < 5_000


def test_pace_of_very_many_records() -> None:
    """The first thousand records of a group count."""
    delays = "".join(f"Crawl-delay: {number}\n" for number in range(1, 1_100))
    file = ParsedRobots(None, RobotsTxt.parse(f"User-agent: *\n{delays}".encode()))
    assert file.crawl_delay(AGENT) == 1_099.0
    found = file.pace(AGENT)
    assert found is not None
    assert found.bounds[0].seconds == 1_000.0
