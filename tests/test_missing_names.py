"""Crawls in which the look-up of a private name of Scrapy fails, although Scrapy has the name."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from scrapy_robots_rfc import _scrapy
from tests.support.crawling import crawl, records, short
from tests.support.ftp_site import ftp_site
from tests.support.site import PAGE, Asked, Reply, Site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

RULES = b"User-agent: *\nCrawl-delay: 0.05\nDisallow: /x\n"
LINKS = Reply(
    body=b"<a href=/a>a</a><a href=/b>b</a><a href=/x>x</a>",
    headers=(("Content-Type", "text/html"),),
)


EXEMPT = {"dont_obey_robotstxt": True}

#: Names that only a crawl of an FTP site looks up.
FTP = ["DownloadHandlers._get_handler", "Downloader.handlers"]


class Followed(CrawlSpider):
    """Follows links."""

    name = "followed"
    rules = (Rule(LinkExtractor()),)

    def __init__(self, start_urls: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = start_urls

    async def start(self) -> AsyncIterator[Any]:
        """Also request a page that doesn't wait for robots.txt, and is answered after it."""
        yield Request(f"{self.start_urls[0]}c", meta=EXEMPT, callback=self.parse)
        async for request in super().start():
            yield request


class Blind:
    """Hides one private name of Scrapy from `_scrapy.py`.

    :param key: the name in the table.
    """

    def __init__(self, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.owner, _, self.name = key.partition(".")
        #: Whether Scrapy itself has the name, for each look-up.
        self.there: list[bool] = []
        monkeypatch.setattr(_scrapy, "getattr", self.getattr, raising=False)
        monkeypatch.setattr(_scrapy, "hasattr", self.hasattr, raising=False)

    def hides(self, owner: Any, name: str) -> bool:
        owners = (
            [owner.__name__.rpartition(".")[2]]
            if isinstance(owner, ModuleType)
            else names_of(owner)
        )
        if name != self.name or self.owner not in owners:
            return False
        self.there.append(hasattr(owner, name))
        return True

    def getattr(self, owner: Any, name: str, *default: Any) -> Any:
        if not self.hides(owner, name):
            return getattr(owner, name, *default)
        if default:
            return default[0]
        raise AttributeError(name)

    def hasattr(self, owner: Any, name: str) -> bool:
        return not self.hides(owner, name) and hasattr(owner, name)


def names_of(owner: Any) -> list[str]:
    """Return the names of all classes of an object."""
    return [base.__name__ for base in type(owner).__mro__]


def slow(asked: Asked) -> Reply:
    """Answer slowly, and a page after robots.txt."""
    gate = threading.Event()
    is_page = asked.target == "/c"
    threading.Timer(0.7 if is_page else 0.55, gate.set).start()
    return Reply(body=b"" if is_page else RULES, gate=gate, closes=True)


def fill(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a site a slow robots.txt and four pages."""
    # Scrapy's own check, every five seconds: without some names nothing else wakes the
    # engine.
    monkeypatch.setattr(
        "scrapy.core.engine.ExecutionEngine._SLOT_HEARTBEAT_INTERVAL", 0.2, raising=False
    )
    site.replies |= {
        "/robots.txt": slow,
        "/": LINKS,
        "/a": PAGE,
        "/b": PAGE,
        "/c": slow,
    }


def warning_of(key: str) -> str:
    """Return the one line that a crawl logs."""
    return f"{_scrapy.PRIVATE[key]}: this version of Scrapy has no `{key}`"


@pytest.mark.parametrize("key", FTP)
@ensureDeferred
async def test_an_ftp_crawl_without_a_name(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the name that finds its handler, Scrapy's handler fetches robots.txt, with one
    warning.
    """
    for name, text in (
        ("robots.txt", "User-agent: *\nDisallow: /x\n"),
        ("a", "page"),
        ("x", "page"),
    ):
        (tmp_path / name).write_text(text)
    blind = Blind(key, monkeypatch)
    with ftp_site(tmp_path) as site:
        result = await crawl([site.url("/a"), site.url("/x")])
        assert [short(outcome) for _, outcome in sorted(result.outcomes.items())] == [200, "rule"]
    assert True in blind.there
    assert records(caplog) == [warning_of(key)]


@pytest.mark.parametrize("key", sorted(_scrapy.PRIVATE.keys() - set(FTP)))
@ensureDeferred
async def test_a_crawl_without_a_name(
    site: Site,
    key: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without a private name, the crawl ends, robots.txt is obeyed, and one warning says what is
    lost.
    """
    fill(site, monkeypatch)
    blind = Blind(key, monkeypatch)
    settings = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
        "ROBOTS_REPORT": {tmp_path / "report.jsonl": {}},
        "CLOSESPIDER_TIMEOUT": 30,
    }
    result = await crawl([site.url("/")], settings, spider=Followed)  # type: ignore[arg-type]  # it notes no outcomes
    assert True in blind.there
    assert result.stats["finish_reason"] == "finished"
    asked = [target.removeprefix(site.url("")) for target in site.targets]
    assert sorted(asked) == ["/", "/a", "/b", "/c", "/robots.txt"]
    assert (result.stat("forbidden"), result.stat("undecided")) == (1, 0)
    # A timer of an ended crawl may still look up names.
    caplog.records[:] = [
        found
        for found in caplog.records
        if getattr(found, "spider", result.spider) is result.spider
    ]
    assert records(caplog) == [warning_of(key)]
