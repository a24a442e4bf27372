"""Every private name of Scrapy that is used, and all that depends on them.

Scrapy may change such a name at any time, so each is looked for before it is used. Where one is
missing, what it serves is off, with one warning.
"""

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.pqueues import ScrapyPriorityQueue

logger: logging.Logger = logging.getLogger(__name__)

#: An object of Scrapy's, or of the user's that stands in its place.
Private: TypeAlias = Any

# What is lost -> the private names without any of which it is. All of them are in Scrapy 2.15.0 and
# 2.19.0.
_LOST: Mapping[str, tuple[str, ...]] = {
    "A crawl that is stopped waits for robots.txt files, and looks every 5 s only": (
        "ExecutionEngine._slot",
    ),
    "A crawl that is stopped waits for robots.txt files, and for turns": ("_Slot.closing",),
    "Requests whose robots.txt or turn has come leave the scheduler up to 5 s later": (
        "_Slot.nextcall",
    ),
    "Requests that another middleware delays or drops delay those behind them": (
        "ExecutionEngine.downloader",
        "Downloader.active",
    ),
    "Slots with the fewest pages under way are not preferred": ("Downloader.slots", "Slot.active"),
    "What Crawl-delay adds is counted with what DOWNLOAD_DELAY causes": ("Slot.delay",),
    "The time of a robots.txt in the queue of its slot counts against ROBOTS_TIMEOUT": (
        "Slot.queue",
    ),
    "A slow robots.txt delays the pages of its downloader slot": ("Slot.concurrency",),
    "Slow robots.txt files take places of CONCURRENT_REQUESTS": ("Downloader.total_concurrency",),
    "A robots.txt of an FTP site is read to its end, however long that takes": (
        "Downloader.handlers",
        "DownloadHandlers._get_handler",
    ),
    "A request whose reused connection breaks is sent again within its Crawl-delay": (
        "HTTP11DownloadHandler._pool",
    ),
    "robots.txt files are not stored in the HTTP cache, and not looked up there": (
        "HttpCacheMiddleware.policy",
        "HttpCacheMiddleware.storage",
    ),
    "`fetch` in `scrapy shell` waits for a site that is down (ROBOTS_UNREACHABLE_BACKOFF)": (
        "Crawler.crawling",
    ),
    "Scrapy's own queue cannot go on with a JOBDIR of this one, nor this one with its": (
        "pqueues._path_safe",
    ),
    "The robots.txt of a site that has only start requests is fetched without their proxy": (
        "ScrapyPriorityQueue._start_queues",
    ),
}
#: The private names -> what is lost without each.
PRIVATE: Mapping[str, str] = {key: lost for lost, keys in _LOST.items() for key in keys}

#: Sent after a robots.txt was parsed, from Scrapy 2.18 on; `None` before.
ROBOTS_PARSED: object | None = getattr(signals, "robots_parsed", None)
#: The method in which Scrapy's handlers without a reactor read an answer; it is found in
#: tracebacks, and not called.
READING = "_read_response"

# The commands that bring a `start` of their own; view is a kind of fetch.
_ASK_ONCE = ("scrapy.commands.fetch", "scrapy.commands.parse", "scrapy.commands.check")

# Crawl -> what it was warned of.
_WARNED: WeakKeyDictionary[Crawler, set[str]] = WeakKeyDictionary()


def _get(crawler: Crawler, owner: Private, key: str) -> Private:
    """Return the value of a private name; ``None``, with one warning, where it is missing.

    :param owner: an object of the class that the name belongs to; of another class that the user
        has put in its place, it need not have the name. ``None``: the object that has the owner is
        missing.
    """
    if owner is None:
        return None
    place, _, name = key.partition(".")
    try:
        return getattr(owner, name)
    except AttributeError:
        if any(base.__name__ == place for base in type(owner).__mro__):
            _warn(crawler, key)
        return None


def _warn(crawler: Crawler, key: str) -> None:
    """Warn once in a crawl of what is lost without a private name."""
    warned = _WARNED.setdefault(crawler, set())
    lost = PRIVATE[key]
    if lost not in warned:
        warned.add(lost)
        text = "%s: Scrapy has no `%s` any more"
        logger.warning(text, lost, key, extra={"spider": crawler.spider})


def _slot(crawler: Crawler) -> Private:
    return _get(crawler, crawler.engine, "ExecutionEngine._slot")


def _downloader(crawler: Crawler) -> Private:
    return _get(crawler, crawler.engine, "ExecutionEngine.downloader")


def _slots(crawler: Crawler) -> dict[str, Private]:
    slots: dict[str, Private] | None = _get(crawler, _downloader(crawler), "Downloader.slots")
    return {} if slots is None else slots  # an empty one will be filled


def is_closing(crawler: Crawler) -> bool:
    """Whether the spider is being closed, or is closed.

    `spider_closed` comes only when no request is in progress.
    """
    slot = _slot(crawler)
    if slot is None:
        return hasattr(crawler.engine, "_slot")
    return _get(crawler, slot, "_Slot.closing") is not None


def wake(crawler: Crawler) -> None:
    """Have the engine ask the scheduler for requests soon, unless the spider is closed."""
    nextcall = _get(crawler, _slot(crawler), "_Slot.nextcall")
    if nextcall is not None:
        nextcall.schedule()


def is_under_way(crawler: Crawler, request: Request) -> bool:
    """Whether the downloader, or one of its middlewares, has a request.

    True where that cannot be found out.
    """
    active = _get(crawler, _downloader(crawler), "Downloader.active")
    return active is None or request in active


def requests_under_way(crawler: Crawler) -> int:
    """How many requests the downloader and its middlewares have."""
    return len(_get(crawler, _downloader(crawler), "Downloader.active") or ())


def under_way_of(crawler: Crawler) -> Callable[[str], int]:
    """Return a function that counts the pages of a downloader slot that are under way."""
    slots = _slots(crawler)

    def count(key: str) -> int:
        slot = slots.get(key)
        return 0 if slot is None else len(_get(crawler, slot, "Slot.active") or ())

    return count


def in_downloader(crawler: Crawler) -> list[Request]:
    """The requests that are in slots of the downloader: all middlewares have let them through."""
    slots = _slots(crawler).values()
    return [request for slot in slots for request in _get(crawler, slot, "Slot.active") or ()]


def slot_delay(crawler: Crawler, slot: str) -> float:
    """The seconds that the user's settings, or AutoThrottle, put between requests of a slot."""
    return _get(crawler, _slots(crawler).get(slot), "Slot.delay") or 0.0


def queued_metas(crawler: Crawler) -> Collection[dict[str, Any]]:
    """The meta of every request that waits in the queue of its slot in the downloader."""
    queues = [_get(crawler, slot, "Slot.queue") or () for slot in _slots(crawler).values()]
    return [request.meta for queue in queues for request, _ in queue]


def one_more(crawler: Crawler) -> Callable[[], None]:
    """Let the downloader have one request more than CONCURRENT_REQUESTS.

    As many slow robots.txt would stop it.

    :returns: takes it back.
    """
    return _raised(crawler, _downloader(crawler), "Downloader.total_concurrency")


def one_place_more(crawler: Crawler, request: Request) -> Callable[[], None]:
    """Give the slot of a request one place more: a slow robots.txt would delay its pages.

    :returns: takes it back.
    """
    slot = _slots(crawler).get(request.meta.get("download_slot", ""))
    return _raised(crawler, slot, "Slot.concurrency")


def _raised(crawler: Crawler, owner: Private, key: str) -> Callable[[], None]:
    """Raise a limit by one, and return what takes that back."""
    name = key.partition(".")[2]
    if not _get(crawler, owner, key):  # 0: there is no limit
        return lambda: None
    setattr(owner, name, getattr(owner, name) + 1)
    return lambda: setattr(owner, name, getattr(owner, name) - 1)


def withdraw(crawler: Crawler, request: Request) -> bool:
    """Remove a cancelled request from the queue of its downloader slot, if it is there.

    Scrapy would send it although it was cancelled.

    :returns: whether it was there.
    """
    for queue in (_get(crawler, slot, "Slot.queue") for slot in _slots(crawler).values()):
        for waiting in [each for each in queue or () if each[0] is request]:
            queue.remove(waiting)
            return True
    return False


def handler_of(crawler: Crawler, scheme: str) -> Private:
    """The download handler of a scheme; ``None`` where it is unavailable, which was warned of."""
    handlers = _get(crawler, _downloader(crawler), "Downloader.handlers")
    find = _get(crawler, handlers, "DownloadHandlers._get_handler")
    return None if find is None else find(scheme)


def send_once(crawler: Crawler) -> None:
    """Stop Scrapy's default handler from repeating a request at once when a connection breaks.

    Twisted does so with a connection that was open from before.
    """
    for scheme in ("http", "https"):
        pool = _get(crawler, handler_of(crawler, scheme), "HTTP11DownloadHandler._pool")
        if pool is not None:
            pool.retryAutomatically = False


def cache_of(crawler: Crawler) -> tuple[Private, Private] | None:
    """Policy and storage of the HTTP cache; ``None`` where it is off, or does not show them."""
    middleware = crawler.get_downloader_middleware(HttpCacheMiddleware)
    policy = _get(crawler, middleware, "HttpCacheMiddleware.policy")
    storage = _get(crawler, middleware, "HttpCacheMiddleware.storage")
    return None if policy is None or storage is None else (policy, storage)


def asks_once(crawler: Crawler) -> bool:
    """Whether a person waits for one page, in a command of Scrapy's or in its shell."""
    module = getattr(getattr(crawler.spidercls, "start", None), "__module__", "")
    return module in _ASK_ONCE or _get(crawler, crawler, "Crawler.crawling") is False


def path_safe(crawler: Crawler, text: str) -> str:
    """Return the name of a folder for a key of a queue, as Scrapy's own queue names it."""
    from scrapy import pqueues  # noqa: PLC0415 - the name is looked for when it is used

    find: Callable[[str], str] | None = getattr(pqueues, "_path_safe", None)
    if find is not None:
        return find(text)
    if crawler.settings["JOBDIR"]:
        _warn(crawler, "pqueues._path_safe")
    return hashlib.sha256(text.encode()).hexdigest()


def start_queues(queue: ScrapyPriorityQueue) -> Mapping[int, Private]:
    """Return the queues of start requests in one of Scrapy's queues, by their priority."""
    return _get(queue.crawler, queue, "ScrapyPriorityQueue._start_queues") or {}
