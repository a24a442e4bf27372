"""The report during the crawl: records are written at once, and failures cost only records."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pytest
from pytest_twisted import ensureDeferred
from scrapy.extensions.feedexport import FileFeedStorage

from tests.support.crawling import Pages, crawl, records, short
from tests.support.ftp_site import PASSWORD, USER, served_ftp
from tests.support.reports import RULES, private, read, values
from tests.support.site import Site, robots

if TYPE_CHECKING:
    pass


class Looking(Pages):
    """Counts the records of a page when it is dropped."""

    def failed(self, failure: Any) -> None:
        """Read the report."""
        urls = [record["url"] for record in read(self.settings["ROBOTS_REPORT"])]
        self.outcomes[failure.request.url] = urls.count(failure.request.url)


@ensureDeferred
async def test_a_record_is_written_at_once(site: Site, tmp_path: Path) -> None:
    """The errback of a dropped request finds its record in the file."""
    site.replies["/robots.txt"] = robots(RULES)
    settings = {"ROBOTS_REPORT": tmp_path / "r.jsonl"}
    result = await crawl(private(site, 3), settings, spider=Looking)
    assert [*result.outcomes.values()] == [1, 1, 1]


# What fails.


class Broken(FileFeedStorage):
    """Fails in the call that its URI names."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        super().__init__(uri, feed_options=feed_options)
        self.call = uri.partition(":")[2]

    def open(self, spider: Any) -> Any:
        """Fail, or open a file."""
        if self.call == "open":
            raise OSError("no such server")
        return super().open(spider)

    def store(self, file: Any) -> Any:
        """Fail."""
        raise OSError("ftp://me:secret@host is gone")


@pytest.mark.parametrize(
    ("place", "format_", "written", "error"),
    [
        ("broken:open", "jsonlines", 0, "no such server"),
        ("broken:store", "jsonlines", 3, "ftp://host is gone"),
        ("/dev/full", "jsonlines", 0, "[Errno 28] No space left on device"),
        ("/dev/full", "json", 0, "[Errno 28] No space left on device"),
    ],
)
@ensureDeferred
async def test_a_place_that_fails_is_one_error(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
    format_: str,
    written: int,
    error: str,
) -> None:
    """If a report cannot be written, no verdict changes, lost records are counted, and one error
    with advice is logged.
    """
    monkeypatch.chdir(tmp_path)
    site.replies["/robots.txt"] = robots(RULES)
    pages = [*private(site, 3), site.url("/a")]
    settings = {"FEED_STORAGES": {"broken": Broken}}
    report = {"ROBOTS_REPORT": {place: {"format": format_}}}
    result = await crawl(pages, {**settings, **report})
    assert [short(result.outcomes[page]) for page in pages] == ["rule"] * 3 + [200]
    failed = 1 if written else 6  # the last records and the end also fail
    assert (result.stat("report/records"), result.stat("report/errors")) == (written, failed)
    assert records(caplog, logging.INFO)[-1] == (
        f"ROBOTS_REPORT: wrote {written} decisions to {place}; failed writes: {failed}"
    )
    [line] = records(caplog, logging.ERROR)
    assert line.startswith(f"ROBOTS_REPORT: cannot write to {place} (OSError: {error}). The crawl ")
    assert line.endswith("for a full disk, missing permissions or an unreachable server")
    assert "secret" not in caplog.text


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


@pytest.mark.parametrize("name", ["r.jsonl", "r.csv", "r.json", "r.xml"])
@ensureDeferred
async def test_a_write_that_fails_costs_one_record(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A failed write loses one record, and the other records are readable in every format."""
    site.replies["/robots.txt"] = robots(RULES)
    monkeypatch.chdir(tmp_path)
    settings = {"FEED_STORAGES": {"hiccup": Hiccup}, "ROBOTS_REPORT": f"hiccup:{name}"}
    result = await crawl(private(site, 4), settings)
    assert (result.stat("report/records"), result.stat("report/errors")) == (3, 1)
    # With the last two records, which are not decisions.
    assert len(values(tmp_path / f"hiccup:{name}")) == 5


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
