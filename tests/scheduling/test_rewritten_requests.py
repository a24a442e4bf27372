"""The pace of a site whose requests are sent to somewhere else, as gateways and rendering
services have it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached

from tests.support.crawling import SETTINGS, crawl
from tests.support.site import PAGE, Asked, Reply, robots
from tests.support.timed_site import DELAY, PACED, Clocked, Following, fetched, urls

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.reactor


class Rewriting:
    """Sends the pages of a site to a gateway.

    A new request, which Scrapy schedules, as scrapy-splash does.
    """

    gateway: ClassVar[Clocked]
    site: ClassVar[Clocked]

    def process_request(self, request: Request) -> Request | None:
        """Put the gateway's URL in its place."""
        parts = urlparse_cached(request)
        if parts.port != self.site.port or parts.path == "/robots.txt":
            return None
        return self.sent(request, self.gateway.url(f"/?url={quote(request.url)}"))

    def sent(self, request: Request, url: str) -> Request | None:
        """Return the new request."""
        return request.replace(url=url)


class InPlace(Rewriting):
    """The same, with the request that there is, as it is about to be sent."""

    def sent(self, request: Request, url: str) -> Request | None:
        """Change it."""
        request._set_url(url)
        return None


@pytest.fixture
def gateway() -> Iterator[Clocked]:
    """Answers for others, and asks for nothing."""
    with Clocked() as running:
        yield running


@pytest.fixture
def site(gateway: Clocked) -> Iterator[Clocked]:
    """A site that asks for the delay."""
    with Clocked({"/robots.txt": PACED}) as running:
        Rewriting.site, Rewriting.gateway = running, gateway
        yield running


def through(middleware: type[Rewriting]) -> dict[str, Any]:
    """The settings of a crawl with a middleware."""
    return {"DOWNLOADER_MIDDLEWARES": {**SETTINGS["DOWNLOADER_MIDDLEWARES"], middleware: 800}}


def seen(site: Clocked, gateway: Clocked) -> list[float]:
    """When the site was asked for something, by itself or through the gateway."""
    times = [when for when, target in gateway.arrivals if target != "/robots.txt"]
    return sorted([*times, *(when for when, _ in site.arrivals)])


def least(times: list[float]) -> float:
    """The shortest time between two of them."""
    return min(after - before for before, after in pairwise(times))


@ensureDeferred
async def test_rewritten_in_place(site: Clocked, gateway: Clocked) -> None:
    """The interval is that of the origin that was judged, not that of the gateway."""
    result = await crawl(urls(site, 4), through(InPlace))
    assert fetched(result) == 4
    assert site.targets == ["/robots.txt"]
    times = seen(site, gateway)
    assert len(times) == 5
    assert least(times) >= DELAY


@ensureDeferred
async def test_new_request(site: Clocked, gateway: Clocked) -> None:
    """A new request for the gateway is judged and paced by its own URL.

    The gateway's robots.txt counts for it.
    """
    gateway.replies["/robots.txt"] = robots(
        f"User-agent: *\nCrawl-delay: {DELAY}\nDisallow: /*1$\n"
    )
    result = await crawl(urls(site, 4), through(Rewriting))
    assert fetched(result) == 3
    assert site.targets == ["/robots.txt"]
    assert least(sorted(when for when, _ in gateway.arrivals)) >= DELAY


@ensureDeferred
async def test_retry_of_a_rewritten_request(site: Clocked, gateway: Clocked) -> None:
    """A retry is a new request, and is made from the gateway's URL.

    It is paced as one of the gateway's.
    """
    bad: set[str] = set()

    def answer(asked: Asked) -> Reply:
        first = asked.target not in bad
        bad.add(asked.target)
        return Reply(503) if first else PAGE

    pages = urls(site, 2)
    gateway.replies.update({f"/?url={quote(url)}": answer for url in pages})
    result = await crawl(pages, {**through(InPlace), "RETRY_ENABLED": True})
    assert fetched(result) == 2
    assert gateway.fetches == 1
    first = {target: when for when, target in reversed(gateway.arrivals) if target != "/robots.txt"}
    assert least(sorted([*first.values(), *(when for when, _ in site.arrivals)])) >= DELAY


@pytest.mark.parametrize("middleware", [Rewriting, InPlace])
@ensureDeferred
async def test_made_from_a_rewritten_one(
    site: Clocked, gateway: Clocked, middleware: type[Rewriting]
) -> None:
    """A request with the meta of one that was sent to a gateway is paced by its own origin only."""

    class Carrying(Following):
        def parse(self, response: Any, **_: Any) -> Any:
            for request in super().parse(response):
                yield request.replace(
                    meta={**response.meta, "download_slot": "other", "dont_obey_robotstxt": True}
                )

    with Clocked() as other:
        following = [Request(url) for url in urls(other, 10)]
        first = Request(site.url("/0"))
        result = await crawl([first], through(middleware), spider=Carrying, following=following)
        assert fetched(result) == 11
        assert least([when for when, _ in other.arrivals]) < DELAY


class Everything(InPlace):
    """The same, for robots.txt as well."""

    def process_request(self, request: Request) -> Request | None:
        """Put the gateway's URL in its place."""
        if urlparse_cached(request).port != self.site.port:
            return None
        return self.sent(request, self.gateway.url(f"/?url={quote(request.url)}"))


@ensureDeferred
async def test_robots_txt_through_a_gateway(site: Clocked, gateway: Clocked) -> None:
    """A robots.txt that is asked for again through a gateway waits for the interval of its own
    origin.
    """
    target = f"/?url={quote(site.url('/robots.txt'))}"
    gateway.replies[target] = PACED
    first, *following = map(Request, urls(site, 10))
    settings = {**through(Everything), "ROBOTS_CACHE_MAX_AGE": DELAY / 2}
    result = await crawl([first], settings, spider=Following, following=following, one_by_one=10)
    assert fetched(result) == 10
    assert gateway.targets.count(target) > 1
    assert least(seen(site, gateway)) >= DELAY


@ensureDeferred
async def test_gateway_that_asks_for_a_pace(site: Clocked, gateway: Clocked) -> None:
    """A gateway's own interval passes between requests to it."""
    site.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 0.01\n")
    gateway.replies["/robots.txt"] = PACED
    result = await crawl(urls(site, 3), through(Rewriting))
    assert fetched(result) == 3
    assert least(sorted(when for when, _ in gateway.arrivals)) >= DELAY
