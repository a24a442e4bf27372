"""scrapy-redis with a real Redis server: a site that is slow, or paced, delays only itself.

What waits is in Redis again when the crawl is closed.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from redis import Redis
from scrapy import Request

from bench import paced_sites
from bench.paced import fleet
from scrapy_robots_rfc.scheduling.scheduler import scheduler_around
from tests.support.crawling import Pages, close_when, records
from tests.support.documents import block, settings
from tests.support.recipes import crawl_by
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler

    from tests.support.redis_server import RedisServer

RECIPE = block("docs/plugins.md", "python", "scrapy_redis")


class Filtered(Pages):
    """Asks for pages that a filter of duplicates looks at, and is closed when it has enough."""

    enough = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Filtered:
        """Look for the end."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        if cls.enough:
            close_when(lambda _: len(spider.outcomes) >= cls.enough)(crawler)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Ask for all of them."""
        for url in self.requests:
            yield Request(str(url), callback=self.parse, errback=self.failed)


class Hundred(Filtered):
    """Has enough of a hundred pages."""

    enough = 100


@pytest.fixture
def recipe(redis_server: RedisServer) -> dict[str, Any]:
    """The recipe of the documents."""
    Redis.from_url(redis_server.url).flushall()
    return settings(RECIPE.replace("redis://127.0.0.1:6379/0", redis_server.url))


@pytest.fixture
def silent() -> Iterator[list[str]]:
    """Two pages of each of fifty sites that take connections and never answer."""
    with socket.create_server(("0.0.0.0", 0), backlog=200) as server:
        port = server.getsockname()[1]
        yield [f"http://127.3.0.{1 + n}:{port}/{page}" for page in range(2) for n in range(50)]


def left(recipe: dict[str, Any]) -> int:
    """How many requests are in Redis."""
    server = Redis.from_url(recipe["REDIS_URL"])
    return sum(server.zcard(key) for key in server.keys("*:requests"))


@ensureDeferred
async def test_hanging_sites(recipe: dict[str, Any], silent: list[str]) -> None:
    """Fifty sites whose robots.txt hangs delay no page of another site."""
    with paced_sites.serving(0) as sites:
        pages = [*silent, *sites.urls(2, 1, 100)]
        result = await crawl_by(recipe, pages, spider=Hundred)
    assert set(result.outcomes.values()) == {200}
    assert left(recipe) == len(silent)


@ensureDeferred
async def test_paced_sites(recipe: dict[str, Any]) -> None:
    """Twenty sites that ask for a long interval delay no page of others."""
    with paced_sites.serving(50) as sites:
        paced = sites.urls(1, 20, 3)
        result = await crawl_by(recipe, [*paced, *sites.urls(2, 5, 20)], spider=Hundred)
    assert set(result.outcomes.values()) == {200}
    assert left(recipe) == len(paced)


@ensureDeferred
async def test_more_than_may_wait(recipe: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """Beyond what may wait in memory, requests go back to Redis, which the log says once."""
    gate = threading.Event()
    threading.Timer(1.5, gate.set).start()
    small = type("Small", (scheduler_around(recipe["SCHEDULER"]),), {"most_waiting": 3})
    with Site({"/robots.txt": robots("", gate=gate)}) as site:
        pages = [site.url(f"/{number}") for number in range(20)]
        result = await crawl_by({**recipe, "SCHEDULER": small}, pages, spider=Filtered)
        assert set(site.pages) == {f"/{number}" for number in range(20)}
    assert [result.outcomes[url] for url in pages] == [200] * 20
    assert len([text for text in records(caplog) if "wait in memory" in text]) == 1
    assert left(recipe) == 0


def test_a_worker_that_is_told_to_end(redis_server: RedisServer) -> None:
    """Of two workers with one queue one gets SIGTERM: no page is lost, none comes twice.

    The intervals that sites ask for are obeyed.
    """
    seen = fleet(redis_server.url, 0.5, (5, 4), (5, 20), workers=2)
    assert seen.pages == (120, 120)
    assert seen.least >= 0.5
