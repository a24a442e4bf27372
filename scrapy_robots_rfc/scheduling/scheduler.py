"""Hold requests in memory for a third-party scheduler, such as the one from scrapy-redis.

`scheduler_around` creates a subclass of the user's scheduler, using only Scrapy's public interface.
If a request's robots.txt is unknown, or its turn has not come, the request is put aside in memory,
in an `OriginPriorityQueue`. It is returned to the user's scheduler when the crawl closes.
"""

import logging
from functools import cache, partial
from itertools import repeat
from typing import Any

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.squeues import FifoMemoryQueue
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object

from scrapy_robots_rfc._runtime import log_once
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

#: Maximum number of requests put aside in memory. Any more are returned to the user's scheduler.
MAX_ASIDE = 100_000


@cache
def scheduler_around(scheduler: str | type[BaseScheduler]) -> type[Any]:
    """Return a subclass of a scheduler in which a slow or paced site delays only itself.

    :param scheduler: a class with the interface of Scrapy's `BaseScheduler`, or its path.
        Anything else is returned unchanged, so that Scrapy can report it.
    """
    base: Any = load_object(scheduler)
    is_scheduler = isinstance(base, type) and issubclass(base, BaseScheduler)
    if not is_scheduler or issubclass(base, _PuttingAside):
        return base  # type: ignore[no-any-return]  # Scrapy rejects it, or it was created here
    # In logs, the subclass appears under the name of the user's class.
    return type(
        base.__name__,
        (_PuttingAside, base),
        {"__module__": base.__module__, "__doc__": base.__doc__},
    )


class _PuttingAside:
    """Puts requests aside for the user's scheduler, whose methods are called with `super`."""

    max_aside: int = MAX_ASIDE

    def open(self, spider: Spider) -> Any:  # noqa: ANN401 - whatever the scheduler returns
        """Prepare to put requests aside, and open the scheduler if it has an `open` method."""
        self._spider = spider
        self._crawler: Crawler = spider.crawler
        self._aside = OriginPriorityQueue(self._crawler, FifoMemoryQueue, key="")
        self._gate: Gate = gate_of(self._crawler)
        open_scheduler = getattr(super(), "open", None)
        return None if open_scheduler is None else open_scheduler(spider)

    def has_pending_requests(self) -> bool:
        """Return whether any requests are waiting."""
        return bool(len(self._aside) or super().has_pending_requests())  # type: ignore[misc]

    def next_request(self) -> Request | None:
        """Return a request that may be handed out now, or `None`.

        Requests that were put aside are tried first. After that, requests from the user's scheduler
        are put aside until there is one that doesn't have to wait.
        """
        return self._aside.pop() or self._take_from_scheduler()

    def _take_from_scheduler(self) -> Request | None:
        """Take requests from the user's scheduler until one may be handed out. Put others aside.

        :returns: that request, or `None` if none was found in this call.
        """
        for _ in range(MAX_LOOKS):
            request: Request | None = super().next_request()  # type: ignore[misc]
            if request is None:
                return None
            restore_filter(request)  # if it is a copy of one that `_return` put back
            # This may create an entry for the origin. Unless the request is put aside, it is
            # forgotten below.
            queued_origin = self._gate.queued_origin(request, urlparse_cached(request))
            # Requests of the same origin that were put aside earlier come first.
            is_next = not queued_origin.parts
            peek = partial(next, repeat(request))  # always returns this request
            permit = self._gate.permit(queued_origin, peek) if is_next else None
            if permit is not None:
                self._gate.hand_out(request, queued_origin, permit)
                self._gate.forget(queued_origin)
                return request
            if len(self._aside) >= self.max_aside:
                text = (
                    "%d requests are waiting in memory, which is the maximum, so more are returned"
                    " to %s"
                )
                arguments = (len(self._aside), type(self).__name__)
                extra = {"spider": self._spider}
                log_once(self._crawler, logger, logging.WARNING, text, *arguments, extra=extra)
                self._return(request)
                self._gate.forget(queued_origin)
                return None
            self._aside.push(request)
        # Continue in the next call, so that the loop doesn't block other events for too long.
        wake_engine(self._crawler)
        return None

    def close(self, reason: str) -> Any:  # noqa: ANN401 - whatever the scheduler returns
        """Return the requests put aside to the scheduler, then close it if it can be closed."""
        close = getattr(super(), "close", None)
        try:
            for request in self._aside.take_all():
                self._return(request)
        finally:
            closed = None if close is None else close(reason)
        return closed

    def _return(self, request: Request) -> None:
        """Return a request to the user's scheduler, bypassing its dupefilter."""
        skip_filter(request)
        text = "Lost %s, because the scheduler did not take it back"
        extra = {"spider": self._spider}
        try:
            if not super().enqueue_request(request):  # type: ignore[misc]
                logger.error(text, request, extra=extra)
        except Exception:
            logger.exception(text, request, extra=extra)
        # Undo `skip_filter`, because the scheduler may have kept this object. If it has stored a
        # copy, `_take_from_scheduler` undoes it there.
        restore_filter(request)
