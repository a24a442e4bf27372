"""`scrapy robots report` on what real crawls wrote by ROBOTS_REPORT."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

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
    """A second crawl is another run in the same report, which can be summed up separately."""
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
            "ROBOTS_REPORT": "r.jsonl",
            "RETRY_ENABLED": "False",
        }
        sites = {"site": site.url(""), "exempt": exempt.url("/"), "failing": failing.url("/")}
        arguments = [
            *(word for key, value in settings.items() for word in ("-s", f"{key}={value}")),
            *(word for key, url in sites.items() for word in ("-a", f"{key}={url}")),
        ]
        for _ in range(2):
            assert scrapy("runspider", "shop.py", *arguments, folder=tmp_path).code == 0
    for options, runs in ((), 2), (("--run", "2"), 1):
        done = run("report", "r.jsonl", "--json", *options, folder=tmp_path)
        assert (done.code, done.err) == (0, "")
        sums = json.loads(done.out)
        assert [(row["spider"], row["requests"]) for row in sums["runs"]] == [("shop", 4)] * 2
        assert [(row["agent"], row["requests"]) for row in sums["by_agent"]] == [
            ("Scrapy", 4 * runs)
        ]
        assert sorted(
            (group["why"], group["requests"], [row["url"] for row in group["urls"]])
            for group in sums["dropped"]
        ) == [
            (
                "robots.txt line 2: Disallow: /private/",
                2 * runs,
                [site.url("/private/1"), site.url("/private/2")],
            ),
            ("robots.txt line 3: Disallow: /cart", runs, [site.url("/cart")]),
            ("robots.txt unreachable: 503", runs, [failing.url("/")]),
        ]
        assert sums["exempt"] == [{"entry": exempt.netloc, "requests": runs}]
