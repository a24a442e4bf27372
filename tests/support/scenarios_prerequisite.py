"""Crawls in which robots.txt is a prerequisite of pages, for `test_prerequisite.py`."""

from __future__ import annotations

import threading
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.utils.asyncio import call_later

from scrapy_robots_rfc.fetching.pending import TICK
from tests.support.crawling import Pages, short
from tests.support.scenarios_local_faults import handlers
from tests.support.scenarios_obeying import FORBID_ALL, OURS, ClosesItself, waiting_pages
from tests.support.site import HANG, Asked, Reply, Site, robots
from tests.support.timed_site import DELAY, PACED, Clocked, gaps, urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.crawling import Run

ONE = {"CONCURRENT_REQUESTS": 1}
SCRAPYS_QUEUE = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue"}


class Urgent(Pages):
    """Requests the last page with a higher priority, after the others were queued."""

    gate = threading.Event()

    async def start(self) -> AsyncIterator[Any]:
        *pages, urgent = [request async for request in super().start()]
        for page in pages:
            yield page
        yield urgent.replace(priority=100)
        self.gate.set()


class UrgentFirst(Pages):
    """Requests the last page with a higher priority, before the others are queued."""

    async def start(self) -> AsyncIterator[Any]:
        first, *self.later = [request async for request in super().start()]
        yield first

    def parse(self, response: Any, **_: Any) -> Iterator[Request]:
        super().parse(response)
        if self.later:
            yield self.later.pop().replace(priority=100)
            yield from self.later
            self.later = []


async def urgent(run: Run) -> dict[str, Any]:
    """Crawl a slow and a paced site, in memory and on disk, and return when the last page came."""
    found: dict[str, list[int]] = {"slow": [], "paced": []}
    for is_on_disk in (False, True):
        with TemporaryDirectory() as folder:
            settings = {**ONE, "JOBDIR": folder if is_on_disk else None}
            Urgent.gate = threading.Event()
            with Site({"/robots.txt": robots("", gate=Urgent.gate)}) as site:
                await run(Urgent, settings, urls(site, 6))
                found["slow"].append(site.targets.index("/5"))
        with TemporaryDirectory() as folder:
            settings = {**ONE, "JOBDIR": folder if is_on_disk else None}
            with Site({"/robots.txt": PACED}) as site:
                await run(UrgentFirst, settings, urls(site, 6))
                found["paced"].append(site.targets.index("/5"))
    return found


async def stale_at_once(run: Run) -> dict[str, Any]:
    """Crawl sites whose file is stale at once, with and without a Crawl-delay."""
    found = []
    for text in ("", f"User-agent: *\nCrawl-delay: {DELAY}\n"):
        file = Reply(body=text.encode(), headers=(("Cache-Control", "max-age=0"),))
        late = {f"/{number}": 0.1 for number in range(15)}
        with Clocked({"/robots.txt": file}, late=late) as site:
            result = await run(Pages, {**ONE, "ROBOTS_CACHE_MIN_AGE": 0}, urls(site, 15))
            outcomes = {short(outcome) for outcome in result.outcomes.values()}
            seconds = result.stats["elapsed_time_seconds"]
            is_paced = min(gaps(site)) >= DELAY
            found.append([outcomes == {200}, 1 < site.fetches <= seconds + 2, is_paced])
    return {"found": found}


class Media(Pages):
    """Yields an item with two files of another site."""

    files: tuple[str, ...] = ()

    def parse(self, response: Any, **_: Any) -> Iterator[dict[str, Any]]:
        super().parse(response)
        yield {"file_urls": list(self.files)}


def _slow(_: Asked) -> Reply:
    gate = threading.Event()
    threading.Timer(2 * TICK, gate.set).start()
    return robots("User-agent: *\nDisallow: /x\n", gate=gate)


async def media(run: Run) -> dict[str, Any]:
    """Crawl with a media pipeline, whose requests do not pass the scheduler."""
    with TemporaryDirectory() as folder, Site() as site, Site({"/robots.txt": _slow}) as other:
        Media.files = (other.url("/a"), other.url("/x"))
        settings = {
            "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
            "FILES_STORE": folder,
        }
        await run(Media, settings, [site.url("/")])
        return {"targets": other.targets}


class ClosingInline(ClosesItself):
    """Downloads a page in `start`, and closes itself while the page waits for robots.txt."""

    async def start(self) -> AsyncIterator[Any]:
        call_later(2 * TICK, self.close_now)
        [url] = self.requests
        try:
            await self.crawler.engine.download_async(Request(str(url)))
        except Exception as error:  # noqa: BLE001 - the test checks its class
            self.outcomes[str(url)] = error
        nothing: tuple[Request, ...] = ()
        for request in nothing:
            yield request


async def closing_inline(run: Run) -> dict[str, Any]:
    """Close a spider whose inline request waits for a robots.txt that hangs."""
    with Site({"/robots.txt": HANG}) as site:
        result = await run(ClosingInline, {}, [site.url("/a")])
        outcomes = [short(outcome) for outcome in result.outcomes.values()]
        return {"outcomes": outcomes, "undecided": result.stat("undecided"), "pages": site.pages}


async def without_our_queue(run: Run) -> dict[str, Any]:
    """Crawl 10 disallowed pages, which wait in the middleware, with Scrapy's own queue."""
    return await waiting_pages(run, 10, {**OURS, **SCRAPYS_QUEUE})


async def failed_routes(run: Run) -> dict[str, Any]:
    """Crawl a site through a proxy that refuses connections, and through no other."""
    supported = handlers(run, proxies=True)
    if not supported:
        return {}
    proxy = "http://127.0.0.1:1"
    with Site({"/robots.txt": robots(FORBID_ALL)}) as site:
        requests = [Request(url, meta={"proxy": proxy}) for url in urls(site, 20)]
        result = await run(Pages, supported[0], requests)
        outcomes = {short(outcome) for outcome in result.outcomes.values()}
        return {
            "outcomes": sorted(map(str, outcomes)),
            "count": len(result.outcomes),
            "requests": result.stat("request_count"),
        }
