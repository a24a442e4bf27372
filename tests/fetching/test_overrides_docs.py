"""What docs/steering.md shows is what happens: its settings are used, its lines are logged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.policy.origins import Site as Name
from tests.support.crawling import crawl, lines
from tests.support.documents import ROOT, block, plain, settings
from tests.support.site import robots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.site import Site


def shown(text: str) -> set[str]:
    """The lines of a block."""
    return set(plain(text).splitlines())


@ensureDeferred
async def test_page_shows_the_lines_of_a_dry_run(
    proxy: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The lines of a dry run."""
    proxy.replies["http://example.com/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    pages = ["http://example.com/", "http://example.com/private"]
    await crawl(pages, settings(plain(block("docs/steering.md", "python", "ROBOTS_DRY_RUN"))))
    assert shown(block("docs/steering.md", "text", "ROBOTS_DRY_RUN is on, ")) <= set(lines(caplog))


@ensureDeferred
async def test_page_shows_the_lines_of_exempt_sites(
    proxy: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The lines of a crawl of exempt sites."""
    pages = ["http://intranet.example/", "http://a.staging.example/"]
    await crawl(pages, settings(plain(block("docs/steering.md", "python", "ROBOTS_EXEMPT"))))
    assert shown(block("docs/steering.md", "text", "ROBOTS_EXEMPT: ")) <= set(lines(caplog))


def test_every_entry_of_the_page_is_accepted() -> None:
    """Every entry of the table is one."""
    page = (ROOT / "docs" / "steering.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\| `([^`]+)` \| ", page, re.MULTILINE)
    assert len(entries) == 6
    assert [Name.of(entry).text for entry in entries] == entries


@ensureDeferred
async def test_page_shows_the_lines_of_local_files(
    proxy: Site, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error without the file, and the lines with it."""
    monkeypatch.chdir(tmp_path)
    pages = ["http://example.com/drafts/1"]
    agreed = settings(plain(block("docs/steering.md", "python", "ROBOTS_OVERRIDES")))
    with pytest.raises(SettingError) as caught:
        await crawl(pages, agreed)
    refused = plain(block("docs/steering.md", "text", "is not accepted"))
    assert str(caught.value).replace(str(tmp_path), "/crawls") == refused.rstrip()
    file = tmp_path / "agreed" / "example.com.txt"
    file.parent.mkdir()
    file.write_text("User-agent: *\nDisallow: /drafts/\n", encoding="utf-8")
    await crawl(pages, agreed)
    assert shown(block("docs/steering.md", "text", "ROBOTS_OVERRIDES: ")) <= set(lines(caplog))
    assert proxy.targets == []
