"""Run a process of a crawl, and write its events to a file.

`python -m bench.faults.crawl FOLDER MIDDLEWARE PROCESS PORT...`. The plan is in the folder.
"""

import json
import pickle
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import AsyncCrawlerProcess, Crawler, CrawlerProcess
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.utils.asyncio import call_later
from scrapy.utils.httpobj import urlparse_cached
from twisted.python.failure import Failure

from bench.crawling import MODES, OFF, OURS, SETTINGS, STOCK
from bench.faults.log import BEAT, LAG, Event
from bench.faults.plan import PROXIES, ROBOTS_TIMEOUT, Ask, Part, Plan
from scrapy_robots_rfc import signals as robots_signals
from scrapy_robots_rfc.fetching import pending
from scrapy_robots_rfc.scheduling.scheduler import scheduler_around

OUTCOMES, PLAN = "outcomes", "plan"
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


class Crawl:
    """The plan, the ports and the file of events, which all parts of a crawl share."""

    def __init__(self, plan: Plan, folder: Path, process: int, ports: list[int]) -> None:
        self.plan = plan
        self._process = process
        self._ports = ports[: len(plan.sites)]
        self._proxies = dict(zip(PROXIES, ports[len(plan.sites) :], strict=True))
        self._file = (folder / OUTCOMES).open("a", encoding="utf-8", buffering=1)
        self._numbers = count(process * _NUMBERS)

    def note(self, request: Request | None, kind: str, **more: Any) -> None:  # noqa: ANN401 - fields of Event
        """Write an event to the file."""
        if request is not None:
            parts = urlparse_cached(request)
            more |= {
                "number": request.meta.get("number"),
                "site": self._site(request),
                "path": f"{parts.path}?{parts.query}" if parts.query else parts.path,
                "proxy": request.meta.get("drawn proxy", ""),
            }
        event = Event(time=time.monotonic(), kind=kind, process=self._process, **more)
        self._file.write(json.dumps(event) + "\n")

    def request(self, spider: "Faulted", ask: Ask) -> Request:
        """Create a request."""
        site, number = self.plan.sites[ask.site], next(self._numbers)
        meta: dict[str, Any] = {"number": number, "page": [ask.site, ask.page]}
        if ask.proxy:
            meta["proxy"] = f"http://127.0.0.1:{self._proxies[ask.proxy]}"
            meta["drawn proxy"] = ask.proxy
        request = Request(
            f"http://{site.host}:{self._ports[ask.site]}{site.pages[ask.page].path}",
            spider.parse,
            errback=spider.failed,
            meta=meta,
            headers={"X-Number": str(number)},
            dont_filter=ask.dont_filter,
            priority=ask.priority,
        )
        self.note(request, "yielded")
        return request

    @staticmethod
    def is_hit(part: Part, request: Request, *kinds: str) -> bool:
        """Return whether the middleware of a user, if it is of these kinds, changes a request."""
        may_be_hit = part.kind in kinds and ("number" in request.meta or part.robots)
        return may_be_hit and random.random() < 0.2

    def _site(self, request: Request) -> int | None:
        port = urlparse_cached(request).port
        return self._ports.index(port) if port in self._ports else None


CRAWL: Crawl


class Faulted(Spider):
    """Follows the plan."""

    name = "faulted"
    followed: ClassVar[set[tuple[int, int]]] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: object, **kwargs: object) -> Self:
        """Connect the signal handlers."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        connect = crawler.signals.connect
        connect(spider.on_disallowed, robots_signals.request_disallowed)
        connect(spider.on_dropped, signals.request_dropped)
        connect(spider.on_opened, signals.spider_opened)
        connect(spider.on_left, signals.request_left_downloader)
        connect(spider.on_closed, signals.spider_closed)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        for ask in CRAWL.plan.starts:
            yield CRAWL.request(self, ask)

    def parse(self, response: Response) -> Iterator[Request]:
        """Yield the links of a page, unless it was fetched before."""
        request = response.request
        assert request is not None
        CRAWL.note(request, "fetched")
        site, page = request.meta["page"]
        if (site, page) not in self.followed:
            self.followed.add((site, page))
            for ask in CRAWL.plan.sites[site].pages[page].asks:
                yield CRAWL.request(self, ask)

    def failed(self, failure: Failure) -> None:
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy
        CRAWL.note(request, "failed", detail=type(failure.value).__name__)

    def on_disallowed(self, request: Request, decision: Any) -> None:  # noqa: ANN401 - a Decision
        CRAWL.note(request, "disallowed", detail=decision.reason.value)

    def on_dropped(self, request: Request) -> None:
        CRAWL.note(request, "duplicate")

    def on_opened(self) -> None:
        watch(self.crawler)
        CRAWL.note(None, "opened")
        measure_lag(time.monotonic())

    def on_left(self, request: Request) -> None:
        if "number" in request.meta:
            CRAWL.note(request, "left")

    def on_closed(self, reason: str) -> None:
        CRAWL.note(None, "closed", detail=reason)


def measure_lag(expected: float) -> None:
    """Record how late the event loop is, and schedule the next measurement."""
    late = time.monotonic() - expected
    if late > LAG:
        CRAWL.note(None, "lag", seconds=late)
    call_later(BEAT, measure_lag, time.monotonic() + BEAT)


def watch(crawler: Crawler) -> None:
    """Record each push to the scheduler, each pop, and the start of the close."""
    engine: Any = crawler.engine
    scheduler: Any = engine._slot.scheduler
    push, pop, close = scheduler.enqueue_request, scheduler.next_request, engine.close_spider_async

    def enqueue_request(request: Request) -> bool:
        try:
            is_queued: bool = push(request)
        except ValueError:
            if engine.spider is None or engine._slot is None or engine._slot.closing:
                # Scrapy has closed the file of its duplicate filter, but `start` continues.
                CRAWL.note(request, "too late")
            raise
        if is_queued:
            is_start = request.meta.get("is_start_request", False)
            slot = engine.downloader.get_slot_key(request)
            CRAWL.note(request, "pushed", priority=request.priority, start=is_start, slot=slot)
        return is_queued

    def next_request() -> Request | None:
        CRAWL.note(None, "popping")
        request: Request | None = pop()
        CRAWL.note(request, "no pop" if request is None else "popped")
        return request

    async def close_spider_async(*, reason: str = "cancelled") -> None:
        CRAWL.note(None, "asked to end")
        await close(reason=reason)

    scheduler.enqueue_request, scheduler.next_request = enqueue_request, next_request
    engine.close_spider_async = close_spider_async


class Meddler:
    """A user's downloader middleware."""

    part: Part

    def process_request(self, request: Request) -> Response | None:
        """Answer some requests, or raise for them."""
        is_page, kind = "number" in request.meta, self.part.kind
        if is_page and CRAWL.is_hit(self.part, request, "respond"):
            return HtmlResponse(request.url, request=request)
        if CRAWL.is_hit(self.part, request, "raise", "ignore"):
            CRAWL.note(request, "meddled")
            raise IgnoreRequest("not on the list") if kind == "ignore" else Drawn
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        """Raise for some responses."""
        if CRAWL.is_hit(self.part, request, "raise-after"):
            CRAWL.note(request, "meddled")
            raise Drawn
        return response

    def process_exception(self, request: Request, exception: Exception) -> Response | None:  # noqa: ARG002 - Scrapy's
        """Answer some requests that failed."""
        is_page = "number" in request.meta
        is_hit = is_page and CRAWL.is_hit(self.part, request, "swallow")
        return HtmlResponse(request.url, request=request) if is_hit else None


class UserQueue(ScrapyPriorityQueue):
    """A third-party SCHEDULER_PRIORITY_QUEUE."""


def _scheduler_settings(plan: Plan, middleware: str) -> dict[str, Any]:
    """Return the settings of a third-party queue, in front of which few requests are parked."""
    scheduler: Any = Scheduler
    if middleware == "ours":
        bound = {"max_parked": plan.settings["MAX_PARKED"]}
        scheduler = type("Bounded", (scheduler_around(Scheduler),), bound)
    own = {"SCHEDULER_PRIORITY_QUEUE": UserQueue, "SCHEDULER": scheduler}
    return own if plan.is_wrapped else {}


def settings_of(plan: Plan, folder: Path, middleware: str, process: int) -> dict[str, Any]:
    """Return the settings of a process of the crawl."""
    own = plan.settings
    if process:  # a resumed crawl must not be closed early
        own = {key: own[key] for key in own if not key.startswith("CLOSESPIDER_")}
    report = {str(folder / "r.jsonl"): {"format": "jsonlines"}}
    return {
        **SETTINGS,
        **own,
        **MIDDLEWARES[middleware],
        **_RUNTIMES[plan.runtime][0],
        "DOWNLOAD_TIMEOUT": 5,
        "ROBOTS_TIMEOUT": ROBOTS_TIMEOUT,
        "HTTPCACHE_DIR": str(folder / "http"),
        "JOBDIR": str(folder / "job") if own["JOBDIR"] else None,
        "ROBOTS_CACHE": f"sqlite:///{folder}/robots.sqlite" if own["ROBOTS_CACHE"] else None,
        "ROBOTS_REPORT": report if own["ROBOTS_REPORT"] else {},
        "DOWNLOADER_MIDDLEWARES": {
            type(f"Meddler{number}", (Meddler,), {"part": part}): part.place
            for number, part in enumerate(plan.parts)
        },
        **_scheduler_settings(plan, middleware),
    }


def main(arguments: list[str]) -> None:
    """Run the process."""
    global CRAWL  # noqa: PLW0603 - Scrapy passes only a crawler to the middlewares
    folder, middleware, number, *ports = arguments
    plan = pickle.loads(Path(folder, PLAN).read_bytes())
    CRAWL = Crawl(plan, Path(folder), int(number), list(map(int, ports)))
    pending.MAX_FETCHES = plan.settings["MAX_FETCHES"]
    random.seed(plan.seed + int(number))
    _, process_class = _RUNTIMES[plan.runtime]
    process = process_class(settings_of(plan, Path(folder), middleware, int(number)))
    process.crawl(Faulted)
    process.start()


if __name__ == "__main__":
    main(sys.argv[1:])
