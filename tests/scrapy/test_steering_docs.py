"""What docs/steering.md shows is what happens: its settings are used, its lines are logged."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.policy.sites import Site as Name
from tests.scrapy.crawling import crawl, records
from tests.scrapy.site import Site, robots

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.reactor

PAGE = (Path(__file__).parents[2] / "docs" / "steering.md").read_text(encoding="utf-8")


def plain(text: str) -> str:
    """The same with http in the place of https, as the proxy of the tests has no certificates."""
    return text.replace("https://", "http://")


def lines(first: str) -> list[str]:
    """The lines of the block of output that begins with a word."""
    [block] = re.findall(rf"^```text\n({first}.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    return plain(block).splitlines()


def said(caplog: pytest.LogCaptureFixture) -> set[str]:
    """All lines that our own loggers wrote."""
    return {line for record in records(caplog, logging.DEBUG) for line in record.splitlines()}


def settings(name: str) -> dict[str, Any]:
    """The settings of the block of Python that sets one."""
    [block] = [code for code in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if name in code]
    found: dict[str, Any] = {}
    exec(plain(block), found)
    return {key: value for key, value in found.items() if key.isupper()}


@pytest.fixture
def proxy() -> Iterator[Site]:
    """A proxy that answers for every host."""
    with Site() as running:
        yield running


def pages(proxy: Site, *urls: str) -> list[Request]:
    """Requests through it."""
    return [Request(url, meta={"proxy": proxy.url("")}) for url in urls]


@ensureDeferred
async def test_dry_run(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The lines of a dry run."""
    proxy.replies["http://example.com/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    requests = pages(proxy, "http://example.com/", "http://example.com/private")
    await crawl(requests, settings("ROBOTSTXT_DRY_RUN"))
    assert set(lines("ROBOTSTXT_DRY_RUN")) <= said(caplog)


@ensureDeferred
async def test_exempt(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The lines of a crawl of exempt sites."""
    requests = pages(proxy, "http://intranet.example/", "http://a.staging.example/")
    await crawl(requests, settings("ROBOTSTXT_EXEMPT"))
    assert set(lines("ROBOTSTXT_EXEMPT")) <= said(caplog)


def test_entries() -> None:
    """Every entry of the table is one."""
    entries = re.findall(r"^\| `([^`]+)` \| ", PAGE, re.MULTILINE)
    assert len(entries) == 6
    assert [Name.of(entry).text for entry in entries] == entries


@ensureDeferred
async def test_overrides(
    proxy: Site, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error without the file, and the lines with it."""
    monkeypatch.chdir(tmp_path)
    requests = pages(proxy, "http://example.com/drafts/1")
    with pytest.raises(SettingError) as caught:
        await crawl(requests, settings("ROBOTSTXT_OVERRIDES"))
    assert str(caught.value).replace(str(tmp_path), "/crawls") == "\n".join(lines(re.escape("ROBOTSTXT_OVERRIDES[")))
    file = tmp_path / "agreed" / "example.com.txt"
    file.parent.mkdir()
    file.write_text("User-agent: *\nDisallow: /drafts/\n", encoding="utf-8")
    await crawl(requests, settings("ROBOTSTXT_OVERRIDES"))
    assert set(lines("ROBOTSTXT_OVERRIDES: ")) <= said(caplog)
    assert proxy.targets == []
