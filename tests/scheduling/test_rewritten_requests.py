"""The interval of a site whose requests are sent to a gateway or a rendering service."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar
from urllib.parse import quote

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached

from tests.support.crawling import Serial, crawl, plugged
from tests.support.site import PAGE, Asked, Reply, Site, robots
from tests.support.timed_site import DELAY, PACED, fetched, urls


class Rewriting:
    """Replaces requests for a site by requests for a gateway, as scrapy-splash does."""

    gateway: ClassVar[Site]
    site: ClassVar[Site]

    def process_request(self, request: Request) -> Request | None:
        parts = urlparse_cached(request)
        if parts.port != self.site.port or parts.path == "/robots.txt":
            return None
        return self.sent(request, self.gateway.url(f"/?url={quote(request.url)}"))

    def sent(self, request: Request, url: str) -> Request | None:
        return request.replace(url=url)


class InPlace(Rewriting):
    """Changes the URL of requests for a site to the gateway, just before they are sent."""

    def sent(self, request: Request, url: str) -> Request | None:
        request._set_url(url)
        return None


@pytest.fixture
def gateway(paced: Site, other: Site) -> Site:
    """A gateway without a Crawl-delay."""
    Rewriting.site, Rewriting.gateway = paced, other
    return other


def seen(site: Site, gateway: Site) -> list[float]:
    """Return when the site was requested, directly or through the gateway."""
    times = [when for when, target in gateway.arrivals if target != "/robots.txt"]
    return sorted([*times, *(when for when, _ in site.arrivals)])


def least(times: list[float]) -> float:
    """Return the shortest time between two of them."""
    return min(after - before for before, after in pairwise(times))


class Idle:
    """A middleware that does nothing."""

    def process_request(self, request: Request) -> None:
        """Do nothing."""


@pytest.mark.parametrize("before", [{}, {Idle: 50}], ids=["", "after another middleware"])
@ensureDeferred
async def test_rewritten_in_place(paced: Site, gateway: Site, before: dict[type, int]) -> None:
    """A request whose URL is changed late keeps the interval of the origin that was judged."""
    settings = plugged(InPlace, 800)
    settings["DOWNLOADER_MIDDLEWARES"] |= before
    result = await crawl(urls(paced, 4), settings)
    assert fetched(result) == 4
    assert paced.targets == ["/robots.txt"]
    times = seen(paced, gateway)
    assert len(times) == 5
    assert least(times) >= DELAY


@ensureDeferred
async def test_new_request(paced: Site, gateway: Site) -> None:
    """A new request for a gateway is judged and paced by the gateway's robots.txt."""
    gateway.replies["/robots.txt"] = robots(
        f"User-agent: *\nCrawl-delay: {DELAY}\nDisallow: /*1$\n"
    )
    result = await crawl(urls(paced, 4), plugged(Rewriting, 800))
    assert fetched(result) == 3
    assert paced.targets == ["/robots.txt"]
    assert least(sorted(when for when, _ in gateway.arrivals)) >= DELAY


@ensureDeferred
async def test_retry_of_a_rewritten_request(paced: Site, gateway: Site) -> None:
    """A retry is made from the gateway's URL, and paced as a request for the gateway."""
    bad: set[str] = set()

    def answer(asked: Asked) -> Reply:
        first = asked.target not in bad
        bad.add(asked.target)
        return Reply(503) if first else PAGE

    pages = urls(paced, 2)
    gateway.replies.update({f"/?url={quote(url)}": answer for url in pages})
    result = await crawl(pages, plugged(InPlace, 800, RETRY_ENABLED=True))
    assert fetched(result) == 2
    assert gateway.fetches == 1
    first = {target: when for when, target in reversed(gateway.arrivals) if target != "/robots.txt"}
    assert least(sorted([*first.values(), *(when for when, _ in paced.arrivals)])) >= DELAY


class Everything(InPlace):
    """Changes the URL of requests for robots.txt as well."""

    def process_request(self, request: Request) -> Request | None:
        if urlparse_cached(request).port != self.site.port:
            return None
        return self.sent(request, self.gateway.url(f"/?url={quote(request.url)}"))


@ensureDeferred
async def test_robots_txt_through_a_gateway(paced: Site, gateway: Site) -> None:
    """A robots.txt that is refreshed through a gateway waits for the interval of the site."""
    target = f"/?url={quote(paced.url('/robots.txt'))}"
    gateway.replies[target] = PACED
    settings = plugged(Everything, 800, ROBOTS_CACHE_MAX_AGE=DELAY / 2)
    result = await crawl(urls(paced, 6), settings, spider=Serial)
    assert fetched(result) == 6
    assert gateway.targets.count(target) > 1
    assert least(seen(paced, gateway)) >= DELAY
