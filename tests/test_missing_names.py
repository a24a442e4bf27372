"""Crawls in which the look-up of a private name of Scrapy fails, although Scrapy has the name."""

from __future__ import annotations

import sys
import threading
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.exceptions import ScrapyDeprecationWarning
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc.fetching.pending import TICK
from tests.support.crawling import crawl, records, short
from tests.support.ftp_site import ftp_site
from tests.support.site import PAGE, Asked, Reply, Site, robots
from tests.support.timed_site import DELAY, gaps

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


class Scope:
    """A downloader slot of another class: some names are missing, and none can be set."""

    __slots__ = ("_slot",)
    missing: tuple[str, ...] = ()

    def __init__(self, slot: Any) -> None:
        object.__setattr__(self, "_slot", slot)

    def __getattr__(self, name: str) -> Any:
        if name in self.missing:
            raise AttributeError(name)
        return getattr(self._slot, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


class Scopes:
    """The slots of a downloader, as objects of the other class."""

    def __init__(self, slots: dict[str, Any]) -> None:
        self._slots = slots

    def get(self, key: str) -> Scope | None:
        """Return a slot."""
        slot = self._slots.get(key)
        return None if slot is None else Scope(slot)

    def values(self) -> list[Scope]:
        """Return all slots."""
        return [Scope(slot) for slot in self._slots.values()]


class Throttled(Downloader):
    """A downloader whose slots are deprecated, and of another class."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        caller = sys._getframe(1).f_globals["__name__"]
        if name != "slots" or not caller.startswith("scrapy_robots_rfc"):
            return found
        warnings.warn("slots are deprecated", ScrapyDeprecationWarning, stacklevel=2)
        return Scopes(found)


@pytest.mark.filterwarnings("ignore:slots are deprecated")
@pytest.mark.parametrize("missing", [("queue",), ("active", "delay", "queue")])
@ensureDeferred
async def test_slots_of_another_class(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If another class has replaced the slots, verdicts and Crawl-delay hold, and each lost name
    has one warning.
    """
    monkeypatch.setattr(Scope, "missing", missing)
    rules = robots(f"User-agent: *\nCrawl-delay: {DELAY}\nDisallow: /x\n")
    late = {"/robots.txt": 2 * TICK, "/c": 3 * TICK}
    with Site({"/robots.txt": rules}, late=late) as site:
        pages = [site.url(path) for path in ("/a", "/b", "/x")]
        exempt = Request(site.url("/c"), meta=EXEMPT)
        result = await crawl([exempt, *pages], {"DOWNLOADER": Throttled})
    assert [short(result.outcomes[page]) for page in pages] == [200, 200, "rule"]
    site.arrivals = [arrival for arrival in site.arrivals if arrival[1] != "/c"]
    assert min(gaps(site)) >= DELAY
    lines = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert sorted(line.getMessage() for line in lines) == sorted(
        warning_of(f"Slot.{name}") for name in missing
    )
