"""The log lines at start about the settings of a crawl."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware

from scrapy_robots_rfc import Addon, OriginPriorityQueue, RfcRobotsTxtMiddleware, scheduler_around
from scrapy_robots_rfc.errors import SettingError
from tests.support import crawling
from tests.support.crawling import Pages, crawl, lines, records
from tests.support.schedulers import Own

if TYPE_CHECKING:
    from tests.support.site import Site

OURS = "scrapy_robots_rfc.RfcRobotsTxtMiddleware"
STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
HERE = "tests.middleware.test_startup"


class Stricter(RobotsTxtMiddleware):
    """A subclass of Scrapy's middleware."""


class Lenient(RfcRobotsTxtMiddleware):
    """A subclass of our middleware."""


def middlewares(**positions: Any) -> dict[str, Any]:
    """Return the setting, with the components by their names in this module."""
    names = {"ours": OURS, "stock": STOCK}
    return {
        "DOWNLOADER_MIDDLEWARES": {
            names.get(name, f"{HERE}.{name}"): at for name, at in positions.items()
        }
    }


def beside(names: str) -> list[str]:
    """The warning about a middleware that duplicates ours."""
    twice = f"{names} is also enabled, so each robots.txt is requested twice"
    both = "a page is fetched only if both allow it; set it to None in DOWNLOADER_MIDDLEWARES"
    return [f"{twice}, and {both}"]


def unknown(key: str, near: str = "") -> str:
    """The warning about an unknown setting."""
    return f"unknown setting {key} (ignored)" + (f"; did you mean {near}?" if near else "")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (middlewares(ours=100), beside(STOCK)),
        (middlewares(ours=100, stock=None), []),
        (middlewares(Lenient=100, stock=90), beside(STOCK)),
        (middlewares(ours=100, stock=None, Stricter=50), beside(f"{HERE}.Stricter")),
        (
            {"DOWNLOADER_MIDDLEWARES": {RfcRobotsTxtMiddleware: 1, STOCK: None, Stricter: 5}},
            beside(f"{HERE}.Stricter"),
        ),
        (middlewares(ours=100, Stricter=50), beside(f"{HERE}.Stricter") + beside(STOCK)),
        (
            {"ROBOTS_DELAY_MAX": 5, "ROBOTS_QQ": 1, "ROBOT_X": 1, "MY_ROBOTS_TIMEOUTS": 1},
            [
                unknown("ROBOTS_DELAY_MAX", "ROBOTS_CRAWL_DELAY_MAX"),
                unknown("ROBOTS_QQ"),
            ],
        ),
        (
            {"ROBOTSTXT_USERAGENT": "a", "ROBOTS_TAG_OBEYS": None, "ROBOTS_TIMEOUT": 5},
            [
                unknown("ROBOTSTXT_USERAGENT", "ROBOTSTXT_USER_AGENT"),
                unknown("ROBOTS_TAG_OBEYS", "ROBOTS_TAG_OBEY"),
            ],
        ),
        (
            {"ROBOT_DRY_RUN": True, "ROBOTTXT_OBEY": True, "robots_cache": "x", "my_robot": 1},
            [
                unknown("ROBOTTXT_OBEY", "ROBOTSTXT_OBEY"),
                unknown("ROBOT_DRY_RUN", "ROBOTS_DRY_RUN"),
                unknown("robots_cache", "ROBOTS_CACHE"),
            ],
        ),
        ({"ROBOTSTXT_TIMEOUT": 5}, [unknown("ROBOTSTXT_TIMEOUT", "ROBOTS_TIMEOUT")]),
        (
            {
                "ROBOTSTXT_PARSER": "scrapy.robotstxt.ProtegoRobotParser",
                "ROBOTSTXT_USER_AGENT": "Scrapy",
            },
            [],
        ),
    ],
)
@ensureDeferred
async def test_mistakes_in_settings(
    site: Site, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], expected: list[str]
) -> None:
    """Scrapy's own middleware beside ours, and unknown settings, have one warning each."""
    result = await crawl([site.url("/x"), site.url("/y")], settings)
    assert records(caplog) == expected
    assert list(result.outcomes.values()) == [200, 200]


class Early:
    """A third-party downloader middleware that does nothing."""


@ensureDeferred
async def test_middlewares_before_ours_are_named(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Third-party downloader middlewares before ours are named once; those after it are not."""
    caplog.set_level(logging.INFO)
    await crawl([site.url("/x"), site.url("/y")], middlewares(ours=100, stock=None, Early=50))
    await crawl([site.url("/x")], middlewares(ours=100, stock=None, Early=150))
    [line] = [text for text in lines(caplog, logging.INFO) if "middlewares before" in text]
    assert line.startswith(
        f"downloader middlewares before RfcRobotsTxtMiddleware: {HERE}.Early. Each processes a"
    )


QUEUE = "SCHEDULER_PRIORITY_QUEUE"


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        (
            {QUEUE: "scrapy.pqueues.ScrapyPriorityQueue"},
            'set SCHEDULER_PRIORITY_QUEUE = "scrapy_robots_rfc.OriginPriorityQueue"',
        ),
        (
            {"SCHEDULER": Own},
            'set SCHEDULER = scrapy_robots_rfc.scheduler_around("tests.support.schedulers.Own")',
        ),
        ({"SCHEDULER": scheduler_around(Own)}, None),
        ({QUEUE: OriginPriorityQueue}, None),
    ],
    ids=["other queue", "other scheduler", "wrapped", "our queue"],
)
@ensureDeferred
async def test_middleware_without_our_queue(
    site: Site, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], advice: str | None
) -> None:
    """Without our queue, a warning says what that costs and which setting to add."""
    await crawl([site.url("/x"), site.url("/y")], settings)
    found = [text for text in lines(caplog, logging.WARNING) if "leave the scheduler" in text]
    assert len(found) == (0 if advice is None else 1)
    assert all(text.endswith(f"are lost when the spider closes; {advice}") for text in found)


NOT_OBEYED = (
    "RfcRobotsTxtMiddleware is enabled, but ROBOTSTXT_OBEY is not True, so robots.txt is not"
    " obeyed; set ROBOTSTXT_OBEY = True, or remove the middleware"
)
CHOSEN = "ROBOTSTXT_OBEY is False, so robots.txt is not obeyed"
NO_DRY_RUN = (
    "ROBOTS_DRY_RUN has no effect, because robots.txt is not requested; set ROBOTSTXT_OBEY = True"
)


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"ROBOTSTXT_OBEY": False}, [(logging.INFO, CHOSEN)]),
        ({}, [(logging.WARNING, NOT_OBEYED)]),
        (
            {"ROBOTSTXT_OBEY": "0", "ROBOTS_DRY_RUN": True},
            [(logging.INFO, CHOSEN), (logging.WARNING, NO_DRY_RUN)],
        ),
    ],
)
@ensureDeferred
async def test_middleware_that_does_not_obey(
    site: Site,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    shown: list[tuple[int, str]],
) -> None:
    """The log says that the middleware does not obey; as a warning unless the user chose it."""
    monkeypatch.delitem(crawling.SETTINGS, "ROBOTSTXT_OBEY")
    await crawl([site.url("/x")], {**settings, "ROBOTSTXT_OBAY": True})
    wrong = unknown("ROBOTSTXT_OBAY", "ROBOTSTXT_OBEY")
    logged = [
        (record.levelno, record.getMessage()) for record in caplog.records if record.name in LOGGERS
    ]
    assert logged == [(logging.WARNING, wrong), *shown]
    assert site.targets == ["/x"]


LOGGERS = {"scrapy_robots_rfc.middleware.startup"}


class Mistyped(Pages):
    """A spider with attributes that have no effect, and some of its own."""

    robotstxt_user_agents = "foobot"
    ROBOTS_USE = "train-ai"
    robot_use = "train-ai"
    robots_seen = 0
    robot = "r2"


@ensureDeferred
async def test_names_without_effect(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A misspelt spider attribute or meta key has one warning, with the name that was probably
    meant.
    """
    meta = {
        "dont_obey_robots": True,
        "robots_meta": 3,
        "robotstxt_url": 4,
        "robotstxt_user_agents": "x",
        "robot": 1,
        "mine": 2,
    }
    requests = [Request(site.url(f"/{number}"), meta=meta) for number in range(3)]
    await crawl(requests, {"USER_AGENT": "foobot/1.0"}, spider=Mistyped)
    assert [line for line in records(caplog) if "has no effect" in line] == [
        f"{what} has no effect; did you mean {near!r}?"
        for what, near in (
            ("The spider attribute 'ROBOTS_USE'", "robots_use"),
            ("The spider attribute 'robot_use'", "robots_use"),
            ("The spider attribute 'robotstxt_user_agents'", "robotstxt_user_agent"),
            ("The meta key 'dont_obey_robots'", "dont_obey_robotstxt"),
            ("The meta key 'robotstxt_user_agents'", "robotstxt_user_agent"),
        )
    ]


ADDON = "scrapy_robots_rfc.Addon"
PAGES = "scrapy_robots_rfc.RfcPageRulesMiddleware"
USES = "scrapy_robots_rfc.RfcUseMiddleware"


@pytest.mark.parametrize(
    ("wrong", "component", "right"),
    [
        ("DOWNLOADER_MIDDLEWARES", ADDON, "ADDONS"),
        ("EXTENSIONS", ADDON, "ADDONS"),
        ("ITEM_PIPELINES", Addon, "ADDONS"),
        ("ADDONS", RfcRobotsTxtMiddleware, "DOWNLOADER_MIDDLEWARES"),
        ("EXTENSIONS", OURS, "DOWNLOADER_MIDDLEWARES"),
        ("SPIDER_MIDDLEWARES", OURS, "DOWNLOADER_MIDDLEWARES"),
        ("SPIDER_MIDDLEWARES", USES, "DOWNLOADER_MIDDLEWARES"),
        ("DOWNLOADER_MIDDLEWARES", PAGES, "SPIDER_MIDDLEWARES"),
    ],
)
@pytest.mark.parametrize("others", [{}, {"ADDONS": {ADDON: 500}}], ids=["alone", "add-on"])
@ensureDeferred
async def test_components_in_wrong_settings(
    wrong: str, component: Any, right: str, others: dict[str, Any]
) -> None:
    """A crawl doesn't start if one of our classes is in the wrong setting; the error names the
    right one.
    """
    settings = {"DOWNLOADER_MIDDLEWARES": {}, **others}
    settings[wrong] = {**settings.get(wrong, {}), component: 100}
    with pytest.raises(SettingError, match=f"^{wrong} = '.*' is .* It must be in {right}$"):
        await crawl([], settings)
