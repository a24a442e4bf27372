"""Crawls with local files, reports, stores and large files. See `runtimes.py`; the tests are in
`test_runtimes.py` and `fetching/test_transfers.py`.
"""

from __future__ import annotations

import csv
import gc
import tempfile
import threading
import time
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request
from scrapy.utils.asyncio import is_asyncio_available

from scrapy_robots_rfc import RobotsTxt
from scrapy_robots_rfc._runtime import Runtime
from tests.support.crawling import Pages, short
from tests.support.hostile_files import hostile
from tests.support.memory_store import MemoryStore
from tests.support.service_crawls import gather
from tests.support.shared_stores import ONE_STORE, OneStore
from tests.support.site import PAGE, Asked, Reply, Site, robots
from tests.support.timed_site import DELAY, Clocked, gaps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.crawling import Run

RULES = "User-agent: *\nDisallow: /x\n"
CLOSED = robots(f"User-agent: *\nDisallow: /\nCrawl-delay: {DELAY}\n")

#: Further download handlers of Scrapy; older versions lack one of them. Both need asyncio.
_HANDLERS = {
    "httpx": "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler",
    "aiohttp": "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler",
}


async def exceptions(run: Run) -> dict[str, Any]:
    """Crawl a site with a local file, an exempt site and a disallowed site, then in a dry run."""
    with (
        tempfile.NamedTemporaryFile(suffix=".txt") as file,
        Site({"/robots.txt": CLOSED}) as overridden,
        Site({"/robots.txt": CLOSED}) as exempt,
        Clocked({"/robots.txt": CLOSED}) as closed,
    ):
        Path(file.name).write_text(RULES, encoding="utf-8")  # noqa: ASYNC240 - short
        pages = [overridden.url("/x"), overridden.url("/y"), exempt.url("/x"), closed.url("/x")]
        settings = {
            "ROBOTS_OVERRIDES": {overridden.url(""): file.name},
            "ROBOTS_EXEMPT": [exempt.url("")],
        }
        real = await run(Pages, settings, pages)
        fetches = [site.fetches for site in (overridden, exempt, closed)]
        closed.arrivals.clear()
        dry = await run(Pages, {**settings, "ROBOTS_DRY_RUN": True}, pages)
        keys = ("forbidden", "dry_run", f"exempted/{exempt.url('')}", "overridden")
        return {
            "real": [short(real.outcomes[page]) for page in pages],
            "fetches": fetches,
            "dry": [short(dry.outcomes[page]) for page in pages],
            "paced": len(closed.arrivals) == 2 and min(gaps(closed)) >= DELAY,
            "counted": [dry.stat(key) for key in keys],
        }


class Looking(Pages):
    """Reads the report each time when a page is dropped."""

    def failed(self, failure: Any) -> Any:
        """Count the rows that are already in the report."""
        self.outcomes[failure.request.url] = len(
            Path(self.settings["LOOK_AT"]).read_text("utf-8").splitlines()
        )


async def reported(run: Run) -> dict[str, Any]:
    """Report disallowed pages to a file, and to a storage that uses threads and fails."""
    with tempfile.TemporaryDirectory() as folder, Site() as site, Site() as exempt:
        site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
        path = Path(folder, "all.csv")
        pages = [*(site.url(f"/private/{number}") for number in (1, 2, 3)), exempt.url("/x")]
        settings = {"ROBOTS_EXEMPT": [exempt.url("")], "LOOK_AT": str(path)}
        counted, outcomes = [], []
        for spider, uri in ((Looking, str(path)), (Pages, "ftp://127.0.0.1:1/r.jsonl")):
            result = await run(spider, {**settings, "ROBOTS_REPORT": {uri: {}}}, pages)
            counted.append(
                [result.stat(key) for key in ("report/records", "report/errors", "forbidden")]
            )
            outcomes.append([result.outcomes[page] for page in pages[:3]])
        with path.open(encoding="utf-8", newline="") as file:  # noqa: ASYNC230 - short
            reasons = [record["reason"] for record in csv.DictReader(file)]
        return {
            "reasons": reasons,
            "at_once": all(isinstance(rows, int) and rows > 1 for rows in outcomes[0]),
            "counted": counted,
        }


async def resumed(run: Run) -> dict[str, Any]:
    """Run a job three times with the same JOBDIR."""
    with tempfile.TemporaryDirectory() as folder, Site({"/robots.txt": robots(RULES)}) as site:
        settings: dict[str, Any] = {"JOBDIR": str(Path(folder) / "job")}
        urls = [site.url("/x"), site.url("/y")]
        results = [await run(Pages, settings, urls) for _ in range(3)]
        return {
            "outcomes": [[short(result.outcomes[url]) for url in urls] for result in results],
            "fetches": site.fetches,
            "hits": [result.stat("cache/store_hits") for result in results],
        }


async def confirmed(run: Run) -> dict[str, Any]:
    """Crawl twice with a file that is stale at once and confirmed by its ETag."""

    def answer(asked: Asked) -> Reply:
        if asked.headers.get("If-None-Match") == '"1"':
            return Reply(304)
        return Reply(200, RULES.encode(), (("ETag", '"1"'), ("Cache-Control", "no-cache")))

    OneStore.store = OneStore()
    with Site({"/robots.txt": answer}) as site:
        settings = {**ONE_STORE, "ROBOTS_CACHE_MIN_AGE": 0}
        first, second = [await run(Pages, settings, [site.url("/x")]) for _ in range(2)]
        return {
            "outcomes": [short(result.outcomes[site.url("/x")]) for result in (first, second)],
            "statuses": [
                first.stat("response_status_count/200"),
                second.stat("response_status_count/304"),
            ],
        }


class _Opening(OneStore):
    """Opens the gate of robots.txt when a second crawl finds that it is being fetched."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self._gate = gate

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        granted = super().lease(key, owner, seconds)
        if not granted:
            self._gate.set()
        return granted


async def side_by_side(run: Run) -> dict[str, Any]:
    """Run three crawls at once that need the same file."""
    gate = threading.Event()
    OneStore.store = _Opening(gate)
    with Site({"/robots.txt": robots(RULES, gate=gate)}) as site:
        urls = [site.url("/x"), site.url("/y")]
        results = await gather(*(run(Pages, ONE_STORE, urls) for _ in range(3)))
        return {
            "outcomes": [[short(result.outcomes[url]) for url in urls] for result in results],
            "fetches": site.fetches,
            "waits": sum(result.stat("cache/lease_waits") for result in results),
        }


class Slow(MemoryStore):
    """A store that answers only after a page was fetched."""

    fetched: ClassVar[threading.Event]
    in_time: ClassVar[list[bool]]

    def get(self, key: str) -> bytes | None:
        self.in_time.append(self.fetched.wait(60))
        return super().get(key)


async def slow_store(run: Run) -> dict[str, Any]:
    """Fetch a page that needs no robots.txt while the store has not answered."""
    Slow.fetched, Slow.in_time = threading.Event(), []

    def answer(_: Asked) -> Reply:
        Slow.fetched.set()
        return PAGE

    with Site({"/robots.txt": robots(RULES), "/exempt": answer}) as site:
        exempt = Request(site.url("/exempt"), meta={"dont_obey_robotstxt": True})
        settings = {"ROBOTS_CACHE": f"{__name__}.Slow"}
        result = await run(Pages, settings, [site.url("/y"), exempt])
        return {
            "outcomes": [short(result.outcomes[site.url(path)]) for path in ("/y", "/exempt")],
            "in_time": all(Slow.in_time),
            "errors": result.stat("cache/store_errors"),
        }


class Ticking(Pages):
    """Runs a timer every 10 ms, and measures the longest CPU time of the event loop between two
    ticks.
    """

    ticks = 0
    longest = 0.0

    async def start(self) -> AsyncIterator[Any]:
        self.is_closed, self.last_tick = False, time.thread_time()
        self.tick()
        async for request in super().start():
            yield request

    def tick(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self.last_tick)
        self.last_tick = now
        self.ticks += 1
        if not self.is_closed:
            Runtime().call_later(0.01, self.tick)

    def closed(self, _: str) -> None:
        self.is_closed = True


async def large_file(run: Run) -> dict[str, Any]:
    """Crawl a site with 200,000 bytes of rules."""
    body = hostile("escapes", 200_000) + b"Disallow: /x\n"
    began = time.thread_time()
    RobotsTxt.parse(body).prepare("*")
    parse_time = time.thread_time() - began
    with Site({"/robots.txt": Reply(200, body)}) as site, Site() as other:
        # Measure this file only: load modules in a first crawl, and keep the garbage collector from
        # visiting what earlier scenarios left.
        await run(Pages, {}, [other.url("/y")])
        gc.collect()
        gc.freeze()
        pages = [site.url(target) for target in ("/x", "/x/1", "/y", "/y/1")]
        result = await run(Ticking, {}, pages)
        gc.unfreeze()
        return {
            "outcomes": [short(result.outcomes[page]) for page in pages],
            "fetches": site.fetches,
            "share": result.spider.longest / parse_time,
            "ticks": result.spider.ticks,
        }


async def endings(run: Run) -> dict[str, Any]:
    """Crawl sites whose robots.txt ends with the connection, with each download handler."""
    handlers: dict[str, dict[str, Any]] = {"default": {}}
    if is_asyncio_available():
        for name, path in _HANDLERS.items():
            if find_spec(path.rpartition(".")[0]):
                handlers[name] = {"DOWNLOAD_HANDLERS": {"http": path, "https": path}}
    outcomes: dict[str, Any] = {}
    for name, settings in handlers.items():
        pages = []
        with ExitStack() as stack:
            for tls, body in product((False, True), (RULES.encode(), b"")):
                reply = Reply(body=body, closes=True)
                site = stack.enter_context(Site({"/robots.txt": reply}, tls=tls))
                pages.append(site.url("/x"))
            result = await run(Pages, {"DOWNLOAD_VERIFY_CERTIFICATES": False, **settings}, pages)
        outcomes[name] = [short(result.outcomes[page]) for page in pages]
    return outcomes


async def replayed(run: Run) -> dict[str, Any]:
    """Fill the HTTP cache, then crawl from it only. It has a page of the other site, but no
    robots.txt.
    """
    with (
        Site({"/robots.txt": robots(RULES)}) as site,
        Site() as other,
        tempfile.TemporaryDirectory() as folder,
    ):
        cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": folder}
        await run(Pages, cache, [site.url("/a")])
        await run(Pages, {**cache, "ROBOTSTXT_OBEY": False}, [other.url("/a")])
        before = len(site.asked), len(other.asked)
        not_cached = Request(site.url("/sent"), meta={"dont_cache": True})
        urls = [site.url("/a"), site.url("/x"), other.url("/a"), not_cached.url]
        offline = {**cache, "HTTPCACHE_IGNORE_MISSING": True}
        result = await run(Pages, offline, [*urls[:3], not_cached])
        return {
            "outcomes": [short(result.outcomes[url]) for url in urls],
            "asked": [len(site.asked) - before[0], len(other.asked) - before[1]],
        }
