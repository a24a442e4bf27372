"""docs/report.md shows what happens in real crawls with its settings."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING

from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc.reporting.report import FIELDS
from tests.support.crawling import crawl, records
from tests.support.documents import block, plain, settings
from tests.support.reports import read
from tests.support.site import Reply, robots
from tests.test_reference_pages import rows

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support.site import Site

#: The lines at the end of a crawl.
CLOSING = block("docs/report.md", "text", "robots.txt summary")


def test_fields_are_those_of_the_document() -> None:
    """The page has a row for each field, in order."""
    found = rows("report.md", "field |")
    assert [name for name, _ in found] == [f"`{name}`" for name in FIELDS]
    assert all(text for _, text in found)


@ensureDeferred
async def test_record(proxy: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting on the page writes the record on the page, except for its times."""
    monkeypatch.chdir(tmp_path)
    proxy.replies["http://example.com/robots.txt"] = robots("User-agent: *\nDisallow: /private/\n")
    page = Request(
        "http://example.com/private/plan.html", headers={"Referer": "http://example.com/"}
    )
    shown_settings = settings(block("docs/report.md", "python", "ROBOTS_REPORT"))
    await crawl([page], {**shown_settings, "ROBOTSTXT_USER_AGENT": "foobot"})
    [written] = read(tmp_path / "robots.jsonl")
    shown = json.loads(plain(block("docs/report.md", "json", "digest")))
    assert list(written) == list(shown)
    times = {"time": "", "run": "", "fetched": "", "fresh_until": ""}
    assert {**written, **times} == {**shown, **times}


@ensureDeferred
async def test_end_of_the_log(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A crawl of three sites logs the lines on the page, except for measured seconds."""
    shop = "User-agent: *\nDisallow: /cart/\nDisallow: /search\nCrawl-delay: 0.5\n"
    proxy.replies.update(
        {
            "http://shop.example/robots.txt": robots(shop),
            "http://news.example/robots.txt": Reply(503),
        }
    )
    targets = {
        "shop": ["/", "/a", "/b", "/cart/1", "/cart/2", "/cart/3", "/cart/4", "/search"],
        "news": ["/", "/a"],
        "intranet": ["/", "/a"],
    }
    pages = [f"http://{host}.example{path}" for host, paths in targets.items() for path in paths]
    result = await crawl(pages, {"ROBOTS_EXEMPT": ["intranet.example"]})
    assert timeless(records(caplog, logging.INFO)[-1]) == timeless(plain(CLOSING).rstrip())
    assert result.stat("crawl_delay/added_seconds") > 0.9


def timeless(text: str) -> str:
    """Lines without measured seconds."""
    return re.sub(r"\d+(\.\d+)? s added", "... added", text)
