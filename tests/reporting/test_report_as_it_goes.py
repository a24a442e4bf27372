"""The report during the crawl: records are written at once, and failures cost only records."""

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
from scrapy.extensions.feedexport import FileFeedStorage

from scrapy_robots_rfc import RobotsDisallowed
from tests.support.crawling import Pages, crawl, records
from tests.support.ftp_site import PASSWORD, USER, served_ftp
from tests.support.reports import read
from tests.support.site import Site, robots
from tests.support.storages import Broken

if TYPE_CHECKING:
    from collections.abc import Callable


RULES = "User-agent: *\nDisallow: /private\n"


def private(site: Site, count: int) -> list[str]:
    """Disallowed pages."""
    return [site.url(f"/private/{number}") for number in range(count)]


class Looking(Pages):
    """Reads the report when a page is dropped."""

    path: ClassVar[Path]
    seen: ClassVar[list[bool]]

    def failed(self, failure: Any) -> None:
        """Look for the record of the page."""
        self.seen.append(failure.request.url in {record["url"] for record in read(self.path)})


@ensureDeferred
async def test_a_record_is_written_at_once(site: Site, tmp_path: Path) -> None:
    """The errback of a dropped request finds its record in the file."""
    site.replies["/robots.txt"] = robots(RULES)
    Looking.path, Looking.seen = tmp_path / "r.jsonl", []
    await crawl(private(site, 3), {"ROBOTS_REPORT": {Looking.path: {}}}, spider=Looking)
    assert Looking.seen == [True] * 3


# What fails.


BROKEN = {"FEED_STORAGES": {"broken": "tests.support.storages.Broken"}}


@pytest.mark.parametrize(("where", "errors"), [("open", 8), ("store", 1)])
@ensureDeferred
async def test_a_storage_that_fails_changes_no_verdict(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
    errors: int,
) -> None:
    """If the storage fails, verdicts do not change, and one error with advice is logged."""
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
    assert error.startswith("ROBOTS_REPORT: cannot write to broken:x (OSError: ")
    assert error.endswith("for a full disk, missing permissions or an unreachable server")
    assert "secret" not in caplog.text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110 - a device
@pytest.mark.parametrize("format_", ["jsonlines", "json"])
@ensureDeferred
async def test_a_full_disk_is_one_error(
    site: Site, caplog: pytest.LogCaptureFixture, format_: str
) -> None:
    """If the disk is full, lost records are counted, and one error is logged."""
    site.replies["/robots.txt"] = robots(RULES)
    pages = [*private(site, 3), site.url("/a")]
    result = await crawl(pages, {"ROBOTS_REPORT": {"/dev/full": {"format": format_}}})
    assert result.outcomes[pages[3]] == 200
    assert result.stat("forbidden") == 3
    assert (result.stat("report/errors"), result.stat("report/records")) == (6, 0)
    assert (
        records(caplog, logging.INFO)[-1]
        == "ROBOTS_REPORT: wrote 0 decisions to /dev/full; failed writes: 6"
    )
    [error] = records(caplog, logging.ERROR)
    assert "cannot write to /dev/full (OSError: [Errno 28] No space left on device)" in error


class Hiccup(FileFeedStorage):
    """A storage that fails one write."""

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
    """A failed write loses one record, and the other records are readable in every format."""
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
    assert len(readers[format_]()) == 5  # with the last two, which are not decisions


@ensureDeferred
async def test_a_torn_last_line_is_ended(site: Site, tmp_path: Path) -> None:
    """A crawl that appends to a report whose last line is incomplete starts a new line."""
    site.replies["/robots.txt"] = robots(RULES)
    path = tmp_path / "r.jsonl"
    path.write_text('{"reason": "rule"}\n{"reason', encoding="utf-8")
    await crawl(private(site, 1), {"ROBOTS_REPORT": path})
    whole, torn, record, *_ = path.read_text(encoding="utf-8").splitlines()
    assert (whole, torn) == ('{"reason": "rule"}', '{"reason')
    assert json.loads(record)["url"] == site.url("/private/0")


@ensureDeferred
async def test_a_report_is_uploaded_at_the_end(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A report on an FTP server is uploaded at the end, and the log has no password."""
    site.replies["/robots.txt"] = robots(RULES)
    pages = private(site, 5)
    with served_ftp(tmp_path, "elradfmwMT") as netloc:
        address = f"ftp://{USER}:{PASSWORD}@{netloc}/all.jsonl"
        result = await crawl(pages, {"ROBOTS_REPORT": {address: {}}})
    assert sorted(record["url"] for record in read(tmp_path / "all.jsonl")) == pages
    assert (result.stat("report/records"), result.stat("report/errors")) == (5, 0)
    assert PASSWORD not in "".join(records(caplog, logging.DEBUG))
    assert records(caplog, logging.WARNING) == []
