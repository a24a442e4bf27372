"""All code that depends on private Scrapy names.

Scrapy may change these names at any time. If one listed in `_LOST` is missing, the feature that
needs it is disabled and a single warning is logged. The names in `READING` and `_SMALL_POOLS` are
only compared with other names, so if Scrapy changes them, there is no warning.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.pqueues import ScrapyPriorityQueue

from scrapy_robots_rfc._runtime import log_once

logger: logging.Logger = logging.getLogger(__name__)

#: A private Scrapy object, or a third-party replacement for it.
Private: TypeAlias = Any

# What a crawl loses -> the private names, any of which may be missing. All of them exist in Scrapy
# 2.15.0 and 2.19.0.
_LOST: Mapping[str, tuple[str, ...]] = {
    "A crawl that is stopped waits for robots.txt files, and only wakes up every 5 s": (
        "ExecutionEngine._slot",
    ),
    "A crawl that is stopped waits for robots.txt files and turns": ("_Slot.closing",),
    "Requests leave the scheduler up to 5 s after their robots.txt is known or their turn comes": (
        "_Slot.nextcall",
    ),
    "A turn is not released when another middleware drops its request": (
        "ExecutionEngine.downloader",
        "Downloader.active",
    ),
    "Slots with the fewest pages under way are not preferred": ("Downloader.slots", "Slot.active"),
    "The time added by Crawl-delay includes DOWNLOAD_DELAY": ("Slot.delay",),
    "The time that a robots.txt request waits in its slot counts against ROBOTS_TIMEOUT": (
        "Slot.queue",
    ),
    "robots.txt requests count against CONCURRENT_REQUESTS": ("Downloader.total_concurrency",),
    "A robots.txt of an FTP site is read to its end, however long that takes": (
        "Downloader.handlers",
        "DownloadHandlers._get_handler",
    ),
    "`fetch` in `scrapy shell` waits for an unreachable site (ROBOTS_UNREACHABLE_BACKOFF)": (
        "Crawler.crawling",
    ),
    "Start requests leave the scheduler before their robots.txt is known": (
        "ScrapyPriorityQueue._start_queues",
    ),
}
#: Private name -> what a crawl loses without it.
PRIVATE: Mapping[str, str] = {key: lost for lost, keys in _LOST.items() for key in keys}
# Private name -> attribute name.
_ATTRIBUTES = {key: key.partition(".")[2] for key in PRIVATE}

#: Signal sent after a robots.txt was parsed. `None` before Scrapy 2.18.
ROBOTS_PARSED: object | None = getattr(signals, "robots_parsed", None)
#: The method where Scrapy's reactorless handlers read a response. We don't call it, but only look
#: for it in tracebacks.
READING = "_read_response"

# Scrapy's reactorless download handlers, which open at most CONCURRENT_REQUESTS connections.
_SMALL_POOLS = ("downloader.handlers._aiohttp.", "downloader.handlers._httpx.")

# Commands that replace `start`. The view command is a subclass of fetch.
_ONE_PAGE_COMMANDS = ("scrapy.commands.fetch", "scrapy.commands.parse", "scrapy.commands.check")


def _get(crawler: Crawler, owner: Private, key: str) -> Private:
    """Return a private attribute. If it is missing, warn once and return `None`.

    :param owner: an instance of the class that the name belongs to, or of a class that replaces
        it, or `None` if there is no such object.
    :param key: the name, as in `PRIVATE`.
    """
    if owner is None:
        return None
    try:
        return getattr(owner, _ATTRIBUTES[key])
    except AttributeError:
        _warn(crawler, key)
        return None


def _warn(crawler: Crawler, key: str) -> None:
    """Warn once per crawl about what is lost without a private name."""
    text = f"{PRIVATE[key]}: this version of Scrapy has no `%s`"
    log_once(crawler, logger, logging.WARNING, text, key, extra={"spider": crawler.spider})


def _slot(crawler: Crawler) -> Private:
    """Return the engine's slot, which exists while a spider is open (not a downloader slot)."""
    return _get(crawler, crawler.engine, "ExecutionEngine._slot")


def _downloader(crawler: Crawler) -> Private:
    """Return the engine's downloader."""
    return _get(crawler, crawler.engine, "ExecutionEngine.downloader")


def _slots(crawler: Crawler) -> dict[str, Private]:
    """Return the downloader's slots by name."""
    slots: dict[str, Private] | None = _get(crawler, _downloader(crawler), "Downloader.slots")
    return {} if slots is None else slots  # keep an empty dict, which will be filled later


def is_closing(crawler: Crawler) -> bool:
    """Return whether the spider is closing or closed, or not open yet although there is an engine.

    The `spider_closed` signal can't be used, because it is sent after all requests have finished.
    """
    slot = _slot(crawler)
    if slot is None:
        # The engine only has a slot while a spider is open. But don't assume that the spider is
        # closed if there is no engine yet, or if the private name is missing.
        return hasattr(crawler.engine, "_slot")
    return _get(crawler, slot, "_Slot.closing") is not None  # a Deferred once it is closing


def has_ended(crawler: Crawler) -> bool:
    """Return whether a crawl has ended, or has failed to start."""
    if _get(crawler, crawler, "Crawler.crawling") is not False:
        return False
    # In Scrapy's shell, `crawling` is never True, but the engine has a slot.
    try:
        return _slot(crawler) is None
    except RuntimeError:  # from Scrapy 2.19 on, if the engine could not be created
        return True


def wake_engine(crawler: Crawler) -> None:
    """Make the engine request more from the scheduler soon, unless the spider is closed."""
    nextcall = _get(crawler, _slot(crawler), "_Slot.nextcall")
    if nextcall is not None:
        nextcall.schedule()


def is_under_way(crawler: Crawler, request: Request) -> bool:
    """Return whether a request is in the downloader or one of its middlewares.

    Also return True if that is unknown.
    """
    active = _get(crawler, _downloader(crawler), "Downloader.active")
    return active is None or request in active


def page_counter(crawler: Crawler) -> Callable[[str], int]:
    """Return a function that takes the name of a downloader slot and counts its pages in progress.

    The queue calls it often, so the slots are only looked up once.
    """
    slots = _slots(crawler)

    def count(key: str) -> int:
        slot = slots.get(key)
        return 0 if slot is None else len(_get(crawler, slot, "Slot.active") or ())

    return count


def count_active(crawler: Crawler) -> int:
    """Return the number of requests in the downloader, including its middlewares."""
    return len(_get(crawler, _downloader(crawler), "Downloader.active") or ())


def requests_in_downloader(crawler: Crawler) -> list[Request]:
    """Return the requests in downloader slots. They have passed all middlewares."""
    slots = _slots(crawler)
    active = _get(crawler, _downloader(crawler), "Downloader.active")
    if active is None:  # the name is missing, so look at all slots
        busy: Iterable[Private] = slots.values()
    else:  # a broad crawl has thousands of slots, and most of them are empty
        names = {request.meta.get("download_slot") for request in active}
        busy = filter(None, map(slots.get, names))
    return [request for slot in busy for request in _get(crawler, slot, "Slot.active") or ()]


def slot_delay(crawler: Crawler, slot: str) -> float:
    """Return a slot's delay between requests in seconds, as set by settings or AutoThrottle.

    It is 0 if the slot doesn't exist.
    """
    return _get(crawler, _slots(crawler).get(slot), "Slot.delay") or 0.0


def small_pool_size(crawler: Crawler) -> int:
    """Return the number of connections that pages and robots.txt files share, or 0 if they don't.

    Scrapy's aiohttp and httpx handlers have a pool of CONCURRENT_REQUESTS connections, which cannot
    be enlarged.
    """
    handlers = crawler.settings.getwithbase("DOWNLOAD_HANDLERS")
    paths = f"{handlers.get('http')} {handlers.get('https')}"
    if not any(pool in paths for pool in _SMALL_POOLS):
        return 0
    return crawler.settings.getint("CONCURRENT_REQUESTS")  # 0 means no limit


def allow_one_more(crawler: Crawler) -> Callable[[], None]:
    """Raise the limit of requests in the downloader, which is CONCURRENT_REQUESTS, by one.

    Each robots.txt request raises the limit this way, so it doesn't take the place of a page, and
    slow robots.txt files don't block the crawl.

    :returns: a function that undoes this.
    """
    downloader = _downloader(crawler)
    if not _get(crawler, downloader, "Downloader.total_concurrency"):  # 0 means no limit
        return lambda: None
    try:
        downloader.total_concurrency += 1
    except AttributeError:  # a read-only property
        _warn(crawler, "Downloader.total_concurrency")
        return lambda: None

    def undo() -> None:
        downloader.total_concurrency -= 1

    return undo


def queued_requests(crawler: Crawler, requests: Iterable[Request]) -> set[Request]:
    """Return all requests in the queues of the downloader slots that the given requests are in."""
    return {queued[0] for queue in _queues_of(crawler, requests) for queued in queue}


def remove_from_queue(crawler: Crawler, request: Request) -> bool:
    """Remove a cancelled request from its downloader slot's queue. Scrapy would still send it.

    :returns: whether it was in the queue.
    """
    for queue in _queues_of(crawler, [request]):
        for queued in queue:
            if queued[0] is request:
                queue.remove(queued)
                return True
    return False


def _queues_of(crawler: Crawler, requests: Iterable[Request]) -> list[Private]:
    """Return the queues of the downloader slots that requests are in.

    Each item is a tuple that starts with a request. Scrapy adds the slot's name to the meta of a
    request that reaches its slot.
    """
    slots = _slots(crawler)
    names = {request.meta.get("download_slot", "") for request in requests}
    busy = filter(None, map(slots.get, names))
    return [_get(crawler, slot, "Slot.queue") or () for slot in busy]


def handler_of(crawler: Crawler, scheme: str) -> Private:
    """Return the download handler for a scheme, or `None` if it is unavailable."""
    handlers = _get(crawler, _downloader(crawler), "Downloader.handlers")
    find = _get(crawler, handlers, "DownloadHandlers._get_handler")
    return None if find is None else find(scheme)


def is_one_page_command(crawler: Crawler) -> bool:
    """Return whether a command requests a few pages while its user waits, such as Scrapy's shell.

    Such a crawl doesn't retry an unreachable file, because the user can run the command again.
    """
    start = getattr(crawler.spidercls, "start", None)
    if getattr(start, "__module__", "") in _ONE_PAGE_COMMANDS:  # a command has replaced the method
        return True
    # Scrapy's shell starts the engine without calling `Crawler.crawl`.
    return _get(crawler, crawler, "Crawler.crawling") is False


def peek(queue: ScrapyPriorityQueue) -> Request | None:
    """Return the request that `pop` would return next, or `None` if there is none to be read.

    This differs from `ScrapyPriorityQueue.peek`, which prefers start requests and fails in cases
    where `pop` continues with another priority.
    """
    queues: Mapping[int, Private] = queue.queues
    starts: Mapping[int, Private] = (
        _get(queue.crawler, queue, "ScrapyPriorityQueue._start_queues") or {}
    )
    priority: Any = queue.curprio
    try:
        # `pop` does not always update `curprio` when it removes a queue. If a push has failed, a
        # new queue is empty.
        if priority not in queues and priority not in starts:
            priorities = [*queues.items(), *starts.items()]
            priority = min(key for key, downstream in priorities if downstream)
        downstream = queues[priority] if priority in queues else starts[priority]
        request: Request | None = downstream.peek()
    except Exception:  # noqa: BLE001 - an empty queue, or one without `peek`
        return None
    return request
