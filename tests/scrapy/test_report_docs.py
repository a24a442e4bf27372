"""What docs/report.md shows is what happens: its settings are used, its records and lines come out of a real crawl."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc.records import FIELDS
from tests.scrapy.crawling import crawl, records
from tests.scrapy.site import Reply, Site, robots
from tests.scrapy.test_docs import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.reactor

PAGE = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")


def block(language: str, word: str) -> str:
    """The block of a language that has a word in it; with http for https, as the proxy has no certificates."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    [found] = [text for text in blocks if word in text]
    return str(found).replace("https://", "http://")


def settings(name: str) -> dict[str, Any]:
    """The settings of the block of Python that sets one."""
    found: dict[str, Any] = {}
    exec(block("python", name), found)
    return {key: value for key, value in found.items() if key.isupper()}


@pytest.fixture
def proxy() -> Iterator[Site]:
    """A proxy that answers for every host."""
    with Site() as running:
        yield running


def test_fields() -> None:
    """The page has a row a field, in their order."""
    assert rows("report.md") == [[f"`{name}`", text] for name, text in FIELDS.items()]


@ensureDeferred
async def test_record(proxy: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record, from the setting that is shown; only the time is another one."""
    monkeypatch.chdir(tmp_path)
    proxy.replies["http://example.com/robots.txt"] = robots("User-agent: *\nDisallow: /private/\n")
    page = Request(
        "http://example.com/private/plan.html",
        headers={"Referer": "http://example.com/"},
        meta={"proxy": proxy.url("")},
    )
    await crawl([page], settings("ROBOTSTXT_REPORT"))
    written = json.loads((tmp_path / "robots.jsonl").read_text(encoding="utf-8"))
    shown = json.loads(block("json", "digest"))
    assert list(written) == list(shown)
    assert {**written, "time": ""} == {**shown, "time": ""}


@ensureDeferred
async def test_end_of_the_log(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The lines of a crawl of three sites, and the same in stats; only the seconds that it was held up are others."""
    shop = "User-agent: *\nDisallow: /cart/\nDisallow: /search\nCrawl-delay: 0.5\n"
    proxy.replies.update({"http://shop.example/robots.txt": robots(shop), "http://news.example/robots.txt": Reply(503)})
    targets = {
        "shop": ["/", "/a", "/b", "/cart/1", "/cart/2", "/cart/3", "/cart/4", "/search"],
        "news": ["/", "/a"],
        "intranet": ["/", "/a"],
    }
    meta = {"proxy": proxy.url("")}
    pages = [Request(f"http://{host}.example{path}", meta=meta) for host, paths in targets.items() for path in paths]
    result = await crawl(pages, {"ROBOTSTXT_EXEMPT": ["intranet.example"]})
    shown = block("text", "What robots.txt did").rstrip()
    assert timeless(records(caplog, logging.INFO)[-1]) == timeless(shown)
    assert (
        result.stat("crawl_delay/added_seconds/http://shop.example") == result.stat("crawl_delay/added_seconds") > 0.9
    )
    assert result.stat("costliest_origins/http://shop.example") == 5
    assert result.stat("costliest_rules/http://shop.example line 3") == 1
    assert result.stat("origins/unreachable/http://news.example") == 1


def test_readme() -> None:
    """The README shows the same lines."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert block("text", "What robots.txt did") in readme.replace("https://", "http://")


def timeless(text: str) -> str:
    """Lines without the seconds that were measured."""
    return re.sub(r"\d+(\.\d+)? s (added|  *http)", r"... \2", text)
