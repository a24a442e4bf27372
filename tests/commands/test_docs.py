"""The commands print the outputs that docs/cli.md shows."""

from __future__ import annotations

import re
import shlex
import time
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_robots_rfc.cache.entry import CacheEntry, Validators, encode
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from scrapy_robots_rfc.policy.access import Outcome
from tests.support.command_line import run
from tests.support.documents import block, blocks, rows
from tests.support.entries import made
from tests.support.reports import crawl, exported
from tests.support.site import Site, redirect, robots as file

if TYPE_CHECKING:
    from pathlib import Path

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
#: The address of the site in docs/cli.md.
SERVED = "127.0.0.1:8000"
#: The sites in the report; records about exempt sites have none.
REPORTED = {"https://news.example", "https://slow.example", None}
FILE = b"User-agent: *\nDisallow: /private/\nCrawl-delay: 2\n\nSitemap: /sitemap.xml\n"


def copies(now: float) -> dict[str, CacheEntry]:
    """Return the copies in the store that docs/cli.md uses."""
    validators = Validators("http://www.example/robots.txt", b'"5f3a-1"')
    then = now - 2 * HOUR
    failed, retry = now - MINUTE, now + 4 * MINUTE
    kept: dict[str, Any] = {"confirmed": then, "validators": validators, "body": FILE}
    return {
        "http://www.example": made(Outcome.SUCCESSFUL, 200, "200", then, then + DAY, **kept),
        "https://example.org": made(Outcome.UNREACHABLE, 503, "503", failed, retry, None, failed),
    }


NEWS = """\
User-agent: *
Disallow: /private/
Crawl-delay: 2

User-agent: newsbot
Allow: /private/press
Disallow: /private/
Disallow: /*.pdf$

Sitemap: https://news.example/sitemap.xml
"""


def sessions() -> list[tuple[str, str]]:
    """Return the commands of docs/cli.md in order, each with its output."""
    return [
        (command, output)
        for text in blocks("docs/cli.md", "console")
        for command, output in re.findall(
            r"^\$ scrapy (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE
        )
    ]


def same(text: str) -> str:
    """Return a text without dates, durations and versions."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "DATE", text)
    text = re.sub(r"  created .*", "  created DATE", text)
    text = re.sub(r"Scrapy/\d+[\d.]*", "Scrapy/VERSION", text)
    text = re.sub(r"\b1[6-9]\d{8}\.\d+", "TIME", text)
    text = re.sub(r'"fresh_for": [\d.]+', '"fresh_for": SPAN', text)
    text = re.sub(r" +(\d+(?:\.\d)?) (s|min|h|d)\b", " SPAN", text)
    return text.rstrip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files and the store that docs/cli.md uses."""
    store = SqliteStore(tmp_path / "robots.sqlite")
    store.open()
    for key, copy in copies(time.time()).items():
        store.put(key, encode(copy), 30 * DAY)
    store.close()
    (tmp_path / "robots.txt").write_text(NEWS)
    (tmp_path / "article.html").write_text(block("docs/cli.md", "html", "newsbot"))
    (tmp_path / "shop.txt").write_text(block("docs/cli.md", "text", "User-agent"))
    report = exported(record for record in crawl() if record["origin"] in REPORTED)
    (tmp_path / "robots.jsonl").write_bytes(report)
    return tmp_path


def test_the_document_shows_what_commands_print(folder: Path) -> None:
    """Each command in docs/cli.md prints the text below it."""
    assert len(sessions()) == 7
    with Site({"/robots.txt": redirect("/robots/v2.txt"), "/robots/v2.txt": file(NEWS)}) as site:
        for command, expected in sessions():
            topic, *arguments = shlex.split(command.replace(SERVED, site.netloc))
            assert topic == "robots"
            done = run(*arguments, folder=folder, together=True)
            assert same(done.out.replace(site.netloc, SERVED)) == same(expected), command


def test_workflow_in_the_documents_works(folder: Path) -> None:
    """The workflow step in docs/cli.md annotates the lines of its file."""
    command = block("docs/cli.md", "yaml", "- run: ").removeprefix("- run: scrapy robots ")
    (folder / "public").mkdir()
    (folder / "shop.txt").rename(folder / "public" / "robots.txt")
    done = run(*shlex.split(command), folder=folder)
    assert done.code == 3
    assert done.lines
    assert all(
        re.match(r"::(error|warning|notice) file=public/robots\.txt,line=\d+,", line)
        for line in done.lines
    )


def keys(head: str) -> list[str]:
    """Return the keys in a table of docs/cli.md, by its head."""
    return [key for row in rows("docs/cli.md", head) for key in re.findall("`(.*?)`", row[0])]


def test_keys_of_json_are_those_of_the_document(folder: Path) -> None:
    """docs/cli.md lists every key that `check`, `show` and `page` print as JSON, in order."""
    with Site({"/robots.txt": file(NEWS)}) as site:
        checked, shown = (
            run(topic, site.url("/"), "--json", folder=folder).records[0]
            for topic in ("check", "show")
        )
    assert keys("key of `check --json`") == list(checked)
    assert ["url", *keys("key of `robots_txt`, and of `show --json`")] == list(
        checked["robots_txt"]
    )
    assert keys("key of `show --json`") == list(shown)
    listed = run("page", "article.html", "--json", folder=folder).records[0]
    assert keys("key of `page --json`") == list(listed)
