"""`scrapy robots report`: what it refuses, in one line with what to do, and the exit code 2."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.exporters import CsvItemExporter, JsonItemExporter, XmlItemExporter

from tests.support.command_line import run
from tests.support.reports import FEW, exported, record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.once

ADVICE = (
    "most of its lines are not records; expected an uncompressed JSON Lines file written by"
    " ROBOTS_REPORT, each line with one of the fields dry_run, reason, robots_url, rule, token,"
    " why\n"
)


def written(exporter_class: Any, **options: Any) -> bytes:
    """Two records in another format of Scrapy."""
    file = io.BytesIO()
    exporter = exporter_class(file, **options)
    exporter.start_exporting()
    for _ in range(2):
        exporter.export_item(record())
    exporter.finish_exporting()
    return file.getvalue()


@pytest.mark.parametrize(
    "octets",
    [
        written(XmlItemExporter),
        written(CsvItemExporter),
        written(JsonItemExporter, indent=0),
        json.dumps([record(), record()]).encode(),
        gzip.compress(b"", mtime=0),
        b"User-agent: *\nDisallow: /\n",
        b'{"title": "a"}\n',
        b"\0\1\2\3" * 100,
        b'{"a":' * 100_000,
        "{}".encode("utf-16"),
    ],
    ids=[
        *("XML", "CSV", "JSON array", "JSON array in one line", "packed", "robots.txt"),
        *("other objects", "binary", "deep", "UTF-16"),
    ],
)
def test_other_files_are_refused(octets: bytes, tmp_path: Path) -> None:
    """A file that is not a report in JSON lines is refused in one line, and not summed up."""
    (tmp_path / "r").write_bytes(octets)
    done = run("report", "r", folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"scrapy robots report: r is not a report of ROBOTS_REPORT: {ADVICE}"
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


UNREAD = "cannot be read: No such file or directory; name another file, or - for standard input"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nothere"], f"nothere {UNREAD}"),
        (["."], ". cannot be read: Is a directory; "),
        (["good", "--html", "-"], "refusing to write to -: it is not a file; name another file"),
        (["good", "--html", "/dev/null"], "refusing to write to /dev/null: it is not a file"),
        (["good", "--html", "n" * 300], f"{'n' * 300} cannot be written: File name too long; "),
        (["good", "--run", "one"], "argument --run: invalid int value: 'one'"),
    ],
)
def test_what_cannot_be_read_or_written_is_named(
    arguments: list[str], text: str, tmp_path: Path
) -> None:
    """A file that cannot be read or written is named, with what to do, and nothing is written."""
    (tmp_path / "good").write_bytes(exported(FEW))
    done = run("report", *arguments, folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert text in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["good"]
