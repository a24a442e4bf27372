"""Crawls in which our look-up of a private name of Scrapy's fails; Scrapy itself keeps the name."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from scrapy_robots_rfc import _scrapy
from tests.support.crawling import crawl, records
from tests.support.ftp_site import ftp_site
from tests.support.scenarios_unreachable import short
from tests.support.site import PAGE, Reply, Site

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy import Request
    from scrapy.crawler import Crawler

RULES = b"User-agent: *\nCrawl-delay: 0.05\nDisallow: /x\n"
LINKS = Reply(body=b"<a href=/a>a</a><a href=/b>b</a><a href=/x>x</a>", headers=(("Content-Type", "text/html"),))


#: What is looked up in a crawl of an FTP site only.
FTP = ["DownloadHandlers._get_handler", "Downloader.handlers"]


class Followed(CrawlSpider):
    """Follows links."""

    name = "followed"
    rules = (Rule(LinkExtractor()),)

    def __init__(self, start_urls: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = start_urls


class Blind:
    """Our look-up of names, which fails for one of them.

    :param key: as in the table.
    """

    def __init__(self, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.key, self.real = key, _scrapy._there
        #: Whether Scrapy itself has the name, each time that it was looked up.
        self.kept: list[bool] = []
        monkeypatch.setattr(_scrapy, "_there", self)

    def __call__(self, owner: Any, key: str) -> bool:
        """Look for a name."""
        there = self.real(owner, key)
        if key == self.key:
            self.kept.append(there)
        return there and key != self.key


def site_of(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a site a robots.txt that comes when its transfer was asked to hold no place any more, and three pages.

    Nobody waits long for anything.
    """
    gate = threading.Event()
    real = _scrapy.give_place

    def asked(crawler: Crawler, request: Request) -> Any:
        gate.set()
        return real(crawler, request)

    monkeypatch.setattr(_scrapy, "give_place", asked)
    monkeypatch.setattr("scrapy_robots_rfc.fetching.download._PATIENCE", 0.0)
    # Scrapy's own look at what waits, every five seconds: without some names nothing else wakes the engine.
    monkeypatch.setattr("scrapy.core.engine.ExecutionEngine._SLOT_HEARTBEAT_INTERVAL", 0.2, raising=False)
    site.replies |= {
        "/robots.txt": Reply(body=RULES, gate=gate, closes=True),
        "/": LINKS,
        "/a": PAGE,
        "/b": PAGE,
    }


@pytest.mark.parametrize("key", FTP)
@ensureDeferred
async def test_an_ftp_crawl_without_a_name(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the name by which its handler is found, Scrapy's own gets the robots.txt, and one warning says so."""
    for name, text in (("robots.txt", "User-agent: *\nDisallow: /x\n"), ("a", "page"), ("x", "page")):
        (tmp_path / name).write_text(text)
    blind = Blind(key, monkeypatch)
    with ftp_site(tmp_path) as site:
        result = await crawl([site.url("/a"), site.url("/x")])
        assert [short(outcome) for _, outcome in sorted(result.outcomes.items())] == [200, "rule"]
    assert True in blind.kept
    [warning] = records(caplog)
    assert warning.startswith(f"{_scrapy.PRIVATE[key][1]}: ")


@pytest.mark.parametrize("key", sorted(_scrapy.PRIVATE.keys() - set(FTP)))
@ensureDeferred
async def test_a_crawl_without_a_name(
    site: Site, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a private name the crawl ends, robots.txt is obeyed, and one warning says what is lost."""
    site_of(site, monkeypatch)
    blind = Blind(key, monkeypatch)
    settings = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
        "ROBOTS_REPORT": {tmp_path / "report.jsonl": {}},
        "CLOSESPIDER_TIMEOUT": 30,
    }
    result = await crawl([site.url("/")], settings, spider=Followed)  # type: ignore[arg-type]  # it keeps no outcomes
    seen, lost = _scrapy.PRIVATE[key]
    if " and " not in seen and True not in blind.kept:
        pytest.skip("this version of Scrapy has no such name")
    assert True in blind.kept
    assert result.stats["finish_reason"] == "finished"
    asked = [target.removeprefix(site.url("")) for target in site.targets]
    assert sorted(asked) == ["/", "/a", "/b", "/robots.txt"]
    assert (result.stat("forbidden"), result.stat("undecided")) == (1, 0)
    # A timer of another crawl, which has ended, may still look names up.
    caplog.records[:] = [kept for kept in caplog.records if getattr(kept, "spider", result.spider) is result.spider]
    [warning] = records(caplog)
    assert warning.startswith(f"{lost}: ")
    assert f" has no `{key.partition('.')[2]}` (a private name of Scrapy {seen})" in warning
