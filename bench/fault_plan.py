"""Draw the plans of crawls of `bench.faults` from a seed.

`--without` leaves parts out, and changes nothing else of a plan.
"""

import random
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from bench.fault_answers import ANSWERS, CLOSED, GOOD

RUNTIMES = ("asyncio", "select", "none")
TOKEN = "examplebot"
USER_AGENT = f"{TOKEN}/1.0 (+https://crawler.example)"
#: ROBOTS_TIMEOUT in seconds. Slow answers take a third of it, and endless ones longer.
TIMEOUT = 2.5
#: Parts of a plan that `--without` leaves out.
COMPANY = (
    "middleware",
    "spider-middleware",
    "signal",
    "stop-download",
    "dupefilter",
    "close",
    "proxy",
    "cache",
    "interruption",
    "scheduler",
    "queues",
)
#: Scrapy's own scheduler, a third-party one, and Scrapy's with a third-party priority queue.
SCHEDULERS = ("own", "user", "user-queue")

_ORDERS = ("Lifo", "Fifo")
_FOLDERS = ("a", "b", "shut", "deep/x")
_RULES = (
    "Disallow: /a/",
    "Disallow: /b/",
    "Disallow: /shut",
    "Disallow: /*.pdf$",
    "Disallow: /*?s=",
    "Disallow: /deep/*/2",
    "Disallow:",
    "Allow: /shut/*.html",
    "Allow: /a/1",
    "Allow: /*?s=1$",
)
_PROXIES = ("", "", "live", "live", "dead", "407", "hang")
_PAGES = ("page",) * 12 + ("busy", "busy-once", "slow", "reset", "redirect", "redirect")


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that the spider yields.

    :param exempt: whether it has the meta key `dont_obey_robotstxt`.
    :param proxy: one of `_PROXIES`.
    """

    site: int
    page: int
    exempt: bool
    proxy: str
    dont_filter: bool
    priority: int


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    :param kind: how the server answers, one of `_PAGES`.
    :param target: site and page to which it redirects.
    :param asks: what its callback yields.
    """

    path: str
    kind: str
    target: tuple[int, int]
    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """An origin.

    :param rules: lines of the group that applies.
    :param pace: its Crawl-delay in seconds, or 0.
    :param script: names of `ANSWERS` for the requests for robots.txt. The last one is repeated.
    :param down: seconds at the start in which it refuses connections.
    """

    host: str
    rules: tuple[str, ...]
    pace: float
    script: tuple[str, ...]
    down: float
    pages: tuple[Page, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A user's middleware.

    :param place: its position.
    :param kind: what it does.
    :param share: share of the requests that it changes.
    :param robots: whether it also changes requests for robots.txt.
    """

    place: int
    kind: str
    share: float
    robots: bool


@dataclass(frozen=True, slots=True)
class Interruption:
    """A signal to a process. Then the crawl is resumed.

    :param after: seconds since the spider opened.
    """

    after: float
    sign: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A crawl.

    :param signal: the signal whose handler raises, or an empty string.
    :param stop: the signal whose handler raises StopDownload, or an empty string.
    :param interruptions: of the first process, the second one, and so on.
    :param scheduler: one of `SCHEDULERS`.
    :param unreachable: statuses that count as unreachable.
    """

    seed: int
    runtime: str
    settings: dict[str, Any]
    sites: tuple[Site, ...]
    starts: tuple[Ask, ...]
    parts: tuple[Part, ...]
    spider_parts: tuple[Part, ...]
    signal: str
    stop: str
    stop_fails: bool
    dupefilter: bool
    interruptions: tuple[Interruption, ...] = ()
    scheduler: str = "own"
    unreachable: frozenset[int] = field(default_factory=frozenset)

    @property
    def attempts(self) -> int:
        """How often an unreachable robots.txt is requested, at least."""
        return len(self.settings["ROBOTS_UNREACHABLE_BACKOFF"]) + 1


def draw(seed: int, runtime: str | None = None, without: Collection[str] = ()) -> Plan:
    """Draw a plan.

    :param runtime: one of `RUNTIMES`, or `None` if it is drawn, too.
    :param without: names of answers, or of parts of `COMPANY`, that are not drawn.
    """
    source = random.Random(seed)
    drawn_runtime = source.choice(RUNTIMES)
    statuses = source.choice(([429], [429], [401, 403, 429], []))
    settings = _settings(source, statuses)
    close = _close(source)
    settings |= {} if "close" in without else close
    caches = {"HTTPCACHE_ENABLED": source.random() < 0.2, "ROBOTS_CACHE": source.random() < 0.3}
    settings |= {} if "cache" in without else caches
    sizes = [source.randint(3, 12) for _ in range(source.randint(2, 6))]
    asks = _Asks(source, sizes, has_proxies=source.random() < 0.3, no_proxies="proxy" in without)
    names = [name for name in ANSWERS if name not in without]
    sites = tuple(_site(source, size, names, asks) for size in sizes)
    starts = [
        asks.of(site, page)
        for site, size in enumerate(sizes)
        for page in range(source.randint(2, size))
    ]
    source.shuffle(starts)
    scheduler, interruptions = source.choice(("own", *SCHEDULERS)), _interruptions(source)
    queues = _queues(source)
    settings |= {} if "queues" in without else queues
    if "interruption" in without:
        interruptions = ()
    settings["JOBDIR"] |= bool(interruptions)
    kinds = ("raise", "ignore", "respond", "headers", "raise-after", "swallow")
    parts, spider_parts = _parts(source, kinds), _parts(source, ("input", "output", "drop"))
    signal = _one_of(source, 0.15, "request_scheduled", "response_received", "robots_fetched")
    stop = _one_of(source, 0.1, "bytes_received", "headers_received")
    return Plan(
        seed=seed,
        runtime=runtime or drawn_runtime,
        settings=settings,
        sites=sites,
        starts=tuple(starts),
        parts=() if "middleware" in without else parts,
        spider_parts=() if "spider-middleware" in without else spider_parts,
        signal="" if "signal" in without else signal,
        stop="" if "stop-download" in without else stop,
        stop_fails=source.random() < 0.5,
        dupefilter=source.random() < 0.1 and "dupefilter" not in without,
        interruptions=interruptions,
        scheduler="own" if "scheduler" in without else scheduler,
        unreachable=frozenset(statuses),
    )


def _one_of(source: random.Random, share: float, *kinds: str) -> str:
    kind = source.choice(kinds)
    return kind if source.random() < share else ""


def _settings(source: random.Random, statuses: list[int]) -> dict[str, Any]:
    return {
        "CONCURRENT_REQUESTS": source.choice((1, 2, 4, 8, 16)),
        "CONCURRENT_REQUESTS_PER_DOMAIN": source.choice((1, 2, 4, 8)),
        "DOWNLOAD_DELAY": source.choice((0, 0, 0, 0.01, 0.03)),
        "AUTOTHROTTLE_ENABLED": source.random() < 0.15,
        "AUTOTHROTTLE_START_DELAY": 0.05,
        "AUTOTHROTTLE_MAX_DELAY": 0.2,
        "RETRY_ENABLED": source.random() < 0.5,
        "RETRY_TIMES": 1,
        "ROBOTS_UNREACHABLE_BACKOFF": source.choice(([], [0.2], [0.1, 0.3])),
        "ROBOTS_UNREACHABLE_TTL": source.choice((300, 300, 0.5)),
        "ROBOTS_UNREACHABLE_STATUSES": statuses,
        # Limits of the package, which are not settings.
        "MAX_PARKED": source.choice((100_000, 100_000, 2, 0)),
        "MAX_FETCHES": source.choice((100, 100, 2)),
        "JOBDIR": source.random() < 0.3,
        "ROBOTS_REPORT": source.random() < 0.2,
    }


def _close(source: random.Random) -> dict[str, Any]:
    pages = {"CLOSESPIDER_PAGECOUNT": source.randint(1, 20)}
    settings = source.choice((pages, {"CLOSESPIDER_TIMEOUT": 1}))
    return settings if source.random() < 0.15 else {}


def _queues(source: random.Random) -> dict[str, Any]:
    """Draw the queues of one priority: LIFO or FIFO."""

    def queue(kind: str) -> str:
        return f"scrapy.squeues.{kind.format(source.choice(_ORDERS))}Queue"

    memory, disk = "{}Memory", "Pickle{}Disk"
    return {
        "SCHEDULER_MEMORY_QUEUE": queue(memory),
        "SCHEDULER_DISK_QUEUE": queue(disk),
        # Without a queue of their own, start requests are in the same queue as others.
        "SCHEDULER_START_MEMORY_QUEUE": source.choice((queue(memory), queue(memory), None)),
        "SCHEDULER_START_DISK_QUEUE": source.choice((queue(disk), queue(disk), None)),
    }


def _interruptions(source: random.Random) -> tuple[Interruption, ...]:
    signs = ("SIGTERM", "SIGTERM", "SIGINT", "SIGKILL")
    return tuple(
        Interruption(round(source.uniform(0, source.choice((1, 3, 9))), 2), source.choice(signs))
        for _ in range(source.choice((0, 0, 0, 1, 1, 2)))
    )


def _parts(source: random.Random, kinds: tuple[str, ...]) -> tuple[Part, ...]:
    places = (20, 99, 101, 450, 560, 745, 950)
    return tuple(
        Part(source.choice(places), source.choice(kinds), 0.2, source.random() < 0.5)
        for _ in range(source.choice((0, 0, 0, 1, 2)))
    )


@dataclass(frozen=True, slots=True)
class _Asks:
    """Draws requests.

    :param sizes: number of pages of each site.
    :param no_proxies: whether to leave out the proxies that were drawn.
    """

    source: random.Random
    sizes: list[int]
    has_proxies: bool
    no_proxies: bool

    def of(self, site: int, page: int) -> Ask:
        """Draw a request for a page."""
        source = self.source
        proxy = source.choice(_PROXIES) if self.has_proxies else ""
        return Ask(
            site,
            page,
            exempt=source.random() < 0.05,
            proxy="" if self.no_proxies else proxy,
            dont_filter=source.random() < 0.1,
            priority=source.choice((0, 0, 0, 5, -5)),
        )

    def page(self) -> tuple[int, int]:
        """Draw a page, as the numbers of its site and of the page."""
        site = self.source.randrange(len(self.sizes))
        return site, self.source.randrange(self.sizes[site])


def _site(source: random.Random, size: int, names: list[str], asks: _Asks) -> Site:
    rules = source.sample(_RULES, source.randint(1, 5))
    if source.random() < 0.1:
        rules = ["Disallow: /", *source.sample(_RULES, 2)]
    script = [source.choice(names)]
    while ANSWERS[script[-1]].meaning == CLOSED and source.random() < 0.7:
        script.append(source.choice(names) if source.random() < 0.5 else GOOD)
    if source.random() < 0.3:
        script = [GOOD]
    return Site(
        host=source.choice(("127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3")),
        rules=tuple(rules),
        pace=source.choice((0, 0, 0, 0, 0.1, 0.2, 0.3)),
        script=tuple(script),
        down=source.choice((0,) * 12 + (0.25, 600)),
        pages=tuple(_page(source, number, asks) for number in range(size)),
    )


def _page(source: random.Random, number: int, asks: _Asks) -> Page:
    ending = source.choice(("", "", ".html", ".pdf", "?s=1", "?s=2"))
    return Page(
        path=f"/{source.choice(_FOLDERS)}/{number}{ending}",
        kind=source.choice(_PAGES),
        target=asks.page(),
        asks=tuple(asks.of(*asks.page()) for _ in range(source.randint(0, 4))),
    )
