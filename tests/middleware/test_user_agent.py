"""Under which tokens a request is judged, in the order of the documentation, and what users are
warned about.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc.cache.memory import LARGE
from scrapy_robots_rfc.errors import AgentError, SettingError
from tests.support.crawling import SETTINGS, Pages, crawl, records
from tests.support.site import HANG, Site, robots

# A path a token: what is disallowed tells which group applied.
NAMES = ("meta", "spider", "setting", "own", "default", "attribute", "custom")
FILE = (
    "User-agent: nexus\nDisallow: /nexus\n\n"
    + "".join(f"User-agent: {name}bot\nDisallow: /{name}\n\n" for name in NAMES)
    + "User-agent: *\nDisallow: /any\n"
)


class Named(Pages):
    """Has a name of its own for robots.txt."""

    robotstxt_user_agent: Any = "spiderbot"


class Nexus(Pages):
    """Has a name for robots.txt that browsers send, too."""

    robotstxt_user_agent = "nexus"


class Custom(Pages):
    """Has a setting of its own."""

    custom_settings = {"ROBOTSTXT_USER_AGENT": "custombot"}  # noqa: RUF012 - as Scrapy's users write it


async def applied(site: Site, settings: dict[str, Any] | None = None, **request: Any) -> str:
    """Which group applied to a request."""
    spider = request.pop("spider", Pages)
    site.replies["/robots.txt"] = robots(FILE)
    paths = [*NAMES, "nexus", "any"]
    requests = [Request(site.url(f"/{path}"), **request) for path in paths]
    result = await crawl(
        requests, {"USER_AGENT": "defaultbot/1.0", **(settings or {})}, spider=spider
    )
    [group] = [p for p in paths if isinstance(result.outcomes[site.url(f"/{p}")], RobotsDisallowed)]
    return group


SETTING = {"ROBOTSTXT_USER_AGENT": "settingbot"}
OWN = {"User-Agent": "ownbot/2.0"}
META = {"robotstxt_user_agent": "metabot"}


@pytest.mark.parametrize(
    ("expected", "settings", "request_arguments", "spider"),
    [
        ("meta", SETTING, {"meta": META, "headers": OWN}, Named),
        ("spider", SETTING, {"headers": OWN}, Named),
        ("spider", SETTING, {"meta": {"robotstxt_user_agent": None}}, Named),
        ("setting", SETTING, {"headers": OWN}, Pages),
        ("custom", {}, {"headers": OWN}, Custom),
        ("own", {}, {"headers": OWN}, Pages),
        ("default", {}, {}, Pages),
        ("own", {"DEFAULT_REQUEST_HEADERS": {"User-Agent": "ownbot"}}, {}, Pages),
        (
            "any",
            {"USER_AGENT": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/130.0"},
            {},
            Pages,
        ),
        (
            "default",
            {"USER_AGENT": "Mozilla/5.0 (compatible; DefaultBot/2.1; +https://bot.example)"},
            {},
            Pages,
        ),
        ("setting", {"ROBOTSTXT_USER_AGENT": ["nobot", "settingbot", "ownbot"]}, {}, Pages),
        ("own", {"ROBOTSTXT_USER_AGENT": ["nobot", "ownbot", "settingbot"]}, {}, Pages),
        ("setting", {"ROBOTSTXT_USER_AGENT": "SettingBot/3.0 (+https://bot.example)"}, {}, Pages),
        ("meta", {}, {"meta": {"robotstxt_user_agent": ["nobot", "metabot"]}}, Pages),
        ("default", {"ROBOTSTXT_USER_AGENT": ""}, {}, Pages),
        # A single word is a name, even if browsers send it.
        ("nexus", {"ROBOTSTXT_USER_AGENT": "nexus"}, {}, Pages),
        ("nexus", SETTING, {"meta": {"robotstxt_user_agent": "Nexus"}}, Pages),
        ("nexus", SETTING, {}, Nexus),
    ],
)
@ensureDeferred
async def test_meta_counts_before_spider_setting_and_header(
    site: Site,
    expected: str,
    settings: dict[str, Any],
    request_arguments: dict[str, Any],
    spider: type[Pages],
) -> None:
    """Meta, then spider, then setting, then the User-Agent header that will be sent.

    Each a string or a list.
    """
    assert await applied(site, settings, spider=spider, **request_arguments) == expected


class OldStyle(Pages):
    """Sets its User-Agent as an attribute."""

    user_agent = "attributebot/1.0"


@pytest.mark.filterwarnings("ignore:.*user_agent.*")
@ensureDeferred
async def test_user_agent_of_the_spider(site: Site) -> None:
    """The spider's `user_agent` is the header that is sent, and so gives the token."""
    assert await applied(site, spider=OldStyle) == "attribute"
    assert site.asked[0].headers["User-Agent"] == "attributebot/1.0"


@pytest.mark.parametrize("value", [7, {"a": 1}, ["a", 7], b"x"[0]])
@ensureDeferred
async def test_wrong_meta_fails_the_request(
    site: Site, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A meta value of a wrong type opens nothing.

    The request fails, and the log says what is accepted.
    """
    page = Request(site.url("/x"), meta={"robotstxt_user_agent": value})
    result = await crawl([page])
    error = result.outcomes[site.url("/x")]
    assert isinstance(error, AgentError)
    assert "a string, or a list of strings" in str(error)
    assert site.pages == []


@pytest.mark.parametrize("value", [7, ["a", None]])
@ensureDeferred
async def test_wrong_spider_attribute_stops_the_crawl(site: Site, value: Any) -> None:
    """A wrong spider attribute stops the crawl at start and is named."""
    with pytest.raises(SettingError, match="robotstxt_user_agent"):
        await crawl([site.url("/x")], robotstxt_user_agent=value)
    assert site.targets == []


class Broken(Pages):
    """Has a name for robots.txt that it fails to make, from some request on."""

    asked = 0
    good = 0

    @property
    def robotstxt_user_agent(self) -> str:
        """Fail as any code may."""
        Broken.asked += 1
        return "spiderbot" if Broken.asked <= self.good else "a" + 5  # type: ignore[operator]


@pytest.mark.parametrize("good", range(7))
@ensureDeferred
async def test_error_of_the_spiders_own_property(
    site: Site, good: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TypeError in a spider's property is no wrong name.

    It reaches the user as it is, and no page is fetched.
    """
    monkeypatch.setattr(Broken, "asked", 0)
    monkeypatch.setattr(Broken, "good", good)
    url = site.url("/x")
    try:
        result = await crawl([url], spider=Broken)
    except TypeError as error:  # at start
        found: object = error
    else:
        found = result.outcomes[url]
    if Broken.asked > good:  # else it was not asked so often
        assert type(found) is TypeError
        assert "can only concatenate str" in str(found)
        assert site.pages == []


class BrokenOnce(Pages):
    """Has a name for robots.txt that it fails to make once, after so many times."""

    left = 0

    @property
    def robotstxt_user_agent(self) -> str:
        """Fail as any code may."""
        BrokenOnce.left -= 1
        return "spiderbot" if BrokenOnce.left != 0 else "a" + 5  # type: ignore[operator]


@ensureDeferred
async def test_error_of_the_property_as_the_spider_opens(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A property that fails as the spider opens does not stop what ends the wait for a file."""
    site.replies["/robots.txt"] = HANG
    for asked in range(1, 4):
        monkeypatch.setattr(BrokenOnce, "left", asked)
        with contextlib.suppress(TypeError):  # at start
            settings = {"CLOSESPIDER_TIMEOUT": 0.3, "ROBOTS_TIMEOUT": 20}
            result = await crawl([site.url("/x")], settings, spider=BrokenOnce)
            assert result.stats["elapsed_time_seconds"] < 10


@pytest.mark.parametrize("asked", [4, 5])  # while the file is read, and when the page is judged
@ensureDeferred
async def test_error_of_the_property_and_a_large_file(
    site: Site, asked: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of a spider's property is the fault of the request that it is for, and none of a
    large file.
    """
    monkeypatch.setattr(BrokenOnce, "left", asked)
    site.replies["/robots.txt"] = robots("User-agent: *\n" + "Disallow: /other\n" * LARGE)
    result = await crawl([site.url("/x")], spider=BrokenOnce)
    assert BrokenOnce.left < 0, "it was not asked so often"
    assert type(result.outcomes[site.url("/x")]) in (int, TypeError)
    assert not [text for text in records(caplog) if "failed" in text or "unreachable" in text]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"USER_AGENT": "FooBot/1.0", "ROBOTSTXT_USER_AGENT": "foobot"}, None),
        ({"USER_AGENT": "Nexus/1.0", "ROBOTSTXT_USER_AGENT": "nexus"}, None),
        ({"ROBOTSTXT_USER_AGENT": "nexus"}, "set USER_AGENT to a string that contains 'nexus'"),
        (
            {"USER_AGENT": "FooBot/1.0", "ROBOTSTXT_USER_AGENT": ["BarBot"]},
            "'BarBot' is not in the User-Agent header",
        ),
        (
            {"USER_AGENT": "Foo.Bot7", "ROBOTSTXT_USER_AGENT": "Foo.Bot7"},
            "'Foo.Bot7' is not a product token, which has only A-Z",
        ),
        (
            {"USER_AGENT": "FooBot/1.0", "ROBOTSTXT_USER_AGENT": "FooBot-News, FooBot"},
            "'FooBot-News' is not in the User-Agent header",
        ),
        ({"USER_AGENT": "360Spider"}, "'360Spider' is not a product token, which has only A-Z"),
        (
            {"USER_AGENT": "Mozilla/5.0 (X11) Firefox/130.0"},
            "'Mozilla/5.0 (X11) Firefox/130.0' does not name a crawler",
        ),
        ({"USER_AGENT": None}, "'' does not name a crawler"),
        (
            {"ROBOTSTXT_USER_AGENT": "Mozilla/5.0 (X11)"},
            "'Mozilla/5.0 (X11)' does not name a crawler",
        ),
    ],
)
@ensureDeferred
async def test_one_warning_at_start(
    site: Site, settings: dict[str, Any], expected: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """2.2.1: a token that is none, is not in the header, or cannot be derived.

    Each has one warning, with what to set.
    """
    await crawl([site.url("/1"), site.url("/2")], settings)
    warnings = records(caplog)
    if expected is None:
        assert warnings == []
    else:
        assert len(warnings) == 1
        assert expected in warnings[0]
        assert "USER_AGENT to a string" in warnings[0]


class Renames:
    """A middleware that gives each request another User-Agent, as plugins that draw one at
    random do.
    """

    def process_request(self, request: Request) -> None:
        """Rename."""
        request.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64) otherbot/7.1"


def renamed(position: int) -> dict[str, Any]:
    """Settings that put it somewhere."""
    return {"DOWNLOADER_MIDDLEWARES": {**SETTINGS["DOWNLOADER_MIDDLEWARES"], Renames: position}}


@pytest.mark.parametrize("position", [400, 950])
@ensureDeferred
async def test_header_that_is_changed_later(
    site: Site, position: int, caplog: pytest.LogCaptureFixture
) -> None:
    """2.2.1: where another User-Agent is sent than pages are judged by, one warning says so, and
    what to set.
    """
    pages = [site.url("/a"), site.url("/b"), site.url("/a", "localhost")]
    await crawl(pages, {"USER_AGENT": "defaultbot/1.0", **renamed(position)})
    [warning] = records(caplog)
    assert (
        "header 'Mozilla/5.0 (X11; Linux x86_64) otherbot/7.1', but pages are judged by the rules"
        " for 'defaultbot'" in warning
    )
    assert "set ROBOTSTXT_USER_AGENT to" in warning


@pytest.mark.parametrize(
    ("position", "settings", "spider"),
    [
        (50, {}, Pages),
        (400, SETTING, Pages),
        (400, {}, Named),
        (400, {"USER_AGENT": "OtherBot/1.0"}, Pages),
    ],
    ids=["before ours", "the setting says", "the spider says", "the same token"],
)
@ensureDeferred
async def test_header_that_is_judged(
    site: Site,
    position: int,
    settings: dict[str, Any],
    spider: type[Pages],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """2.2.1: nothing is said of a header that pages are judged by, nor where the user says who
    the crawler is.
    """
    await crawl(
        [site.url("/a")],
        {"USER_AGENT": "defaultbot/1.0", **settings, **renamed(position)},
        spider=spider,
    )
    assert [text for text in records(caplog) if "was requested with" in text] == []
