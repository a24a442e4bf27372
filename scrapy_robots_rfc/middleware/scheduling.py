"""What a request meets on its way to the queue: the scheduler, its filter of duplicates, `allowed_domains`."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.http.request import NO_CALLBACK

from scrapy_robots_rfc import _scrapy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrapy.crawler import Crawler

logger: logging.Logger = logging.getLogger(__name__)


class SchedulerBridge:
    """Gives requests that were set aside back to the scheduler, without the engine.

    :param crawler: the crawl; its engine need not be there yet.
    :param taken: called with each request that is about to be queued, while `listen` is on.
    """

    def __init__(self, crawler: Crawler, taken: Callable[[Request], object]) -> None:
        self._crawler, self._taken, self._listening = crawler, taken, False
        self._doorstop = Request("data:,", callback=NO_CALLBACK)
        kind = "DISK" if crawler.settings["JOBDIR"] else "MEMORY"
        usual = crawler.settings[f"SCHEDULER_{kind}_QUEUE"]
        for_start = crawler.settings[f"SCHEDULER_START_{kind}_QUEUE"] or usual
        self._backwards = {start: "Lifo" in str(queue) for start, queue in ((True, for_start), (False, usual))}

    def listen(self, *, on: bool) -> None:
        """Begin, or end, to listen for requests that are about to be queued: it costs every page some time."""
        if on != self._listening:
            self._listening = on
            manager = self._crawler.signals
            (manager.connect if on else manager.disconnect)(self._taken, signals.request_scheduled)

    def usable(self) -> bool:
        """Whether requests can be set aside, so that `put_back`, `keep_open` and `let_close` work."""
        return _scrapy.engine_slot(self._crawler) is not None

    def backwards(self, request: Request) -> bool:
        """Whether the scheduler hands out last what it was given first."""
        return self._backwards[bool(request.meta.get("is_start_request"))]

    def put_back(self, requests: list[Request], mark: Mapping[str, str]) -> None:
        """Give requests to the scheduler, past its filter of duplicates: they went through it when they were new.

        The signal `request_scheduled` was sent before, and is not sent again. A request that the scheduler does not
        take is dropped as the engine drops it.

        :param mark: goes into the meta of those that it takes.
        """
        slot = self._slot
        for request in requests:
            taken = False
            request.meta.update(mark)
            try:
                with _unfiltered(self._crawler, slot, request):
                    taken = slot.enqueue(request)
            except Exception:
                logger.exception("The scheduler failed on %s", request)
                continue
            finally:
                if not taken:
                    for key in mark:
                        del request.meta[key]
            if not taken:
                self._crawler.signals.send_catch_log(
                    signals.request_dropped, request=request, spider=self._crawler.spider
                )
        slot.wake()

    def hand_out(self, first: Callable[[], Request | None]) -> None:
        """Have the engine get other requests before those of the scheduler, as long as there are any."""
        self._slot.hand_out(first)

    def wake(self) -> None:
        """Have the engine ask for requests."""
        self._slot.wake()

    def keep_open(self) -> None:
        """Keep the engine from closing its scheduler: it takes a request of ours for one in progress."""
        self._slot.keep_open(self._doorstop, on=True)

    def let_close(self) -> None:
        """Undo `keep_open`."""
        self._slot.keep_open(self._doorstop, on=False)

    @property
    def _slot(self) -> _scrapy.EngineSlot:
        slot = _scrapy.engine_slot(self._crawler)
        assert slot is not None  # see `usable`
        return slot


class _NothingSeen:
    """A filter of duplicates that lets everything pass."""

    def __init__(self, real: object) -> None:
        self._real = real

    def request_seen(self, _request: Request) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the real one
        return getattr(self._real, name)


@contextlib.contextmanager
def _unfiltered(crawler: Crawler, slot: _scrapy.EngineSlot, request: Request) -> Iterator[None]:
    """Have a scheduler take a request that it has seen.

    Its `dont_filter` is not set for that, because a queue on disk would write it down with the request.
    """
    real = None if request.dont_filter else _scrapy.filter_of_duplicates(crawler)
    before = request.dont_filter
    if real is None:  # it is not filtered anyway, or the scheduler has no filter of Scrapy's kind
        request.dont_filter = True
    else:
        slot.replace_filter(_NothingSeen(real))
    try:
        yield
    finally:
        if real is None:
            request.dont_filter = before
        else:
            slot.replace_filter(real)


def is_offsite(crawler: Crawler, request: Request) -> bool:
    """Whether Scrapy drops a request on its way to the scheduler because of `allowed_domains`."""
    middleware = crawler.get_downloader_middleware(OffsiteMiddleware)
    if middleware is None or request.dont_filter or request.meta.get("allow_offsite"):
        return False
    assert crawler.spider is not None
    return not middleware.should_follow(request, crawler.spider)


class Duplicates:
    """The scheduler's filter of duplicates, for requests that never come to the scheduler.

    :param most: how many requests are remembered here, if the scheduler has no filter of Scrapy's kind.
    """

    def __init__(self, crawler: Crawler, most: int = 100_000) -> None:
        self._crawler = crawler
        self._most = most
        self._own: dict[bytes, None] = {}

    def seen(self, request: Request) -> bool:
        """Whether a request is a duplicate; it is remembered, logged, counted and signalled as by the scheduler."""
        if request.dont_filter:
            return False
        real = _scrapy.filter_of_duplicates(self._crawler)
        if not (self._seen(request) if real is None else real.request_seen(request)):
            return False
        if real is not None:
            real.log(request, self._crawler.spider)
        self._crawler.signals.send_catch_log(signals.request_dropped, request=request, spider=self._crawler.spider)
        return True

    def _seen(self, request: Request) -> bool:
        fingerprint = self._crawler.request_fingerprinter.fingerprint(request)
        if fingerprint in self._own:
            return True
        if len(self._own) >= self._most:
            del self._own[next(iter(self._own))]
        self._own[fingerprint] = None
        return False
