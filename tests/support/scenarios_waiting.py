"""Crawls in which requests wait for a slow robots.txt, for `test_waiting.py`.

Nothing sleeps: robots.txt is sent when the event that must precede it has happened.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.http.request import NO_CALLBACK

from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc.fetching.pending import TICK, max_fetches
from scrapy_robots_rfc.middleware import progress
from tests.support.crawling import Pages, short
from tests.support.scenarios_obeying import FORBID_ALL, OURS, Gate
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.crawling import Run
    from tests.support.site import Asked

FEW = "User-agent: *\nDisallow: /\nAllow: /few/\n"


class Opens(Pages):
    """Lets robots.txt be sent when the first page was fetched."""

    gate: threading.Event

    def parse(self, response: Any, **_: Any) -> None:
        """Open."""
        super().parse(response)
        self.gate.set()


async def slow_origin(run: Run) -> dict[str, Any]:
    """Crawl 50 pages of a site whose robots.txt hangs until a page of another site, requested last,
    was fetched.
    """
    gate = Opens.gate = threading.Event()
    with Site({"/robots.txt": robots(FEW, gate=gate)}) as slow, Site() as other:
        urls = [slow.url(f"/few/{n}" if n < 10 else f"/{n}") for n in range(50)]
        result = await run(Opens, {"CONCURRENT_REQUESTS": 16}, [*urls, other.url("/page")])
        outcomes = result.outcomes
        return {
            "order": [
                outcome if isinstance(outcome, int) else "no" for outcome in outcomes.values()
            ][:1],
            "fetched": Counter(slow.pages) == {f"/few/{n}": 1 for n in range(10)},
            "disallowed": sum(
                isinstance(outcome, RobotsDisallowed) for outcome in outcomes.values()
            ),
            "first": next(iter(outcomes)) == other.url("/page"),
            "look_ups": result.stat("cache/misses"),
        }


async def many_slow(run: Run) -> dict[str, Any]:
    """Crawl sites whose robots.txt hangs until a page of another site was fetched."""
    gate = Opens.gate = threading.Event()
    with contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(Site({"/robots.txt": robots(FORBID_ALL, gate=gate)}))
            for _ in range(6)
        ]
        other = stack.enter_context(Site())
        result = await run(
            Opens, {"CONCURRENT_REQUESTS": 8}, [site.url() for site in slow] + [other.url("/page")]
        )
        return {
            "first": next(iter(result.outcomes)) == other.url("/page"),
            "disallowed": sum(
                isinstance(outcome, RobotsDisallowed) for outcome in result.outcomes.values()
            ),
        }


class Faithful(Pages):
    """Requests pages with everything that a request can have, each of them twice."""

    allowed_domains = ("127.0.0.1",)

    async def start(self) -> AsyncIterator[Any]:
        """Ask; `dont_filter` stays off, so that the second ones are duplicates."""
        self.sent: list[Any] = []
        self.came: list[Any] = []
        self.dropped: list[str] = []
        self.crawler.signals.connect(self.on_dropped, signals.request_dropped)
        self.crawler.signals.connect(self.on_scheduled, signals.request_scheduled)
        self.scheduled = 0
        for number, item in enumerate([*self.requests, *self.requests]):
            request = Request(
                str(item),
                callback=self.parse,
                errback=self.failed,
                headers={"X-Test": "yes"},
                cookies={"a": "b"},
                meta={"own": 1},
                priority=number % 3 - 1,
                flags=["flag"],
                cb_kwargs={"argument": 2},
            )
            self.sent.append((request, snapshot(request)))
            yield request

    def on_scheduled(self) -> None:
        """Count the requests; answer with robots.txt when the last one is queued."""
        self.scheduled += 1
        if self.scheduled == 2 * len(self.requests):
            Gate.opened.set()

    def on_dropped(self, request: Request) -> None:
        """Note the duplicates."""
        self.dropped.append(request.url)

    def parse(self, response: Any, argument: int = 0, **_: Any) -> None:
        """Note the request that came through, and what the callback got."""
        self.came.append((response.request, argument))
        self.outcomes[response.url] = response.status

    def failed(self, failure: Any) -> None:
        """Note the request that was dropped."""
        self.came.append((failure.request, 2))
        self.outcomes[failure.request.url] = failure.value


#: Meta keys that Scrapy and this package add.
ADDED = {
    "download_timeout",
    "download_slot",
    "download_latency",
    "depth",
    "is_start_request",
    "robots_judged_url",
}


def snapshot(request: Request) -> dict[str, Any]:
    """Return everything that a request has, except what Scrapy adds."""
    carried = {
        name: getattr(request, name)
        for name in request.attributes
        if name not in ("meta", "headers")
    }
    carried["meta"] = {key: value for key, value in request.meta.items() if key not in ADDED}
    carried["header"] = request.headers["X-Test"]
    return carried


async def faithful(run: Run) -> dict[str, Any]:
    """Crawl with requests that must reach the callback and the errback unchanged."""
    Gate.opened, Gate.expected = threading.Event(), 0
    with Site({"/robots.txt": robots(FEW, gate=Gate.opened)}) as site:
        urls = [site.url(target) for target in ("/few/1", "/few/2", "/x", "/y")]
        result = await run(Faithful, OURS, urls)
        spider = result.spider
        sent = {id(request): before for request, before in spider.sent}
        return {
            "same": sum(sent[id(request)] == snapshot(request) for request, _ in spider.came),
            "arguments": {argument for _, argument in spider.came} == {2},
            "dropped": sorted(spider.dropped) == sorted(urls),
            "outcomes": sorted(
                str(getattr(outcome, "why", outcome)) for outcome in spider.outcomes.values()
            ),
            "scheduled": spider.scheduled,
            "enqueued": result.stats["scheduler/enqueued"],
            "fetched": site.fetches,
        }


class Direct(Pages):
    """Downloads outside the scheduler, as media pipelines do."""

    async def start(self) -> AsyncIterator[Any]:
        """Download, without asking for anything else."""
        for url in self.requests:
            request = Request(str(url), callback=NO_CALLBACK)
            try:
                response = await self.crawler.engine.download_async(request)
                self.outcomes[str(url)] = response.status
            except RobotsDisallowed as error:
                self.outcomes[str(url)] = error
        nothing: tuple[Any, ...] = ()
        for item in nothing:
            yield item


async def direct(run: Run) -> dict[str, Any]:
    """Crawl with requests that do not pass the scheduler."""
    Gate.opened, Gate.expected = threading.Event(), 1
    with Site({"/robots.txt": robots(FEW, gate=Gate.opened)}) as site:
        result = await run(Direct, OURS, [site.url("/few/1"), site.url("/x")])
        return {
            "outcomes": [getattr(outcome, "why", outcome) for outcome in result.outcomes.values()],
            "pages": site.pages,
        }


class Limited(Pages):
    """Records the maximum number of fetches."""

    max_fetches = 0

    async def start(self) -> AsyncIterator[Any]:
        Limited.max_fetches = max_fetches(self.crawler)
        async for request in super().start():
            yield request


async def few_fetches(run: Run) -> dict[str, Any]:
    """Crawl 17 sites with CONCURRENT_REQUESTS = 1, whose robots.txt files hang for a while."""
    gate = threading.Event()
    under_way: list[int] = []
    counts: list[int] = []

    def answer(_: Asked) -> Reply:
        under_way.append(1)
        counts.append(len(under_way))
        if len(counts) == Limited.max_fetches:
            threading.Timer(2 * TICK, gate.set).start()
        gate.wait(20)
        under_way.pop()
        return robots(FEW)

    with contextlib.ExitStack() as stack:
        sites = [stack.enter_context(Site({"/robots.txt": answer})) for _ in range(17)]
        urls = [site.url("/few/1") for site in sites]
        settings = {"CONCURRENT_REQUESTS": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 100}
        result = await run(Limited, settings, urls)
        return {
            "max": Limited.max_fetches,
            "at once": max(counts),
            "asked": len(counts),
            "outcomes": [short(outcome) for outcome in result.outcomes.values()],
        }


class Heard(logging.Handler):
    """Records log lines, and opens the gate when one says what waits."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self.gate = gate
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note a line."""
        self.lines.append(record.getMessage())
        if "for the robots.txt of" in self.lines[-1]:
            self.gate.set()


async def logged(run: Run) -> dict[str, Any]:
    """Crawl a site whose robots.txt is sent when the log says that pages wait for it, and a paced
    site.
    """
    pace = robots(f"User-agent: *\nCrawl-delay: {3.2 * TICK}\n")
    gate = threading.Event()
    heard, long = Heard(gate), progress.MIN_WAIT
    progress.logger.addHandler(heard)
    progress.logger.setLevel(logging.INFO)
    progress.MIN_WAIT = 0.01
    try:
        with (
            Site({"/robots.txt": robots(FORBID_ALL, gate=gate)}) as slow,
            Site({"/robots.txt": pace}) as paced,
        ):
            pages = [site.url(f"/{number}") for site in (slow, paced) for number in range(3)]
            await run(Pages, {"LOGSTATS_INTERVAL": 0.02}, pages)
            lines = sorted({re.sub(r"\b\d+(:\d+)*\b", "N", line) for line in heard.lines})
            heard.lines.clear()
            await run(Pages, {"LOGSTATS_INTERVAL": 0}, pages)
            return {"lines": lines, "turned off": heard.lines}
    finally:
        progress.MIN_WAIT = long
        progress.logger.removeHandler(heard)
