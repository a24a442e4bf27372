"""The add-on as a table: the user's settings in, exact settings out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.scheduler import BaseScheduler, Scheduler
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from scrapy_robots_rfc import RfcPageRulesMiddleware, RfcRobotsTxtMiddleware, RfcUseMiddleware
from scrapy_robots_rfc.addon import Addon
from scrapy_robots_rfc.scheduling.scheduler import scheduler_around
from tests.support.documents import block, settings

STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
OURS = "scrapy_robots_rfc.RfcRobotsTxtMiddleware"
OURS_IN_FULL = "scrapy_robots_rfc.middleware.downloader.RfcRobotsTxtMiddleware"
PARSER = "scrapy_robots_rfc.RfcRobotParser"
OTHER = "scrapy.downloadermiddlewares.retry.RetryMiddleware"
PAGES = "scrapy_robots_rfc.RfcPageRulesMiddleware"
USES = "scrapy_robots_rfc.RfcUseMiddleware"
USE = {"ROBOTS_USE": ["train-ai"]}
TAG = {"ROBOTS_TAG_OBEY": ["nofollow"]}
PROTEGO = "scrapy.robotstxt.ProtegoRobotParser"


QUEUE_KEY = "SCHEDULER_PRIORITY_QUEUE"
QUEUE = "scrapy_robots_rfc.OriginPriorityQueue"
OTHER_QUEUE = "scrapy.pqueues.ScrapyPriorityQueue"


class Stricter(RfcRobotsTxtMiddleware):
    """A user's own subclass of ours."""


class OwnPages(RfcPageRulesMiddleware):
    """A user's own subclass of the spider middleware."""


class OwnUses(RfcUseMiddleware):
    """A user's own subclass of the other downloader middleware."""


class OwnStock(RobotsTxtMiddleware):
    """A user's own subclass of Scrapy's."""


@dataclass(frozen=True)
class Row:
    """What the user set, and what the add-on makes of it.

    Settings not named are the defaults and the add-on's.
    """

    says: str
    user: dict[str, Any]
    middlewares: dict[Any, Any] = field(default_factory=lambda: {STOCK: None, OURS: 100})
    spider_middlewares: dict[Any, Any] = field(default_factory=dict)
    obey: Any = True
    parser: Any = PARSER
    priority: str = "project"


def mw(middlewares: Any) -> dict[str, Any]:
    """Name the setting."""
    return {"DOWNLOADER_MIDDLEWARES": middlewares}


def spider_mw(middlewares: Any) -> dict[str, Any]:
    """Name the other one."""
    return {"SPIDER_MIDDLEWARES": middlewares}


def spider(middlewares: dict[Any, Any]) -> dict[str, Any]:
    """Name the field that says what comes of it."""
    return {"spider_middlewares": middlewares}


TABLE = (
    Row("nothing set", {}),
    Row("the project template", {"ROBOTSTXT_OBEY": True}),
    Row("obeying refused", {"ROBOTSTXT_OBEY": False}, obey=False),
    Row("obeying refused as text", {"ROBOTSTXT_OBEY": "0"}, obey="0", priority="cmdline"),
    Row("obeying refused by a spider", {"ROBOTSTXT_OBEY": False}, obey=False, priority="spider"),
    Row(
        "obeying refused by an earlier add-on",
        {"ROBOTSTXT_OBEY": False},
        obey=False,
        priority="addon",
    ),
    Row("a command's default gives way", {"ROBOTSTXT_OBEY": False}, priority="command"),
    Row("a parser of the user's", {"ROBOTSTXT_PARSER": "my.Parser"}, parser="my.Parser"),
    Row("Scrapy's parser on purpose", {"ROBOTSTXT_PARSER": PROTEGO}, parser=PROTEGO),
    Row(
        "other middlewares",
        mw({OTHER: None, "my.Other": 5}),
        {OTHER: None, "my.Other": 5, STOCK: None, OURS: 100},
    ),
    Row("stock moved, by path", mw({STOCK: 543}), {STOCK: None, OURS: 543}),
    Row("stock moved, by class", mw({RobotsTxtMiddleware: 543}), {STOCK: None, OURS: 543}),
    Row("stock moved to the front", mw({STOCK: 0}), {STOCK: None, OURS: 0}),
    Row("stock moved by a spider", mw({STOCK: 7}), {STOCK: None, OURS: 7}, priority="spider"),
    Row(
        "stock moved by a command line",
        mw(f'{{"{STOCK}": 7}}'),
        {STOCK: None, OURS: 7},
        priority="cmdline",
    ),
    Row("stock switched off, by path", mw({STOCK: None})),
    Row("stock switched off, by class", mw({RobotsTxtMiddleware: None})),
    Row("ours placed, by path", mw({OURS: 50}), {STOCK: None, OURS: 50}),
    Row("ours placed, by full path", mw({OURS_IN_FULL: 50}), {STOCK: None, OURS_IN_FULL: 50}),
    Row(
        "ours placed, by class",
        mw({RfcRobotsTxtMiddleware: 50}),
        {STOCK: None, RfcRobotsTxtMiddleware: 50},
    ),
    Row("ours and stock placed", mw({OURS: 50, STOCK: 60}), {STOCK: None, OURS: 50}),
    Row("ours by hand", mw({STOCK: None, OURS: 100})),
    Row("a subclass of ours", mw({Stricter: 50}), {STOCK: None, Stricter: 50}),
    Row(
        "a subclass instead of ours",
        mw({Stricter: 50, OURS: None}),
        {STOCK: None, Stricter: 50, OURS: None},
    ),
    Row("ours switched off", mw({OURS: None, STOCK: 60}), {OURS: None, STOCK: 60}),
    Row("a subclass of stock stays", mw({OwnStock: 50}), {OwnStock: 50, STOCK: None, OURS: 100}),
    Row("no middlewares at all", mw(None)),
    Row("no base", {"DOWNLOADER_MIDDLEWARES_BASE": {}}),
    Row(
        "stock moved in the base",
        {"DOWNLOADER_MIDDLEWARES_BASE": {STOCK: 33}},
        {STOCK: None, OURS: 33},
    ),
    Row("stock off in the base", {"DOWNLOADER_MIDDLEWARES_BASE": {STOCK: None}}),
    Row(
        "a key that is no class",
        mw({"my.nowhere.Class": 1}),
        {"my.nowhere.Class": 1, STOCK: None, OURS: 100},
    ),
    Row("other spider middlewares", spider_mw({"my.Other": 5}), **spider({"my.Other": 5})),
    Row(
        "others by a command line",
        spider_mw('{"my.Other": 5}'),
        **spider({"my.Other": 5}),
        priority="cmdline",
    ),
    Row("no spider middlewares at all", spider_mw(None)),
    Row("rules of pages", TAG, **spider({PAGES: 1000})),
    Row("rules of pages, by a string", {"ROBOTS_TAG_OBEY": "nofollow"}, **spider({PAGES: 1000})),
    Row("no rules of pages", {"ROBOTS_TAG_OBEY": []}),
    Row("rules of pages placed", {**TAG, **spider_mw({PAGES: 7})}, **spider({PAGES: 7})),
    Row("a subclass for pages", {**TAG, **spider_mw({OwnPages: 7})}, **spider({OwnPages: 7})),
    Row(
        "rules of pages switched off", {**TAG, **spider_mw({PAGES: None})}, **spider({PAGES: None})
    ),
    Row("rules of pages without ours", {**TAG, **mw({OURS: None})}, {OURS: None}, {PAGES: 1000}),
    Row("uses", USE, {STOCK: None, OURS: 100, USES: 101}),
    Row("uses of requests alone", {"ROBOTS_USE": []}, {STOCK: None, OURS: 100, USES: 101}),
    Row("no uses", {"ROBOTS_USE": None}),
    Row("uses, ours placed", {**USE, **mw({Stricter: 50})}, {STOCK: None, Stricter: 50, USES: 51}),
    Row("uses, stock moved", {**USE, **mw({STOCK: 543})}, {STOCK: None, OURS: 543, USES: 544}),
    Row("uses placed", {**USE, **mw({USES: 700})}, {STOCK: None, OURS: 100, USES: 700}),
    Row(
        "a subclass for uses", {**USE, **mw({OwnUses: 700})}, {STOCK: None, OURS: 100, OwnUses: 700}
    ),
    Row("uses switched off", {**USE, **mw({USES: None})}, {STOCK: None, OURS: 100, USES: None}),
    Row("uses without ours", {**USE, **mw({OURS: None})}, {OURS: None}),
)


def seen(settings: Settings) -> tuple[Any, ...]:
    """Return the settings that the add-on may change."""
    components = [settings.getdict(f"{name}_MIDDLEWARES") for name in ("DOWNLOADER", "SPIDER")]
    return *components, settings["ROBOTSTXT_OBEY"], settings["ROBOTSTXT_PARSER"]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.says)
def test_settings_in_settings_out(row: Row) -> None:
    """The add-on makes exactly these settings of the user's, and applied again it changes
    nothing.
    """
    settings = Settings()
    settings.setdict(row.user, row.priority)
    wanted = (row.middlewares, row.spider_middlewares, row.obey, row.parser)
    for _ in range(2):
        Addon().update_settings(settings)
        assert seen(settings) == wanted


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.says)
def test_everything_else_stays(row: Row) -> None:
    """The add-on touches five settings and, with another queue, the scheduler; no other."""
    ours = {
        "DOWNLOADER_MIDDLEWARES",
        "SPIDER_MIDDLEWARES",
        "ROBOTSTXT_OBEY",
        "ROBOTSTXT_PARSER",
        QUEUE_KEY,
    }
    settings = Settings()
    settings.setdict(row.user, row.priority)
    before = settings.copy_to_dict()
    Addon().update_settings(settings)
    after = settings.copy_to_dict()
    assert {name for name in after if after[name] != before.get(name)} <= ours
    assert set(after) == set(before)


@pytest.mark.parametrize(
    ("user", "priority", "queue"),
    [
        ({}, "project", QUEUE),
        ({QUEUE_KEY: OTHER_QUEUE}, "project", OTHER_QUEUE),
        ({QUEUE_KEY: OTHER_QUEUE}, "cmdline", OTHER_QUEUE),
        ({QUEUE_KEY: OTHER_QUEUE}, "addon", OTHER_QUEUE),
        ({"CONCURRENT_REQUESTS_PER_IP": 8}, "project", QUEUE),
    ],
)
@pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
def test_queue_of_the_scheduler(user: dict[str, Any], priority: str, queue: str) -> None:
    """The queue is set where the user set none, and no setting rules it out."""
    settings = Settings()
    settings.setdict(user, priority)
    Addon().update_settings(settings)
    assert settings[QUEUE_KEY] == queue


@pytest.mark.parametrize(
    ("user", "wrapped"),
    [
        ({}, False),
        ({QUEUE_KEY: OTHER_QUEUE}, True),
        ({"SCHEDULER": "tests.test_addon.OfAnotherMake"}, True),
        ({"SCHEDULER": "tests.test_addon.LikeScrapys"}, False),
    ],
)
@pytest.mark.parametrize("priority", ["project", "cmdline"])
def test_a_scheduler_that_does_not_use_the_queue(
    user: dict[str, Any], wrapped: bool, priority: str
) -> None:
    """One with another queue, or of another make, is replaced by a subclass.

    To apply the add-on again adds none.
    """
    settings = Settings()
    settings.setdict(user, priority)
    before = settings["SCHEDULER"]
    for _ in range(2):
        Addon().update_settings(settings)
        if not wrapped:
            assert settings["SCHEDULER"] == before
            continue
        found = settings["SCHEDULER"]
        assert load_object(before) in found.__mro__
        assert found is scheduler_around(load_object(before))


class OfAnotherMake(BaseScheduler):
    """A scheduler that knows nothing of the queue."""

    def has_pending_requests(self) -> bool:
        """Never."""
        return False

    def enqueue_request(self, request: Request) -> bool:
        """Refuse it."""
        return False

    def next_request(self) -> Request | None:
        """Have none."""
        return None


class LikeScrapys(Scheduler):
    """A subclass of Scrapy's scheduler, with the queue of the add-on."""


def test_the_priority_is_the_addons() -> None:
    """What the add-on sets has the priority of an add-on, so that whatever the user says later
    still wins.
    """
    settings = Settings(TAG)
    Addon().update_settings(settings)
    names = ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ROBOTSTXT_OBEY", "ROBOTSTXT_PARSER")
    assert [settings.getpriority(name) for name in names] == [15, 15, 15, 15]


def middlewares_of(settings: dict[str, Any], custom: dict[str, Any] | None = None) -> list[type]:
    """Return the classes of the downloader middlewares that a real crawler makes, in their
    order.
    """
    spider = type("Named", (Spider,), {"name": "named", "custom_settings": custom})
    # The reactor is whichever pytest runs.
    crawler = Crawler(spider, {"TELNETCONSOLE_ENABLED": False, "TWISTED_REACTOR": None, **settings})
    crawler._apply_settings()
    crawler.spider = crawler._create_spider()
    return [type(made) for made in DownloaderMiddlewareManager.from_crawler(crawler).middlewares]


#: The two ways that the page shows.
ADDON = settings(block("docs/switching_on.md", "python", "ADDONS"))
BY_HAND = settings(block("docs/switching_on.md", "python", "DOWNLOADER_MIDDLEWARES"))


def test_the_addon_equals_settings_by_hand() -> None:
    """A crawler with the add-on has the middlewares of one that was set by hand, in the same
    order.
    """
    assert middlewares_of(ADDON) == middlewares_of(BY_HAND)


def test_the_place_is_that_of_scrapys_own() -> None:
    """A crawler with the add-on has ours exactly where a stock crawler that obeys has Scrapy's
    own.
    """
    stock = middlewares_of({"ROBOTSTXT_OBEY": True})
    assert RobotsTxtMiddleware in stock
    assert middlewares_of(ADDON) == [
        RfcRobotsTxtMiddleware if made is RobotsTxtMiddleware else made for made in stock
    ]


def test_a_spiders_own_settings_count() -> None:
    """A spider that refuses in its custom settings gets neither middleware."""
    found = middlewares_of(ADDON, {"ROBOTSTXT_OBEY": False})
    assert not {RobotsTxtMiddleware, RfcRobotsTxtMiddleware} & set(found)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.says)
def test_never_two_of_them(row: Row) -> None:
    """No user's settings make a crawler that asks Scrapy's own middleware beside ours."""
    settings = Settings()
    settings.setdict(row.user, row.priority)
    Addon().update_settings(settings)
    names = settings.getdict("DOWNLOADER_MIDDLEWARES")
    active = [key for key, value in names.items() if value is not None]
    assert not (
        {STOCK, RobotsTxtMiddleware} & set(active) and {OURS, RfcRobotsTxtMiddleware} & set(active)
    )
