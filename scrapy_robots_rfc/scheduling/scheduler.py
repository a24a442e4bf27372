"""Park requests in front of a third-party scheduler, such as the scheduler of scrapy-redis.

`scheduler_around` makes a subclass of the user's scheduler, by Scrapy's public interface. A request
whose robots.txt is unknown, or whose turn has not come, is parked in memory, in a queue by origin.
It goes back to the user's scheduler when the crawl closes.
"""

import logging
from functools import cache, partial
from typing import Any

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.utils.misc import load_object

from scrapy_robots_rfc._scrapy import wake_engine
from scrapy_robots_rfc.scheduling.gate import (
    MAX_LOOKS,
    Gate,
    gate_of,
    restore_filter,
    skip_filter,
)
from scrapy_robots_rfc.scheduling.queue import OriginPriorityQueue

logger: logging.Logger = logging.getLogger(__name__)

#: Maximum number of requests parked in memory. Further ones go back to the user's scheduler.
MAX_PARKED = 100_000

# The class for the requests of one priority, by its path: its module loads SQLite, which a crawl
# with Scrapy's scheduler does not need.
_IN_MEMORY = "scrapy.squeues.FifoMemoryQueue"


@cache
def scheduler_around(scheduler: str | type[BaseScheduler]) -> type[Any]:
    """Return a subclass of a scheduler in which a slow or paced site delays only itself.

    :param scheduler: the class, or its path; it has the interface of Scrapy's `BaseScheduler`.
        Anything else is returned as it is, so that Scrapy reports it.
    """
    base: Any = load_object(scheduler)
    is_scheduler = isinstance(base, type) and issubclass(base, BaseScheduler)
    if not is_scheduler or issubclass(base, _Parking):
        return base  # type: ignore[no-any-return]  # a class that Scrapy refuses, or one made here
    return type(
        base.__name__, (_Parking, base), {"__module__": base.__module__, "__doc__": base.__doc__}
    )


class _Parking:
    """Parks requests in front of the user's scheduler."""

    max_parked: int = MAX_PARKED

    def open(self, spider: Spider) -> Any:  # noqa: ANN401 - as the scheduler has it
        """Open the scheduler, if it can be opened."""
        self._spider = spider
        self._crawler: Crawler = spider.crawler
        self._parked = OriginPriorityQueue(self._crawler, load_object(_IN_MEMORY), "")
        self._gate: Gate = gate_of(self._crawler)
        self._logged = False
        open_scheduler = getattr(super(), "open", None)
        return None if open_scheduler is None else open_scheduler(spider)

    def has_pending_requests(self) -> bool:
        """Whether any request is waiting."""
        if len(self._parked):
            return True
        has_pending: bool = super().has_pending_requests()  # type: ignore[misc]
        return has_pending

    def next_request(self) -> Request | None:
        """Return a request that may be handed out now, or `None`.

        It comes from the parked requests, or else from the user's scheduler, whose requests are
        parked until one need not wait.
        """
        request = self._parked.pop()
        if request is None:
            request = self._next_unparked()
        if request is None:
            # The requests that were parked just now get their wake-up times here. Otherwise, they
            # would wait until something else calls this method.
            request = self._parked.pop()
        return request

    def _next_unparked(self) -> Request | None:
        """Return a request from the user's scheduler, and park those that have to wait."""
        for _ in range(MAX_LOOKS):
            request: Request | None = super().next_request()  # type: ignore[misc]  # as above
            if request is None:
                return None
            restore_filter(request)
            queued = self._gate.queued_origin(request)
            has_parked = bool(queued.parts)  # then this request is not the next of its origin
            if not has_parked and self._gate.wait(queued, partial(_peeked, request)) == 0:
                self._gate.hand_out(request, queued)
                self._gate.forget(queued)
                return request
            if len(self._parked) >= self.max_parked:
                self._log_bound()
                self._return(request)
                self._gate.forget(queued)
                return None
            self._parked.push(request)
        wake_engine(self._crawler)
        return None

    def close(self, reason: str) -> Any:  # noqa: ANN401 - as the scheduler has it
        """Return all parked requests to the scheduler, then close it, if it can be closed."""
        close = getattr(super(), "close", None)
        try:
            for request in self._parked.take_all():
                self._return(request)
        finally:
            closed = None if close is None else close(reason)
        return closed

    def _return(self, request: Request) -> None:
        """Return a request to the user's scheduler."""
        skip_filter(request)
        text = "Lost %s, because the scheduler did not take it back"
        extra = {"spider": self._spider}
        try:
            if not super().enqueue_request(request):  # type: ignore[misc]  # as above
                logger.error(text, request, extra=extra)
        except Exception:
            logger.exception(text, request, extra=extra)
        restore_filter(request)

    def _log_bound(self) -> None:
        """Warn once that the maximum of parked requests is reached."""
        if self._logged:
            return
        self._logged = True
        text = "%d requests are parked in memory, which is the maximum, so more are returned to %s"
        name = type(self).__name__
        logger.warning(text, len(self._parked), name, extra={"spider": self._spider})


def _peeked(request: Request) -> Request:
    """Return the next request of an origin: the one that the user's scheduler just returned."""
    return request
