"""Where requests wait with a scheduler of another make, such as the one of scrapy-redis.

`scheduler_around` makes a subclass of the user's scheduler, by Scrapy's public interface. What may
not leave yet waits in memory, in a queue by origin, and goes back to the user's scheduler when the
crawl closes.
"""

import logging
from functools import cache
from typing import Any

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.misc import load_object

from scrapy_robots_rfc._scrapy import wake
from scrapy_robots_rfc.scheduling.gate import LOOKS, MARK, gate_of
from scrapy_robots_rfc.scheduling.queue import OriginPriorityQueue

logger: logging.Logger = logging.getLogger(__name__)

#: Requests that wait in memory at most. Beyond that they go back to the user's scheduler.
MOST_WAITING = 100_000

# The queue of one priority, by its path: its module loads SQLite, which a crawl with Scrapy's
# scheduler need not.
_IN_MEMORY = "scrapy.squeues.FifoMemoryQueue"


@cache
def scheduler_around(scheduler: str | type[BaseScheduler]) -> type[Any]:
    """Return a subclass of a scheduler in which a site that is slow, or paced, delays only itself.

    :param scheduler: the class, or its path; it has the interface of Scrapy's `BaseScheduler`.
    """
    base: type[Any] = load_object(scheduler)
    if issubclass(base, _Waiting):
        return base
    return type(
        base.__name__, (_Waiting, base), {"__module__": base.__module__, "__doc__": base.__doc__}
    )


class _Waiting:
    """What stands before the user's scheduler."""

    most_waiting: int = MOST_WAITING

    def open(self, spider: Spider) -> Any:  # noqa: ANN401 - as the scheduler has it
        """Open the scheduler."""
        self._waiting = OriginPriorityQueue(spider.crawler, load_object(_IN_MEMORY), "")
        self._gate = gate_of(spider.crawler)
        self._spider = spider
        self._logged = False
        return super().open(spider)  # type: ignore[misc]  # the user's scheduler

    def has_pending_requests(self) -> bool:
        """Whether anything is to be handed out, now or later."""
        return bool(len(self._waiting)) or super().has_pending_requests()  # type: ignore[misc]  # as above

    def enqueue_request(self, request: Request) -> bool:
        """Queue a request; one that comes back waits in memory."""
        if MARK in request.meta:
            self._waiting.push(request)
            return True
        return bool(super().enqueue_request(request))  # type: ignore[misc]  # as above

    def next_request(self) -> Request | None:
        """Return a request that may go now; ``None``: there is none now."""
        request = self._waiting.pop()
        if request is not None:
            return request
        for _ in range(LOOKS):
            found: Request | None = super().next_request()  # type: ignore[misc]  # as above
            if found is None:
                return None
            queued = self._gate.of(found)
            if self._gate.seconds(queued) == 0:
                self._gate.hand_out(found, queued)
                return found
            if len(self._waiting) >= self.most_waiting:
                if not self._logged:
                    self._logged = True
                    text = (
                        "%d requests wait in memory for a robots.txt or a turn: further ones go"
                        " back to the scheduler"
                    )
                    logger.warning(text, len(self._waiting), extra={"spider": self._spider})
                self._give_back(found)
                return None
            self._waiting.push(found)
        wake(self._spider.crawler)
        return None

    def close(self, reason: str) -> Any:  # noqa: ANN401 - as the scheduler has it
        """Give all that waits back to the scheduler, then close it."""
        for request in self._waiting.take_all():
            self._give_back(request)
        return super().close(reason)  # type: ignore[misc]  # as above

    def _give_back(self, request: Request) -> None:
        """Return a request to the scheduler, whose filter of duplicates has seen it."""
        filtered = request.dont_filter
        request.dont_filter = True
        super().enqueue_request(request)  # type: ignore[misc]  # as above
        request.dont_filter = filtered
