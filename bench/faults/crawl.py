"""Run a process of a crawl, and write its events to a file.

`python -m bench.faults.crawl FOLDER PROCESS`. The plan is in the folder.
"""

import json
import os
import pickle
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Self, TextIO

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import AsyncCrawlerProcess, Crawler, CrawlerProcess
from scrapy.http import HtmlResponse, Response
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.utils.asyncio import call_later
from scrapy.utils.httpobj import urlparse_cached
from twisted.python.failure import Failure

from bench.crawling import MODES, OFF, OURS, SETTINGS, STOCK
from bench.faults.log import BEAT, EVENTS, LAG, Event
from bench.faults.plan import PROXIES, ROBOTS_TIMEOUT, Ask, Part, Plan
from scrapy_robots_rfc import signals as robots_signals
from scrapy_robots_rfc.fetching import pending
from scrapy_robots_rfc.scheduling.scheduler import scheduler_around

#: The file of the plan, the key of `MIDDLEWARES`, and the addresses of sites and proxies.
PLAN = "plan"
# The first number of a request in the second process. The third one starts at twice that.
_NUMBERS = 100_000
_RUNTIMES: dict[str, tuple[dict[str, Any], type[AsyncCrawlerProcess | CrawlerProcess]]] = {
    "asyncio": ({}, AsyncCrawlerProcess),
    "select": ({"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"}, CrawlerProcess),
    "none": ({"TWISTED_REACTOR_ENABLED": False}, AsyncCrawlerProcess),
}
#: What obeys robots.txt. All but the first show that the judge finds violations.
MIDDLEWARES = {"ours": MODES[OURS], "stock": MODES[STOCK], "off": MODES[OFF]}


class Drawn(Exception):  # noqa: N818 - not an error of this program
    """Raised by the code of a user."""


class Faulted(Spider):
    """Follows the plan, and records what happens."""

    name = "faulted"

    def __init__(self, plan: Plan, process: int, addresses: list[str], file: TextIO) -> None:
        super().__init__()
        self._plan = plan
        self._process = process
        self._sites = addresses[: len(plan.sites)]
        self._proxies = dict(zip(PROXIES, addresses[len(plan.sites) :], strict=True))
        self._file = file
        self._numbers = count(process * _NUMBERS)
        self._followed: set[tuple[int, int]] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: object, **kwargs: object) -> Self:
        """Connect the signal handlers."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        connect = crawler.signals.connect
        connect(spider.on_opened, signals.spider_opened)
        connect(spider.on_disallowed, robots_signals.request_disallowed)
        connect(spider.on_closed, signals.spider_closed)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        for ask in self._plan.starts:
            yield self._request(ask)

    def _request(self, ask: Ask) -> Request:
        number, page = next(self._numbers), self._plan.sites[ask.site].pages[ask.page]
        meta: dict[str, Any] = {"number": number, "page": [ask.site, ask.page]}
        if ask.proxy:
            meta["proxy"] = f"http://{self._proxies[ask.proxy]}"
            meta["drawn proxy"] = ask.proxy
        return Request(
            f"http://{self._sites[ask.site]}{page.path}",
            self.parse,
            errback=self.failed,
            meta=meta,
            headers={"X-Number": str(number)},
            dont_filter=ask.dont_filter,
            priority=ask.priority,
        )

    def parse(self, response: Response) -> Iterator[Request]:
        """Yield the links of a page, unless it was fetched before."""
        request = response.request
        assert request is not None
        self._note("fetched", request)
        site, page = request.meta["page"]
        if (site, page) not in self._followed:
            self._followed.add((site, page))
            for ask in self._plan.sites[site].pages[page].asks:
                yield self._request(ask)

    def failed(self, failure: Failure) -> None:
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy
        self._note("failed", request, detail=type(failure.value).__name__)

    def on_opened(self) -> None:
        """Record each push to the scheduler, each pop, and the start of the close."""
        engine: Any = self.crawler.engine
        scheduler: Any = engine._slot.scheduler
        push, pop = scheduler.enqueue_request, scheduler.next_request
        close = engine.close_spider_async

        def enqueue_request(request: Request) -> bool:
            is_queued: bool = push(request)
            self._note("pushed" if is_queued else "duplicate", request)
            return is_queued

        def next_request() -> Request | None:
            self._note("popping")
            request: Request | None = pop()
            self._note("popped", request)
            return request

        async def close_spider_async(*, reason: str = "cancelled") -> None:
            self._note("asked to end")
            await close(reason=reason)

        scheduler.enqueue_request, scheduler.next_request = enqueue_request, next_request
        engine.close_spider_async = close_spider_async
        self._measure_lag(time.monotonic())
        # Later, because Scrapy may not handle signals before the event loop runs.
        call_later(0, partial(print, "opened", flush=True))

    def on_disallowed(self, request: Request, decision: Any) -> None:  # noqa: ANN401 - a Decision
        self._note("disallowed", request, detail=decision.reason.value)

    def on_closed(self, reason: str) -> None:
        self._note("closed", detail=reason)
        os.close(sys.stdout.fileno())  # a signal from now on would only disturb the exit

    def _measure_lag(self, expected: float) -> None:
        """Record how late the event loop is, and schedule the next measurement."""
        late = time.monotonic() - expected
        if late > LAG:
            self._note("lag", seconds=late)
        call_later(BEAT, self._measure_lag, time.monotonic() + BEAT)

    def _note(self, kind: str, request: Request | None = None, **more: Any) -> None:  # noqa: ANN401 - fields of Event
        """Write an event to the file."""
        if request is not None:
            parts = urlparse_cached(request)
            more |= {
                "number": request.meta.get("number"),
                "site": self._sites.index(parts.netloc),
                "path": parts._replace(scheme="", netloc="").geturl(),
                "proxy": request.meta.get("drawn proxy", ""),
            }
        event = Event(time.monotonic(), kind, self._process, **more)
        self._file.write(json.dumps(event) + "\n")


class Meddler:
    """A user's downloader middleware."""

    part: Part

    def _is_hit(self, request: Request, *kinds: str) -> bool:
        """Return whether to change a request, if the middleware is of one of these kinds."""
        may_be_hit = self.part.kind in kinds and ("number" in request.meta or self.part.robots)
        return may_be_hit and random.random() < 0.2

    def process_request(self, request: Request) -> Response | None:
        """Answer some requests for pages, or raise for some requests."""
        if "number" in request.meta and self._is_hit(request, "respond"):
            return HtmlResponse(request.url, request=request)
        if self._is_hit(request, "raise"):
            raise Drawn
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        """Raise for some responses."""
        if self._is_hit(request, "raise-after"):
            raise Drawn
        return response

    def process_exception(self, request: Request, exception: Exception) -> Response | None:  # noqa: ARG002 - Scrapy's
        """Answer some requests for pages that failed."""
        is_hit = "number" in request.meta and self._is_hit(request, "swallow")
        return HtmlResponse(request.url, request=request) if is_hit else None


class UserQueue(ScrapyPriorityQueue):
    """A third-party SCHEDULER_PRIORITY_QUEUE."""


def settings_of(plan: Plan, folder: Path, middleware: str, process: int) -> dict[str, Any]:
    """Return the settings of a process of the crawl."""
    own = plan.settings
    if process:  # a resumed crawl must not be closed early
        own = {key: own[key] for key in own if not key.startswith("CLOSESPIDER_")}
    settings = {
        **SETTINGS,
        **own,
        **MIDDLEWARES[middleware],
        **_RUNTIMES[plan.runtime][0],
        "AUTOTHROTTLE_START_DELAY": 0.05,
        "AUTOTHROTTLE_MAX_DELAY": 0.2,
        "DOWNLOAD_TIMEOUT": 5,
        "RETRY_TIMES": 1,
        "ROBOTS_TIMEOUT": ROBOTS_TIMEOUT,
        "HTTPCACHE_DIR": str(folder / "http"),
        "JOBDIR": str(folder / "job") if own["JOBDIR"] else None,
        "ROBOTS_CACHE": f"sqlite:///{folder}/robots.sqlite" if own["ROBOTS_CACHE"] else None,
        "ROBOTS_REPORT": str(folder / "report.jsonl") if own["ROBOTS_REPORT"] else None,
        "DOWNLOADER_MIDDLEWARES": {
            type(f"Meddler{number}", (Meddler,), {"part": part}): part.place
            for number, part in enumerate(plan.parts)
        },
    }
    if plan.is_wrapped:
        settings["SCHEDULER_PRIORITY_QUEUE"] = UserQueue
        if middleware == "ours":
            bound = {"max_parked": own["MAX_PARKED"]}
            settings["SCHEDULER"] = type("Bounded", (scheduler_around(Scheduler),), bound)
    return settings


def main(arguments: list[str]) -> None:
    """Run the process."""
    folder, number = Path(arguments[0]), int(arguments[1])
    plan, middleware, addresses = pickle.loads((folder / PLAN).read_bytes())
    pending.MAX_FETCHES = plan.settings["MAX_FETCHES"]
    random.seed(plan.seed + number)
    crawls = _RUNTIMES[plan.runtime][1](settings_of(plan, folder, middleware, number))
    with (folder / EVENTS.format(number)).open("w", encoding="utf-8", buffering=1) as file:
        crawls.crawl(Faulted, plan, number, addresses, file)
        crawls.start()


if __name__ == "__main__":
    main(sys.argv[1:])
