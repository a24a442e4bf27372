"""The Python code in docs/ does what the pages say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis
import scrapy
from pytest_twisted import ensureDeferred
from scrapy.settings import Settings

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.policy.origins import SCHEMES, Answers, Dialect, Scheme
from scrapy_robots_rfc.settings import read_settings
from tests.support.crawling import crawl, lines, make_crawler
from tests.support.documents import block, executed, imported, plain, settings
from tests.support.linked_crawls import Linked
from tests.support.redis_server import RedisServer
from tests.support.site import Reply, robots
from tests.support.timed_site import fetched
from tests.test_reference_pages import rows

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy import Request
    from scrapy.crawler import Crawler

    from tests.support.site import Site

FORBID = robots("User-agent: *\nDisallow: /private\nSitemap: /map.xml\n")

#: Two ways to switch the plugin on.
ADDON: dict[str, Any] = {
    "DOWNLOADER_MIDDLEWARES": {},
    **settings(block("docs/switching_on.md", "python", "ADDONS")),
}
BY_HAND = settings(block("docs/switching_on.md", "python", "DOWNLOADER_MIDDLEWARES"))
PAGE_RULES = "scrapy_robots_rfc.RfcPageRulesMiddleware"
#: The position of the spider middleware, from the table on docs/switching_on.md.
[POSITION] = [
    int(row[1].rpartition(" ")[2]) for row in rows("switching_on.md") if PAGE_RULES in row[1]
]


@pytest.mark.parametrize(
    "shown",
    [
        {**ADDON, **settings(block("docs/page_rules.md", "python", "link-nofollow"))},
        {
            **BY_HAND,
            "ROBOTS_TAG_OBEY": ["nofollow"],
            "SPIDER_MIDDLEWARES": {PAGE_RULES: POSITION},
        },
    ],
    ids=["add-on", "by hand"],
)
@ensureDeferred
async def test_obeyed_rules_of_pages(
    site: Site, shown: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """With the add-on and by hand, what a page forbids is dropped, with the lines in the log that
    docs/page_rules.md shows.
    """
    site.replies["/"] = Reply(headers=(("X-Robots-Tag", "none"),))
    await crawl([site.url("/"), site.url("/a")], shown, spider=Linked)  # type: ignore[arg-type]  # it notes no outcomes
    assert site.pages == ["/"]
    found = "\n".join(lines(caplog)).replace(site.url("/"), "https://example.com/").splitlines()
    expected = block("docs/page_rules.md", "text", "an item").splitlines()
    if "noindex" in shown["ROBOTS_TAG_OBEY"]:
        assert [line for line in expected if line not in found] == []
    else:
        assert expected[0] in found


@ensureDeferred
async def test_rules_that_spiders_read(
    proxy: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The spider in docs/page_rules.md reads the rules of its pages."""
    proxy.replies["http://example.com/"] = Reply(headers=(("X-Robots-Tag", "noindex, noarchive"),))
    page = imported(plain(block("docs/page_rules.md", "python", "class Articles")), tmp_path)
    items: list[Any] = []

    def scraped(item: Any) -> None:
        items.append(item)

    crawler = make_crawler(page.Articles)
    crawler.signals.connect(scraped, scrapy.signals.item_scraped)
    await crawler.crawl()
    assert items == [
        {
            "url": "http://example.com/",
            "indexed": False,
            "rules": {"noarchive": None, "noindex": None},
        }
    ]
    assert "http://example.com/ must not be stored: X-Robots-Tag: noindex, noarchive" in caplog.text


class Listener:
    """A component that records a signal."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str]] = []

    def on_disallowed(self, request: Request, decision: Any) -> None:
        self.received.append((request.url, str(decision.rule)))


@ensureDeferred
async def test_signal(site: Site) -> None:
    """A handler that is connected as in docs/spiders.md is called for a dropped request."""
    site.replies["/robots.txt"] = FORBID
    listener = Listener()

    def connect(crawler: Crawler) -> None:
        executed(
            block("docs/spiders.md", "python", "signals.connect"), crawler=crawler, self=listener
        )

    await crawl([site.url("/"), site.url("/private")], prepare=connect)
    assert listener.received == [(site.url("/private"), "Disallow: /private")]


@ensureDeferred
async def test_sitemaps(proxy: Site, tmp_path: Path) -> None:
    """The spider requests the sitemaps that robots.txt allows, and fetches robots.txt once."""
    shop = "http://shop.example"
    proxy.replies[f"{shop}/robots.txt"] = robots(
        "User-agent: *\nDisallow: /private\nSitemap: /a.xml\nSitemap: /private.xml\n"
    )
    locations = "".join(
        f"<url><loc>{shop}{path}</loc></url>" for path in ("/page", "/private/page")
    )
    proxy.replies[f"{shop}/a.xml"] = Reply(body=f"<urlset>{locations}</urlset>".encode())
    page = imported(plain(block("docs/spiders.md", "python", "class ShopSpider")), tmp_path)
    crawler = make_crawler(page.ShopSpider)
    await crawler.crawl()
    assert proxy.targets == [f"{shop}{path}" for path in ("/robots.txt", "/a.xml", "/page")]
    assert crawler.stats.get_value("item_scraped_count") == 1


@pytest.mark.usefixtures("redis_installed")
@ensureDeferred
async def test_worker(site: Site) -> None:
    """With the settings in docs/scaling.md, a worker stores robots.txt files in Redis, with the
    prefix of its fleet.
    """
    site.replies["/robots.txt"] = FORBID
    with RedisServer() as server, redis.Redis(port=server.port) as client:
        client.acl_setuser(
            "user", enabled=True, passwords=["+password"], keys=["*"], categories=["+@all"]
        )
        code = block("docs/scaling.md", "python", "prefix=news")
        shown = settings(code.replace("host:6379", f"127.0.0.1:{server.port}"))
        result = await crawl(
            [site.url("/"), site.url("/private")], {"DOWNLOADER_MIDDLEWARES": {}, **shown}
        )
        stored = client.exists(f"news:copy:{site.url('')}")
    assert (fetched(result), result.stat("forbidden"), stored) == (1, 1, 1)
    assert result.stat("cache/store_errors") == 0


def test_purpose_of_a_gemini_crawl() -> None:
    """The purpose of a crawl comes after its name, as docs/schemes.md shows."""
    shown = settings(block("docs/schemes.md", "python", "ROBOTSTXT_USER_AGENT"))
    assert read_settings(Settings(shown)).user_agent == Agent(("foobot", "indexer"), "foobot")


def test_schemes() -> None:
    """The setting in docs/schemes.md adds two schemes and removes Gemini."""
    shown = settings(block("docs/schemes.md", "python", "ROBOTS_SCHEMES"))
    assert read_settings(Settings(shown)).schemes == {
        **{name: SCHEMES[name] for name in ("http", "https", "ftp")},
        "ftps": Scheme(990, Answers.FTP, Dialect.RFC9309),
        "titan": Scheme(1965, Answers.GEMINI, Dialect.GEMINI),
    }
