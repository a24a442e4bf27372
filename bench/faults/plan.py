"""Draw the plan of a crawl from a seed."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.faults.answers import ANSWERS, CLOSED, GOOD

RUNTIMES = ("asyncio", "select", "none")
#: Seconds. Slow answers take a third of it, and endless ones longer.
ROBOTS_TIMEOUT = 2.5
#: "dead" refuses connections, and "hang" never answers.
PROXIES = ("live", "dead", "407", "hang")

_FOLDERS = ("a", "b", "shut", "deep/x")
_ENDINGS = ("", "", ".html", ".pdf", "?s=1", "?s=2")
_RULES = (
    *("Disallow: /a/", "Disallow: /b/", "Disallow: /shut", "Disallow: /*.pdf$", "Disallow: /*?s="),
    *("Disallow: /deep/*/2", "Disallow:", "Allow: /shut/*.html", "Allow: /a/1", "Allow: /*?s=1$"),
)
_PAGES = ("page",) * 12 + ("busy", "busy-once", "slow", "reset", "redirect", "redirect")
_PLACES = (20, 99, 101, 450, 560, 745, 950)
_MIDDLEWARES = ("raise", "respond", "raise-after", "swallow")
#: Settings, and the values to choose from.
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "CONCURRENT_REQUESTS": (1, 2, 4, 8, 16),
    "CONCURRENT_REQUESTS_PER_DOMAIN": (1, 2, 4, 8),
    "DOWNLOAD_DELAY": (0, 0, 0, 0.01, 0.03),
    "AUTOTHROTTLE_ENABLED": (True, *(False,) * 5),
    "CLOSESPIDER_PAGECOUNT": (5, 15, *(0,) * 20),
    "CLOSESPIDER_TIMEOUT": (1, *(0,) * 12),
    "HTTPCACHE_ENABLED": (True, *(False,) * 4),
    "RETRY_ENABLED": (True, False),
    "ROBOTS_CACHE": (True, False, False),
    "ROBOTS_REPORT": (True, *(False,) * 4),
    "ROBOTS_UNREACHABLE_BACKOFF": ([], [0.2], [0.1, 0.3]),
    "ROBOTS_UNREACHABLE_TTL": (300, 300, 0.5),
    "ROBOTS_UNREACHABLE_STATUSES": ([429], [429], [401, 403, 429], []),
    "JOBDIR": (True, False, False),
    "SCHEDULER_DISK_QUEUE": tuple(f"scrapy.squeues.Pickle{n}DiskQueue" for n in ("Lifo", "Fifo")),
    # Limits of the package, which are not settings.
    "MAX_PARKED": (100_000, 100_000, 2, 0),
    "MAX_FETCHES": (100, 100, 2),
}


class Ask(NamedTuple):
    """A request that the spider yields, with one of `PROXIES` or without a proxy."""

    site: int
    page: int
    proxy: str
    dont_filter: bool
    priority: int


class Page(NamedTuple):
    """A page.

    :param kind: how the server answers, one of `_PAGES`. A redirect leads to the first of `asks`.
    :param asks: what its callback yields.
    """

    path: str
    kind: str
    asks: tuple[Ask, ...]


class Site(NamedTuple):
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


class Part(NamedTuple):
    """A user's middleware, which changes a fifth of the requests.

    :param kind: what it does, one of `_MIDDLEWARES`.
    :param robots: whether it also changes requests for robots.txt.
    """

    place: int
    kind: str
    robots: bool


class Plan(NamedTuple):
    """A crawl.

    :param interruptions: seconds after which the first process gets a signal, and which one; the
        same for the second process, and so on.
    :param is_wrapped: whether it uses a third-party priority queue, and our wrapper.
    """

    seed: int
    runtime: str
    settings: dict[str, Any]
    sites: tuple[Site, ...]
    starts: tuple[Ask, ...]
    parts: tuple[Part, ...]
    interruptions: tuple[tuple[float, str], ...]
    is_wrapped: bool


def draw(seed: int, names: Sequence[str] = tuple(ANSWERS), sizes: Sequence[int] = ()) -> Plan:
    """Draw a plan.

    :param names: the answers to requests for robots.txt.
    :param sizes: the number of pages of each site; drawn, too, by default.
    """
    source = random.Random(seed)
    choice = source.choice
    settings = {key: choice(values) for key, values in _SETTINGS.items()}
    is_wrapped = choice((True, False, False))
    # A third-party queue loses requests if it is killed.
    signs = ("SIGTERM", "SIGINT", "SIGTERM" if is_wrapped else "SIGKILL")
    interruptions = tuple(
        (source.uniform(0, choice((1, 3, 9))), choice(signs))
        for _ in range(choice((0, 0, 0, 1, 1, 2)))
    )
    settings["JOBDIR"] |= bool(interruptions)
    sizes = sizes or [source.randint(3, 12) for _ in range(source.randint(2, 6))]
    pages = [(site, page) for site, size in enumerate(sizes) for page in range(size)]
    proxies = choice((("",), ("",), ("", "", "live", *PROXIES)))

    def ask(site: int, page: int) -> Ask:
        return Ask(site, page, choice(proxies), source.random() < 0.1, choice((0, 0, 0, 5, -5)))

    def page(number: int) -> Page:
        path = f"/{choice(_FOLDERS)}/{number}{choice(_ENDINGS)}"
        asks = tuple(ask(*choice(pages)) for _ in range(source.randint(1, 3)))
        return Page(path, choice(_PAGES), asks)

    def site(size: int) -> Site:
        rules = source.sample(_RULES, source.randint(1, 5))
        if source.random() < 0.1:
            rules.append("Disallow: /")
        script = [GOOD if source.random() < 0.3 else choice(names)]
        while ANSWERS[script[-1]].meaning == CLOSED and source.random() < 0.7:
            script.append(choice(names) if source.random() < 0.5 else GOOD)
        return Site(
            host=f"127.0.0.{source.randint(1, len(sizes))}",  # some sites share a host
            rules=tuple(rules),
            pace=choice((0, 0, 0, 0.1, 0.2, 0.3)),
            script=tuple(script),
            down=choice((0,) * 12 + (0.25, 600)),
            pages=tuple(map(page, range(size))),
        )

    middlewares = range(choice((0, 0, 0, 1, 2)))
    return Plan(
        seed,
        choice(RUNTIMES),
        settings,
        tuple(map(site, sizes)),
        tuple(ask(*one) for one in source.sample(pages, len(pages))),
        tuple(
            Part(choice(_PLACES), choice(_MIDDLEWARES), choice((True, False))) for _ in middlewares
        ),
        interruptions,
        is_wrapped,
    )
