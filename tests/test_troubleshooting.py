"""docs/log.md explains every log line, and docs/migration.md tells the truth."""

from __future__ import annotations

import re
from ast import literal_eval
from typing import TYPE_CHECKING, Any

from pytest_twisted import ensureDeferred
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.robotstxt import ProtegoRobotParser

from scrapy_robots_rfc.reporting.summary import HEADING
from tests.support.crawling import crawl
from tests.support.documents import ROOT, block, settings
from tests.support.log_texts import texts
from tests.support.service_crawls import run
from tests.support.site import Reply

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy_robots_rfc import RobotsService
    from tests.support.service_crawls import Clock
    from tests.support.site import Site

ADDON: dict[str, Any] = {"DOWNLOADER_MIDDLEWARES": {}, "ADDONS": {"scrapy_robots_rfc.Addon": 500}}
OWN = settings(block("docs/migration.md", "python", "ProtegoRobotParser"))
HOUR = 3600.0


def read(path: str) -> str:
    """Return the text of a document."""
    return (ROOT / path).read_text(encoding="utf-8")


def first_cells(text: str, head: str) -> set[str]:
    """Return the first cells of the table in a text that has this head."""
    table = text[text.index(f"| {head}") :].split("\n\n", maxsplit=1)[0]
    rows = table.splitlines()[2:]
    return {row.removeprefix("| ").split(" | ")[0].strip("`").strip() for row in rows}


#: Heading in docs/migration.md -> the settings that undo the change.
UNDO = {
    heading: {key: literal_eval(value) for key, value in re.findall(r"`(\w+) = ([^`]+)`", text)}
    for heading, text in re.findall(
        r"^### (.*)\n\n- Before: .*\n- Now: .*\n- To undo it: (.*)\n",
        read("docs/migration.md"),
        re.MULTILINE,
    )
}


def lines_by_level() -> dict[str, str]:
    """Return the level of each beginning of a line in docs/log.md."""
    sections = re.split(r"^## `([A-Z]+)`\n", read("docs/log.md"), flags=re.MULTILINE)[1:]
    return {
        beginning: level
        for level, text in zip(sections[::2], sections[1::2], strict=True)
        for beginning in first_cells(text, "line |")
    }


def test_every_line_has_a_row() -> None:
    """docs/log.md has the beginning of each line that the code can log, below its level."""
    level_of = lines_by_level()
    used = set()
    for text, levels in {**texts(), HEADING.format(spider="..."): {"INFO"}}.items():
        matching = [beginning for beginning in level_of if text.startswith(beginning)]
        assert matching, text
        beginning = max(matching, key=len)
        assert level_of[beginning] in levels, text
        used.add(beginning)
    assert used == level_of.keys()


def test_every_reason_is_explained() -> None:
    """docs/troubleshooting.md explains each reason in the stats of dropped pages."""
    [row] = [line for line in read("docs/report.md").splitlines() if "forbidden/{reason}" in line]
    counted = re.findall(r"`(\w+)`", row.partition("by `Reason`")[2])
    text = read("docs/troubleshooting.md")
    assert first_cells(text, "reason | what it means | what you can do") == set(counted)


@ensureDeferred
async def test_undo_unreachable(proxy: Site) -> None:
    """Everything is allowed if robots.txt cannot be fetched in two attempts."""
    proxy.replies["http://a.example/robots.txt"] = Reply(503)
    undo = UNDO["robots.txt cannot be fetched: timeout, refused..."]
    for changed, is_open in (({"ROBOTS_UNREACHABLE_BACKOFF": [0]}, False), (undo, True)):
        proxy.asked.clear()
        result = await crawl(["http://a.example/"], {**ADDON, **changed})
        assert (result.outcomes["http://a.example/"] == 200) is is_open
        assert proxy.targets.count("http://a.example/robots.txt") == 2


@ensureDeferred
async def test_undo_429(site: Site) -> None:
    """Everything is allowed at a site whose robots.txt answers 429."""
    site.replies["/robots.txt"] = Reply(429)
    undo = UNDO["robots.txt answers 429 or 5xx"]
    for changed, is_open in (({}, False), (undo, True)):
        result = await crawl([site.url("/")], {**ADDON, **changed})
        assert (result.outcomes[site.url("/")] == 200) is is_open


@ensureDeferred
async def test_undo_freshness(site: Site, clock: Clock) -> None:
    """A file is used for longer than its site says."""
    site.replies["/robots.txt"] = Reply(headers=(("Cache-Control", "max-age=60"),))

    async def script(service: RobotsService) -> None:
        await service.robots(site.url("/"))
        clock.now += HOUR
        await service.robots(site.url("/"))

    for changed, fetches in (({}, 2), (UNDO["How long it is used"], 1)):
        site.asked.clear()
        await run(script, {**ADDON, **changed})
        assert site.fetches == fetches


@ensureDeferred
async def test_undo_jobdir(site: Site, tmp_path: Path) -> None:
    """Nothing is stored in JOBDIR."""
    for name, changed in (("stored", {}), ("not stored", UNDO["With `JOBDIR`"])):
        folder = tmp_path / name
        await crawl([site.url("/")], {**ADDON, **changed, "JOBDIR": str(folder)})
        assert (folder / "robots.sqlite").exists() is (name == "stored")


@ensureDeferred
async def test_undo_retries(site: Site) -> None:
    """Scrapy's retry middleware retries robots.txt."""
    site.replies["/robots.txt"] = Reply(503)
    retries = {**ADDON, "RETRY_ENABLED": True, "RETRY_TIMES": 2}
    undo = UNDO["Retries of robots.txt"]
    for changed, retried in (({"ROBOTS_UNREACHABLE_BACKOFF": [0]}, None), (undo, 2)):
        result = await crawl([site.url("/")], {**retries, **changed})
        assert result.stats.get("retry/count") == retried


@ensureDeferred
async def test_undo_all(site: Site) -> None:
    """Scrapy's own middleware and parser are used again."""
    site.replies["/robots.txt"] = Reply(503)
    result = await crawl([site.url("/")], {**ADDON, **OWN})
    assert result.outcomes == {site.url("/"): 200}
    assert result.crawler.engine is not None
    kinds = [type(each) for each in result.crawler.engine.downloader.middleware.middlewares]
    assert RobotsTxtMiddleware in kinds
    assert not any("scrapy_robots" in kind.__module__ for kind in kinds)
    parser = f"{ProtegoRobotParser.__module__}.ProtegoRobotParser"
    assert result.crawler.settings["ROBOTSTXT_PARSER"] == parser
