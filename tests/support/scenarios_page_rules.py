"""Crawls in which rules of pages drop what a spider yields.

What must come of it is in `test_runtimes.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.linked_crawls import AsyncLinked, Linked
from tests.support.site import Reply, Site

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.scenarios_obeying import Run


async def page_rules(run: Run) -> dict[str, Any]:
    """Crawl a page that forbids its links and its items, with callbacks of both kinds."""
    settings = {
        "ROBOTS_TAG_OBEY": ["nofollow", "noindex", "link-nofollow"],
        "SPIDER_MIDDLEWARES": {"scrapy_robots_rfc.RfcPageRulesMiddleware": 1000},
    }
    link = b'<meta name=robots content=noindex><a rel=nofollow href="/b">x</a>'
    replies = {
        "/": Reply(headers=(("X-Robots-Tag", "none"),)),
        "/links": Reply(body=link, headers=(("Content-Type", "text/html"),)),
    }
    with Site({**replies}) as site:
        found: dict[str, Any] = {}
        for spider in (Linked, AsyncLinked):
            for first in replies:
                result = await run(
                    spider, settings, [site.url(target) for target in (first, "/a", "/b")]
                )
                counted = {
                    key: value
                    for key, value in result.stats.items()
                    if key.startswith("robotstxt/page/")
                }
                found[f"{spider.name} {first}"] = [
                    counted,
                    result.stats.get("item_scraped_count", 0),
                ]
        return {**found, "pages": site.pages}


SCENARIOS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {
    "page_rules": page_rules,
}
