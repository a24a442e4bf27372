"""A fast site beside sites that hang."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from tests.support.crawling import Pages, close_when, crawl
from tests.support.site import Asked, Reply, Site

PAGES = 100
#: ROBOTS_TIMEOUT, which is longer than the crawl.
LATE = 60


def answer(_: Asked) -> Reply:
    """Answer after 20 ms, so that the number of concurrent requests matters."""
    time.sleep(0.02)
    return Reply(body=b"page", headers=(("Content-Type", "text/html"),))


async def seconds_beside(hanging: list[str], places: int) -> float:
    """Crawl a fast site beside other pages, and return the seconds."""
    with Site() as site:
        pages = [site.url(f"/{number}") for number in range(PAGES)]
        site.replies |= {f"/{number}": answer for number in range(PAGES)}
        began = time.monotonic()
        await crawl(
            [*hanging, *pages],
            {
                "CONCURRENT_REQUESTS": places,
                "CONCURRENT_REQUESTS_PER_DOMAIN": places,
                "ROBOTS_TIMEOUT": LATE,
            },
            spider=Pages,
            prepare=close_when(lambda _: len(set(site.pages)) == PAGES),
        )
        assert len(site.pages) == PAGES
        return time.monotonic() - began


@pytest.mark.parametrize("places", [16, 4])
@ensureDeferred
async def test_fifty_sites_that_hang(places: int) -> None:
    """Fifty hanging robots.txt files hardly slow down a fast site."""
    with socket.create_server(("0.0.0.0", 0), backlog=200) as silent:
        port = silent.getsockname()[1]
        hanging = [f"http://127.3.0.{1 + number}:{port}/" for number in range(50)]
        alone = await seconds_beside([], places)
        beside = await seconds_beside(hanging, places)
    # The crawl takes about as long as alone, except on a busy machine.
    assert beside < 2 * alone + 3 < LATE


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
