"""robots.txt of Gemini capsules, in crawls by the handler of the example project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.utils.reactor import is_asyncio_reactor_installed

from demo.gemini import Capsule
from scrapy_robots_rfc import RobotsDisallowed, robots_service
from tests.support.crawling import Crawl, Pages, crawl
from tests.support.early_crawls import EARLY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.site import Site

pytestmark = pytest.mark.skipif(not is_asyncio_reactor_installed(), reason="the handler needs asyncio")

SETTINGS = {
    "DOWNLOAD_HANDLERS": {"gemini": "demo.gemini.GeminiHandler"},
    "HTTPERROR_ALLOW_ALL": True,
    "ROBOTSTXT_USER_AGENT": ["foobot", "archiver"],
}
RULES = "User-agent: archiver\nAllow: /closed/but\nDisallow: /closed\n"
TEXT = "20 text/plain"


@pytest.fixture
def capsule() -> Iterator[Capsule]:
    """A capsule with three pages and no robots.txt."""
    running = Capsule(dict.fromkeys(("/open", "/closed/but", "/closed*"), (TEXT, "x")))
    yield running
    running.stop()


async def pages(capsule: Capsule, settings: dict[str, Any] | None = None) -> tuple[dict[str, int | str], Crawl]:
    """Crawl all pages of a capsule; return what became of each, the reason of a refused one."""
    paths = [path for path in capsule.pages if path != "/robots.txt"]
    done = await crawl([capsule.url(path) for path in paths], {**SETTINGS, **(settings or {})})
    ends = {path: done.outcomes[capsule.url(path)] for path in paths}
    return {path: end.why if isinstance(end, RobotsDisallowed) else end for path, end in ends.items()}, done  # type: ignore[misc]  # anything else fails its test


@ensureDeferred
async def test_a_capsule_is_crawled_by_its_rules(capsule: Capsule) -> None:
    """The file is fetched once; a page is judged by the group for the crawl's purpose, whose Allow is none."""
    capsule.pages = {**capsule.pages, "/robots.txt": (TEXT, RULES)}
    ends, done = await pages(capsule)
    because = "robots.txt line 3: Disallow: /closed"
    assert ends == {"/open": 20, "/closed/but": because, "/closed*": because}
    assert sorted(capsule.log) == ["/open", "/robots.txt"]
    assert done.stat("response_status_count/20") == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("51 no such page", None),
        ("41 down", "robots.txt unreachable: 41"),
        ("60 certificate, please", "robots.txt unreachable: 60"),
        ("31 https://a.example/robots.txt", None),
        ("31 /robots.txt", None),
    ],
)
@ensureDeferred
async def test_a_capsule_without_a_file(capsule: Capsule, answer: str, reason: str | None) -> None:
    """2.3.1: what is not there allows everything; what cannot be known, nothing."""
    capsule.pages = {"/open": (TEXT, "x"), "/robots.txt": (answer, "")}
    ends, _ = await pages(capsule)
    assert ends == {"/open": 20 if reason is None else reason}


@ensureDeferred
async def test_redirects_lead_to_other_capsules(capsule: Capsule) -> None:
    """2.3.1.2: the file that a redirect leads to counts."""
    other = Capsule({"/r": (TEXT, RULES)})
    capsule.pages = {"/closed": (TEXT, "x"), "/robots.txt": ("30 /there", ""), "/there": (f"31 {other.url('/r')}", "")}
    ends, done = await pages(capsule)
    other.stop()
    assert ends["/closed"] == "robots.txt line 3: Disallow: /closed"
    assert done.stat("redirect_count") == 2


@ensureDeferred
async def test_a_long_file_is_cut_off(capsule: Capsule) -> None:
    """2.5: the transfer ends at the limit."""
    capsule.pages = {**capsule.pages, "/robots.txt": (TEXT, f"{RULES}{'#' * 20_000_000}\nDisallow: /open\n")}
    ends, done = await pages(capsule)
    assert (ends["/open"], ends["/closed*"]) == (20, "robots.txt line 3: Disallow: /closed")
    assert done.stat("truncated") == 1
    assert done.stats["downloader/response_bytes"] < 1_000_000


@ensureDeferred
async def test_a_capsule_that_speaks_no_tls_is_closed(site: Site) -> None:
    """2.3.1.4: a failure of TLS is one of the network."""
    url = site.url("/open").replace("http:", "gemini:")
    done = await crawl([url], SETTINGS)
    error = done.outcomes[url]
    assert isinstance(error, RobotsDisallowed)
    assert error.why.startswith("robots.txt unreachable: TLS: ")


class Asking(Pages):
    """Asks what a capsule says; then for its pages, without errbacks."""

    async def start(self) -> AsyncIterator[Any]:
        """Ask the service, and keep what it says."""
        [page, *_] = self.requests
        robots = await robots_service(self.crawler).robots(str(page))
        self.outcomes["delay"] = int(robots.crawl_delay() or 0)
        for url in self.requests:
            yield Request(str(url))


@ensureDeferred
async def test_service_early_drop_and_pace_know_capsules(capsule: Capsule) -> None:
    """A spider's question, ROBOTSTXT_EARLY and Crawl-delay work as on the web."""
    capsule.pages = {**capsule.pages, "/robots.txt": (TEXT, f"{RULES}Crawl-delay: 1\n")}
    urls = [capsule.url("/open"), capsule.url("/closed*")]
    settings = {**SETTINGS, **EARLY, "ROBOTSTXT_CRAWL_DELAY_MAX": 0.05}
    done = await crawl(urls, settings, spider=Asking)
    assert done.outcomes == {"delay": 1, urls[0]: 20}
    assert (done.stat("early"), done.stat("request_count"), done.stat("crawl_delay/sites")) == (1, 1, 1)
