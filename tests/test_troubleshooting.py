"""docs/migration.md and docs/troubleshooting.md are true.

What brings Scrapy's behaviour back does so, and each warning has a row.
"""

from __future__ import annotations

import re
from ast import literal_eval
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.robotstxt import ProtegoRobotParser

from scrapy_robots_rfc.reporting.summary import HEADING
from tests.support.crawling import crawl
from tests.support.documents import block, settings
from tests.support.log_texts import LOUD, QUIET, texts
from tests.support.service_crawls import run
from tests.support.site import Reply, robots
from tools.check_docs import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_robots_rfc import RobotsService
    from tests.support.service_crawls import Clock
    from tests.support.site import Site

ADDON: dict[str, Any] = {"DOWNLOADER_MIDDLEWARES": {}, "ADDONS": {"scrapy_robots_rfc.Addon": 500}}
OWN = settings(block("docs/migration.md", "python", "ProtegoRobotParser"))
OWN_WORDS = "Scrapy's own middleware."
HOUR = 3600.0


def rows(path: str, head: str) -> list[list[str]]:
    """The rows of the table of a document whose head begins so."""
    text = (ROOT / path).read_text(encoding="utf-8")
    table = text[text.index(f"| {head} |") :].split("\n\n")[0]
    return [
        [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        for line in table.splitlines()[2:]
    ]


#: What changed -> before, now, and what undoes it.
CHANGES = {
    what: (before, now, undo)
    for what, before, now, undo in re.findall(
        r"^### (.*)\n\n- Before: (.*)\n- Now: (.*)\n- To undo it: (.*)\n",
        (ROOT / "docs" / "migration.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}
#: What changed -> the settings that bring it back.
BACK = {
    what: {key: literal_eval(value) for key, value in re.findall(r"`(\w+) = ([^`]+)`", undo)}
    for what, (_, _, undo) in CHANGES.items()
}


def test_every_difference_can_be_undone() -> None:
    """Each part of the page has what was before, what is now, and settings or what to do."""
    text = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    assert list(CHANGES) == re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert len(CHANGES) == 21
    for what, (_, _, undo) in CHANGES.items():
        assert BACK[what] or undo == OWN_WORDS or undo.startswith("nothing to do. "), what


def test_every_line_has_a_row() -> None:
    """docs/troubleshooting.md has a row for each line that the code can log."""
    table = rows("docs/troubleshooting.md", "line | what it means, and what to do")
    assert {row[0].strip("`").strip() for row in table} == {
        *texts(LOUD | QUIET),
        HEADING.format(spider="..."),
    }


@ensureDeferred
async def test_unreachable(proxy: Site) -> None:
    """A site whose robots.txt was unreachable is open again, after a second attempt."""
    proxy.replies["http://a.example/robots.txt"] = Reply(503)
    short = {"ROBOTS_UNREACHABLE_BACKOFF": [0]}
    for more, opened in (
        (short, False),
        (BACK["robots.txt cannot be fetched: timeout, refused..."], True),
    ):
        proxy.asked.clear()
        result = await crawl(["http://a.example/"], {**ADDON, **more})
        assert (result.outcomes["http://a.example/"] == 200) is opened
        assert proxy.targets.count("http://a.example/robots.txt") == 2


@ensureDeferred
async def test_too_many_requests(site: Site) -> None:
    """A 429 opens a site again."""
    site.replies["/robots.txt"] = Reply(429)
    for more, opened in (({}, False), (BACK["robots.txt answers 429 or 5xx"], True)):
        result = await crawl([site.url("/")], {**ADDON, **more})
        assert (result.outcomes[site.url("/")] == 200) is opened


@ensureDeferred
async def test_pace(site: Site) -> None:
    """No interval is obeyed."""
    site.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 0.1\n")
    for more, paced in (({}, 1), (BACK["`Crawl-delay`, `Request-rate`"], 0)):
        result = await crawl([site.url("/")], {**ADDON, **more})
        assert result.stat("crawl_delay/sites") == paced


@ensureDeferred
async def test_how_long_it_holds(site: Site, clock: Clock) -> None:
    """A file is used for longer than its site says."""
    site.replies["/robots.txt"] = Reply(headers=(("Cache-Control", "max-age=60"),))

    async def script(service: RobotsService) -> None:
        await service.robots(site.url("/"))
        clock.now += HOUR
        await service.robots(site.url("/"))

    for more, fetches in (({}, 2), (BACK["How long it is used"], 1)):
        site.asked.clear()
        await run(script, {**ADDON, **more})
        assert site.fetches == fetches


@ensureDeferred
async def test_jobdir(site: Site, tmp_path: Path) -> None:
    """Nothing is stored in JOBDIR."""
    for number, (more, stored) in enumerate((({}, True), (BACK["With `JOBDIR`"], False))):
        folder = tmp_path / str(number)
        await crawl([site.url("/")], {**ADDON, **more, "JOBDIR": str(folder)})
        assert (folder / "robots.sqlite").exists() is stored


@ensureDeferred
async def test_retries(site: Site) -> None:
    """Scrapy's middleware retries robots.txt."""
    site.replies["/robots.txt"] = Reply(503)
    retries = {**ADDON, "RETRY_ENABLED": True, "RETRY_TIMES": 2}
    for more, retried in (
        ({"ROBOTS_UNREACHABLE_BACKOFF": [0]}, None),
        (BACK["Retries of robots.txt"], 2),
    ):
        result = await crawl([site.url("/")], {**retries, **more})
        assert result.stats.get("retry/count") == retried


@ensureDeferred
async def test_own_middleware(site: Site) -> None:
    """Scrapy's middleware and parser are at work again.

    An error page is read for rules, and redirects are pages.
    """
    site.replies["/robots.txt"] = Reply(503)
    result = await crawl([site.url("/")], {**ADDON, **OWN})
    assert result.outcomes == {site.url("/"): 200}
    assert result.crawler.engine is not None
    kinds = [
        type(middleware) for middleware in result.crawler.engine.downloader.middleware.middlewares
    ]
    assert [
        kind
        for kind in kinds
        if issubclass(kind, RobotsTxtMiddleware) or "scrapy_robots" in kind.__module__
    ] == [RobotsTxtMiddleware]
    assert (
        result.crawler.settings["ROBOTSTXT_PARSER"]
        == f"{ProtegoRobotParser.__module__}.ProtegoRobotParser"
    )


@ensureDeferred
async def test_what_stays(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Of rows where nothing is to be done.

    One name, the exception, the log line, a stat and a parser of the user's.
    """
    site.replies["/robots.txt"] = robots("User-agent: foobot\nDisallow: /x\n")
    parser = {"ROBOTSTXT_PARSER": ProtegoRobotParser, "ROBOTSTXT_USER_AGENT": "foobot"}
    result = await crawl([site.url("/"), site.url("/x")], {**ADDON, **parser})
    assert result.outcomes[site.url("/")] == 200
    assert isinstance(result.outcomes[site.url("/x")], IgnoreRequest)
    assert any(
        text.startswith(f"Forbidden by robots.txt: <GET {site.url('/x')}>")
        for text in caplog.messages
    )
    assert (result.stat("request_count"), result.stat("forbidden")) == (1, 1)


@pytest.mark.parametrize("reason", ["rule", "unreachable", "local", "parser", "crawl_delay", "use"])
def test_every_reason_is_explained(reason: str) -> None:
    """The first table has each reason for which the stats count dropped pages."""
    [row] = [
        line
        for line in (ROOT / "docs" / "report.md").read_text("utf-8").splitlines()
        if "forbidden/{reason}" in line
    ]
    named = re.findall(r"`(\w+)`", row.partition("by `Reason`")[2])
    logged = [
        cells[0].strip("`") for cells in rows("docs/troubleshooting.md", "reason | what it means")
    ]
    assert reason in logged
    assert sorted(logged) == sorted(named)
