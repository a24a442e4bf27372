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
from scrapy.robotstxt import RobotParser
from scrapy.settings import Settings, default_settings
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.parser import RfcRobotParser
from tests.support.crawling import crawl, lines
from tests.support.site import Site, robots

SITE = "https://www.site.local"


def parser_of(body: bytes) -> RfcRobotParser:
    """Return a parser without a crawler."""
    return RfcRobotParser.from_crawler(None, body)


def test_it_is_a_robot_parser() -> None:
    """The class implements Scrapy's interface."""
    assert issubclass(RfcRobotParser, RobotParser)
    assert not RfcRobotParser.__abstractmethods__


def test_setting_loads_it() -> None:
    """The documented value of ROBOTSTXT_PARSER is the class."""
    settings = Settings({"ROBOTSTXT_PARSER": "scrapy_robots_rfc.RfcRobotParser"})
    assert load_object(settings["ROBOTSTXT_PARSER"]) is RfcRobotParser


def test_made_with_a_crawler() -> None:
    """A parser is the same with and without a crawler."""
    crawler = get_crawler(Spider)
    parser = RfcRobotParser.from_crawler(crawler, b"User-agent: *\nDisallow: /x\n")
    assert not parser.allowed(f"{SITE}/x", "*")
    assert parser.allowed(f"{SITE}/y", "*")


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
    assert "no effect: ROBOTS_CACHE, ROBOTS_UNREACHABLE_BACKOFF; enable" in warning


def test_allowed_and_disallowed() -> None:
    """A rule of the `*` group decides for all crawlers."""
    parser = parser_of(b"User-agent: * \nDisallow: /disallowed \nAllow: /allowed \nCrawl-delay: 10")
    assert parser.allowed(f"{SITE}/allowed", "*")
    assert not parser.allowed(f"{SITE}/disallowed", "*")


_WILDCARDS = b"""User-agent: first
Disallow: /disallowed/*/end$

User-agent: second
Allow: /*allowed
Disallow: /
"""


@pytest.mark.parametrize(
    ("path", "agent", "allowed"),
    [
        ("/disallowed", "first", True),
        ("/disallowed/xyz/end", "first", False),
        ("/disallowed/abc/end", "first", False),
        ("/disallowed/xyz/endinglater", "first", True),
        ("/allowed", "second", True),
        ("/is_still_allowed", "second", True),
        ("/is_allowed_too", "second", True),
        ("/other", "second", False),
    ],
)
def test_wildcards(path: str, agent: str, allowed: bool) -> None:
    """`*` and `$` have the meaning of the RFC (2.2.3)."""
    assert parser_of(_WILDCARDS).allowed(f"{SITE}{path}", agent) is allowed


@pytest.mark.parametrize(
    "body",
    [b"User-agent: *\nDisallow: /\nAllow: /page", b"User-agent: *\nAllow: /page\nDisallow: /"],
)
def test_length_decides(body: bytes) -> None:
    """The longest pattern decides, wherever it is (2.2.2)."""
    assert parser_of(body).allowed(f"{SITE}/page", "*")
    assert not parser_of(body).allowed(f"{SITE}/other", "*")


@pytest.mark.parametrize("body", [b"", b"GIF89a\xd3\x00\xfe\x00\xa2"], ids=["empty", "image"])
def test_body_without_a_group(body: bytes) -> None:
    """A body without a group allows everything, and has no delay."""
    parser = parser_of(body)
    assert parser.allowed(f"{SITE}/", "*")
    assert parser.allowed(f"{SITE}/index.html", "chrome")
    assert parser.crawl_delay("*") is None


_LETTERS = """User-Agent: *
Disallow: /admin/
Disallow: /static/
Disallow: /wiki/K%C3%A4ytt%C3%A4j%C3%A4:
Disallow: /wiki/Hyv\u00e4ksytyt:

User-Agent: Unic\u00f6deB\u00f6t
Disallow: /some/random/page.html
""".encode()


@pytest.mark.parametrize(
    ("path", "agent", "allowed"),
    [
        ("/", "*", True),
        ("/admin/", "*", False),
        ("/static/", "*", False),
        ("/admin/", "Unic\u00f6deB\u00f6t", True),
        ("/wiki/K%C3%A4ytt%C3%A4j%C3%A4:", "*", False),
        ("/wiki/K\u00e4ytt\u00e4j\u00e4:", "*", False),
        ("/wiki/Hyv%C3%A4ksytyt:", "*", False),
        ("/some/random/page.html", "*", True),
        ("/some/random/page.html", "Unic\u00f6deB\u00f6t", False),
    ],
)
def test_letters_outside_ascii(path: str, agent: str, allowed: bool) -> None:
    """URL and user agent may have any characters, as str and bytes."""
    parser = parser_of(_LETTERS)
    assert parser.allowed(f"{SITE}{path}", agent) is allowed
    assert parser.allowed(f"{SITE}{path}".encode(), agent.encode()) is allowed


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


@pytest.mark.parametrize("value", [b"", b"soon", b"-1"])
def test_crawl_delay_that_is_none(value: bytes) -> None:
    """An invalid delay is None, and the rules still count."""
    parser = parser_of(b"User-agent: *\nCrawl-delay: " + value + b"\nDisallow: /x\n")
    assert parser.crawl_delay("*") is None
    assert not parser.allowed(f"{SITE}/x", "*")
