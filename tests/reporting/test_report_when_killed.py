"""Reports of processes that are killed: what is in the file is whole, and a crawl that is resumed goes on behind it."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scrapy.extensions.feedexport import FeedExporter

if TYPE_CHECKING:
    from tests.support.site import Site

from scrapy_robots_rfc.reporting.export import FIELDS
from tests.support.site import robots

SPIDER = """
import scrapy

class Forbidden(scrapy.Spider):
    name = "forbidden"

    async def start(self):
        yield scrapy.Request(f"{self.site}/a")

    def parse(self, response):
        number = 0
        while not int(self.most) or number < int(self.most):
            number += 1
            yield scrapy.Request(f"{self.site}/private/{number}/{'x' * (number % 977)}")
"""
SETTINGS = """
BOT_NAME = "example"
SPIDER_MODULES = ["example"]
ADDONS = {"scrapy_robots_rfc.Addon": 500}
LOG_LEVEL = "INFO"
TELNETCONSOLE_ENABLED = False
"""
#: A second feed, after the one that is looked at, by which a test knows how far the process is.
ALSO = {"stdout:": {"format": "jsonlines"}}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A Scrapy project whose spider asks for forbidden pages, for ever or for so many."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = example.settings\n", encoding="utf-8")
    package = tmp_path / "example"
    package.mkdir()
    for name, text in (("__init__", ""), ("settings", SETTINGS), ("spider", SPIDER)):
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def start(project: Path, site: Site, most: int, report: dict[str, object]) -> subprocess.Popen[bytes]:
    """Run `scrapy crawl`."""
    environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    arguments = ["-a", f"site={site.url('')}", "-a", f"most={most}", "-s", f"ROBOTSTXT_REPORT={json.dumps(report)}"]
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", "crawl", "forbidden", *arguments],
        cwd=project,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE if "stdout:" in report else None,
        stderr=subprocess.DEVNULL,
    )


def killed(process: subprocess.Popen[bytes], count: int) -> None:
    """Kill a process that also writes its records to standard output, when it has written so many."""
    assert process.stdout is not None
    for _ in range(count):
        assert process.stdout.readline()
    process.kill()
    process.stdout.close()
    process.wait()


def test_a_killed_crawl_leaves_whole_records(project: Path, site: Site) -> None:
    """A crawl that is killed while it writes leaves whole records, one each that it refused; the next one adds its."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    paths = [project / "r.jsonl", project / "r.csv"]
    report: dict[str, object] = {path.name: {} for path in paths}
    killed(start(project, site, 0, {**report, **ALSO}), 200)
    before = {path: path.read_bytes() for path in paths}
    urls = {path: [record["url"] for record in records(path)] for path in paths}
    for path in paths:
        assert before[path].endswith(b"\n")
        assert len(set(urls[path])) == len(urls[path]) >= 200
        assert all(re.fullmatch(re.escape(site.url("/private/")) + r"\d+/x*", url) for url in urls[path])
    assert start(project, site, 3, report).wait() == 0
    for path in paths:
        assert path.read_bytes().startswith(before[path])
        again = [record["url"] for record in records(path)[len(urls[path]) :]]
        # Scrapy writes the names of CSV's fields once more.
        assert {url for url in again if url != "url"} == {site.url(f"/private/{n}/{'x' * n}") for n in (1, 2, 3)}


def records(path: Path) -> list[dict[str, str]]:
    """The records of a report; one that is not whole is an error."""
    with path.open(encoding="utf-8", newline="") as file:
        found = (
            list(csv.DictReader(file, strict=True)) if path.suffix == ".csv" else [json.loads(line) for line in file]
        )
    assert all(
        list(record) == list(FIELDS) and (path.suffix == ".jsonl" or None not in record.values()) for record in found
    )
    return found


def test_commands_write_no_report(project: Path, site: Site) -> None:
    """A question on the command line is no crawl: it leaves nothing in the report of the project."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    with (project / "example" / "settings.py").open("a", encoding="utf-8") as file:
        file.write('ROBOTSTXT_REPORT = {"r.jsonl": {}}\n')
    command = [sys.executable, "-m", "scrapy", "robots", "check", site.url("/private/1")]
    done = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "*"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, site.fetches) == (1, 1)
    assert not (project / "r.jsonl").exists()


@pytest.mark.skipif(
    not hasattr(FeedExporter, "_schedule_slot_close"), reason="this version of Scrapy stores all batches at the end"
)
def test_a_killed_crawl_has_stored_full_batches(project: Path, site: Site) -> None:
    """Every batch but the last is complete and closed: a compressed one can be read to its end."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    options = {
        "format": "jsonlines",
        "batch_item_count": 50,
        "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"],
    }
    killed(
        start(project, site, 0, {"%(batch_id)d.gz": options, **ALSO}), 301
    )  # a batch is closed a moment after it is full
    urls = set()
    for number in range(1, 5):
        with gzip.open(project / f"{number}.gz", "rt", encoding="utf-8") as file:
            urls |= {json.loads(line)["url"] for line in file}
    assert len(urls) == 200
