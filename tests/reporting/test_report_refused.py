"""Feeds of the report that cannot work stop the crawl at start.

Key, value and what is accepted, no credentials.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc.errors import SettingError
from tests.support.crawling import crawl

if TYPE_CHECKING:
    from tests.support.site import Site

GZIP = "scrapy.extensions.postprocessing.GzipPlugin"
BATCHED = {"format": "jsonlines", "batch_item_count": 5}
OURS = "options that work: ValueError: "
TYPES = "a path or URI such as 'robots.jsonl', or a dict, or one in JSON, from it to options as in"


class Picky:
    """A filter that cannot be made."""

    def __init__(self, feed_options: dict[str, Any]) -> None:
        raise ValueError("I need more")


@pytest.mark.parametrize(
    ("report", "accepted"),
    [
        (["r.jsonl"], TYPES),
        (5, TYPES),
        (True, TYPES),
        ('["ftp://me:secret@h/r"]', TYPES),
        ({"ftp://me:secret@h/r.jsonl": "jsonlines"}, "a dict of the feed's options"),
        ({"": {}}, "a dict of the feed's options"),
        ({3: {}}, "a dict of the feed's options"),
        (
            {"r.jsonl": {"format": "yaml"}},
            f"{OURS}format 'yaml' is not one of FEED_EXPORTERS: 'csv', ",
        ),
        ({"r.jsonl": {"formt": "csv"}}, f"{OURS}unknown option 'formt'; did you mean 'format'?"),
        ({"r.jsonl": {3: 4}}, f"{OURS}unknown option 3"),
        ("r", f"{OURS}format '' is not one of FEED_EXPORTERS: "),
        ({"r": {}}, f"{OURS}format '' is not one of FEED_EXPORTERS: "),
        ({"r": {"format": ["json"]}}, "options that work: TypeError: "),
        (
            {"gopher://me:secret@h/r": {"format": "csv"}},
            f"{OURS}scheme 'gopher' is not one of FEED_STORAGES: ",
        ),
        (
            {"ftp:///r": {"format": "csv"}},
            "options that work: ValueError: Got a storage URI without a hostname",
        ),
        ({"ftp://me:secret@/r": {"format": "csv"}}, "options that work: ValueError: "),
        ({"absent://h/r": {"format": "csv"}}, "options that work: NotConfigured: not here"),
        ({"r.jsonl": BATCHED}, f"{OURS}there is no batch_item_count here"),
        (
            {"r.jsonl": {"item_filter": "no.such.Filter"}},
            "options that work: ModuleNotFoundError: ",
        ),
        ({"r.jsonl": {"item_filter": Picky}}, "options that work: ValueError: I need more"),
        (
            {"r.jsonl": {"item_classes": ["no.such.Item"]}},
            "options that work: ModuleNotFoundError: ",
        ),
        (
            {"r.jsonl": {"uri_params": "no.such.function"}},
            "options that work: ModuleNotFoundError: ",
        ),
        ({"r.jsonl": {"item_filter": "scrapy.Spider"}}, "options that work: AttributeError: "),
        ({"r.jsonl": {"encoding": "klingon"}}, "options that work: LookupError: "),
        ({"r.jsonl": {"fields": 5}}, "options that work: TypeError: "),
        ({"r.jsonl": {"item_export_kwargs": {"nonsense": 1}}}, "options that work: TypeError: "),
        (
            {"r.csv": {"encoding": "klingon"}},
            "options that work: LookupError: unknown encoding: klingon",
        ),
        ({"a.jsonl": {}, "b.jsonl": {}}, TYPES),
        ({"r.jsonl": {"allowed": "perhaps"}}, "a dict of the feed's options"),
        (
            {"r.gz": {"format": "csv", "postprocessing": [GZIP]}},
            f"{OURS}there is no postprocessing here",
        ),
        ({"%(nobody)s.jsonl": {}}, "options that work: KeyError: 'nobody'"),
    ],
)
@ensureDeferred
async def test_a_feed_that_cannot_work_stops_the_start(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    report: Any,
    accepted: str,
) -> None:
    """The crawl does not start, nothing is requested, no file is left, and no password is shown."""
    monkeypatch.chdir(tmp_path)
    settings = {
        "FEED_STORAGES": {"absent": "tests.reporting.test_report_refused.Absent"},
        "ROBOTS_REPORT": report,
    }
    with pytest.raises(SettingError) as caught:
        await crawl([site.url("/x")], settings)
    assert caught.value.key.removeprefix("a key of ").startswith("ROBOTS_REPORT")
    assert caught.value.accepted.startswith(accepted)
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in str(error)
        error = None if error.__suppress_context__ else error.__cause__ or error.__context__
    assert "secret" not in caplog.text
    assert (site.targets, contents(tmp_path)) == ([], {})


class Absent:
    """A storage whose library is missing."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        from scrapy.exceptions import NotConfigured  # noqa: PLC0415 - as a library that is missing

        raise NotConfigured("not here")


@ensureDeferred
async def test_error_names_the_feed(site: Site) -> None:
    """The whole error, of a feed whose URI holds a password."""
    report = {"ftp://me:secret@h.example/r": {"batch_item_count": 5, "format": "csv"}}
    with pytest.raises(SettingError) as caught:
        await crawl([], {"ROBOTS_REPORT": report})
    shown = (
        "ROBOTS_REPORT['ftp://h.example/r'] = {'batch_item_count': 5, 'format': 'csv'} is not"
        " accepted; "
    )
    wanted = (
        "it must be options that work: ValueError: there is no batch_item_count here, as a report"
        " is one file"
    )
    assert str(caught.value) == f"{shown}{wanted}"


@ensureDeferred
async def test_trying_harms_nothing(site: Site, tmp_path: Path) -> None:
    """A file that exists does not change, also one that is to be overwritten, when the crawl
    does not start.
    """
    for name in ("old.jsonl", "over.jsonl"):
        (tmp_path / name).write_text("old\n", encoding="utf-8")
    for name in ("old.jsonl", "over.jsonl", "new.jsonl", "far/new.jsonl"):
        report = {
            tmp_path / name: {
                "overwrite": name == "over.jsonl",
                "encoding": "klingon",
                "format": "csv",
            }
        }
        with pytest.raises(SettingError):
            await crawl([site.url("/x")], {"ROBOTS_REPORT": report})
    assert contents(tmp_path) == {"old.jsonl": "old\n", "over.jsonl": "old\n"}


def contents(folder: Path) -> dict[str, str]:
    """What is in the files of a folder."""
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


@ensureDeferred
async def test_a_crawl_that_does_not_obey_has_no_report(site: Site, tmp_path: Path) -> None:
    """A crawl that does not obey robots.txt has no report, and needs none that works."""
    result = await crawl(
        [site.url("/x")], {"ROBOTSTXT_OBEY": False, "ROBOTS_REPORT": {tmp_path: {"format": "csv"}}}
    )
    assert result.outcomes == {site.url("/x"): 200}
