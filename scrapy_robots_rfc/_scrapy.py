"""The private names of Scrapy that we use, and all code that depends on them.

Scrapy may change such a name at any time. If one is missing, what it serves is off, with one
warning.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.pqueues import ScrapyPriorityQueue

logger: logging.Logger = logging.getLogger(__name__)

#: A private object of Scrapy, or a user's replacement for it.
Private: TypeAlias = Any

# What is lost -> the private names that it needs. All of them exist in Scrapy 2.15.0 and 2.19.0.
_LOST: Mapping[str, tuple[str, ...]] = {
    "A crawl that is stopped waits for robots.txt files, and is woken every 5 s only": (
        "ExecutionEngine._slot",
    ),
    "A crawl that is stopped waits for robots.txt files and turns": ("_Slot.closing",),
    "Requests leave the scheduler up to 5 s after their robots.txt or turn has come": (
        "_Slot.nextcall",
    ),
    "A turn is not released when another middleware drops its request": (
        "ExecutionEngine.downloader",
        "Downloader.active",
    ),
    "Slots with the fewest pages under way are not preferred": ("Downloader.slots", "Slot.active"),
    "The added time of Crawl-delay includes DOWNLOAD_DELAY": ("Slot.delay",),
    "The time of a robots.txt in the queue of its slot counts against ROBOTS_TIMEOUT": (
        "Slot.queue",
    ),
    "robots.txt requests count against CONCURRENT_REQUESTS": ("Downloader.total_concurrency",),
    "A robots.txt of an FTP site is read to its end, however long that takes": (
        "Downloader.handlers",
        "DownloadHandlers._get_handler",
    ),
    "robots.txt files are neither stored in the HTTP cache nor looked up there": (
        "HttpCacheMiddleware.policy",
        "HttpCacheMiddleware.storage",
    ),
    "`fetch` in `scrapy shell` waits for an unreachable site (ROBOTS_UNREACHABLE_BACKOFF)": (
        "Crawler.crawling",
    ),
    "Scrapy's own queue cannot resume a JOBDIR of this package, nor the other way round": (
        "pqueues._path_safe",
    ),
    "The robots.txt of a site that has only start requests is fetched without their proxy": (
        "ScrapyPriorityQueue._start_queues",
    ),
}
#: Private name -> what is lost without it.
PRIVATE: Mapping[str, str] = {key: lost for lost, keys in _LOST.items() for key in keys}
# Private name -> the attribute.
_ATTRIBUTES = {key: key.partition(".")[2] for key in PRIVATE}

#: Sent after a robots.txt was parsed, from Scrapy 2.18 on; `None` before.
ROBOTS_PARSED: object | None = getattr(signals, "robots_parsed", None)
#: The method in which Scrapy's handlers without a reactor read an answer; it is found in
#: tracebacks, and not called.
READING = "_read_response"

# Download handlers with at most CONCURRENT_REQUESTS connections; those without a reactor.
_SMALL_POOLS = ("downloader.handlers._aiohttp.", "downloader.handlers._httpx.")

# The commands that bring a `start` of their own; view is a kind of fetch.
_ASK_ONCE = ("scrapy.commands.fetch", "scrapy.commands.parse", "scrapy.commands.check")

# Crawl -> the losses that were logged.
_WARNED: WeakKeyDictionary[Crawler, set[str]] = WeakKeyDictionary()


def _get(crawler: Crawler, owner: Private, key: str) -> Private:
    """Look up a private attribute; if it is missing, warn once and return `None`.

    :param owner: an object of the class that the name belongs to, or of a class that has replaced
        it; `None` if that object is missing, too.
    """
    if owner is None:
        return None
    try:
        return getattr(owner, _ATTRIBUTES[key])
    except AttributeError:
        _warn(crawler, key)
        return None


def _warn(crawler: Crawler, key: str) -> None:
    """Warn once in a crawl about what is lost without a private name."""
    warned = _WARNED.setdefault(crawler, set())
    lost = PRIVATE[key]
    if lost not in warned:
        warned.add(lost)
        text = "%s: this version of Scrapy has no `%s`"
        logger.warning(text, lost, key, extra={"spider": crawler.spider})


def _slot(crawler: Crawler) -> Private:
    return _get(crawler, crawler.engine, "ExecutionEngine._slot")


def _downloader(crawler: Crawler) -> Private:
    return _get(crawler, crawler.engine, "ExecutionEngine.downloader")


def _slots(crawler: Crawler) -> dict[str, Private]:
    """Return the slots of the downloader, by name."""
    slots: dict[str, Private] | None = _get(crawler, _downloader(crawler), "Downloader.slots")
    return {} if slots is None else slots  # an empty one will be filled


def is_closing(crawler: Crawler) -> bool:
    """Return whether the spider is being closed, or is closed.

    `spider_closed` is sent only once no requests are in progress.
    """
    slot = _slot(crawler)
    if slot is None:  # the engine has a slot only while a spider is open
        return hasattr(crawler.engine, "_slot")
    return _get(crawler, slot, "_Slot.closing") is not None


def wake_engine(crawler: Crawler) -> None:
    """Make the engine ask the scheduler for requests soon, unless the spider is closed."""
    nextcall = _get(crawler, _slot(crawler), "_Slot.nextcall")
    if nextcall is not None:
        nextcall.schedule()


def is_under_way(crawler: Crawler, request: Request) -> bool:
    """Return whether the downloader, or one of its middlewares, has a request.

    True if that is unknown.
    """
    active = _get(crawler, _downloader(crawler), "Downloader.active")
    return active is None or request in active


def page_counter(crawler: Crawler) -> Callable[[str], int]:
    """Return a function that counts the pages of a downloader slot that are under way."""
    slots = _slots(crawler)

    def count(key: str) -> int:
        slot = slots.get(key)
        return 0 if slot is None else len(_get(crawler, slot, "Slot.active") or ())

    return count


def requests_in_downloader(crawler: Crawler) -> list[Request]:
    """Return the requests in the slots of the downloader, which have passed all middlewares."""
    slots = _slots(crawler).values()
    return [request for slot in slots for request in _get(crawler, slot, "Slot.active") or ()]


def slot_delay(crawler: Crawler, slot: str) -> float:
    """Return the seconds that settings or AutoThrottle put between two requests of a slot."""
    return _get(crawler, _slots(crawler).get(slot), "Slot.delay") or 0.0


def has_small_pool(crawler: Crawler) -> bool:
    """Return whether a handler has CONCURRENT_REQUESTS connections for pages and robots.txt files.

    Scrapy's handlers for aiohttp and httpx have, and cannot have more.
    """
    handlers = crawler.settings.getwithbase("DOWNLOAD_HANDLERS")
    paths = f"{handlers.get('http')} {handlers.get('https')}"
    return any(pool in paths for pool in _SMALL_POOLS)


def allow_one_more(crawler: Crawler) -> Callable[[], None]:
    """Let the downloader have one request more than CONCURRENT_REQUESTS.

    Otherwise slow robots.txt files would stop the crawl.

    :returns: a function that undoes it.
    """
    downloader = _downloader(crawler)
    if not _get(crawler, downloader, "Downloader.total_concurrency"):  # 0 means no limit
        return lambda: None
    try:
        downloader.total_concurrency += 1
    except AttributeError:  # a property that cannot be set
        _warn(crawler, "Downloader.total_concurrency")
        return lambda: None

    def undo() -> None:
        downloader.total_concurrency -= 1

    return undo


def is_queued(crawler: Crawler, request: Request) -> bool:
    """Return whether a request is in the queue of its downloader slot."""
    return _find(_queue_of(crawler, request), request) is not None


def remove_from_queue(crawler: Crawler, request: Request) -> bool:
    """Remove a cancelled request from the queue of its downloader slot: Scrapy would send it.

    :returns: whether it was there.
    """
    queue = _queue_of(crawler, request)
    found = _find(queue, request)
    if found is not None:
        queue.remove(found)
    return found is not None


def _queue_of(crawler: Crawler, request: Request) -> Private:
    """Return the queue of the downloader slot of a request."""
    slot = _slots(crawler).get(request.meta.get("download_slot", ""))
    return _get(crawler, slot, "Slot.queue") or ()


def _find(queue: Private, request: Request) -> Private:
    return next((queued for queued in queue if queued[0] is request), None)


def handler_of(crawler: Crawler, scheme: str) -> Private:
    """Return the download handler of a scheme, or `None` if it is unavailable."""
    handlers = _get(crawler, _downloader(crawler), "Downloader.handlers")
    find = _get(crawler, handlers, "DownloadHandlers._get_handler")
    return None if find is None else find(scheme)


def cache_of(crawler: Crawler) -> tuple[Private, Private] | None:
    """Return policy and storage of the HTTP cache, or `None` if it is off or does not show them."""
    middleware = crawler.get_downloader_middleware(HttpCacheMiddleware)
    policy = _get(crawler, middleware, "HttpCacheMiddleware.policy")
    storage = _get(crawler, middleware, "HttpCacheMiddleware.storage")
    return None if policy is None or storage is None else (policy, storage)


def is_one_page_command(crawler: Crawler) -> bool:
    """Return whether a user waits for one page, in a command of Scrapy or in its shell."""
    module = getattr(getattr(crawler.spidercls, "start", None), "__module__", "")
    return module in _ASK_ONCE or _get(crawler, crawler, "Crawler.crawling") is False


def path_safe(crawler: Crawler, text: str) -> str:
    """Return the name of a folder for a key of a queue, as Scrapy's own queue names it."""
    from scrapy import pqueues  # noqa: PLC0415 - the private name may be missing

    find: Callable[[str], str] | None = getattr(pqueues, "_path_safe", None)
    if find is not None:
        return find(text)
    if crawler.settings["JOBDIR"]:
        _warn(crawler, "pqueues._path_safe")
    return hashlib.sha256(text.encode()).hexdigest()


def start_queues(queue: ScrapyPriorityQueue) -> Mapping[int, Private]:
    """Return the queues of start requests in one of Scrapy's queues, by their priority."""
    return _get(queue.crawler, queue, "ScrapyPriorityQueue._start_queues") or {}


def next_queue(queue: ScrapyPriorityQueue) -> tuple[str, Any] | None:
    """Return the file name and the queue that `pop` will read next, or `None` if all are empty.

    `ScrapyPriorityQueue.peek` differs: it prefers start requests, and it fails where `pop`
    continues with another priority.
    """
    queues = queue.queues
    starts = start_queues(queue)
    priority: int | None = queue.curprio
    if priority not in queues and priority not in starts:
        all_queues = [*queues.items(), *starts.items()]
        priority = min((key for key, downstream in all_queues if downstream), default=None)
    if priority is None:
        return None
    if priority in queues:
        return str(priority), queues[priority]
    return f"{priority}s", starts[priority]


def peek(queue: ScrapyPriorityQueue) -> Request | None:
    """Return the request that `pop` would return next, or `None` if it cannot be read."""
    try:
        name_and_queue = next_queue(queue)
        if name_and_queue is None:
            return None
        _, downstream = name_and_queue
        request: Request | None = downstream.peek()
    except Exception:  # noqa: BLE001 - no `peek`, a damaged file, a callback that is gone
        return None
    return request
