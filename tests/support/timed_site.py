"""Sites with a Crawl-delay, and functions about the times of requests."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.support.crawling import Crawl, Pages
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request

#: The Crawl-delay of the sites, in seconds.
DELAY = 0.2

PACED = robots(f"User-agent: *\nCrawl-delay: {DELAY}\n")


def gaps(site: Site) -> list[float]:
    """Return the seconds between successive requests to a site, including robots.txt."""
    return [after - before for (before, _), (after, _) in pairwise(sorted(site.arrivals))]


def urls(site: Site, count: int) -> list[str]:
    """Return URLs of pages of a site."""
    return [site.url(f"/{number}") for number in range(count)]


def fetched(result: Crawl) -> int:
    """Return how many pages were fetched."""
    return sum(outcome == 200 for outcome in result.outcomes.values())


class Following(Pages):
    """Requests further pages at once after the first one."""

    following: Iterable[Request]

    def parse(self, response: Any, **_: Any) -> Any:
        super().parse(response)
        following, self.following = self.following, ()
        yield from map(self.watched, following)
