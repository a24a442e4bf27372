"""One crawl of `bench.faults`, in a process of its own: what becomes of each request is written
down, a line each.

`python -m bench.fault_crawl SEED RUNTIME WITHOUT MIDDLEWARE FOLDER PROCESS PORT...`
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.dupefilters import RFPDupeFilter
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import HtmlResponse
from scrapy.utils.asyncio import call_later
from scrapy.utils.httpobj import urlparse_cached

from bench.fault_log import BEAT, LAG, Event
from bench.fault_plan import TIMEOUT, USER_AGENT, Ask, Part, Plan, draw
from bench.fault_scheduler import scheduler_settings
from bench.fault_servers import PROXIES
from bench.resumed_crawl import RUNTIMES
from scrapy_robots_rfc import signals as robots_signals
from scrapy_robots_rfc.fetching import pending

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure

OUTCOMES = "outcomes"
# The first process of a crawl numbers its requests from 0 on, the next one from this on.
_NUMBERS = 100_000
_STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
#: What obeys robots.txt; others than "ours" show that who judges finds what is wrong.
MIDDLEWARES: dict[str, dict[str, Any]] = {
    "ours": {"ADDONS": {"scrapy_robots_rfc.Addon": 500}},
    "stock": {"ROBOTSTXT_OBEY": True},
    "off": {"ROBOTSTXT_OBEY": False},
}


class Drawn(Exception):  # noqa: N818 - no error of anybody's
    """Raised by the drawn company."""


class Crawl:
    """What the parts of the crawl share.

    Its plan, ports, and the file in which outcomes are noted.
    """

    def __init__(self, plan: Plan, folder: Path, process: int, ports: list[int]) -> None:
        self.plan, self.folder, self._process = plan, folder, process
        self.ports = ports[: len(plan.sites)]
        self._proxies = dict(zip(PROXIES, ports[len(plan.sites) :], strict=True))
        self._file = (folder / OUTCOMES).open("a", encoding="utf-8", buffering=1)
        self._numbers = count(process * _NUMBERS)
        self._chances: dict[tuple[str, str], int] = {}

    def note(self, request: Request | None, kind: str, **more: Any) -> None:  # noqa: ANN401 - fields of Event
        """Write down an event."""
        if request is not None:
            parts = urlparse_cached(request)
            more |= {
                "number": request.meta.get("number"),
                "site": self.site(request),
                "path": f"{parts.path}?{parts.query}" if parts.query else parts.path,
                "proxy": request.meta.get("drawn proxy", ""),
                "exempt": request.meta.get("dont_obey_robotstxt", False),
            }
        event = Event(time=time.monotonic(), kind=kind, process=self._process, **more)
        self._file.write(json.dumps(asdict(event)) + "\n")

    def request(self, spider: Faulted, ask: Ask) -> Request:
        """Make the request of an ask."""
        site, number = self.plan.sites[ask.site], next(self._numbers)
        meta: dict[str, Any] = {"number": number, "at": [ask.site, ask.page]}
        if ask.exempt:
            meta["dont_obey_robotstxt"] = True
        if ask.proxy:
            meta["proxy"] = f"http://127.0.0.1:{self._proxies[ask.proxy]}"
            meta["drawn proxy"] = ask.proxy
        made = Request(
            f"http://{site.host}:{self.ports[ask.site]}{site.pages[ask.page].path}",
            spider.parse,
            errback=spider.failed,
            meta=meta,
            headers={"X-Number": str(number), "X-Exempt": str(int(ask.exempt))},
            dont_filter=ask.dont_filter,
            priority=ask.priority,
        )
        self.note(made, "yielded")
        return made

    def hit(self, part: Part, request: Request) -> bool:
        """Whether a part meddles with a request; notes it where that is one for robots.txt."""
        parts = urlparse_cached(request)
        if "number" in request.meta:
            key = f"{request.meta['number']}"
        elif part.robots:
            asked = (f"{part.place}{part.kind}", parts.netloc)
            self._chances[asked] = self._chances.get(asked, 0) + 1
            key = f"{self.site(request)} {self._chances[asked]}"
        else:
            return False
        drawn = (
            zlib.crc32(f"{self.plan.seed} {part.place} {part.kind} {key}".encode()) / 2**32
            < part.share
        )
        if drawn and "number" not in request.meta and part.kind != "headers":
            self.note(None, "local", site=self.site(request))
        return drawn

    def site(self, request: Request) -> int | None:
        """The number of the site that a request goes to."""
        port = urlparse_cached(request).port
        return self.ports.index(port) if port in self.ports else None


CRAWL: Crawl


class Faulted(Spider):
    """Follows the plan."""

    name = "faulted"

    def __init__(self) -> None:
        super().__init__()
        self._followed: set[tuple[int, int]] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: object, **kwargs: object) -> Self:
        """Connect the handlers that the plan has."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        connect = crawler.signals.connect
        connect(spider.on_disallowed, robots_signals.request_disallowed)
        connect(spider.on_dropped, signals.request_dropped)
        connect(spider.on_opened, signals.spider_opened)
        connect(spider.on_left, signals.request_left_downloader)
        connect(spider.on_closed, signals.spider_closed)
        plan = CRAWL.plan
        if plan.signal:
            kinds = {**vars(signals), **vars(robots_signals)}
            connect(spider.on_signal, kinds[plan.signal])
        if plan.stop:
            connect(spider.on_bytes, getattr(signals, plan.stop))
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """What the plan starts with."""
        for ask in CRAWL.plan.starts:
            yield CRAWL.request(self, ask)

    def parse(self, response: Response) -> Iterator[Request]:
        """Yield what the plan has for the page that was asked for, when it comes for the first
        time.
        """
        request = response.request
        assert request is not None
        CRAWL.note(request, "fetched")
        site, page = request.meta["at"]
        if (site, page) in self._followed:
            return
        self._followed.add((site, page))
        for ask in CRAWL.plan.sites[site].pages[page].asks:
            yield CRAWL.request(self, ask)

    def failed(self, failure: Failure) -> None:
        """Note what went wrong."""
        request: Request = failure.request  # type: ignore[attr-defined]  # Scrapy puts it there
        decision = getattr(failure.value, "decision", None)
        CRAWL.note(
            request,
            "failed",
            error=type(failure.value).__name__,
            reason="" if decision is None else decision.reason.value,
        )

    def on_disallowed(self, request: Request, decision: Any) -> None:  # noqa: ANN401 - a Decision, or nothing
        """Note a refusal."""
        CRAWL.note(request, "disallowed", reason=decision.reason.value)

    def on_dropped(self, request: Request) -> None:
        """Note what the scheduler dropped."""
        CRAWL.note(request, "duplicate")

    def on_opened(self) -> None:
        """Note the beginning, and from now on what the scheduler gets and gives."""
        watch(self.crawler)
        CRAWL.note(None, "opened")
        measure_lag(time.monotonic())

    def on_left(self, request: Request) -> None:
        """Note that the downloader has done with a page."""
        if "number" in request.meta:
            CRAWL.note(request, "left")

    def on_closed(self, reason: str) -> None:
        """Note the end."""
        CRAWL.note(None, "closed", reason=reason)

    def on_signal(self, request: Request | None = None) -> None:
        """Raise now and then, as handlers do."""
        if request is None or request.meta.get("number", 1) % 3 == 0:
            if request is not None and CRAWL.plan.signal == "request_scheduled":
                CRAWL.note(request, "meddled")
                raise IgnoreRequest
            raise Drawn

    def on_bytes(self) -> None:
        """Stop every download, as a spider does that wants the beginnings of pages."""
        raise StopDownload(fail=CRAWL.plan.stop_fails)


def measure_lag(expected: float) -> None:
    """Note how late the event loop is, again and again."""
    late = time.monotonic() - expected
    if late > LAG:
        CRAWL.note(None, "lag", seconds=late)
    call_later(BEAT, measure_lag, time.monotonic() + BEAT)


def watch(crawler: Crawler) -> None:
    """Note what is pushed to the scheduler and popped from it, and when the crawl is to end."""
    engine: Any = crawler.engine
    scheduler: Any = engine._slot.scheduler
    enqueue, pop, close = (
        scheduler.enqueue_request,
        scheduler.next_request,
        engine.close_spider_async,
    )

    def enqueue_request(request: Request) -> bool:
        queued: bool = enqueue(request)
        if queued:
            start = request.meta.get("is_start_request", False)
            CRAWL.note(request, "pushed", priority=request.priority, start=start)
        return queued

    def next_request() -> Request | None:
        request: Request | None = pop()
        if request is not None:
            CRAWL.note(request, "popped")
        return request

    async def close_spider_async(*, reason: str = "cancelled") -> None:
        CRAWL.note(None, "asked to end")
        await close(reason=reason)

    scheduler.enqueue_request, scheduler.next_request = enqueue_request, next_request
    engine.close_spider_async = close_spider_async


class Meddler:
    """A downloader middleware of the user's."""

    part: Part

    def process_request(self, request: Request) -> Response | None:
        """Raise, answer, or change headers."""
        kind = self.part.kind
        if kind not in {"raise", "ignore", "respond", "headers"} or not CRAWL.hit(
            self.part, request
        ):
            return None
        if kind == "headers":
            request.headers[b"Accept-Language"] = b"eo"
            request.headers[b"X-Company"] = b"of the user's"
            return None
        if kind == "respond":
            return (
                None
                if "number" not in request.meta
                else HtmlResponse(request.url, body=b"", request=request)
            )
        CRAWL.note(request, "meddled")
        raise (
            IgnoreRequest("not in the user's list") if kind == "ignore" else Drawn("of the user's")
        )

    def process_response(self, request: Request, response: Response) -> Response:
        """Raise."""
        if self.part.kind == "raise-after" and CRAWL.hit(self.part, request):
            CRAWL.note(request, "meddled")
            raise Drawn("of the user's")
        return response

    def process_exception(self, request: Request, exception: Exception) -> Response | None:  # noqa: ARG002 - Scrapy's
        """Answer in place of an exception."""
        if (
            self.part.kind != "swallow"
            or "number" not in request.meta
            or not CRAWL.hit(self.part, request)
        ):
            return None
        return HtmlResponse(request.url, body=b"", request=request)


class SpiderMeddler:
    """A spider middleware of the user's."""

    part: Part

    def process_spider_input(self, response: Response) -> None:
        """Raise."""
        if (
            self.part.kind == "input"
            and response.request is not None
            and CRAWL.hit(self.part, response.request)
        ):
            CRAWL.note(response.request, "meddled")
            raise Drawn("of the user's")

    async def process_spider_output(
        self,
        response: Response,  # noqa: ARG002 - Scrapy's
        result: AsyncIterator[Any],
    ) -> AsyncIterator[Any]:
        """Drop requests, or raise."""
        async for item in result:
            if (
                isinstance(item, Request)
                and self.part.kind in {"output", "drop"}
                and CRAWL.hit(self.part, item)
            ):
                CRAWL.note(item, "meddled")
                if self.part.kind == "output":
                    raise Drawn("of the user's")
                continue
            yield item


class Filter(RFPDupeFilter):
    """A filter of duplicates of the user's, which drops more."""

    def request_seen(self, request: Request) -> bool:
        """Drop some."""
        if request.meta.get("number", 1) % 7 == 0:
            CRAWL.note(request, "meddled")
            return True
        return super().request_seen(request)


def _made(base: type[Any], parts: Iterable[Part]) -> dict[type[Any], int]:
    return {
        type(f"{base.__name__}{n}", (base,), {"part": part}): part.place
        for n, part in enumerate(parts)
    }


def settings_of(plan: Plan, folder: Path, middleware: str, process: int = 0) -> dict[str, Any]:
    """The settings of a crawl."""
    settings = {
        **plan.settings,
        **MIDDLEWARES[middleware],
        **RUNTIMES[plan.runtime][0],
        "USER_AGENT": USER_AGENT,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "DOWNLOAD_TIMEOUT": 5,
        "ROBOTS_TIMEOUT": TIMEOUT,
        "HTTPCACHE_DIR": str(folder / "http"),
        "JOBDIR": str(folder / "job") if plan.settings["JOBDIR"] else None,
        "ROBOTS_CACHE": f"sqlite:///{folder / 'robots.sqlite'}"
        if plan.settings.get("ROBOTS_CACHE")
        else None,
        "ROBOTS_REPORT": {str(folder / "r.jsonl"): {"format": "jsonlines"}}
        if plan.settings["ROBOTS_REPORT"]
        else {},
        "DOWNLOADER_MIDDLEWARES": _made(Meddler, plan.parts),
        "SPIDER_MIDDLEWARES": _made(SpiderMeddler, plan.spider_parts),
        **scheduler_settings(plan, middleware),
    }
    if plan.dupefilter:
        settings["DUPEFILTER_CLASS"] = Filter
    if process:  # a crawl that is resumed goes on to its end
        settings = {key: settings[key] for key in settings if not key.startswith("CLOSESPIDER_")}
    return settings


def main(arguments: list[str]) -> None:
    """Crawl."""
    global CRAWL  # noqa: PLW0603 - Scrapy makes the parts, and hands them no more than a crawler
    seed, runtime, without, middleware, folder, number, *ports = arguments
    plan = draw(int(seed), runtime, without.split(","))
    CRAWL = Crawl(plan, Path(folder), int(number), list(map(int, ports)))
    pending.MAX_FETCHES = plan.settings["FETCHES_AT_ONCE"]
    process = RUNTIMES[plan.runtime][1](settings_of(plan, Path(folder), middleware, int(number)))
    process.crawl(Faulted)
    process.start()


if __name__ == "__main__":
    main(sys.argv[1:])
