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
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.command_copies import Done

    OriginPolicy = Callable[..., Done]

pytestmark = pytest.mark.once

ADVICE = (
    "most of its lines are no records; name a file that this setting wrote as JSON lines, "
    "unpacked, each with one of the fields dry_run, reason, robots_url, rule, token, why\n"
)


def written(exporter_class: Any, **options: Any) -> bytes:
    """Two records in another format of Scrapy's."""
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
    ],
    ids=["XML", "CSV", "JSON array", "JSON array in one line", "packed"],
)
def test_other_formats_are_refused(octets: bytes, tmp_path: Path) -> None:
    """Other formats of Scrapy's are refused in one line, and never summed up in part."""
    (tmp_path / "r").write_bytes(octets)
    done = run("report", "r", folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"scrapy robots report: r is no report of ROBOTS_REPORT: {ADVICE}"
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize(
    "octets",
    [
        b"User-agent: *\nDisallow: /\n",
        b'{"title": "a"}\n',
        b'[{"url": "https://a.example/"}]',
        b"url,title\nhttps://a.example,A\n",
        b"\0\1\2\3" * 100,
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b'[{"a": 1' * 1000,
        b"\x1f\x8b is broken",
        "{}".encode("utf-16"),
    ],
    ids=str,
)
def test_files_without_records_are_refused(
    octets: bytes, robots: OriginPolicy, tmp_path: Path
) -> None:
    """A file without such records is refused in one line, with the exit code 2."""
    (tmp_path / "r").write_bytes(octets)
    done = robots("report", str(tmp_path / "r"))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        f"scrapy robots report: {tmp_path / 'r'} is no report of ROBOTS_REPORT: "
    )
    assert done.err.endswith(ADVICE)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["nothere"],
            (
                "nothere cannot be read: No such file or directory; name another file, or - for"
                " standard input"
            ),
        ),
        (["."], ". cannot be read: Is a directory; "),
        (
            ["good", "--html", "good"],
            "good cannot be written over, since it is no file, or one that is read; name ",
        ),
        (["good", "--html", "./link"], "./link cannot be written over"),
        (["good", "--html", "."], ". cannot be written over"),
        (["good", "--html", "/dev/null"], "/dev/null cannot be written over"),
        (["good", "--html", "-"], "- cannot be written over"),
        (
            ["good", "--html", "n" * 300],
            f"{'n' * 300} cannot be written: File name too long; ",
        ),
        (
            ["good", "--html", "no/where.html"],
            "where.html cannot be written: No such file or directory; ",
        ),
    ],
)
def test_what_cannot_be_read_or_written_is_named_in_one_line(
    arguments: list[str], says: str, tmp_path: Path
) -> None:
    """What cannot be read or written is named in one line, with what to do.

    The exit code is 2, nothing is written.
    """
    (tmp_path / "good").write_bytes(exported(FEW))
    (tmp_path / "link").symlink_to("good")
    done = run("report", *arguments, folder=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert says in done.err
    assert (tmp_path / "good").read_bytes() == exported(FEW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", "link"]
