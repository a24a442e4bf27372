"""Reports that cannot be written stop the crawl at start, with an error that says why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy.settings import Settings

from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.settings import read_settings
from tests.support.case_files import tables
from tests.support.crawling import crawl
from tests.support.site import Site

if TYPE_CHECKING:
    pass

SETTING = "a path or URI, such as 'robots.jsonl', or a dict"
PLACE = "a path or URI, such as 'robots.jsonl'"
FEED = "a dict of feed options"
OPTIONS = "a dict of feed options, such as {'format': 'csv'}"


class Picky:
    """A filter that cannot be created."""

    def __init__(self, feed_options: dict[str, Any]) -> None:
        raise ValueError("I need more")


class Absent:
    """A storage whose library is missing."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        from scrapy.exceptions import NotConfigured  # noqa: PLC0415 - as a library that is missing

        raise NotConfigured("not here")


@pytest.mark.parametrize(
    ("report", "accepted"),
    [
        (["r.jsonl"], SETTING),
        (True, SETTING),
        ('["ftp://me:secret@h/r"]', SETTING),
        ({"ftp://me:secret@h/r.jsonl": "jsonlines"}, FEED),
        ({3: {}}, PLACE),
    ],
)
def test_a_setting_of_another_kind_is_refused(report: Any, accepted: str) -> None:
    """The error of a setting with a wrong type says what is accepted."""
    with pytest.raises(SettingError) as caught:
        read_settings(Settings({"ROBOTS_REPORT": report}))
    assert caught.value.accepted.startswith(accepted)
    assert "secret" not in str(caught.value)


REFUSED = [
    *tables("reports")["refused"],
    [{"r.jsonl": {3: 4}}, "unknown option 3"],
    [{"r.jsonl": {"item_filter": Picky}}, "I need more"],
]


@pytest.mark.parametrize(("report", "problem"), REFUSED)
@ensureDeferred
async def test_options_that_cannot_work_stop_the_start(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Any, problem: str
) -> None:
    """With wrong options, the crawl does not start, leaves no file, and shows no password."""
    monkeypatch.chdir(tmp_path)
    storages = {"FEED_STORAGES": {"absent": Absent}}
    with pytest.raises(SettingError) as caught:
        await crawl([site.url("/x")], {**storages, "ROBOTS_REPORT": report})
    assert caught.value.key.startswith("ROBOTS_REPORT")
    accepted = PLACE if isinstance(report, str) else OPTIONS
    assert caught.value.accepted.startswith(f"{accepted} ({problem}")
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in str(error)
        error = None if error.__suppress_context__ else error.__cause__ or error.__context__
    assert (site.targets, contents(tmp_path)) == ([], {})


@ensureDeferred
async def test_error_shows_what_the_user_wrote() -> None:
    """The error shows the setting as the user wrote it, without the password of its URI."""
    options = {"batch_item_count": 5, "format": "csv"}
    with pytest.raises(SettingError) as caught:
        await crawl([], {"ROBOTS_REPORT": {"ftp://me:secret@h.example/r": options}})
    shown = f"ROBOTS_REPORT['ftp://h.example/r'] = {options} is not accepted. It must be a "
    assert str(caught.value).startswith(shown)


@ensureDeferred
async def test_options_of_third_party_classes_are_accepted(site: Site, tmp_path: Path) -> None:
    """A third-party filter or storage may have further options."""
    options = {"item_filter": Verbose, "words": 3}
    await crawl([site.url("/x")], {"ROBOTS_REPORT": {tmp_path / "r.jsonl": options}})
    assert Verbose.words == 3


class Verbose:
    """A filter with a further option."""

    words = 0

    def __init__(self, feed_options: dict[str, Any]) -> None:
        type(self).words = feed_options["words"]

    def accepts(self, item: object) -> bool:
        """Accept an item."""
        return item is not None


@ensureDeferred
async def test_existing_files_do_not_change(site: Site, tmp_path: Path) -> None:
    """If the crawl does not start, existing files are unchanged, even with `overwrite`."""
    for name in ("old.jsonl", "over.jsonl"):
        (tmp_path / name).write_text("old\n", encoding="utf-8")
    for name in ("old.jsonl", "over.jsonl", "new.jsonl", "far/new.jsonl"):
        options = {"overwrite": name == "over.jsonl", "encoding": "klingon", "format": "csv"}
        with pytest.raises(SettingError):
            await crawl([site.url("/x")], {"ROBOTS_REPORT": {tmp_path / name: options}})
    assert contents(tmp_path) == {"old.jsonl": "old\n", "over.jsonl": "old\n"}


def contents(folder: Path) -> dict[str, str]:
    """The contents of the files in a folder."""
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


# Places that are in use.


CSV = {"format": "csv"}


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("x.jsonl", "{}/x.jsonl"),
        ("{}/x.jsonl", "./a/../x.jsonl"),
        ("x.jsonl", "file://{}/x.jsonl"),
        ("file://{}/x.jsonl", "x.jsonl"),
        ("{}/link/x.jsonl", "x.jsonl"),
        ("%(name)s.jsonl", "pages.jsonl"),
        ("pages.jsonl", "%(name)s.jsonl"),
        ("stdout:", "stdout:"),
        ("ftp://me:secret@h.example/x", "ftp://me:secret@h.example/x"),
    ],
)
@ensureDeferred
async def test_report_and_items(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, other: str
) -> None:
    """The crawl does not start if two outputs share a place, however it is spelled."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    places = [place.format(tmp_path) for place in (own, other)]
    report, items = [Path(place) if place.startswith("/") else place for place in places]
    with pytest.raises(SettingError) as caught:
        await crawl([site.url("/x")], {"FEEDS": {items: CSV}, "ROBOTS_REPORT": {report: CSV}})
    assert caught.value.key == "ROBOTS_REPORT"
    assert caught.value.value == str(report).replace("me:secret@", "")
    assert " FEEDS contains " in str(caught.value)
    assert "secret" not in str(caught.value)
    files = [path for path in tmp_path.iterdir() if path.is_file()]  # noqa: ASYNC240 - short
    assert (site.targets, files) == ([], [])


@pytest.mark.parametrize(
    ("settings", "key", "named"),
    [
        ({"FEEDS": {"x.warc": CSV}}, "ROBOTS_ARCHIVE", "FEEDS contains 'x.warc'"),
        ({"ROBOTS_REPORT": {"./x.warc": CSV}}, "ROBOTS_REPORT", "ROBOTS_ARCHIVE contains '"),
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
