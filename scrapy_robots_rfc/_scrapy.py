"""What differs between Scrapy's versions and between its runtimes: asyncio, another reactor, no reactor.

In here: primitives to run, wait and time with, and every look into Scrapy's private parts. Nothing about robots.txt.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from scrapy import Request, signals
from scrapy.exceptions import CannotResolveHostError, DownloadTimeoutError
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import call_later
from twisted.internet.error import DNSLookupError
from twisted.internet.error import TimeoutError as TwistedTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: A slot of the downloader, Scrapy's or the user's own.
_Slot: TypeAlias = Any
#: What is raised for a host name that does not exist.
UNRESOLVED: tuple[type[Exception], ...] = (CannotResolveHostError, DNSLookupError)

#: What is raised where there was no answer in time; the last two, by handlers of others.
LATE: tuple[type[Exception], ...] = (DownloadTimeoutError, TwistedTimeoutError, TimeoutError)

# Commands whose crawl is one question of somebody at a terminal; view is a kind of fetch.
_ASKING = tuple(f"scrapy.commands.{name}" for name in ("fetch", "parse", "check"))

#: Sent after a robots.txt was parsed, from Scrapy 2.18 on; `None` before.
ROBOTS_PARSED: object | None = getattr(signals, "robots_parsed", None)


class GatedSlots:
    """A gate in slots of the downloader: each request of such a slot asks before it starts.

    Scrapy asks a slot `free_transfer_slots()` right before it takes the first request from the slot's queue and starts
    it, after delay and jitter have passed: nothing that anybody sets can get by there, and nothing of it is changed.

    :param wait: seconds until a request may start; 0, and it starts now; ``None``: `go_on` will be called for its slot.
    """

    def __init__(self, crawler: Crawler, wait: Callable[[Request], float | None]) -> None:
        self._crawler = crawler
        self._wait = wait
        self._classes: dict[type, type] = {}
        self._behind = 0.0

    def gate(self, key: str | None) -> tuple[bool, set[Request]] | None:
        """Put the gate into a slot, if it is not there yet.

        :param key: the name of the slot.
        :returns: whether the slot was used before, and the requests that are not in its queue: they are under way, are
            about to join it, or have just ended (see `sent`); ``None`` if the gate was there.
        :raises TypeError: the user's own downloader has no slots, or they cannot be gated.
        """
        slot = self._slot(key)
        if not hasattr(slot, "free_transfer_slots") or not hasattr(slot, "transferring"):
            raise TypeError("no slot of Scrapy's kind")
        if type(slot) in self._classes.values():
            return None
        slot.__class__ = self._gated(type(slot))  # a slot has no room for anything of ours
        return slot.lastseen > 0, slot.active - {request for request, _ in slot.queue}

    def sent(self, key: str, request: Request) -> bool:
        """Whether a request of a slot has been sent, and its transfer is not over.

        With asyncio, Scrapy begins a transfer one turn of the event loop after it took the request from the queue, and
        keeps the request in the slot for some turns after its end: within one turn those two look the same.
        """
        return request in getattr(self._slot(key), "transferring", ())

    def go_on(self, key: str, behind: float) -> None:
        """Let a slot ask again for the first request of its queue.

        :param behind: seconds by which it stands behind others, should it have to wait.
        """
        slot = self._slot(key)
        if slot is not None and slot.queue:
            self._behind = behind
            self._crawler.engine.downloader._process_queue(slot)
            self._behind = 0.0

    def give_up(self, key: str, wanted: Callable[[Request], bool], error: Exception) -> list[Request]:
        """Let requests fail that stand in the queue of a slot, and return them.

        :param wanted: which of them.
        """
        slot = self._slot(key)
        given = [] if slot is None else [entry for entry in slot.queue if wanted(entry[0])]
        for entry in given:
            slot.queue.remove(entry)
            entry[1].errback(error)
        return [request for request, _ in given]

    def _slot(self, key: str | None) -> _Slot:
        return getattr(self._crawler.engine.downloader, "slots", {}).get(key)

    def _gated(self, base: type) -> type:
        def free_transfer_slots(slot: _Slot) -> int:
            free: int = base.free_transfer_slots(slot)  # type: ignore[attr-defined]  # Scrapy's Slot
            return free if free <= 0 or not slot.queue or self._may_start(slot) else 0

        if base not in self._classes:
            members = {"__slots__": (), "free_transfer_slots": free_transfer_slots}
            self._classes[base] = type(f"Gated{base.__name__}", (base,), members)
        return self._classes[base]

    def _may_start(self, slot: _Slot) -> bool:
        seconds = self._wait(slot.queue[0][0])
        if seconds and not slot.latercall:  # as the downloader itself does when it waits for a delay
            slot.latercall = call_later(seconds + self._behind, self._crawler.engine.downloader._latercall, slot)
        return seconds == 0


def send_once(crawler: Crawler) -> None:
    """Let no download handler that is in use send a request again by itself when a kept connection breaks.

    Twisted and aiohttp do so at once, where neither the downloader nor RetryMiddleware sees it. Handlers of the user's
    own are left alone.
    """
    handlers = getattr(getattr(crawler.engine.downloader, "handlers", None), "_handlers", {})
    for handler in handlers.values():
        if hasattr(handler, "_pool"):
            handler._pool.retryAutomatically = False
        if hasattr(handler, "_session"):
            handler._session._retry_connection = False


def apply_addons(crawler: Crawler) -> bool:
    """Let the add-ons of a crawl change its settings, as they do when it starts; false where Scrapy has no such way."""
    load = getattr(getattr(crawler, "addons", None), "load_settings", None)
    if load is not None:
        load(crawler.settings)
    return load is not None


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is being closed, or is closed.

    Scrapy has no signal for the start of closing: it waits for the requests in progress, and `spider_closed` comes when
    that is over.
    """
    engine = crawler.engine
    slot = engine._slot
    return engine.spider is None or slot is None or slot.closing is not None


def asks_once(crawler: Crawler) -> bool:
    """Whether one of Scrapy's commands for a person who waits has this crawl: fetch, view, parse, check, shell.

    The first four put a `start` of their own into the spider's class; the shell makes an engine and crawls nothing.
    """
    start = getattr(crawler.spidercls, "start", None)
    return getattr(start, "__module__", "") in _ASKING or not getattr(crawler, "crawling", True)


def queued_metas(crawler: Crawler) -> Collection[dict[str, Any]]:
    """The meta of every request that waits in a queue of the downloader, for its slot's delay or concurrency."""
    # A downloader that the user put in Scrapy's place need not have slots.
    slots = getattr(crawler.engine.downloader, "slots", {})
    return [request.meta for slot in slots.values() for request, _ in slot.queue]


@contextlib.contextmanager
def one_more(crawler: Crawler) -> Iterator[None]:
    """Let the downloader have one request more than CONCURRENT_REQUESTS, and so count the others only.

    Else as many slow robots.txt files as that would stop the crawl.
    """
    downloader: Any = crawler.engine.downloader
    bounded = getattr(downloader, "total_concurrency", 0) > 0  # 0: no limit, or a downloader of the user's
    if bounded:
        downloader.total_concurrency += 1
    try:
        yield
    finally:
        if bounded:
            downloader.total_concurrency -= 1


def give_place(crawler: Crawler, request: Request) -> bool | None:
    """Let the transfer of a request hold no place in its slot, for as long as it still goes on. To be called once.

    Nobody can end a transfer that Scrapy has begun: it ends with its timeout.

    :returns: whether it is under way; ``None``: not yet, as it stands in the queue of its slot.
    """
    downloader: Any = crawler.engine.downloader
    slot: _Slot = getattr(downloader, "slots", {}).get(request.meta.get("download_slot"))
    if request not in getattr(slot, "transferring", ()):
        return None if request in getattr(slot, "active", ()) else False

    def left(request: Request) -> None:
        if request is given:
            slot.concurrency -= 1
            crawler.signals.disconnect(left, signals.request_left_downloader)

    given = request
    slot.concurrency += 1
    crawler.signals.connect(left, signals.request_left_downloader, weak=False)
    if slot.queue:
        downloader._process_queue(slot)
    return True


def unbound_pool(crawler: Crawler, scheme: str) -> bool:
    """Lift the bound that download handlers without a reactor put on their connections: CONCURRENT_REQUESTS, too.

    The engine keeps that bound on pages; on top of it come the robots.txt files, else slow ones would take all of it. A
    handler of another kind is left as it is.

    :returns: whether the handlers could be looked at; else that is logged, and need not be tried again.
    """
    try:
        handler: Any = crawler.engine.downloader.handlers._get_handler(scheme)
    except AttributeError as error:  # a downloader that the user put in Scrapy's place
        lost = "slow robots.txt files may take the connections of pages"
        logger.warning("DOWNLOADER keeps its download handlers elsewhere (%s): %s", error, lost)
        return False
    with contextlib.suppress(AttributeError):  # aiohttp
        handler._session.connector._limit = 0
    with contextlib.suppress(AttributeError):  # httpx, for the clients of proxies, which are made later
        kept = handler._limits.max_keepalive_connections
        handler._limits = type(handler._limits)(max_connections=None, max_keepalive_connections=kept)
    for name in ("_default_client", "_client"):  # httpx, in newer and older versions
        with contextlib.suppress(AttributeError):
            getattr(handler, name)._transport._pool._max_connections = sys.maxsize
    return True


class SchedulerBridge:
    """The way around the engine for requests that are set aside.

    :param crawler: the crawl; its engine need not be there yet.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._doorstop = Request("data:,", callback=NO_CALLBACK)
        kind = "DISK" if crawler.settings["JOBDIR"] else "MEMORY"
        usual = crawler.settings[f"SCHEDULER_{kind}_QUEUE"]
        for_start = crawler.settings[f"SCHEDULER_START_{kind}_QUEUE"] or usual
        self._backwards = {start: "Lifo" in str(queue) for start, queue in ((True, for_start), (False, usual))}

    def backwards(self, request: Request) -> bool:
        """Whether the scheduler hands out last what it was given first."""
        return self._backwards[bool(request.meta.get("is_start_request"))]

    def put_back(self, requests: list[Request], mark: Mapping[str, str]) -> None:
        """Give requests to the scheduler, past its filter of duplicates: they went through it when they were new.

        :param mark: goes into the meta of those that it takes.

        No `request_scheduled` is sent, since it was. One that the scheduler does not take is dropped as the engine
        would drop it.
        """
        slot = self._slot
        for request in requests:
            taken = False
            request.meta.update(mark)
            try:
                with _unfiltered(slot.scheduler, request):
                    taken = slot.scheduler.enqueue_request(request)
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
        if slot.closing is None:
            slot.nextcall.schedule()

    def keep_open(self) -> None:
        """Keep the engine from closing its scheduler: to it, one request is in progress."""
        self._slot.add_request(self._doorstop)

    def let_close(self) -> None:
        """Undo `keep_open`."""
        self._slot.remove_request(self._doorstop)

    @property
    def _slot(self) -> Any:  # noqa: ANN401 - private in Scrapy
        return self._crawler.engine._slot


class _NothingSeen:
    """A filter of duplicates that lets everything pass."""

    def __init__(self, real: object) -> None:
        self._real = real

    def request_seen(self, _request: Request) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the real one
        return getattr(self._real, name)


@contextlib.contextmanager
def _unfiltered(scheduler: Any, request: Request) -> Iterator[None]:  # noqa: ANN401 - the user's class
    """Have a scheduler take a request that it has seen.

    `dont_filter` would do, but is written to disk with the request, where nobody can take it back.
    """
    if request.dont_filter:
        yield
    elif hasattr(scheduler, "df"):  # Scrapy's own, its subclasses, and those that are made like it
        real, scheduler.df = scheduler.df, _NothingSeen(scheduler.df)
        try:
            yield
        finally:
            scheduler.df = real
    else:
        request.dont_filter = True
        try:
            yield
        finally:
            request.dont_filter = False
