"""`scrapy robots report` on what real crawls wrote by ROBOTS_REPORT."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.command_line import run, scrapy
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from pathlib import Path

SPIDER = """
import scrapy

class Shop(scrapy.Spider):
    name = "shop"

    async def start(self):
        for path in ("/private/1", "/private/2", "/cart", "/"):
            yield scrapy.Request(self.site + path)
        yield scrapy.Request(self.exempt)
        yield scrapy.Request(self.failing)

    def parse(self, response):
        pass
"""


def test_sums_of_what_two_crawls_wrote(tmp_path: Path) -> None:
    """Of a file that a crawl writes, and another one goes on with, the sums are those of what
    was disallowed.
    """
    (tmp_path / "shop.py").write_text(SPIDER, encoding="utf-8")
    rules = robots("User-agent: *\nDisallow: /private/\nDisallow: /cart\n")
    with (
        Site({"/robots.txt": rules}) as site,
        Site() as exempt,
        Site({"/robots.txt": Reply(503)}) as failing,
    ):
        settings = {
            "ADDONS": json.dumps({"scrapy_robots_rfc.Addon": 500}),
            "ROBOTS_EXEMPT": exempt.netloc,
            "ROBOTS_UNREACHABLE_BACKOFF": "",
            "RETRY_ENABLED": "False",
        }
        options = [word for key, value in settings.items() for word in ("-s", f"{key}={value}")]
        sites = {"site": site.url(""), "exempt": exempt.url("/"), "failing": failing.url("/")}
        arguments = (
            *(word for key, url in sites.items() for word in ("-a", f"{key}={url}")),
            *options,
        )
        report = ("-s", 'ROBOTS_REPORT={"r.jsonl": {}}')
        for _ in range(2):
            assert scrapy("runspider", "shop.py", *arguments, *report, folder=tmp_path).code == 0
        done = run("report", "r.jsonl", "--json", folder=tmp_path)
        assert (done.code, done.err) == (0, "")
        _look_at(json.loads(done.out), site.url(""), failing.url(""), exempt.netloc)


def _look_at(sums: dict[str, Any], origin: str, failing: str, exempt: str) -> None:
    assert [(entry["reason"], entry["requests"]) for entry in sums["by_reason"]] == [
        ("rule", 6),
        ("unreachable", 2),
    ]
    assert [(entry["origin"], entry["requests"]) for entry in sums["by_origin"]] == [
        (origin, 6),
        (failing, 2),
    ]
    assert sums["unreachable"] == [{"why": "503", "requests": 2}]
    assert [
        (entry["line"], entry["rule"], entry["token"], entry["requests"])
        for entry in sums["by_rule"]
    ] == [
        (2, "Disallow: /private/", "*", 4),
        (3, "Disallow: /cart", "*", 2),
    ]
    assert sums["exempt"] == [{"entry": exempt, "requests": 2}]


def test_commands_write_no_report(tmp_path: Path, site: Site) -> None:
    """A question on the command line is no crawl.

    It leaves nothing in the report of the project.
    """
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = reported\n", encoding="utf-8")
    (tmp_path / "reported.py").write_text(
        'ADDONS = {"scrapy_robots_rfc.Addon": 500}\nROBOTS_REPORT = {"r.jsonl": {}}\n',
        encoding="utf-8",
    )
    done = run("check", site.url("/private/1"), folder=tmp_path)
    assert (done.code, site.fetches) == (1, 1)
    assert not (tmp_path / "r.jsonl").exists()
