"""Peeking at the next request of a queue, which removes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from hypothesis import given, strategies as st
from pytest_twisted import ensureDeferred
from scrapy import Request, Spider
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.squeues import FifoMemoryQueue, LifoMemoryQueue
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc._scrapy import peek
from tests.support.crawling import crawl
from tests.support.proxies import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from tests.support.site import Site

#: The class for requests, and the class for start requests if they have their own.
Kinds: TypeAlias = "tuple[type[Any], type[Any] | None]"

MEMORY: list[Kinds] = [
    (FifoMemoryQueue, LifoMemoryQueue),
    (LifoMemoryQueue, FifoMemoryQueue),
    (LifoMemoryQueue, None),
]

#: Push (priority, start request or not), or pop.
STEPS = st.lists(st.one_of(st.tuples(st.integers(0, 2), st.booleans()), st.none()), max_size=30)


class Pages(Spider):
    """A spider with a callback."""

    name = "pages"

    def later(self, _: object) -> None:
        """Do nothing."""


def crawler() -> Crawler:
    """A crawler with a spider."""
    made = get_crawler(Pages)
    made.spider = Pages()
    return made


def in_memory(kinds: Kinds) -> ScrapyPriorityQueue:
    """One of Scrapy's queues in memory."""
    kind, start_kind = kinds
    return ScrapyPriorityQueue(crawler(), kind, "", start_queue_cls=start_kind)


def check(queue: Any, peek_at: Callable[[Any], Request | None], steps: list[Any]) -> None:
    """Peek before each step: `pop` returns the request that was peeked at, and each one once."""
    pushed: list[str] = []
    popped: list[str] = []
    for number, step in enumerate([*steps, *(None for _ in steps)]):
        peeked = peek_at(queue)
        if step is not None:
            priority, start = step
            pushed.append(f"data:,{number}")
            queue.push(Request(pushed[-1], priority=priority, meta={"is_start_request": start}))
        elif (request := queue.pop()) is not None:
            assert peeked is not None
            assert peeked.url == request.url
            popped.append(request.url)
    assert sorted(popped) == sorted(pushed)


@given(st.sampled_from(MEMORY), STEPS)
def test_peek(kinds: Kinds, steps: list[Any]) -> None:
    """Peeking shows the request that `pop` returns, and removes nothing."""
    check(in_memory(kinds), peek, steps)


def drained(queue: Any) -> list[str]:
    """Pop until the queue is empty."""
    urls = []
    while (request := queue.pop()) is not None:
        urls.append(request.url)
    return urls


class Unpeekable:
    """A queue of the user's without `peek`, which is optional."""

    def __init__(self) -> None:
        self._requests: list[Request] = []

    @classmethod
    def from_crawler(cls, _: Crawler, *__: object) -> Unpeekable:
        """Make one."""
        return cls()

    def push(self, request: Request) -> None:
        """Add a request."""
        self._requests.append(request)

    def pop(self) -> Request:
        """Remove the request that was added last."""
        return self._requests.pop()

    def close(self) -> None:
        """Do nothing."""

    def __len__(self) -> int:
        return len(self._requests)


def test_queue_without_peek() -> None:
    """A queue that has no `peek` gives `None`, and still has its request."""
    queue = in_memory((Unpeekable, None))
    queue.push(Request("data:,"))
    assert peek(queue) is None
    assert drained(queue) == ["data:,"]


@ensureDeferred
async def test_proxy_of_a_request_that_cannot_be_peeked_at(site: Site) -> None:
    """Each robots.txt is requested with the proxy of a page, even if the queue has no `peek`."""
    with Proxy() as proxy:
        pages = [
            Request(site.url(f"/{number}"), meta={"proxy": f"http://{proxy.netloc}"})
            for number in range(3)
        ]
        result = await crawl(pages, {"SCHEDULER_MEMORY_QUEUE": Unpeekable})
        assert list(result.outcomes.values()) == [200] * 3
        assert site.fetches == 1
        assert len(proxy.asked) == len(site.asked)
