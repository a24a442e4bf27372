"""The names by which requests are judged, in their order, and the warnings about them."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc.core.agents import parse_agent
from scrapy_robots_rfc.errors import AgentError, SettingError
from tests.support.crawling import Pages, crawl, lines, plugged, records
from tests.support.site import Site, robots

# A path for each name: the disallowed path shows which group applied.
NAMES = ("meta", "spider", "setting", "own", "default", "attribute", "custom")
FILE = (
    "User-agent: nexus\nDisallow: /nexus\n\n"
    + "".join(f"User-agent: {name}bot\nDisallow: /{name}\n\n" for name in NAMES)
    + "User-agent: *\nDisallow: /any\n"
)


class Named(Pages):
    """A spider with a name for robots.txt."""

    robotstxt_user_agent: Any = "spiderbot"


class Custom(Pages):
    """A spider with a setting of its own."""

    custom_settings = {"ROBOTSTXT_USER_AGENT": "custombot"}  # noqa: RUF012 - as Scrapy's users write it


async def applied(site: Site, settings: dict[str, Any] | None = None, **request: Any) -> str:
    """Return which group applied to a request."""
    spider = request.pop("spider", Pages)
    site.replies["/robots.txt"] = robots(FILE)
    paths = [*NAMES, "nexus", "any"]
    requests = [Request(site.url(f"/{path}"), **request) for path in paths]
    result = await crawl(
        requests, {"USER_AGENT": "defaultbot/1.0", **(settings or {})}, spider=spider
    )
    verdicts = result.verdicts(*requests)
    [group] = [path for path, verdict in zip(paths, verdicts, strict=True) if verdict == "rule"]
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
        ("own", {"USER_AGENT": ["ownbot/1.0"]}, {}, Pages),
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
    ],
)
@ensureDeferred
async def test_sources_of_the_name(
    site: Site,
    expected: str,
    settings: dict[str, Any],
    request_arguments: dict[str, Any],
    spider: type[Pages],
) -> None:
    """The name comes from the meta, the spider, the setting or the User-Agent header, in this
    order.
    """
    assert await applied(site, settings, spider=spider, **request_arguments) == expected


class OldStyle(Pages):
    """A spider with a `user_agent` attribute."""

    user_agent = "attributebot/1.0"


@pytest.mark.filterwarnings("ignore:.*user_agent.*")
@ensureDeferred
async def test_user_agent_of_the_spider(site: Site) -> None:
    """The spider's `user_agent` is sent as the header, so it names the crawler."""
    assert await applied(site, spider=OldStyle) == "attribute"
    assert site.asked[0].headers["User-Agent"] == "attributebot/1.0"


@pytest.mark.parametrize("value", [7, {"a": 1}, [["a"]], bytearray(b"a")])
def test_wrong_agent(value: object) -> None:
    """The error for an agent of a wrong type says what is accepted."""
    with pytest.raises(TypeError, match="a string, or a list of strings"):
        parse_agent(value)


@pytest.mark.parametrize("value", [7, {"a": 1}, ["a", 7], b"x"[0]])
@ensureDeferred
async def test_wrong_meta_fails_the_request(
    site: Site, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A meta value of a wrong type fails the request, and the error says what is accepted."""
    page = Request(site.url("/x"), meta={"robotstxt_user_agent": value})
    result = await crawl([page])
    error = result.outcomes[site.url("/x")]
    assert isinstance(error, AgentError)
    assert "a string, or a list of strings" in str(error)
    assert site.pages == []


@pytest.mark.parametrize("value", [7, ["a", None]])
@ensureDeferred
async def test_wrong_spider_attribute_stops_the_crawl(site: Site, value: Any) -> None:
    """A wrong spider attribute is an error at start."""
    with pytest.raises(SettingError, match="robotstxt_user_agent"):
        await crawl([site.url("/x")], robotstxt_user_agent=value)
    assert site.targets == []


class Broken(Pages):
    """A spider whose name for robots.txt is a property that fails after a number of calls."""

    asked = 0
    good = 0

    @property
    def robotstxt_user_agent(self) -> str:
        Broken.asked += 1
        return "spiderbot" if Broken.asked <= self.good else "a" + 5  # type: ignore[operator]


@pytest.mark.parametrize("good", [0, 1, 3, 5])
@ensureDeferred
async def test_error_of_the_spiders_own_property(
    site: Site, good: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the spider's property reaches the user as it is, and no page is fetched."""
    monkeypatch.setattr(Broken, "asked", 0)
    monkeypatch.setattr(Broken, "good", good)
    url = site.url("/x")
    try:
        result = await crawl([url], spider=Broken)
    except TypeError as error:  # at start
        found: object = error
    else:
        found = result.outcomes[url]
    if Broken.asked > good:  # otherwise it was not read so often
        assert type(found) is TypeError
        assert "can only concatenate str" in str(found)
        assert site.pages == []


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
            "'Foo.Bot7' is not a product token, which only contains A-Z",
        ),
        (
            {"USER_AGENT": "FooBot/1.0", "ROBOTSTXT_USER_AGENT": "FooBot-News, FooBot"},
            "'FooBot-News' is not in the User-Agent header",
        ),
        ({"USER_AGENT": "360Spider"}, "'360Spider' is not a product token, which"),
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
    """A name that is missing, not a token, or not in the header has one warning, with what to set
    (2.2.1).
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
    """A middleware that changes the User-Agent of each request, as plugins with random ones do."""

    def process_request(self, request: Request) -> None:
        request.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64) otherbot/7.1"


@pytest.mark.parametrize("position", [400, 950])
@ensureDeferred
async def test_header_that_is_changed_later(
    site: Site, position: int, caplog: pytest.LogCaptureFixture
) -> None:
    """If the User-Agent that is sent names another crawler, one warning says so (2.2.1)."""
    pages = [site.url("/a"), site.url("/b"), site.url("/a", "localhost")]
    await crawl(pages, plugged(Renames, position, USER_AGENT="defaultbot/1.0"))
    [warning] = records(caplog)
    assert (
        "header 'Mozilla/5.0 (X11; Linux x86_64) otherbot/7.1', but pages are checked against the"
        " rules for 'defaultbot'" in warning
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
async def test_header_that_is_not_changed_later(
    site: Site,
    position: int,
    settings: dict[str, Any],
    spider: type[Pages],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There is no warning if the name does not depend on the header, or the header is changed
    before.
    """
    settings = {"USER_AGENT": "defaultbot/1.0", **settings}
    await crawl([site.url("/a")], plugged(Renames, position, **settings), spider=spider)
    assert [text for text in records(caplog) if "was requested with" in text] == []


@pytest.mark.parametrize(
    ("settings", "spider", "shown"),
    [
        ({"USER_AGENT": "newsbot/1.0"}, Pages, "newsbot (from USER_AGENT)"),
        ({"USER_AGENT": "Mozilla/5.0 (X11)"}, Pages, "* (from USER_AGENT)"),
        (
            {"ROBOTSTXT_USER_AGENT": "  ", "USER_AGENT": "newsbot"},
            Pages,
            "newsbot (from USER_AGENT)",
        ),
        ({}, OldStyle, "attributebot (from the spider's user_agent)"),
        ({"DEFAULT_REQUEST_HEADERS": OWN}, OldStyle, "ownbot (from DEFAULT_REQUEST_HEADERS)"),
        (SETTING, OldStyle, "settingbot (from ROBOTSTXT_USER_AGENT)"),
        (
            {"ROBOTSTXT_USER_AGENT": "News Bot"},
            Pages,
            "News or Bot (from ROBOTSTXT_USER_AGENT)",
        ),
        (SETTING, Named, "spiderbot (from the spider's robotstxt_user_agent)"),
    ],
)
@ensureDeferred
async def test_the_log_names_the_crawler(
    site: Site,
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, Any],
    spider: type[Pages],
    shown: str,
) -> None:
    """At the start and in the summary, the log says as whom the crawl obeys robots.txt."""
    site.replies["/robots.txt"] = robots("")
    await crawl([site.url("/")], settings, spider=spider)
    found = lines(caplog, logging.INFO)
    assert found.count(f"Obeying robots.txt as {shown}") == 1
    assert found[-1] == f"  obeyed as: {shown}"
