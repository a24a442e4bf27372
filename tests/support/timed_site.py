"""A site that records when each request arrives, and functions about these times."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc import _runtime
from tests.support.crawling import Crawl, Pages
from tests.support.site import Asked, Reply, Site, robots

if TYPE_CHECKING:
    import pytest

#: The Crawl-delay of the sites, in seconds.
DELAY = 0.2

PACED = robots(f"User-agent: *\nCrawl-delay: {DELAY}\n")


@dataclass
class Clocked(Site):
    """The site.

    :param late: seconds that a request takes to arrive, by target.
    """

    late: dict[str, float] = field(default_factory=dict)
    arrivals: list[tuple[float, str]] = field(default_factory=list)

    def reply(self, asked: Asked) -> Reply:
        self.closed.wait(self.late.get(asked.target, 0))
        self.arrivals.append((time.monotonic(), asked.target))
        return super().reply(asked)


def gaps(*sites: Clocked) -> list[float]:
    """Return the seconds between successive requests to some sites, including robots.txt."""
    times = sorted(when for site in sites for when, _ in site.arrivals)
    return [after - before for before, after in pairwise(times)]


def before(others: Clocked, site: Clocked) -> int:
    """Return how many requests to `others` came before the last request to `site`."""
    return sum(when < site.arrivals[-1][0] for when, _ in others.arrivals)


def urls(site: Site, count: int) -> list[str]:
    """Return URLs of pages of a site."""
    return [site.url(f"/{number}") for number in range(count)]


def fetched(result: Crawl) -> int:
    """Return how many pages were fetched."""
    return sum(outcome == 200 for outcome in result.outcomes.values())


class Following(Pages):
    """Requests further pages after the first one: some one by one, then the others at once."""

    def __init__(self, *args: Any, following: Any = (), one_by_one: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.following = list(following)
        self.one_by_one = one_by_one

    def parse(self, response: Any, **_: Any) -> Any:
        super().parse(response)
        while self.following:
            request = self.following.pop(0)
            yield request.replace(callback=self.parse, errback=self.failed, dont_filter=True)
            if self.one_by_one:
                self.one_by_one -= 1
                return


def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the time of day to noon, UTC."""
    monkeypatch.setattr(_runtime.Runtime, "utc", lambda _: datetime.time(12))
