"""What a request meets on its way to the queue: the scheduler and its filter of duplicates."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scrapy import Request, signals
from scrapy.crawler import Crawler

from scrapy_robots_rfc import _scrapy

logger: logging.Logger = logging.getLogger(__name__)


class SchedulerBridge(_scrapy.EngineSlot):
    """Gives requests that were set aside back to the scheduler, without the engine.

    :param taken: called with each request that is about to be queued, while `listen` is on.
    """

    def __init__(self, crawler: Crawler, taken: Callable[[Request], object]) -> None:
        super().__init__(crawler)
        self._taken, self._listening = taken, False
        #: Whether the scheduler keeps requests on disk.
        self.on_disk: bool = bool(crawler.settings["JOBDIR"])
        kind = "DISK" if self.on_disk else "MEMORY"
        usual = crawler.settings[f"SCHEDULER_{kind}_QUEUE"]
        for_start = crawler.settings[f"SCHEDULER_START_{kind}_QUEUE"] or usual
        self._backwards = {start: "Lifo" in str(queue) for start, queue in ((True, for_start), (False, usual))}

    def listen(self, *, on: bool) -> None:
        """Begin, or end, to listen for requests that are about to be queued: it costs every page some time."""
        if on != self._listening:
            self._listening = on
            manager = self._crawler.signals
            (manager.connect if on else manager.disconnect)(self._taken, signals.request_scheduled)

    @property
    def closing(self) -> bool:
        """Whether the spider is being closed: what goes back to the scheduler now stays there."""
        return _scrapy.is_closing(self._crawler)

    def backwards(self, request: Request) -> bool:
        """Whether the scheduler hands out last what it was given first."""
        return self._backwards[bool(request.meta.get("is_start_request"))]

    def put_back(self, requests: list[Request], mark: Mapping[str, str]) -> None:
        """Give requests to the scheduler, past its filter of duplicates: they went through it when they were new.

        The signal `request_scheduled` was sent before, and is not sent again. A request that the scheduler does not
        take is dropped as the engine drops it.

        :param mark: goes into the meta of those that it takes.
        """
        for request in requests:
            request.meta.update(mark)
            taken: bool | None = None
            try:
                with _unfiltered(self._crawler, request):
                    taken = self.enqueue(request)
            except Exception:
                logger.exception("The scheduler failed on %s", request)
            if not taken:
                for key in mark:
                    del request.meta[key]
            if taken is False:
                self._crawler.signals.send_catch_log(
                    signals.request_dropped, request=request, spider=self._crawler.spider
                )
        self.wake()


@contextlib.contextmanager
def _unfiltered(crawler: Crawler, request: Request) -> Iterator[None]:
    """Have the scheduler take a request that it has seen.

    The request gets no `dont_filter` for that where the scheduler's filter can let it pass instead, because a queue on
    disk would write it down with the request.
    """
    known: Any = _scrapy.filter_of_duplicates(crawler)
    seen, filtered = getattr(known, "request_seen", None), request.dont_filter
    try:
        known.request_seen = lambda _: False
    except AttributeError:  # there is no filter of Scrapy's kind, or it is one with slots
        request.dont_filter = True
    try:
        yield
    finally:
        request.dont_filter = filtered
        with contextlib.suppress(AttributeError):
            known.request_seen = seen
