"""A fast site beside sites that hang."""

from __future__ import annotations

import socket
import threading

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from tests.support.crawling import close_when, crawl
from tests.support.site import Asked, Reply, Site
from tests.support.timed_site import urls


@pytest.mark.parametrize("places", [16, 4])
@ensureDeferred
async def test_fifty_sites_that_hang(site: Site, places: int) -> None:
    """Fifty hanging robots.txt files hardly slow down a fast site."""
    site.late = {f"/{number}": 0.02 for number in range(100)}
    places_of = {"CONCURRENT_REQUESTS": places, "CONCURRENT_REQUESTS_PER_DOMAIN": places}
    all_fetched = close_when(lambda _: len(site.pages) == 100)
    with socket.create_server(("0.0.0.0", 0), backlog=200) as silent:
        port = silent.getsockname()[1]
        hanging = [f"http://127.3.0.{1 + number}:{port}/" for number in range(50)]
        settings = {**places_of, "ROBOTS_TIMEOUT": 60}
        result = await crawl([*hanging, *urls(site, 100)], settings, prepare=all_fetched)
    # It takes about half a second with four requests at a time, except on a busy machine.
    assert result.stats["elapsed_time_seconds"] < 10


@pytest.mark.reactor
@ensureDeferred
async def test_pages_of_a_slow_site() -> None:
    """The slot with the fewest pages under way is next, so slow pages do not take all places."""
    all_asked = threading.Event()
    in_time: list[bool] = []

    def slow(_: Asked) -> Reply:
        in_time.append(all_asked.wait(20))
        return Reply(body=b"page")

    with Site() as site, Site() as other:

        def fast(asked: Asked) -> Reply:
            if len({*site.pages, asked.target}) == 40:
                all_asked.set()
            return Reply(body=b"page")

        site.replies |= {f"/{number}": fast for number in range(40)}
        other.replies |= {f"/{number}": slow for number in range(40)}
        requests = [
            Request(each.url(f"/{number}"), meta={"download_slot": slot})
            for number in range(40)
            for each, slot in ((other, "slow"), (site, "fast"))
        ]
        settings = {"CONCURRENT_REQUESTS": 4, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}
        # No robots.txt is fetched, so all pages are ready at once.
        await crawl(requests, {**settings, "ROBOTS_EXEMPT": ["127.0.0.1"]})
    assert all(in_time)
