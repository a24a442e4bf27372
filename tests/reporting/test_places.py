"""Report, archive and feeds of items may not share a place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc.errors import SettingError
from tests.support.crawling import crawl
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from collections.abc import Callable

CSV = {"format": "csv"}


def linked(folder: Path) -> str:
    """A name of the same file by a link to its folder."""
    (folder / "link").symlink_to(folder, target_is_directory=True)
    return str(folder / "link" / "x.jsonl")


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (lambda _: "x.jsonl", lambda folder: folder / "x.jsonl"),
        (lambda folder: folder / "x.jsonl", lambda _: "./a/../x.jsonl"),
        (lambda _: "x.jsonl", lambda folder: (folder / "x.jsonl").as_uri()),
        (lambda folder: (folder / "x.jsonl").as_uri(), lambda _: Path("x.jsonl")),
        (linked, lambda _: "x.jsonl"),
        (lambda _: "%(name)s.jsonl", lambda _: "pages.jsonl"),
        (lambda _: "pages.jsonl", lambda _: "%(name)s.jsonl"),
        (lambda _: "stdout:", lambda _: "stdout:"),
        (lambda _: "ftp://me:secret@h.example/x", lambda _: "ftp://me:secret@h.example/x"),
    ],
)
@ensureDeferred
async def test_report_and_items(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: Callable[[Path], Any],
    other: Callable[[Path], Any],
) -> None:
    """However a shared place is spelled, the crawl does not start, and writes nothing."""
    monkeypatch.chdir(tmp_path)
    report = own(tmp_path)
    with pytest.raises(SettingError) as caught:
        await crawl(
            [site.url("/x")], {"FEEDS": {other(tmp_path): CSV}, "ROBOTS_REPORT": {report: CSV}}
        )
    assert caught.value.key == "ROBOTS_REPORT"
    assert caught.value.value == str(report).replace("me:secret@", "")
    assert " FEEDS names " in str(caught.value)
    assert "secret" not in str(caught.value)
    files = [path for path in tmp_path.iterdir() if path.is_file()]  # noqa: ASYNC240 - short
    assert (site.targets, files) == ([], [])


@ensureDeferred
async def test_the_whole_error(site: Site) -> None:
    """The error says which two settings have the same place, and where the other may be set."""
    with pytest.raises(SettingError) as caught:
        await crawl(
            [site.url("/x")], {"FEEDS": {"./x.jsonl": CSV}, "ROBOTS_REPORT": {"x.jsonl": {}}}
        )
    assert (
        str(caught.value)
        == "ROBOTS_REPORT = 'x.jsonl' is not accepted; it must be a place that no other output"
        " uses, but FEEDS names './x.jsonl' (-o and -O of the command line set FEEDS)"
    )


@pytest.mark.parametrize(
    ("settings", "key", "named"),
    [
        ({"FEEDS": {"x.warc": CSV}}, "ROBOTS_ARCHIVE", "FEEDS names 'x.warc'"),
        ({"ROBOTS_REPORT": {"./x.warc": CSV}}, "ROBOTS_REPORT", "ROBOTS_ARCHIVE names '"),
    ],
)
@ensureDeferred
async def test_the_archive(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    key: str,
    named: str,
) -> None:
    """The archive cannot share a place, either."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError) as caught:
        await crawl([site.url("/x")], {**settings, "ROBOTS_ARCHIVE": str(tmp_path / "x.warc")})
    assert (caught.value.key, named in str(caught.value)) == (key, True)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - short


@ensureDeferred
async def test_places_of_their_own(site: Site, tmp_path: Path) -> None:
    """Outputs with different places are all written."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /x\n")
    settings = {
        "FEEDS": {tmp_path / "items.csv": {**CSV, "store_empty": True}},
        "ROBOTS_REPORT": tmp_path / "report.csv",
        "ROBOTS_ARCHIVE": str(tmp_path / "x.warc"),
    }
    await crawl([site.url("/x")], settings)
    names = sorted(path.name for path in tmp_path.iterdir())  # noqa: ASYNC240 - short
    assert names == ["items.csv", "report.csv", "x.warc"]
