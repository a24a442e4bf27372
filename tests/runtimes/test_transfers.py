"""Transfers of robots.txt: their size, their time and their end, with each download handler."""

from __future__ import annotations

import gzip
import threading
from contextlib import ExitStack
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from scrapy import Request
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_robots_rfc.signals import robots_fetched
from tests.support.crawling import Pages, crawl
from tests.support.running import HANDLERS, in_every_runtime
from tests.support.site import HANG, PAGE, Reply, Site, robots
from tests.support.stores import MemoryStore
from tests.support.timed_site import urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.site import Asked

RULES = "User-agent: *\nDisallow: /x\n"
FIRST = b"User-agent: *\nDisallow: /first\n"
COMMENT = b"# " + b"x" * 997 + b"\n"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=FIRST, endless=True),
        Reply(chunks=(FIRST + COMMENT * 600 + b"Disallow: /last\n",)),
        Reply(body=gzip.compress(FIRST + COMMENT * 5000), headers=(("Content-Encoding", "gzip"),)),
    ],
    ids=["endless", "chunked", "compressed"],
)
@pytest.mark.parametrize("handler", HANDLERS)
@in_every_runtime
async def test_size_limit(site: Site, reply: Reply, handler: dict[str, Any]) -> None:
    """Endless, chunked and compressed files are cut at the limit, whatever DOWNLOAD_MAXSIZE is."""
    site.replies["/robots.txt"] = reply
    pages = [site.url("/first"), site.url("/last")]
    result = await crawl(pages, {"DOWNLOAD_MAXSIZE": 1000, **handler})
    assert result.verdicts(*pages) == ["rule", 200]
    assert result.stat("truncated") == 1


@pytest.mark.parametrize("handler", HANDLERS)
@in_every_runtime
async def test_body_that_ends_with_its_connection(handler: dict[str, Any]) -> None:
    """A body without a length is whole when its connection ends, with or without TLS."""
    pages = []
    with ExitStack() as stack:
        for tls, body in product((False, True), (RULES.encode(), b"")):
            site = Site({"/robots.txt": Reply(body=body, closes=True)}, tls=tls)
            pages.append(stack.enter_context(site).url("/x"))
        result = await crawl(pages, {"DOWNLOAD_VERIFY_CERTIFICATES": False, **handler})
    assert result.verdicts(*pages) == ["rule", 200] * 2


@in_every_runtime
async def test_timeout(site: Site) -> None:
    """A robots.txt that hangs is unreachable after ROBOTS_TIMEOUT, with retries enabled, too."""
    site.replies["/robots.txt"] = HANG
    result = await crawl(urls(site, 2), {"ROBOTS_TIMEOUT": 0.4, "RETRY_ENABLED": True})
    assert result.verdicts() == ["unreachable"] * 2
    assert site.pages == []
    assert result.stats["elapsed_time_seconds"] < 5


class HangingHandler(Pages):
    """Connects a signal handler that never ends."""

    async def start(self) -> AsyncIterator[Any]:
        self.crawler.signals.connect(self.hang, robots_fetched)
        async for request in super().start():
            yield request

    async def hang(self) -> None:
        await maybe_deferred_to_future(Deferred())


@in_every_runtime
async def test_hanging_signal_handler(site: Site) -> None:
    """A signal handler that hangs delays requests by ROBOTS_TIMEOUT at most, and the file is
    obeyed.
    """
    site.replies["/robots.txt"] = robots(RULES)
    pages = [site.url("/x"), site.url("/y")]
    result = await crawl(pages, {"ROBOTS_TIMEOUT": 0.5}, spider=HangingHandler)
    assert result.verdicts(*pages) == ["rule", 200]
    assert 0.5 <= result.stats["elapsed_time_seconds"] < 5


class Slow(MemoryStore):
    """A store that answers only after a page was fetched."""

    fetched: ClassVar[threading.Event]
    in_time: ClassVar[list[bool]]

    def get(self, key: str) -> bytes | None:
        self.in_time.append(self.fetched.wait(60))
        return super().get(key)


@in_every_runtime
async def test_slow_store(site: Site) -> None:
    """While a store is slow, the crawl continues."""
    Slow.fetched, Slow.in_time = threading.Event(), []

    def answer(_: Asked) -> Reply:
        Slow.fetched.set()
        return PAGE

    site.replies = {"/robots.txt": robots(RULES), "/exempt": answer}
    exempt = Request(site.url("/exempt"), meta={"dont_obey_robotstxt": True})
    result = await crawl([site.url("/y"), exempt], {"ROBOTS_CACHE": f"{__name__}.Slow"})
    assert result.outcomes == {site.url("/y"): 200, exempt.url: 200}
    assert all(Slow.in_time)
    assert result.stat("cache/store_errors") == 0
