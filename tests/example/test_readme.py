"""What README.md shows and claims is what happens, and what the pages of docs/ do that new users
read first.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from scrapy_robots_rfc.settings import read_settings
from tests.support.crawling import ASYNCIO_REACTOR
from tests.support.documents import block, executed, imported
from tests.support.example_project import ROOT, start, wait
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scrapy.http import Response

pytestmark = pytest.mark.once

#: The three ways to switch it on.
ADDON = block("docs/switching_on.md", "python", "ADDONS = ")
BY_HAND = block("docs/switching_on.md", "python", "DOWNLOADER_MIDDLEWARES = ")
PARSER_ALONE = block(
    "docs/switching_on.md", "python", "ROBOTSTXT_PARSER = ", without="DOWNLOADER_MIDDLEWARES"
)

RULES = (
    "User-agent: *\nDisallow: /private/\nSitemap: https://example.com/map.xml\nCrawl-delay: 0.3\n"
)


def table(page: str, first: str) -> dict[str, tuple[str, ...]]:
    """A table of a page by the heading of its first column, its rows by their first cell."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()[2:]
    rows = [
        tuple(cell.strip().replace("`", "") for cell in line.strip("|").split(" | "))
        for line in lines
    ]
    return {row[0]: row[1:] for row in rows}


def test_what_scrapy_alone_gets_wrong() -> None:
    """`stock.py` prints the rows of the table in docs/demo.md, and the README has five of them.

    None of the pages is fetched with this package.
    """
    output = wait(start("stock.py"))
    lines = [
        re.split(r" {2,}", line.strip().replace("`", "")) for line in output.stdout.splitlines()[3:]
    ]
    printed, written = {line[0]: line[1:] for line in lines}, table("docs/demo.md", "row")
    chosen = {
        re.findall(r"\((.*)\)$", site)[0]: numbers
        for site, numbers in table("README.md", "the site").items()
    }
    assert len(chosen) == 5
    assert chosen == {name: written[name][1:] for name in chosen}
    assert {name: (row[0], row[2]) for name, row in printed.items()} == {
        name: (row[0], row[2]) for name, row in written.items()
    }
    assert all(row[2].startswith("0 of ") for row in printed.values())
    if (version("Scrapy"), version("Protego")) == ("2.19.0", "0.7.0"):  # what the page names
        leaked = int(printed.pop("waiting")[1].split()[0])
        assert leaked > 0  # how many depends on timing
        assert {name: row[1] for name, row in printed.items()} == {
            name: written[name][1] for name in printed
        }


REASON = " (robots.txt line 2: Disallow: /private/)"


class Plan(Spider):
    """Asks for two pages, one of them private."""

    name = "plan"

    async def start(self) -> AsyncIterator[Any]:
        """Ask for them."""
        for target in ("", "private/plan.html"):
            yield Request(self.site + target)  # type: ignore[attr-defined]  # an argument

    def parse(self, response: Response, **_: Any) -> None:
        """Do nothing."""


async def crawl(site: Site, settings: str, spider: type[Spider] = Plan) -> dict[str, Any]:
    """Crawl with these settings, as a block of a page gives them; return the stats."""
    written = {key: value for key, value in executed(settings).items() if key.isupper()}
    runtime = {
        "TWISTED_REACTOR": ASYNCIO_REACTOR,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
    }
    crawler = Crawler(spider, {**runtime, **written})
    await crawler.crawl(site=site.url("/"))
    assert crawler.stats is not None
    return dict(crawler.stats.get_stats())


@pytest.mark.parametrize(
    ("settings", "reason", "error"),
    [
        (ADDON, REASON, "scrapy_robots_rfc.errors.RobotsDisallowed"),
        (BY_HAND, REASON, "scrapy_robots_rfc.errors.RobotsDisallowed"),
        (PARSER_ALONE, "", "scrapy.exceptions.IgnoreRequest"),
    ],
    ids=["add-on", "by hand", "parser alone"],
)
@ensureDeferred
async def test_each_way_to_enable_it_obeys(
    settings: str, reason: str, error: str, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of the three ways to switch it on makes a crawl obey; the first two say why in the log.

    The README has the first.
    """
    assert block("README.md", "python", "ADDONS = ") == ADDON
    caplog.set_level("DEBUG")
    site.replies["/robots.txt"] = robots(RULES)
    stats = await crawl(site, settings)
    assert site.pages == ["/"]
    assert (
        f"Forbidden by robots.txt: <GET {site.url('/private/plan.html')}>{reason}"
        in caplog.messages
    )
    assert stats[f"downloader/exception_type_count/{error}"] == 1


@ensureDeferred
async def test_stock_middleware_keeps_cookies_and_uses_the_http_cache(
    site: Site, tmp_path: Path
) -> None:
    """Scrapy's own middleware stores the cookies of robots.txt, and takes the file from the HTTP
    cache.
    """
    settings = (
        "ROBOTSTXT_OBEY = True\nHTTPCACHE_ENABLED = True\nHTTPCACHE_DIR ="
        f" {str(tmp_path / 'cache')!r}\n"
    )
    site.replies["/robots.txt"] = Reply(body=b"", headers=(("Set-Cookie", "a=b"),))
    await crawl(site, settings)
    assert [asked.headers.get("Cookie") for asked in site.asked if asked.target == "/"] == ["a=b"]
    await crawl(site, settings)
    assert site.fetches == 1
    await crawl(site, settings + ADDON)
    assert site.fetches == 2


@ensureDeferred
async def test_warning_about_a_token_that_is_not_in_the_header(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The list of names in docs/settings.md gives one warning, about the one that is not in the
    header.
    """
    await crawl(site, block("docs/settings.md", "python", 'USER_AGENT = "FooBot') + ADDON)
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "'foobot-news' is not in the User-Agent header" in warning
    assert "Set ROBOTSTXT_USER_AGENT" in warning


@ensureDeferred
async def test_spider_of_the_page(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The spider in docs/spiders.md sees sitemaps, delay and reason of a page, and why another
    was dropped.
    """
    site.replies = {"/robots.txt": robots(RULES), "/": Reply(body=b"page")}
    code = block("docs/spiders.md", "python", "class PlanSpider").replace(
        "https://example.com", site.url("")
    )
    items = tmp_path / "items.json"
    await crawl(
        site,
        f"{ADDON}\nFEEDS = {{{str(items)!r}: {{'format': 'json'}}}}",
        imported(code, tmp_path).PlanSpider,
    )
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


def test_settings_that_soften() -> None:
    """The settings that the README names for its three changes are accepted."""
    changes = table("README.md", "change")
    assert len(changes) == 3
    for softened in changes.values():
        named = re.findall(r"(ROBOTS_\w+) = ([\w.\[\]]+)", softened[0])
        assert named
        read_settings(Settings({key: literal_eval(value) for key, value in named}))
