"""The recipe for a broad crawl in docs/scaling.md keeps the queue short and drops nothing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import signals
from scrapy.core.engine import ExecutionEngine

from scrapy_robots_rfc import RobotsDisallowed
from tests.support.crawling import crawl, make_crawler
from tests.support.documents import block, imported, settings
from tests.support.site import robots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.site import Site

LAZY = block("docs/scaling.md", "python", "class BroadSpider")


@pytest.mark.skipif(not hasattr(ExecutionEngine, "scheduler"), reason="Scrapy 2.19 has it")
@ensureDeferred
async def test_lazy_start(site: Site, tmp_path: Path) -> None:
    """The spider does not fill the queue while a robots.txt is fetched, and requests all pages."""
    gate = threading.Event()
    site.replies["/robots.txt"] = robots("", gate=gate)
    module = imported(LAZY, tmp_path)
    module.MAX_QUEUED = 20
    module.BroadSpider.urls = [site.url(f"/{number}") for number in range(100)]
    crawler = make_crawler(module.BroadSpider)
    lengths = []

    def measure() -> None:
        scheduler: Any = crawler.engine.scheduler
        lengths.append(len(scheduler))
        if lengths[-1] >= module.MAX_QUEUED - 1:
            gate.set()

    crawler.signals.connect(measure, signals.request_scheduled)
    await crawler.crawl()
    assert crawler.stats.get_value("item_scraped_count") == 100
    assert max(lengths) < module.MAX_QUEUED


@ensureDeferred
async def test_settings(site: Site) -> None:
    """With the settings, allowed pages are fetched, and each connection is closed afterwards."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /b\n")
    recipe = settings(block("docs/scaling.md", "python", "ROBOTS_CACHE_SIZE"))
    pages = [site.url("/a"), site.url("/b")]
    result = await crawl(pages, {**recipe, "DOWNLOADER_MIDDLEWARES": {}})
    assert site.pages == ["/a"]
    assert isinstance(result.outcomes[site.url("/b")], RobotsDisallowed)
    assert [asked.headers["Connection"] for asked in site.asked] == ["close", "close"]
