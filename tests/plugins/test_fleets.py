"""Crawls of several processes: scrapy-redis with a real Redis server, and jobs of scrapyd."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from pytest_twisted import ensureDeferred
from redis import Redis

from tests.support.documents import block, settings
from tests.support.processes import python
from tests.support.recipes import crawl_by, ruled, verdicts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.redis_server import RedisServer

REDIS = block("docs/plugins.md", "python", "scrapy_redis")
SCRAPYD = block("docs/plugins.md", "python", "sqlite:")


@ensureDeferred
async def test_scrapy_redis(redis_server: RedisServer) -> None:
    """A second crawl with the same server requests no robots.txt that the first one stored."""
    Redis.from_url(redis_server.url).flushall()
    recipe = settings(REDIS.replace("redis://127.0.0.1:6379/0", redis_server.url))
    with ruled() as site:
        pages = [site.url("/open"), site.url("/private")]
        for _ in range(2):
            result = await crawl_by(recipe, pages)
            assert verdicts(result) == {"open": "fetched", "private": "rule"}
            assert result.stats["scheduler/enqueued/redis"] >= 2
        assert site.fetches == 1
        assert site.pages == ["/open", "/open"]


SPIDER = """
from scrapy import Spider


class Shop(Spider):
    name = "shop"

    def __init__(self, site, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/open", f"{site}/private"]

    def parse(self, response):
        pass
"""


def deploy(folder: Path, code: str) -> None:
    """Store a project in the form and at the place where scrapyd keeps it."""
    extra = "SPIDER_MODULES = ['shop.spiders']\nTELNETCONSOLE_ENABLED = False\n"
    (folder / "eggs" / "shop").mkdir(parents=True)
    with zipfile.ZipFile(folder / "eggs" / "shop" / "1.egg", "w") as archive:
        archive.writestr("shop/__init__.py", "")
        archive.writestr("shop/settings.py", f"{code}\n{extra}")
        archive.writestr("shop/spiders.py", SPIDER)
        archive.writestr("EGG-INFO/PKG-INFO", "Metadata-Version: 1.0\nName: shop\nVersion: 1.0\n")
        archive.writestr("EGG-INFO/entry_points.txt", "[scrapy]\nsettings = shop.settings\n")


def test_scrapyd(tmp_path: Path) -> None:
    """A second job requests no robots.txt, because the first one has stored it."""
    deploy(tmp_path, SCRAPYD.replace("/var/lib/scrapyd", str(tmp_path)))
    with ruled() as site:
        # The command with which scrapyd starts a job.
        job = ("-m", "scrapyd.runner", "crawl", "shop", "-a", f"site={site.url('')}")
        logs = [python(*job, folder=tmp_path, SCRAPY_PROJECT="shop").stderr for _ in range(2)]
        assert site.fetches == 1
        assert site.pages == ["/open", "/open"]
    assert all("(robots.txt line 2: Disallow: /private)" in log for log in logs)
    assert "'robotstxt/cache/store_hits': 1" in logs[1]
