"""Run a process of a crawl of `bench.faults`, and write its events to a file.

`python -m bench.fault_crawl FOLDER MIDDLEWARE PROCESS PORT...`. The plan is in the folder.
"""

import json
import pickle
import sys
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler, CrawlerProcess
from scrapy.dupefilters import RFPDupeFilter
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import HtmlResponse, Response
from scrapy.utils.asyncio import call_later
from scrapy.utils.httpobj import urlparse_cached
from twisted.python.failure import Failure

from bench.crawling import MODES, OFF, OURS, SETTINGS, STOCK
from bench.fault_log import BEAT, LAG, Event
from bench.fault_plan import TIMEOUT, USER_AGENT, Ask, Part, Plan
from bench.fault_scheduler import scheduler_settings
from bench.fault_servers import PROXIES
from scrapy_robots_rfc import signals as robots_signals
from scrapy_robots_rfc.fetching import pending

OUTCOMES, PLAN = "outcomes", "plan"
# The first number of a request in the second process. The third one starts at twice that.
_NUMBERS = 100_000
_RUNTIMES: dict[str, tuple[dict[str, Any], type[AsyncCrawlerProcess | CrawlerProcess]]] = {
    "asyncio": ({}, AsyncCrawlerProcess),
    "select": ({"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"}, CrawlerProcess),
    "none": ({"TWISTED_REACTOR_ENABLED": False}, AsyncCrawlerProcess),
}
#: What obeys robots.txt. Crawls without ours show that the judge finds violations.
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
        self._robots: dict[str, int] = {}

    def note(self, request: Request | None, kind: str, **more: Any) -> None:  # noqa: ANN401 - fields of Event
        """Write an event to the file."""
        if request is not None:
            parts = urlparse_cached(request)
            more |= {
                "number": request.meta.get("number"),
                "site": self._site(request),
                "path": f"{parts.path}?{parts.query}" if parts.query else parts.path,
                "proxy": request.meta.get("drawn proxy", ""),
                "exempt": request.meta.get("dont_obey_robotstxt", False),
            }
        event = Event(time=time.monotonic(), kind=kind, process=self._process, **more)
        self._file.write(json.dumps(asdict(event)) + "\n")

    def request(self, spider: "Faulted", ask: Ask) -> Request:
        """Create a request."""
        site, number = self.plan.sites[ask.site], next(self._numbers)
        meta: dict[str, Any] = {"number": number, "page": [ask.site, ask.page]}
        if ask.exempt:
            meta["dont_obey_robotstxt"] = True
        if ask.proxy:
            meta["proxy"] = f"http://127.0.0.1:{self._proxies[ask.proxy]}"
            meta["drawn proxy"] = ask.proxy
        request = Request(
            f"http://{site.host}:{self._ports[ask.site]}{site.pages[ask.page].path}",
            spider.parse,
            errback=spider.failed,
            meta=meta,
            headers={"X-Number": str(number), "X-Exempt": str(int(ask.exempt))},
            dont_filter=ask.dont_filter,
            priority=ask.priority,
        )
        self.note(request, "yielded")
        return request

    def is_hit(self, part: Part, request: Request, *kinds: str) -> bool:
        """Return whether the middleware of a user, if it is of these kinds, changes a request."""
        is_page = "number" in request.meta
        if part.kind not in kinds or not (is_page or part.robots):
            return False
        key = f"{request.meta.get('number')}"
        if not is_page:
            site = f"{part.place}{part.kind} {urlparse_cached(request).netloc}"
            self._robots[site] = self._robots.get(site, 0) + 1
            key = f"{self._site(request)} {self._robots[site]}"
        text = f"{self.plan.seed} {part.place} {part.kind} {key}"
        is_hit = zlib.crc32(text.encode()) / 2**32 < part.share
        if is_hit and not is_page and part.kind != "headers":
            self.note(None, "local", site=self._site(request))
        return is_hit

    def _site(self, request: Request) -> int | None:
        port = urlparse_cached(request).port
        return self._ports.index(port) if port in self._ports else None


CRAWL: Crawl


class Faulted(Spider):
    """Follows the plan."""

    name = "faulted"

    def __init__(self) -> None:
        super().__init__()
        self._followed: set[tuple[int, int]] = set()

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
        plan = CRAWL.plan
        if plan.signal:
            connect(spider.on_signal, {**vars(signals), **vars(robots_signals)}[plan.signal])
        if plan.stop:
            connect(spider.on_bytes, getattr(signals, plan.stop))
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
        if (site, page) not in self._followed:
            self._followed.add((site, page))
            for ask in CRAWL.plan.sites[site].pages[page].asks:
                yield CRAWL.request(self, ask)

    def failed(self, failure: Failure) -> None:
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy
        CRAWL.note(request, "failed", error=type(failure.value).__name__)

    def on_disallowed(self, request: Request, decision: Any) -> None:  # noqa: ANN401 - a Decision
        CRAWL.note(request, "disallowed", reason=decision.reason.value)

    def on_dropped(self, request: Request) -> None:
        CRAWL.note(request, "duplicate")

    def on_opened(self) -> None:
        """Start to record the crawl."""
        watch(self.crawler)
        CRAWL.note(None, "opened")
        measure_lag(time.monotonic())

    def on_left(self, request: Request) -> None:
        """Record that the downloader has finished a page."""
        if "number" in request.meta:
            CRAWL.note(request, "left")

    def on_closed(self, reason: str) -> None:
        CRAWL.note(None, "closed", reason=reason)

    def on_signal(self, request: Request | None = None) -> None:
        """Raise for some requests."""
        if request is not None and request.meta.get("number", 1) % 3:
            return
        if request is not None and CRAWL.plan.signal == "request_scheduled":
            CRAWL.note(request, "meddled")
            raise IgnoreRequest
        raise Drawn

    def on_bytes(self) -> None:
        """Stop a download, as spiders do that need only the beginning of a page."""
        raise StopDownload(fail=CRAWL.plan.stop_fails)


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
    push, pop = scheduler.enqueue_request, scheduler.next_request
    close = engine.close_spider_async

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
        kind = self.part.kind
        if not CRAWL.is_hit(self.part, request, "raise", "ignore", "respond", "headers"):
            return None
        if kind == "headers":
            request.headers[b"Accept-Language"] = b"eo"
            return None
        if kind == "respond":
            is_page = "number" in request.meta
            return HtmlResponse(request.url, body=b"", request=request) if is_page else None
        CRAWL.note(request, "meddled")
        raise IgnoreRequest("not on the list") if kind == "ignore" else Drawn("by a middleware")

    def process_response(self, request: Request, response: Response) -> Response:
        if CRAWL.is_hit(self.part, request, "raise-after"):
            CRAWL.note(request, "meddled")
            raise Drawn("by a middleware")
        return response

    def process_exception(self, request: Request, exception: Exception) -> Response | None:  # noqa: ARG002 - Scrapy's
        if "number" not in request.meta or not CRAWL.is_hit(self.part, request, "swallow"):
            return None
        return HtmlResponse(request.url, body=b"", request=request)


class SpiderMeddler:
    """A user's spider middleware."""

    part: Part

    def process_spider_input(self, response: Response) -> None:
        request = response.request
        if request is not None and CRAWL.is_hit(self.part, request, "input"):
            CRAWL.note(request, "meddled")
            raise Drawn("by a spider middleware")

    async def process_spider_output(
        self,
        response: Response,  # noqa: ARG002 - Scrapy's
        result: AsyncIterator[Any],
    ) -> AsyncIterator[Any]:
        async for item in result:
            is_request = isinstance(item, Request)
            if not (is_request and CRAWL.is_hit(self.part, item, "output", "drop")):
                yield item
                continue
            CRAWL.note(item, "meddled")
            if self.part.kind == "output":
                raise Drawn("by a spider middleware")


class Filter(RFPDupeFilter):
    """A user's duplicate filter, which also drops other requests."""

    def request_seen(self, request: Request) -> bool:
        if request.meta.get("number", 1) % 7 == 0:
            CRAWL.note(request, "meddled")
            return True
        return super().request_seen(request)


def _classes(base: type[Any], parts: Iterable[Part]) -> dict[type[Any], int]:
    return {
        type(f"{base.__name__}{n}", (base,), {"part": part}): part.place
        for n, part in enumerate(parts)
    }


def settings_of(plan: Plan, folder: Path, middleware: str, process: int) -> dict[str, Any]:
    """Return the settings of a process of the crawl."""
    own = plan.settings
    report = {str(folder / "r.jsonl"): {"format": "jsonlines"}}
    settings = {
        **SETTINGS,
        **own,
        **MIDDLEWARES[middleware],
        **_RUNTIMES[plan.runtime][0],
        "USER_AGENT": USER_AGENT,
        "DOWNLOAD_TIMEOUT": 5,
        "ROBOTS_TIMEOUT": TIMEOUT,
        "HTTPCACHE_DIR": str(folder / "http"),
        "JOBDIR": str(folder / "job") if own["JOBDIR"] else None,
        "ROBOTS_CACHE": f"sqlite:///{folder}/robots.sqlite" if own.get("ROBOTS_CACHE") else None,
        "ROBOTS_REPORT": report if own["ROBOTS_REPORT"] else {},
        "DOWNLOADER_MIDDLEWARES": _classes(Meddler, plan.parts),
        "SPIDER_MIDDLEWARES": _classes(SpiderMeddler, plan.spider_parts),
        **scheduler_settings(plan, middleware),
    }
    if plan.dupefilter:
        settings["DUPEFILTER_CLASS"] = Filter
    if process:  # a resumed crawl must not be closed early
        settings = {key: settings[key] for key in settings if not key.startswith("CLOSESPIDER_")}
    return settings


def main(arguments: list[str]) -> None:
    """Run the process."""
    global CRAWL  # noqa: PLW0603 - Scrapy passes only a crawler to the middlewares
    folder, middleware, number, *ports = arguments
    plan = pickle.loads(Path(folder, PLAN).read_bytes())
    CRAWL = Crawl(plan, Path(folder), int(number), list(map(int, ports)))
    pending.MAX_FETCHES = plan.settings["MAX_FETCHES"]
    _, process_class = _RUNTIMES[plan.runtime]
    process = process_class(settings_of(plan, Path(folder), middleware, int(number)))
    process.crawl(Faulted)
    process.start()


if __name__ == "__main__":
    main(sys.argv[1:])
