"""Requests wait in the queue for robots.txt and for their turn, and delay no other site."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, signals

from scrapy_robots_rfc._runtime import CANCELLED, Runtime
from scrapy_robots_rfc.fetching import pending
from scrapy_robots_rfc.fetching.pending import TICK, max_connections, max_fetches
from scrapy_robots_rfc.reporting import crawl_log
from tests.support.crawling import Pages, close_when, crawl, listening, plugged, records, short
from tests.support.running import REACTORLESS, in_every_runtime
from tests.support.service_crawls import run
from tests.support.site import PAGE, Reply, Site, redirect, robots
from tests.support.timed_site import DELAY, PACED, fetched, gaps, urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path
    from typing import Self

    from scrapy.crawler import Crawler

    from scrapy_robots_rfc import RobotsService
    from tests.support.site import Asked

FEW = "User-agent: *\nDisallow: /\nAllow: /few/\n"
FORBID_ALL = "User-agent: *\nDisallow: /\n"
ONE = {"CONCURRENT_REQUESTS": 1}
SCRAPYS_QUEUE = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue"}


def opens(gate: threading.Event, count: int) -> Callable[[Crawler], None]:
    """Return a function that prepares a crawler to set an event when requests are scheduled."""
    left = list(range(count))

    def scheduled() -> None:
        left.pop()
        if not left:
            gate.set()

    return listening(scheduled, signals.request_scheduled)


class Opens(Pages):
    """Sets `gate` when the first page was fetched."""

    gate: threading.Event

    def parse(self, response: Any, **_: Any) -> None:
        super().parse(response)
        self.gate.set()


@pytest.mark.parametrize(
    ("count", "queue"),
    [(1, {}), (50, {}), (3, SCRAPYS_QUEUE), (50, SCRAPYS_QUEUE)],
    ids=["1 in ours", "50 in ours", "3 in scrapy's", "50 in scrapy's"],
)
@in_every_runtime
async def test_waiting_requests_get_the_verdict(
    site: Site, count: int, queue: dict[str, Any]
) -> None:
    """However many pages wait, robots.txt is fetched once, and no disallowed page is fetched."""
    gate = threading.Event()
    site.replies["/robots.txt"] = robots(FORBID_ALL, gate=gate)
    places = {"CONCURRENT_REQUESTS": count + 1, "CONCURRENT_REQUESTS_PER_DOMAIN": count + 1}
    result = await crawl(urls(site, count), {**places, **queue}, prepare=opens(gate, count))
    assert site.targets == ["/robots.txt"]
    assert result.verdicts() == ["rule"] * count


@in_every_runtime
async def test_slow_site_delays_no_other(site: Site, other: Site) -> None:
    """A page of another site comes before 50 pages of a site whose robots.txt hangs."""
    gate = threading.Event()
    site.replies["/robots.txt"] = robots(FEW, gate=gate)
    pages = [site.url(f"/few/{number}" if number < 10 else f"/{number}") for number in range(50)]
    result = await crawl([*pages, other.url("/page")], spider=Opens, gate=gate)
    assert next(iter(result.outcomes)) == other.url("/page")
    assert Counter(site.pages) == {f"/few/{number}": 1 for number in range(10)}
    assert Counter(map(short, result.outcomes.values())) == {200: 11, "rule": 40}
    assert result.stat("cache/misses") == 2


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
    names = [name for name in request.attributes if name not in ("meta", "headers")]
    carried = {name: getattr(request, name) for name in names}
    carried["meta"] = {key: value for key, value in request.meta.items() if key not in ADDED}
    carried["header"] = request.headers["X-Test"]
    return carried


class Faithful(Pages):
    """Requests each page twice, and keeps what it yielded and what its callbacks got."""

    async def start(self) -> AsyncIterator[Any]:
        self.sent: dict[str, tuple[Request, dict[str, Any]]] = {}
        self.came: list[Request] = []
        for number, item in enumerate([*self.requests, *self.requests]):
            request = Request(
                item.url,
                callback=self.parse,
                errback=self.failed,
                headers={"X-Test": "yes"},
                cookies={"a": "b"},
                meta={"own": 1},
                priority=number % 3 - 1,
                flags=["flag"],
                cb_kwargs={"argument": 2},
            )
            self.sent.setdefault(request.url, (request, snapshot(request)))
            yield request

    def parse(self, response: Any, **_: Any) -> None:
        super().parse(response)
        self.came.append(response.request)

    def failed(self, failure: Any) -> None:
        super().failed(failure)
        self.came.append(failure.request)


@pytest.mark.parametrize("is_on_disk", [False, True])
@in_every_runtime
async def test_request_that_waited(site: Site, tmp_path: Path, is_on_disk: bool) -> None:
    """A request that waited is as it was yielded, in memory or on disk, and was queued once."""
    gate = threading.Event()
    site.replies["/robots.txt"] = robots(FEW, gate=gate)
    pages = [site.url(target) for target in ("/few/1", "/few/2", "/x", "/y")]
    settings = {"JOBDIR": str(tmp_path) if is_on_disk else None}
    result = await crawl(pages, settings, spider=Faithful, prepare=opens(gate, 8))
    assert result.verdicts(*pages) == [200, 200, "rule", "rule"]
    came = {request.url: request for request in result.spider.came}
    assert {url: snapshot(request) for url, request in came.items()} == {
        url: before for url, (_, before) in result.spider.sent.items()
    }
    assert is_on_disk or all(came[url] is sent for url, (sent, _) in result.spider.sent.items())
    place = "disk" if is_on_disk else "memory"
    counted = (f"scheduler/enqueued/{place}", "dupefilter/filtered")
    assert [result.stats[key] for key in counted] == [4, 4]
    assert site.fetches == 1


@in_every_runtime
async def test_few_fetches_at_once() -> None:
    """No more than MAX_FETCHES are under way, and the next is fetched when one ends."""
    gate = threading.Event()
    under_way: list[int] = []
    counts: list[int] = []
    limits: list[int] = []

    def answer(_: Asked) -> Reply:
        under_way.append(1)
        counts.append(len(under_way))
        if [len(counts)] == limits:
            threading.Timer(2 * TICK, gate.set).start()
        gate.wait(20)
        under_way.pop()
        return robots(FEW)

    with contextlib.ExitStack() as stack:
        sites = [stack.enter_context(Site({"/robots.txt": answer})) for _ in range(17)]
        settings = {"CONCURRENT_REQUESTS": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 100}
        opened = listening(
            lambda spider: limits.append(
                min(max_fetches(spider.crawler), max_connections(spider.crawler))
            ),
            signals.spider_opened,
        )
        pages = [site.url("/few/1") for site in sites]
        result = await crawl(pages, settings, prepare=opened)
    # Without a reactor, Scrapy has CONCURRENT_REQUESTS connections, also for robots.txt files.
    assert limits == [max(counts)]
    assert limits[0] in (16, 1)
    assert len(counts) == 17
    assert fetched(result) == 17


@pytest.mark.skipif(REACTORLESS, reason="with a small pool, they take the place of pages")
@pytest.mark.parametrize("rules", ["User-agent: *\nCrawl-delay: 4\n", ""], ids=["turn", "slot"])
@in_every_runtime
async def test_redirects_to_a_host_that_has_to_wait(
    site: Site, other: Site, monkeypatch: pytest.MonkeyPatch, rules: str
) -> None:
    """Robots.txt requests that wait for a turn, or in a downloader slot, delay no other site."""
    monkeypatch.setattr(pending, "MAX_FETCHES", 4)
    site.replies["/robots.txt"] = robots(rules)
    moved = redirect(site.url("/robots.txt", host="127.0.0.1" if rules else "localhost"))

    async def site_is_known(service: RobotsService) -> None:
        await service.robots(site.url("/"))

    with contextlib.ExitStack() as stack:
        redirecting = [stack.enter_context(Site({"/robots.txt": moved})) for _ in range(8)]
        pages = [each.url("/x") for each in redirecting]
        settings = {
            "CONCURRENT_REQUESTS": 5,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 100,
            "DOWNLOAD_SLOTS": {"localhost": {"delay": 4}},
        }
        closes = close_when(lambda _: other.pages)
        result = await run(
            site_is_known, settings, requests=[*pages, other.url("/a")], prepare=closes
        )
        assert all(each.fetches for each in redirecting)
    assert other.pages == ["/a"]
    assert result.stats["elapsed_time_seconds"] < 4


class Holding:
    """A middleware that holds requests for robots.txt until a page was dropped.

    It ignores that they are cancelled.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        if not request.url.endswith("/robots.txt"):
            return
        while "robotstxt/forbidden" not in self.crawler.stats.get_stats():
            with contextlib.suppress(*CANCELLED):
                await Runtime().sleep(TICK)


@in_every_runtime
async def test_robots_txt_request_that_a_middleware_holds(site: Site) -> None:
    """A robots.txt request that a middleware holds is not the site's failure, nor sent too late."""
    settings = plugged(Holding, 50, ROBOTS_TIMEOUT=0.5)
    result = await crawl([site.url("/a")], settings)
    assert result.verdicts() == ["local"]
    assert not site.asked


def open_when_logged(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set by the first line about requests waiting for robots.txt."""
    gate = threading.Event()
    log = crawl_log.logger.info

    def info(text: str, *arguments: Any, **options: Any) -> None:
        log(text, *arguments, **options)
        if "for the robots.txt of" in text:
            gate.set()

    monkeypatch.setattr(crawl_log.logger, "info", info)
    monkeypatch.setattr(crawl_log, "MIN_WAIT", 0.01)
    return gate


@in_every_runtime
async def test_log_lines_without_our_queue(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests that wait in the middleware are in the log, too."""
    site.replies["/robots.txt"] = robots("", gate=open_when_logged(monkeypatch))
    settings = {
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
        "LOGSTATS_INTERVAL": 0.02,
        "CLOSESPIDER_TIMEOUT": 20,
    }
    result = await crawl(urls(site, 3), settings)
    assert fetched(result) == 3
    # The first line may count one request.
    assert re.search(r"\d requests? waiting for the robots.txt of 1 site \(longest: ", caplog.text)


@in_every_runtime
async def test_log_lines_about_waiting_requests(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log lines say how many requests wait for robots.txt or a Crawl-delay, and for which site.

    With LOGSTATS_INTERVAL = 0, there are none.
    """
    gate = open_when_logged(monkeypatch)
    site.replies["/robots.txt"] = robots(FORBID_ALL, gate=gate)
    other.replies["/robots.txt"] = robots(f"User-agent: *\nCrawl-delay: {3.2 * TICK}\n")
    pages = [*urls(site, 3), *urls(other, 3)]
    await crawl(pages, {"LOGSTATS_INTERVAL": 0.02})
    lines = {re.sub(r"\b\d+(:\d+)*\b", "N", line) for line in records(caplog, logging.INFO)}
    turn = "waiting because of Crawl-delay or Request-rate; the last will start by N"
    assert {
        f"N requests {turn} (slowest: http://N.N.N.N, every N.N s)",
        f"N request {turn} (slowest: http://N.N.N.N, every N.N s)",
    } <= lines
    awaited = r"N requests? waiting for the robots.txt of N sites? \(longest: http://[N.]+, N s\)"
    assert any(re.fullmatch(awaited, line) for line in lines)
    caplog.clear()
    await crawl(pages[:4], {"LOGSTATS_INTERVAL": 0})
    assert "waiting for" not in caplog.text


class Urgent(Pages):
    """Requests the last page with a higher priority, after the others were queued."""

    gate: threading.Event

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


@pytest.mark.parametrize("is_on_disk", [False, True])
@in_every_runtime
async def test_priority(site: Site, other: Site, tmp_path: Path, is_on_disk: bool) -> None:
    """A request with a higher priority that is queued during a fetch is sent first, and one that is
    queued during a Crawl-delay is sent next.
    """
    settings = {**ONE, "JOBDIR": str(tmp_path) if is_on_disk else None}
    gate = threading.Event()
    site.replies["/robots.txt"] = robots("", gate=gate)
    await crawl(urls(site, 6), settings, spider=Urgent, gate=gate)
    assert site.targets[1] == "/5"
    other.replies["/robots.txt"] = PACED
    await crawl(urls(other, 6), settings, spider=UrgentFirst)
    assert other.targets[2] == "/5"


@pytest.mark.parametrize("text", ["", f"User-agent: *\nCrawl-delay: {DELAY}\n"])
@in_every_runtime
async def test_file_that_is_stale_at_once(text: str) -> None:
    """A file that is stale at once is fetched about once a second, and all pages are fetched."""
    file = Reply(body=text.encode(), headers=(("Cache-Control", "max-age=0"),))
    late = {f"/{number}": 0.17 for number in range(8)}
    with Site({"/robots.txt": file}, late=late) as site:
        result = await crawl(urls(site, 8), {**ONE, "ROBOTS_CACHE_MIN_AGE": 0})
    assert fetched(result) == 8
    assert 1 < site.fetches <= result.stats["elapsed_time_seconds"] + 2
    assert min(gaps(site)) >= DELAY or not text


class Media(Pages):
    """Yields an item with two files of another site."""

    files: tuple[str, ...]

    def parse(self, response: Any, **_: Any) -> Iterator[dict[str, Any]]:
        super().parse(response)
        yield {"file_urls": list(self.files)}


@in_every_runtime
async def test_media_pipeline(site: Site, other: Site, tmp_path: Path) -> None:
    """The requests of a media pipeline wait for robots.txt and obey it."""

    def slow(_: Asked) -> Reply:
        gate = threading.Event()
        threading.Timer(2 * TICK, gate.set).start()
        return robots("User-agent: *\nDisallow: /x\n", gate=gate)

    other.replies["/robots.txt"] = slow
    pipelines = {"scrapy.pipelines.files.FilesPipeline": 1}
    settings = {"ITEM_PIPELINES": pipelines, "FILES_STORE": str(tmp_path)}
    files = (other.url("/a"), other.url("/x"))
    await crawl([site.url("/")], settings, spider=Media, files=files)
    assert other.targets == ["/robots.txt", "/a"]


@in_every_runtime
async def test_pacing() -> None:
    """Every request obeys the Crawl-delay of its site, including redirects, retries and other
    slots.
    """
    settings = {
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0.01,
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_START_DELAY": 0.01,
        "AUTOTHROTTLE_MAX_DELAY": 0.02,
        "RETRY_ENABLED": True,
    }
    with Site({"/robots.txt": PACED, "/1": redirect("/x")}) as site:
        answers = iter([Reply(500), Reply(503)])
        site.replies["/0"] = lambda _: next(answers, PAGE)
        other_slot = Request(site.url("/3"), meta={"download_slot": "3"})
        result = await crawl([*urls(site, 3), other_slot], settings)
    assert (fetched(result), len(site.arrivals)) == (4, 8)
    assert min(gaps(site)) >= DELAY
    assert result.stat("crawl_delay/sites") == 1


class Busy(Site):
    """Notes whether it got a request while it was answering another one."""

    busy = together = False

    def reply(self, asked: Asked) -> Reply:
        self.together = self.together or self.busy
        self.busy = True
        self.closed.wait(0.05)
        self.busy = False
        return super().reply(asked)


@pytest.mark.parametrize(
    "one_request",
    [
        {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "DOWNLOAD_DELAY": 0.01},
        {"DOWNLOAD_SLOTS": {"127.0.0.1": {"concurrency": 1, "delay": 0.01}}},
    ],
    ids=["setting", "slot"],
)
@in_every_runtime
async def test_one_request_at_a_time(one_request: dict[str, Any]) -> None:
    """With one request at a time, the server never gets two at once, including robots.txt."""
    # Few pages leave the queue before the file is stale.
    stale = {"ROBOTS_CACHE_MAX_AGE": 0.2, "CONCURRENT_REQUESTS": 2}
    with Busy({"/robots.txt": robots("")}) as site:
        result = await crawl(urls(site, 24), {**one_request, **stale})
    assert fetched(result) == 24
    assert site.fetches > 1
    assert not site.together
