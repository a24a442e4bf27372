"""Scrapy's requirements for a `RobotParser` that agree with RFC 9309.

They are without those for parsers whose first rule wins, and for bodies that are not UTF-8, because
the RFC says otherwise (2.2.2, 2.3.1.5).
"""

from __future__ import annotations

import logging

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Spider
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import default_settings
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.parser import RfcRobotParser
from tests.support.crawling import crawl, lines
from tests.support.site import Site, robots

SITE = "https://www.site.local"


def parser_of(body: bytes) -> RfcRobotParser:
    """Return a parser without a crawler."""
    return RfcRobotParser.from_crawler(None, body)


def test_crawler_s_limit() -> None:
    """A crawler's ROBOTS_MAX_SIZE is the size limit (2.5)."""
    body = b"User-agent: *\n" + b"#\n" * 300_000 + b"Disallow: /x\n"
    crawler = get_crawler(Spider, {"ROBOTS_MAX_SIZE": 1_000_000})
    assert parser_of(body).allowed(f"{SITE}/x", "*")
    assert not RfcRobotParser.from_crawler(crawler, body).allowed(f"{SITE}/x", "*")


def test_wrong_limit() -> None:
    """An invalid limit stops the crawl at start, with Scrapy's own middleware, too."""
    settings = {
        "ROBOTSTXT_OBEY": True,
        "ROBOTSTXT_PARSER": RfcRobotParser,
        "ROBOTS_MAX_SIZE": "500k",
    }
    with pytest.raises(SettingError, match="ROBOTS_MAX_SIZE"):
        RobotsTxtMiddleware(get_crawler(Spider, settings))


@ensureDeferred
async def test_settings_that_need_the_middleware(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """With the parser alone, one warning names the settings that have no effect."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    common = {"ROBOTSTXT_PARSER": RfcRobotParser, "ROBOTS_CACHE": "memory:"}
    alone = {
        "DOWNLOADER_MIDDLEWARES": {},
        "SCHEDULER_PRIORITY_QUEUE": default_settings.SCHEDULER_PRIORITY_QUEUE,
        "ROBOTS_MAX_SIZE": 600_000,
    }
    pages = [site.url("/"), site.url("/", host="localhost")]
    await crawl(pages, common)
    assert lines(caplog, logging.WARNING) == []
    await crawl(pages, common | alone)
    assert sorted(site.targets) == ["/"] * 4 + ["/robots.txt"] * 4
    [warning] = lines(caplog, logging.WARNING)
    assert "nothing reads ROBOTS_CACHE, ROBOTS_UNREACHABLE_BACKOFF; enable" in warning


@pytest.mark.parametrize(
    ("agent", "delay"),
    [
        ("*", 10.0),
        (b"*", 10.0),
        ("slow", 2.5),
        ("Slow/1.0 (+https://slow.example)", 2.5),
        ("nobody", 10.0),
        ("none", None),
    ],
)
def test_crawl_delay(agent: str | bytes, delay: float | None) -> None:
    """The delay of the group that applies is a float in seconds, or None."""
    body = (
        b"User-agent: *\nCrawl-delay: 10\nDisallow: /x\n\nUser-agent: slow\nCrawl-delay:"
        b" 2.5\nDisallow: /x\n\n"
    )
    found = parser_of(body + b"User-agent: none\nDisallow: /x\n").crawl_delay(agent)
    assert found == delay
    assert found is None or isinstance(found, float)


def test_sitemaps() -> None:
    """The sitemaps are an iterator of URLs that can be requested, from the whole file."""
    body = b"""Sitemap: https://a.example/1.xml
User-agent: *
Sitemap: /relative.xml
Sitemap: file:///etc/passwd
Sitemap: http://[::1
Sitemap: https://a.example/1.xml
sitemap:http://b.example/2.xml
Sitemap: http://b.example/\xff\xc3\xa9.xml
"""
    found = parser_of(body).sitemaps()
    assert next(found) == "https://a.example/1.xml"
    assert list(found) == ["http://b.example/2.xml", "http://b.example/%FF%C3%A9.xml"]
