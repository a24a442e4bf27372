"""Reports of killed processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from pytest_twisted import ensureDeferred
from warcio.archiveiterator import ArchiveIterator

from scrapy_robots_rfc.reporting.report import FIELDS
from tests.support.crawling import crawl
from tests.support.processes import environment
from tests.support.reports import RULES
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from pathlib import Path

#: Requests disallowed pages endlessly, and prints the URL of each.
SPIDER = """
import itertools

import scrapy

class Forbidden(scrapy.Spider):
    name = "forbidden"
    custom_settings = {
        "ADDONS": {"scrapy_robots_rfc.Addon": 500},
        "ROBOTS_ARCHIVE": "robots.warc.gz",
        "ROBOTS_REPORT": "r.jsonl",
    }

    async def start(self):
        yield scrapy.Request(f"{self.site}/a")

    def parse(self, response):
        for number in itertools.count(1):
            url = f"{self.site}/private/{number}/{'x' * (number * 9 % 977)}"
            yield scrapy.Request(url, errback=self.refused)

    def refused(self, failure):
        print(failure.request.url, flush=True)
"""


def crawl_and_kill(folder: Path, site: Site, count: int) -> None:
    """Run the spider, and kill it after a number of dropped requests."""
    (folder / "spider.py").write_text(SPIDER, encoding="utf-8")
    command = [sys.executable, "-m", "scrapy", "runspider", "spider.py"]
    with subprocess.Popen(
        [*command, "-a", f"site={site.url('')}"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        for _ in range(count):
            assert process.stdout.readline()
        process.kill()


@ensureDeferred
async def test_a_killed_crawl_leaves_whole_records(site: Site, tmp_path: Path) -> None:
    """A killed crawl leaves a whole record for each dropped request, and the next one appends.

    Its archive is whole, too.
    """
    site.replies["/robots.txt"] = robots(RULES)
    path = tmp_path / "r.jsonl"
    crawl_and_kill(tmp_path, site, 101)
    with (tmp_path / "robots.warc.gz").open("rb") as archive:
        kinds = [record.rec_type for record in ArchiveIterator(archive, check_digests="raise")]
    assert kinds == ["warcinfo", "response", "request", "metadata"]
    before = path.read_bytes()
    urls = [record["url"] for record in records(path)]
    assert before.endswith(b"\n")
    assert len(set(urls)) == len(urls) >= 101
    page = re.escape(site.url("/private/")) + r"\d+/x*"
    assert all(re.fullmatch(page, url) for url in urls)
    more = {site.url(f"/private/{number}") for number in (1, 2, 3)}
    await crawl(more, {"ROBOTS_REPORT": path})
    assert path.read_bytes().startswith(before)
    again = {record["url"] for record in records(path)[len(urls) : -2]}
    assert again == more


def records(path: Path) -> list[dict[str, str]]:
    """The records of a report, each of which must be whole."""
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert all(list(record) == list(FIELDS) for record in found)
    return found
