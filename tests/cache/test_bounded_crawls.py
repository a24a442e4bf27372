"""Crawls of more origins than the memory may have."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import robots_service
from tests.support.crawling import Pages, crawl
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path
    from typing import Any

FORBID = robots("User-agent: *\nDisallow: /x\n")


@pytest.fixture
def sites() -> Iterator[list[Site]]:
    """Five origins."""
    with ExitStack() as stack:
        yield [stack.enter_context(Site({"/robots.txt": FORBID})) for _ in range(5)]


class Asking(Pages):
    """A spider that asks for verdicts on all pages, one by one."""

    async def start(self) -> AsyncIterator[Any]:
        service = robots_service(self.crawler)
        urls, self.requests = self.requests, []
        for url in (request.url for request in urls):
            self.outcomes[url] = int((await service.robots(url)).decide(url).allowed)
        async for request in super().start():
            yield request


@ensureDeferred
async def test_evicted_origins_come_back_from_the_store(sites: list[Site], tmp_path: Path) -> None:
    """With memory for one origin and a store, each robots.txt is fetched once."""
    pages = [site.url(f"/{letter}{turn}") for turn in range(4) for site in sites for letter in "xy"]
    address = f"sqlite:///{tmp_path / 'robots.sqlite'}"
    result = await crawl(pages, {"ROBOTS_CACHE_SIZE": 1, "ROBOTS_CACHE": address}, spider=Asking)
    assert [site.fetches for site in sites] == [1] * 5
    assert result.outcomes == {url: int("/y" in url) for url in pages}
    assert result.stat("cache/evictions") == 19
    assert result.stat("cache/store_hits") == 15
