"""What `robots()` prints in Scrapy's telnet console: which sites the crawl waits for, and what robots.txt has cost."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.core.text import many, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from scrapy.crawler import Crawler

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.fetching.service import RobotsService
    from scrapy_robots_rfc.middleware.deferred import DeferredRequests
    from scrapy_robots_rfc.throttling.throttle import Throttle

T = TypeVar("T")

#: Sites of each list that are shown.
SHOWN = 10
# Characters of an origin or of a cause that are shown: a site may make them long.
_LONGEST = 100


class LiveView(NamedTuple):
    """What a crawl waits for, and what fails, at the time when it is asked.

    :param deferred: has the requests that wait for a robots.txt.
    :param throttle: holds requests back; ``None``: no interval is kept.
    :param service: fetches files.
    """

    crawler: Crawler
    deferred: DeferredRequests[Any]
    throttle: Throttle | None
    runtime: Runtime
    service: RobotsService

    def show(self) -> None:
        """Print which sites wait for a robots.txt, which are paced, which fail, and what robots.txt has cost."""
        lines = (*self._waiting(), *self._paced(), *self._failing(), *self._cost())
        print("\n".join(lines))  # noqa: T201 - the console shows what is printed

    def _waiting(self) -> Iterator[str]:
        waiting = self.deferred.waiting()
        requests = sum(count for count, _ in waiting.values())
        yield f"waiting for a robots.txt: {many(len(waiting), 'site')}, {many(requests, 'request')}"

        def line(origin: Any) -> str:  # noqa: ANN401 - an `Origin`
            count, since = waiting[origin]
            end = self.service.queue.given_up(origin)
            until = "" if end is None else f", until {self._at(end)} at the latest"
            return f"{_short(origin)}: {many(count, 'request')} since {self._at(since)}{until}"

        yield from _largest(waiting, lambda origin: waiting[origin][0], line)

    def _paced(self) -> Iterator[str]:
        if self.throttle is None:
            return
        held = self.throttle.held()
        requests = many(sum(site.requests for site in held), "request")
        yield f"paced: {many(len(self.throttle.names), 'site')}, {requests} held back for {many(len(held), 'site')}"
        yield from _largest(
            held,
            lambda site: site.requests,
            lambda site: (
                f"{_short(site.name)}: {many(site.requests, 'request')}, one every {site.interval:g} s, "
                f"the next at {self.runtime.at(site.seconds)}, the last at {self.runtime.at(site.last)}"
            ),
        )

    def _failing(self) -> Iterator[str]:
        failing, now = self.service.origin_log.failing, self.runtime.clock()
        yield f"failing: {many(len(failing), 'site')}"

        def line(origin: Any) -> str:  # noqa: ANN401 - an `Origin`
            cause, since, again = failing[origin]
            when = f"at {self._at(again)}" if again > now else "with the next request"
            return f"{_short(origin)}: {_short(cause)}, since {self._at(since)}, asked again {when}"

        yield from _largest(failing, lambda origin: -failing[origin].since, line)

    def _cost(self) -> Iterator[str]:
        service, counted = self.service, self.crawler.stats
        assert counted is not None
        fetches, seconds = counted.get_value(stats.REQUEST_COUNT, 0), counted.get_value(stats.CRAWL_DELAY_ADDED, 0)
        yield f"cost: {many(fetches, 'request')} for robots.txt, {many(service.download.octets, 'octet')} received"
        yield f"  in memory: {many(len(service.memory), 'site')}, about {many(service.memory.octets, 'octet')}"
        yield f"  added by Crawl-delay and Request-rate: {seconds:,.1f} s"

    def _at(self, time: float) -> str:
        """Return a time of the clock as log lines have it."""
        return self.runtime.at(time - self.runtime.clock())


def _largest(sites: Collection[T], size: Callable[[T], float], line: Callable[[T], str]) -> Iterator[str]:
    """Yield a line for each of the largest sites, and how many more there are."""
    for site in nlargest(SHOWN, sites, key=size):
        yield f"  {line(site)}"
    if len(sites) > SHOWN:
        yield f"  and {many(len(sites) - SHOWN, 'site')} more"


def _short(text: object) -> str:
    """Return what may come from a site so that it neither acts on a terminal nor fills it."""
    return printable(str(text)[:_LONGEST])
