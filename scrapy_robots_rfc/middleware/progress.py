"""What a crawl says while it runs: an INFO line from time to time while requests wait, and `robots()` in the console.

The line says how many requests wait for a robots.txt, or for a Crawl-delay.
It is logged at most once every LOGSTATS_INTERVAL, as Scrapy's own line of crawled pages is, and never if that is 0.
Waits of less than five seconds are not mentioned.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterator
from heapq import nlargest
from typing import Any, TypeVar

from scrapy.crawler import Crawler

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.core.text import many, short
from scrapy_robots_rfc.fetching.service import RobotsService
from scrapy_robots_rfc.middleware.deferred import DeferredRequests
from scrapy_robots_rfc.throttling.throttle import Throttle

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between two checks, and seconds from which on a wait is mentioned.
LONG = 5.0
#: Sites of each list that `robots()` shows.
SHOWN = 10


class Progress:
    """Logs from time to time how many requests wait, and prints in Scrapy's telnet console what for.

    :param deferred: has the requests that wait for a robots.txt.
    :param throttle: holds requests back.
    :param service: fetches files.
    """

    def __init__(
        self,
        crawler: Crawler,
        deferred: DeferredRequests[Any],
        throttle: Throttle,
        runtime: Runtime,
        service: RobotsService,
    ) -> None:
        self._crawler, self._deferred, self._throttle, self._runtime = crawler, deferred, throttle, runtime
        self._service = service
        telnet: Any = sys.modules.get("scrapy.extensions.telnet")  # Scrapy has loaded it where there is a console
        if telnet is not None:
            crawler.signals.connect(self._console_opened, telnet.update_telnet_vars)
        self._interval = crawler.settings.getfloat("LOGSTATS_INTERVAL")
        self._not_before = 0.0
        self._timer: Cancellable | None = None

    def begin(self) -> None:
        """Check from time to time, until `close`."""
        if self._interval > 0:
            self._timer = self._runtime.call_later(min(LONG, self._interval), self._look)

    def close(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()

    def _console_opened(self, telnet_vars: dict[str, Any]) -> None:
        telnet_vars["robots"] = self.show

    def _look(self) -> None:
        self.begin()
        now = self._runtime.clock()
        text = self.text() if now >= self._not_before else ""
        if text:
            self._not_before = now + self._interval
            logger.info(text, extra={"spider": self._crawler.spider})

    def text(self) -> str:
        """Return the line; empty where nothing has waited for long."""
        parts = []
        waiting = self._deferred.waiting()
        first = min(waiting, key=lambda origin: waiting[origin][1], default=None)
        seconds = 0.0 if first is None else self._runtime.clock() - waiting[first][1]
        if seconds >= LONG:
            requests = sum(count for count, _ in waiting.values())
            wait = f"{many(requests, 'request')} {'waits' if requests == 1 else 'wait'}"
            longest = f"longest: {first}, {seconds:.0f} s"
            parts.append(f"{wait} for the robots.txt of {many(len(waiting), 'site')} ({longest})")
        sites = self._throttle.held()
        held, seconds = sum(site.requests for site in sites), max((site.last for site in sites), default=0.0)
        if seconds >= LONG:
            due = f"{'it' if held == 1 else 'the last of them'} is due at {self._runtime.at(seconds)}"
            parts.append(f"{many(held, 'request')} held back by Crawl-delay or Request-rate, {due}")
        return "; ".join(parts)

    # What `robots()` prints.

    def show(self) -> None:
        """Print which sites wait for a robots.txt, which are paced, which fail, and what robots.txt has cost."""
        lines = (*self._waiting(), *self._paced(), *self._failing(), *self._cost())
        print("\n".join(lines))  # noqa: T201 - the console shows what is printed

    def _waiting(self) -> Iterator[str]:
        waiting = self._deferred.waiting()
        requests = sum(count for count, _ in waiting.values())
        yield f"waiting for a robots.txt: {many(len(waiting), 'site')}, {many(requests, 'request')}"

        def line(origin: Any) -> str:  # noqa: ANN401 - an `Origin`
            count, since = waiting[origin]
            end = self._service.queue.given_up(origin)
            until = "" if end is None else f", until {self._at(end)} at the latest"
            return f"{short(origin)}: {many(count, 'request')} since {self._at(since)}{until}"

        yield from _largest(waiting, lambda origin: waiting[origin][0], line)

    def _paced(self) -> Iterator[str]:
        if not self._throttle.keeps:
            return
        held = self._throttle.held()
        requests = many(sum(site.requests for site in held), "request")
        yield f"paced: {many(len(self._throttle.origins), 'site')}, {requests} held back for {many(len(held), 'site')}"
        yield from _largest(
            held,
            lambda site: site.requests,
            lambda site: (
                f"{short(site.name)}: {many(site.requests, 'request')}, one every {site.interval:g} s, "
                f"the next at {self._runtime.at(site.seconds)}, the last at {self._runtime.at(site.last)}"
            ),
        )

    def _failing(self) -> Iterator[str]:
        failing, now = self._service.origin_log.failing, self._runtime.clock()
        yield f"failing: {many(len(failing), 'site')}"

        def line(origin: Any) -> str:  # noqa: ANN401 - an `Origin`
            cause, since, again = failing[origin]
            when = f"at {self._at(again)}" if again > now else "with the next request"
            return f"{short(origin)}: {short(cause)}, since {self._at(since)}, asked again {when}"

        yield from _largest(failing, lambda origin: -failing[origin].since, line)

    def _cost(self) -> Iterator[str]:
        service, counted = self._service, self._crawler.stats
        assert counted is not None
        fetches, seconds = counted.get_value(stats.REQUEST_COUNT, 0), counted.get_value(stats.CRAWL_DELAY_ADDED, 0)
        yield f"cost: {many(fetches, 'request')} for robots.txt, {many(service.download.octets, 'octet')} received"
        yield f"  in memory: {many(len(service.memory), 'site')}, about {many(service.memory.octets, 'octet')}"
        yield f"  added by Crawl-delay and Request-rate: {seconds:,.1f} s"

    def _at(self, time: float) -> str:
        """Return a time of the clock as log lines have it."""
        return self._runtime.at(time - self._runtime.clock())


def _largest(sites: Collection[T], size: Callable[[T], float], line: Callable[[T], str]) -> Iterator[str]:
    """Yield a line for each of the largest sites, and how many more there are."""
    for site in nlargest(SHOWN, sites, key=size):
        yield f"  {line(site)}"
    if len(sites) > SHOWN:
        yield f"  and {many(len(sites) - SHOWN, 'site')} more"
