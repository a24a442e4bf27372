"""The add-on: the user's settings in, exact settings out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from scrapy import Spider
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from scrapy_robots_rfc import RfcRobotsTxtMiddleware
from scrapy_robots_rfc.addon import Addon
from scrapy_robots_rfc.scheduling.scheduler import scheduler_around
from tests.support.documents import block, settings

STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
OURS = "scrapy_robots_rfc.RfcRobotsTxtMiddleware"
PARSER = "scrapy_robots_rfc.RfcRobotParser"
OTHER = "scrapy.downloadermiddlewares.retry.RetryMiddleware"
PAGES = "scrapy_robots_rfc.RfcPageRulesMiddleware"
USES = "scrapy_robots_rfc.RfcUseMiddleware"
USE = {"ROBOTS_USE": ["train-ai"]}
TAG = {"ROBOTS_TAG_OBEY": ["nofollow"]}


QUEUE_KEY = "SCHEDULER_PRIORITY_QUEUE"
QUEUE = "scrapy_robots_rfc.OriginPriorityQueue"
OTHER_QUEUE = "scrapy.pqueues.ScrapyPriorityQueue"


class Stricter(RfcRobotsTxtMiddleware):
    """A subclass of our middleware."""


class OwnStock(RobotsTxtMiddleware):
    """A subclass of Scrapy's middleware."""


@dataclass(frozen=True)
class Row:
    """The user's settings, and the settings after the add-on.

    Settings that are not named have the defaults of Scrapy and the add-on.
    """

    says: str
    user: dict[str, Any]
    middlewares: dict[Any, Any] = field(default_factory=lambda: {STOCK: None, OURS: 100})
    spider_middlewares: dict[Any, Any] = field(default_factory=dict)
    obey: Any = True
    parser: Any = PARSER
    priority: str = "project"


def mw(middlewares: Any) -> dict[str, Any]:
    """Return a setting for downloader middlewares."""
    return {"DOWNLOADER_MIDDLEWARES": middlewares}


def spider_mw(middlewares: Any) -> dict[str, Any]:
    """Return a setting for spider middlewares."""
    return {"SPIDER_MIDDLEWARES": middlewares}


def spider(middlewares: dict[Any, Any]) -> dict[str, Any]:
    """Return the field of a row for spider middlewares."""
    return {"spider_middlewares": middlewares}


TABLE = (
    Row("nothing set", {}),
    Row("the project template", {"ROBOTSTXT_OBEY": True}),
    Row("not obeying", {"ROBOTSTXT_OBEY": False}, obey=False),
    Row("not obeying, by a spider", {"ROBOTSTXT_OBEY": False}, obey=False, priority="spider"),
    Row("a command's default gives way", {"ROBOTSTXT_OBEY": False}, priority="command"),
    Row("a third-party parser", {"ROBOTSTXT_PARSER": "my.Parser"}, parser="my.Parser"),
    Row(
        "other middlewares",
        mw({OTHER: None, "my.Other": 5}),
        {OTHER: None, "my.Other": 5, STOCK: None, OURS: 100},
    ),
    Row("stock moved, by path", mw({STOCK: 543}), {STOCK: None, OURS: 543}),
    Row("stock moved, by class", mw({RobotsTxtMiddleware: 543}), {STOCK: None, OURS: 543}),
    Row(
        "stock moved by a command line",
        mw(f'{{"{STOCK}": 7}}'),
        {STOCK: None, OURS: 7},
        priority="cmdline",
    ),
    Row("stock disabled, by path", mw({STOCK: None})),
    Row("ours placed, by path", mw({OURS: 50}), {STOCK: None, OURS: 50}),
    Row(
        "ours placed, by class",
        mw({RfcRobotsTxtMiddleware: 50}),
        {STOCK: None, RfcRobotsTxtMiddleware: 50},
    ),
    Row("ours and stock placed", mw({OURS: 50, STOCK: 60}), {STOCK: None, OURS: 50}),
    Row("a subclass of ours", mw({Stricter: 50}), {STOCK: None, Stricter: 50}),
    Row(
        "a subclass instead of ours",
        mw({Stricter: 50, OURS: None}),
        {STOCK: None, Stricter: 50, OURS: None},
    ),
    Row("ours disabled", mw({OURS: None, STOCK: 60}), {OURS: None, STOCK: 60}),
    Row("a subclass of stock stays", mw({OwnStock: 50}), {OwnStock: 50, STOCK: None, OURS: 100}),
    Row(
        "stock moved in the base",
        {"DOWNLOADER_MIDDLEWARES_BASE": {STOCK: 33}},
        {STOCK: None, OURS: 33},
    ),
    Row("other spider middlewares", spider_mw({"my.Other": 5}), **spider({"my.Other": 5})),
    Row("rules of pages", TAG, **spider({PAGES: 1000})),
    Row("rules of pages placed", {**TAG, **spider_mw({PAGES: 7})}, **spider({PAGES: 7})),
    Row("rules of pages disabled", {**TAG, **spider_mw({PAGES: None})}, **spider({PAGES: None})),
    Row("rules of pages without ours", {**TAG, **mw({OURS: None})}, {OURS: None}, {PAGES: 1000}),
    Row("uses", USE, {STOCK: None, OURS: 100, USES: 101}),
    Row("uses of requests alone", {"ROBOTS_USE": []}, {STOCK: None, OURS: 100, USES: 101}),
    Row("no uses", {"ROBOTS_USE": None}),
    Row("uses, ours placed", {**USE, **mw({Stricter: 50})}, {STOCK: None, Stricter: 50, USES: 51}),
    Row("uses placed", {**USE, **mw({USES: 700})}, {STOCK: None, OURS: 100, USES: 700}),
    Row("uses disabled", {**USE, **mw({USES: None})}, {STOCK: None, OURS: 100, USES: None}),
    Row("uses without ours", {**USE, **mw({OURS: None})}, {OURS: None}),
)


#: The settings that the add-on may change if the scheduler is Scrapy's.
CHANGED = {
    "DOWNLOADER_MIDDLEWARES",
    "SPIDER_MIDDLEWARES",
    "ROBOTSTXT_OBEY",
    "ROBOTSTXT_PARSER",
    QUEUE_KEY,
}


def seen(settings: Settings) -> tuple[Any, ...]:
    """Return the settings that the add-on may change."""
    components = [settings.getdict(f"{name}_MIDDLEWARES") for name in ("DOWNLOADER", "SPIDER")]
    return *components, settings["ROBOTSTXT_OBEY"], settings["ROBOTSTXT_PARSER"]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.says)
def test_settings_in_settings_out(row: Row) -> None:
    """The add-on changes exactly these settings, and applying it twice changes nothing more."""
    settings = Settings()
    settings.setdict(row.user, row.priority)
    before = settings.copy_to_dict()
    wanted = (row.middlewares, row.spider_middlewares, row.obey, row.parser)
    for _ in range(2):
        Addon().update_settings(settings)
        assert seen(settings) == wanted
    after = settings.copy_to_dict()
    assert {name for name in after if after[name] != before[name]} <= CHANGED


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
    """The queue is set unless the user set one."""
    settings = Settings()
    settings.setdict(user, priority)
    Addon().update_settings(settings)
    assert settings[QUEUE_KEY] == queue


@pytest.mark.parametrize(
    ("user", "wrapped"),
    [
        ({}, False),
        ({QUEUE_KEY: OTHER_QUEUE}, True),
        ({"SCHEDULER": "tests.support.schedulers.Own"}, True),
        ({"SCHEDULER": "tests.test_addon.OwnScheduler"}, False),
    ],
)
@pytest.mark.parametrize("priority", ["project", "cmdline"])
def test_other_schedulers(user: dict[str, Any], wrapped: bool, priority: str) -> None:
    """A third-party scheduler, or one with another queue, is replaced by a subclass, once."""
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


@pytest.mark.parametrize(
    ("value", "priority", "user", "obeys"),
    [
        (None, None, {}, None),
        (True, "default", {}, False),
        (True, "default", mw({Stricter: 50}), False),
        (True, "default", mw({OURS: None}), True),
        (True, "project", {}, True),
        (False, "project", {}, False),
        (True, "spider", {}, True),
    ],
)
def test_throttler_of_scrapy(
    value: bool | None, priority: str | None, user: dict[str, Any], obeys: bool | None
) -> None:
    """Where Scrapy itself would obey Crawl-delay, only our middleware does, unless the user decides
    otherwise.
    """
    settings = Settings(user)
    if priority is not None:
        settings.set("THROTTLER_ROBOTSTXT_OBEY", value, priority)
    Addon().update_settings(settings)
    assert settings.get("THROTTLER_ROBOTSTXT_OBEY") is obeys


class OwnScheduler(Scheduler):
    """A subclass of Scrapy's scheduler, which uses the queue."""


def test_priority() -> None:
    """The settings of the add-on have the priority of an add-on, so that the user can override
    them.
    """
    settings = Settings(TAG)
    Addon().update_settings(settings)
    names = ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ROBOTSTXT_OBEY", "ROBOTSTXT_PARSER")
    assert [settings.getpriority(name) for name in names] == [15, 15, 15, 15]


def middlewares_of(settings: dict[str, Any], custom: dict[str, Any] | None = None) -> list[type]:
    """Return the classes of the downloader middlewares of a crawler, in their order."""
    spider = type("Named", (Spider,), {"name": "named", "custom_settings": custom})
    # The reactor is whichever pytest runs.
    crawler = Crawler(spider, {"TELNETCONSOLE_ENABLED": False, "TWISTED_REACTOR": None, **settings})
    crawler._apply_settings()
    crawler.spider = crawler._create_spider()
    return [type(made) for made in DownloaderMiddlewareManager.from_crawler(crawler).middlewares]


#: The two ways in docs/switching_on.md.
ADDON = settings(block("docs/switching_on.md", "python", "ADDONS"))
BY_HAND = settings(block("docs/switching_on.md", "python", "DOWNLOADER_MIDDLEWARES"))


def test_settings_by_hand() -> None:
    """The add-on enables the same middlewares as the settings by hand, in the same order."""
    assert middlewares_of(ADDON) == middlewares_of(BY_HAND)


def test_position() -> None:
    """Our middleware has the position of Scrapy's own."""
    stock = middlewares_of({"ROBOTSTXT_OBEY": True})
    assert RobotsTxtMiddleware in stock
    assert middlewares_of(ADDON) == [
        RfcRobotsTxtMiddleware if made is RobotsTxtMiddleware else made for made in stock
    ]


def test_settings_of_a_spider() -> None:
    """A spider whose settings disable ROBOTSTXT_OBEY has neither middleware."""
    found = middlewares_of(ADDON, {"ROBOTSTXT_OBEY": False})
    assert not {RobotsTxtMiddleware, RfcRobotsTxtMiddleware} & set(found)
