"""Large files in real crawls: they are parsed on a thread, also when they were packed, and say what small ones say."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc.cache.memory import LARGE
from scrapy_robots_rfc.core.ruleset import Ruleset
from tests.support.crawling import Pages, crawl
from tests.support.service_crawls import run
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response

    from scrapy_robots_rfc import RobotsService
    from tests.support.service_crawls import Clock

pytestmark = pytest.mark.reactor

RULES = "User-agent: *\n" + "Disallow: /other\n" * (LARGE // 17) + "Disallow: /x\n"
DAY = 86_400.0


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each index was built on another thread than that of the event loop."""
    found: list[bool] = []
    build, here = Ruleset._build, threading.get_ident()

    def noted(ruleset: Ruleset) -> list[str]:
        found.append(threading.get_ident() != here)
        return build(ruleset)

    monkeypatch.setattr(Ruleset, "_build", noted)
    return found


async def verdicts(service: RobotsService, site: Site) -> list[bool]:
    """Of some pages, one by one."""
    return [(await service.robots(site.url(page))).decide(site.url(page)).allowed for page in ("/x", "/y", "/x/1")]


@ensureDeferred
async def test_large_file_is_parsed_on_a_thread(site: Site, elsewhere: list[bool]) -> None:
    """Its first questions find the index built."""
    site.replies["/robots.txt"] = robots(RULES)

    async def script(service: RobotsService) -> None:
        assert await verdicts(service, site) == [False, True, False]

    await run(script)
    assert elsewhere == [True]


@ensureDeferred
async def test_small_file_is_parsed_at_once(site: Site, elsewhere: list[bool]) -> None:
    """A thread would take longer than the parser does."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /x\n")

    async def script(service: RobotsService) -> None:
        assert await verdicts(service, site) == [False, True, False]

    await run(script)
    assert elsewhere == [False]


@ensureDeferred
async def test_large_file_that_was_packed(site: Site, other: Site, elsewhere: list[bool]) -> None:
    """It is parsed again on a thread, without another fetch and without another signal."""
    site.replies["/robots.txt"] = other.replies["/robots.txt"] = robots(RULES)

    async def script(service: RobotsService) -> None:
        service.memory._most_parsed = 1  # one file is kept parsed
        for _ in range(2):
            assert await verdicts(service, site) == [False, True, False]
            assert await verdicts(service, other) == [False, True, False]

    await run(script)
    assert (site.fetches, other.fetches) == (1, 1)
    assert elsewhere == [True] * 4


@ensureDeferred
async def test_large_file_whose_refresh_fails(site: Site, clock: Clock, elsewhere: list[bool]) -> None:
    """The earlier copy that is obeyed then is parsed on a thread, too (2.4)."""
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
    """A request of a product token of its own."""
    return Request(url, meta={"robotstxt_user_agent": agent})


def short(outcomes: dict[str, int | BaseException]) -> dict[str, object]:
    """Path -> status, or the name of the exception."""
    found = {url.rpartition("/")[2]: outcome for url, outcome in outcomes.items()}
    return {path: what if isinstance(what, int) else type(what).__name__ for path, what in found.items()}


GROUPS = "".join(f"User-agent: bot{name}\nDisallow: /{name}\n" for name in "abc") + RULES


@ensureDeferred
async def test_each_product_token_has_it_read_on_the_thread(site: Site, elsewhere: list[bool]) -> None:
    """Pages of a token that asks for the first time wait for the thread, and each gets its verdict."""
    site.replies["/robots.txt"] = robots(GROUPS)
    requests = [by(f"bot{name}", site.url(f"/{path}{name}")) for name in "abc" for path in ("a", "b", "c")]
    result = await crawl(requests)
    expected = {path + name: "RobotsDisallowed" if path == name else 200 for name in "abc" for path in "abc"}
    assert short(result.outcomes) == expected
    assert site.fetches == 1
    assert elsewhere == [True] * 4  # the crawl's own token has it read first


class Following(Pages):
    """Follows from the first page to others, by product tokens of their own."""

    def parse(self, response: Response, **_: Any) -> Iterator[Request]:
        """Note the page, and ask for two more."""
        super().parse(response)
        if response.url.endswith("/first"):
            for path in "ab":
                yield by("bota", response.urljoin(path)).replace(callback=self.parse)


@ensureDeferred
async def test_dropped_before_it_is_queued_only_if_it_is_read(site: Site, elsewhere: list[bool]) -> None:
    """A request whose product token has not asked yet goes to the downloader, which has the thread."""
    site.replies["/robots.txt"] = robots(GROUPS)
    early = {"SPIDER_MIDDLEWARES": {"scrapy_robots_rfc.RfcEarlyMiddleware": 100}, "ROBOTSTXT_EARLY": True}
    result = await crawl([site.url("/first")], early, spider=Following)
    assert short(result.outcomes) == {"first": 200, "b": 200}
    assert (result.stat("forbidden"), result.stat("early")) == (1, 0)
    assert elsewhere == [True] * 2


@ensureDeferred
async def test_thread_that_hangs_holds_up_no_crawl(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some time a large file is parsed where it is needed."""
    site.replies["/robots.txt"] = robots(RULES)
    over, build, here = threading.Event(), Ruleset._build, threading.get_ident()

    def hanging(ruleset: Ruleset) -> list[str]:
        assert threading.get_ident() == here or over.wait(60)
        return build(ruleset)

    monkeypatch.setattr(Ruleset, "_build", hanging)
    monkeypatch.setattr("scrapy_robots_rfc.fetching.service._PARSING", 0.05)

    async def script(service: RobotsService) -> None:
        assert await verdicts(service, site) == [False, True, False]
        assert not over.is_set()

    try:
        await run(script)
    finally:
        over.set()
