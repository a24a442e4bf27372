"""What differs between Scrapy's versions, and every private name of Scrapy, that is, one it may change at any time.

`_TABLE` lists those names. Each is looked for before it is used. If it is missing, what it serves is switched off.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.http.request import NO_CALLBACK

logger: logging.Logger = logging.getLogger(__name__)

#: An object of Scrapy's, of a library below it, or of the user's that stands in its place.
Private: TypeAlias = Any

# Each line that is not indented says what is lost without the names below it. Before the dot of a name is the class
# or module that has it. The names are in Scrapy 2.15.0 and 2.19.0; one with an @ is in that version only.
_TABLE = """
Requests that wait for a robots.txt hold places of CONCURRENT_REQUESTS, and JOBDIR does not keep them
    ExecutionEngine._slot _Slot.closing _Slot.scheduler _Slot.nextcall _Slot.add_request _Slot.remove_request
A crawl that is told to end waits for robots.txt files, and for turns that other workers take
    ExecutionEngine._slot _Slot.closing
Requests that waited for a robots.txt stand in JOBDIR with dont_filter
    Scheduler.df
A request that waits in other middlewares does not keep the Crawl-delay of its site
    ExecutionEngine.downloader Downloader.active
Requests that were sent before a Crawl-delay was known do not keep it
    ExecutionEngine.downloader Downloader.slots Downloader.active Slot.active
What Crawl-delay adds is counted with what DOWNLOAD_DELAY causes
    ExecutionEngine.downloader Downloader.slots Downloader.get_slot_key Slot.delay
Requests leave the scheduler before their Crawl-delay is over, and are set aside
    DownloaderAwarePriorityQueue.pqueues DownloaderAwarePriorityQueue.pqfactory DownloaderAwarePriorityQueue.key
    DownloaderAwarePriorityQueue._downloader_interface
    DownloaderInterface.get_slot_key DownloaderInterface.stats DownloaderInterface._active_downloads
A slow robots.txt holds up the pages of its downloader slot
    ExecutionEngine.downloader Downloader.slots Downloader._process_queue
    Slot.queue Slot.active Slot.transferring Slot.concurrency
Slow robots.txt files take places of CONCURRENT_REQUESTS
    ExecutionEngine.downloader Downloader.total_concurrency
A robots.txt of an FTP site is read to its end, however long it is, and for as long as that takes
    ExecutionEngine.downloader Downloader.handlers DownloadHandlers._get_handler
robots.txt files are not kept in the HTTP cache, and not looked up there
    HttpCacheMiddleware.policy HttpCacheMiddleware.storage
`fetch` in `scrapy shell` waits for a site that is down (ROBOTS_UNREACHABLE_BACKOFF)
    Crawler.crawling
"""

#: Sent after a robots.txt was parsed, from Scrapy 2.18 on; `None` before.
ROBOTS_PARSED: object | None = getattr(signals, "robots_parsed", None)
#: The method in which Scrapy's handlers without a reactor read an answer; it is found in tracebacks, and not called.
READING = "_read_response"

# Crawl -> the missing private names that it was warned of.
_TOLD: WeakKeyDictionary[Crawler, set[str]] = WeakKeyDictionary()

#: The private names -> the versions of Scrapy in which each was seen, and what is lost without it.
PRIVATE: dict[str, tuple[str, str]] = {}
for _lost, _names in re.findall(r"^(\S.*)\n((?: .*\n)+)", _TABLE, re.MULTILINE):
    for _name, _, _version in (_entry.partition("@") for _entry in _names.split()):
        PRIVATE[_name] = _version or "2.15.0 and 2.19.0", "; ".join([*PRIVATE.get(_name, ())[1:], _lost])


def _there(owner: Private, key: str) -> bool:
    """Whether an object has the private name of a row."""
    return hasattr(owner, key.partition(".")[2])


def _tell(crawler: Crawler | None, owner: str, key: str) -> None:
    told = set() if crawler is None else _TOLD.setdefault(crawler, set())
    if key not in told:
        told.add(key)
        seen, lost = PRIVATE[key]
        text = "%s: %s has no `%s` (a private name of Scrapy %s)"
        logger.warning(text, lost, owner, key.partition(".")[2], seen, extra={"spider": crawler and crawler.spider})


def _has(crawler: Crawler | None, owner: Private, names: str, *, own: bool = False) -> bool:
    """Whether an object has private names. The first that it lacks is warned of once in a crawl, with what is lost.

    :param names: as in the table; what they have in common is written once, as in `Slot.queue active`.
    :param own: whether to warn of an object, too, that the user has put in the place of Scrapy's.
    """
    for key in _keys(names):
        if not _there(owner, key):
            kind = owner if isinstance(owner, type) else type(owner)
            if own or _is(kind, key.partition(".")[0]):
                _tell(crawler, getattr(owner, "__name__", kind.__name__), key)
            return False
    return True


@cache
def _keys(names: str) -> list[str]:
    """Return what `_has` is called with as keys of `PRIVATE`."""
    place, _, rest = names.partition(".")
    return [f"{place}.{name}" for name in rest.split()]


def _find(crawler: Crawler | None, owner: Private, *path: str, own: bool = False) -> Private:
    """Return what is reached from an object by private names, one after the other; ``None`` where one is missing."""
    for key in path:
        if owner is None or not _has(crawler, owner, key, own=own):
            return None
        owner = getattr(owner, key.partition(".")[2])
    return owner


def _is(kind: type, name: str) -> bool:
    """Whether a class has a name, or inherits from one that has: some cannot be imported without a library."""
    return any(base.__name__ == name for base in kind.__mro__)


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is being closed, or is closed. `spider_closed` comes only when no request is in progress."""
    if not _has(crawler, crawler.engine, "ExecutionEngine._slot"):
        return False
    slot = _find(crawler, crawler.engine, "ExecutionEngine._slot")
    return slot is None or _find(crawler, slot, "_Slot.closing") is not None


class EngineSlot:
    """The scheduler of a crawl, and the requests that its engine has in progress, while its spider is open.

    :param crawler: the crawl; its engine need not be there yet.
    """

    _doorstop = Request("data:,", callback=NO_CALLBACK)

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @property
    def _slot(self) -> Private:
        slot = _find(self._crawler, self._crawler.engine, "ExecutionEngine._slot")
        names = "_Slot.closing scheduler nextcall add_request remove_request"
        return slot if slot is not None and _has(self._crawler, slot, names) else None

    def usable(self) -> bool:
        """Whether there is what all else here needs; only `wake` does nothing without it."""
        return self._slot is not None

    def enqueue(self, request: Request) -> bool:
        """Give a request to the scheduler, and say whether it took it."""
        return bool(self._slot.scheduler.enqueue_request(request))

    def hand_out(self, first: Callable[[], Request | None]) -> None:
        """Have the scheduler hand out other requests before its own.

        :param first: returns the next of them; ``None``: there is none now.
        """
        scheduler = self._slot.scheduler
        own = scheduler.next_request
        scheduler.next_request = lambda: first() or own()

    def wake(self) -> None:
        """Have the engine ask the scheduler for requests, unless the spider is being closed."""
        slot = self._slot
        if slot is not None and slot.closing is None:
            slot.nextcall.schedule()

    def keep_open(self, *, on: bool) -> None:
        """Keep the engine from closing its scheduler, or no longer: it takes a request of ours for one in progress."""
        slot = self._slot
        (slot.add_request if on else slot.remove_request)(self._doorstop)


def filter_of_duplicates(crawler: Crawler) -> Private:
    """The one of the scheduler; ``None`` where it has none of Scrapy's kind."""
    return _find(crawler, crawler.engine, "ExecutionEngine._slot", "_Slot.scheduler", "Scheduler.df")


def _downloader(crawler: Crawler) -> Private:
    return _find(crawler, crawler.engine, "ExecutionEngine.downloader")


def _slots(crawler: Crawler) -> dict[str | None, Private]:
    return _find(crawler, _downloader(crawler), "Downloader.slots") or {}


def active_requests(crawler: Crawler) -> Collection[Request]:
    """The requests that the downloader has, those among them that its middlewares still have."""
    return _find(crawler, _downloader(crawler), "Downloader.active") or ()


def in_downloader(crawler: Crawler) -> list[Request]:
    """The requests that are in slots of the downloader: all middlewares have let them through."""
    slots = _slots(crawler)
    place = [(request, slots.get(request.meta.get("download_slot"))) for request in active_requests(crawler)]
    return [request for request, slot in place if request in (_find(crawler, slot, "Slot.active") or ())]


def slot_delay(crawler: Crawler, request: Request) -> float:
    """The seconds that the user's settings, or AutoThrottle, put between two requests of a request's slot."""
    find = _find(crawler, _downloader(crawler), "Downloader.get_slot_key")
    slot = None if find is None else _slots(crawler).get(find(request))
    return _find(crawler, slot, "Slot.delay") or 0.0


def key_by(
    crawler: Crawler,
    queue: Private,
    name: Callable[[Request], str],
    first: Callable[[Callable[[str], int]], str | None],
) -> Callable[[Request], str] | None:
    """Have a DownloaderAwarePriorityQueue keep requests apart by their slot and a name, and hand them out as told.

    :param name: has no space; it is what follows the last space of the key.
    :param first: called when a request is to be handed out, in place of Scrapy's own choice, which looks at every key;
        with a function that returns how many requests of a slot are under way. Returns a key, or ``None``.
    :returns: what gives the key of a request; ``None`` if it cannot be done.
    """
    kept = _has(crawler, queue, "DownloaderAwarePriorityQueue.pqueues pqfactory key _downloader_interface")
    interface = queue._downloader_interface if kept else None
    if interface is None or not _has(crawler, interface, "DownloaderInterface.get_slot_key stats _active_downloads"):
        return None
    slot, active = interface.get_slot_key, interface._active_downloads
    interface.get_slot_key = lambda request: f"{slot(request)} {name(request)}"
    interface.stats = lambda _: [(0, key)] if (key := first(active)) is not None else []
    by: Callable[[Request], str] = interface.get_slot_key
    return by


def queued_metas(crawler: Crawler) -> Collection[dict[str, Any]]:
    """The meta of every request that waits in a queue of the downloader, for its slot's delay or concurrency."""
    queues = [_find(crawler, slot, "Slot.queue") or () for slot in _slots(crawler).values()]
    return [request.meta for queue in queues for request, _ in queue]


@contextlib.contextmanager
def one_more(crawler: Crawler) -> Iterator[None]:
    """Let the downloader have one request more than CONCURRENT_REQUESTS: as many slow robots.txt would stop it."""
    downloader = _downloader(crawler)
    if not _find(crawler, downloader, "Downloader.total_concurrency"):  # 0: there is no limit
        yield
        return
    downloader.total_concurrency += 1
    try:
        yield
    finally:
        downloader.total_concurrency -= 1


def give_place(crawler: Crawler, request: Request) -> Private:
    """Let the transfer of a request hold no place in its slot, until `end_late`. To be called once.

    :returns: its slot, if it is under way, or else false; ``None``: not yet, as it stands in the queue of its slot.
    """
    slot: Private = _slots(crawler).get(request.meta.get("download_slot"))
    process = None if slot is None else _find(crawler, _downloader(crawler), "Downloader._process_queue")
    if process is None or not _has(crawler, slot, "Slot.transferring active queue concurrency"):
        return False
    if request not in slot.transferring:
        return None if request in slot.active else False
    slot.concurrency += 1
    if slot.queue:
        process(slot)
    return slot


def end_late(slot: Private) -> None:
    """Take back what `give_place` gave a slot: the transfer has ended."""
    slot.concurrency -= 1


def handler_of(crawler: Crawler, scheme: str) -> Private:
    """The download handler of a scheme; ``None`` where it cannot be had, which was warned of."""
    find = _find(crawler, _downloader(crawler), "Downloader.handlers", "DownloadHandlers._get_handler", own=True)
    return None if find is None else find(scheme)


def cache_of(crawler: Crawler) -> tuple[Private, Private] | None:
    """Policy and storage of the HTTP cache; ``None`` where it is off, or does not show them."""
    found: Private = crawler.get_downloader_middleware(HttpCacheMiddleware)
    known = found is not None and _has(crawler, found, "HttpCacheMiddleware.policy storage")
    return (found.policy, found.storage) if known else None


def asks_once(crawler: Crawler) -> bool:
    """Whether a person waits for one page: fetch, view, parse and check bring a `start`, the shell crawls nothing."""
    module = getattr(getattr(crawler.spidercls, "start", None), "__module__", "")
    commands = ("scrapy.commands.fetch", "scrapy.commands.parse", "scrapy.commands.check")  # view is a kind of fetch
    return module in commands or _find(crawler, crawler, "Crawler.crawling") is False
