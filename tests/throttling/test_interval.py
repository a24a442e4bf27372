"""The pace that a robots.txt asks for, in real crawls of sites that note when each request arrives."""

from __future__ import annotations

import threading
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, signals
from scrapy.core.downloader import Downloader, Slot

from scrapy_robots_rfc import RfcRobotsTxtMiddleware
from scrapy_robots_rfc._runtime import Waiter
from tests.support.crawling import SETTINGS, Pages, crawl, records
from tests.support.site import Reply, redirect, robots
from tests.support.timed_site import DELAY, PACED, Clocked, Following, fetched, gaps, urls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from scrapy.crawler import Crawler

pytestmark = [
    pytest.mark.reactor,
    # Older and newer names of one setting are both tried.
    pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning"),
]

PAGES = 4


@pytest.fixture
def site() -> Iterator[Clocked]:
    """A site that asks for the delay."""
    with Clocked({"/robots.txt": PACED}) as running:
        yield running


@pytest.fixture
def other() -> Iterator[Clocked]:
    """A site on another port, so in the same slot, that asks for nothing."""
    with Clocked() as running:
        yield running


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({}, DELAY),
        ({"CONCURRENT_REQUESTS_PER_DOMAIN": 1}, DELAY),
        ({"CONCURRENT_REQUESTS_PER_DOMAIN": 8, "CONCURRENT_REQUESTS": 64}, DELAY),
        ({"DOWNLOAD_DELAY": 0.05}, DELAY),
        ({"DOWNLOAD_DELAY": 0.15, "DOWNLOAD_DELAY_JITTER": 1.0}, DELAY),
        ({"DOWNLOAD_DELAY": 0.25, "RANDOMIZE_DOWNLOAD_DELAY": True}, DELAY),
        ({"DOWNLOAD_DELAY": 0.4, "DOWNLOAD_DELAY_JITTER": 0, "RANDOMIZE_DOWNLOAD_DELAY": False}, 0.3),
        ({"DOWNLOAD_SLOTS": {"127.0.0.1": {"delay": 0, "concurrency": 8}}}, DELAY),
        ({"DOWNLOAD_SLOTS": {"127.0.0.1": {"delay": 0.1, "concurrency": 8, "jitter": 1.0}}}, DELAY),
        ({"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.01, "AUTOTHROTTLE_MAX_DELAY": 0.02}, DELAY),
        ({"AUTOTHROTTLE_ENABLED": True, "DOWNLOAD_DELAY": 0.4, "RANDOMIZE_DOWNLOAD_DELAY": False}, 0.3),
        (
            {
                "CONCURRENT_REQUESTS_PER_IP": 8,
                "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
            },
            DELAY,
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
@ensureDeferred
async def test_what_moves_a_slots_delay(site: Clocked, settings: dict[str, Any], least: float) -> None:
    """No setting gets below the interval, from robots.txt on, and one that asks for more is kept as well.

    A delay of the user's is Scrapy's to keep, and by the crawl's clock: hence the mean, and what a busy machine takes.
    """
    result = await crawl(urls(site, PAGES), settings)
    assert fetched(result) == PAGES
    assert site.targets[0] == "/robots.txt"
    assert min(gaps(site)) >= DELAY
    assert mean(gaps(site)) >= least


@ensureDeferred
async def test_own_slots(site: Clocked) -> None:
    """Requests of one origin in several slots keep the interval towards that origin."""
    requests = [Request(url, meta={"download_slot": f"slot {n % 3}"}) for n, url in enumerate(urls(site, 6))]
    result = await crawl(requests)
    assert fetched(result) == 6
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_retries_and_redirects(site: Clocked) -> None:
    """A retry and the request that follows a redirect keep the interval as any."""
    answers = iter([Reply(503), Reply(503), Reply(200)])
    site.replies["/0"] = lambda _: next(answers)
    site.replies["/1"] = redirect("/2")
    site.replies["/2"] = redirect("/3")
    await crawl(urls(site, 2), {"RETRY_ENABLED": True})
    assert sorted(site.targets) == ["/0", "/0", "/0", "/1", "/2", "/3", "/robots.txt"]
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_exempted_requests(site: Clocked) -> None:
    """A request that is not judged travels in the same slot, and keeps its interval."""
    requests = [Request(url, meta={"dont_obey_robotstxt": n % 2}) for n, url in enumerate(urls(site, PAGES))]
    # The first of them may start before the delay is known to anybody.
    result = await crawl([requests[0]], spider=Following, following=requests[1:])
    assert fetched(result) == PAGES
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_exempted_requests_where_no_page_was_let_through(site: Clocked) -> None:
    """A request that is not judged keeps the interval as soon as the file is known, though it forbids every page."""
    site.replies["/robots.txt"] = robots(f"User-agent: *\nCrawl-delay: {DELAY}\nDisallow: /\n")
    exempt = [Request(url, meta={"dont_obey_robotstxt": True}) for url in urls(site, PAGES)]

    class Insists(Pages):
        def failed(self, failure: Any) -> Any:
            super().failed(failure)
            for request in exempt:
                yield request.replace(callback=self.parse, errback=self.failed)

    result = await crawl([site.url("/judged")], spider=Insists)
    assert fetched(result) == PAGES
    assert min(gaps(site)) >= DELAY
    assert result.stat("crawl_delay/sites") == 1


class JoinsAsAnotherLeaves:
    """Keeps a page from its slot until another request has just left that slot, and is still counted as active."""

    gate: threading.Event

    def __init__(self, crawler: Crawler) -> None:
        self.left: Waiter[None] = Waiter()
        crawler.signals.connect(self.leaves, signals.request_left_downloader)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        """Let the other one be answered, and wait for that."""
        if request.url.endswith("/0"):
            self.gate.set()
            await self.left

    def leaves(self, request: Request) -> None:
        """Let the page go on, in the same turn of the event loop."""
        if request.url.endswith("/exempt"):
            self.left.resolve(None)


@ensureDeferred
async def test_page_that_joins_as_another_request_leaves(site: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose transfer is over when the first paced page joins its slot holds that slot up no longer."""
    gate = threading.Event()
    monkeypatch.setattr(JoinsAsAnotherLeaves, "gate", gate, raising=False)
    site.replies["/exempt"] = Reply(gate=gate)
    exempt = Request(site.url("/exempt"), meta={"dont_obey_robotstxt": True})
    middlewares = {**SETTINGS["DOWNLOADER_MIDDLEWARES"], JoinsAsAnotherLeaves: 950}
    settings = {"DOWNLOADER_MIDDLEWARES": middlewares, "CLOSESPIDER_TIMEOUT": 10}
    first, second = map(Request, urls(site, 2))
    result = await crawl([exempt, first], settings, spider=Following, following=[second])
    assert fetched(result) == 3
    assert min(after - before for before, after in pairwise(when for when, _ in site.arrivals[2:])) >= DELAY


class Collecting(Following):
    """Lets the downloader collect its idle slots between two pages."""

    collected = 0

    def before_next(self) -> None:
        """Do what Scrapy does after 60 seconds without a request."""
        downloader = self.crawler.engine.downloader
        before = set(downloader.slots)
        downloader._slot_gc(age=-1)
        self.collected += len(before - set(downloader.slots))


@ensureDeferred
async def test_collected_slots(site: Clocked) -> None:
    """A slot that the downloader drops and makes again knows no last request; the interval is kept all the same."""
    first, *following = map(Request, urls(site, PAGES))
    result = await crawl([first], spider=Collecting, following=following, one_by_one=PAGES)
    assert fetched(result) == PAGES
    assert result.spider.collected == PAGES
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_request_that_arrives_late(site: Clocked) -> None:
    """A request that takes long to arrive shortens no interval by the server's clock: it counts from the answer."""
    site.late = {"/0": DELAY * 1.5, "/2": DELAY}
    assert fetched(await crawl(urls(site, PAGES))) == PAGES
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_request_without_an_answer(site: Clocked) -> None:
    """A request that fails counts as any: the next one keeps the interval from its end."""
    site.replies["/0"] = site.replies["/1"] = Reply(reset=True)
    await crawl(urls(site, PAGES))
    assert len(site.targets) == PAGES + 1
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_long_bodies_overlap(site: Clocked) -> None:
    """The next request waits for the beginning of an answer, not for its end."""
    site.replies["/0"] = Reply(endless=True, body=b"x")
    result = await crawl(urls(site, 3), {"DOWNLOAD_TIMEOUT": 2, "DOWNLOAD_MAXSIZE": 0, "DOWNLOAD_WARNSIZE": 0})
    assert min(gaps(site)) >= DELAY
    assert fetched(result) == 2
    assert max(gaps(site)) < 1.5


@ensureDeferred
async def test_origins_in_one_slot(site: Clocked, other: Clocked) -> None:
    """In a slot of several origins the largest interval holds between all of its requests, while its site is there."""
    other.replies["/robots.txt"] = robots(f"User-agent: *\nCrawl-delay: {DELAY / 4}\n")
    pages = [url for pair in zip(urls(site, 3), urls(other, 3), strict=True) for url in pair]
    following = map(Request, [site.url("/first"), *pages])
    await crawl([other.url("/first")], spider=Following, following=following, one_by_one=1)
    [begin] = [when for when, target in site.arrivals if target == "/first"]
    times = sorted(when for when, _ in site.arrivals + other.arrivals if when >= begin)
    assert len(times) == 7
    assert min(after - before for before, after in pairwise(times)) >= DELAY


@ensureDeferred
async def test_other_slots_go_on(site: Clocked, other: Clocked) -> None:
    """A site in a slot of its own is not held back by another one's delay."""
    fast = [Request(url, meta={"download_slot": "fast"}) for url in urls(other, 10)]
    result = await crawl([*urls(site, PAGES), *fast])
    assert fetched(result) == PAGES + 10
    assert min(gaps(site)) >= DELAY
    assert other.arrivals[-1][0] < site.arrivals[-1][0]


@ensureDeferred
async def test_hanging_robots_txt_in_the_slot(site: Clocked, other: Clocked) -> None:
    """A robots.txt that hangs holds up its own origin only: a paced one in the same slot goes on at its pace."""
    gate = threading.Event()
    other.replies["/robots.txt"] = robots("", gate=gate)

    class Opens(Pages):
        def parse(self, response: Any, **_: Any) -> Any:
            super().parse(response)
            if len(self.outcomes) == 1:
                yield Request(other.url("/late"), self.parse, errback=self.failed)
            if len(self.outcomes) < PAGES:
                yield Request(site.url(f"/{len(self.outcomes)}"), self.parse, errback=self.failed)
            elif len(self.outcomes) == PAGES:
                gate.set()

    result = await crawl([site.url("/0")], spider=Opens)
    assert list(result.outcomes.values()) == [200] * (PAGES + 1)
    assert list(result.outcomes)[-1] == other.url("/late")
    assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_slot_after_a_paced_site(site: Clocked, other: Clocked) -> None:
    """When a site has no requests left in a slot, and its interval has passed, the slot is as fast as before."""
    await crawl([site.url("/0")], spider=Following, following=map(Request, urls(other, 10)))
    first, last = other.arrivals[0][0], other.arrivals[-1][0]
    assert first - site.arrivals[-1][0] >= DELAY
    assert len(other.arrivals) == 11
    assert last - first < 10 * DELAY


@ensureDeferred
async def test_redirect_into_a_paced_site(site: Clocked, other: Clocked) -> None:
    """A redirect does not bring a paced site's requests into the slot of the host that redirects."""
    other.replies["/0"] = redirect(site.url("/x", host="localhost"))
    slots: dict[str, str] = {}

    def note(request: Request) -> None:
        slots[request.url] = request.meta["download_slot"]

    result = await crawl(
        [other.url("/0")], prepare=lambda crawler: crawler.signals.connect(note, signals.request_left_downloader)
    )
    assert fetched(result) == 1
    assert slots == {
        other.url("/robots.txt"): "127.0.0.1",
        other.url("/0"): "127.0.0.1",
        site.url("/robots.txt", host="localhost"): "localhost",
        site.url("/x", host="localhost"): "localhost",
    }


@ensureDeferred
async def test_slot_of_robots_txt(site: Clocked) -> None:
    """The request for robots.txt takes the slot that the user chose for the page."""
    slots = []

    def note(request: Request) -> None:
        slots.append(request.meta["download_slot"])

    page = Request(site.url("/0"), meta={"download_slot": "mine"})
    await crawl([page], prepare=lambda crawler: crawler.signals.connect(note, signals.request_left_downloader))
    assert slots == ["mine", "mine"]


@ensureDeferred
async def test_sites_are_forgotten(site: Clocked, other: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of a site and of a slot goes when nothing was heard of them for a while."""
    monkeypatch.setattr("scrapy_robots_rfc.throttling.throttle._FIRST_SWEEP", 1)
    monkeypatch.setattr("scrapy_robots_rfc.throttling.throttle._KEPT", -100)  # as if the crawl took longer
    other.replies["/robots.txt"] = PACED
    first = Request(site.url("/0"), meta={"download_slot": "mine"})
    result = await crawl([first], spider=Following, following=[Request(other.url("/0"))])
    middleware = result.crawler.get_downloader_middleware(RfcRobotsTxtMiddleware)
    pacing = middleware._throttle if middleware else None
    assert pacing is not None
    assert ([str(origin) for origin in pacing._origins], list(pacing._slots)) == ([other.url("")], ["127.0.0.1"])
    assert not pacing._requests


@ensureDeferred
async def test_waiting_for_its_turn_is_no_timeout(site: Clocked) -> None:
    """A robots.txt that is asked for again waits for its turn, which ROBOTSTXT_TIMEOUT does not count."""
    site.replies["/robots.txt"] = robots(f"User-agent: *\nCrawl-delay: {3 * DELAY}\n")
    first, *following = map(Request, urls(site, 3))
    settings = {"ROBOTSTXT_TIMEOUT": 2 * DELAY, "ROBOTSTXT_CACHE_MAX_AGE": 4 * DELAY}
    result = await crawl([first], settings, spider=Following, following=following, one_by_one=3)
    assert site.fetches == 2
    assert result.stat("result/unreachable") == 0
    assert min(gaps(site)) >= 3 * DELAY


class WithoutSlots(Downloader):
    """Keeps its slots where nobody finds them."""

    def _get_slot(self, request: Request, spider: Any = None) -> tuple[str, Slot]:
        key, slot = super()._get_slot(request)
        self.kept = {**getattr(self, "kept", {}), key: self.slots.pop(key)}
        return key, slot


@ensureDeferred
async def test_downloader_of_the_users(site: Clocked, caplog: pytest.LogCaptureFixture) -> None:
    """Where the downloader is not Scrapy's, and its slots cannot be held, one warning says so and the crawl goes on."""
    result = await crawl(urls(site, PAGES), {"DOWNLOADER": WithoutSlots})
    assert fetched(result) == PAGES
    lost = "Crawl-delay is not kept; A slow robots.txt holds up the pages of its downloader slot"
    text = "(a private name of Scrapy 2.15.0 and 2.19.0)"
    assert records(caplog) == [f"{lost}: WithoutSlots has no `slots` {text}"]


@ensureDeferred
async def test_queued_before_the_gate(site: Clocked, other: Clocked) -> None:
    """Requests of another origin that stand in the slot's queue when a paced one comes go on, at its pace."""
    exempt = [Request(url, meta={"dont_obey_robotstxt": True}) for url in urls(other, 4)]
    first = Request(site.url("/first"), meta={"download_slot": "another"})
    following = [Request(site.url("/0")), *exempt]  # the scheduler gives the last one first
    settings = {"DOWNLOAD_SLOTS": {"127.0.0.1": {"delay": DELAY / 2}}, "CLOSESPIDER_TIMEOUT": 10}
    result = await crawl([first], settings, spider=Following, following=following)
    assert fetched(result) == 6
    times = sorted([*(when for when, _ in other.arrivals), site.arrivals[-1][0]])
    assert times[-1] == site.arrivals[-1][0]
    assert min(after - before for before, after in pairwise(times)) >= DELAY


@ensureDeferred
async def test_refresh_while_pages_are_queued(site: Clocked) -> None:
    """A file that is fetched again for a page that it forbids goes on to pace the pages that are queued."""
    site.replies["/robots.txt"] = robots(f"User-agent: *\nCrawl-delay: {DELAY}\nDisallow: /private\n")
    private = Request(site.url("/private"), meta={"download_slot": "another"})
    settings = {"ROBOTSTXT_CACHE_MAX_AGE": DELAY / 2}
    await crawl(urls(site, 6), settings, spider=Following, following=[private])
    assert (site.fetches, len(site.pages)) == (2, 6)
    assert site.targets[-1] != "/robots.txt"
    assert min(gaps(site)) >= DELAY
