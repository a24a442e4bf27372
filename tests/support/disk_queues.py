"""Queues on disk that are used without a crawl."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.squeues import PickleFifoDiskQueue, PickleLifoDiskQueue
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc import OriginPriorityQueue
from scrapy_robots_rfc.policy.origins import SCHEMES, Origin, Scheme
from scrapy_robots_rfc.scheduling.throttle import slot_of
from tests.support.gates import Files, add_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Everything(set[Request]):
    """Contains every request."""

    def __contains__(self, _: object) -> bool:
        return True


class Downloader:
    """Replaces Scrapy's: all requests that were handed out are under way."""

    slots: dict[str, Any] = {}  # noqa: RUF012 - empty
    active = Everything()

    def get_slot_key(self, request: Request) -> str:
        """Return the slot, for Scrapy's own queue."""
        return slot_of(request, urlparse_cached(request))


class Pages(Spider):
    """Has a name."""

    name = "pages"


def crawler(
    known: Callable[[Origin], bool] = lambda _: True, *, obeys: bool = True, turns: Any = None
) -> Crawler:
    """Return a crawler whose origins are known or not. It also obeys a scheme that the user
    added.
    """
    made = Crawler(Pages)
    made.spider = Pages()
    made.stats = MemoryStatsCollector(made)
    schemes = {**SCHEMES, "own": Scheme(70)} if obeys else {}
    add_gate(made, files=Files(known), turns=turns, downloader=Downloader(), schemes=schemes)
    return made


def queue(
    folder: Path, state: Any = None, *, kind: type[Any] = OriginPriorityQueue, **options: Any
) -> Any:
    """Return a queue on disk."""
    disk_queue = options.pop("disk_queue", PickleLifoDiskQueue)
    return kind(
        options.pop("crawler", None) or crawler(**options),
        disk_queue,
        str(folder),
        state,
        start_queue_cls=PickleFifoDiskQueue,
    )


def stored(folder: Path, requests: Iterable[Request], **options: Any) -> Any:
    """Leave requests in a folder, and return the state of the closed queue."""
    filled = queue(folder, **options)
    for request in requests:
        filled.push(request)
    return filled.close()


def pages(hosts: int, each: int = 1) -> list[Request]:
    """Return requests for pages of some hosts."""
    return [
        Request(f"http://h{host}.example/{number}")
        for number in range(each)
        for host in range(hosts)
    ]


def drained(found: Any, most: int = 200) -> list[str]:
    """Pop until the queue hands out nothing more, as an engine does that is woken."""
    return [request.url for _ in range(most) if (request := found.pop()) is not None]


def urls(requests: Iterable[Request]) -> list[str]:
    """Return the sorted URLs."""
    return sorted(request.url for request in requests)
