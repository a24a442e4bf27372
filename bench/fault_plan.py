"""What one crawl of `bench.faults` meets: drawn from a seed, so that a crawl can be repeated alone.

The crawl's process and the one with the servers draw the same plan from the same seed; only ports
are exchanged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.fault_answers import ANSWERS, CLOSED, GOOD

if TYPE_CHECKING:
    from collections.abc import Collection

RUNTIMES = ("asyncio", "select", "none")
TOKEN = "examplebot"
USER_AGENT = f"{TOKEN}/1.0 (+https://crawler.example)"
#: ROBOTS_TIMEOUT, in seconds. Answers that are slow take a third of it, those that never end more.
TIMEOUT = 2.5
#: Parts of the company that `--without` can leave out.
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
#: Of queues.
ORDERS = ("Lifo", "Fifo")
#: Schedulers: Scrapy's own, one of the user's with the public interface, and Scrapy's own with a
#: SCHEDULER_PRIORITY_QUEUE of the user's.
SCHEDULERS = ("own", "user", "user-queue")

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
_PATIENT = 0.25
_PROXIES = ("", "", "live", "live", "dead", "407", "hang")


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that the spider makes.

    :param exempt: whether it has the meta key `dont_obey_robotstxt`.
    :param proxy: "", "live", "dead", "407" or "hang".
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

    :param kind: how the server answers: "page", "busy" (503), "busy-once", "slow", "reset" or
        "redirect".
    :param target: where it redirects to: site and page.
    :param asks: what its callback yields.
    """

    path: str
    kind: str
    target: tuple[int, int]
    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """An origin.

    :param rules: lines of the group that applies; `decoys` are lines of other groups.
    :param pace: seconds of its Crawl-delay; 0: none.
    :param script: how robots.txt is answered, one name of `ANSWERS` after the other; the last one
        again and again.
    :param down: seconds for which connections are refused at first.
    """

    host: str
    rules: tuple[str, ...]
    pace: float
    script: tuple[str, ...]
    down: float
    pages: tuple[Page, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the user's own, as a middleware that raises.

    :param share: of the requests that it meddles with.
    :param robots: whether it meddles with requests for robots.txt, too.
    """

    place: int
    kind: str
    share: float
    robots: bool


@dataclass(frozen=True, slots=True)
class Interruption:
    """A signal that the crawl's process gets. With JOBDIR the crawl is resumed then.

    :param after: seconds after the spider was opened.
    :param sign: name of the signal.
    """

    after: float
    sign: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One crawl.

    :param interruptions: of its first process, of the one that resumes it, and so on.
    :param scheduler: one of `SCHEDULERS`.
    :param signal: the signal of which a handler raises; "": none does.
    :param stop: the signal in whose handler StopDownload is raised for what starts like a page; "":
        none.
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
        """How often a robots.txt that is unreachable is asked for at least."""
        return len(self.settings["ROBOTS_UNREACHABLE_BACKOFF"]) + 1


def draw(seed: int, runtime: str | None = None, without: Collection[str] = ()) -> Plan:
    """Draw a crawl. What is left out changes nothing of the company else.

    :param runtime: one of `RUNTIMES`; `None`: it is drawn, too.
    :param without: names of answers, or of parts of the company, that are not drawn.
    """
    source = random.Random(seed)
    drawn = source.choice(RUNTIMES)
    statuses = source.choice(([429], [429], [401, 403, 429], []))
    settings = _settings(source, statuses)
    for name, drawn_settings in (("close", _close(source)), ("cache", _caches(source))):
        settings |= {} if name in without else drawn_settings
    count = source.randint(2, 6)
    sizes = [source.randint(3, 12) for _ in range(count)]
    proxies = source.random() < 0.3
    asks = _Asks(source, sizes, proxies, "proxy" in without)
    names = [name for name in ANSWERS if name not in without]
    sites = tuple(_site(source, sizes[number], names, asks) for number in range(count))
    starts = [
        asks.of(site, page)
        for site in range(count)
        for page in range(source.randint(2, sizes[site]))
    ]
    source.shuffle(starts)
    # What follows from a source of its own changes nothing else of a seed's crawl.
    other = random.Random(f"{seed} scheduler")
    scheduler, queues, interruptions = _scheduler(other), _queues(other), _interruptions(other)
    if "queues" not in without:
        settings |= queues
    if "interruption" in without:
        interruptions = ()
    elif interruptions:
        settings["JOBDIR"] = True
    return Plan(
        seed=seed,
        runtime=runtime or drawn,
        settings=settings,
        sites=sites,
        starts=tuple(starts),
        parts=_parts(
            source,
            ("raise", "ignore", "respond", "headers", "raise-after", "swallow"),
            "middleware" in without,
        ),
        spider_parts=_parts(source, ("input", "output", "drop"), "spider-middleware" in without),
        signal=_one(
            source,
            ("request_scheduled", "response_received", "robots_fetched"),
            0.15,
            "signal" in without,
        ),
        stop=_one(source, ("bytes_received", "headers_received"), 0.1, "stop-download" in without),
        stop_fails=source.random() < 0.5,
        dupefilter=source.random() < 0.1 and "dupefilter" not in without,
        interruptions=interruptions,
        scheduler="own" if "scheduler" in without else scheduler,
        unreachable=frozenset(statuses),
    )


def _one(source: random.Random, kinds: tuple[str, ...], share: float, left_out: bool) -> str:
    kind, hit = source.choice(kinds), source.random() < share
    return kind if hit and not left_out else ""


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
        # These two are no settings: the crawl's process has so many instead of what the package
        # has.
        "MOST_WAITING": source.choice((100_000, 100_000, 2, 0)),
        "FETCHES_AT_ONCE": source.choice((100, 100, 2)),
        "JOBDIR": source.random() < 0.3,
        "ROBOTS_REPORT": source.random() < 0.2,
    }


def _caches(source: random.Random) -> dict[str, Any]:
    return {"HTTPCACHE_ENABLED": source.random() < 0.2, "ROBOTS_CACHE": source.random() < 0.3}


def _close(source: random.Random) -> dict[str, Any]:
    if source.random() < 0.85:
        return {}
    return source.choice(
        ({"CLOSESPIDER_PAGECOUNT": source.randint(1, 20)}, {"CLOSESPIDER_TIMEOUT": 1})
    )


def _scheduler(source: random.Random) -> str:
    return source.choice((SCHEDULERS[0], *SCHEDULERS))


def _queues(source: random.Random) -> dict[str, Any]:
    """Settings of the queues of one priority: the last request first, or the first one."""

    def one(kind: str) -> str:
        return f"scrapy.squeues.{'Pickle' * (kind == 'Disk')}{source.choice(ORDERS)}{kind}Queue"

    return {
        "SCHEDULER_MEMORY_QUEUE": one("Memory"),
        "SCHEDULER_DISK_QUEUE": one("Disk"),
        # Without one, start requests are in the same queue as others.
        "SCHEDULER_START_MEMORY_QUEUE": source.choice((one("Memory"), one("Memory"), None)),
        "SCHEDULER_START_DISK_QUEUE": source.choice((one("Disk"), one("Disk"), None)),
    }


def _interruptions(source: random.Random) -> tuple[Interruption, ...]:
    count = source.choice((0, 0, 0, 1, 1, 2))
    signs = ("SIGTERM", "SIGTERM", "SIGINT", "SIGKILL")
    return tuple(
        Interruption(round(source.uniform(0, source.choice((1, 3, 9))), 2), source.choice(signs))
        for _ in range(count)
    )


def _parts(source: random.Random, kinds: tuple[str, ...], left_out: bool) -> tuple[Part, ...]:
    drawn = tuple(
        Part(
            source.choice((20, 99, 101, 450, 560, 745, 950)),
            source.choice(kinds),
            0.2,
            source.random() < 0.5,
        )
        for _ in range(source.choice((0, 0, 0, 1, 2)))
    )
    return () if left_out else drawn


class _Asks:
    """Draws requests."""

    def __init__(
        self, source: random.Random, sizes: list[int], proxies: bool, left_out: bool
    ) -> None:
        self._source, self._sizes, self._proxies, self._left_out = source, sizes, proxies, left_out

    def of(self, site: int, page: int) -> Ask:
        """A request for a page."""
        source = self._source
        proxy = source.choice(_PROXIES) if self._proxies else ""
        return Ask(
            site,
            page,
            exempt=source.random() < 0.05,
            proxy="" if self._left_out else proxy,
            dont_filter=source.random() < 0.1,
            priority=source.choice((0, 0, 0, 5, -5)),
        )

    def any(self) -> Ask:
        """A request for any page."""
        return self.of(*self.anywhere())

    def anywhere(self) -> tuple[int, int]:
        """Any page."""
        site = self._source.randrange(len(self._sizes))
        return site, self._source.randrange(self._sizes[site])


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
        down=source.choice((0,) * 12 + (_PATIENT, 600)),
        pages=tuple(_page(source, number, asks) for number in range(size)),
    )


def _page(source: random.Random, number: int, asks: _Asks) -> Page:
    ending = source.choice(("", "", ".html", ".pdf", "?s=1", "?s=2"))
    kinds = ("page",) * 12 + ("busy", "busy-once", "slow", "reset", "redirect", "redirect")
    return Page(
        path=f"/{source.choice(_FOLDERS)}/{number}{ending}",
        kind=source.choice(kinds),
        target=asks.anywhere(),
        asks=tuple(asks.any() for _ in range(source.randint(0, 4))),
    )
