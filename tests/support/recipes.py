"""Crawl with the settings of a recipe in docs/plugins.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.crawler import Crawler

from tests.support.crawling import ASYNCIO_REACTOR, Crawl, Pages, short
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request, Spider

RULES = robots("User-agent: *\nDisallow: /private\n")

#: Settings that a recipe leaves out, because they do not concern it.
_QUIET: dict[str, Any] = {
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "RETRY_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "ROBOTS_UNREACHABLE_BACKOFF": [],
    "TWISTED_REACTOR": ASYNCIO_REACTOR,
}


def ruled() -> Site:
    """Return a site that disallows /private."""
    return Site({"/robots.txt": RULES})


async def crawl_by(
    recipe: dict[str, Any],
    requests: Iterable[str | Request] = (),
    *,
    spider: type[Spider] = Pages,
    **settings: Any,
) -> Crawl:
    """Crawl with the settings of a recipe.

    :param settings: other settings, such as the address of a server of the test.
    """
    crawler = Crawler(spider, {**_QUIET, **recipe, **settings})
    await crawler.crawl(requests)
    assert crawler.stats is not None
    return Crawl(crawler, crawler.spider, dict(crawler.stats.get_stats()))


def verdicts(crawl: Crawl) -> dict[str, str]:
    """Return `fetched` or the reason, by the last part of each URL."""
    outcomes = {url.rpartition("/")[2]: short(found) for url, found in crawl.outcomes.items()}
    return {name: "fetched" if found == 200 else found for name, found in outcomes.items()}
