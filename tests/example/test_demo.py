"""`scrapy crawl demo`: the same table under every runtime, which docs/demo.md shows.

What it dropped is reported.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred

from demo.spiders.demo import DemoSpider
from tests.support.command_line import run
from tests.support.documents import block
from tests.support.example_project import PROJECT, ROOT, Here, Output, start, wait

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNTIMES = {
    "asyncio": "TWISTED_REACTOR=twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "select": "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor",
    "none": "TWISTED_REACTOR_ENABLED=False",
}

NO_RULE = ("allowed", "robots.txt: no rule of the group `*` matches")


PAGE = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")
#: The commands of that page: the first writes a report, the second sums it up, as text and as a
#: page.
CRAWL, REPORT = map(
    shlex.split, re.findall(r"^    \.\./\.venv/bin/scrapy (.*robots\.jsonl.*)$", PAGE, re.MULTILINE)
)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, since what the commands leave behind is nothing for its own folder."""
    return Path(shutil.copytree(PROJECT, tmp_path_factory.mktemp("demo") / "project"))


@pytest.fixture(scope="session")
def all_outputs(project: Path) -> Iterator[dict[str, Output]]:
    """What the demo prints, by runtime; the processes run side by side.

    The first one writes a report, too.
    """
    commands = {name: CRAWL if name == "asyncio" else ["crawl", "demo"] for name in RUNTIMES}
    processes = {
        name: start("-m", "scrapy", *command, "-s", RUNTIMES[name], folder=project)
        for name, command in commands.items()
    }
    try:
        yield {name: wait(process) for name, process in processes.items()}
    finally:
        for process in processes.values():
            process.kill()


@pytest.fixture(params=RUNTIMES)
def output(request: pytest.FixtureRequest, all_outputs: dict[str, Output]) -> Output:
    """What the demo prints under one runtime."""
    return all_outputs[request.param]


def test_rules(output: Output) -> None:
    """Prefixes, the longest match, `*` and `$` decide, and the table names line and rule."""
    assert output.sections["Rules"].rows == {
        "/": NO_RULE,
        "/private/press/news.html": ("allowed", "robots.txt line 3: Allow: /private/press/"),
        "/files/plan.pdf.html": NO_RULE,
        "/list?page=2": NO_RULE,
        "/private/plan.html": ("disallowed", "robots.txt line 2: Disallow: /private/"),
        "/files/plan.pdf": ("disallowed", "robots.txt line 4: Disallow: /*.pdf$"),
        "/list?sort=price": ("disallowed", "robots.txt line 5: Disallow: /*?sort="),
    }


def test_group_of_our_own(output: Output) -> None:
    """The group for demobot decides, and the one for all is not asked."""
    assert output.sections["Groups"].rows == {
        "/": ("allowed", "robots.txt: no rule of the group `demobot` matches"),
        "/news.html": ("allowed", "robots.txt: no rule of the group `demobot` matches"),
        "/drafts/idea.html": ("disallowed", "robots.txt line 5: Disallow: /drafts/"),
    }


def test_another_port(output: Output) -> None:
    """A path that one port closes is open on another."""
    assert output.sections["Another"].rows == {
        "/private/plan.html": ("allowed", "robots.txt line 2: Allow: /"),
        "/files/plan.pdf": ("allowed", "robots.txt line 2: Allow: /"),
    }


def test_pages(output: Output) -> None:
    """Links of a page that says nofollow are not followed, be it in a header line or in a meta
    for demobot.
    """
    open_to_all = "robots.txt line 2: Allow: /"
    assert output.sections["Pages"].rows == {
        "/open.html": ("allowed", open_to_all),
        "/header.html": ("allowed", f"{open_to_all}; links not followed, X-Robots-Tag: nofollow"),
        "/meta.html": ("allowed", f"{open_to_all}; links not followed, meta demobot: nofollow"),
        "/followed.html": ("allowed", open_to_all),
    }


def test_use(output: Output) -> None:
    """Pages whose site refuses what the demo is for are not fetched."""
    assert output.sections["Uses"].rows == {
        "/news.html": ("allowed", "robots.txt line 3: Allow: /"),
        "/essays/1.html": ("disallowed", "robots.txt line 2: content-usage: /essays/ train-ai=n"),
    }


def test_paced(output: Output) -> None:
    """The pages of a paced site come at its pace, by its own clock, and the table says so."""
    assert set(output.sections["Paced"].rows.values()) == {NO_RULE}
    [gap] = re.findall(
        r"^  pace: (\S+) s at least between two requests, by the site's clock$",
        output.stdout,
        re.MULTILINE,
    )
    assert float(gap) >= 0.3


def test_missing(output: Output) -> None:
    """A robots.txt that is not there permits everything."""
    section = output.sections["No"]
    assert section.robots_txt == "404"
    assert set(section.rows.values()) == {
        ("allowed", "robots.txt unavailable (404): everything is allowed")
    }


def test_failing(output: Output) -> None:
    """A server that fails closes everything, and the log says so once."""
    section = output.sections["Failing"]
    assert section.robots_txt == "503"
    assert set(section.rows.values()) == {("disallowed", "robots.txt unreachable: 503")}
    assert output.stderr.count("is unreachable (503)") == 2  # once an origin: this one and the next


def test_recovering(output: Output) -> None:
    """A server that fails once is asked again, and its rules are obeyed by the pages that
    waited.
    """
    section = output.sections["Recovering"]
    assert section.rows == {
        "/": NO_RULE,
        "/closed/plan.html": ("disallowed", "robots.txt line 2: Disallow: /closed/"),
    }


def test_redirected(output: Output) -> None:
    """Rules from another host are obeyed although `allowed_domains` does not name it."""
    assert output.sections["robots.txt"].rows == {
        "/open/a.html": NO_RULE,
        "/closed/a.html": ("disallowed", "robots.txt line 2: Disallow: /closed/"),
    }


def test_slow(output: Output) -> None:
    """The 20 pages that wait for one slow file are one row."""
    assert output.sections["Slow"].rows == {
        "/slow/1 to /slow/20 (20 pages)": ("disallowed", "robots.txt line 2: Disallow: /"),
    }


def test_large(output: Output) -> None:
    """A rule before the limit counts, one beyond it does not."""
    section = output.sections["Large"]
    assert section.robots_txt == "200, more than 512,000 octets"
    assert section.rows == {
        "/beyond/a.html": NO_RULE,
        "/before/a.html": ("disallowed", "robots.txt line 2: Disallow: /before/"),
    }


def test_stats(output: Output) -> None:
    """The stats below the table count what the table shows."""
    rows = [row for section in output.sections.values() for row in section.rows.values()]
    merged = 19  # the 20 slow pages are one row
    expected = {
        "robotstxt/allowed": sum(row[0] == "allowed" for row in rows),
        "robotstxt/forbidden": sum(row[0] == "disallowed" for row in rows) + merged,
        "robotstxt/forbidden/unreachable": 2,
        "robotstxt/forbidden/use": 1,
        "robotstxt/request_count": 15,  # of the failing ones 3 and 2
        "robotstxt/truncated": 1,
        "robotstxt/cache/misses": 12,
        "robotstxt/page/nofollow/header": 1,
        "robotstxt/page/nofollow/meta": 1,
        "robotstxt/crawl_delay/sites": 1,
    }
    assert {key: output.stats.get(key) for key in expected} == expected


def test_check_by_the_sites_own_logs(output: Output) -> None:
    """The demo ends with what its sites saw: no page that is disallowed was asked for."""
    assert output.last_line == (
        "Check, by the sites' own logs: robots.txt requested: 15, pages requested: 21, "
        "pages of disallowed paths requested: 0"
    )


@pytest.mark.once
def test_demo_is_as_shown_and_reported(all_outputs: dict[str, Output], project: Path) -> None:
    """Each line of the table that docs/demo.md shows is one that the demo prints.

    It is reported by the commands.
    """
    demo = all_outputs["asyncio"]
    command, *arguments = REPORT
    assert command == "robots"
    summed = run(*arguments, folder=project)
    assert (summed.code, summed.err) == (0, "")
    excerpt = block("docs/demo.md", "text", "Rules: ")

    def plain(text: str) -> list[str]:
        return [
            re.sub(r"127\.0\.0\.1:\d+", "", " ".join(line.split())) for line in text.splitlines()
        ]

    assert set(plain(excerpt)) <= set(plain(demo.stdout))
    dropped = sum(
        int(count) for count in re.findall(r"robotstxt/(?:forbidden|page/\S+) +(\d+)", demo.stdout)
    )
    assert summed.out.startswith(f"{dropped} requests disallowed\n")
    assert f'"requests": {dropped},' in (project / "report.html").read_text(
        encoding="utf-8"
    )  # drawn by a script


@ensureDeferred
async def test_check_can_fail(here: Here) -> None:
    """When robots.txt is not obeyed, the check counts the 29 pages that should have stayed
    closed.
    """
    output = await here.crawl(DemoSpider, {"ROBOTSTXT_OBEY": False})
    assert output.last_line.endswith("pages requested: 51, pages of disallowed paths requested: 30")
    assert {row for section in output.sections.values() for row in section.rows.values()} == {
        ("fetched", "ROBOTSTXT_OBEY is False")
    }
