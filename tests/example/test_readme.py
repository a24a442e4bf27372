"""What README.md shows and claims is what happens."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from ast import literal_eval
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from tests.example.running import PROJECT, ROOT, Output, start, wait
from tests.support.documents import block
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.once

README = (ROOT / "README.md").read_text(encoding="utf-8")
#: The three ways to switch it on.
ADDON = block("README.md", "python", "ADDONS = ")
BY_HAND = block("README.md", "python", "DOWNLOADER_MIDDLEWARES = ")
PARSER_ALONE = block("README.md", "python", "ROBOTSTXT_PARSER = ", without="DOWNLOADER_MIDDLEWARES")

RULES = "User-agent: *\nDisallow: /private/\nSitemap: https://example.com/map.xml\nCrawl-delay: 0.3\n"


def run(code: str, settings: str, folder: Path, *arguments: str) -> Output:
    """Make a project of these settings, and run a spider in it."""
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = plan_settings\n", encoding="utf-8")
    (folder / "plan_settings.py").write_text(settings, encoding="utf-8")
    (folder / "plan.py").write_text(code, encoding="utf-8")
    return wait(start("-m", "scrapy", "runspider", "plan.py", *arguments, folder=folder))


def table(first: str) -> dict[str, tuple[str, ...]]:
    """A table of the README by the heading of its first column, its rows by their first cell."""
    lines = README[README.index(f"| {first} |") :].split("\n\n")[0].splitlines()[2:]
    rows = [tuple(cell.strip().replace("`", "") for cell in line.strip("|").split(" | ")) for line in lines]
    return {row[0]: row[1:] for row in rows}


def test_what_scrapy_alone_gets_wrong() -> None:
    """`stock.py` prints the rows of the README's table; none of the pages is fetched with this package."""
    output = wait(start("stock.py"))
    lines = [re.split(r" {2,}", line.strip().replace("`", "")) for line in output.stdout.splitlines()[3:]]
    printed, written = {line[0]: line[1:] for line in lines}, table("row")
    assert {name: (row[0], row[2]) for name, row in printed.items()} == {
        name: (row[0], row[2]) for name, row in written.items()
    }
    assert all(row[2].startswith("0 of ") for row in printed.values())
    if (version("Scrapy"), version("Protego")) == ("2.19.0", "0.7.0"):  # what the README names
        leaked = int(printed.pop("waiting")[1].split()[0])
        assert leaked > 0  # how many depends on timing
        assert {name: row[1] for name, row in printed.items()} == {name: written[name][1] for name in printed}


def test_excerpt_of_the_demo() -> None:
    """Each line of the table that the README shows is one that the demo prints."""
    output = wait(start("-m", "scrapy", "crawl", "demo"))
    excerpt = block("README.md", "text", "Rules: ")

    def plain(text: str) -> list[str]:
        return [re.sub(r"127\.0\.0\.1:\d+", "", " ".join(line.split())) for line in text.splitlines()]

    assert set(plain(excerpt)) <= set(plain(output.stdout))


def test_report_of_the_demo(tmp_path: Path) -> None:
    """The commands that the README names report what the demo did, and write the page."""
    [crawl, report] = re.findall(r"^    \.\./\.venv/bin/scrapy (.*robots\.jsonl.*)$", README, re.MULTILINE)
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project)  # what they leave behind is nothing for the folder of the project
    demo = wait(start("-m", "scrapy", *shlex.split(crawl), folder=project))
    told = wait(start("-m", "scrapy", *shlex.split(report), folder=project))
    [dropped] = re.findall(r"robotstxt/forbidden +(\d+)", demo.stdout)
    assert told.stdout.startswith(f"{dropped} requests disallowed, from ")
    assert f'"requests": {dropped},' in (project / "report.html").read_text(encoding="utf-8")  # drawn by a script


REASON = " (robots.txt line 2: Disallow: /private/)"

SPIDER = """
import scrapy

class Plan(scrapy.Spider):
    name = "plan"
    start_urls = ["{url}", "{url}private/plan.html"]

    def parse(self, response):
        pass
"""


@pytest.mark.parametrize(
    ("settings", "reason", "error"),
    [
        (ADDON, REASON, "scrapy_robots_rfc.errors.RobotsDisallowed"),
        (BY_HAND, REASON, "scrapy_robots_rfc.errors.RobotsDisallowed"),
        (PARSER_ALONE, "", "scrapy.exceptions.IgnoreRequest"),
    ],
    ids=["add-on", "by hand", "parser alone"],
)
def test_enabling(settings: str, reason: str, error: str, tmp_path: Path) -> None:
    """Each of the three ways to switch it on makes a crawl obey; the first two say why in the log."""
    with Site({"/robots.txt": robots(RULES)}) as site:
        output = run(SPIDER.format(url=site.url("/")), settings, tmp_path)
        assert site.pages == ["/"]
        forbidden = site.url("/private/plan.html")
    assert f"Forbidden by robots.txt: <GET {forbidden}>{reason}\n" in output.stderr
    assert f"'downloader/exception_type_count/{error}': 1" in output.stderr


def test_what_was_before(tmp_path: Path) -> None:
    """Scrapy's own middleware keeps the cookies of robots.txt, and takes the file from the HTTP cache."""
    settings = "ROBOTSTXT_OBEY = True\nHTTPCACHE_ENABLED = True\nHTTPCACHE_DIR = 'cache'\n"
    file = Reply(body=b"", headers=(("Set-Cookie", "a=b"),))
    with Site({"/robots.txt": file}) as site:
        run(SPIDER.format(url=site.url("/")), settings, tmp_path)
        assert [asked.headers.get("Cookie") for asked in site.asked if asked.target == "/"] == ["a=b"]
        run(SPIDER.format(url=site.url("/")), settings, tmp_path)
        assert site.fetches == 1
        run(SPIDER.format(url=site.url("/")), settings + ADDON, tmp_path)
        assert site.fetches == 2


def test_warning_about_tokens(tmp_path: Path) -> None:
    """The README's list of names gives one warning, about the one that is not in the header."""
    with Site() as site:
        settings = block("README.md", "python", "ROBOTSTXT_USER_AGENT = ") + ADDON
        output = run(SPIDER.format(url=site.url("/")), settings, tmp_path, "-L", "WARNING")
    [warning] = [line for line in output.stderr.splitlines() if "WARNING" in line]
    assert "'foobot-news' is not in the User-Agent header" in warning
    assert "set ROBOTSTXT_USER_AGENT" in warning


def test_spider(tmp_path: Path) -> None:
    """The README's spider sees sitemaps, delay and reason of a page, and why another was dropped."""
    with Site({"/robots.txt": robots(RULES), "/": Reply(body=b"page")}) as site:
        code = block("README.md", "python", "class PlanSpider").replace("https://example.com", site.url(""))
        run(code, ADDON, tmp_path, "-O", "items.json")
        assert site.fetches == 1
    items = json.loads((tmp_path / "items.json").read_text())
    assert sorted(items, key=lambda item: "url" in item) == [
        {
            "sitemaps": ["https://example.com/map.xml"],
            "delay": 0.3,
            "why": "robots.txt: no rule of the group `*` matches",
        },
        {"url": site.url("/private/plan.html"), "reason": "rule", "rule": "Disallow: /private/"},
    ]


def test_settings_and_defaults() -> None:
    """The defaults that the README names are the defaults."""
    from scrapy_robots_rfc.settings import TABLE  # noqa: PLC0415 - only this test looks inside

    defaults = {row.key: row.default for row in TABLE}
    for key, (default, _) in table("setting").items():
        assert literal_eval(default) == defaults[key], key
