"""`scrapy crawl demo` prints what the log says, docs/demo.md shows parts of it, and the report
contains what it dropped.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from pytest_twisted import ensureDeferred

from demo.spiders.demo import DemoSpider
from tests.support.command_line import run
from tests.support.documents import block, read
from tests.support.example_project import PROJECT, Here, Output, start, wait

PAGE = read("docs/demo.md")
#: Two commands of that page: the first writes a report, the second summarizes it as text and HTML.
CRAWL, REPORT = map(
    shlex.split, re.findall(r"^    \.\./\.venv/bin/scrapy (.*robots\.jsonl.*)$", PAGE, re.MULTILINE)
)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project, because the commands write files into its folder."""
    return Path(shutil.copytree(PROJECT, tmp_path_factory.mktemp("demo") / "project"))


@pytest.fixture(scope="session")
def output(project: Path) -> Output:
    """Run the demo with a report, and return what it prints."""
    return wait(start("-m", "scrapy", *CRAWL, folder=project))


def test_the_demo_fits_on_a_screen(output: Output) -> None:
    """The demo lists its sites, then prints each dropped page with its reason, and the summary."""
    introduction, log = output.stdout.split("\nFor each page that it drops")
    sites = re.findall(r"^  (http://127\.0\.0\.1:\d+)  \w", introduction, re.MULTILINE)
    assert len(sites) == 9
    dropped = re.findall(r"^Forbidden by robots\.txt: <GET (\S+)/\S*> \(.+\)$", log, re.MULTILINE)
    assert len(dropped) == 12
    assert {re.sub(r"(:\d+)/.*", r"\1", url) for url in dropped} < set(sites)
    assert "\nrobots.txt summary (spider demo):\n  sites: 7 successful; " in log
    assert "robotstxt/" not in output.stdout
    assert len(output.stdout.splitlines()) <= 55


def test_warnings_are_announced(output: Output) -> None:
    """The demo says that one site fails, and the log warns about exactly this one."""
    [failing] = re.findall(r"  (\S+)  robots\.txt answers 503, so", output.stdout)
    assert f"{failing}/robots.txt is unreachable (503)" in output.stderr
    assert output.stderr.count("WARNING: ") == 1


def test_the_sites_received_no_disallowed_request(output: Output) -> None:
    """The last line says how many requests the sites received, none for a disallowed page."""
    assert output.last_line == (
        "The sites' own logs: 12 requests for robots.txt, 14 for pages, "
        "0 of them for disallowed pages"
    )


@pytest.mark.once
def test_documented_commands(output: Output, project: Path) -> None:
    """The demo prints the lines that docs/demo.md shows, and the report counts what it dropped."""
    excerpt = block("docs/demo.md", "text", "Forbidden by robots.txt")
    assert set(without_ports(excerpt)) <= set(without_ports(output.stdout))
    command, *arguments = REPORT
    assert command == "robots"
    summary = run(*arguments, folder=project)
    assert (summary.code, summary.err) == (0, "")
    assert summary.out.startswith("12 of 26 requests dropped (46.2%)\n")
    assert '"requests": 12,' in (project / "report.html").read_text(encoding="utf-8")


def without_ports(text: str) -> list[str]:
    """Return the lines of a text without ports and repeated spaces."""
    return [re.sub(r"127\.0\.0\.1:\d+", "", " ".join(line.split())) for line in text.splitlines()]


@ensureDeferred
async def test_check_detects_violations(here: Here) -> None:
    """Without ROBOTSTXT_OBEY, the last line counts the 12 disallowed pages that were fetched."""
    output = await here.crawl(DemoSpider, {"ROBOTSTXT_OBEY": False})
    assert output.last_line.endswith("26 for pages, 12 of them for disallowed pages")
    assert "Forbidden" not in output.stdout
