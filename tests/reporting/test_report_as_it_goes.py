"""The report as the crawl goes: records at once, full batches too.

And what becomes of it where a place fails.
"""

from __future__ import annotations

import csv
import json
import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, cast
from xml.etree import ElementTree

import pytest
from pytest_twisted import ensureDeferred
from scrapy import signals
from scrapy.extensions.feedexport import FileFeedStorage

from scrapy_robots_rfc import RobotsDisallowed, stats
from scrapy_robots_rfc.reporting.summary import HEADING
from tests.support.crawling import Pages, crawl, records
from tests.support.site import Site, robots
from tests.support.storages import Broken

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler

pytestmark = pytest.mark.reactor

RULES = "User-agent: *\nDisallow: /private\n"


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def private(site: Site, count: int) -> list[str]:
    """Pages that are forbidden."""
    return [site.url(f"/private/{number}") for number in range(count)]


class Looking(Pages):
    """Looks into the report when a page is refused."""

    path: ClassVar[Path]
    seen: ClassVar[list[bool]]

    def failed(self, failure: Any) -> None:
        """Find its record."""
        self.seen.append(failure.request.url in {record["url"] for record in read(self.path)})


@ensureDeferred
async def test_a_record_is_written_at_once(site: Site, tmp_path: Path) -> None:
    """A record is in the file when the request is refused: its errback can read it there."""
    site.replies["/robots.txt"] = robots(RULES)
    Looking.path, Looking.seen = tmp_path / "r.jsonl", []
    await crawl(private(site, 3), {"ROBOTS_REPORT": {Looking.path: {}}}, spider=Looking)
    assert Looking.seen == [True] * 3


# What fails.


BROKEN = {"FEED_STORAGES": {"broken": "tests.support.storages.Broken"}}


@pytest.mark.parametrize(("where", "errors"), [("open", 6), ("store", 1)])
@ensureDeferred
async def test_a_storage_that_fails_changes_no_verdict(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
    errors: int,
) -> None:
    """Every page is refused all the same, and there is one error that says what to do, without a
    password.
    """
    monkeypatch.chdir(tmp_path)
    Broken.where = where
    site.replies["/robots.txt"] = robots(RULES)
    report = {"broken:x": {"format": "jsonlines"}}
    result = await crawl(private(site, 5), {**BROKEN, "ROBOTS_REPORT": report})
    assert all(isinstance(result.outcomes[page], RobotsDisallowed) for page in private(site, 5))
    assert (result.stat("report/errors"), result.stat("report/records")) == (
        errors,
        0 if where == "open" else 5,
    )
    [error] = records(caplog, logging.ERROR)
    assert error.startswith("ROBOTS_REPORT: broken:x cannot be written (OSError: ")
    assert error.endswith("Look for a full disk, missing rights, or a server that is down")
    assert "secret" not in caplog.text


class Second(FileFeedStorage):
    """Can be opened at the second attempt."""

    attempts: ClassVar[int] = 0

    def open(self, spider: Any) -> Any:
        """Fail at first."""
        type(self).attempts += 1
        if self.attempts == 1:
            raise OSError("no such server")
        return super().open(spider)


@ensureDeferred
async def test_a_file_that_cannot_be_opened_is_tried_again(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be opened just then is opened with the next record.

    One is lost, and counted.
    """
    monkeypatch.chdir(tmp_path)
    Second.attempts = 0
    site.replies["/robots.txt"] = robots(RULES)
    settings = {
        "FEED_STORAGES": {"second": Second},
        "ROBOTS_REPORT": {"second:r": {"format": "json"}},
    }
    result = await crawl(private(site, 4), settings)
    assert len(json.loads((tmp_path / "second:r").read_text(encoding="utf-8"))) == 3
    assert (result.stat("report/records"), result.stat("report/errors")) == (3, 1)


@pytest.mark.parametrize(
    ("report", "cause"),
    [
        ({".": {"format": "csv"}}, "IsADirectoryError: "),
        ({"file.txt/x/r.csv": {}}, "NotADirectoryError: "),
        ({"nul\0/r.jsonl": {}}, "ValueError: "),
    ],
)
@ensureDeferred
async def test_a_file_that_cannot_be_written_is_one_error(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    report: dict[str, Any],
    cause: str,
) -> None:
    """A file that cannot be made costs records, and one error says so.

    No verdict, and not the crawl.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.txt").touch()
    site.replies["/robots.txt"] = robots(RULES)
    result = await crawl([*private(site, 3), site.url("/a")], {"ROBOTS_REPORT": report})
    assert (result.outcomes[site.url("/a")], result.stat("forbidden")) == (200, 3)
    assert (result.stat("report/errors") >= 3, result.stat("report/records")) == (True, 0)
    ours = [text for text in records(caplog, logging.ERROR) if text.startswith("ROBOTS_REPORT: ")]
    assert len(ours) == 1
    assert f" cannot be written ({cause}" in ours[0]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110 - a device
@pytest.mark.parametrize("format_", ["jsonlines", "csv", "json", "xml"])
@ensureDeferred
async def test_a_full_disk_is_one_error(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, format_: str
) -> None:
    """A disk without room costs records, counted, and one error; no verdict, and not the crawl."""
    site.replies["/robots.txt"] = robots(RULES)
    pages = [*private(site, 3), site.url("/a")]
    result = await crawl(pages, {"ROBOTS_REPORT": {"/dev/full": {"format": format_}}})
    assert result.outcomes[pages[3]] == 200
    assert result.stat("forbidden") == 3
    assert (result.stat("report/errors"), result.stat("report/records")) == (4, 0)
    assert (
        records(caplog, logging.INFO)[-1]
        == "ROBOTS_REPORT: 0 decisions in /dev/full; writes that failed: 4"
    )
    [error] = records(caplog, logging.ERROR)
    assert "/dev/full cannot be written (OSError: [Errno 28] No space left on device)" in error


class Hiccup(FileFeedStorage):
    """Its disk has no room for one write."""

    def open(self, spider: Any) -> Any:
        """Open a file that fails once."""
        file = cast("BinaryIO", super().open(spider))
        write, room = file.write, iter([True, True, False])

        def write_or_fail(octets: bytes) -> int:
            if next(room, True):
                return write(octets)
            raise OSError("no room")

        return SimpleNamespace(write=write_or_fail, flush=file.flush, close=file.close)


@pytest.mark.parametrize("format_", ["jsonlines", "csv", "json", "xml"])
@ensureDeferred
async def test_a_write_that_fails_costs_one_record(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    """A write that fails costs one whole record.

    Those before and after it can be read, in every format.
    """
    site.replies["/robots.txt"] = robots(RULES)
    monkeypatch.chdir(tmp_path)
    settings = {"FEED_STORAGES": {"hiccup": Hiccup}}
    report = {"hiccup:r": {"format": format_}}
    result = await crawl(private(site, 4), {**settings, "ROBOTS_REPORT": report})
    assert (result.stat("report/records"), result.stat("report/errors")) == (3, 1)
    text = (tmp_path / "hiccup:r").read_text(encoding="utf-8")
    readers: dict[str, Callable[[], list[Any]]] = {
        "jsonlines": lambda: [json.loads(line) for line in text.splitlines()],
        "csv": lambda: list(csv.DictReader(text.splitlines(), strict=True)),
        "json": lambda: list(json.loads(text)),
        "xml": lambda: list(ElementTree.fromstring(text)),
    }
    assert len(readers[format_]()) == 3


@ensureDeferred
async def test_report_is_complete_without_a_summary(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the crawl cannot be summed up, because an extension has set a stat to something that
    is no number, its report is complete all the same.
    """

    def spoil(spider: Spider) -> None:
        key = stats.PAGE.format(directive="nofollow", source="header")
        assert spider.crawler.stats is not None
        spider.crawler.stats.set_value(key, None)

    def prepare(crawler: Crawler) -> None:
        crawler.signals.connect(spoil, signals.spider_opened, weak=False)

    site.replies["/robots.txt"] = robots(RULES)
    await crawl(private(site, 3), {"ROBOTS_REPORT": {tmp_path / "r.json": {}}}, prepare=prepare)
    assert not any(HEADING.partition("(")[0] in text for text in caplog.messages)
    assert len(json.loads((tmp_path / "r.json").read_text())) == 3  # with its end
