"""A fast site beside a site whose pages are slow."""

from __future__ import annotations

import threading

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from tests.support.crawling import crawl
from tests.support.site import Asked, Reply, Site


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
