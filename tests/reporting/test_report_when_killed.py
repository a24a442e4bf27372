"""Reports of killed processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from warcio.archiveiterator import ArchiveIterator

from scrapy_robots_rfc.reporting.report import FIELDS
from tests.support.crawling import crawl
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from collections.abc import Iterator

SPIDER = """
import itertools

import scrapy

class Forbidden(scrapy.Spider):
    name = "forbidden"

    async def start(self):
        yield scrapy.Request(f"{self.site}/a")

    def parse(self, response):
        for number in itertools.count(1):
            url = f"{self.site}/private/{number}/{'x' * (number * 9 % 977)}"
            yield scrapy.Request(url, errback=self.refused)

    def refused(self, failure):
        print(failure.request.url, flush=True)
"""
SETTINGS = """
BOT_NAME = "example"
SPIDER_MODULES = ["example"]
ADDONS = {"scrapy_robots_rfc.Addon": 500}
LOG_LEVEL = "INFO"
TELNETCONSOLE_ENABLED = False
"""
ROOT = Path(__file__).parents[2]


def start(project: Path, site: Site, report: dict[str, object]) -> subprocess.Popen[bytes]:
    """Run `scrapy crawl`."""
    environment = {
        key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")
    }
    outputs = [f"ROBOTS_REPORT={json.dumps(report)}", "ROBOTS_ARCHIVE=robots.warc.gz"]
    arguments = [
        *("-a", f"site={site.url('')}"),
        *(word for output in outputs for word in ("-s", output)),
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", "crawl", "forbidden", *arguments],
        cwd=project,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def killed(process: subprocess.Popen[bytes], count: int) -> None:
    """Kill a process after it has written a number of lines, one for each dropped request."""
    assert process.stdout is not None
    for _ in range(count):
        assert process.stdout.readline()
    process.kill()
    process.stdout.close()
    process.wait()


@pytest.fixture(scope="module")
def forbidding() -> Iterator[Site]:
    """A site that disallows everything that the spider requests, except its first page."""
    with Site({"/robots.txt": robots("User-agent: *\nDisallow: /private\n")}) as running:
        yield running


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, forbidding: Site) -> Path:
    """A Scrapy project whose spider requests disallowed pages endlessly."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = example.settings\n", encoding="utf-8")
    package = folder / "example"
    package.mkdir()
    for name, text in (("__init__", ""), ("settings", SETTINGS), ("spider", SPIDER)):
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


@ensureDeferred
async def test_a_killed_crawl_leaves_whole_records(project: Path, forbidding: Site) -> None:
    """A killed crawl leaves a whole record for each dropped request, and the next one appends.

    Its archive is whole, too.
    """
    path = project / "r.jsonl"
    killed(start(project, forbidding, {path.name: {}}), 101)
    with (project / "robots.warc.gz").open("rb") as archive:
        kinds = [record.rec_type for record in ArchiveIterator(archive, check_digests="raise")]
    assert kinds == ["warcinfo", "response", "request", "metadata"]
    before = path.read_bytes()
    urls = [record["url"] for record in records(path)]
    assert before.endswith(b"\n")
    assert len(set(urls)) == len(urls) >= 101
    assert all(
        re.fullmatch(re.escape(forbidding.url("/private/")) + r"\d+/x*", url) for url in urls
    )
    more = {forbidding.url(f"/private/{number}") for number in (1, 2, 3)}
    await crawl(more, {"ROBOTS_REPORT": {str(path): {}}})
    assert path.read_bytes().startswith(before)
    again = {record["url"] for record in records(path)[len(urls) : -2]}
    assert again == more


def records(path: Path) -> list[dict[str, str]]:
    """The records of a report, each of which must be whole."""
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert all(list(record) == list(FIELDS) for record in found)
    return found
