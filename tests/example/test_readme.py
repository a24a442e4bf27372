"""The README, and the pages of docs/ that new users read first, show what happens."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from scrapy.exceptions import IgnoreRequest
from scrapy.settings import Settings

from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc.settings import read_settings
from tests.support.crawling import make_crawler
from tests.support.documents import block, executed, imported, read, rows, settings
from tests.support.example_project import start, wait
from tests.support.recipes import crawl_by
from tests.support.site import Reply, Site, robots
from tools.pictures import outdated

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.once

#: Three ways to switch the plugin on.
ADDON = block("docs/switching_on.md", "python", "ADDONS = ")
BY_HAND = block("docs/switching_on.md", "python", "DOWNLOADER_MIDDLEWARES = ")
PARSER_ALONE = block(
    "docs/switching_on.md", "python", "ROBOTSTXT_PARSER = ", without="DOWNLOADER_MIDDLEWARES"
)

RULES = (
    "User-agent: *\nDisallow: /private/\nSitemap: https://example.com/map.xml\nCrawl-delay: 0.3\n"
)


def documented() -> dict[str, list[str]]:
    """Return the rows of the table of docs/demo.md by their first cell."""
    table = [[cell.replace("`", "") for cell in row] for row in rows("docs/demo.md", "row |")]
    return {row[0]: row[1:] for row in table}


def test_stock_prints_the_documented_rows() -> None:
    """`stock.py` prints the rows that docs/demo.md shows, and the plugin fetches no page."""
    output = wait(start("stock.py"))
    lines = [
        re.split(r" {2,}", line.strip().replace("`", "")) for line in output.stdout.splitlines()[3:]
    ]
    printed = {line[0]: line[1:] for line in lines}
    shown = documented()
    assert {name: row[::2] for name, row in printed.items()} == {
        name: row[::2] for name, row in shown.items()
    }
    assert all(row[2].startswith("0 of ") for row in printed.values())
    if (version("Scrapy"), version("Protego")) == ("2.19.0", "0.7.0"):  # as in docs/demo.md
        assert re.fullmatch(r"\d+ to \d+ of 20", shown.pop("waiting")[1])
        assert int(printed.pop("waiting")[1].split()[0]) > 0  # how many depends on timing
        assert printed == shown


def test_script_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    """The script of the README parses a file without a crawl, and prints what the README shows."""
    script = block("README.md", "python", "RobotsTxt.parse")
    executed(script)
    assert capsys.readouterr().out == f"{script.rstrip().rpartition('  # ')[2]}\n"


REASON = " (robots.txt line 2: Disallow: /private/)"


@pytest.mark.parametrize(
    ("way", "reason", "error"),
    [
        (ADDON, REASON, RobotsDisallowed),
        (BY_HAND, REASON, RobotsDisallowed),
        (PARSER_ALONE, "", IgnoreRequest),
    ],
    ids=["add-on", "by hand", "parser alone"],
)
@ensureDeferred
async def test_each_way_to_switch_it_on(
    way: str, reason: str, error: type, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Each way to switch the plugin on makes a crawl obey robots.txt.

    The add-on, which the README shows, and the settings by hand also log the rule.
    """
    assert block("README.md", "python", "ADDONS = ") == ADDON
    caplog.set_level("DEBUG")
    site.replies["/robots.txt"] = robots(RULES)
    private = site.url("/private/plan.html")
    result = await crawl_by(settings(way), [site.url("/"), private])
    assert site.pages == ["/"]
    assert f"Forbidden by robots.txt: <GET {private}>{reason}" in caplog.messages
    assert type(result.outcomes[private]) is error


@ensureDeferred
async def test_name_missing_from_the_header(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The names in docs/settings.md cause one warning, about the name that the header lacks."""
    names = block("docs/settings.md", "python", 'USER_AGENT = "FooBot')
    await crawl_by(settings(names + ADDON), [site.url("/")])
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "'foobot-news' is not in the User-Agent header" in warning
    assert "set USER_AGENT" in warning


@ensureDeferred
async def test_spider_of_the_documentation(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The spider in docs/spiders.md learns the sitemaps, the delay, and why a page was allowed or
    dropped.
    """
    site.replies = {"/robots.txt": robots(RULES), "/": Reply(body=b"page")}
    code = block("docs/spiders.md", "python", "class PlanSpider")
    code = code.replace("https://example.com", site.url(""))
    items = tmp_path / "items.json"
    feeds = {"DOWNLOADER_MIDDLEWARES": {}, "FEEDS": {items: {"format": "json"}}}
    crawler = make_crawler(imported(code, tmp_path).PlanSpider, {**settings(ADDON), **feeds})
    await crawler.crawl()
    assert site.fetches == 1
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []
    assert sorted(json.loads(items.read_text()), key=lambda item: "url" in item) == [
        {
            "sitemaps": ["https://example.com/map.xml"],
            "delay": 0.3,
            "why": "robots.txt: no rule of the group `*` matches",
        },
        {"url": site.url("/private/plan.html"), "reason": "rule", "rule": "Disallow: /private/"},
    ]


def test_pictures_are_newer_than_what_they_show() -> None:
    """Each picture was drawn after the last change of what it shows: `make pictures`."""
    assert outdated() == []


def test_settings_that_reduce_the_changes() -> None:
    """The settings that the README suggests for its three changes are accepted."""
    text = read("README.md").split("## What changes\n")[1]
    changes = re.findall(r"^- .*(?:\n  .*)*", text.split("\n## ")[0], re.MULTILINE)
    assert len(changes) == 3
    for change in changes:
        suggested = re.findall(r"(ROBOTS_\w+) = ([\w.\[\]]+)", change)
        assert suggested
        read_settings(Settings({key: literal_eval(value) for key, value in suggested}))
